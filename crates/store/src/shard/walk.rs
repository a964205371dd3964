//! Iterates over all records of a target, for rebuilding, check and scrub.
use super::segment::Appended;
use super::segment::collect::all_dead;
use super::{ReadView, Scope, Target, doubt, snapshots};
use crate::data::header::{ALIGN, data_offset};
use crate::format::keys::{Key, Table};
use crate::format::record::{Body, Found, Record, parse_entry, split_history};
use crate::index::entries;
use crate::shared::control::EPOCH_MAX;
use esker_types::limits::CHECKSUM_CHUNK;
use esker_types::{Epoch, Result};
use std::collections::HashMap;

/// Use of a segment, according to the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    /// Bytes of data to which records refer.
    pub(crate) live: u64,
    /// End of the last byte to which a record refers, rounded up to the next possible header.
    pub(crate) end: u64,
    /// The record that refers to the last byte.
    last: Option<LastRecord>,
}

/// The record that refers to the last byte of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LastRecord {
    /// Bytes of its key in a header.
    key_len: usize,
    /// First byte that its checksums cover.
    base: u64,
    /// End of these bytes.
    end: u64,
}

/// Use of all segments, according to the index.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    pub(crate) segments: HashMap<u32, Used>,
    /// Bytes of dead data, by segment.
    pub(crate) dead: HashMap<u32, u64>,
    pub(crate) last_epoch: Epoch,
    pub(crate) has_snapshots: bool,
}

impl Usage {
    /// Counts a record, whose key takes `key_len` bytes in a header.
    fn count(&mut self, key_len: usize, record: &Record<'_>) {
        self.last_epoch = self.last_epoch.max(record.epoch);
        if let Body::Segment(place) = record.body {
            let used = self.segments.entry(place.segment).or_default();
            used.live += record.bytes();
            let base = u64::from(place.base);
            let end = base + u64::from(place.covered);
            if end > used.last.map_or(0, |last| last.end) {
                used.last = Some(LastRecord { key_len, base, end });
            }
            used.end = used.end.max(end.next_multiple_of(ALIGN));
        }
    }
}

/// Visits every record: its key (with the table byte), the parts of the key, and the record or its error.
pub(crate) fn records(
    view: &ReadView<'_>,
    mut visit: impl FnMut(&[u8], Found<'_>) -> Result<()>,
) -> Result<()> {
    records_from(view, &[], |key, found| visit(key, found).map(|()| true))
}

/// Visits records from key `position` on, until `visit` returns false.
pub(crate) fn records_from(
    view: &ReadView<'_>,
    position: &[u8],
    mut visit: impl FnMut(&[u8], Found<'_>) -> Result<bool>,
) -> Result<()> {
    for table in [Table::Data, Table::History] {
        let prefix = Key::table(table);
        let mut cursor = view.cursor()?;
        let mut entry = cursor.seek(position.max(&prefix))?;
        while let Some((key, value)) = entry.filter(|(key, _)| key.starts_with(&prefix)) {
            if !visit(key, parse_entry(table, key, value))? {
                return Ok(());
            }
            entry = cursor.next()?;
        }
    }
    Ok(())
}

/// Counts the data of each segment: that of records, of buffered puts, and the data `staged` by prepared commits.
/// Records that buffered puts will replace count too, since their bytes become dead when the puts are committed.
pub(crate) fn usage(target: &Target, staged: &[Appended]) -> Result<Usage> {
    let (view, puts) = target.committed_and_buffered()?;
    let txn = view.committed();
    let mut usage = Usage {
        dead: all_dead(txn)?,
        has_snapshots: snapshots::any(txn)?,
        last_epoch: snapshots::last_of_all(txn)?.max(doubt::last_applied(txn)?),
        ..Usage::default()
    };
    records(&view, |_, found| {
        found.iter().for_each(|(key, record)| usage.count(key.body().len(), record));
        Ok(())
    })?;
    for put in puts.iter() {
        let found = parse_entry(Table::Data, put.key, put.record);
        found.iter().for_each(|(key, record)| usage.count(key.body().len(), record));
    }
    for staged in staged {
        let used = usage.segments.entry(staged.segment).or_default();
        used.live += staged.bytes;
        used.end = used.end.max(staged.end);
    }
    Ok(usage)
}

/// Epoch of the last removal or replacement of a record in the history. A record there can be the only trace of a removal
/// by a commit of one target. Entries without a possible epoch are damaged, and do not count.
pub(crate) fn last_removal(target: &Target) -> Result<Epoch> {
    let view = target.view_in_doubt(Scope::Committed)?;
    let mut last = Epoch(0);
    entries::table(view.committed(), Table::History, |_, value| {
        let until = split_history(value).map_or(Epoch(0), |(until, _)| until);
        if until <= EPOCH_MAX {
            last = last.max(until);
        }
    })?;
    Ok(last)
}

/// Position in a segment behind all extents to which records refer, where the next extent can be appended.
///
/// A record may refer to the first bytes of an extent only, since the others were overwritten. The next extent must
/// still follow the whole one: compaction finds extents by their headers, one after the other. So the header of the
/// last extent is read. If it is not found, the position is the end of the segment.
pub(crate) fn tail_of(target: &Target, segment: u32, used: &Used) -> u64 {
    match used.last {
        Some(last) => end_of_extent(target, segment, &last)
            .map_or_else(|| target.segment_bytes(), |end| end.max(used.end)),
        None => used.end,
    }
}

/// End of the extent to which a record refers; `None` if its header is not found. Checksums begin at the first byte of
/// an extent, or at a later chunk if the bytes before were overwritten.
fn end_of_extent(target: &Target, segment: u32, last: &LastRecord) -> Option<u64> {
    let mut data_at = last.base;
    loop {
        let at = data_at.checked_sub(data_offset(last.key_len))?;
        let len = target.segment_bytes().checked_sub(at)?;
        if let Ok(Some(header)) = target.data.header(target.segment_offset(segment) + at, len)
            && header.key.len() == last.key_len
            && data_at + u64::from(header.data_len) >= last.end
        {
            return Some(at + header.footprint());
        }
        data_at = data_at.checked_sub(CHECKSUM_CHUNK as u64)?;
    }
}
