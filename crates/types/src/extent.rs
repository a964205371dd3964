//! Ranges of array records.
use crate::{Error, ErrorKind, Result};

/// A range of array records (DAOS: `daos_recx_t`): `count` records from index `start` on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Extent {
    /// Index of the first record.
    pub start: u64,
    /// Number of records.
    pub count: u64,
}

impl Extent {
    /// `count` records from `start` on.
    #[must_use]
    pub const fn new(start: u64, count: u64) -> Self {
        Self { start, count }
    }

    /// Index after the last record. Saturates; [`Extent::check`] refuses extents that would wrap.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.start.saturating_add(self.count)
    }

    /// True if it has no records.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.count == 0
    }

    /// The records that both extents contain; `None` if there are none.
    #[must_use]
    pub fn intersect(self, other: Self) -> Option<Self> {
        let start = self.start.max(other.start);
        let end = self.end().min(other.end());
        (start < end).then(|| Self::new(start, end - start))
    }

    /// Refuses an extent whose end does not fit 64 bits ([`ErrorKind::Invalid`]).
    pub fn check(self) -> Result<()> {
        match self.start.checked_add(self.count) {
            Some(_) => Ok(()),
            None => Err(Error::new(
                ErrorKind::Invalid,
                format!("extent of {} records at {} runs past 2^64", self.count, self.start),
            )),
        }
    }
}
