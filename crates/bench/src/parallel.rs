//! Members that only runs of `field-io` and `segments` have.
//!
//! Bandwidths are in MiB per second, times in seconds. The definitions are those of [`crate::metrics`].
use crate::latency::Histogram;
use crate::metrics::Statistics;
use esker_cli::units::rounded;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The further members of a [`crate::report::Run`]. Members that a file lacks are zero or empty, except `mode`: a run
/// without it has none of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Parallel {
    /// Number of the run, which the traces repeat.
    #[serde(default)]
    pub run: u32,
    /// `full`, `no-containers` or `no-index`; of segments `own` or `shared`.
    pub mode: String,
    /// `A` or `B`.
    #[serde(default)]
    pub pattern: String,
    /// `low` or `high`; none for segments, which have no index.
    #[serde(default)]
    pub contention: Option<String>,
    /// Object class of Key-Values; none for segments.
    #[serde(default)]
    pub class_kv: Option<String>,
    /// Object class of Arrays.
    #[serde(default)]
    pub class_array: String,
    /// Nodes with processes.
    #[serde(default)]
    pub nodes: u32,
    /// Nodes of the pool; none for a pool on one node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_nodes: Option<u32>,
    /// Processes on each node, writers and readers of pattern B together.
    #[serde(default)]
    pub procs_per_node: u32,
    /// Processes that took part in this phase: all in pattern A, half of them in pattern B.
    #[serde(default)]
    pub phase_procs: u32,
    /// Operations of each process in one repeat.
    #[serde(default)]
    pub iterations: u32,
    /// Mean over repeats.
    #[serde(default)]
    pub global_timing_bandwidth_mib_s: f64,
    /// Mean over repeats; none if iterations are not synchronised, as in field-io.
    #[serde(default)]
    pub synchronous_bandwidth_mib_s: Option<f64>,
    /// Total parallel I/O wall-clock time, mean over repeats, in seconds.
    #[serde(default)]
    pub total_wall_clock_s: f64,
    /// Initial I/O offset in seconds, mean over repeats.
    #[serde(default)]
    pub off_0: f64,
    /// Final I/O offset in seconds, mean over repeats.
    #[serde(default)]
    pub off_f: f64,
    /// Phase start offset in seconds, mean over repeats; none in pattern A.
    #[serde(default)]
    pub po_0: Option<f64>,
    /// Phase end offset in seconds, mean over repeats; none in pattern A.
    #[serde(default)]
    pub po_f: Option<f64>,
    /// Latencies of single operations, from I/O start to I/O end, over all repeats.
    #[serde(default)]
    pub latency_percentiles_us: BTreeMap<String, f64>,
    /// Statistics over the repeats.
    #[serde(default)]
    pub repeat: RepeatStatistics,
    /// Each repeat.
    #[serde(default)]
    pub repeats: Vec<Repeat>,
}

/// Statistics over the repeats.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RepeatStatistics {
    /// Number of repeats.
    pub count: u32,
    /// Statistics of [`Repeat::global_timing_bandwidth_mib_s`].
    pub global_timing_bandwidth_mib_s: Statistics,
    /// Statistics of [`Repeat::synchronous_bandwidth_mib_s`].
    pub synchronous_bandwidth_mib_s: Option<Statistics>,
    /// Statistics of [`Repeat::limit_mib_s`].
    pub limit_mib_s: Statistics,
    /// Statistics of [`Repeat::ratio`].
    pub ratio: Statistics,
}

/// One repeat of one phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repeat {
    /// Number of the repeat, from 1.
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
    /// The limit of the medium in the same repeat; 0 if it could not be measured.
    pub limit_mib_s: f64,
    /// Global timing bandwidth over the limit; 0 if there is no limit.
    pub ratio: f64,
}

/// The percentiles in reports.
const PERCENTILES: [f64; 9] = [1.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9];

/// Percentiles of latencies in microseconds by name, from `p1` to `p99_9`, and `max`.
pub fn percentiles_us(latency: &Histogram) -> BTreeMap<String, f64> {
    let name = |percent: f64| format!("p{percent}").replace('.', "_");
    let at = |percent: f64| (name(percent), rounded(latency.percentile_us(percent)));
    let max = ("max".to_owned(), rounded(latency.max_us()));
    PERCENTILES.into_iter().map(at).chain([max]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn percentiles_rise() {
        let mut latency = Histogram::default();
        (1..=100).for_each(|us| latency.record(Duration::from_micros(us)).unwrap());
        let of = percentiles_us(&latency);
        let names = ["p1", "p10", "p25", "p50", "p75", "p90", "p95", "p99"];
        let rising = names.map(|name| of[name]);
        assert!(rising.is_sorted_by(|one, next| one < next), "{of:?}");
        assert_eq!((of["p99_9"], of["max"]), (100.0, 100.0));
    }
}
