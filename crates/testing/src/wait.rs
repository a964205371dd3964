//! Waiting: the one place of the tests where a thread sleeps.
use std::time::{Duration, Instant};

/// Longer than anything takes that goes on at all, however busy the machine is.
pub const HANG: Duration = Duration::from_secs(120);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(1);

/// Waits until something has come about.
///
/// # Panics
/// Where it has not after so long ([`HANG`]) that it never will.
pub fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < HANG, "waited {HANG:?} for this: {what}");
        std::thread::sleep(LOOK);
    }
}

/// Lets some time pass, so that what comes next meets others anywhere in their work. Right only where the
/// outcome is the same whatever they do in it.
pub fn pause(micros: u64) {
    std::thread::sleep(Duration::from_micros(micros));
}
