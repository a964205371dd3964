//! Measurements of one process in one phase, and their sum over all processes.
use crate::latency::Histogram;
use esker_cli::units::{mib_per_s, per_second};
use esker_types::Result;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// When a loop ends: after a number of operations, or the first operation that ends after a time if one is set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Until {
    ops: u64,
    elapsed: Option<Duration>,
}

impl Until {
    /// After `ops` operations.
    pub fn ops(ops: u64) -> Self {
        Self { ops, elapsed: None }
    }

    /// After `ops` operations, or after `seconds` if given.
    pub fn limits(ops: u64, seconds: Option<f64>) -> Self {
        Self { ops, elapsed: seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) }
    }

    fn is_over(self, ops: u64, elapsed: Duration) -> bool {
        ops >= self.ops || self.elapsed.is_some_and(|wanted| ops > 0 && elapsed >= wanted)
    }
}

/// One phase of one process. Times are of the wall clock, so that processes can be compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Operations done.
    pub ops: u64,
    /// Payload moved.
    pub bytes: u64,
    /// Start of the first operation, in seconds.
    pub start_s: f64,
    /// End of the last operation.
    pub end_s: f64,
    /// Latencies of the operations.
    pub latency: Histogram,
}

impl Measured {
    /// The sum of operations that ran side by side in one process.
    pub fn side_by_side(parts: &[Self]) -> Self {
        let Tally { ops, bytes, latency, .. } = Tally::of_round(parts);
        let start_s = parts.iter().map(|part| part.start_s).fold(f64::INFINITY, f64::min);
        let end_s = parts.iter().map(|part| part.end_s).fold(0.0, f64::max);
        Self { ops, bytes, start_s, end_s, latency }
    }

    /// Time from the first operation to the last.
    pub fn seconds(&self) -> f64 {
        (self.end_s - self.start_s).max(0.0)
    }
}

/// Repeats and measures `op`, which receives the number of its repetition, from 0.
pub fn measure(
    until: Until,
    bytes_per_op: u64,
    mut op: impl FnMut(u64) -> Result<()>,
) -> Result<Measured> {
    let mut meter = Meter::start();
    while !until.is_over(meter.measured.ops, meter.last - meter.begin) {
        op(meter.measured.ops)?;
        meter.tick(1, bytes_per_op)?;
    }
    Ok(meter.finish())
}

/// Measures consecutive operations that its caller starts.
pub struct Meter {
    measured: Measured,
    begin: Instant,
    last: Instant,
}

impl Meter {
    /// Starts to measure: the first operation begins now.
    pub fn start() -> Self {
        let now = Instant::now();
        let measured = Measured { start_s: wall_clock_s(), ..Measured::default() };
        Self { measured, begin: now, last: now }
    }

    /// Records that `ops` operations, which moved `bytes`, have ended now. They count as one latency.
    pub fn tick(&mut self, ops: u64, bytes: u64) -> Result<()> {
        let now = Instant::now();
        self.measured.latency.record(now - self.last)?;
        self.measured.ops += ops;
        self.measured.bytes += bytes;
        self.last = now;
        Ok(())
    }

    /// The measurements up to the end of the last operation.
    pub fn finish(mut self) -> Measured {
        self.measured.end_s = self.measured.start_s + (self.last - self.begin).as_secs_f64();
        self.measured
    }
}

/// Measures consecutive operations of several kinds: each kind, and all together.
pub struct MixedMeter<const KINDS: usize> {
    all: Meter,
    kinds: [(Measured, Duration); KINDS],
}

impl<const KINDS: usize> MixedMeter<KINDS> {
    /// The first operation begins now.
    pub fn start() -> Self {
        Self { all: Meter::start(), kinds: std::array::from_fn(|_| Default::default()) }
    }

    /// Records that an operation of a kind, which moved `bytes`, has ended now.
    pub fn tick(&mut self, kind: usize, bytes: u64) -> Result<()> {
        let before = self.all.last;
        self.all.tick(1, bytes)?;
        let took = self.all.last - before;
        let Some((measured, busy)) = self.kinds.get_mut(kind) else { return Ok(()) };
        measured.ops += 1;
        measured.bytes += bytes;
        *busy += took;
        measured.latency.record(took)
    }

    /// The measurements of all operations, and of each kind. The time of a kind is the sum of its operations.
    pub fn finish(self) -> (Measured, [Measured; KINDS]) {
        let all = self.all.finish();
        let kinds = self.kinds.map(|(measured, busy)| Measured {
            start_s: all.start_s,
            end_s: all.start_s + busy.as_secs_f64(),
            ..measured
        });
        (all, kinds)
    }
}

