//! Distribution of work over several threads.
use esker_os::Processors;
use esker_types::{Error, Result};
use std::sync::{Mutex, PoisonError};

/// Most threads that work at once, the caller's included. A few threads use the full memory bandwidth; one does not.
const THREADS_MAX: usize = 4;

/// Bytes that justify starting a thread.
const SHARE: u64 = 8 << 20;

/// Runs all jobs, which move `bytes` bytes in total. Several threads take part if that is much. After a failure no more
/// jobs start.
///
/// # Errors
/// An error of one of the jobs.
pub(super) fn share<J: Send>(
    jobs: Vec<J>,
    bytes: u64,
    work: impl Fn(J) -> Result<()> + Sync,
) -> Result<()> {
    let processors = Processors::for_helpers();
    let most = THREADS_MAX.min(processors.count()).min(jobs.len());
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
            let help = || {
                processors.use_here();
                take_part();
            };
            // If memory for another thread is missing, this thread does all the work.
            let _ = std::thread::Builder::new().spawn_scoped(scope, help);
        }
        take_part();
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// The next job; `None` at the end, or if a job has failed.
fn next<J>(left: &Mutex<std::vec::IntoIter<J>>, failed: &Mutex<Option<Error>>) -> Option<J> {
    let has_failed = failed.lock().unwrap_or_else(PoisonError::into_inner).is_some();
    let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
    if has_failed { None } else { left.next() }
}
