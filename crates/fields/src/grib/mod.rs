//! GRIB, editions 1 and 2: messages in files and streams, and the keys of their fields.
//!
//! [`Scan`] and [`Messages`] find messages, [`Fields`] takes those with several fields apart. [`Identify`] tells
//! the key of a field: [`EcCodes`] asks ecCodes, [`Learned`] asks only for what is new to it, and [`Labelled`]
//! files under labels of its own what has none.
mod frame;
mod header;
mod identify;
mod labelled;
mod learned;
mod messages;
mod octets;
mod split;

pub use identify::{EcCodes, Identify};
pub use labelled::Labelled;
pub use learned::Learned;
pub use messages::{Message, Messages, Scan, Skipped};
pub use split::Fields;
