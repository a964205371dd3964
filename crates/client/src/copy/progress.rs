//! Progress and result of a copy.
use esker_types::Epoch;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a copy, which other threads can read while it runs.
#[derive(Debug, Default)]
pub struct Progress {
    pub(super) objects: AtomicU64,
    pub(super) keys: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) verified: AtomicU64,
    pub(super) removed: AtomicU64,
}

/// The result of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Objects reached by this call.
    pub objects: u64,
    /// Dkeys copied.
    pub keys: u64,
    /// Bytes of values and records copied.
    pub bytes: u64,
    /// Bytes that were read back and found identical.
    pub verified: u64,
    /// Objects removed from the source.
    pub removed: u64,
    /// The epoch that was copied, if the source has epochs.
    pub epoch: Option<Epoch>,
    /// True if this call continued an earlier copy.
    pub resumed: bool,
}

impl Progress {
    /// The current counts.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Summary {
            objects: load(&self.objects),
            keys: load(&self.keys),
            bytes: load(&self.bytes),
            verified: load(&self.verified),
            removed: load(&self.removed),
            ..Summary::default()
        }
    }
}

/// Adds to a counter.
pub(super) fn add(count: &AtomicU64, by: u64) {
    count.fetch_add(by, Ordering::Relaxed);
}
