//! Latencies of operations, in an HDR histogram of fixed size.
use esker_types::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Percentiles are exact to this many significant figures.
const FIGURES: u8 = 2;
/// Longest latency with a bucket of its own: one hour. Longer ones are counted as this one.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Counts of latencies in nanoseconds. The maximum is exact.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Sparse", into = "Sparse")]
pub struct Histogram {
    /// None before the first latency.
    counts: Option<hdrhistogram::Histogram<u64>>,
    max_ns: u64,
}

/// The recorded values with their counts, the form in which processes exchange histograms.
#[derive(Serialize, Deserialize)]
struct Sparse {
    max_ns: u64,
    counts: Vec<(u64, u64)>,
}

impl TryFrom<Sparse> for Histogram {
    type Error = Error;

    fn try_from(sparse: Sparse) -> Result<Self> {
        let mut histogram = Self { max_ns: sparse.max_ns, counts: None };
        for (ns, count) in sparse.counts {
            histogram.counts()?.saturating_record_n(ns, count);
        }
        Ok(histogram)
    }
}

impl From<Histogram> for Sparse {
    fn from(histogram: Histogram) -> Self {
        let recorded = histogram.counts.iter().flat_map(|counts| counts.iter_recorded());
        let counts = recorded.map(|step| (step.value_iterated_to(), step.count_at_value()));
        Self { max_ns: histogram.max_ns, counts: counts.collect() }
    }
}

impl Histogram {
    /// The histogram, which is made at the first use.
    fn counts(&mut self) -> Result<&mut hdrhistogram::Histogram<u64>> {
        match &mut self.counts {
            Some(counts) => Ok(counts),
            none => match hdrhistogram::Histogram::new_with_bounds(1, LONGEST_NS, FIGURES) {
                Ok(counts) => Ok(none.insert(counts)),
                Err(error) => Err(Error::new(ErrorKind::Invalid, format!("latencies: {error}"))),
            },
        }
    }

    /// Counts one operation.
    pub fn record(&mut self, latency: Duration) -> Result<()> {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.counts()?.saturating_record(ns);
        self.max_ns = self.max_ns.max(ns);
        Ok(())
    }

    /// Adds what another histogram counted.
    pub fn merge(&mut self, other: &Self) {
        self.max_ns = self.max_ns.max(other.max_ns);
        match (&mut self.counts, &other.counts) {
            (Some(counts), Some(others)) => others.iter_recorded().for_each(|step| {
                counts.saturating_record_n(step.value_iterated_to(), step.count_at_value());
            }),
            (none, others) => *none = none.take().or_else(|| others.clone()),
        }
    }

    /// Number of operations.
    pub fn len(&self) -> u64 {
        self.counts.as_ref().map_or(0, hdrhistogram::Histogram::len)
    }

    /// True if nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.counts.is_none()
    }

    /// The percentile in microseconds; 0 if nothing was counted.
    pub fn percentile_us(&self, percent: f64) -> f64 {
        let ns = self.counts.as_ref().map_or(0, |counts| counts.value_at_percentile(percent));
        ns.min(self.max_ns) as f64 / 1000.0
    }

    /// The longest, in microseconds.
    pub fn max_us(&self) -> f64 {
        self.max_ns as f64 / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(latencies_ns: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        latencies_ns.into_iter().for_each(|ns| histogram.record(Duration::from_nanos(ns)).unwrap());
        histogram
    }

    #[test]
    fn latencies_are_recorded_with_small_error() {
        let edges = (0..41).flat_map(|power| [(1u64 << power) - 1, 1 << power, (1 << power) + 1]);
        for ns in edges.chain([12_345, 999_999_999]) {
            let found = (histogram([ns, u64::MAX]).percentile_us(50.0) * 1000.0).round();
            assert!(found >= ns as f64 && found <= ns as f64 * 1.01 + 1.0, "{ns}: {found}");
        }
        assert_eq!(histogram([u64::MAX]).max_us(), u64::MAX as f64 / 1000.0);
    }

    #[test]
    fn percentiles_match_recorded_latencies() {
        let histogram = histogram((1..=1000).map(|us| us * 1000));
        assert_eq!(histogram.len(), 1000);
        assert!((histogram.percentile_us(50.0) - 500.0).abs() < 6.0);
        assert!((histogram.percentile_us(99.0) - 990.0).abs() < 11.0);
        assert_eq!(histogram.percentile_us(100.0), 1000.0);
        assert_eq!(histogram.max_us(), 1000.0);
    }

    #[test]
    fn empty_histogram_has_zero_percentiles() {
        assert!(Histogram::default().is_empty());
        assert_eq!(Histogram::default().percentile_us(99.0), 0.0);
    }

    #[test]
    fn merge_and_serialization_preserve_counts() {
        let (low, high) = (histogram(1..500), histogram(500..100_000));
        let mut both = low.clone();
        both.merge(&high);
        assert_eq!(both, histogram(1..100_000));
        let text = serde_json::to_string(&both).unwrap();
        assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), both);
    }
}
