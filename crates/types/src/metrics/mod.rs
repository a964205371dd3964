//! Counters of servers, and their page for Prometheus. Counting takes a few atomic additions per request.
mod page;

pub use page::Page;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A number that only increases.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `count` to the number.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The number.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Upper bounds of the buckets of [`Latency`], and their text in seconds. The last bucket has none.
pub const BUCKETS: [(Duration, &str); 6] = [
    (Duration::from_micros(100), "0.0001"),
    (Duration::from_millis(1), "0.001"),
    (Duration::from_millis(10), "0.01"),
    (Duration::from_millis(100), "0.1"),
    (Duration::from_secs(1), "1"),
    (Duration::from_secs(10), "10"),
];

/// Histogram of the durations of requests.
#[derive(Default)]
pub struct Latency {
    /// Requests in each bucket, without those in the buckets before.
    buckets: [Counter; BUCKETS.len() + 1],
    nanoseconds: Counter,
}

impl Latency {
    /// Counts a request that took this long.
    pub fn add(&self, took: Duration) {
        let bucket = BUCKETS.iter().take_while(|(bound, _)| took > *bound).count();
        self.buckets[bucket].add(1);
        self.nanoseconds.add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Number of requests.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(Counter::get).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_counts_in_the_first_bucket_whose_bound_it_keeps() {
        let latency = Latency::default();
        for micros in [0, 100, 101, 1_000, 20_000_000] {
            latency.add(Duration::from_micros(micros));
        }
        let counts: Vec<u64> = latency.buckets.iter().map(Counter::get).collect();
        assert_eq!(counts, [2, 2, 0, 0, 0, 0, 1]);
        assert_eq!(latency.count(), 5);
    }
}
