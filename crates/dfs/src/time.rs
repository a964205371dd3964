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

    /// How much later this is than `earlier`; zero where it is not.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        let nanos = |time: Self| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
        let between = (nanos(self) - nanos(earlier)).clamp(0, i128::from(u64::MAX));
        Duration::from_nanos(between as u64)
    }
}
