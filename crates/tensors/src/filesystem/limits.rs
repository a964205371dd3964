//! Every bound of the file system of tensors in one place.

/// Directories and files whose ids are cached. For another id, the complete store is searched.
pub const PLACES_MAX: usize = 64 << 10;

/// Seconds after a failed search for an id during which the search is not repeated.
pub const MISSING_SECONDS: u64 = 1;
