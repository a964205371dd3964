//! Waiting in tests. No other code of a test lets a thread sleep.
use std::time::{Duration, Instant};

/// Longer than any step of a test, however busy the machine is.
pub const HANG: Duration = Duration::from_secs(120);

/// Time between two checks of a condition.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// Waits until `done` returns true.
///
/// # Panics
/// If that takes longer than [`HANG`].
pub fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < HANG, "waited {HANG:?} for {what}");
        std::thread::sleep(CHECK_INTERVAL);
    }
}

/// Sleeps for `micros` microseconds, so that the next step meets other threads or processes at a random point of their
/// work. Only for tests whose outcome does not depend on their progress.
pub fn pause(micros: u64) {
    std::thread::sleep(Duration::from_micros(micros));
}
