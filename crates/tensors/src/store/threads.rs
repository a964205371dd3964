//! Work that several threads share.
use esker_types::{Error, Result};
use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;

/// Threads that work at once, the caller's included: one alone does not use the whole memory bandwidth, a few do.
const THREADS_MAX: usize = 4;

/// Bytes that justify starting a thread.
const SHARE: u64 = 8 << 20;

/// Does all jobs, which move `bytes` bytes together; several threads take part if it is much. After a failure no more
/// jobs start.
///
/// # Errors
/// One of those that jobs ended with.
pub(super) fn share<J: Send>(
    jobs: Vec<J>,
    bytes: u64,
    work: impl Fn(J) -> Result<()> + Sync,
) -> Result<()> {
    let processors = available_parallelism().map_or(1, usize::from);
    let most = THREADS_MAX.min(processors).min(jobs.len());
    let others = usize::try_from(bytes / SHARE).unwrap_or(most).min(most).saturating_sub(1);
    let (left, failed) = (Mutex::new(jobs.into_iter()), Mutex::new(None));
    let take_part = || {
        while let Some(job) = next(&left, &failed) {
            if let Err(error) = work(job) {
                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..others {
            // Without memory for another thread, this one does it all.
            let _ = std::thread::Builder::new().spawn_scoped(scope, take_part);
        }
        take_part();
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

fn next<J>(left: &Mutex<std::vec::IntoIter<J>>, failed: &Mutex<Option<Error>>) -> Option<J> {
    let has_failed = failed.lock().unwrap_or_else(PoisonError::into_inner).is_some();
    let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
    if has_failed { None } else { left.next() }
}
