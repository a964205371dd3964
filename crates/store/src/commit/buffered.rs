//! Puts into the write buffer of a target (see [`crate::shared::write_buffer`]).
use super::stage::{Content, Piece, Staged, StagedAkey, StagedAkeys};
use crate::format::keys::{Key, Table, is_kv};
use crate::format::record::RecordBytes;
use crate::shard::Target;
use crate::shard::buffer::{Kind, SinglePut};
use crate::shard::container::Container;
use crate::shard::open_pool::OpenPool;
use crate::shared::control::touched_slots;
use esker_types::info::ContainerId;
use esker_types::ops::{Cond, Write, WriteOp};
use esker_types::{Checksum, Epoch, Result};

/// Splits `writes` into a dkey that must exist, as a prefix of keys, and the only write after it. The dkey is `None` if
/// no requirement precedes the write. Returns `None` for all other lists of writes.
fn split_required<'a, 'w>(
    container: ContainerId,
    writes: &'a [Write<'w>],
) -> Option<(Option<Key>, &'a Write<'w>)> {
    match writes {
        [write] => Some((None, write)),
        [required, write] => match required.op {
            WriteOp::Update { dkey, cond: Cond::DKEY_UPDATE, updates: [] } => {
                let dkey = Key::dkey(Table::Data, container, required.oid, dkey).ok()?;
                Some((Some(dkey), write))
            }
            _ => None,
        },
        _ => None,
    }
}

/// A write that the write buffer accepts.
struct BufferablePut<'w, 's> {
    put: SinglePut<'w>,
    akey: &'w StagedAkey<'s>,
    piece: &'w Piece<'s>,
}

/// Kind of a put with one piece into an object, a Key-Value or not; `None` if the write buffer does not accept it.
/// `cond` is the condition of the write, `update` that of its only akey. A put without a condition is free. A first put
/// requires that its dkey does not exist.
fn kind_of(is_kv: bool, cond: Cond, update: Cond, content: &Content<'_>) -> Option<Kind> {
    let is_free = cond == Cond::NONE && update == Cond::NONE;
    let is_first = cond == Cond::DKEY_INSERT && [Cond::NONE, Cond::AKEY_INSERT].contains(&update);
    match content {
        Content::Single(_) if is_kv && is_free => Some(Kind::Value),
        Content::Single(_) if !is_kv && is_first => Some(Kind::First),
        Content::Array { record_size, pieces } if !is_kv && (is_free || is_first) => {
            Some(Kind::Extent {
                extent: pieces.first()?.extent,
                record_size: *record_size,
                is_first,
            })
        }
        _ => None,
    }
}

impl<'w, 's> BufferablePut<'w, 's> {
    /// The put that a write consists of; `None` if the write buffer does not accept it.
    fn from_write(
        container: ContainerId,
        write: &Write<'w>,
        staged: &'w StagedAkeys<'s>,
    ) -> Option<Self> {
        let WriteOp::Update { dkey, cond, updates: [update] } = write.op else { return None };
        let ([akey], oid) = (&staged[..], write.oid) else { return None };
        let kind = kind_of(is_kv(oid), cond, update.cond, &akey.content)?;
        let [piece] = akey.content.pieces() else { return None };
        let slots = touched_slots(container, oid, dkey);
        let put = SinglePut { slots, akey: &akey.prefix, kind };
        akey.left_out.is_empty().then_some(Self { put, akey, piece })
    }

    /// The encoded record of the put.
    fn record(&self, key: &[u8], epoch: Epoch) -> RecordBytes {
        let record = self.piece.record(epoch, self.put.record_size(), self.akey.left_out);
        let mut bytes = RecordBytes::new();
        record.encode(&key[1..], &mut bytes);
        bytes
    }
}

