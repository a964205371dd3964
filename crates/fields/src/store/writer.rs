//! Archiving: the bytes of a field are stored at once, and added to the index at the flush.
use super::batch::{Batches, now_seconds, purged_error};
use super::index::DatabaseIndex;
use super::layout::NUMBERS;
use super::location::{FieldLocation, Holder, check_path};
use super::{FieldStore, layout, log, put};
use crate::limits::{FIELD_BYTES_MAX, PENDING_MAX, UNFLUSHED_SECONDS};
use crate::{Key, Split};
use esker::{Access, Lease, Transaction, Wait, generation};
use esker_types::limits::AKEYS_PER_OP_MAX;
use esker_types::ops::{Cond, Source, Update};
use esker_types::{Checksum, Error, ErrorKind, Extent, Result};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;

/// Archives fields. They become visible to readers at [`FieldWriter::flush`], all at the same moment. Fields that are
/// not flushed when the writer is dropped or dies never become visible.
///
/// A writer belongs to one thread; a process may have many.
pub struct FieldWriter {
    store: FieldStore,
    numbers: Option<Numbers>,
    pending: Pending,
    /// Batches of the fields that wait for the flush, by their first numbers.
    batches: Batches,
    fields: usize,
    bytes: u64,
    /// The log of its flushes.
    log: u8,
    /// False if its flushes expect only new fields, so that they need not read which fields they mask.
    masks: bool,
    /// True if the last flush failed: it may have been committed all the same.
    is_repeated: bool,
}

/// Fields that wait for the flush, by database.
pub(super) type Pending = BTreeMap<String, BTreeMap<String, Data>>;

/// Fields that wait for the flush in one index: the locations of each datum. Of two fields with one key, the later one
/// masks the earlier one.
pub(super) type Data = BTreeMap<String, Vec<FieldLocation>>;

/// Field numbers that this writer has reserved. While it has a lease on them, no purge removes their arrays.
struct Numbers {
    next: u64,
    end: u64,
    /// When the current batch was reserved, in seconds since 1970.
    reserved: u64,
    /// Losses of the lease on its marker at that time.
    losses: u64,
    generation: u64,
    held: Vec<Lease>,
}

impl Numbers {
    /// True if a purge may soon take the writer for dead, on pools that do not show its lease.
    fn is_old(&self) -> bool {
        now_seconds().saturating_sub(self.reserved) >= UNFLUSHED_SECONDS / 2
    }
}

impl FieldStore {
    /// Makes a writer.
    #[must_use]
    pub fn writer(&self) -> FieldWriter {
        let (pending, numbers, batches) = (Pending::new(), None, Batches::new());
        let (store, log) = (self.clone(), log::of_writer());
        // On such pools a condition costs as much as a read.
        let masks = self.container().capabilities().proves_by_value;
        let (fields, bytes, is_repeated) = (0, 0, false);
        FieldWriter { store, numbers, pending, batches, fields, bytes, log, masks, is_repeated }
    }
}

impl FieldWriter {
    /// The store it archives to.
    #[must_use]
    pub fn store(&self) -> &FieldStore {
        &self.store
    }

    /// Fields archived since the last flush, and their bytes.
    #[must_use]
    pub fn pending(&self) -> (usize, u64) {
        (self.fields, self.bytes)
    }

    /// Archives `data` under `key`. The bytes are stored when it returns; they become visible at the flush.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the key does not fit the schema or `data` is empty,
    /// [`ErrorKind::RecordTooBig`] over [`FIELD_BYTES_MAX`], [`ErrorKind::NoSpace`],
    /// [`ErrorKind::Overflow`] if [`PENDING_MAX`] fields wait for a flush.
    pub fn archive(&mut self, key: &Key, data: &[u8]) -> Result<()> {
        let split = self.store.schema().split_to_archive(key)?;
        check(key, data.len() as u64)?;
        self.check_room()?;
        let number = self.number()?;
        let oid = layout::field_oid(self.store.container(), number)?;
        let array = layout::field(self.store.container(), oid)?;
        let range = [Extent::new(0, data.len() as u64)];
        array.write(&range, Source::One(data), Access::Latest).wait()?;
        self.add_pending(split, FieldLocation::new(data.len() as u64, Holder::Array(oid)));
        Ok(())
    }

