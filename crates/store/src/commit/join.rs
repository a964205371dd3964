//! Joining: small extents of an array that touch share one record. Otherwise a program that appends a
//! byte at a time would fill the index with records, each many times as long as its data.
use crate::io::txn::Entry;
use crate::keys::{DataKey, Key};
use crate::record::{Body, Record};
use esker_types::limits::INLINE_MAX;
use esker_types::{Epoch, Extent};
use smallvec::SmallVec;

/// An extent as it stands in the index.
struct Stored<'t> {
    extent: Extent,
    record: Record<'t>,
}

/// What stands right before and right behind an extent that was just put, of the same akey.
pub(super) struct Neighbours<'t> {
    before: Option<Stored<'t>>,
    after: Option<Stored<'t>>,
}

/// An extent with those that touch it, as one.
pub(super) struct Joined {
    /// First record.
    pub(super) start: u64,
    /// Where the others begin whose place it takes.
    pub(super) others: SmallVec<[u64; 2]>,
    /// When the oldest of those that were there before was written.
    pub(super) oldest: Epoch,
    data: SmallVec<[u8; 256]>,
}

impl<'t> Neighbours<'t> {
    /// Takes two entries apart; `None` where one of them must not stand beside an extent of records of this
    /// size, or is damaged.
    pub(super) fn of(
        prefix: &Key,
        record_size: u32,
        before: Option<Entry<'t>>,
        after: Option<Entry<'t>>,
    ) -> Option<Self> {
        let stored = |entry: Option<Entry<'t>>| {
            let Some((key, value)) = entry.filter(|(key, _)| key.starts_with(prefix)) else {
                return Some(None);
            };
            let start = DataKey::parse(key).ok()?.start?;
            let record = Record::decode(&key[1..], value).ok()?;
            let extent = Extent::new(start, record.count);
            (record.record_size == record_size).then_some(Some(Stored { extent, record }))
        };
        Some(Self { before: stored(before)?, after: stored(after)? })
    }

    /// True where they share no record with `extent`.
    pub(super) fn leave_free(&self, extent: Extent) -> bool {
        self.before.as_ref().is_none_or(|before| before.extent.end() <= extent.start)
            && self.after.as_ref().is_none_or(|after| extent.end() <= after.extent.start)
    }

    /// `extent`, which holds `record`, with those that touch it, as far as all of it stays inline: so what one
    /// more byte rewrites is bounded.
    pub(super) fn join(&self, extent: Extent, record: &Record<'_>) -> Option<Joined> {
        let Body::Inline(own) = record.body else { return None };
        let mut joined = Joined {
            start: extent.start,
            others: SmallVec::new(),
            oldest: record.epoch,
            data: SmallVec::new(),
        };
        if let Some(before) = &self.before
            && before.extent.end() == extent.start
            && let Some(data) = before.inline(INLINE_MAX - own.len())
        {
            joined.start = before.extent.start;
            joined.take(data, extent.start, before);
        }
        if let Some(after) = &self.after
            && after.extent.start == extent.end()
            && let Some(data) = after.inline(INLINE_MAX - own.len() - joined.data.len())
        {
            joined.data.extend_from_slice(own);
            joined.take(data, after.extent.start, after);
        } else {
            joined.data.extend_from_slice(own);
        }
        (!joined.others.is_empty()).then_some(joined)
    }
}

impl<'t> Stored<'t> {
    /// Its data, if it is in the index and at most `most` bytes long.
    fn inline(&self, most: usize) -> Option<&'t [u8]> {
        match self.record.body {
            Body::Inline(data) if data.len() <= most => Some(data),
            _ => None,
        }
    }
}

impl Joined {
    fn take(&mut self, data: &[u8], removed: u64, from: &Stored<'_>) {
        self.data.extend_from_slice(data);
        self.others.push(removed);
        self.oldest = self.oldest.min(from.record.epoch);
    }

    /// As a record, written when `newest` was.
    pub(super) fn record<'r>(&'r self, newest: &Record<'r>) -> Record<'r> {
        let count = self.data.len() as u64 / u64::from(newest.record_size);
        Record { count, body: Body::Inline(&self.data), ..*newest }
    }
}
