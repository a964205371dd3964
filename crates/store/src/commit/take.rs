//! Removal of a dkey that returns its content, in one transaction.
use super::{apply, stage};
use crate::format::keys::{DataKey, Key, Table};
use crate::format::record::{Body, Record};
use crate::index::entries;
use crate::index::txn::Txn;
use crate::shard::Target;
use crate::shard::change::Change;
use crate::shard::container::Container;
use crate::shard::group;
use crate::shard::open_pool::OpenPool;
use esker_types::info::ContainerId;
use esker_types::ops::{Cond, Take, Taken, Write, WriteOp};
use esker_types::{Epoch, Extent, Result};

/// Maximum number of records of a dkey that one transaction takes. An entry of a directory has a few.
const RECORDS_MAX: usize = 64;

/// Result of [`OpenPool::take`].
#[derive(Debug, PartialEq, Eq)]
pub enum TakeResult {
    /// The dkey was removed.
    Taken(Taken),
    /// The array does not have the expected bytes. Nothing was changed.
    Unexpected,
    /// The content is not entirely in the index, or there is more than one array. Nothing was changed: the caller reads
    /// the dkey and removes it by other operations.
    Unsuited,
}

impl OpenPool {
    /// Removes a dkey of target `number` and returns its content, if its array has the expected bytes.
    ///
    /// # Errors
    /// The errors of [`OpenPool::write`].
    pub fn take(&self, container: &Container, number: u32, take: &Take<'_>) -> Result<TakeResult> {
        let target: &Target = &self.targets[number as usize];
        let op = WriteOp::PunchDkey { dkey: take.dkey, cond: Cond::NONE };
        let writes = [Write { oid: take.oid, op }];
        let staged = stage::stage(target, container, &writes)?;
        let mut result = TakeResult::Unexpected;
        group::commit(target, &[], false, &mut |txn| {
            container.check_alive(self)?;
            result = read(txn, container.id(), take)?;
            let TakeResult::Taken(_) = result else { return Ok(Epoch::default()) };
            let mut change = Change::new(target, txn, self.control.next_epoch());
            let applied = apply::apply(&mut change, container, &writes, &staged);
            match applied.and_then(|()| change.finish()) {
                Ok(()) => Ok(change.epoch),
                Err(error) => Err(change.to_failed(error)),
            }
        })?;
        Ok(result)
    }
}

