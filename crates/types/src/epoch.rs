//! Epochs: 64-bit hybrid logical clock stamps (DAOS: HLC).
//!
//! The upper bits count nanoseconds since 2021-01-01 UTC; the lower [`LOGICAL_BITS`] bits order
//! updates that fall into one tick of about 262 microseconds.
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Low bits that order updates of the same tick.
pub const LOGICAL_BITS: u32 = 18;

/// 2021-01-01 00:00:00 UTC in Unix seconds, where epochs begin.
pub const ORIGIN_UNIX_SECONDS: u64 = 1_609_459_200;

const LOGICAL_MASK: u64 = (1 << LOGICAL_BITS) - 1;

/// When an update happened, comparable across all targets of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Epoch(pub u64);

impl Epoch {
    /// Later than every update (DAOS: `DAOS_EPOCH_MAX`).
    pub const MAX: Self = Self(u64::MAX);

    /// The tick of the wall clock; zero if the clock is set to a time before 2021.
    #[must_use]
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let origin = Duration::from_secs(ORIGIN_UNIX_SECONDS);
        let nanos = since.saturating_sub(origin).as_nanos();
        Self(u64::try_from(nanos).unwrap_or(u64::MAX) & !LOGICAL_MASK)
    }

    /// A stamp later than `last`, and no earlier than the wall clock.
    #[must_use]
    pub fn after(last: Self) -> Self {
        Self::now().max(Self(last.0.saturating_add(1)))
    }

    /// Wall-clock time of the stamp, as a duration since the Unix epoch.
    #[must_use]
    pub fn unix_time(self) -> Duration {
        Duration::from_secs(ORIGIN_UNIX_SECONDS) + Duration::from_nanos(self.0 & !LOGICAL_MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_only_grow() {
        let first = Epoch::after(Epoch(0));
        let future = Epoch(first.0 + (1 << 50));
        assert!(Epoch::after(first) > first);
        assert_eq!(Epoch::after(future), Epoch(future.0 + 1));
    }

    #[test]
    fn time_of_a_stamp_is_the_wall_clock() {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let (before, stamp, after) = (now(), Epoch::now().unix_time(), now());
        let tick = Duration::from_nanos(LOGICAL_MASK);
        assert!(before.saturating_sub(tick) <= stamp && stamp <= after);
    }
}
