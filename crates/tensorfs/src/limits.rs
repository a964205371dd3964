//! Every bound of the file system of tensors in one place.

/// Directories and files whose ids are kept. One that was forgotten is looked for in the whole store.
pub const PLACES_MAX: usize = 64 << 10;
