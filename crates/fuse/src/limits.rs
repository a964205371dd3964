//! All limits of the mount.
use std::time::Duration;

/// Largest single write or read request of the kernel, in bytes.
pub const REQUEST_BYTES_MAX: u32 = 1 << 20;

/// How far the kernel reads ahead, in bytes, if the mount may say so.
pub const READ_AHEAD_BYTES: u64 = REQUEST_BYTES_MAX as u64;

/// Smallest file, in bytes, that is read without the kernel's cache for the first time after it was written.
pub const LARGE_FILE_MIN: u64 = 8 << 20;

/// Smallest mean size of the write requests, in bytes, of a file that is read without the kernel's cache.
pub const LARGE_REQUEST_MIN: u64 = 512 << 10;

/// Mean size of read requests, in bytes, below which a program reads a file in small parts through the kernel's cache.
pub const SMALL_REQUEST_MAX: u64 = 64 << 10;

/// Read requests before their mean size counts, since libraries read the header of a file first.
pub const SMALL_READS_MAX: u64 = 64;

/// Most threads that answer the kernel.
pub const THREADS_MAX: usize = 64;

/// Most memory, in bytes, of the entries through which the kernel sends requests over io_uring. It is used only as far as
/// requests fill it. Machines with many processors have smaller requests in place of more memory.
pub const RING_BYTES_MAX: usize = 256 << 20;

/// Smallest payload of an entry, in bytes. With less, the kernel uses the device.
pub const RING_PAYLOAD_MIN: u32 = 128 << 10;

/// Most threads of one processor's queue that long operations may start. A queue starts with two. Writes that wait for
/// the kernel to drop pages start further threads without a limit: one each, so at most one for each waiting program.
pub const RING_THREADS_MAX: usize = 128;

/// How long a write waits for the kernel to drop pages if the system starts no thread to serve the queue meanwhile.
pub const RING_UNSERVED_MAX: Duration = Duration::from_secs(5);

/// Open files that a mount over io_uring may have: an entry has one.
pub const RING_FILES_MAX: u64 = 1 << 16;

/// Most background requests (read-ahead, write-back) that the kernel may have pending.
pub const BACKGROUND_MAX: u16 = 64;

/// Most bytes that one `copy_file_range` copies; callers continue from there.
pub const COPY_BYTES_MAX: u64 = 64 << 20;

/// How long the kernel may cache names and attributes.
pub const FRESH: Duration = Duration::from_secs(1);

/// How long the kernel may cache names and attributes of a snapshot, which never changes.
pub const FRESH_SNAPSHOT: Duration = Duration::from_secs(24 * 3600);

/// How long [`unmount`](crate::unmount()) waits for the process that served the mount to end.
pub const ENDING_MAX: Duration = Duration::from_secs(60);
