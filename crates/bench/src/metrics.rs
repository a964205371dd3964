//! Metrics of parallel I/O computed from time stamps, as sections V-E and V-F of "DAOS as HPC Storage: a View From
//! Numerical Weather Prediction" (2023) define them.
//!
//! Times are nanoseconds since a start that all processes share. Nothing here reads a clock.
use esker_cli::units::{per_second, rounded};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One I/O operation of one process: from `I/O start` to `I/O end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// Number of the process, over all nodes.
    pub process: u32,
    /// Number of the operation in its process, from 0.
    pub iteration: u32,
    /// Payload.
    pub bytes: u64,
    /// `I/O start`.
    pub start_ns: u64,
    /// `I/O end`.
    pub end_ns: u64,
}

/// One phase of a benchmark: the writes, or the reads, of all processes.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    ios: Vec<Io>,
    /// First and last iteration of each process.
    spans: BTreeMap<u32, (Io, Io)>,
}

impl Phase {
    /// A phase of these operations, in any order.
    pub fn new(ios: Vec<Io>) -> Self {
        let mut spans = BTreeMap::new();
        for io in &ios {
            let (first, last) = spans.entry(io.process).or_insert((*io, *io));
            if io.iteration < first.iteration {
                *first = *io;
            }
            if io.iteration > last.iteration {
                *last = *io;
            }
        }
        Self { ios, spans }
    }

    /// The operations of the phase.
    pub fn ios(&self) -> &[Io] {
        &self.ios
    }

    /// `t_0(IO_1)`: the first I/O start of all processes; `None` if there are no operations.
    pub fn first_start_ns(&self) -> Option<u64> {
        self.spans.values().map(|(first, _)| first.start_ns).min()
    }

    /// `t_f(IO_n)`: the last I/O end of all processes; `None` if there are no operations.
    pub fn last_end_ns(&self) -> Option<u64> {
        self.spans.values().map(|(_, last)| last.end_ns).max()
    }

    /// Total parallel I/O wall-clock time: "the maximum I/O end of the last I/O iteration minus the
    /// minimum I/O start of the first I/O iteration across all parallel processes".
    pub fn total_wall_clock_ns(&self) -> u64 {
        between(self.first_start_ns(), self.last_end_ns())
    }

    /// Payload of all operations.
    pub fn bytes(&self) -> u64 {
        self.ios.iter().map(|io| io.bytes).sum()
    }

    /// Global timing bandwidth in bytes per second: "the sum of the I/O sizes across all I/O operations in the workload
    /// and divided by the total parallel I/O wall-clock time"; 0 if no time went by.
    pub fn global_timing_bandwidth(&self) -> f64 {
        per_second(self.bytes() as f64, self.total_wall_clock_ns() as f64 / 1e9)
    }

    /// Single iteration parallel I/O wall-clock time: "the maximum I/O end minus the minimum I/O start
    /// for a given I/O iteration across all parallel processes". It has a meaning only where iterations
    /// are synchronised.
    pub fn iteration_wall_clock_ns(&self, iteration: u32) -> u64 {
        let ios = || self.ios.iter().filter(|io| io.iteration == iteration);
        between(ios().map(|io| io.start_ns).min(), ios().map(|io| io.end_ns).max())
    }

    /// Synchronous bandwidth in bytes per second: the sizes of an iteration over its wall-clock time,
    /// averaged over iterations. It has a meaning only where iterations are synchronised.
    pub fn synchronous_bandwidth(&self) -> f64 {
        let mut iterations: Vec<_> = self.ios.iter().map(|io| io.iteration).collect();
        iterations.sort_unstable();
        iterations.dedup();
        let bandwidth = |&iteration: &u32| {
            let here = self.ios.iter().filter(|io| io.iteration == iteration);
            let bytes: u64 = here.map(|io| io.bytes).sum();
            per_second(bytes as f64, self.iteration_wall_clock_ns(iteration) as f64 / 1e9)
        };
        let sum: f64 = iterations.iter().map(bandwidth).sum();
        if iterations.is_empty() { 0.0 } else { sum / iterations.len() as f64 }
    }

    /// `off_0`: "the last first-iteration I/O start time minus the first I/O start time across all
    /// processes".
    pub fn off_0_ns(&self) -> u64 {
        let last = self.spans.values().map(|(first, _)| first.start_ns).max();
        between(self.first_start_ns(), last)
    }

    /// `off_f`: "the last I/O end time minus the first last-iteration I/O end time".
    pub fn off_f_ns(&self) -> u64 {
        let first = self.spans.values().map(|(_, last)| last.end_ns).min();
        between(first, self.last_end_ns())
    }
}

/// `po_0` of two phases: "the absolute value of the difference between the first I/O start time of the
/// write and read phases". It has a meaning only where they run at the same time (pattern B).
pub fn po_0_ns(write: &Phase, read: &Phase) -> u64 {
    apart(write.first_start_ns(), read.first_start_ns())
}

/// `po_f` of two phases: "the absolute value of the difference between the last I/O end time of the
/// write and read phases". Same condition as for [`po_0_ns`].
pub fn po_f_ns(write: &Phase, read: &Phase) -> u64 {
    apart(write.last_end_ns(), read.last_end_ns())
}

/// Statistics over the repeats of one measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// Arithmetic mean.
    pub mean: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
    /// Standard deviation of the sample (divided by n - 1); 0 for one value.
    pub stddev: f64,
    /// See [`Statistics::median`].
    #[serde(default)]
    pub median: f64,
}

impl Statistics {
    /// Statistics of `values`; zeros if there are none.
    pub fn from_values(values: &[f64]) -> Self {
        if values.is_empty() {
            return Self::default();
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self {
            mean,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            stddev: (squares / (count - 1.0).max(1.0)).sqrt(),
            median: Self::median(values),
        }
    }

    /// Statistics of `values`, [`rounded`] for reports.
    pub fn rounded(values: &[f64]) -> Self {
        let Self { mean, min, max, stddev, median } = Self::from_values(values);
        let [mean, min, max, stddev, median] = [mean, min, max, stddev, median].map(rounded);
        Self { mean, min, max, stddev, median }
    }

    /// The middle value, or the mean of the two middle values; 0 if there are none.
    pub fn median(values: &[f64]) -> f64 {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        match (sorted.len() % 2, sorted.get(middle)) {
            (_, None) => 0.0,
            (1, Some(value)) => *value,
            (_, Some(value)) => f64::midpoint(sorted[middle - 1], *value),
        }
    }
}

/// Bytes of a MiB.
pub(crate) const MIB: f64 = (1u64 << 20) as f64;

/// Time from `start` to `end`; 0 if one is missing or the end is first.
fn between(start: Option<u64>, end: Option<u64>) -> u64 {
    start.zip(end).map_or(0, |(start, end)| end.saturating_sub(start))
}

fn apart(one: Option<u64>, other: Option<u64>) -> u64 {
    one.zip(other).map_or(0, |(one, other)| one.abs_diff(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(Statistics::median(&[]), 0.0);
        assert_eq!(Statistics::median(&[5.0, 1.0, 9.0]), 5.0);
        assert_eq!(Statistics::median(&[4.0, 1.0, 9.0, 2.0]), 3.0);
    }

    fn io(process: u32, iteration: u32, start_ns: u64, end_ns: u64) -> Io {
        Io { process, iteration, bytes: 1000, start_ns, end_ns }
    }

    /// Like Fig. 2 of the paper, without synchronisation:
    ///
    /// ```text
    /// process 0:  |100 .. 400| |500 .. 900|
    /// process 1:     |150 .. 600|  |650 .. 1000|
    /// process 2:   |120 .. 300||300 .. 700|
    /// ```
    fn figure_2() -> Phase {
        Phase::new(vec![
            io(1, 1, 650, 1000),
            io(0, 0, 100, 400),
            io(2, 1, 300, 700),
            io(0, 1, 500, 900),
            io(1, 0, 150, 600),
            io(2, 0, 120, 300),
        ])
    }

    #[test]
    fn total_wall_clock_time_goes_from_the_first_start_to_the_last_end() {
        // max end of last iterations: max(900, 1000, 700) = 1000; min start of the first: 100.
        assert_eq!(figure_2().total_wall_clock_ns(), 900);
        assert_eq!(figure_2().first_start_ns(), Some(100));
        assert_eq!(figure_2().last_end_ns(), Some(1000));
    }

    #[test]
    fn global_timing_bandwidth_counts_gaps_between_iterations() {
        // 6 operations of 1000 bytes in 900 ns: 6000 * 1e9 / 900.
        assert!((figure_2().global_timing_bandwidth() - 6.0e12 / 900.0).abs() < 1.0);
    }

    #[test]
    fn synchronous_bandwidth_averages_iterations() {
        // Iteration 0: 2 x 1000 bytes from 0 to 100 ns = 20 bytes/ns.
        // Iteration 1: 2 x 1000 bytes from 500 to 700 ns = 10 bytes/ns.
        // Mean: 15 bytes/ns. The pause from 100 to 500 counts in the global timing bandwidth only:
        // 4000 bytes in 700 ns.
        let phase = Phase::new(vec![
            io(0, 0, 0, 100),
            io(1, 0, 10, 90),
            io(0, 1, 500, 600),
            io(1, 1, 520, 700),
        ]);
        assert_eq!(phase.iteration_wall_clock_ns(0), 100);
        assert_eq!(phase.iteration_wall_clock_ns(1), 200);
        assert_eq!(phase.synchronous_bandwidth(), 15.0e9);
        assert!((phase.global_timing_bandwidth() - 4.0e12 / 700.0).abs() < 1.0);
    }

    #[test]
    fn offsets_are_those_of_first_and_last_iterations() {
        // off_0: first iterations start at 100, 150, 120: 150 - 100.
        assert_eq!(figure_2().off_0_ns(), 50);
        // off_f: last iterations end at 900, 1000, 700: 1000 - 700.
        assert_eq!(figure_2().off_f_ns(), 300);
    }

    #[test]
    fn phase_offsets_have_no_sign() {
        // Writes from 100 to 1000; reads from 80 to 1300: |100 - 80| and |1000 - 1300|.
        let read = Phase::new(vec![io(3, 0, 80, 1300)]);
        for (one, other) in [(&figure_2(), &read), (&read, &figure_2())] {
            assert_eq!((po_0_ns(one, other), po_f_ns(one, other)), (20, 300));
        }
    }

    #[test]
    fn one_process_has_no_offsets() {
        let alone = Phase::new(vec![io(0, 0, 5, 10), io(0, 1, 12, 20)]);
        assert_eq!((alone.off_0_ns(), alone.off_f_ns(), alone.total_wall_clock_ns()), (0, 0, 15));
    }

    #[test]
    fn empty_phase_has_zero_metrics() {
        let none = Phase::default();
        assert_eq!((none.total_wall_clock_ns(), none.off_0_ns(), none.off_f_ns()), (0, 0, 0));
        assert_eq!((none.global_timing_bandwidth(), none.synchronous_bandwidth()), (0.0, 0.0));
        assert_eq!(po_0_ns(&none, &figure_2()), 0);
    }

    #[test]
    fn repeats_have_a_mean_and_a_spread() {
        // Mean of 2, 4, 9 is 5; squares 9 + 1 + 16 = 26; over n - 1 = 2: 13.
        let known =
            Statistics { mean: 5.0, min: 2.0, max: 9.0, stddev: 13.0f64.sqrt(), median: 4.0 };
        assert_eq!(Statistics::from_values(&[2.0, 4.0, 9.0]), known);
        let one = Statistics { mean: 7.0, min: 7.0, max: 7.0, stddev: 0.0, median: 7.0 };
        assert_eq!(Statistics::from_values(&[7.0]), one);
        assert_eq!(Statistics::from_values(&[]), Statistics::default());
    }
}
