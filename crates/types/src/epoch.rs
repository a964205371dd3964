//! Epochs: 64-bit hybrid logical clock stamps, those of DAOS (HLC).
//!
//! An epoch counts sixteenths of a nanosecond since 2021-01-01 UTC. Its lower [`LOGICAL_BITS`] bits order updates
//! that fall into one tick of about 16 microseconds.
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Low bits that order updates of the same tick.
pub const LOGICAL_BITS: u32 = 18;

/// 2021-01-01 00:00:00 UTC in Unix seconds, where epochs begin (DAOS: `D_HLC_START_SEC`).
const ORIGIN: Duration = Duration::from_secs(1_609_459_200);

/// Units of an epoch in a nanosecond (DAOS: `D_HLC_NSEC`).
const UNITS_PER_NANOSECOND: u64 = 16;

/// Epochs below this one count nanoseconds, as Esker did until November 2026. By DAOS's clock, this epoch is in July
/// 2021. DAOS has not written any epoch below it.
const OLD_UNITS_END: u64 = 1 << 58;

/// Mask of the low bits.
const LOGICAL_MASK: u64 = (1 << LOGICAL_BITS) - 1;

/// Time of an update, comparable across all targets of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Epoch(pub u64);

impl Epoch {
    /// Later than every update (DAOS: `DAOS_EPOCH_MAX`).
    pub const MAX: Self = Self(u64::MAX);

    /// The current tick of the wall clock, with low bits of zero. Zero if the clock is set to a time before 2021.
    #[must_use]
    pub fn now() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(Self::at(now).0 & !LOGICAL_MASK)
    }

    /// The stamp of a time since the Unix epoch; zero for one before 2021, [`Self::MAX`] for one after 2057.
    #[must_use]
    pub fn at(time: Duration) -> Self {
        let units = time.saturating_sub(ORIGIN).as_nanos() * u128::from(UNITS_PER_NANOSECOND);
        Self(u64::try_from(units).unwrap_or(u64::MAX))
    }

    /// A stamp later than `last`, and no earlier than the wall clock.
    #[must_use]
    pub fn after(last: Self) -> Self {
        Self::now().max(Self(last.0.saturating_add(1)))
    }

    /// Wall-clock time of the stamp, as a duration since the Unix epoch.
    #[must_use]
    pub fn unix_time(self) -> Duration {
        let ticks = self.0 & !LOGICAL_MASK;
        let is_old = self.0 < OLD_UNITS_END;
        ORIGIN + Duration::from_nanos(if is_old { ticks } else { ticks / UNITS_PER_NANOSECOND })
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
        let tick = Duration::from_nanos(LOGICAL_MASK / UNITS_PER_NANOSECOND + 1);
        assert!(before.saturating_sub(tick) <= stamp && stamp <= after);
    }

    #[test]
    fn stamps_are_those_of_daos() {
        let seen = Duration::from_secs(1_780_000_000);
        let stamp = Epoch::at(seen);
        assert_eq!(stamp, Epoch((1_780_000_000 - 1_609_459_200) * 16_000_000_000));
        assert!(seen.saturating_sub(stamp.unix_time()) < Duration::from_micros(17));
        assert_eq!(Epoch::at(Duration::ZERO), Epoch(0));
        assert_eq!(Epoch::at(Duration::MAX), Epoch::MAX);
    }

    #[test]
    fn stamps_in_nanoseconds_are_older_and_keep_their_times() {
        let (old, seen) = (Epoch(170_540_800 * 1_000_000_000), Duration::from_secs(1_780_000_000));
        assert!(old < Epoch::at(Duration::from_secs(1_640_995_200)), "the end of 2021");
        assert!(seen.saturating_sub(old.unix_time()) < Duration::from_micros(263));
    }
}
