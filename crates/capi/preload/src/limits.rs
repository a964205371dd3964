//! Limits of this library. Each is described in docs/semantics.md.

/// Descriptors below this number can be files of the mount point.
pub(crate) const DESCRIPTORS_MAX: usize = 65_536;

/// Most bytes of one read or write, as in Linux.
pub(crate) const TRANSFER_MAX: usize = 0x7fff_f000;

/// Longest path (POSIX: `PATH_MAX`).
pub(crate) const PATH_MAX: usize = 4096;

/// Symbolic links followed for one path (Linux: 40).
pub(crate) const LINKS_MAX: usize = 40;

/// Preferred size of reads and writes in bytes (POSIX: `st_blksize`).
pub(crate) const BLOCK_SIZE: u64 = 65_536;

/// Descriptors that are kept free at the upper end for the store.
pub(crate) const INTERNAL_MAX: u64 = 256;

/// Closed files whose leases this process keeps, because processes that inherited them have them open.
pub(crate) const LEFT_OPEN_MAX: usize = 256;

/// Lock files that a process keeps open after it has closed their objects.
pub(crate) const LOCK_FILES_KEPT: usize = 16;

/// Different notes that one process writes to the report.
pub(crate) const NOTES_MAX: usize = 64;

/// Counters of mapped files that all processes of a pool share. Two files with the same counter only slow each other
/// down.
pub(crate) const MAPPED_COUNTERS: usize = 1 << 16;

/// Private mappings of files that a process can have (Linux: 65,530 mappings in all).
pub(crate) const PRIVATE_MAPS_MAX: usize = 65_536;
