//! Clocks that all processes of a benchmark share.
//!
//! All processes of a node share its monotonic clock. Nodes share only the wall clock, as precisely as it is
//! synchronized. A start is therefore a time of the wall clock, and each node converts it to its own monotonic clock.
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::time::Duration;

/// A process stops sleeping and polls the clock this long before a start.
const WATCH_NS: u64 = 200_000;

/// The monotonic clock of this node in nanoseconds.
#[must_use]
pub fn monotonic_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// The wall clock in nanoseconds since 1970.
#[must_use]
pub fn unix_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Realtime))
}

/// Converts a time of the wall clock to the monotonic clock of this node.
#[must_use]
pub fn monotonic_of(unix_time_ns: u64) -> u64 {
    (monotonic_ns() + unix_time_ns).saturating_sub(unix_ns())
}

/// Waits until the monotonic clock shows `start_ns`: sleeps until shortly before, then spins, to be exact.
pub fn wait_until(start_ns: u64) {
    let left = start_ns.saturating_sub(monotonic_ns());
    if left > WATCH_NS {
        std::thread::sleep(Duration::from_nanos(left - WATCH_NS));
    }
    while monotonic_ns() < start_ns {
        std::hint::spin_loop();
    }
}

fn nanoseconds(time: Timespec) -> u64 {
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_until_returns_at_or_after_start() {
        let start = monotonic_ns() + 2_000_000;
        wait_until(start);
        assert!(monotonic_ns() >= start);
        wait_until(0);
    }

    #[test]
    fn wall_and_monotonic_clock_agree_on_durations() {
        let (now, later) = (unix_ns(), unix_ns() + 5_000_000_000);
        let apart = monotonic_of(later) - monotonic_of(now);
        assert!(apart.abs_diff(5_000_000_000) < 1_000_000_000, "{apart}");
    }
}
