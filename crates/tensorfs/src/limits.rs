//! Every bound of the file system of tensors in one place.

/// Directories and files whose ids are kept. One that was forgotten is looked for in the whole store.
pub const PLACES_MAX: usize = 64 << 10;

/// How long an id that was looked for in vain is not looked for again, in seconds.
pub const MISSING_SECONDS: u64 = 1;
