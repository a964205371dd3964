//! Points in time as files carry them.
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// A point in time: seconds since 1970, before it negative, and nanoseconds on top.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Whole seconds.
    pub seconds: i64,
    /// Nanoseconds, below 10^9.
    pub nanos: u32,
}

impl Time {
    /// The wall clock.
    #[must_use]
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Realtime);
        Self { seconds: now.tv_sec, nanos: now.tv_nsec as u32 }
    }

    /// How far apart the two are, whichever is the later one: a time that was set may lie in the future.
    pub(crate) fn apart(self, other: Self) -> Duration {
        let nanos = |time: Self| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
        let between = (nanos(self) - nanos(other)).unsigned_abs().min(u128::from(u64::MAX));
        Duration::from_nanos(between as u64)
    }
}
