//! Objects in memory, and what each operation makes of them. The memory backend keeps whole containers this way;
//! others load what an operation needs, apply it, and store what has changed.
pub mod conflicts;
pub mod history;
pub mod list;
pub mod overlay;
mod query;
pub mod read;
pub mod records;
pub mod tree;
