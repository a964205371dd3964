//! Copies of whole trees: from the host's file system into this one, back, and within it.
//!
//! One walker lists directories and makes them on the other side; workers copy what is in them. Large files
//! are cut into parts that several workers copy at once. Memory is bounded by the limits below, whatever the
//! size of the tree: a queue of [`QUEUE_MAX`] names, a buffer of [`BUFFER_BYTES`] for each worker, and the
//! names of the directories that are still to be listed.
//!
//! A copy needs no notes of its own to go on after it was killed. The time of modification is the last thing
//! that a file gets, so one that has the size and the time of its original is whole; any other is written
//! anew. Directories get theirs when all that is in them is done.
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

/// Bytes that a worker moves at a time.
pub const BUFFER_BYTES: usize = 1 << 20;

/// Bytes of a large file that one worker copies at a stretch.
pub const PART_BYTES: u64 = 64 << 20;

/// Most workers of one copy.
pub const WORKERS_MAX: usize = 64;

/// Failures that a summary lists; more are only counted.
pub const FAILURES_MAX: usize = 1000;

/// How a tree is copied.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads that copy, at most [`WORKERS_MAX`]; 0 for one for each processor.
    pub workers: usize,
    /// Keep times, modes, owners and extended attributes. Without it things get the modes of their
    /// originals less `mask`, and are the caller's and new.
    pub keep: bool,
    /// Mode bits to take away where nothing is kept (POSIX: the umask).
    pub mask: u32,
    /// Leave alone what is there already with the same size and time of modification.
    pub resume: bool,
    /// Read back what was written, and what is left alone, and compare checksums.
    pub verify: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { workers: 0, keep: true, mask: 0, resume: true, verify: false }
    }
}

/// Where a copy goes.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a, N> {
    /// To this name in a directory.
    Name(&'a N, &'a [u8]),
    /// What is in the original goes into this directory, which is there.
    Into(&'a N),
}

/// Copies the thing `source` of `from` to `target` of `to`, with all that is below it where it is a
/// directory. What goes wrong with single things is noted in `progress`, and the rest is copied.
///
/// # Errors
/// Where `source` cannot be looked at, or its directory cannot be made: then nothing was copied.
pub fn copy<S: Tree, D: Tree>(
    (from, source): (&S, &S::Node),
    (to, target): (&D, Target<'_, D::Node>),
    options: &Options,
    progress: &Progress,
) -> Result<()> {
    let queue = Queue::new(QUEUE_MAX);
    let copier = Copier { from, to, options, progress, queue: &queue };
    std::thread::scope(|scope| {
        for _ in 0..workers(options.workers) {
            scope.spawn(|| copier.work());
        }
        let walked = copier.walk(source, target);
        queue.close();
        walked
    })
}

fn workers(wanted: usize) -> usize {
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    let count = if wanted == 0 { all() } else { wanted };
    count.clamp(1, WORKERS_MAX)
}
