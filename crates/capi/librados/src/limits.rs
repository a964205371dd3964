//! The bounds of what is under way at a time.

/// Most operations of a connection that are under way; whoever begins another waits.
pub const OPERATIONS_MAX: usize = 256;

/// Most bytes they carry together.
pub const BYTES_MAX: usize = 128 << 20;

/// Seconds after which an operation that got no answer fails, unless the configuration says otherwise.
pub const TIMEOUT_SECONDS: u32 = 30;

/// Longest value of a setting that is read, in bytes.
pub(crate) const SETTING_MAX: usize = 4096;
