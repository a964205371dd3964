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
    past: Option<Past<'t>>,
    prefix: Key,
}

/// State of a scan of a snapshot. It merges the data table and the history.
struct Past<'t> {
    cursor: Cursor<'t>,
    epoch: Epoch,
    current: Option<Searched>,
    history: Option<Searched>,
}

/// Result of the last search in one table. Searches skip the records that the snapshot does not show. The result is
/// reused, so that the records are skipped once for all steps of a scan.
struct Searched {
    /// Position from which the table was searched.
    from: Vec<u8>,
    /// The first visible entry from there on.
    found: Option<Found>,
}

/// A visible entry of one table.
struct Found {
    /// Key of the entry, with the byte of the data table.
    at: Vec<u8>,
    visible: Visible,
}

impl Searched {
    fn new(from: &[u8], found: Option<Found>) -> Self {
        Self { from: from.to_vec(), found }
    }

    /// True if a search from `from` on would have the same result, since the table does not change.
    fn holds_from(&self, from: &[u8]) -> bool {
        *self.from <= *from && self.found.as_ref().is_none_or(|found| *found.at >= *from)
    }
}

impl<'t> Scan<'t> {
    /// A scan of the keys under `prefix`, in the latest state or in a snapshot, as `view` says.
    pub(crate) fn new(from: &'t ReadView<'_>, prefix: Key, view: View) -> Result<Self> {
        let past = match view {
            View::Latest => None,
            View::Snapshot(epoch) => {
                let cursor = from.committed().cursor()?;
                Some(Past { cursor, epoch, current: None, history: None })
            }
        };
        Ok(Self { now: from.cursor()?, past, prefix })
    }

    /// The first record under the prefix whose data key is `from` or greater; `None` if there is none. In a snapshot,
    /// it comes from the data table or from the history.
    pub(crate) fn seek(&mut self, from: &[u8]) -> Result<Option<Visible>> {
        let Some(past) = &mut self.past else {
            let entry = self.now.seek(from)?;
            return Ok(entry.filter(|(key, _)| key.starts_with(&self.prefix)).map(to_visible));
        };
        let Past { cursor, epoch, current, history } = past;
        if !current.as_ref().is_some_and(|last| last.holds_from(from)) {
            let found = next_current(&mut self.now, from, &self.prefix, *epoch)?;
            *current = Some(Searched::new(from, found));
        }
        if !history.as_ref().is_some_and(|last| last.holds_from(from)) {
            let found = next_in_history(cursor, from, &self.prefix, *epoch)?;
            *history = Some(Searched::new(from, found));
        }
        let found = |last: &Option<Searched>| {
            last.as_ref().and_then(|last| last.found.as_ref()).map(|found| found.visible.clone())
        };
        Ok(match (found(current), found(history)) {
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

#[cfg(test)]
thread_local! {
    /// Number of records that searches in snapshots have visited on this thread.
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts a visited record, in tests.
#[inline]
fn count_step() {
    #[cfg(test)]
    STEPS.set(STEPS.get() + 1);
}

/// The first current record from `from` on that existed at `epoch`.
fn next_current(
    cursor: &mut ViewCursor<'_>,
    from: &[u8],
    prefix: &[u8],
    epoch: Epoch,
) -> Result<Option<Found>> {
    let mut entry = cursor.seek(from)?;
    while let Some((key, value)) = entry.filter(|(key, _)| key.starts_with(prefix)) {
        count_step();
        if Record::decode(&key[1..], value)?.epoch <= epoch {
            return Ok(Some(Found { at: key.to_vec(), visible: to_visible((key, value)) }));
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
) -> Result<Option<Found>> {
    let prefix = in_table(Table::History, prefix);
    let mut entry = cursor.seek(&in_table(Table::History, from))?;
    while let Some((key, value)) = entry.filter(|(key, _)| key.starts_with(&prefix)) {
        count_step();
        let (until, record) = split_history(value)?;
        let parts = DataKey::parse(key)?;
        if parts.created.is_some_and(|created| created <= epoch && epoch < until) {
            let at = in_table(Table::Data, key).to_vec();
            let key = Key::table(Table::Data).push(parts.body()).to_vec();
            return Ok(Some(Found { at, visible: Visible { key, bytes: record.to_vec() } }));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;
    use esker_types::info::{ContainerRef, OpenMode};
    use esker_types::ops::{Anchor, Cond, KeyScope, ListLimit, ReadAt};
    use esker_types::ops::{Source, Update, Value, Write, WriteOp};
    use esker_types::{ObjectClass, ObjectId, ObjectType};

    /// Number of records that a listing of an object and of all objects visits in a snapshot, after `count` dkeys and
    /// objects were replaced.
    fn steps_of_listings(count: u32) -> [usize; 2] {
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(1));
        let state = pool.opened();
        let uuid = state.create_container(&Default::default()).unwrap().uuid;
        let opened = state.open_container(ContainerRef::Uuid(uuid), OpenMode::ReadWrite);
        let container = opened.unwrap();
        let object = |number: u32| {
            ObjectId::generate(0, number.into(), ObjectType::KvHashed, ObjectClass::S1)
        };
        let write_all = |value: &[u8]| {
            let value = Value::Single(Source::One(value));
            let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
            let write = |oid, dkey: &[u8]| {
                let op = WriteOp::Update { dkey, cond: Cond::NONE, updates: &updates };
                state.write(&container, 0, &[Write { oid, op }], &[], None).unwrap();
            };
            (0..count).for_each(|number| write(object(0), &number.to_be_bytes()));
            (1..count).for_each(|number| write(object(number), b"d"));
        };
        write_all(b"first");
        let old = state.create_snapshot(&container, "old").unwrap();
        write_all(b"second");
        let new = state.create_snapshot(&container, "new").unwrap();
        [old, new].map(|epoch| {
            let (target, at) =
                (&state.targets[0], ReadAt { view: View::Snapshot(epoch), ..ReadAt::LATEST });
            STEPS.set(0);
            let limit = ListLimit { entries: usize::MAX, bytes: usize::MAX };
            let (id, mut anchor) = (container.id(), Anchor::Start);
            let keys = target.list_keys(id, object(0), KeyScope::Dkeys, &mut anchor, limit, at);
            assert_eq!(keys.unwrap().len(), count as usize);
            let objects = target.list_objects(id, None, usize::MAX, at).unwrap();
            assert_eq!(objects.len(), count as usize);
            STEPS.get()
        })
    }

    /// In the old snapshot, all current records are skipped; in the new one, all of the history.
    #[test]
    fn listings_of_snapshots_visit_each_record_once() {
        let (few, many) = (steps_of_listings(50), steps_of_listings(100));
        for (few, many) in few.into_iter().zip(many) {
            assert!(many < few * 3, "{few} steps, then {many}");
        }
    }
}
