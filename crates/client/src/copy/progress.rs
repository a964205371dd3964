//! How far a copy is, and what came of it.
use esker_types::Epoch;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of a copy, which others may watch while it runs.
#[derive(Debug, Default)]
pub struct Progress {
    pub(super) objects: AtomicU64,
    pub(super) keys: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) verified: AtomicU64,
    pub(super) removed: AtomicU64,
}

/// What came of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Objects met by this call.
    pub objects: u64,
    /// Dkeys copied.
    pub keys: u64,
    /// Bytes of values and records copied.
    pub bytes: u64,
    /// Bytes of them that were read back and are the same.
    pub verified: u64,
    /// Objects removed from the source.
    pub removed: u64,
    /// The moment that was copied, where the source can tell.
    pub epoch: Option<Epoch>,
    /// True where this went on with an earlier copy.
    pub resumed: bool,
}

impl Progress {
    /// The counts as they are now.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Summary {
            objects: of(&self.objects),
            keys: of(&self.keys),
            bytes: of(&self.bytes),
            verified: of(&self.verified),
            removed: of(&self.removed),
            ..Summary::default()
        }
    }
}

/// Adds to a count.
pub(super) fn add(count: &AtomicU64, by: u64) {
    count.fetch_add(by, Ordering::Relaxed);
}