    /// Adopts bytes in a file that does not belong to the store: path, offset and length.
    ///
    /// # Errors
    /// The errors of [`FieldWriter::archive`]; [`ErrorKind::NameTooLong`] for a path beyond its limit;
    /// [`ErrorKind::Invalid`] for a path that is not UTF-8.
    pub fn adopt(&mut self, key: &Key, path: &Path, offset: u64, bytes: u64) -> Result<()> {
        let split = self.store.schema().split_to_archive(key)?;
        check(key, bytes)?;
        self.check_room()?;
        check_path(path)?;
        self.add_pending(
            split,
            FieldLocation::new(bytes, Holder::File { path: path.to_path_buf(), offset }),
        );
        Ok(())
    }

    /// Fails with `Overflow` if too many fields wait to be flushed.
    fn check_room(&self) -> Result<()> {
        if self.fields < PENDING_MAX {
            return Ok(());
        }
        let text =
            format!("{PENDING_MAX} fields (PENDING_MAX) wait to be flushed: flush more often");
        Err(Error::new(ErrorKind::Overflow, text))
    }

    /// Adds a field to the pending ones, which the next flush makes visible.
    fn add_pending(&mut self, split: Split, location: FieldLocation) {
        self.fields += 1;
        self.bytes += location.bytes;
        let indexes = self.pending.entry(split.database.to_string()).or_default();
        let data = indexes.entry(split.index.to_string()).or_default();
        data.entry(split.datum.to_string()).or_default().push(location);
    }

    /// The next number for a field's array.
    fn number(&mut self) -> Result<u64> {
        let now = generation();
        self.numbers = self.numbers.take().filter(|numbers| numbers.generation == now);
        let has_next = |numbers: &Numbers| numbers.next < numbers.end && !numbers.is_old();
        let mut numbers = match self.numbers.take_if(|numbers| has_next(numbers)) {
            Some(numbers) => numbers,
            None => self.take_numbers()?,
        };
        numbers.next += 1;
        let number = numbers.next - 1;
        // A batch is known by its first number.
        self.batches.insert(numbers.end - NUMBERS, numbers.losses);
        self.numbers = Some(numbers);
        Ok(number)
    }

    /// Reserves a batch of numbers and adds it to the catalogue, so that a purge finds unflushed fields. On success, the
    /// new batch has the leases of the one before it. On failure, that one keeps them, and its pending fields stay safe.
    fn take_numbers(&mut self) -> Result<Numbers> {
        let first = self.store.container().allocate_oids(NUMBERS).wait()?;
        let reserved = now_seconds();
        let marker = self.store.marker(first)?;
        let losses = self.store.container().lease_losses(marker.oid());
        // The lease comes before the entry in the catalogue, so that no purge takes this writer for dead.
        let lease = marker.lease().wait()?;
        self.store.record_batch(first)?;
        let (akey, count) = (first.to_be_bytes(), NUMBERS.to_le_bytes());
        let catalogue = self.store.catalogue();
        catalogue
            .update(layout::WRITERS, Cond::NONE, &[put(&akey, &count)], Access::Latest)
            .wait()?;
        let mut held = self.numbers.take().map_or_else(Vec::new, |numbers| numbers.held);
        held.push(lease);
        let (end, generation) = (first + NUMBERS, generation());
        Ok(Numbers { next: first, end, reserved, losses, generation, held })
    }

