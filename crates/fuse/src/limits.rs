//! All limits of the mount.
use std::time::Duration;

/// Largest single write or read request of the kernel, in bytes.
pub const REQUEST_BYTES_MAX: u32 = 1 << 20;

/// Most threads that answer the kernel.
pub const THREADS_MAX: usize = 64;

/// Most background requests (read-ahead, write-back) that the kernel may have pending.
pub const BACKGROUND_MAX: u16 = 64;

/// Most bytes that one `copy_file_range` copies; callers continue from there.
pub const COPY_BYTES_MAX: u64 = 64 << 20;

/// How long the kernel may cache names and attributes.
pub const FRESH: Duration = Duration::from_secs(1);

/// The same for a snapshot, which never changes.
pub const FRESH_SNAPSHOT: Duration = Duration::from_secs(24 * 3600);

/// How long [`unmount`](crate::unmount()) waits for the process that served the mount to end.
pub const ENDING_MAX: Duration = Duration::from_secs(60);
