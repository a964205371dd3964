//! How long operations took: a histogram of fixed size, exact to about three in a hundred.
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Buckets per power of two.
const STEPS: u64 = 32;
const STEP_BITS: u32 = STEPS.ilog2();
const BUCKETS: usize = (64 - STEP_BITS as usize + 1) * STEPS as usize;

/// Counts of latencies by their length in nanoseconds. Each power of two has 32 buckets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Sparse", into = "Sparse")]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max_ns: u64,
}

/// The buckets that are not empty, which is how a histogram travels.
#[derive(Serialize, Deserialize)]
struct Sparse {
    max_ns: u64,
    buckets: Vec<(usize, u64)>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0, max_ns: 0 }
    }
}

impl From<Sparse> for Histogram {
    fn from(sparse: Sparse) -> Self {
        let mut histogram = Self { max_ns: sparse.max_ns, ..Self::default() };
        for (bucket, count) in sparse.buckets {
            histogram.add(bucket, count);
        }
        histogram
    }
}

impl From<Histogram> for Sparse {
    fn from(histogram: Histogram) -> Self {
        let filled = histogram.counts.into_iter().enumerate().filter(|(_, count)| *count > 0);
        Self { max_ns: histogram.max_ns, buckets: filled.collect() }
    }
}

impl Histogram {
    /// Notes one operation.
    pub fn record(&mut self, latency: Duration) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.max_ns = self.max_ns.max(ns);
        self.add(bucket_of(ns), 1);
    }

    /// Adds what another one counted.
    pub fn merge(&mut self, other: &Self) {
        self.max_ns = self.max_ns.max(other.max_ns);
        for (bucket, count) in other.counts.iter().enumerate() {
            self.add(bucket, *count);
        }
    }

    fn add(&mut self, bucket: usize, count: u64) {
        if let Some(place) = self.counts.get_mut(bucket) {
            *place += count;
            self.total += count;
        }
    }

    /// Number of operations.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.total
    }

    /// True where nothing was noted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The latency that `percent` in a hundred did not exceed, in microseconds; 0 where there is none.
    #[must_use]
    pub fn percentile_us(&self, percent: f64) -> f64 {
        let rank = (self.total as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        let reached = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        reached.map_or(0.0, |bucket| upper_ns(bucket).min(self.max_ns) as f64 / 1000.0)
    }

    /// The longest, in microseconds.
    #[must_use]
    pub fn max_us(&self) -> f64 {
        self.max_ns as f64 / 1000.0
    }
}

/// Short latencies have a bucket each, longer ones share by their five highest bits after the first.
fn bucket_of(ns: u64) -> usize {
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(STEP_BITS + 1);
    (u64::from(shift) * STEPS + (ns >> shift)) as usize
}

/// The longest latency that falls into a bucket.
fn upper_ns(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket / STEPS).saturating_sub(1);
    let within = u128::from(bucket - shift * STEPS) + 1;
    u64::try_from((within << shift) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(latencies_ns: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        latencies_ns.into_iter().for_each(|ns| histogram.record(Duration::from_nanos(ns)));
        histogram
    }

    #[test]
    fn every_latency_has_a_bucket_that_holds_it_closely() {
        let edges = (0..64).flat_map(|power| [(1u64 << power) - 1, 1 << power, (1 << power) + 1]);
        for ns in edges.chain([u64::MAX, 12_345, 999_999_999]) {
            let bucket = bucket_of(ns);
            assert!(bucket < BUCKETS, "{ns}");
            assert!(upper_ns(bucket) >= ns, "{ns}");
            assert!(upper_ns(bucket) - ns <= ns / STEPS, "{ns}");
            assert!(bucket == 0 || upper_ns(bucket - 1) < ns, "{ns}");
        }
    }

    #[test]
    fn percentiles_are_of_what_was_recorded() {
        let histogram = histogram((1..=1000).map(|us| us * 1000));
        assert_eq!(histogram.len(), 1000);
        assert!((histogram.percentile_us(50.0) - 500.0).abs() < 20.0);
        assert!((histogram.percentile_us(99.0) - 990.0).abs() < 35.0);
        assert_eq!(histogram.percentile_us(100.0), 1000.0);
        assert_eq!(histogram.max_us(), 1000.0);
    }

    #[test]
    fn an_empty_one_says_nothing() {
        assert!(Histogram::default().is_empty());
        assert_eq!(Histogram::default().percentile_us(99.0), 0.0);
    }

    #[test]
    fn merging_and_travelling_change_nothing() {
        let (low, high) = (histogram(1..500), histogram(500..100_000));
        let mut both = low.clone();
        both.merge(&high);
        assert_eq!(both, histogram(1..100_000));
        let text = serde_json::to_string(&both).unwrap();
        assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), both);
    }
}
