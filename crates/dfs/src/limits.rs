//! All limits of the file system.

/// Longest name of a file or directory in bytes (POSIX: `NAME_MAX`).
pub const NAME_MAX: usize = 255;

/// Longest path, and longest target of a symbolic link, in bytes (POSIX: `PATH_MAX`).
pub const PATH_MAX: usize = 4096;

/// Depth of nested directories.
pub const DEPTH_MAX: u32 = 2048;

/// Symbolic links that a path may lead through (Linux: 40).
pub const LINKS_MAX: usize = 40;

/// Longest name of an extended attribute in bytes.
pub const XATTR_NAME_MAX: usize = 255;

/// Longest value of an extended attribute in bytes (Linux: `XATTR_SIZE_MAX`).
pub const XATTR_VALUE_MAX: usize = 64 << 10;

/// Largest size of a file in bytes.
pub const FILE_SIZE_MAX: u64 = i64::MAX as u64;

/// Chunks of a file that one write sends concurrently over the network.
pub const CHUNKS_MAX: usize = 16;

/// Leases of closed files that a process holds, over the network, before it releases them in one message.
pub const DEFERRED_CLOSES_MAX: usize = 64;

/// Leases for new files that a process acquires in one message, over the network.
pub const NEW_FILE_LEASES_MAX: usize = 64;

/// Entries of a directory that a listing holds in memory at a time.
pub const LIST_BATCH: usize = 1024;

/// Entries that one transaction removes.
pub const REMOVALS_MAX: usize = 1024;

/// Attempts of a transaction that removes several entries and meets conflicts; then each half is removed on its own.
pub const REMOVAL_TRIES_MAX: u32 = 8;

/// Entries whose last seen inode a process remembers to predict paths, over the network.
pub const ENTRY_HINTS_MAX: usize = 64 << 10;

/// Removed files whose content a process frees in one request to each node, in a file system that is relaxed.
pub const DEFERRED_REMOVALS_MAX: usize = 64;

/// Deferred changes that a process fails to make one after the other, because a node is away, before it leaves the others
/// to the next attempt: times to store, and removed files whose content is to be freed.
pub const DEFERRED_FAILURES_MAX: usize = 8;

/// Entries that a process caches under read leases, over the network.
pub const ENTRY_CACHE_MAX: usize = 64 << 10;

/// Directories for which a process counts cache misses to decide on read-ahead.
pub const READ_AHEAD_MAX: usize = 1024;

/// Entries of a path that a process fetches concurrently over the network.
pub const STEPS_MAX: usize = 16;

/// Directories for which a process caches a proof of their path, over the network.
pub const VALIDATED_PATHS_MAX: usize = 1024;

/// Directories on paths that a process caches, each with a proof that it has not changed.
pub const DIRECTORY_CACHE_MAX: usize = 1024;

/// Directories with pending times; beyond this, times are stored immediately.
pub const PENDING_TIMES_MAX: usize = 1024;

/// Directories whose new location a process remembers after it moved them.
pub const MOVES_MAX: usize = 1024;

/// Seconds for which the new location of a renamed directory is stored, on pools whose directories have no marks
/// (`daos:`).
pub const MOVED_DIRECTORY_SECONDS: u64 = 3600;

/// Seconds for which the content of a file without a name is kept for processes that may have it open, on pools that do
/// not show the leases of other processes.
pub const ORPHAN_SECONDS: u64 = 48 * 3600;

/// Attempts of a transaction that meets conflicts; then the call fails with `ErrorKind::Again`.
pub const RETRIES_MAX: u32 = 10_000;

/// Attempts to use a node that vanishes although its path still leads to it: another process may exchange two names
/// repeatedly.
pub const SAME_MAX: u32 = 8;

/// Attempts to find the entry of an open file that has just lost its name: the remover may have been killed.
pub const LOOKS_MAX: u32 = 1000;

/// Smallest and largest chunk of a file in bytes.
pub const CHUNK_BYTES: std::ops::RangeInclusive<u64> = 1..=1 << 30;
