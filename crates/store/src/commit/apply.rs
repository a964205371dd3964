//! Applies staged writes to the index.
use super::buffered;
use super::change::Change;
use super::stage::{Content, Piece, Staged, StagedAkey};
use crate::catalog::Container;
use crate::io::txn::{Entry, Inserted, Txn};
use crate::keys::{ARRAY, DataKey, Key, Table};
use crate::record::{Body, Record, RecordBytes};
use esker_types::info::ContainerId;
use esker_types::limits::INLINE_MAX;
use esker_types::ops::{Cond, Update, Write, WriteOp};
use esker_types::{Epoch, Error, ErrorKind, Extent, ObjectId, Result};
use smallvec::SmallVec;

/// Keys removed per round, so that memory use is bounded.
const PUNCH_BATCH: usize = 1024;

/// Applies `writes`, whose data is `staged`, to one target.
pub(crate) fn apply(
    change: &mut Change<'_>,
    container: &Container,
    writes: &[Write<'_>],
    staged: &Staged<'_>,
) -> Result<()> {
    let mut applier = Applier { change, container: container.id(), part: false };
    writes.iter().zip(&staged.writes).try_for_each(|(write, akeys)| applier.write(write, akeys))
}

/// Applies `writes` in order, each to its targets among `changes`. Whether an object exists as a whole depends on all
/// its targets.
pub(crate) fn apply_many(
    changes: &mut [Change<'_>],
    container: &Container,
    writes: &[(Write<'_>, Vec<u32>)],
    parts: &[Staged<'_>],
) -> Result<()> {
    for (index, (write, targets)) in writes.iter().enumerate() {
        check_punch(changes, container, write)?;
        for (change, staged) in changes.iter_mut().zip(parts) {
            if targets.contains(&change.target().number()) {
                let mut applier = Applier { change, container: container.id(), part: true };
                applier.write(write, &staged.writes[index])?;
            }
        }
    }
    Ok(())
}

/// Fails for a conditional punch of an object that does not exist on any target.
fn check_punch(changes: &[Change<'_>], container: &Container, write: &Write<'_>) -> Result<()> {
    let WriteOp::PunchObject { cond } = write.op else { return Ok(()) };
    if !cond.has(Cond::PUNCH) {
        return Ok(());
    }
    let prefix = Key::object(Table::Data, container.id(), write.oid);
    for change in changes {
        if exists(change.txn(), &prefix)? {
            return Ok(());
        }
    }
    Err(missing("object"))
}

/// True if an index has anything under a prefix.
pub(super) fn exists(txn: &Txn, prefix: &[u8]) -> Result<bool> {
    let first = txn.cursor()?.seek(prefix)?;
    Ok(first.is_some_and(|(key, _)| key.starts_with(prefix)))
}

fn missing(what: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("the {what} does not exist"))
}

struct Applier<'c, 't> {
    change: &'c mut Change<'t>,
    container: ContainerId,
    /// Other targets take part.
    part: bool,
}

/// A copy of an index record.
struct OwnedRecord {
    key: Vec<u8>,
    value: Vec<u8>,
}

impl OwnedRecord {
    fn record(&self) -> Result<Record<'_>> {
        Record::decode(&self.key[1..], &self.value)
    }
}

impl Applier<'_, '_> {
    fn write(&mut self, write: &Write<'_>, akeys: &[StagedAkey]) -> Result<()> {
        let (table, oid) = (Table::Data, write.oid);
        match write.op {
            WriteOp::Update { dkey, cond, updates } => {
                if akeys.iter().any(|akey| !matches!(akey.content, Content::Punch(_))) {
                    self.change.check_room()?;
                }
                let prefix = Key::dkey(table, self.container, oid, dkey)?;
                self.check_conditions(&prefix, cond, updates, akeys)?;
                self.change.touch(self.container, oid, dkey);
                akeys.iter().try_for_each(|akey| self.update(oid, akey))
            }
            WriteOp::PunchObject { cond } => {
                self.change.touch_object(self.container, oid);
                let cond = if self.part { Cond::NONE } else { cond };
                self.punch(&Key::object(table, self.container, oid), cond)
            }
            WriteOp::PunchDkey { dkey, cond } => {
                self.change.touch(self.container, oid, dkey);
                self.punch(&Key::dkey(table, self.container, oid, dkey)?, cond)
            }
            WriteOp::PunchAkeys { dkey, akeys, cond } => {
                let prefix = Key::dkey(table, self.container, oid, dkey)?;
                let keys = akeys.iter().map(|akey| prefix.akey(oid, akey));
                let keys = keys.collect::<Result<Vec<_>>>()?;
                if cond.has(Cond::PUNCH) {
                    keys.iter().try_for_each(|key| self.must_exist(key, "akey"))?;
                }
                self.change.touch(self.container, oid, dkey);
                keys.iter().try_for_each(|key| self.punch(key, Cond::NONE))
            }
        }
    }

    fn check_conditions(
        &self,
        dkey: &Key,
        cond: Cond,
        updates: &[Update<'_>],
        akeys: &[StagedAkey],
    ) -> Result<()> {
        let dkey_insert = cond.has(Cond::DKEY_INSERT);
        if dkey_insert {
            self.must_not_exist(dkey, "dkey")?;
        }
        if cond.has(Cond::DKEY_UPDATE) {
            self.must_exist(dkey, "dkey")?;
        }
        for (update, akey) in updates.iter().zip(akeys) {
            if update.cond.has(Cond::AKEY_INSERT) && !dkey_insert {
                self.must_not_exist(&akey.prefix, "akey")?;
            }
            if update.cond.has(Cond::AKEY_UPDATE) {
                self.must_exist(&akey.prefix, "akey")?;
            }
        }
        Ok(())
    }

    fn must_exist(&self, prefix: &Key, what: &str) -> Result<()> {
        if exists(self.change.txn(), prefix)? { Ok(()) } else { Err(missing(what)) }
    }

    fn must_not_exist(&self, prefix: &Key, what: &str) -> Result<()> {
        match exists(self.change.txn(), prefix)? {
            false => Ok(()),
            true => Err(Error::new(ErrorKind::Exists, format!("the {what} already exists"))),
        }
    }

    fn update(&mut self, oid: ObjectId, akey: &StagedAkey) -> Result<()> {
        match &akey.content {
            Content::Single(piece) => self.put_single(akey, piece),
            Content::Array { record_size, pieces } => {
                buffered::note_array(self.change, oid)?;
                pieces.iter().try_for_each(|piece| self.put_extent(akey, *record_size, piece))
            }
            Content::Punch(extents) => {
                extents.iter().try_for_each(|extent| self.clear(&akey.prefix, *extent, None))
            }
        }
    }

    fn put_single(&mut self, akey: &StagedAkey<'_>, piece: &Piece<'_>) -> Result<()> {
        let (prefix, left_out, epoch) = (&akey.prefix, akey.left_out, self.change.epoch);
        let (key, record) = (prefix.single(), piece.record(epoch, None, left_out));
        match self.change.insert_record(&key, &record)? {
            Inserted::Between(_, Some((after, _))) if after.starts_with(prefix) => Err(mixed()),
            Inserted::Between(..) => Ok(()),
            Inserted::Existed(old) => {
                let old = RecordBytes::from_slice(old);
                self.replace(&key, &Record::decode(&key[1..], &old)?)
            }
        }
    }

    fn put_extent(
        &mut self,
        akey: &StagedAkey<'_>,
        record_size: u32,
        piece: &Piece<'_>,
    ) -> Result<()> {
        let (prefix, left_out, epoch) = (&akey.prefix, akey.left_out, self.change.epoch);
        let (key, count) = (prefix.extent(piece.extent.start), piece.extent.count);
        let record = piece.record(epoch, Some(record_size), left_out);
        match self.change.insert_record(&key, &record)? {
            Inserted::Between(before, after) => {
                if let Some(around) = Neighbours::of(prefix, record_size, before, after)
                    && around.leave_free(piece.extent)
                {
                    let joined = around.join(piece.extent, &record);
                    return self.put_joined(prefix, joined, &record);
                }
                self.change.delete(&key)?;
            }
            Inserted::Existed(old) => {
                let old = RecordBytes::from_slice(old);
                let old = Record::decode(&key[1..], &old)?;
                if (old.record_size, old.count) == (record_size, count) {
                    return self.replace(&key, &old);
                }
            }
        }
        self.clear(prefix, piece.extent, Some(record_size))?;
        self.insert_extent(prefix, piece.extent, &record)
    }

    /// Inserts an extent where there is none, joined with adjacent ones.
    fn insert_extent(&mut self, prefix: &Key, extent: Extent, record: &Record<'_>) -> Result<()> {
        let key = prefix.extent(extent.start);
        let Inserted::Between(before, after) = self.change.insert_record(&key, record)? else {
            return self.change.put_record(&key, record);
        };
        let joined = Neighbours::of(prefix, record.record_size, before, after)
            .and_then(|around| around.join(extent, record));
        self.put_joined(prefix, joined, record)
    }

    /// Replaces adjacent records by one, unless a snapshot shows only some of them.
    fn put_joined(
        &mut self,
        prefix: &Key,
        joined: Option<Joined>,
        record: &Record<'_>,
    ) -> Result<()> {
        let Some(joined) = joined else { return Ok(()) };
        if self.change.is_in_snapshot(self.container, joined.oldest)? {
            return Ok(());
        }
        for start in &joined.others {
            self.change.delete(&prefix.extent(*start))?;
        }
        self.change.put_record(&prefix.extent(joined.start), &joined.record(record))
    }

    /// Replaces the record that was in the way of the last insertion by what was to be inserted.
    fn replace(&mut self, key: &Key, old: &Record<'_>) -> Result<()> {
        self.change.retire(self.container, key, old)?;
        self.change.put_inserted(key)
    }

    /// Clears `extent`: what it covers is retired, what sticks out stays.
    fn clear(&mut self, prefix: &Key, extent: Extent, record_size: Option<u32>) -> Result<()> {
        for old in self.overlapping(prefix, extent, record_size)? {
            let record = old.record()?;
            let start = DataKey::parse(&old.key)?.start.unwrap_or(0);
            let whole = Extent::new(start, record.count);
            let Some(middle) = whole.intersect(extent) else { continue };
            let retired = record.cut(start, middle);
            self.change.retire(self.container, &prefix.extent(middle.start), &retired)?;
            if whole.start < extent.start {
                let left = Extent::new(start, extent.start - start);
                self.change.put_record(&old.key, &record.cut(start, left))?;
            } else {
                self.change.delete(&old.key)?;
            }
            if whole.end() > extent.end() {
                let right = Extent::new(extent.end(), whole.end() - extent.end());
                self.change.put_record(&prefix.extent(right.start), &record.cut(start, right))?;
            }
        }
        Ok(())
    }

    /// Extents that overlap `extent`, last first. Fails if the akey has a single value or (if `record_size` is given)
    /// records of another size.
    fn overlapping(
        &self,
        prefix: &Key,
        extent: Extent,
        record_size: Option<u32>,
    ) -> Result<Vec<OwnedRecord>> {
        let mut found = Vec::new();
        let mut cursor = self.change.txn().cursor()?;
        let (mut entry, behind) = cursor.around(&prefix.extent(extent.end()))?;
        if let Some((key, value)) = behind {
            check_neighbour(prefix, key, value, record_size)?;
        }
        while let Some((key, value)) = entry {
            if !check_neighbour(prefix, key, value, record_size)? {
                break;
            }
            let start = DataKey::parse(key)?.start.unwrap_or(0);
            if start.saturating_add(Record::decode(&key[1..], value)?.count) <= extent.start {
                break;
            }
            found.push(OwnedRecord { key: key.to_vec(), value: value.to_vec() });
            entry = cursor.previous()?;
        }
        Ok(found)
    }

    /// Removes everything under a prefix.
    fn punch(&mut self, prefix: &Key, cond: Cond) -> Result<()> {
        if cond.has(Cond::PUNCH) {
            self.must_exist(prefix, "thing to punch")?;
        }
        self.change.announce_removal(prefix);
        loop {
            let batch = self.batch(prefix)?;
            for old in &batch {
                self.change.retire(self.container, &old.key, &old.record()?)?;
                self.change.delete_announced(&old.key)?;
            }
            if batch.len() < PUNCH_BATCH {
                return Ok(());
            }
        }
    }

    fn batch(&self, prefix: &Key) -> Result<Vec<OwnedRecord>> {
        let mut cursor = self.change.txn().cursor()?;
        let mut batch = Vec::new();
        let mut entry = cursor.seek(prefix)?;
        while let Some((key, value)) = entry.filter(|(key, _)| key.starts_with(prefix)) {
            batch.push(OwnedRecord { key: key.to_vec(), value: value.to_vec() });
            if batch.len() == PUNCH_BATCH {
                break;
            }
            entry = cursor.next()?;
        }
        Ok(batch)
    }
}

/// Inserts an extent where there is none, joined with adjacent ones.
pub(super) fn insert_extent(
    change: &mut Change<'_>,
    (akey, start): (&DataKey<'_>, u64),
    record: &Record<'_>,
) -> Result<()> {
    let extent = Extent::new(start, record.count);
    let mut applier = Applier { change, container: akey.container(), part: false };
    applier.insert_extent(&akey.akey_in_data(), extent, record)
}

/// True if an index has nothing where an extent of records of this size is to be put, nor anything that must not be
/// beside it.
pub(super) fn has_place_for(
    txn: &Txn,
    prefix: &Key,
    extent: Extent,
    record_size: u32,
) -> Result<bool> {
    let (before, after) = txn.cursor()?.around(&prefix.extent(extent.end()))?;
    let around = Neighbours::of(prefix, record_size, before, after);
    Ok(around.is_some_and(|around| around.leave_free(extent)))
}

/// True if `key` is an extent of the akey; fails if a new extent must not be stored beside it.
fn check_neighbour(
    prefix: &Key,
    key: &[u8],
    value: &[u8],
    record_size: Option<u32>,
) -> Result<bool> {
    if !key.starts_with(prefix) {
        return Ok(false);
    }
    if key.get(prefix.len()) != Some(&ARRAY) {
        return Err(mixed());
    }
    let stored = Record::decode(&key[1..], value)?.record_size;
    match record_size {
        Some(size) if size != stored => Err(Error::new(
            ErrorKind::Invalid,
            format!("records of {size} bytes for an akey with records of {stored} bytes"),
        )),
        _ => Ok(true),
    }
}

fn mixed() -> Error {
    Error::new(
        ErrorKind::NoPermission,
        "an akey has either a single value or an array: punch it before writing the other kind",
    )
}

/// An extent in the index.
struct Stored<'t> {
    extent: Extent,
    record: Record<'t>,
}

/// The extents of the same akey right before and right after one that was just put.
struct Neighbours<'t> {
    before: Option<Stored<'t>>,
    after: Option<Stored<'t>>,
}

/// Adjacent extents joined into one.
struct Joined {
    /// First record.
    start: u64,
    /// Starts of the records it replaces.
    others: SmallVec<[u64; 2]>,
    /// Epoch of the oldest of those.
    oldest: Epoch,
    data: SmallVec<[u8; 256]>,
}

impl<'t> Neighbours<'t> {
    /// Decodes two entries; `None` if one of them must not be beside an extent of records of this size, or is
    /// damaged.
    fn of(
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

    /// True if they do not overlap `extent`.
    fn leave_free(&self, extent: Extent) -> bool {
        self.before.as_ref().is_none_or(|before| before.extent.end() <= extent.start)
            && self.after.as_ref().is_none_or(|after| extent.end() <= after.extent.start)
    }

    /// Joins `extent`, which has `record`, with adjacent ones as far as the result stays inline, so that the cost of
    /// appending a byte is bounded.
    fn join(&self, extent: Extent, record: &Record<'_>) -> Option<Joined> {
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
    /// Its data, if it is inline and at most `most` bytes long.
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

    /// As a record with the epoch of `newest`.
    fn record<'r>(&'r self, newest: &Record<'r>) -> Record<'r> {
        let count = self.data.len() as u64 / u64::from(newest.record_size);
        Record { count, body: Body::Inline(&self.data), ..*newest }
    }
}
