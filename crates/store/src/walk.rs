//! Iterates over everything in the index of a target: for rebuilding, check and scrub.
use crate::commit::Prepared;
use crate::io::txn::Txn;
use crate::keys::{Key, Table};
use crate::record::{Body, Found, Record, parse_entry};
use crate::segment::header::ALIGN;
use crate::target::{ReadView, Target};
use esker_types::{Epoch, Result};
use std::collections::HashMap;

/// What the index says of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    /// Bytes of data that records refer to.
    pub(crate) live: u64,
    /// End of the last byte that a record refers to, rounded up to where the next header would begin.
    pub(crate) end: u64,
}

/// What the index says of all segments.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    pub(crate) segments: HashMap<u32, Used>,
    pub(crate) dead: HashMap<u32, u64>,
    pub(crate) last_epoch: Epoch,
    pub(crate) has_snapshots: bool,
}

impl Usage {
    fn count(&mut self, record: &Record<'_>) {
        self.last_epoch = self.last_epoch.max(record.epoch);
        if let Body::Segment(place) = record.body {
            let used = self.segments.entry(place.segment).or_default();
            used.live += record.bytes();
            let end = u64::from(place.base) + u64::from(place.covered);
            used.end = used.end.max(end.next_multiple_of(ALIGN));
        }
    }
}

/// Visits every record: its key (with table), its parts, and the record or its error.
pub(crate) fn records(
    view: &ReadView<'_>,
    mut visit: impl FnMut(&[u8], Found<'_>) -> Result<()>,
) -> Result<()> {
    records_from(view, &[], |key, found| visit(key, found).map(|()| true))
}

/// Visits records from key `position` on, as long as `visit` returns true.
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

/// Visits every key of a table, with its value.
pub(crate) fn table(txn: &Txn, table: Table, mut visit: impl FnMut(&[u8], &[u8])) -> Result<()> {
    let prefix = Key::table(table);
    let mut cursor = txn.cursor()?;
    let mut entry = cursor.seek(&prefix)?;
    while let Some((key, value)) = entry.filter(|(key, _)| key.starts_with(&prefix)) {
        visit(key, value);
        entry = cursor.next()?;
    }
    Ok(())
}

/// The segment that a key of [`Table::Segment`] or [`Table::Lent`] names.
pub(crate) fn segment_of(key: &[u8]) -> Option<u32> {
    let (_table, number) = key.split_first()?;
    number.try_into().ok().map(u32::from_be_bytes)
}

/// Counts the data of each segment: that of records, of buffered puts, and of commits that are prepared on the pool. Records
/// that buffered puts are going to replace count, too: their bytes are dead once the puts are committed.
pub(crate) fn usage(target: &Target, prepared: &[Prepared]) -> Result<Usage> {
    let (view, puts) = target.committed_and_buffered()?;
    let txn = view.committed();
    let mut usage = Usage {
        dead: crate::segment::collect::all_dead(txn)?,
        has_snapshots: crate::snapshots::any(txn)?,
        last_epoch: crate::snapshots::last_of_all(txn)?.max(crate::commit::last_applied(txn)?),
        ..Usage::default()
    };
    records(&view, |_, found| {
        found.iter().for_each(|(_, record)| usage.count(record));
        Ok(())
    })?;
    for put in puts.iter() {
        let found = parse_entry(Table::Data, put.key, put.record);
        found.iter().for_each(|(_, record)| usage.count(record));
    }
    for staged in crate::commit::staged_on(prepared, target.number()) {
        let used = usage.segments.entry(staged.segment).or_default();
        used.live += staged.bytes;
        used.end = used.end.max(staged.end);
    }
    Ok(usage)
}
