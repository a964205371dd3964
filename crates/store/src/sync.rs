//! Synchronization of threads and processes: of the standard library, or of loom when a model runs the code in every
//! order. A model has its own atomics; those of a control file cannot be loom's.
#[cfg(all(loom, test))]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, fence};
#[cfg(all(loom, test))]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(all(loom, test))]
pub(crate) use loom::thread::yield_now;
#[cfg(not(all(loom, test)))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, fence};
#[cfg(not(all(loom, test)))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(all(loom, test)))]
pub(crate) use std::thread::yield_now;

use esker_os::executor::must_not_wait;
use esker_types::{Error, ErrorKind, Result};
use std::time::Duration;

/// Time between two attempts.
const MOMENT: Duration = Duration::from_millis(1);
/// Attempts: two seconds in total, since a thousand processes may take turns on one processor.
const LOOKS: u32 = 2000;

/// Sleeps for a moment.
///
/// # Errors
/// `Busy` on a thread that must not wait.
pub(crate) fn pause() -> Result<()> {
    sleep(MOMENT)
}

/// Sleeps.
///
/// # Errors
/// `Busy` on a thread that must not wait.
pub(crate) fn sleep(time: Duration) -> Result<()> {
    if must_not_wait() {
        let message =
            "others use what the operation needs, and this thread cannot wait for them: retry";
        return Err(Error::new(ErrorKind::Busy, message));
    }
    #[cfg(test)]
    SLEEPS.set(SLEEPS.get() + 1);
    std::thread::sleep(time);
    Ok(())
}

#[cfg(test)]
thread_local! {
    /// How often this thread has slept.
    pub(crate) static SLEEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Calls `look` until it finds something, or `None` after two seconds. It never sleeps on a lock, whose owner may
/// wait for what this thread holds.
pub(crate) fn patiently<T>(mut look: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
    for _ in 0..LOOKS {
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        pause()?;
    }
    Ok(None)
}
