//! A chained hash table whose links lie inside the caller's records (`gurt/hash.h`).
mod functions;
mod records;
mod table;

pub use functions::*;
pub use records::*;
pub use table::*;
