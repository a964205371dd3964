//! Objects in memory, and the effect of each operation on them. The memory backend keeps whole containers in this
//! form; other backends load the part that an operation needs, apply the operation, and store the changes.
pub mod conflicts;
pub mod history;
pub mod list;
pub mod overlay;
mod query;
pub mod read;
pub mod records;
pub mod tree;