    /// Makes all archived fields visible at one moment. They mask existing fields with the same keys, which stay in the
    /// store until a purge removes them.
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`] and other errors of the backend: then all fields are visible or none, and the flush can be
    /// repeated.
    /// [`ErrorKind::DataLoss`] if a purge took this writer for dead and removed its fields, or if an earlier attempt was
    /// committed all the same and a purge or wipe has removed fields of it: then nothing is pending any more, and the
    /// fields can be archived again.
    pub fn flush(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        match self.commit() {
            Err(error) if self.is_purged(&error) => {
                self.numbers = None;
                self.forget_pending();
                Err(error)
            }
            Err(error) => {
                self.is_repeated = true;
                Err(error)
            }
            Ok(()) => {
                self.forget_pending();
                self.release_spent();
                Ok(())
            }
        }
    }

    /// True if a flush fails because others may have removed its fields.
    fn is_purged(&self, error: &Error) -> bool {
        error.kind() == ErrorKind::DataLoss && matches!(self.has_fields(Access::Latest), Ok(false))
    }

    /// False if others may have removed pending fields: a purge that took this writer for dead, or anybody after an
    /// earlier attempt of this flush that was committed all the same.
    fn has_fields(&self, access: Access<'_>) -> Result<bool> {
        Ok(self.store.has_batches(&self.batches, access)?
            && (!self.is_repeated || self.store.has_arrays(&self.pending, access)?))
    }

    /// Drops all fields that wait to be flushed.
    fn forget_pending(&mut self) {
        self.pending.clear();
        self.batches.clear();
        (self.fields, self.bytes, self.is_repeated) = (0, 0, false);
    }

    /// Releases batches that are used up and indexed. The last one is still in use.
    fn release_spent(&mut self) {
        if let Some(numbers) = &mut self.numbers {
            let spent = numbers.held.len().saturating_sub(1);
            numbers.held.drain(..spent);
        }
    }

    /// Commits the pending fields in one transaction. Unless the last flush replaced fields or failed, it first assumes
    /// that all are new, and only inserts. If one exists already, it repeats the transaction and masks the fields that are
    /// replaced.
    fn commit(&mut self) -> Result<()> {
        if !self.masks && !self.is_repeated {
            match self.store.atomically(|transaction| self.stage(&Staging::insert(transaction))) {
                Err(error) if error.kind() == ErrorKind::Exists => {}
                other => return other,
            }
        }
        let found = Cell::new(false);
        self.store.atomically(|transaction| {
            found.set(false);
            self.stage(&Staging { transaction, found: Some(&found), unmasks: self.is_repeated })
        })?;
        // If no field existed, the next flush tries again to insert.
        self.masks = found.get() || self.store.container().capabilities().proves_by_value;
        Ok(())
    }

    /// Writes the entries of all pending fields within the transaction of the flush.
    fn stage(&self, staging: &Staging<'_>) -> Result<()> {
        if !self.has_fields(staging.access())? {
            return Err(purged_error());
        }
        for (database, indexes) in &self.pending {
            let database_index = self.store.index_for(database)?;
            for (index, data) in indexes {
                let data: Vec<_> = data.iter().collect();
                for part in data.chunks(AKEYS_PER_OP_MAX / 2) {
                    staging.put(&database_index, index, part)?;
                }
            }
            let flushed: Vec<(&str, Vec<&str>)> =
                indexes.iter().map(|(index, data)| (index.as_str(), names(data))).collect();
            log::enter(&database_index, self.log, &flushed, staging.transaction)?;
        }
        Ok(())
    }
}

/// The data of the pending fields of an index.
fn names(data: &Data) -> Vec<&str> {
    data.keys().map(String::as_str).collect()
}

/// The transaction of a flush.
struct Staging<'t> {
    transaction: &'t Transaction,
    /// Set if fields are masked. `None` if none may exist: then the commit fails with [`ErrorKind::Exists`] if one
    /// does.
    found: Option<&'t Cell<bool>>,
    /// True if the fields may be masked: the flush was committed before, and then others replaced its fields.
    unmasks: bool,
}

impl<'t> Staging<'t> {
    /// A flush that assumes that all its fields are new.
    fn insert(transaction: &'t Transaction) -> Self {
        Self { transaction, found: None, unmasks: false }
    }

    /// Access in the transaction of the flush.
    fn access(&self) -> Access<'t> {
        Access::Tx(self.transaction)
    }

    /// Writes fields to one index, and moves fields that they mask.
    fn put(
        &self,
        database_index: &DatabaseIndex,
        index: &str,
        part: &[(&String, &Vec<FieldLocation>)],
    ) -> Result<()> {
        let dkey = layout::current(index);
        let akeys: Vec<&[u8]> = part.iter().map(|(datum, _)| datum.as_bytes()).collect();
        let before = match self.found {
            Some(_) => database_index.fetch_many(&dkey, &akeys, self.access())?,
            None => vec![None; akeys.len()],
        };
        let cond = if self.found.is_some() { Cond::NONE } else { Cond::AKEY_INSERT };
        let locations: Vec<Vec<u8>> =
            part.iter().filter_map(|(_, all)| Some(all.last()?.encode())).collect();
        let new = akeys.iter().zip(&locations);
        let current: Vec<Update<'_>> =
            new.map(|(akey, location)| Update { cond, ..put(akey, location) }).collect();
        database_index.update(&dkey, &current, self.access())?;
        if self.unmasks {
            let new = part.iter().zip(&locations);
            let own = new.map(|((datum, _), location)| masked_akey(datum, location));
            self.unmask(database_index, index, &own.collect::<Vec<_>>())?;
        }
        let mut masked = Vec::new();
        for (((datum, all), before), location) in part.iter().zip(before).zip(&locations) {
            let earlier = all.iter().rev().skip(1).map(FieldLocation::encode);
            // A flush that is repeated after it was committed finds its own fields.
            let before = before.filter(|before| before != location);
            if let (Some(found), Some(_)) = (self.found, &before) {
                found.set(true);
            }
            let masks = before.into_iter().chain(earlier);
            masked.extend(masks.map(|location| (masked_akey(datum, &location), location)));
        }
        self.mask(database_index, index, &masked)
    }

    /// Removes the entries of masked fields that become current again: by them, a purge would remove their bytes.
    fn unmask(&self, database_index: &DatabaseIndex, index: &str, akeys: &[Vec<u8>]) -> Result<()> {
        let akeys: Vec<&[u8]> = akeys.iter().map(Vec::as_slice).collect();
        database_index.punch(&layout::masked(index), &akeys, self.access())
    }

    /// Stores the locations of replaced fields, so that a purge finds them.
    fn mask(
        &self,
        database_index: &DatabaseIndex,
        index: &str,
        masked: &[(Vec<u8>, Vec<u8>)],
    ) -> Result<()> {
        let dkey = layout::masked(index);
        masked.chunks(AKEYS_PER_OP_MAX).try_for_each(|part| {
            let part: Vec<Update<'_>> =
                part.iter().map(|(akey, location)| put(akey, location)).collect();
            database_index.update(&dkey, &part, self.access())
        })
    }
}

/// A key that no other masked field of the datum has: locations differ in their array or in the time of archiving. It
/// is part of the format, so that a repeated flush finds its own fields.
pub(super) fn masked_akey(datum: &str, location: &[u8]) -> Vec<u8> {
    layout::masked_akey(datum, Checksum::Crc64.sum(location))
}

/// Checks the length of a field.
fn check(key: &Key, bytes: u64) -> Result<()> {
    if bytes == 0 {
        return Err(Error::new(ErrorKind::Invalid, format!("{key}: a field of no bytes")));
    }
    if bytes > FIELD_BYTES_MAX {
        let text = format!("{key}: {bytes} bytes, at most {FIELD_BYTES_MAX} (FIELD_BYTES_MAX)");
        return Err(Error::new(ErrorKind::RecordTooBig, text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Schema, Selection};
    use esker::Pool;
    use esker_types::info::OpenMode;

    fn store(name: &str) -> FieldStore {
        let pool = Pool::connect(name, OpenMode::ReadWrite).unwrap();
        FieldStore::create(&pool, "fields", &Schema::default_mars().unwrap()).unwrap()
    }

    fn key() -> Key {
        let text = "class=od,expver=0001,stream=oper,date=20240610,time=0000,type=fc,levtype=sfc,step=0,param=167";
        Key::parse(text).unwrap()
    }

    fn masked(store: &FieldStore) -> u64 {
        store.stats(&Selection::everything(store.schema())).unwrap().masked
    }

    #[test]
    fn repeated_flush_does_not_mask_its_own_fields() {
        let store = store("memory:fields-repeated");
        let mut writer = store.writer();
        writer.archive(&key(), b"field").unwrap();
        let pending = writer.pending.clone();
        writer.flush().unwrap();
        writer.pending = pending;
        writer.flush().unwrap();
        assert_eq!(masked(&store), 0);
        assert_eq!(store.field(&key()).unwrap().read().unwrap(), b"field");
    }

    /// The error of a flush does not say whether it was committed. If it was, others may have replaced its fields.
    #[test]
    fn repeated_flush_takes_its_own_fields_back_from_the_masked_ones() {
        let store = store("memory:fields-repeated-later");
        let mut writer = store.writer();
        writer.archive(&key(), b"first").unwrap();
        let pending = writer.pending.clone();
        writer.flush().unwrap();
        let mut other = store.writer();
        other.archive(&key(), b"second").unwrap();
        other.flush().unwrap();
        (writer.pending, writer.is_repeated) = (pending, true);
        writer.flush().unwrap();
        let all = Selection::everything(store.schema());
        assert_eq!(store.purge(&all, true, |_| Ok(())).unwrap().masked, 1);
        assert_eq!(store.field(&key()).unwrap().read().unwrap(), b"first");
    }

    /// A flush that is repeated after it was committed does not bring back the name of a field whose bytes are gone.
    #[test]
    fn repeated_flush_fails_after_its_fields_were_removed() {
        type Remove = fn(&FieldStore);
        let purge: Remove = |store| {
            let mut other = store.writer();
            other.archive(&key(), b"second").unwrap();
            other.flush().unwrap();
            store.purge(&Selection::everything(store.schema()), true, |_| Ok(())).unwrap();
        };
        let wipe: Remove = |store| {
            let request = crate::request::Request::parse(&key().to_string()).unwrap();
            let selection = request.expand(store.schema(), crate::Date::today()).unwrap();
            store.wipe(&selection, true, |_| Ok(())).unwrap();
        };
        for (name, remove, left) in [("purge", purge, Some(b"second")), ("wipe", wipe, None)] {
            let store = store(&format!("memory:fields-repeated-{name}"));
            let mut writer = store.writer();
            writer.archive(&key(), b"first").unwrap();
            let (pending, batches) = (writer.pending.clone(), writer.batches.clone());
            writer.flush().unwrap();
            remove(&store);
            (writer.pending, writer.batches, writer.is_repeated) = (pending, batches, true);
            assert_eq!(writer.flush().unwrap_err().kind(), ErrorKind::DataLoss, "{name}");
            let found = store.field(&key()).ok().map(|field| field.read().unwrap());
            assert_eq!(found, left.map(|bytes| bytes.to_vec()), "{name}");
            writer.archive(&key(), b"third").unwrap();
            writer.flush().unwrap();
            assert_eq!(store.field(&key()).unwrap().read().unwrap(), b"third");
        }
    }

    /// The key of a masked field, byte by byte. Keys of earlier releases are read and purged as well.
    #[test]
    fn keys_of_masked_fields_are_fixed() {
        let location = [&[1, 0][..], &[5; 32]].concat();
        let akey = masked_akey("step=0", &location);
        assert_eq!(akey, b"step=0\0\x03\xca\xbb\xdf\x09\x73\x6d\xbb");
        let store = store("memory:fields-earlier");
        let mut writer = store.writer();
        writer.archive(&key(), b"earlier").unwrap();
        writer.archive(&key(), b"current").unwrap();
        writer.flush().unwrap();
        let object = store.index_of(store.schema().split(&key()).unwrap().database.as_str());
        let object = object.unwrap().unwrap().stripe(0).unwrap().clone();
        let dkey = layout::masked("type=fc,levtype=sfc");
        let [akey] = &super::super::all_akeys(&object, &dkey).unwrap()[..] else { panic!("one") };
        let location = super::super::fetch(&object, &dkey, akey).unwrap().unwrap();
        object.punch_akeys(&dkey, &[akey], Cond::NONE, Access::Latest).wait().unwrap();
        let earlier = layout::masked_akey("step=0,param=167", 0x0123_4567_89ab_cdef);
        object
            .update(&dkey, Cond::NONE, &[put(&earlier, &location)], Access::Latest)
            .wait()
            .unwrap();
        assert_eq!(masked(&store), 1);
        let all = Selection::everything(store.schema());
        assert_eq!(store.purge(&all, true, |_| Ok(())).unwrap().masked, 1);
        assert_eq!(
            (masked(&store), store.field(&key()).unwrap().read().unwrap()),
            (0, b"current".to_vec())
        );
    }

    #[test]
    fn one_key_may_be_archived_any_number_of_times_before_a_flush() {
        let store = store("memory:fields-often");
        let mut writer = store.writer();
        let times = AKEYS_PER_OP_MAX as u64 + 10;
        (0..times).for_each(|number| writer.archive(&key(), &number.to_le_bytes()).unwrap());
        writer.flush().unwrap();
        assert_eq!(masked(&store), times - 1);
        assert_eq!(store.field(&key()).unwrap().read().unwrap(), (times - 1).to_le_bytes());
    }

    /// Earlier releases gave the objects with the names of fields the type of a Key-Value.
    #[test]
    fn a_store_of_version_one_is_read_and_extended() {
        use esker_types::ObjectType::{KvHashed, MultiHashed};
        let schema = Schema::default_mars().unwrap();
        let pool = Pool::connect("memory:fields-versions", OpenMode::ReadWrite).unwrap();
        let metadata: [(&str, &[u8]); 2] =
            [(layout::VERSION, b"1"), (layout::SCHEMA, schema.text().as_bytes())];
        let old = esker::backend::NewContainer::named("old").with_metadata(&metadata);
        pool.create_container(&old).wait().unwrap();
        FieldStore::create(&pool, "new", &schema).unwrap();
        for (label, otype) in [("old", KvHashed), ("new", MultiHashed)] {
            let open = || FieldStore::open(&pool, label, OpenMode::ReadWrite).unwrap();
            let (written, store) = (open(), open());
            let mut writer = written.writer();
            writer.archive(&key(), b"field").unwrap();
            writer.flush().unwrap();
            assert_eq!(store.field(&key()).unwrap().read().unwrap(), b"field");
            let database = store.schema().split(&key()).unwrap().database;
            let index = store.index_of(database.as_str()).unwrap().unwrap();
            assert_eq!(index.stripe(0).unwrap().oid().object_type(), Some(otype));
            assert_eq!(store.catalogue().oid().object_type(), Some(otype));
        }
    }

    /// Stores that earlier releases made with such schemas can be read but not extended.
    #[test]
    fn store_with_lossy_schema_is_read_only() {
        let text = "[run [type [date: Month, step]]]";
        let pool = Pool::connect("memory:fields-lossy", OpenMode::ReadWrite).unwrap();
        let lossy = Schema::of_store(text, "test").unwrap();
        assert_eq!(
            FieldStore::create(&pool, "no", &lossy).err().unwrap().kind(),
            ErrorKind::Invalid
        );
        let metadata: [(&str, &[u8]); 2] =
            [(layout::VERSION, b"1"), (layout::SCHEMA, text.as_bytes())];
        let new = esker::backend::NewContainer::named("fields").with_metadata(&metadata);
        pool.create_container(&new).wait().unwrap();
        let store = FieldStore::open(&pool, "fields", OpenMode::ReadWrite).unwrap();
        let key = Key::parse("run=a,type=fc,date=20200601,step=0").unwrap();
        let mut writer = store.writer();
        let refused = writer.archive(&key, b"field").unwrap_err();
        assert!(refused.to_string().contains("date: Month"), "{refused}");
        let location = FieldLocation::new(5, Holder::File { path: "/nowhere".into(), offset: 0 });
        writer.add_pending(store.schema().split(&key).unwrap(), location);
        writer.flush().unwrap();
        assert_eq!(store.field(&key).unwrap().key().get("date"), Some("6"));
    }
}