impl OpenPool {
    /// Appends the staged put to the write buffer of a target. Returns `None` if it must be committed instead.
    pub(super) fn put_in_buffer(
        &self,
        container: &Container,
        target: &Target,
        writes: &[Write<'_>],
        staged: &mut Staged<'_>,
    ) -> Result<Option<Epoch>> {
        // After a power failure, only checksums show that the data of a put is missing.
        let is_unverifiable = staged.has_data() && container.checksum() == Checksum::Off;
        if !target.has_write_buffer() || is_unverifiable && target.is_durable() {
            return Ok(None);
        }
        let split = split_required(container.id(), writes);
        let (Some((required, write)), Some(akeys)) = (split, staged.writes.last()) else {
            return Ok(None);
        };
        let Some(bufferable) = BufferablePut::from_write(container.id(), write, akeys) else {
            return Ok(None);
        };
        let done = target.put(|buffer| {
            container.check_alive(self)?;
            staged.check_held()?;
            let is_met = required.as_ref().map_or(Ok(true), |dkey| buffer.is_committed(dkey))?;
            let (key, epoch) = (bufferable.put.key(), self.control.next_epoch());
            let record = bufferable.record(&key, epoch);
            Ok((is_met && buffer.append(&bufferable.put, &key, &record)?).then_some(epoch))
        })?;
        if done.is_some() {
            staged.publish();
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::redo_log::Batch;
    use crate::data::table::SegmentState;
    use crate::shared::control::ProcessSlot;
    use crate::sync::AtomicU64;
    use crate::tests::{Random, Scratch};
    use crate::{ContainerSpec, ReadVersion};
    use esker_types::info::{ContainerRef, Durability, OpenMode};
    use esker_types::limits::CHECKSUM_CHUNK;
    use esker_types::ops::{
        AkeyRef, Anchor, Edge, Fetch, KeyQuery, KeyScope, ListLimit, ReadAt, ReadTokens, Sink,
        Source, Update, Value, View, Wanted,
    };
    use esker_types::{Checksum, ErrorKind, Extent, ObjectClass, ObjectId, ObjectType};
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    const BOTH: [Durability; 2] = [Durability::Process, Durability::Commit];

    struct Pool {
        scratch: Scratch,
        pool: Arc<OpenPool>,
        container: Container,
    }

    fn oid(lo: u64) -> ObjectId {
        ObjectId::generate(0, lo, ObjectType::KvHashed, ObjectClass::S1)
    }

    /// An object that is not a Key-Value.
    fn array() -> ObjectId {
        ObjectId::generate(0, 2, ObjectType::MultiHashed, ObjectClass::S1)
    }

    impl Pool {
        fn new() -> Self {
            Self::with(Durability::Process)
        }

        /// A pool of one target with a write buffer, and a container.
        fn with(durability: Durability) -> Self {
            let scratch = Scratch::new(24 << 20, |spec| {
                (spec.targets, spec.write_buffer) = (Some(1), Some(true));
                spec.durability = Some(durability);
            });
            let pool = scratch.opened();
            let spec = ContainerSpec { label: Some("c"), ..ContainerSpec::default() };
            pool.create_container(&spec).unwrap();
            let name = ContainerRef::Label("c");
            let container = pool.open_container(name, OpenMode::ReadWrite).unwrap();
            Self { scratch, pool, container }
        }

        fn target(&self) -> &Target {
            &self.pool.targets[0]
        }

        fn words(&self) -> &[AtomicU64] {
            self.target().buffer_atomics()
        }

        fn change(&self, op: WriteOp<'_>, reads: &[ReadVersion]) -> Result<Epoch> {
            self.pool.write(&self.container, 0, &[Write { oid: oid(1), op }], reads, None)
        }

        /// Writes records of `size` bytes to the array, starting at record `start`.
        fn store(&self, start: u64, size: u64, data: &[u8]) -> Result<Epoch> {
            let (extents, data) =
                ([Extent::new(start, data.len() as u64 / size)], Source::One(data));
            let value = Value::Array { record_size: size, extents: &extents, data };
            let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
            let op = WriteOp::Update { dkey: b"d", cond: Cond::NONE, updates: &updates };
            self.pool.write(&self.container, 0, &[Write { oid: array(), op }], &[], None)
        }

        /// Removes records of the array.
        fn clear(&self, extent: Extent) {
            let value = Value::PunchExtents(&[extent]);
            let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
            let op = WriteOp::Update { dkey: b"d", cond: Cond::NONE, updates: &updates };
            let write = Write { oid: array(), op };
            self.pool.write(&self.container, 0, &[write], &[], None).unwrap();
        }

        /// Bytes of the array, with dots for holes, and the size of its records.
        fn load_at(&self, extent: Extent, at: ReadAt<'_>) -> (Vec<u8>, u64) {
            let mut bytes = vec![b'.'; extent.count as usize];
            let extents = [extent];
            let mut fetches = [Fetch::array(b"a", 0, &extents, Sink::One(&mut bytes))];
            let id = self.container.id();
            self.target().fetch(id, array(), b"d", Cond::NONE, &mut fetches, at).unwrap();
            let size = fetches[0].reply.size;
            (bytes, size)
        }

        fn load(&self, start: u64, count: u64) -> Vec<u8> {
            self.load_at(Extent::new(start, count), ReadAt::LATEST).0
        }

        /// Puts a value under a dkey of the Key-Value object, in a transaction with these reads.
        fn put_if(&self, dkey: &[u8], value: &[u8], reads: &[ReadVersion]) -> Result<Epoch> {
            let value = Value::Single(Source::One(value));
            let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
            self.change(WriteOp::Update { dkey, cond: Cond::NONE, updates: &updates }, reads)
        }

        fn put(&self, dkey: &[u8], value: &[u8]) -> Epoch {
            self.put_if(dkey, value, &[]).unwrap()
        }

        /// Stores an array of one byte under a dkey of the Key-Value object.
        fn put_array(&self, dkey: &[u8]) -> Result<Epoch> {
            let extents = [Extent::new(0, 1)];
            let value = Value::Array { record_size: 1, extents: &extents, data: Source::One(b"x") };
            let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
            self.change(WriteOp::Update { dkey, cond: Cond::NONE, updates: &updates }, &[])
        }

        /// Value under a dkey of the Key-Value object; empty if there is none.
        fn get_at(&self, dkey: &[u8], at: ReadAt<'_>) -> Vec<u8> {
            let mut bytes = [0; 4096];
            let mut fetches = [Fetch::single(b"a", Sink::One(&mut bytes))];
            let id = self.container.id();
            self.target().fetch(id, oid(1), dkey, Cond::NONE, &mut fetches, at).unwrap();
            let len = fetches[0].reply.size as usize;
            bytes[..len].to_vec()
        }

        fn get(&self, dkey: &[u8]) -> Vec<u8> {
            self.get_at(dkey, ReadAt::LATEST)
        }

        /// All dkeys of the Key-Value object.
        fn keys(&self) -> Vec<Vec<u8>> {
            let limit = ListLimit { entries: usize::MAX, bytes: usize::MAX };
            let (id, mut anchor) = (self.container.id(), Anchor::Start);
            let keys = self.target().list_keys(
                id,
                oid(1),
                KeyScope::Dkeys,
                &mut anchor,
                limit,
                ReadAt::LATEST,
            );
            keys.unwrap().iter().map(<[u8]>::to_vec).collect()
        }

        /// Takes the write lock for another purpose, which `what` selects.
        fn disturb(&self, what: u64) {
            let target = self.target();
            match what % 5 {
                0 => drop(target.begin_write().unwrap()),
                1 => drop(target.begin_for_room().unwrap()),
                2 => self.commit_for_room(),
                3 if target.is_durable() => self.restart_machine(what),
                _ => target.flush().unwrap(),
            }
        }

        /// Loses the write buffer, as a restart of the machine does. `seed` selects zeros, ones or random words in its
        /// place.
        fn restart_machine(&self, seed: u64) {
            let mut random = Random::new(seed);
            let lost = [0, u64::MAX, random.draw()][seed as usize % 3];
            let lose = |word: &AtomicU64| word.store(lost, Ordering::Relaxed);
            self.words().iter().for_each(lose);
            self.target().load_redo_log().unwrap();
            crate::pool::rebuild(self.target(), &[]).unwrap();
        }

        /// Commits a transaction that retains the buffered puts. It changes a page, since LMDB does not commit
        /// otherwise.
        fn commit_for_room(&self) {
            let (before, mut txn) = (self.last_commit(), self.target().begin_for_room().unwrap());
            txn.put(b"~", b"").unwrap();
            txn.delete(b"~").unwrap();
            txn.commit().unwrap();
            assert_eq!(self.last_commit(), before + 1);
        }

        fn last_commit(&self) -> u64 {
            self.target().last_commit().unwrap()
        }

        /// Number of puts that are only in the write buffer.
        fn buffered(&self) -> usize {
            self.target().committed_and_buffered().unwrap().1.iter().count()
        }

        fn flush(&self) {
            self.target().flush().unwrap();
        }
    }

    /// A put into the buffer makes no commit. A later flush commits it.
    #[test]
    fn put_is_visible_before_and_after_its_commit() {
        let pool = Pool::new();
        let commits = pool.last_commit();
        let first = pool.put(b"key", b"one");
        assert!(pool.put(b"key", b"two") > first);
        assert_eq!((pool.buffered(), pool.last_commit()), (2, commits));
        assert_eq!((pool.get(b"key"), pool.get(b"none")), (b"two".to_vec(), vec![]));
        assert_eq!((pool.keys(), pool.buffered()), (vec![b"key".to_vec()], 2));
        assert_eq!((pool.get(b"key"), pool.last_commit()), (b"two".to_vec(), commits));
        pool.flush();
        assert_eq!((pool.keys(), pool.buffered()), (vec![b"key".to_vec()], 0));
        assert_eq!((pool.get(b"key"), pool.last_commit()), (b"two".to_vec(), commits + 1));
        pool.put(b"key", b"three");
        assert_eq!((pool.get(b"key"), pool.buffered()), (b"three".to_vec(), 1));
    }

    impl Pool {
        /// Creates an entry of a directory as a file system does: the directory must have its mark.
        fn create(&self, name: &[u8]) -> Result<Epoch> {
            let extents = [Extent::new(0, 88)];
            let value =
                Value::Array { record_size: 1, extents: &extents, data: Source::One(&[5; 88]) };
            let updates = [Update { akey: b"inode", value, cond: Cond::NONE }];
            let entry = WriteOp::Update { dkey: name, cond: Cond::DKEY_INSERT, updates: &updates };
            let mark = WriteOp::Update { dkey: b"/", cond: Cond::DKEY_UPDATE, updates: &[] };
            let writes = [mark, entry].map(|op| Write { oid: array(), op });
            self.pool.write(&self.container, 0, &writes, &[], None)
        }

        /// Stores a value under a dkey that must not exist.
        fn insert(&self, dkey: &[u8]) -> Result<Epoch> {
            let value = Value::Single(Source::One(b"value"));
            let updates = [Update { akey: b"single", value, cond: Cond::NONE }];
            self.write(WriteOp::Update { dkey, cond: Cond::DKEY_INSERT, updates: &updates })
        }

        fn write(&self, op: WriteOp<'_>) -> Result<Epoch> {
            self.pool.write(&self.container, 0, &[Write { oid: array(), op }], &[], None)
        }

        /// Creates the mark of the directory.
        fn mark(&self) {
            let value = Value::Single(Source::One(b""));
            let updates = [Update { akey: b"mark", value, cond: Cond::NONE }];
            let op = WriteOp::Update { dkey: b"/", cond: Cond::NONE, updates: &updates };
            self.write(op).unwrap();
        }

        /// The last extent of an object under akey `a`, and its dkey; `None` if there is none.
        fn last_extent(&self, oid: ObjectId) -> Option<(Vec<u8>, Extent)> {
            let query = KeyQuery {
                edge: Edge::Max,
                dkey: None,
                after: None,
                akey: Some(b"a"),
                want_akey: false,
                want_extent: true,
            };
            let id = self.container.id();
            let found = self.target().query_key(id, oid, query, ReadAt::LATEST).unwrap()?;
            Some((found.dkey, found.extent?))
        }
    }

    /// The mark of the directory must exist, and the name of the new entry must not.
    #[test]
    fn new_entry_of_marked_directory_is_buffered_once() {
        let pool = Pool::new();
        assert_eq!(pool.create(b"file").unwrap_err().kind(), ErrorKind::NotFound, "no mark");
        pool.mark();
        let commits = pool.last_commit();
        pool.create(b"file").unwrap();
        pool.create(b"other").unwrap();
        assert_eq!((pool.buffered(), pool.last_commit()), (2, commits));
        assert_eq!(pool.create(b"file").unwrap_err().kind(), ErrorKind::Exists, "buffered");
        pool.flush();
        assert_eq!(pool.create(b"file").unwrap_err().kind(), ErrorKind::Exists, "committed");
        pool.write(WriteOp::PunchDkey { dkey: b"file", cond: Cond::NONE }).unwrap();
        pool.create(b"file").unwrap();
        assert_eq!(pool.buffered(), 1);
        pool.write(WriteOp::PunchDkey { dkey: b"/", cond: Cond::NONE }).unwrap();
        assert_eq!(pool.create(b"third").unwrap_err().kind(), ErrorKind::NotFound, "no mark");
    }

    /// Once a commit has retained the buffer, the versions of its puts are older than the last commit.
    #[test]
    fn condition_sees_puts_that_a_commit_for_room_has_retained() {
        let pool = Pool::new();
        pool.mark();
        pool.create(b"file").unwrap();
        pool.insert(b"value").unwrap();
        pool.commit_for_room();
        assert_eq!(pool.buffered(), 2);
        assert_eq!(pool.create(b"file").unwrap_err().kind(), ErrorKind::Exists);
        pool.insert(b"other").unwrap();
        pool.commit_for_room();
        assert_eq!(pool.insert(b"other").unwrap_err().kind(), ErrorKind::Exists);
    }

    /// Random inserts on condition and removals, with other changes in between.
    #[test]
    fn buffered_inserts_match_model() {
        BOTH.into_iter().for_each(buffered_inserts_match);
    }

    /// Compares inserts and removals of 40 names with a set of names.
    fn buffered_inserts_match(durability: Durability) {
        let (pool, mut random) = (Pool::with(durability), Random::new(35));
        pool.mark();
        let (mut model, mut most) = (BTreeSet::new(), 0);
        for _ in 0..esker_testing::rounds(20_000) {
            let name = [b'n', (random.draw() >> 40) as u8 % 40];
            let insert = match random.draw() >> 20 & 15 {
                0..3 => {
                    pool.write(WriteOp::PunchDkey { dkey: &name, cond: Cond::NONE }).unwrap();
                    model.remove(&name);
                    continue;
                }
                3 => {
                    pool.disturb(random.draw() >> 60);
                    continue;
                }
                4..8 => Pool::insert,
                _ => Pool::create,
            };
            let inserted = insert(&pool, &name).map(drop).map_err(|error| error.kind());
            let expected = if model.insert(name) { Ok(()) } else { Err(ErrorKind::Exists) };
            assert_eq!(inserted, expected);
            most = most.max(pool.buffered());
        }
        assert!(most > 3, "{most} entries were buffered at most");
    }

    /// A listing is a read. An entry that is only in the buffer changes it.
    #[test]
    fn transaction_that_read_a_directory_conflicts_with_buffered_entry() {
        let pool = Pool::new();
        pool.mark();
        let tokens = ReadTokens::default();
        let at = ReadAt { view: View::Latest, tokens: Some(&tokens) };
        let (id, limit) = (pool.container.id(), ListLimit { entries: 9, bytes: 999 });
        let mut anchor = Anchor::Start;
        let scope = KeyScope::Dkeys;
        pool.target().list_keys(id, array(), scope, &mut anchor, limit, at).unwrap();
        pool.create(b"file").unwrap();
        let reads = ReadVersion::parse_tokens(&tokens, 1).unwrap();
        let punch = [Write { oid: array(), op: WriteOp::PunchObject { cond: Cond::NONE } }];
        let removed = pool.pool.write(&pool.container, 0, &punch, &reads, None);
        assert_eq!(removed.unwrap_err().kind(), ErrorKind::TxRestart);
    }

    /// Puts of other objects in the buffer do not matter, and those of the object do.
    #[test]
    fn last_extent_is_found_in_buffer_and_index() {
        let pool = Pool::new();
        let other = ObjectId::generate(0, 3, ObjectType::MultiHashed, ObjectClass::S1);
        let extent = |start, count| Some((b"d".to_vec(), Extent::new(start, count)));
        pool.put(b"key", b"of another object");
        assert_eq!(pool.last_extent(array()), None);
        pool.store(0, 1, &[1; 20]).unwrap();
        assert_eq!((pool.last_extent(array()), pool.buffered()), (extent(0, 20), 2));
        pool.flush();
        pool.put(b"key", b"of another object");
        assert_eq!(pool.last_extent(array()), extent(0, 20));
        pool.store(50, 1, &[1; 15]).unwrap();
        assert_eq!((pool.last_extent(array()), pool.buffered()), (extent(50, 15), 2));
        pool.disturb(2);
        assert_eq!(pool.last_extent(array()), extent(50, 15));
        pool.store(90, 1, &[1; 12]).unwrap();
        pool.clear(Extent::new(50, 15));
        assert_eq!((pool.last_extent(array()), pool.last_extent(other)), (extent(90, 12), None));
    }

    /// A fetch of an array looks up a buffered single value only if it has a condition on the akey.
    #[test]
    fn condition_of_array_fetch_sees_buffered_single_value() {
        let pool = Pool::new();
        pool.insert(b"dkey").unwrap();
        let size_of_array = |akey: &[u8], cond| {
            let extents = [Extent::new(0, 1)];
            let mut fetches = [Fetch::array(akey, 0, &extents, Sink::None)];
            fetches[0].request.cond = cond;
            let (id, at) = (pool.container.id(), ReadAt::LATEST);
            let found = pool.target().fetch(id, array(), b"dkey", Cond::NONE, &mut fetches, at);
            found.map(|()| fetches[0].reply.size).map_err(|error| error.kind())
        };
        for buffered in [1, 0] {
            assert_eq!(pool.buffered(), buffered);
            assert_eq!(size_of_array(b"single", Cond::NONE), Ok(0));
            assert_eq!(size_of_array(b"single", Cond::AKEY_FETCH), Ok(0));
            assert_eq!(size_of_array(b"other", Cond::AKEY_FETCH), Err(ErrorKind::NotFound));
            pool.flush();
        }
    }

    /// Random puts and gets, with other changes and reads in between.
    #[test]
    fn buffered_puts_match_model() {
        BOTH.into_iter().for_each(buffered_puts_match);
    }

    /// Compares puts, gets and removals of 50 keys with a map.
    fn buffered_puts_match(durability: Durability) {
        let (pool, mut random) = (Pool::with(durability), Random::new(31));
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut most = 0;
        for _ in 0..esker_testing::rounds(20_000) {
            let key = vec![b'k', (random.draw() >> 40) as u8 % 50];
            match random.draw() >> 20 & 63 {
                0 => assert!(pool.keys().into_iter().eq(model.keys().cloned())),
                1 => {
                    let op = WriteOp::PunchDkey { dkey: &key, cond: Cond::NONE };
                    pool.change(op, &[]).unwrap();
                    model.remove(&key);
                }
                2 => pool.disturb(random.draw() >> 60),
                3 => {
                    let at = ReadAt { view: View::Latest, tokens: Some(&ReadTokens::default()) };
                    assert_eq!(pool.get_at(&key, at), model.get(&key).cloned().unwrap_or_default());
                }
                4..24 => assert_eq!(pool.get(&key), model.get(&key).cloned().unwrap_or_default()),
                _ => {
                    let value = random.bytes(40);
                    pool.put(&key, &value);
                    model.insert(key, value);
                }
            }
            most = most.max(pool.buffered());
        }
        assert!(most > 5, "{most} puts were buffered at most");
    }

    /// Puts of 1000 bytes need a commit only when the buffer is full.
    #[test]
    fn put_into_full_buffer_commits_it() {
        let pool = Pool::new();
        let commits = pool.last_commit();
        let most = (0..2000_u32).map(|number| {
            pool.put(&number.to_le_bytes(), &[7; 1000]);
            pool.buffered()
        });
        let most = most.max().unwrap();
        assert!((10..2000).contains(&most), "{most}");
        assert_eq!(pool.keys().len(), 2000);
        assert!(pool.last_commit() < commits + 2000 / 5);
    }

    /// A transaction must not commit if a later put replaced a value that it has read.
    #[test]
    fn buffered_put_conflicts_with_earlier_read() {
        let pool = Pool::new();
        pool.put(b"key", b"one");
        let tokens = ReadTokens::default();
        pool.get_at(b"key", ReadAt { view: View::Latest, tokens: Some(&tokens) });
        let reads = ReadVersion::parse_tokens(&tokens, 1).unwrap();
        assert!(pool.pool.are_unchanged(&reads));
        pool.pool.check_read_versions(&reads).unwrap();
        pool.put(b"key", b"two");
        assert_eq!(pool.buffered(), 2);
        assert!(!pool.pool.are_unchanged(&reads));
        for _ in 0..2 {
            let refused = pool.put_if(b"other", b"value", &reads).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::TxRestart);
            let refused = pool.pool.check_read_versions(&reads).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::TxRestart);
        }
        assert_eq!(pool.get(b"key"), b"two");
    }

    /// A put must not block a transaction for ever whose read has the same conflict slot and came after the put.
    #[test]
    fn transaction_that_read_after_a_buffered_put_commits() {
        let pool = Pool::new();
        let id = pool.container.id();
        let read = |dkey: &[u8]| {
            let (mut bytes, tokens) = ([0; 8], ReadTokens::default());
            let mut fetches = [Fetch::single(b"a", Sink::One(&mut bytes))];
            let at = ReadAt { view: View::Latest, tokens: Some(&tokens) };
            pool.target().fetch(id, oid(9), dkey, Cond::NONE, &mut fetches, at).unwrap();
            ReadVersion::parse_tokens(&tokens, 1).unwrap()
        };
        let slot = touched_slots(id, oid(1), b"key")[2];
        // A dkey of another object that has the same slot of the conflict table.
        let twin = (0..1 << 20_u32).map(u32::to_le_bytes);
        let twin =
            twin.into_iter().find(|dkey| touched_slots(id, oid(9), dkey)[2] == slot).unwrap();
        let makers: [&dyn Fn(); 2] = [&|| (), &|| pool.commit_for_room()];
        for make_room in makers {
            pool.put(b"key", b"value");
            make_room();
            assert_eq!(pool.buffered(), 1);
            pool.put_if(b"other", b"value", &read(&twin)).unwrap();
        }
    }

    /// A failed change still commits the puts that it flushed, and the next put is buffered again.
    #[test]
    fn failed_change_leaves_buffer_open() {
        let pool = Pool::new();
        let insert = || {
            let value = Value::Single(Source::One(b"new"));
            let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
            let op = WriteOp::Update { dkey: b"key", cond: Cond::DKEY_INSERT, updates: &updates };
            pool.change(op, &[]).unwrap_err().kind()
        };
        pool.put(b"key", b"value");
        for dkey in [b"one", b"two"] {
            assert_eq!((insert(), pool.buffered()), (ErrorKind::Exists, 0));
            assert_eq!(insert(), ErrorKind::Exists, "with an empty buffer");
            let last = pool.target().last_commit().unwrap();
            pool.put(dkey, b"value");
            assert_eq!(pool.buffered(), 1);
            assert_eq!(pool.target().last_commit().unwrap(), last);
        }
        assert_eq!([b"key", b"one", b"two"].map(|dkey| pool.get(dkey)), [b"value"; 3]);
    }

    /// After the first array under a Key-Value, puts are committed directly, since single values must be told from
    /// arrays.
    #[test]
    fn value_beside_an_array_is_refused() {
        let pool = Pool::new();
        pool.put(b"single", b"value");
        assert_eq!(pool.put_array(b"single").unwrap_err().kind(), ErrorKind::NoPermission);
        pool.put(b"single", b"other");
        pool.put_array(b"array").unwrap();
        let refused = pool.put_if(b"array", b"value", &[]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NoPermission);
        pool.put(b"single", b"last");
        assert_eq!((pool.get(b"single"), pool.buffered()), (b"last".to_vec(), 0));
    }

    /// The data of the long extent is in a segment, that of the short one in its record. No read makes a commit.
    #[test]
    fn extent_is_visible_before_and_after_its_commit() {
        let pool = Pool::new();
        let (commits, long) = (pool.last_commit(), vec![b'l'; 5000]);
        pool.store(100, 1, &long).unwrap();
        pool.store(10, 1, b"short").unwrap();
        assert_eq!((pool.buffered(), pool.last_commit()), (2, commits));
        assert_eq!((pool.load(10, 5), pool.load(11, 3)), (b"short".to_vec(), b"hor".to_vec()));
        assert_eq!(pool.load(4000, 1100), long[..1100]);
        assert_eq!((pool.buffered(), pool.last_commit()), (2, commits), "nothing else is needed");
        assert_eq!(pool.load(8, 9), b"..short..");
        assert_eq!((pool.buffered(), pool.last_commit()), (2, commits), "a part is not, either");
        pool.flush();
        pool.store(15, 1, b"er").unwrap();
        assert_eq!((pool.load(100, 5000), pool.load(15, 2)), (long, b"er".to_vec()));
        assert_eq!((pool.buffered(), pool.load_at(Extent::new(50, 1), ReadAt::LATEST).1), (1, 1));
        assert_eq!(pool.load(10, 7), b"shorter");
    }

    /// The checksum of a view follows from those of its chunks, if these cover nothing else.
    #[test]
    fn view_of_a_whole_extent_has_its_checksum() {
        let pool = Pool::new();
        for (number, len) in [2000, CHECKSUM_CHUNK, 3 * CHECKSUM_CHUNK + 5].into_iter().enumerate()
        {
            let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let from = 1_000_000 * number as u64;
            pool.store(from, 1, &bytes).unwrap();
            let view = |extent: Extent| {
                let key = AkeyRef { dkey: b"d", akey: b"a" };
                let (id, wanted) = (pool.container.id(), &[extent]);
                let wanted = Wanted::Array(wanted);
                let view = pool.target().view(id, array(), key, wanted, ReadAt::LATEST);
                view.unwrap().unwrap().crc32c()
            };
            let sum = Checksum::Crc32c.sum(&bytes) as u32;
            assert_eq!(view(Extent::new(from, len as u64)), Some(sum), "{len} bytes");
            assert_eq!(view(Extent::new(from, len as u64 - 1)), None);
            assert_eq!(view(Extent::new(from + 1, len as u64 - 1)), None);
        }
    }

    /// Views, fetches and conditions find buffered puts, and leave them in the buffer.
    #[test]
    fn readers_of_buffered_puts_commit_nothing() {
        let pool = Pool::new();
        pool.store(0, 1, &[b'a'; 3000]).unwrap();
        pool.put(b"key", &[b'v'; 2000]);
        pool.put(b"short", b"value");
        let commits = pool.last_commit();
        let view = |oid, dkey: &[u8], wanted: Wanted<'_>| {
            let (id, key) = (pool.container.id(), AkeyRef { dkey, akey: b"a" });
            let view = pool.target().view(id, oid, key, wanted, ReadAt::LATEST).unwrap();
            view.map(|view| view.as_ref().to_vec())
        };
        assert_eq!(view(oid(1), b"key", Wanted::Single), Some(vec![b'v'; 2000]));
        assert_eq!(view(oid(1), b"short", Wanted::Single), None, "inline values are fetched");
        assert_eq!(view(oid(1), b"none", Wanted::Single), None);
        for (extent, is_there) in [((500, 2500), true), ((500, 2501), false), ((3000, 1), false)] {
            let found = view(array(), b"d", Wanted::Array(&[Extent::new(extent.0, extent.1)]));
            assert_eq!(found, is_there.then(|| vec![b'a'; extent.1 as usize]));
        }
        let get = |oid, dkey: &[u8]| {
            let mut bytes = [0; 8];
            let mut fetches = [Fetch::single(b"a", Sink::One(&mut bytes))];
            fetches[0].request.cond = Cond::AKEY_FETCH;
            let (id, at) = (pool.container.id(), ReadAt::LATEST);
            let fetched = pool.target().fetch(id, oid, dkey, Cond::NONE, &mut fetches, at);
            fetched.map(|()| fetches[0].reply.size).map_err(|error| error.kind())
        };
        assert_eq!(get(oid(1), b"short"), Ok(5));
        assert_eq!(get(oid(1), b"none"), Err(ErrorKind::NotFound));
        assert_eq!(get(array(), b"d"), Ok(0), "there is an array");
        assert_eq!(get(array(), b"e"), Err(ErrorKind::NotFound));
        assert_eq!((pool.buffered(), pool.last_commit()), (3, commits));
    }

