//! Extents of arrays in an index. A new extent replaces the records that it covers, and small adjacent extents are
//! joined.
use super::change::Change;
use crate::format::keys::{ARRAY, DataKey, Key};
use crate::format::record::{Body, Record, RecordBytes};
use crate::index::txn::{Entry, Inserted, Txn};
use esker_types::info::ContainerId;
use esker_types::limits::INLINE_MAX;
use esker_types::{Epoch, Error, ErrorKind, Extent, Result};
use smallvec::SmallVec;

/// Changes of extents of a container, within a change of an index.
pub(crate) struct Extents<'c, 't> {
    pub(crate) change: &'c mut Change<'t>,
    pub(crate) container: ContainerId,
}

/// A copy of an entry of an index.
struct OwnedRecord {
    key: Vec<u8>,
    value: Vec<u8>,
}

impl OwnedRecord {
    fn record(&self) -> Result<Record<'_>> {
        Record::decode(&self.key[1..], &self.value)
    }
}

impl Extents<'_, '_> {
    /// Stores an extent of the array with this prefix, and replaces the records that it covers. The common cases, an
    /// extent that overlaps no other one or replaces exactly one, need a single descent of the tree.
    pub(crate) fn put(&mut self, prefix: &Key, extent: Extent, record: &Record<'_>) -> Result<()> {
        let (key, record_size) = (prefix.extent(extent.start), record.record_size);
        match self.change.insert_record(&key, record)? {
            Inserted::Between(before, after) => {
                if let Some(around) = Neighbours::decode(prefix, record_size, before, after)
                    && around.do_not_overlap(extent)
                {
                    let joined = around.join(extent, record);
                    return self.put_joined(prefix, joined, record);
                }
                // The extent overlaps others, so the insertion is undone.
                self.change.delete(&key)?;
            }
            Inserted::Existed(old) => {
                let old = RecordBytes::from_slice(old);
                let old = Record::decode(&key[1..], &old)?;
                if (old.record_size, old.count) == (record_size, extent.count) {
                    return self.change.replace_inserted(self.container, &key, &old);
                }
            }
        }
        self.clear(prefix, extent, Some(record_size))?;
        self.insert(prefix, extent, record)
    }

    /// Inserts an extent that overlaps no other one, and joins it with adjacent ones. If a record has the same key,
    /// replaces it.
    pub(crate) fn insert(
        &mut self,
        prefix: &Key,
        extent: Extent,
        record: &Record<'_>,
    ) -> Result<()> {
        let key = prefix.extent(extent.start);
        let Inserted::Between(before, after) = self.change.insert_record(&key, record)? else {
            return self.change.put_record(&key, record);
        };
        let joined = Neighbours::decode(prefix, record.record_size, before, after)
            .and_then(|around| around.join(extent, record));
        self.put_joined(prefix, joined, record)
    }

    /// Replaces the records of adjacent extents by the record of the `joined` extent. Does nothing without a joined
    /// extent, or if a snapshot contains some of the records.
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

    /// Removes the records in `extent`: covered parts are retired, and the parts outside remain.
    pub(crate) fn clear(
        &mut self,
        prefix: &Key,
        extent: Extent,
        record_size: Option<u32>,
    ) -> Result<()> {
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

    /// Extents that overlap `extent`, in descending order. Fails if the akey has a single value or, with `record_size`,
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
}

/// True if an extent of records of this size can be inserted: no extent overlaps it, and no neighbour has another kind
/// or record size.
pub(crate) fn fits_between(
    txn: &Txn,
    prefix: &Key,
    extent: Extent,
    record_size: u32,
) -> Result<bool> {
    let (before, after) = txn.cursor()?.around(&prefix.extent(extent.end()))?;
    let around = Neighbours::decode(prefix, record_size, before, after);
    Ok(around.is_some_and(|around| around.do_not_overlap(extent)))
}

/// True if `key` is an extent of the akey, false if it belongs to another akey. Fails if the akey has a single value,
/// or records of another size than `record_size`: then no extent may be added to it.
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
        return Err(mixed_kinds_error());
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

/// Error for an akey that has a value of the other kind.
pub(crate) fn mixed_kinds_error() -> Error {
    Error::new(
        ErrorKind::NoPermission,
        "an akey has either a single value or an array: punch it before writing the other kind",
    )
}

/// An extent of the index.
struct Stored<'t> {
    extent: Extent,
    record: Record<'t>,
}

/// The extents of the same akey immediately before and after a new one.
struct Neighbours<'t> {
    before: Option<Stored<'t>>,
    after: Option<Stored<'t>>,
}

/// Adjacent extents, joined into one.
struct Joined {
    /// First record of the joined extent.
    start: u64,
    /// First records of the extents that it replaces.
    others: SmallVec<[u64; 2]>,
    /// Epochs of the oldest and of the newest of the replaced extents. A flush applies puts in the order of their keys,
    /// so the one inserted last need not be the newest.
    oldest: Epoch,
    newest: Epoch,
    data: SmallVec<[u8; 256]>,
}

impl<'t> Neighbours<'t> {
    /// Decodes two entries; returns `None` if one of them is damaged, or has another kind or record size.
    fn decode(
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

    /// True if the neighbours do not overlap `extent`.
    fn do_not_overlap(&self, extent: Extent) -> bool {
        self.before.as_ref().is_none_or(|before| before.extent.end() <= extent.start)
            && self.after.as_ref().is_none_or(|after| extent.end() <= after.extent.start)
    }

    /// Joins `extent`, whose record is `record`, with adjacent ones as long as the result is stored inline. This bounds
    /// the cost of appending a byte. `None` if no adjacent extent can be joined.
    fn join(&self, extent: Extent, record: &Record<'_>) -> Option<Joined> {
        let Body::Inline(own) = record.body else { return None };
        let mut joined = Joined {
            start: extent.start,
            others: SmallVec::new(),
            oldest: record.epoch,
            newest: record.epoch,
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
    /// The data of the extent, if it is inline and has at most `most` bytes.
    fn inline(&self, most: usize) -> Option<&'t [u8]> {
        match self.record.body {
            Body::Inline(data) if data.len() <= most => Some(data),
            _ => None,
        }
    }
}

impl Joined {
    /// Adds the `data` of the neighbour `from`. `removed` is the first record of an extent whose entry the joined one
    /// replaces.
    fn take(&mut self, data: &[u8], removed: u64, from: &Stored<'_>) {
        self.data.extend_from_slice(data);
        self.others.push(removed);
        self.oldest = self.oldest.min(from.record.epoch);
        self.newest = self.newest.max(from.record.epoch);
    }

    /// The joined record, with the epoch of the newest piece. `inserted` is the record of one of the pieces.
    fn record<'r>(&'r self, inserted: &Record<'r>) -> Record<'r> {
        let count = self.data.len() as u64 / u64::from(inserted.record_size);
        Record { epoch: self.newest, count, body: Body::Inline(&self.data), ..*inserted }
    }
}
