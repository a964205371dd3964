//! Every bound of the file system in one place.

/// Longest name of a file or directory in bytes (POSIX: `NAME_MAX`).
pub const NAME_MAX: usize = 255;

/// Longest path, and longest target of a symbolic link, in bytes (POSIX: `PATH_MAX`).
pub const PATH_MAX: usize = 4096;

/// Directories that may stand inside each other.
pub const DEPTH_MAX: u32 = 2048;

/// Symbolic links that a path may lead through (Linux: 40).
pub const LINKS_MAX: usize = 40;

/// Longest name of an extended attribute in bytes.
pub const XATTR_NAME_MAX: usize = 255;

/// Longest value of an extended attribute in bytes (Linux: `XATTR_SIZE_MAX`).
pub const XATTR_VALUE_MAX: usize = 64 << 10;

/// Largest size of a file in bytes.
pub const FILE_SIZE_MAX: u64 = i64::MAX as u64;

/// Entries of a directory that a listing holds in memory at a time.
pub const LIST_BATCH: usize = 1024;

/// Directories whose times wait to be stored; beyond it they are stored at once.
pub const WAITING_TIMES_MAX: usize = 1024;

/// Directories that a process remembers it has moved.
pub const MOVES_MAX: usize = 1024;

/// Times a transaction is tried anew after conflicts before the caller is told to try later.
pub const RETRIES_MAX: u32 = 10_000;

/// Times something that is gone is found by the same name before that is believed: two names may be exchanged all
/// the time.
pub const SAME_MAX: u32 = 8;

/// Times the entry of an open file is looked for that has just lost its name: whoever removed it may have been killed.
pub const LOOKS_MAX: u32 = 1000;

/// Smallest and largest chunk of a file in bytes.
pub const CHUNK_BYTES: std::ops::RangeInclusive<u64> = 1..=1 << 30;