fn wall_clock_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// A phase of all processes, over all rounds.
///
/// The time of a round runs from the first start to the last end over all processes ("global timing"). Fast
/// processes then do not hide a slow one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Operations of all processes.
    pub ops: u64,
    /// Payload of all processes.
    pub bytes: u64,
    /// Time of all rounds.
    pub seconds: f64,
    /// Latencies of all operations.
    pub latency: Histogram,
}

impl Tally {
    /// The tally of one round.
    pub fn of_round(round: &[Measured]) -> Self {
        let mut tally = Self::default();
        tally.add_round(round);
        tally
    }

    /// Adds one round, one entry per process.
    pub fn add_round(&mut self, round: &[Measured]) {
        let start = round.iter().map(|one| one.start_s).fold(f64::INFINITY, f64::min);
        let end = round.iter().map(|one| one.end_s).fold(f64::NEG_INFINITY, f64::max);
        self.seconds += (end - start).max(0.0);
        for one in round {
            self.ops += one.ops;
            self.bytes += one.bytes;
            self.latency.merge(&one.latency);
        }
    }

    /// Adds the rounds of another phase.
    pub fn add(&mut self, other: &Self) {
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.seconds += other.seconds;
        self.latency.merge(&other.latency);
    }

    /// Operations per second.
    pub fn ops_per_s(&self) -> f64 {
        per_second(self.ops as f64, self.seconds)
    }

    /// MiB per second.
    pub fn bandwidth_mib_s(&self) -> f64 {
        mib_per_s(self.bytes, self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_types::{Error, ErrorKind};

    #[test]
    fn loop_counts_its_operations() {
        let mut seen = Vec::new();
        let op = |index| {
            seen.push(index);
            Ok(())
        };
        let measured = measure(Until::ops(3), 10, op).unwrap();
        assert_eq!((measured.ops, measured.bytes, measured.latency.len()), (3, 30, 3));
        assert!(measured.end_s >= measured.start_s);
        assert_eq!(seen, [0, 1, 2]);
    }

    #[test]
    fn time_limited_loop_runs_at_least_once() {
        let second = Duration::from_secs(1);
        let until = Until::limits(3, Some(1.0));
        assert!(
            !until.is_over(2, second / 2)
                && until.is_over(2, second)
                && until.is_over(3, second / 2)
        );
        let ops = |ops, seconds| measure(Until::limits(ops, seconds), 1, |_| Ok(())).unwrap().ops;
        assert_eq!(
            [ops(0, None), ops(0, Some(0.0)), ops(9, Some(0.0)), ops(3, Some(1e6))],
            [0, 0, 1, 3]
        );
    }

    #[test]
    fn kinds_of_operations_share_the_time_of_all() {
        let mut meter = MixedMeter::<2>::start();
        for kind in [0, 1, 1] {
            std::hint::black_box((0..10_000u64).sum::<u64>());
            meter.tick(kind, 5).unwrap();
        }
        let (all, [first, second]) = meter.finish();
        let counts = |measured: &Measured| (measured.ops, measured.bytes, measured.latency.len());
        assert_eq!(
            (counts(&all), counts(&first), counts(&second)),
            ((3, 15, 3), (1, 5, 1), (2, 10, 2))
        );
        assert_eq!((first.start_s, second.start_s), (all.start_s, all.start_s));
        // Seconds since 1970 have a precision of less than a microsecond.
        let parts = first.seconds() + second.seconds();
        assert!((parts - all.seconds()).abs() < 2e-6, "{parts} of {}", all.seconds());
    }

    #[test]
    fn a_loop_ends_at_the_first_error() {
        let mut count = 0;
        let failed = measure(Until::ops(5), 1, |index| {
            count += 1;
            if index == 1 { Err(Error::from(ErrorKind::Io)) } else { Ok(()) }
        });
        assert_eq!((failed.unwrap_err().kind(), count), (ErrorKind::Io, 2));
    }

    #[test]
    fn a_round_lasts_from_the_first_start_to_the_last_end() {
        let process = |start_s, end_s| Measured {
            ops: 4,
            bytes: 2 << 20,
            start_s,
            end_s,
            ..Default::default()
        };
        let mut tally = Tally::default();
        tally.add_round(&[process(10.0, 11.0), process(10.5, 12.0)]);
        tally.add_round(&[process(20.0, 22.0), process(20.0, 21.0)]);
        assert_eq!((tally.ops, tally.seconds), (16, 4.0));
        assert_eq!((tally.ops_per_s(), tally.bandwidth_mib_s()), (4.0, 2.0));
        assert_eq!(Tally::default().ops_per_s(), 0.0);
    }
}