    /// An overlapping extent changes records of the index or the buffer, so it is committed.
    #[test]
    fn overlapping_extent_is_not_buffered() {
        let pool = Pool::new();
        pool.store(10, 1, b"first").unwrap();
        pool.store(20, 1, b"other").unwrap();
        assert_eq!(pool.buffered(), 2);
        pool.store(14, 1, b"second").unwrap();
        assert_eq!((pool.buffered(), pool.load(10, 15)), (0, b"firssecondother".to_vec()));
        pool.store(0, 1, b"third").unwrap();
        pool.store(24, 1, b"R").unwrap();
        assert_eq!((pool.buffered(), pool.load(20, 5)), (0, b"otheR".to_vec()));
    }

    /// The flush applies the puts in the order of their keys, so the older one comes last.
    #[test]
    fn flush_keeps_epoch_of_newest_extent() {
        for starts in [[10, 0], [0, 10]] {
            let pool = Pool::new();
            let stored = starts.map(|start| pool.store(start, 1, &[b'x'; 10]).unwrap());
            let (id, at) = (pool.container.id(), ReadAt::LATEST);
            let last = || pool.target().last_epoch(id, array(), None, at).unwrap();
            assert_eq!((last(), pool.buffered()), (stored[1], 2));
            pool.flush();
            assert_eq!((last(), pool.buffered()), (stored[1], 0));
        }
    }

