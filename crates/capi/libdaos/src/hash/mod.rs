//! A chained hash table whose links lie inside the caller's records (`gurt/hash.h`).
mod records;
mod table;

pub use records::*;
pub use table::*;
