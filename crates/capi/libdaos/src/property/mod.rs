//! Properties of pools and containers (`daos_prop.h`): what there is, and lists of them.
pub mod acl_entries;
pub mod list;
pub(crate) mod table;
mod text;
pub(crate) mod value;

pub use text::daos_prop_from_str;