    /// The insert condition is checked in the index and in the buffer.
    #[test]
    fn first_value_under_a_dkey_is_buffered() {
        let pool = Pool::new();
        let create = |dkey: &[u8]| {
            let value = Value::Single(Source::One(b"value"));
            let updates = [Update { akey: b"a", value, cond: Cond::AKEY_INSERT }];
            let op = WriteOp::Update { dkey, cond: Cond::DKEY_INSERT, updates: &updates };
            let written =
                pool.pool.write(&pool.container, 0, &[Write { oid: array(), op }], &[], None);
            written.map_err(|error| error.kind())
        };
        create(b"d").unwrap();
        assert_eq!((pool.buffered(), create(b"d").unwrap_err()), (1, ErrorKind::Exists));
        assert_eq!(pool.store(0, 1, b"x").unwrap_err().kind(), ErrorKind::NoPermission);
        create(b"e").unwrap();
        assert_eq!(create(b"d").unwrap_err(), ErrorKind::Exists);
        let at = ReadAt { view: View::Latest, tokens: Some(&ReadTokens::default()) };
        assert_eq!(pool.load_at(Extent::new(0, 1), at).1, 0);
        assert_eq!(create(b"e").unwrap_err(), ErrorKind::Exists);
    }

    /// The existing records may be in the buffer or in the index.
    #[test]
    fn records_of_another_size_are_refused() {
        let pool = Pool::new();
        pool.store(0, 4, b"12345678").unwrap();
        for _ in 0..2 {
            assert_eq!(pool.store(5, 2, b"12").unwrap_err().kind(), ErrorKind::Invalid);
            pool.store(7, 4, b"next").unwrap();
            pool.clear(Extent::new(7, 1));
        }
        assert_eq!(pool.load_at(Extent::new(100, 1), ReadAt::LATEST).1, 4);
    }