/// Content of a dkey, as collected so far.
struct Content {
    bytes: Vec<u8>,
    extent: Extent,
    has_array: bool,
    others: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Reads the dkey. The result is `Unsuited` if the dkey has more records than [`RECORDS_MAX`], or others than bytes and
/// single values in the index. It is `Unexpected` if the dkey does not have the bytes that the caller expects.
fn read(txn: &Txn, container: ContainerId, take: &Take<'_>) -> Result<TakeResult> {
    let prefix = Key::dkey(Table::Data, container, take.oid, take.dkey)?;
    let records = entries::take(txn, &prefix, &prefix, RECORDS_MAX + 1)?;
    let (bytes, extent) = (vec![0; take.extent.count as usize], take.extent);
    let mut content = Content { bytes, extent, has_array: false, others: Vec::new() };
    let mut is_suited = records.len() <= RECORDS_MAX;
    for (key, record) in &records {
        let (key, record) = (DataKey::parse(key)?, Record::decode(&key[1..], record)?);
        is_suited = is_suited && content.add(take.akey, &key, &record)?;
    }
    Ok(match content.has_expected(take) {
        _ if !is_suited => TakeResult::Unsuited,
        false => TakeResult::Unexpected,
        true => TakeResult::Taken(Taken { bytes: content.bytes, others: content.others }),
    })
}

impl Content {
    /// Adds the data of a record to the answer. Returns false, and adds nothing, if the data is in a segment. Does the
    /// same for a record that is neither part of the byte array `akey` nor the single value of another akey.
    fn add(&mut self, akey: &[u8], key: &DataKey<'_>, record: &Record<'_>) -> Result<bool> {
        let Body::Inline(data) = record.body else { return Ok(false) };
        let found = key.akey(record.left_out)?;
        match key.start {
            Some(start) if found == akey && record.record_size == 1 => self.put(start, data),
            None if found != akey => self.others.push((found, data.to_vec())),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Copies bytes of the array, which begin at index `start`, into the answer. Bytes outside the requested extent are
    /// ignored.
    fn put(&mut self, start: u64, data: &[u8]) {
        self.has_array = true;
        let stored = Extent::new(start, data.len() as u64);
        let Some(part) = stored.intersect(self.extent) else { return };
        let from = (part.start - start) as usize..(part.end() - start) as usize;
        let to = (part.start - self.extent.start) as usize;
        self.bytes[to..to + from.len()].copy_from_slice(&data[from]);
    }

    /// True if the dkey has an array, with the expected bytes at `take.at`.
    fn has_expected(&self, take: &Take<'_>) -> bool {
        let found = usize::try_from(take.at).ok().and_then(|at| self.bytes.get(at..));
        self.has_array && found.is_some_and(|found| found.starts_with(take.expected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ContainerSpec;
    use crate::tests::Scratch;
    use esker_types::info::{ContainerRef, OpenMode};
    use esker_types::ops::{
        Anchor, KeyScope, ListLimit, ReadAt, Source, Update, Value, WriteOp::Update as UpdateOp,
    };
    use esker_types::{ObjectClass, ObjectId, ObjectType};
    use std::sync::Arc;

    struct Pool {
        pool: Arc<OpenPool>,
        container: Container,
        _scratch: Scratch,
    }

    fn oid() -> ObjectId {
        ObjectId::generate(0, 2, ObjectType::MultiHashed, ObjectClass::S1)
    }

    const TAKE: Take<'_> = Take {
        oid: ObjectId { hi: 0, lo: 0 },
        dkey: b"name",
        akey: b"inode",
        extent: Extent { start: 0, count: 8 },
        at: 2,
        expected: b"cd",
    };

    impl Pool {
        fn new() -> Self {
            let scratch = Scratch::new(24 << 20, |spec| spec.targets = Some(1));
            let pool = scratch.opened();
            let spec = ContainerSpec { label: Some("c"), ..ContainerSpec::default() };
            pool.create_container(&spec).unwrap();
            let name = ContainerRef::Label("c");
            let container = pool.open_container(name, OpenMode::ReadWrite).unwrap();
            Self { pool, container, _scratch: scratch }
        }

        /// Writes a value to an akey of the dkey.
        fn write(&self, akey: &[u8], value: Value<'_>) {
            let updates = [Update { akey, value, cond: Cond::NONE }];
            let op = UpdateOp { dkey: TAKE.dkey, cond: Cond::NONE, updates: &updates };
            let writes = [Write { oid: oid(), op }];
            self.pool.write(&self.container, 0, &writes, &[], None).unwrap();
        }

        fn single(&self, akey: &[u8], value: &[u8]) {
            self.write(akey, Value::Single(Source::One(value)));
        }

        fn array(&self, akey: &[u8], start: u64, bytes: &[u8]) {
            let (extents, data) = ([Extent::new(start, bytes.len() as u64)], Source::One(bytes));
            self.write(akey, Value::Array { record_size: 1, extents: &extents, data });
        }

        fn take(&self, take: Take<'_>) -> TakeResult {
            self.pool.take(&self.container, 0, &Take { oid: oid(), ..take }).unwrap()
        }

        /// Number of dkeys of the object.
        fn names(&self) -> usize {
            let (target, id) = (&self.pool.targets[0], self.container.id());
            let (limit, mut anchor) = (ListLimit::entries(9), Anchor::Start);
            let found =
                target.list_keys(id, oid(), KeyScope::Dkeys, &mut anchor, limit, ReadAt::LATEST);
            found.unwrap().len()
        }
    }

    #[test]
    fn taken_dkey_is_returned_as_it_was_written() {
        let pool = Pool::new();
        assert_eq!(pool.take(TAKE), TakeResult::Unexpected);
        pool.array(TAKE.akey, 0, b"abcdef");
        // The array has three records now.
        pool.array(TAKE.akey, 4, b"E");
        pool.single(b"x:user", b"value");
        assert_eq!(pool.take(Take { expected: b"dc", ..TAKE }), TakeResult::Unexpected);
        assert_eq!(pool.take(Take { at: 7, ..TAKE }), TakeResult::Unexpected);
        assert_eq!(pool.names(), 1);
        let others = vec![(b"x:user".to_vec(), b"value".to_vec())];
        let taken = Taken { bytes: b"abcdEf\0\0".to_vec(), others };
        assert_eq!(pool.take(TAKE), TakeResult::Taken(taken));
        assert_eq!((pool.names(), pool.take(TAKE)), (0, TakeResult::Unexpected));
    }

    #[test]
    fn dkey_that_is_not_an_entry_is_left_to_other_operations() {
        let pool = Pool::new();
        pool.array(TAKE.akey, 0, b"abcdef");
        pool.single(b"long", &[7; 5000]);
        assert_eq!(pool.take(TAKE), TakeResult::Unsuited);
        pool.single(b"long", b"short");
        pool.array(b"other", 0, b"array");
        assert_eq!((pool.take(TAKE), pool.names()), (TakeResult::Unsuited, 1));
    }
}
