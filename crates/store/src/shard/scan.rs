//! Iterates over the records that a view shows: the current ones, or those of a snapshot.
use super::view::{ReadView, ViewCursor};
use crate::format::keys::{DataKey, Key, Table, in_table};
use crate::format::record::{Record, split_history};
use crate::index::txn::Cursor;
use esker_types::ops::View;
use esker_types::{Epoch, Result};

/// A copy of a record that a view shows.
#[derive(Clone, Debug)]
pub(crate) struct Visible {
    /// Key in the data table, also for a record from history.
    pub(crate) key: Vec<u8>,
    bytes: Vec<u8>,
}

impl Visible {
    /// The record.
    pub(crate) fn record(&self) -> Result<Record<'_>> {
        Record::decode(&self.key[1..], &self.bytes)
    }

    /// The parsed key.
    pub(crate) fn parts(&self) -> Result<DataKey<'_>> {
        DataKey::parse(&self.key)
    }

    /// First array record; zero for a single value.
    pub(crate) fn start(&self) -> u64 {
        self.parts().ok().and_then(|parts| parts.start).unwrap_or(0)
    }
}

/// Iterates over the data keys under a prefix in ascending order, as a view shows them.
pub(crate) struct Scan<'t> {
    now: ViewCursor<'t>,
    past: Option<(Cursor<'t>, Epoch)>,
    prefix: Key,
}

impl<'t> Scan<'t> {
    /// A scan of the keys under `prefix`, in the latest state or in a snapshot, as `view` says.
    pub(crate) fn new(from: &'t ReadView<'_>, prefix: Key, view: View) -> Result<Self> {
        let past = match view {
            View::Latest => None,
            View::Snapshot(epoch) => Some((from.committed().cursor()?, epoch)),
        };
        Ok(Self { now: from.cursor()?, past, prefix })
    }

    /// The first record under the prefix whose data key is `from` or greater; `None` if there is none. In a snapshot,
    /// it comes from the data table or from the history.
    pub(crate) fn seek(&mut self, from: &[u8]) -> Result<Option<Visible>> {
        let Some((past, epoch)) = &mut self.past else {
            let entry = self.now.seek(from)?;
            return Ok(entry.filter(|(key, _)| key.starts_with(&self.prefix)).map(to_visible));
        };
        let now = next_current(&mut self.now, from, &self.prefix, *epoch)?;
        let then = next_in_history(past, from, &self.prefix, *epoch)?;
        Ok(match (now, then) {
            (Some(now), Some(then)) => Some(if now.key <= then.key { now } else { then }),
            (now, then) => now.or(then),
        })
    }

    /// The first visible record after all versions of `key`; `None` if there is none.
    pub(crate) fn after(&mut self, key: &[u8]) -> Result<Option<Visible>> {
        // This key is after every version of `key` in the history table, where keys end with an epoch.
        let next: Vec<u8> = key.iter().copied().chain([0xff; 9]).collect();
        self.seek(&next)
    }
}

/// Copies an entry of the data table.
pub(super) fn to_visible((key, bytes): (&[u8], &[u8])) -> Visible {
    Visible { key: key.to_vec(), bytes: bytes.to_vec() }
}

/// The first current record from `from` on that existed at `epoch`.
fn next_current(
    cursor: &mut ViewCursor<'_>,
    from: &[u8],
    prefix: &[u8],
    epoch: Epoch,
) -> Result<Option<Visible>> {
    let mut entry = cursor.seek(from)?;
    while let Some((key, value)) = entry.filter(|(key, _)| key.starts_with(prefix)) {
        if Record::decode(&key[1..], value)?.epoch <= epoch {
            return Ok(Some(to_visible((key, value))));
        }
        entry = cursor.next()?;
    }
    Ok(None)
}

/// The first record from `from` on that existed at `epoch` and was replaced or removed later, under its key in the data
/// table.
fn next_in_history(
    cursor: &mut Cursor<'_>,
    from: &[u8],
    prefix: &[u8],
    epoch: Epoch,
) -> Result<Option<Visible>> {
    let prefix = in_table(Table::History, prefix);
    let mut entry = cursor.seek(&in_table(Table::History, from))?;
    while let Some((key, value)) = entry.filter(|(key, _)| key.starts_with(&prefix)) {
        let (until, record) = split_history(value)?;
        let parts = DataKey::parse(key)?;
        if parts.created.is_some_and(|created| created <= epoch && epoch < until) {
            let key = Key::table(Table::Data).push(parts.body()).to_vec();
            return Ok(Some(Visible { key, bytes: record.to_vec() }));
        }
        entry = cursor.next()?;
    }
    Ok(None)
}

/// The records of an array akey that overlap `range`, in ascending order, as a view shows them; at most `most`.
pub(crate) fn extents(
    from: &ReadView<'_>,
    akey: &Key,
    range: esker_types::Extent,
    view: View,
    most: usize,
) -> Result<Vec<Visible>> {
    let prefix = akey.clone().push(&[crate::format::keys::ARRAY]);
    let first = match view {
        View::Latest => first_overlap(from, akey, &prefix, range.start)?,
        // An extent that overlaps the range may be in the history, before any current record of it.
        View::Snapshot(_) => prefix.to_vec(),
    };
    let mut scan = Scan::new(from, prefix, view)?;
    let mut found = Vec::new();
    let mut next = scan.seek(&first)?;
    while let Some(visible) =
        next.take_if(|visible| visible.start() < range.end() && found.len() < most)
    {
        next = scan.after(&visible.key)?;
        if visible.start().saturating_add(visible.record()?.count) > range.start {
            found.push(visible);
        }
    }
    Ok(found)
}

/// Key of the extent that covers record `start`, or a key before the next extent.
fn first_overlap(from: &ReadView<'_>, akey: &Key, prefix: &[u8], start: u64) -> Result<Vec<u8>> {
    let exact = akey.extent(start);
    let (before, next) = from.cursor()?.around(&exact)?;
    if next.is_some_and(|(key, _)| *key == *exact) {
        return Ok(exact.to_vec());
    }
    let covering = before.filter(|(key, _)| key.starts_with(prefix));
    Ok(covering.map_or_else(|| exact.to_vec(), |(key, _)| key.to_vec()))
}