    /// Random writes and reads of extents, with other changes in between.
    #[test]
    fn buffered_extents_match_model() {
        BOTH.into_iter().for_each(buffered_extents_match);
    }

    /// Compares writes, reads and removals of bytes of an array with a vector, in which dots are holes.
    fn buffered_extents_match(durability: Durability) {
        const LEN: u64 = 40_000;
        let (pool, mut random) = (Pool::with(durability), Random::new(33));
        let mut model = vec![b'.'; LEN as usize];
        let mut most = 0;
        for round in 0..esker_testing::rounds(10_000) {
            let start = (random.draw() >> 20) % LEN;
            let longest = [20, 3000][usize::from(random.draw() >> 60 == 0)];
            let count = ((random.draw() >> 20) % longest + 1).min(LEN - start);
            let place = start as usize..(start + count) as usize;
            match random.draw() >> 20 & 15 {
                0..8 => {
                    let data = vec![b'a' + (round % 26) as u8; count as usize];
                    pool.store(start, 1, &data).unwrap();
                    model[place].copy_from_slice(&data);
                }
                8 => {
                    pool.clear(Extent::new(start, LEN));
                    model[start as usize..].fill(b'.');
                }
                9 => pool.disturb(random.draw() >> 60),
                10 => pool.target().compact_all().unwrap(),
                11 => {
                    let at = ReadAt { view: View::Latest, tokens: Some(&ReadTokens::default()) };
                    assert_eq!(pool.load_at(Extent::new(start, count), at).0, model[place]);
                }
                _ => assert_eq!(pool.load(start, count), model[place]),
            }
            most = most.max(pool.buffered());
        }
        assert_eq!(pool.load(0, LEN), model);
        assert!(most > 3, "{most} extents were buffered at most");
    }

