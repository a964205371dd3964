//! The field store: weather and climate fields by key, on the objects of Esker.
//!
//! A field is bytes under a [`Key`], such as `class=od,date=20200131,step=24,param=167`. A [`schema::Schema`]
//! says which names a key has, of which type each value is, and how a key splits into the three levels of
//! the store: database, index, datum. A [`request::Request`] in the MARS language names many fields at once;
//! expanded by a schema it is a [`request::Selection`]. The languages are described in `docs/fields.md`.
//!
//! A [`FieldStore`] stores fields in a container. A [`FieldWriter`] archives and flushes them; readers list, find and
//! read the flushed fields. [`grib`] finds GRIB messages and the keys of their fields.
#![deny(unsafe_code)]

mod axes;
mod cursor;
mod date;
pub mod eccodes;
pub mod grib;
mod key;
mod kinds;
pub mod limits;
pub mod request;
pub mod schema;
mod store;

pub use axes::Axes;
pub use date::Date;
pub use key::{Key, Pairs};
pub use kinds::KeyType;
pub use request::Selection;
pub use schema::{Schema, Split};
pub use store::{
    Checked, Counted, Field, FieldLocation, FieldStore, FieldWriter, Found, Holder, Listed, Lost,
    Moved, Moving, NewFields, Purged, Stats, Watch, Wiped, bytes_of, read_ahead, read_together,
};
