//! What an engine has done and is doing, in numbers. Counting takes a few atomic additions per request.
use crate::kinds::RequestKind;
use esker_types::ErrorKind;
use esker_wire::frame::{Frame, PREFIX_LEN};
use std::array::from_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A number that only grows.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Upper bounds of the buckets of [`Latency`], and how the metrics write them in seconds. The last bucket has none.
pub(crate) const BUCKETS: [(Duration, &str); 6] = [
    (Duration::from_micros(100), "0.0001"),
    (Duration::from_millis(1), "0.001"),
    (Duration::from_millis(10), "0.01"),
    (Duration::from_millis(100), "0.1"),
    (Duration::from_secs(1), "1"),
    (Duration::from_secs(10), "10"),
];

/// How long the engine took for requests, from the first look at a request to its reply.
#[derive(Default)]
pub(crate) struct Latency {
    /// Requests in each bucket, not those in the buckets before.
    pub(crate) buckets: [Counter; BUCKETS.len() + 1],
    pub(crate) nanoseconds: Counter,
}

impl Latency {
    fn add(&self, took: Duration) {
        let bucket = BUCKETS.iter().take_while(|(bound, _)| took > *bound).count();
        self.buckets[bucket].add(1);
        self.nanoseconds.add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }
}

/// Why a connection ended before its client had proved itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Secret,
    Version,
    Pool,
    Malformed,
    TimedOut,
    Crowded,
    Full,
    Lost,
}

impl Refused {
    /// Every reason, in the order of their numbers, with its name.
    pub(crate) const ALL: [(Self, &'static str); 8] = [
        (Self::Secret, "secret"),
        (Self::Version, "version"),
        (Self::Pool, "pool"),
        (Self::Malformed, "malformed"),
        (Self::TimedOut, "timeout"),
        (Self::Crowded, "crowded"),
        (Self::Full, "full"),
        (Self::Lost, "lost"),
    ];

    /// The reason that an error of the handshake stands for.
    fn of(error: ErrorKind) -> Self {
        match error {
            ErrorKind::NoPermission => Self::Secret,
            ErrorKind::Incompatible => Self::Version,
            ErrorKind::NotFound => Self::Pool,
            ErrorKind::Corrupt => Self::Malformed,
            ErrorKind::TimedOut => Self::TimedOut,
            ErrorKind::Busy => Self::Crowded,
            ErrorKind::Overflow => Self::Full,
            _ => Self::Lost,
        }
    }
}

/// The numbers of one engine.
pub(crate) struct Metrics {
    pub(crate) connections: Counter,
    pub(crate) refused: [Counter; Refused::ALL.len()],
    pub(crate) malformed: Counter,
    pub(crate) received_bytes: Counter,
    pub(crate) sent_bytes: Counter,
    pub(crate) requests: [Latency; RequestKind::ALL.len()],
    pub(crate) errors: [Counter; ErrorKind::ALL.len()],
    pub(crate) panics: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            connections: Counter::default(),
            refused: from_fn(|_| Counter::default()),
            malformed: Counter::default(),
            received_bytes: Counter::default(),
            sent_bytes: Counter::default(),
            requests: from_fn(|_| Latency::default()),
            errors: from_fn(|_| Counter::default()),
            panics: Counter::default(),
        }
    }
}

/// Bytes of a frame on the wire.
fn wire_bytes(frame: &Frame) -> u64 {
    (PREFIX_LEN + frame.message.len() + frame.bulk.len()) as u64
}

impl Metrics {
    /// A connection ended during its handshake.
    pub(crate) fn refuse(&self, error: ErrorKind) {
        self.refused[Refused::of(error) as usize].add(1);
    }

    pub(crate) fn received(&self, frame: &Frame) {
        self.received_bytes.add(wire_bytes(frame));
    }

    pub(crate) fn sent(&self, bytes: u64) {
        self.sent_bytes.add(bytes);
    }

    /// A request was answered, perhaps by an error.
    pub(crate) fn answered(&self, kind: RequestKind, took: Duration, error: Option<ErrorKind>) {
        self.requests[kind as usize].add(took);
        let known = |error| ErrorKind::ALL.iter().position(|known| *known == error);
        if let Some(counter) = error.and_then(known).and_then(|at| self.errors.get(at)) {
            counter.add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_listed_in_the_order_of_their_numbers() {
        for (number, (reason, _)) in Refused::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, number);
        }
    }

    #[test]
    fn a_request_counts_in_the_first_bucket_that_holds_it() {
        let latency = Latency::default();
        for micros in [0, 100, 101, 1_000, 20_000_000] {
            latency.add(Duration::from_micros(micros));
        }
        let counts: Vec<u64> = latency.buckets.iter().map(Counter::get).collect();
        assert_eq!(counts, [2, 2, 0, 0, 0, 0, 1]);
    }
}
