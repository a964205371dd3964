//! Synchronization primitives: those of the standard library, or loom's when a loom model runs the code in every order.
//! A model has atomics of its own, since loom's cannot be stored in a mapped control file.
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

use esker_os::executor::{is_urgent, must_not_wait};
use esker_types::{Error, ErrorKind, Result};
use std::time::{Duration, Instant};

/// Interval between two attempts of [`retry_for_two_seconds`].
const RETRY_INTERVAL: Duration = Duration::from_millis(1);
/// Number of attempts. In total they take two seconds, since a thousand processes may share one processor.
const ATTEMPTS: u32 = 2000;

/// Sleeps for one retry interval.
///
/// # Errors
/// `Busy` on a thread that must not block.
pub(crate) fn pause() -> Result<()> {
    sleep(RETRY_INTERVAL)
}

/// Sleeps for `time`.
///
/// # Errors
/// `Busy` on a thread that must not block.
pub(crate) fn sleep(time: Duration) -> Result<()> {
    expect_may_wait()?;
    #[cfg(test)]
    SLEEPS.set(SLEEPS.get() + 1);
    std::thread::sleep(time);
    Ok(())
}

/// Fails on a thread that must not block.
pub(crate) fn expect_may_wait() -> Result<()> {
    if must_not_wait() {
        let message =
            "the operation waits for other processes, and this thread must not block: retry";
        return Err(Error::new(ErrorKind::Busy, message));
    }
    Ok(())
}

/// Time for which a thread spins before it sleeps. The commit of a full write buffer and a wake-up take about as long.
const SPIN_TIME: Duration = Duration::from_micros(100);
/// Number of attempts between two reads of the clock. An attempt takes some nanoseconds.
const SPINS: u32 = 256;

/// Calls `attempt` until it returns a value, or for [`SPIN_TIME`].
pub(crate) fn spin<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    while begun.elapsed() < SPIN_TIME {
        for _ in 0..SPINS {
            if let Some(found) = attempt() {
                return Some(found);
            }
            std::hint::spin_loop();
        }
    }
    None
}

/// Takes a lock by `attempt`, or by `wait` if another thread or process has it.
///
/// # Errors
/// `Busy` on a thread that must not block, if the lock does not become free in [`SPIN_TIME`]; errors of `wait`.
pub(crate) fn take_or_wait<T>(
    mut attempt: impl FnMut() -> Option<T>,
    wait: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if let Some(taken) = attempt() {
        return Ok(taken);
    }
    if is_urgent() {
        return spin(attempt).map_or_else(|| expect_may_wait().and_then(|()| wait()), Ok);
    }
    wait()
}

#[cfg(test)]
thread_local! {
    /// How often this thread has slept.
    pub(crate) static SLEEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Calls `attempt` until it returns a value; returns `None` after two seconds. It polls and never blocks on a lock,
/// because the owner of that lock may wait for what this thread holds.
pub(crate) fn retry_for_two_seconds<T>(
    mut attempt: impl FnMut() -> Result<Option<T>>,
) -> Result<Option<T>> {
    for _ in 0..ATTEMPTS {
        if let Some(found) = attempt()? {
            return Ok(Some(found));
        }
        pause()?;
    }
    Ok(None)
}
