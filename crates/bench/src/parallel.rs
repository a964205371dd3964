//! What a run of `field-io` or `segments` has beyond the members that all runs have.
//!
//! Bandwidths are in MiB per second, times in seconds. The definitions are those of [`crate::metrics`].
use crate::latency::Histogram;
use crate::metrics::Statistics;
use crate::units::rounded;
use serde::{Deserialize, Serialize};

/// The further members of a [`crate::report::Run`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parallel {
    /// Number of the run, which the traces repeat.
    pub run: u32,
    /// `full`, `no-containers` or `no-index`; of segments `own` or `shared`.
    pub mode: String,
    /// `A` or `B`.
    pub pattern: String,
    /// `low` or `high`; none for segments, which have no index.
    pub contention: Option<String>,
    /// Object class of Key-Values; none for segments.
    pub class_kv: Option<String>,
    /// Object class of Arrays.
    pub class_array: String,
    /// Nodes.
    pub nodes: u32,
    /// Processes on each node, writers and readers of pattern B together.
    pub procs_per_node: u32,
    /// Processes that took part in this phase: all in pattern A, half of them in pattern B.
    pub phase_procs: u32,
    /// Operations of each process in one repeat.
    pub iterations: u32,
    /// Mean over repeats.
    pub global_timing_bandwidth_mib_s: f64,
    /// Mean over repeats; none where iterations are not synchronised, as in field-io.
    pub synchronous_bandwidth_mib_s: Option<f64>,
    /// Total parallel I/O wall-clock time, mean over repeats, in seconds.
    pub total_wall_clock_s: f64,
    /// Initial I/O offset in seconds, mean over repeats.
    pub off_0: f64,
    /// Final I/O offset in seconds, mean over repeats.
    pub off_f: f64,
    /// Phase start offset in seconds, mean over repeats; none in pattern A.
    pub po_0: Option<f64>,
    /// Phase end offset in seconds, mean over repeats; none in pattern A.
    pub po_f: Option<f64>,
    /// Latencies of single operations, from I/O start to I/O end, over all repeats.
    pub latency_percentiles_us: Percentiles,
    /// What the repeats have in common.
    pub repeat: RepeatStatistics,
    /// Each repeat.
    pub repeats: Vec<Repeat>,
}

/// What repeats have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RepeatStatistics {
    /// How many there were.
    pub count: u32,
    /// Of [`Repeat::global_timing_bandwidth_mib_s`].
    pub global_timing_bandwidth_mib_s: Spread,
    /// Of [`Repeat::synchronous_bandwidth_mib_s`].
    pub synchronous_bandwidth_mib_s: Option<Spread>,
    /// Of [`Repeat::limit_mib_s`].
    pub limit_mib_s: Spread,
    /// Of [`Repeat::ratio`].
    pub ratio: Spread,
}

/// One repeat of one phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repeat {
    /// Its number, from 1.
    pub repeat: u32,
    /// Wall clock at time 0 of its traces, in nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// See [`crate::metrics::Phase::global_timing_bandwidth`].
    pub global_timing_bandwidth_mib_s: f64,
    /// See [`crate::metrics::Phase::synchronous_bandwidth`].
    pub synchronous_bandwidth_mib_s: Option<f64>,
    /// See [`crate::metrics::Phase::total_wall_clock_ns`].
    pub total_wall_clock_s: f64,
    /// See [`crate::metrics::Phase::off_0_ns`].
    pub off_0: f64,
    /// See [`crate::metrics::Phase::off_f_ns`].
    pub off_f: f64,
    /// See [`crate::metrics::po_0_ns`].
    pub po_0: Option<f64>,
    /// See [`crate::metrics::po_f_ns`].
    pub po_f: Option<f64>,
    /// What the medium gave in the same repeat; 0 where it could not be measured.
    pub limit_mib_s: f64,
    /// Global timing bandwidth over the limit; 0 where there is none.
    pub ratio: f64,
}

/// Mean, least, most and standard deviation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// See [`Statistics::mean`].
    pub mean: f64,
    /// See [`Statistics::min`].
    pub min: f64,
    /// See [`Statistics::max`].
    pub max: f64,
    /// See [`Statistics::stddev`].
    pub stddev: f64,
}

impl Spread {
    /// Of these values.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let known = Statistics::of(values);
        Self {
            mean: rounded(known.mean),
            min: rounded(known.min),
            max: rounded(known.max),
            stddev: rounded(known.stddev),
        }
    }
}

/// Latencies in microseconds that so many in a hundred operations did not exceed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// 1 in 100.
    pub p1: f64,
    /// 10 in 100.
    pub p10: f64,
    /// 25 in 100.
    pub p25: f64,
    /// 50 in 100.
    pub p50: f64,
    /// 75 in 100.
    pub p75: f64,
    /// 90 in 100.
    pub p90: f64,
    /// 95 in 100.
    pub p95: f64,
    /// 99 in 100.
    pub p99: f64,
    /// 999 in 1000.
    pub p99_9: f64,
    /// All.
    pub max: f64,
}

impl From<&Histogram> for Percentiles {
    fn from(latency: &Histogram) -> Self {
        let at = |percent| rounded(latency.percentile_us(percent));
        Self {
            p1: at(1.0),
            p10: at(10.0),
            p25: at(25.0),
            p50: at(50.0),
            p75: at(75.0),
            p90: at(90.0),
            p95: at(95.0),
            p99: at(99.0),
            p99_9: at(99.9),
            max: rounded(latency.max_us()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_spread_is_rounded_for_people() {
        let spread = Spread { mean: 2.0, min: 1.0, max: 3.0, stddev: 1.0 };
        assert_eq!(Spread::of(&[1.0, 2.0, 3.0]), spread);
    }

    #[test]
    fn percentiles_rise() {
        let mut latency = Histogram::default();
        (1..=100).for_each(|us| latency.record(Duration::from_micros(us)).unwrap());
        let of = Percentiles::from(&latency);
        let rising = [of.p1, of.p10, of.p25, of.p50, of.p75, of.p90, of.p95, of.p99];
        assert!(rising.is_sorted_by(|one, next| one < next), "{of:?}");
        assert_eq!((of.p99_9, of.max), (100.0, 100.0));
    }
}
