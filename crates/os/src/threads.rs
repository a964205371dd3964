//! Threads on systems that may start no more of them.
use esker_types::{Error, Result};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{Builder, JoinHandle, Scope};

/// Starts a thread.
///
/// # Errors
/// The error of the system, with the settings that limit the number of threads.
pub fn start_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    Builder::new().spawn(work).map_err(|error| no_thread_error(&error))
}

/// Starts up to `count` threads of a scope, each of which runs `work`. If the system starts none, the calling thread
/// runs it.
pub fn run_on_threads<'scope, W: FnOnce() + Clone + Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    count: usize,
    work: W,
) {
    let start = |_: &usize| Builder::new().spawn_scoped(scope, work.clone()).is_ok();
    if (0..count).filter(start).count() == 0 {
        work();
    }
}

/// Runs `start`, which starts threads and panics if the system starts none, as tokio does.
///
/// # Errors
/// The errors of `start`; the error of the system if it starts no thread.
pub fn start_with_threads<T>(start: impl FnOnce() -> io::Result<T>) -> Result<T> {
    // Starts a thread as a test: a panic in `start` would print a message.
    let probe = start_thread(|| ())?;
    let _ = probe.join();
    let started = catch_unwind(AssertUnwindSafe(start));
    let started = started.unwrap_or_else(|_| Err(io::ErrorKind::WouldBlock.into()));
    started.map_err(|error| no_thread_error(&error))
}

/// The error for a thread that the system did not start.
#[cold]
pub fn no_thread_error(error: &io::Error) -> Error {
    Error::io("starting a thread (`ulimit -u` and the container's pids.max limit them)", error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn work_is_done_with_and_without_threads() {
        for (count, expected) in [(0, 1), (1, 1), (3, 3)] {
            let runs = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                run_on_threads(scope, count, || {
                    runs.fetch_add(1, Ordering::Relaxed);
                });
            });
            assert_eq!(runs.into_inner(), expected);
        }
    }

    #[test]
    fn panic_of_a_start_is_an_error() {
        assert_eq!(start_with_threads(|| Ok(7)).unwrap(), 7);
        let failed = start_with_threads(|| -> io::Result<()> { panic!("no threads") });
        assert!(failed.unwrap_err().message().contains("ulimit -u"));
    }
}