    /// Simulates a process that dies after a buffered put and before it counts the appended data.
    #[test]
    fn data_of_buffered_puts_is_live() {
        let pool = Pool::new();
        let (target, data) = (pool.target(), vec![b'x'; 5000]);
        let extents = [Extent::new(0, 5000)];
        let value = Value::Array { record_size: 1, extents: &extents, data: Source::One(&data) };
        let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
        let op = WriteOp::Update { dkey: b"d", cond: Cond::NONE, updates: &updates };
        let writes = [Write { oid: array(), op }];
        let mut staged = super::super::stage::stage(target, &pool.container, &writes).unwrap();
        let segment = staged.appended().next().unwrap().segment;
        pool.pool.put_in_buffer(&pool.container, target, &writes, &mut staged).unwrap().unwrap();
        let atomics = target.shared();
        atomics.segment(segment).published.store(0, Ordering::Relaxed);
        atomics.segment(segment).stamp.store(0, Ordering::Relaxed);
        atomics.segment(segment).store(SegmentState::Busy(ProcessSlot::NOBODY));
        target.collect().unwrap();
        assert_eq!(atomics.segment(segment).live(0), 5000);
        assert_eq!(pool.load(0, 5000), data);
    }

    /// Leaves the buffer like a process that dies in a put after `done` of its stores; returns the number of stores.
    fn crash_in_put(pool: &Pool, done: usize) -> usize {
        let words = || pool.words().iter().map(|word| word.load(Ordering::Relaxed));
        pool.put(b"key", b"one");
        let before: Vec<u64> = words().collect();
        pool.put(b"key", b"two");
        let after: Vec<u64> = words().collect();
        let changed = (0..before.len()).filter(|at| before[*at] != after[*at]);
        // The order of `append`: the words of the put, the state, the bucket, the published length.
        let mut stores: Vec<usize> = changed.collect();
        stores.sort_by_key(|at| match at {
            2 => 10_000,
            3 => 30_000,
            16..528 => 20_000,
            at => *at,
        });
        for at in &stores[done.min(stores.len())..] {
            pool.words()[*at].store(before[*at], Ordering::Relaxed);
        }
        stores.len()
    }

    /// After the crash, the next owner of the lock finds all acknowledged puts and can put. The interrupted put is
    /// visible at once or never.
    #[test]
    fn crash_at_any_store_of_a_put_keeps_acknowledged_puts() {
        let mut done = 0;
        loop {
            let pool = Pool::new();
            let stores = crash_in_put(&pool, done);
            let expected: &[u8] = if done == stores { b"two" } else { b"one" };
            assert_eq!(pool.get(b"key"), expected, "after {done} of {stores} stores");
            for value in [b"first", b"later"] {
                pool.put(b"other", value);
                assert_eq!(pool.get(b"other"), value);
                assert_eq!(pool.get(b"key"), expected, "after {done} of {stores} stores");
            }
            assert_eq!(pool.keys(), [b"key".to_vec(), b"other".to_vec()]);
            if done == stores {
                break;
            }
            done += 1;
        }
    }

    /// The process of a put dies after its entry is in the redo log. The put was not acknowledged, and must not replace
    /// later changes after a restart of the machine.
    #[test]
    fn logged_put_of_dead_process_does_not_return_after_a_later_commit() {
        let pool = Pool::with(Durability::Commit);
        pool.put(b"key", b"acknowledged");
        let published = pool.words()[3].load(Ordering::Relaxed);
        pool.put(b"key", b"of a dead process");
        pool.words()[3].store(published, Ordering::Relaxed);
        assert_eq!(pool.get(b"key"), b"acknowledged");
        pool.put(b"key", b"later");
        for seed in 0..3 {
            pool.restart_machine(seed);
            assert_eq!((pool.get(b"key"), pool.buffered()), (b"later".to_vec(), 0));
        }
    }

    /// The process of a put dies after its entry is in the redo log, and the buffer has no other put. The next process
    /// closes the pool without a change.
    #[test]
    fn logged_put_of_dead_process_does_not_return_after_a_close() {
        for puts_before in [0, 1] {
            let pool = Pool::with(Durability::Commit);
            for _ in 0..puts_before {
                pool.put(b"other", b"acknowledged");
            }
            let published = pool.words()[3].load(Ordering::Relaxed) * puts_before;
            pool.put(b"key", b"of a dead process");
            pool.words()[3].store(published, Ordering::Relaxed);
            assert_eq!((pool.get(b"key"), pool.buffered()), (vec![], puts_before as usize));
            pool.flush();
            let last = pool.last_commit();
            pool.flush();
            assert_eq!(pool.last_commit(), last, "nothing is left to flush");
            pool.restart_machine(0);
            assert_eq!((pool.get(b"key"), pool.buffered()), (vec![], 0));
        }
    }

