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

/// Chunks of a file that one write sends at a time, where replies take a while.
pub const CHUNKS_MAX: usize = 16;

/// Leases of closed files that a process keeps, where replies take a while, before it ends them together.
pub const CLOSING_MAX: usize = 64;

/// Leases for new files that a process takes at a time, where replies take a while.
pub const FRESH_MAX: usize = 64;

/// Entries of a directory that a listing holds in memory at a time.
pub const LIST_BATCH: usize = 1024;

/// Entries that a process remembers as it last saw them, where replies take a while.
pub const SEEN_MAX: usize = 64 << 10;

/// Entries that a process keeps while leases on them last, where replies take a while.
pub const KEPT_MAX: usize = 64 << 10;

/// Directories of which a process counts the entries that it had not seen before it looked for them.
pub const READ_AHEAD_MAX: usize = 1024;

/// Steps of a path that a process asks for at a time, where replies take a while.
pub const STEPS_MAX: usize = 16;

/// Directories for which a process keeps the proof that they are where it saw them, where replies take a while.
pub const PROVED_MAX: usize = 1024;

/// Directories that a process knows by a proof.
pub const KNOWN_MAX: usize = 1024;

/// Directories with pending times; beyond this, times are stored immediately.
pub const WAITING_TIMES_MAX: usize = 1024;

/// Directories that a process remembers it has moved.
pub const MOVES_MAX: usize = 1024;

/// Attempts of a transaction that meets conflicts; then the caller is told to retry later.
pub const RETRIES_MAX: u32 = 10_000;

/// Attempts to use what a path names while it keeps vanishing and the path still leads to it: two names may be
/// exchanged all the time.
pub const SAME_MAX: u32 = 8;

/// Attempts to find the entry of an open file that has just lost its name: the remover may have been killed.
pub const LOOKS_MAX: u32 = 1000;

/// Smallest and largest chunk of a file in bytes.
pub const CHUNK_BYTES: std::ops::RangeInclusive<u64> = 1..=1 << 30;
