//! How a file system is mounted.
use crate::limits::THREADS_MAX;
use std::thread::available_parallelism;

/// What the kernel may keep of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cache {
    /// Nothing: every read and write of a program is one of the store. Shared writable mappings do not
    /// work.
    None,
    /// What was read or written, as long as the file does not change. Writes go to the store before
    /// they return.
    #[default]
    Auto,
    /// Also writes, which go to the store later: at `fsync`, at `close`, or when the kernel sees fit. For
    /// files that nobody changes except through this mount.
    Writeback,
}

/// How a file system is mounted; `Default` is what `esker mount` does without options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What stands as the source in the table of mounts, and in the output of `df`.
    pub source: String,
    /// What the kernel may keep of files.
    pub cache: Cache,
    /// Threads that answer the kernel: 1 to [`THREADS_MAX`].
    pub threads: usize,
    /// It is the state of a snapshot, so the kernel may keep all that it was told.
    pub snapshot: bool,
    /// True where other users may come in, as far as the modes of files let them.
    pub allow_other: bool,
}

impl Default for Options {
    fn default() -> Self {
        let threads = available_parallelism().map_or(2, usize::from).clamp(2, THREADS_MAX);
        Self {
            source: "esker".to_owned(),
            cache: Cache::Auto,
            threads,
            snapshot: false,
            allow_other: false,
        }
    }
}
