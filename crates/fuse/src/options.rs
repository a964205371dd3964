//! Mount options.
use crate::limits::THREADS_MAX;
use std::thread::available_parallelism;

/// Data of files that the kernel may cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cache {
    /// No data: every read and write of a program goes to the store. Shared writable mappings do not work.
    None,
    /// Data that was read or written, until the file changes. Writes reach the store before they return.
    #[default]
    Auto,
    /// Writes as well, which reach the store at `fsync`, at `close`, or when the kernel chooses. Only for files that
    /// change through this mount alone.
    Writeback,
}

/// The way in which the kernel sends requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// io_uring if the kernel has it for FUSE, else the device.
    #[default]
    Auto,
    /// The device `/dev/fuse`.
    Device,
    /// io_uring (Linux 6.14).
    IoUring,
}

/// Mount options; the default is what `esker mount` uses without options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The source shown in the mount table and by `df`.
    pub source: String,
    /// Data of files that the kernel may cache.
    pub cache: Cache,
    /// The way in which the kernel sends requests.
    pub transport: Transport,
    /// Threads that answer the kernel: 1 to [`THREADS_MAX`]. With io_uring, each processor has at least two.
    pub threads: usize,
    /// The file system is a snapshot, so the kernel may cache everything.
    pub snapshot: bool,
    /// Other users may access it, as far as file modes permit.
    pub allow_other: bool,
}

impl Default for Options {
    fn default() -> Self {
        let threads = available_parallelism().map_or(2, usize::from).clamp(2, THREADS_MAX);
        Self {
            source: "esker".to_owned(),
            cache: Cache::Auto,
            transport: Transport::Auto,
            threads,
            snapshot: false,
            allow_other: false,
        }
    }
}