    /// The sync reports an error, but the entry is on the medium.
    #[test]
    fn failed_put_does_not_return_after_a_restart() {
        let pool = Pool::with(Durability::Commit);
        pool.target().data().fail_next_sync.store(true, Ordering::Relaxed);
        assert_eq!(pool.put_if(b"key", b"value", &[]).unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(pool.get(b"key"), b"");
        let (target, log) = (pool.target(), pool.target().data().redo_log().unwrap());
        assert!(log.iter().any(|byte| *byte != 0), "the entry is in the log");
        target.load_redo_log().unwrap();
        assert_eq!((pool.get(b"key"), pool.buffered()), (vec![], 0));
    }

    /// The entry of a put may be on the medium without its data, since one sync stores both. The put was not
    /// acknowledged then.
    #[test]
    fn put_without_its_data_is_dropped_after_a_restart() {
        let pool = Pool::with(Durability::Commit);
        pool.put(b"key", &[b'1'; 2000]);
        pool.put(b"key", &[b'2'; 2000]);
        lose_data(&pool, b'2');
        pool.restart_machine(1);
        assert_eq!((pool.get(b"key"), pool.buffered()), (vec![b'1'; 2000], 1));
    }

    /// Puts two keys in one batch, as two threads do. The power fails in its sync: the first put loses its data.
    fn lose_first_data_of_batch(pool: &Pool) {
        pool.put(b"a", &[b'1'; 2000]);
        pool.put(b"b", b"unacknowledged");
        let (_, puts) = pool.target().committed_and_buffered().unwrap();
        let base = pool.words()[0].load(Ordering::Relaxed) >> 16;
        let mut batch = Batch::behind(base, (0, 0));
        puts.iter().for_each(|put| batch.add(&put));
        pool.target().data().log(batch).unwrap();
        lose_data(pool, b'1');
        pool.restart_machine(0);
        assert_eq!((pool.get(b"a").len(), pool.get(b"b").len(), pool.buffered()), (0, 0, 0));
    }

    /// An entry that was dropped after a restart is not found after the next one, whatever is logged before it.
    #[test]
    fn dropped_entry_does_not_return_after_a_second_restart() {
        for key in [b"a", b"b"] {
            for commits in [false, true] {
                let pool = Pool::with(Durability::Commit);
                lose_first_data_of_batch(&pool);
                if commits {
                    pool.target().change(|change| change.put(b"Tkey", b"v")).unwrap();
                }
                // The entry is as long as that of the first put of the batch.
                pool.put(key, &[b'3'; 2000]);
                pool.restart_machine(0);
                assert_eq!((pool.get(key), pool.buffered()), (vec![b'3'; 2000], 1));
                assert_eq!(pool.get(b"a").len() + pool.get(b"b").len(), 2000);
            }
        }
    }

    /// A process dies after its batch is in the redo log. Later entries of the same length do not make the rest of the
    /// batch valid, neither with the same base nor with a newer one.
    #[test]
    fn rest_of_batch_of_dead_process_does_not_hide_later_puts() {
        for commits in [false, true] {
            let pool = Pool::with(Durability::Commit);
            let published: Vec<_> =
                pool.words().iter().map(|word| word.load(Ordering::Relaxed)).collect();
            pool.put(b"a", &[b'1'; 2000]);
            pool.put(b"b", b"of a dead process");
            for (word, before) in pool.words().iter().zip(published) {
                word.store(before, Ordering::Relaxed);
            }
            if commits {
                pool.target().change(|change| change.put(b"Tkey", b"v")).unwrap();
            }
            pool.put(b"b", &[b'2'; 2000]);
            assert_eq!(pool.get(b"b"), [b'2'; 2000]);
            pool.restart_machine(0);
            assert_eq!((pool.get(b"b"), pool.buffered()), (vec![b'2'; 2000], 1));
        }
    }

    /// A full medium may report at the sync of reserved space that it did not store some of it.
    #[test]
    fn nothing_is_acknowledged_after_a_failed_sync() {
        let pool = Pool::with(Durability::Commit);
        pool.store(0, 1, &[b'1'; 5000]).unwrap();
        pool.flush();
        pool.target().data().fail_next_sync.store(true, Ordering::Relaxed);
        for _ in 0..2 {
            let error = pool.store(0, 1, &[b'2'; 5000]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        }
        assert_eq!(pool.load(0, 5000), [b'1'; 5000]);
    }

    /// Containers without checksums cannot tell whether the data of a put is on the medium.
    #[test]
    fn data_without_checksums_is_not_buffered_if_commits_are_synced() {
        for (durability, buffered) in [(Durability::Process, 1), (Durability::Commit, 0)] {
            let mut pool = Pool::with(durability);
            let spec = ContainerSpec { label: Some("off"), ..ContainerSpec::default() };
            let spec = ContainerSpec { checksum: esker_types::Checksum::Off, ..spec };
            pool.pool.create_container(&spec).unwrap();
            let name = ContainerRef::Label("off");
            pool.container = pool.pool.open_container(name, OpenMode::ReadWrite).unwrap();
            pool.put(b"key", &[b'1'; 2000]);
            assert_eq!(pool.buffered(), buffered, "{durability:?}");
            pool.flush();
            pool.put(b"key", b"short");
            assert_eq!((pool.get(b"key"), pool.buffered()), (b"short".to_vec(), 1));
        }
    }

    /// Threads share the syncs of the redo log, and find the puts of one another.
    #[test]
    fn threads_share_syncs_of_redo_log() {
        let pool = Pool::with(Durability::Commit);
        let rounds = esker_testing::rounds(400);
        std::thread::scope(|threads| {
            for thread in 0..4 {
                let pool = &pool;
                threads.spawn(move || {
                    for round in 0..rounds {
                        let key = [thread, round as u8];
                        pool.put(&key, &round.to_le_bytes());
                        assert_eq!(pool.get(&key), round.to_le_bytes());
                    }
                });
            }
        });
        let found = |key: [u8; 2]| pool.get(&key);
        let last = |thread| found([thread, (rounds - 1) as u8]);
        let before = [0, 1, 2, 3].map(last);
        assert_eq!(before, [(); 4].map(|()| (rounds - 1).to_le_bytes()));
        pool.restart_machine(2);
        assert_eq!([0, 1, 2, 3].map(last), before);
    }

    /// After a restart, new extents are appended behind the complete last one, though only its first bytes are live.
    /// Otherwise compaction would not find them.
    #[test]
    fn extents_after_a_cut_one_are_found_after_a_restart() {
        let pool = Pool::with(Durability::Commit);
        pool.store(0, 1, &[b'a'; 200_000]).unwrap();
        pool.clear(Extent::new(50_000, 150_000));
        pool.restart_machine(0);
        for number in 0..20 {
            pool.store(1_000_000 + number * 10_000, 1, &[b'b'; 5000]).unwrap();
        }
        pool.clear(Extent::new(0, 50_000));
        let target = pool.target();
        for _ in 0..2 {
            target.compact_all().unwrap();
            target.recycle().unwrap();
        }
        for round in 0..40 {
            pool.store(0, 1, &[round; 900_000]).unwrap();
        }
        for number in 0..20 {
            let found = pool.load(1_000_000 + number * 10_000, 5000);
            assert!(found == [b'b'; 5000], "extent {number}");
        }
    }

    /// After a restart, the control file may say that segments are free which have data. A check must not use them.
    #[test]
    fn check_after_a_restart_commits_nothing() {
        let pool = Pool::with(Durability::Commit);
        pool.put(b"key", &[b'1'; 2000]);
        pool.flush();
        pool.put(b"key", &[b'2'; 2000]);
        let copy = copy_of(&pool.scratch.path());
        let control = copy.join("control");
        let lost = vec![0; std::fs::metadata(&control).unwrap().len() as usize];
        overwrite(&control, 0, &lost);
        let index = || std::fs::read(copy.join("target-0/index/data.mdb")).unwrap();
        let before = index();
        let found = crate::Pool::check(&copy, false, &mut |_, _| {}).unwrap();
        assert!(found.problems.is_empty() && before == index(), "{found:?}");
        let reopened = crate::Pool::open(&copy).unwrap();
        let target = &reopened.opened().unwrap().targets[0];
        assert_eq!(target.committed_and_buffered().unwrap().1.iter().count(), 1);
    }

    /// Check reports a damaged redo log after a restart. A repair keeps the undamaged puts.
    #[test]
    fn damaged_redo_log_is_reported_and_repaired() {
        let pool = Pool::with(Durability::Commit);
        for key in [b"one", b"two", b"six"] {
            pool.put(key, b"value");
        }
        let copy = copy_of(&pool.scratch.path());
        let data = copy.join(crate::format::superblock::target_name(0)).join(crate::data::NAME);
        let end = std::fs::metadata(&data).unwrap().len();
        overwrite(&data, end - crate::format::superblock::REDO_LOG_BYTES + 20, b"damage");
        overwrite(&copy.join("control"), 8, b"another boot");
        let refused = crate::Pool::open(&copy).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
        let (values, has_losses) = salvage(&copy);
        assert_eq!((values.len(), has_losses), (2, true));
        let check = |repair| crate::Pool::check(&copy, repair, &mut |_, _| {}).unwrap();
        let found = check(false);
        assert!(found.problems.iter().any(|it| it.contains("write buffer")), "{found:?}");
        let repaired = check(true);
        assert!(repaired.problems.is_empty() && repaired.repaired[0].contains("2 puts"));
        let state = crate::Pool::open(&copy).unwrap().opened().unwrap().targets[0].last_commit();
        assert!(state.is_ok() && check(false).problems.is_empty());
    }

    /// A snapshot contains earlier puts and no later ones.
    #[test]
    fn snapshot_shows_earlier_buffered_puts_only() {
        let pool = Pool::new();
        pool.put(b"key", b"one");
        let snapshot = pool.pool.create_snapshot(&pool.container, "s").unwrap();
        pool.put(b"key", b"two");
        pool.put(b"key", b"three");
        let at = ReadAt { view: View::Snapshot(snapshot), tokens: None };
        assert_eq!(pool.get(b"key"), b"three");
        assert_eq!(pool.get_at(b"key", at), b"one");
    }

    /// Damages a value of 2000 equal bytes in the data file.
    fn lose_data(pool: &Pool, byte: u8) {
        let name = crate::format::superblock::target_name(0);
        let path = pool.scratch.path().join(name).join(crate::data::NAME);
        let bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(2000).position(|window| window == [byte; 2000]).unwrap();
        overwrite(&path, at as u64 + 1000, b"x");
    }

    fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
        let file = std::fs::File::options().write(true).open(path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, bytes, at).unwrap();
    }

    /// The dkeys of all values that are salvaged from a pool, and whether there are losses.
    fn salvage(pool: &Path) -> (Vec<Vec<u8>>, bool) {
        let mut found = Vec::new();
        let mut hear = |value: crate::Salvaged<'_>| {
            found.push(value.dkey.to_vec());
            Ok(())
        };
        let mut salvage = crate::Salvage::open(pool).unwrap();
        salvage.visit(&mut hear, &mut |_, _| {}).unwrap();
        let has_losses = salvage.losses().count > 0;
        (found, has_losses)
    }

