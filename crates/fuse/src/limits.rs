//! Every bound of the mount in one place.
use std::time::Duration;

/// Largest write, and largest read, that the kernel hands over at once, in bytes.
pub const REQUEST_BYTES_MAX: u32 = 1 << 20;

/// Largest number of threads that answer the kernel.
pub const THREADS_MAX: usize = 64;

/// Reads ahead and other work behind the back of programs that the kernel may have under way.
pub const BACKGROUND_MAX: u16 = 64;

/// Most bytes that one `copy_file_range` copies; callers go on from there.
pub const COPY_BYTES_MAX: u64 = 64 << 20;

/// How long the kernel may answer from what it was told of a name or a file.
pub const FRESH: Duration = Duration::from_secs(1);

/// The same for a snapshot, which never changes.
pub const FRESH_SNAPSHOT: Duration = Duration::from_secs(24 * 3600);

/// How long [`unmount`](crate::unmount()) waits for the process that served the mount to end.
pub const ENDING_MAX: Duration = Duration::from_secs(60);
