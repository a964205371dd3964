//! Limits of pending operations.

/// Most pending operations of a connection; starting another one waits.
pub const OPERATIONS_MAX: usize = 256;

/// Most bytes of all of them together.
pub const BYTES_MAX: usize = 128 << 20;

/// Seconds after which operations time out, unless the configuration says otherwise.
pub const TIMEOUT_SECONDS: u32 = 30;

/// Longest value of a setting, in bytes.
pub(crate) const SETTING_MAX: usize = 4096;
