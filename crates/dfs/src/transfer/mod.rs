//! Copies whole trees: from the host's file system into Esker, back, and within Esker.
//!
//! One walker lists directories and creates them on the other side; workers copy their content. Large files are split
//! into parts that several workers copy at once. The limits below bound memory, whatever the size of the tree: a queue
//! of [`QUEUE_MAX`] names, a buffer of [`BUFFER_BYTES`] for each worker, and the names of the directories that are
//! still to be listed.
//!
//! A copy that was killed can be resumed without a journal. A file gets its modification time last, so a file with the
//! size and time of its original is complete; any other is copied again. Directories get their times after their
//! content.
mod file;
mod host;
mod inside;

mod progress;
mod queue;
mod tree;
mod walk;
mod worker;

pub use host::{Host, HostFile};
pub use inside::Inside;

pub use progress::{Failure, Progress, Summary};
pub use tree::{Child, Meta, Tree};

use esker::types::Result;
use queue::Queue;
use worker::Copier;

/// Names that wait for a worker.
pub const QUEUE_MAX: usize = 4096;

/// Bytes that a worker copies at a time.
pub const BUFFER_BYTES: usize = 1 << 20;

/// Bytes of a large file that one worker copies at a stretch.
pub const PART_BYTES: u64 = 64 << 20;

/// Most workers of one copy.
pub const WORKERS_MAX: usize = 64;

/// Failures that a summary lists; any more are only counted.
pub const FAILURES_MAX: usize = 1000;

/// Options of a copy.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads that copy, at most [`WORKERS_MAX`]; 0 for one per processor.
    pub workers: usize,
    /// Keep times, modes, owners and extended attributes. Otherwise copies get the modes of their originals less
    /// `mask`, the caller as owner, and the current time.
    pub keep: bool,
    /// Mode bits to clear without `keep` (POSIX: the umask).
    pub mask: u32,
    /// Skip files that exist with the same size and modification time.
    pub resume: bool,
    /// Read back copied and skipped files and compare them with their originals.
    pub verify: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { workers: 0, keep: true, mask: 0, resume: true, verify: false }
    }
}

/// The destination of a copy.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a, N> {
    /// This name in a directory.
    Name(&'a N, &'a [u8]),
    /// The content of the original goes into this existing directory.
    Into(&'a N),
}

/// Copies `source` of the tree `from` to `target` in the tree `to`, with everything below it. Failures of single
/// entries are recorded in `progress`, and the rest is copied.
///
/// # Errors
/// If `source` cannot be read, or its directory cannot be created: then nothing is copied.
pub fn copy<S: Tree, D: Tree>(
    (from, source): (&S, &S::Node),
    (to, target): (&D, Target<'_, D::Node>),
    options: &Options,
    progress: &Progress,
) -> Result<()> {
    let queue = Queue::new(QUEUE_MAX);
    let copier = Copier { from, to, options, progress, queue: &queue };
    std::thread::scope(|scope| {
        let start = |_| std::thread::Builder::new().spawn_scoped(scope, || copier.work());
        let started: Vec<_> = (0..workers(options.workers)).map(start).collect();
        if let [Err(error), ..] = &started[..] {
            queue.close();
            return Err(esker_os::no_thread_error(error));
        }
        let walked = copier.walk(source, target);
        queue.close();
        walked
    })
}

/// Number of threads that copy: `wanted`, or one per processor if that is 0; at most [`WORKERS_MAX`].
fn workers(wanted: usize) -> usize {
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    let count = if wanted == 0 { all() } else { wanted };
    count.clamp(1, WORKERS_MAX)
}