    /// Copies the files of an open pool. The copy looks as if the processes had been killed.
    fn copy_of(pool: &Path) -> PathBuf {
        let copy = pool.with_file_name("copy");
        let status = Command::new("cp").arg("-a").args([pool, &copy]).status().unwrap();
        assert!(status.success());
        copy
    }

    /// The copy is in the state that a killed process leaves, with three buffered puts.
    #[test]
    fn buffered_puts_of_dead_process_are_opened_and_salvaged() {
        let pool = Pool::new();
        pool.put(b"key", b"one");
        pool.store(5000, 1, &[b'y'; 2000]).unwrap();
        pool.flush();
        pool.put(b"key", b"two");
        pool.put(b"other", b"three");
        // A transaction that makes room and is committed, and another that is aborted.
        pool.commit_for_room();
        drop(pool.target().begin_for_room().unwrap());
        pool.store(7, 1, &[b'x'; 2000]).unwrap();
        let copy = copy_of(&pool.scratch.path());
        let (mut found, _) = salvage(&copy);
        found.sort();
        assert_eq!(found, [&b"d"[..], b"d", b"key", b"other"]);
        let reopened = crate::Pool::open(&copy).unwrap();
        let target = &reopened.opened().unwrap().targets[0];
        assert_eq!(target.committed_and_buffered().unwrap().1.iter().count(), 3);
        let count = |usage: crate::shard::walk::Usage| {
            usage.segments.values().map(|it| it.live).sum::<u64>()
        };
        assert_eq!(count(crate::shard::walk::usage(target, &[]).unwrap()), 4000);
        target.flush().unwrap();
        assert!(!target.has_buffered_puts().unwrap());
        assert_eq!(count(crate::shard::walk::usage(target, &[]).unwrap()), 4000);
    }

    /// The newest meta page is damaged, so the last commit is lost. The puts on top of it are not.
    #[test]
    fn puts_on_top_of_a_lost_commit_are_salvaged() {
        for durability in BOTH {
            let pool = Pool::with(durability);
            for key in [b"one", b"two"] {
                pool.put(key, b"value");
                pool.flush();
            }
            pool.put(b"key", b"buffered");
            let copy = copy_of(&pool.scratch.path());
            let meta_page = pool.last_commit() % 2 * crate::format::superblock::PAGE as u64;
            overwrite(&copy.join("target-0/index/data.mdb"), meta_page + 16, b"damaged");
            let (mut found, has_losses) = salvage(&copy);
            found.sort();
            assert_eq!((found, has_losses), (vec![b"key".to_vec(), b"one".to_vec()], true));
        }
    }

    /// Check and salvage report a damaged buffer; a repair keeps the undamaged puts.
    #[test]
    fn damaged_buffer_is_reported_and_repaired() {
        let pool = Pool::new();
        pool.put(b"key", b"one");
        pool.flush();
        pool.put(b"key", b"two");
        pool.put(b"other", b"three");
        // Flips a bit in the record of the second put.
        let end = PUTS_AT + pool.words()[2].load(Ordering::Relaxed) as u16 as usize;
        pool.words()[end - 2].fetch_xor(1 << 5, Ordering::Relaxed);
        let copy = copy_of(&pool.scratch.path());
        let check = |repair| crate::Pool::check(&copy, repair, &mut |_, _| {}).unwrap();
        let found = check(false);
        assert!(found.problems.iter().any(|it| it.contains("write buffer")), "{found:?}");
        let (values, has_losses) = salvage(&copy);
        assert_eq!((values, has_losses), (vec![b"key".to_vec()], true));
        let repaired = check(true);
        assert!(
            repaired.problems.is_empty() && repaired.repaired[0].contains("1 puts"),
            "{repaired:?}"
        );
        assert!(check(false).problems.is_empty());
        let kind = pool.target().fetch(
            pool.container.id(),
            oid(1),
            b"key",
            Cond::NONE,
            &mut [Fetch::single(b"a", Sink::None)],
            ReadAt::LATEST,
        );
        assert!(kind.is_ok(), "an undamaged put is still read");
    }

    /// A flush detects every change of the buffer by others, and a reader never returns a wrong value.
    #[test]
    fn damage_to_the_buffer_is_detected() {
        let (pool, mut random) = (Pool::new(), Random::new(32));
        let model: BTreeMap<Vec<u8>, Vec<u8>> =
            (0..40).map(|number| (vec![b'k', number], random.bytes(40))).collect();
        model.iter().for_each(|(key, value)| {
            pool.put(key, value);
        });
        let sound: Vec<u64> =
            pool.words().iter().map(|word| word.load(Ordering::Relaxed)).collect();
        let used = PUTS_AT + (sound[2] as u16 as usize);
        for round in 0..esker_testing::rounds(3000) {
            let at = match round % 3 {
                0 => random.draw() as usize % 5,
                1 => random.draw() as usize % used,
                _ => PUTS_AT + random.draw() as usize % (used - PUTS_AT),
            };
            let bit = 1 << (random.draw() >> 58);
            pool.words()[at].store(sound[at] ^ bit, Ordering::Relaxed);
            let (target, id) = (pool.target(), pool.container.id());
            for (key, value) in &model {
                let mut bytes = [0; 64];
                let mut fetches = [Fetch::single(b"a", Sink::One(&mut bytes))];
                let fetched =
                    target.fetch(id, oid(1), key, Cond::NONE, &mut fetches, ReadAt::LATEST);
                let len = fetches[0].reply.size as usize;
                // A damaged name is only detected by the checksum of all puts.
                assert!(fetched.is_err() || len == 0 || bytes[..len] == value[..]);
            }
            let puts = target.lock_in_doubt().and_then(|lock| lock.buffered_puts());
            // A flush does not verify the maximum number of puts, the unused words and the buckets.
            let in_use = (5..16).contains(&at) || (at == 4) || (16..PUTS_AT).contains(&at);
            assert!(puts.is_err() || in_use, "bit {bit:x} of word {at}");
            pool.words()[at].store(sound[at], Ordering::Relaxed);
        }
        assert_eq!(pool.keys().len(), model.len());
    }

    /// Position of the first put in the buffer.
    const PUTS_AT: usize = 528;
}
