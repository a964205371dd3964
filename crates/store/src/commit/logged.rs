//! Puts that go into the log of a target, and write transactions that take them along (see [`crate::log`]).
use super::apply::{exists, has_place_for, insert_extent};
use super::change::{Change, headroom_pages, note_versions};
use super::stage::{Content, Piece, Staged, StagedAkey, StagedAkeys};
use crate::catalog::Container;
use crate::control::{TouchedSlots, touched_slots};
use crate::io::txn::{Txn, WriteTxn};
use crate::keys::{DataKey, Key, Table, is_kv};
use crate::log::{Held, Log, LoggedExtent, Pending, Put, Puts};
use crate::pool::OpenPool;
use crate::record::{Record, RecordBytes};
use crate::sync::yield_now;
use crate::target::Target;
use esker_types::info::ContainerId;
use esker_types::ops::{Cond, Write, WriteOp};
use esker_types::{Epoch, Error, ErrorKind, ObjectId, Result};
use std::time::{Duration, Instant};

/// Most free pages of the index that a put may take when it is committed: those from the root to a leaf, another leaf for
/// what a snapshot shows, and some that split.
const PAGES_PER_PUT: u64 = 8;

/// Puts of small values that a log has when it is full, about.
const PUTS_WHEN_FULL: u64 = 400;

/// Longest key and record that are put into the log.
const KEY_MAX: usize = 1024;
const RECORD_MAX: usize = 2048;

/// How long a writer looks out for the end of a commit of the log.
const COMMIT_TIME: Duration = Duration::from_micros(400);

/// A write that may go into the log.
struct Plain<'w, 's> {
    /// Slots of the conflict table that it changes.
    slots: TouchedSlots,
    akey: &'w StagedAkey<'s>,
    piece: &'w Piece<'s>,
    kind: Kind,
}

/// What is written, and what must not be there.
#[derive(Clone, Copy)]
enum Kind {
    /// A single value of a Key-Value, whatever was there before.
    Value,
    /// A single value of another object, where the dkey did not exist.
    First,
    /// An extent with records of so many bytes, where the array had none.
    Extent(u32),
}

impl Kind {
    fn of(is_kv: bool, cond: Cond, update: Cond, content: &Content<'_>) -> Option<Self> {
        let is_free = cond == Cond::NONE && update == Cond::NONE;
        let is_first =
            cond == Cond::DKEY_INSERT && [Cond::NONE, Cond::AKEY_INSERT].contains(&update);
        match content {
            Content::Single(_) if is_kv && is_free => Some(Self::Value),
            Content::Single(_) if !is_kv && is_first => Some(Self::First),
            Content::Array { record_size, .. } if !is_kv && is_free => {
                Some(Self::Extent(*record_size))
            }
            _ => None,
        }
    }
}

impl<'w, 's> Plain<'w, 's> {
    fn of(container: ContainerId, write: &Write<'w>, staged: &'w StagedAkeys<'s>) -> Option<Self> {
        let WriteOp::Update { dkey, cond, updates: [update] } = write.op else { return None };
        let ([akey], oid) = (&staged[..], write.oid) else { return None };
        let kind = Kind::of(is_kv(oid), cond, update.cond, &akey.content)?;
        let [piece] = akey.content.pieces() else { return None };
        let slots = touched_slots(container, oid, dkey);
        akey.left_out.is_empty().then_some(Self { slots, akey, piece, kind })
    }

    /// Its key in the data table.
    fn key(&self) -> Key {
        match self.kind {
            Kind::Value | Kind::First => self.akey.prefix.single(),
            Kind::Extent(_) => self.akey.prefix.extent(self.piece.extent.start),
        }
    }

    /// Bytes of a record of an array; `None` for a single value.
    fn record_size(&self) -> Option<u32> {
        match self.kind {
            Kind::Value | Kind::First => None,
            Kind::Extent(record_size) => Some(record_size),
        }
    }

    /// Its record, encoded.
    fn record(&self, key: &Key, epoch: Epoch) -> RecordBytes {
        let record = self.piece.record(epoch, self.record_size(), self.akey.left_out);
        let mut bytes = RecordBytes::new();
        record.encode(&key[1..], &mut bytes);
        bytes
    }

    /// Records of an array that it has, zero for a single value.
    fn count(&self) -> u32 {
        self.record_size().map_or(0, |_| self.piece.extent.count as u32)
    }

    /// True if nothing is in its way, neither in the log nor in the index, as this commit left it.
    fn has_place(&self, target: &Target, log: &Pending<'_>, last_commit: u64) -> Result<bool> {
        let has_place_in_log = match self.kind {
            Kind::Value => return Ok(true),
            Kind::First => !log.may_have(self.slots[1]),
            Kind::Extent(record_size) => self.has_place_beside(log, record_size),
        };
        if !has_place_in_log {
            return Ok(false);
        }
        // A commit needs no reader slot, of which there may be none left.
        let Ok(txn) = target.index.read() else { return Ok(false) };
        Ok(txn.id() == last_commit && self.has_place_in_index(&txn)?)
    }

    /// True if an extent overlaps none in the log, and nothing is there that must not be beside it.
    fn has_place_beside(&self, log: &Pending<'_>, record_size: u32) -> bool {
        let (prefix, extent) = (&self.akey.prefix, self.piece.extent);
        let name = prefix.array();
        let is_alike = |last: LoggedExtent<'_>| {
            let (key, record) = (prefix.extent(last.extent.start), last.record());
            Record::decode(&key[1..], &record).is_ok_and(|it| it.record_size == record_size)
        };
        log.extents(&name).next().is_none_or(is_alike)
            && log.extents(&name).all(|it| it.extent.intersect(extent).is_none())
            && log.find(&prefix.single()).is_none()
    }

    fn has_place_in_index(&self, txn: &Txn) -> Result<bool> {
        let prefix = &self.akey.prefix;
        match self.record_size() {
            Some(record_size) => has_place_for(txn, prefix, self.piece.extent, record_size),
            None => {
                let key = prefix.single();
                exists(txn, DataKey::parse(&key)?.dkey_prefix()).map(|exists| !exists)
            }
        }
    }
}

/// Key of a value that exists if an object of a Key-Value's type has an array. A single value beside it must be refused,
/// which takes a look into the index: then there is no log.
fn arrays_key() -> Key {
    Key::table(Table::Arrays)
}

#[cold]
fn taken() -> Error {
    let message = "the log was taken from this process, and may have what it wrote or not: has it closed the pool's files?";
    Error::new(ErrorKind::Again, message)
}

/// Notes that an object of a Key-Value's type has an array, if there is a log.
pub(super) fn note_array(change: &mut Change<'_>, oid: ObjectId) -> Result<()> {
    let concerns = change.target().log().is_some() && is_kv(oid);
    match concerns && change.txn().get(&arrays_key())?.is_none() {
        true => change.put(&arrays_key(), &[]),
        false => Ok(()),
    }
}

impl OpenPool {
    /// Puts what is staged into the log of a target. `None` if that cannot be done: then it must be committed.
    pub(super) fn put_in_log(
        &self,
        container: &Container,
        target: &Target,
        writes: &[Write<'_>],
        staged: &mut Staged<'_>,
    ) -> Result<Option<Epoch>> {
        let (Some(log), [write], [akeys]) = (target.log(), writes, &staged.writes[..]) else {
            return Ok(None);
        };
        let Some(plain) = Plain::of(container.id(), write, akeys) else { return Ok(None) };
        let (key, slots) = (plain.key(), plain.slots);
        let Some((held, base)) = target.hold_open(log)? else { return Ok(None) };
        container.check_alive(self)?;
        staged.check_held()?;
        let epoch = self.control.next_epoch();
        let record = plain.record(&key, epoch);
        let put = Put { key: &key, record: &record, count: plain.count(), slots };
        let fits = key.len() <= KEY_MAX && record.len() <= RECORD_MAX && held.has_room(&put);
        if !fits || !plain.has_place(target, &held.content(), base)? {
            return Ok(None);
        }
        // As a commit does, so that whoever has read what the put changes finds out.
        note_versions(target, base + 1, &slots);
        if target.expect_no_leases(&slots).is_err() {
            return Ok(None);
        }
        held.put(&put);
        let is_mine = held.is_mine();
        drop(held);
        staged.publish();
        if is_mine { Ok(Some(epoch)) } else { Err(taken()) }
    }

    /// Commits what the logs have, before the pool is closed: so whoever can only read it sees all of it. What cannot be
    /// committed stays in the log.
    pub(crate) fn commit_logs(&self) {
        if self.control.read_only {
            return;
        }
        for target in self.targets.iter().filter(|target| !target.is_in_doubt()) {
            let _ = target.commit_log();
        }
    }
}

impl Target {
    /// Its log, if it has one.
    #[inline]
    pub(crate) fn log(&self) -> Option<Log<'_>> {
        self.control.log(self.number())
    }

    fn hold<'l>(&self, log: Log<'l>) -> Held<'l> {
        log.lock(self.process(), |slot| self.is_alive(slot))
    }

    /// Holds the log for a put, and tells the commit that it follows. `None` if no put may go into it.
    fn hold_open<'l>(&self, log: Log<'l>) -> Result<Option<(Held<'l>, u64)>> {
        let (mut held, mut base) = (self.hold(log), self.index.last_commit()?);
        if log.is_closed(base) {
            drop(held);
            self.await_commit(log, base)?;
            (held, base) = (self.hold(log), self.index.last_commit()?);
        }
        let is_open = self.open_log(&held, base)? && !self.is_in_doubt();
        Ok(is_open.then_some((held, base)))
    }

    /// Looks out for the end of a write transaction, for about as long as a commit of a full log takes: being woken from LMDB's
    /// lock takes longer, and would be for a commit of one change. If others need the processor, one turn of theirs ends it.
    fn await_commit(&self, log: Log<'_>, last_commit: u64) -> Result<()> {
        let begun = Instant::now();
        while log.is_closed(last_commit)
            && self.index.last_commit()? == last_commit
            && begun.elapsed() < COMMIT_TIME
        {
            (0..16).for_each(|_| std::hint::spin_loop());
            yield_now();
        }
        Ok(())
    }

    /// True if puts may go into the log, which is restarted behind the last commit if it follows an earlier one.
    fn open_log(&self, log: &Held<'_>, last_commit: u64) -> Result<bool> {
        if log.follows(last_commit) {
            return Ok(log.is_open(last_commit));
        }
        let Ok(txn) = self.index.read() else { return Ok(false) };
        let count_max = self.puts_that_fit(&txn)?;
        log.restart(last_commit, count_max);
        // A commit since then closes it again, or comes after what is put into it.
        Ok(txn.id() == last_commit && count_max > 0)
    }

    /// Puts that may go into the log before the next commit.
    fn puts_that_fit(&self, txn: &Txn) -> Result<u64> {
        let (used, total) = self.pages(txn)?;
        // Half of them: those that were freed last may not be used yet.
        let free = total.saturating_sub(used + headroom_pages(total)) / 2;
        Ok(if txn.get(&arrays_key())?.is_some() { 0 } else { free / PAGES_PER_PUT })
    }

    /// Pages that should be free in an index of `total` pages, so that the log can become full: no more than a quarter.
    pub(crate) fn pages_for_log(&self, total: u64) -> u64 {
        match self.log() {
            Some(_) => (headroom_pages(total) + 2 * PUTS_WHEN_FULL * PAGES_PER_PUT).min(total / 4),
            None => 0,
        }
    }

    /// Begins a write transaction, which takes the log along. All changes of an index begin here, but those that only make
    /// room.
    pub(crate) fn write_txn(&self) -> Result<WriteTxn> {
        let mut txn = self.index.write()?;
        if let Some(log) = self.log() {
            self.take_along(log, &mut txn)?;
        }
        Ok(txn)
    }

    /// Begins a write transaction that only makes room in the index, and keeps the log: what that has may need the room.
    pub(crate) fn txn_for_room(&self) -> Result<WriteTxn> {
        let txn = self.index.write()?;
        if let Some(log) = self.log() {
            self.hold_behind(log, &txn).keep(txn.id());
            // They come after its commit, and whoever reads what that shows finds out.
            log.puts().iter().for_each(|put| note_versions(self, txn.id() + 1, &put.slots));
        }
        Ok(txn)
    }

    /// Ends a write transaction that changes nothing, but for what it took along: that is committed, or the next one would take
    /// it along again. What cannot be committed is still in the log.
    pub(super) fn end_unused(&self, txn: WriteTxn) {
        let Some(log) = self.log() else { return };
        if !log.is_empty() {
            let _ = txn.commit();
        } else if let Ok(count_max) = self.puts_that_fit(&txn) {
            self.hold(log).restart(txn.id() - 1, count_max);
        }
    }

    /// Holds the log, which follows the commit before a write transaction.
    fn hold_behind<'l>(&self, log: Log<'l>, txn: &WriteTxn) -> Held<'l> {
        let held = self.hold(log);
        if !held.follows(txn.id() - 1) {
            held.restart(txn.id() - 1, 0);
        }
        held
    }

    fn take_along(&self, log: Log<'_>, txn: &mut WriteTxn) -> Result<()> {
        self.hold_behind(log, txn).close(txn.id());
        let mut puts = log.puts();
        if puts.is_empty() {
            return Ok(());
        }
        puts.sort();
        let mut change = Change::new(self, txn, Epoch(0));
        puts.iter().try_for_each(|put| change.put_logged(&put))?;
        change.settle_dead()?;
        puts.iter().for_each(|put| note_versions(self, txn.id(), &put.slots));
        Ok(())
    }

    /// True if a write transaction, which is open, takes along what changes this slot of the conflict table.
    pub(super) fn logged_slot(&self, slot: u32) -> bool {
        self.log().is_some_and(|log| log.touches(slot))
    }

    /// Commits what the log has, if there is room for it. To be called where room is being made.
    pub(crate) fn commit_log_if_fits(&self) -> Result<()> {
        if self.logged()?.is_some() { self.begin_write()?.commit() } else { Ok(()) }
    }

    /// Commits what the log has, if there is anything.
    ///
    /// # Errors
    /// `Busy` if the pool can only be read.
    #[inline]
    pub(crate) fn commit_log(&self) -> Result<()> {
        if self.logged()?.is_some() { self.commit_pending() } else { Ok(()) }
    }

    #[cold]
    fn commit_pending(&self) -> Result<()> {
        if self.control.read_only {
            let message = "puts were left in a log: open the pool once where it can be written";
            return Err(Error::new(ErrorKind::Busy, message));
        }
        self.with_room(|| self.begin_write()?.commit())
    }

    /// A copy of the puts that are not in the index.
    pub(crate) fn logged_puts(&self) -> Result<Puts> {
        let log = self.logged()?.and(self.log());
        Ok(log.map(Log::puts).unwrap_or_default())
    }

    /// Puts that are not in the index.
    #[inline]
    pub(crate) fn logged(&self) -> Result<Option<Pending<'_>>> {
        let Some(log) = self.log() else { return Ok(None) };
        log.pending(|| self.index.last_commit())
    }
}

impl Change<'_> {
    /// Makes a put that was in the log. A damaged record is left to whoever reads it; what has no key of a value is none.
    fn put_logged(&mut self, put: &Put<'_>) -> Result<()> {
        let is_data = Table::of(put.key) == Some(Table::Data) && put.key.len() <= KEY_MAX;
        let Some(parts) = DataKey::parse(put.key).ok().filter(|_| is_data) else { return Ok(()) };
        let Some(epoch) = Record::epoch_of(put.record) else { return Ok(()) };
        self.epoch = epoch;
        // What is in the index is joined with what is beside it.
        if let Some(start) = parts.start
            && Record::is_inline(put.record)
            && let Ok(record) = Record::decode(parts.body(), put.record)
        {
            return insert_extent(self, (&parts, start), &record);
        }
        self.replace_encoded(parts.container(), put.key, put.record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::ProcessSlot;
    use crate::segment::SegmentState;
    use crate::tests::{Random, Scratch};
    use crate::{ContainerSpec, ReadVersion};
    use esker_types::info::{ContainerRef, OpenMode};
    use esker_types::ops::{
        AkeyRef, Anchor, Fetch, KeyScope, ListLimit, ReadAt, ReadTokens, Sink, Source, Update,
        Value, View, Wanted,
    };
    use esker_types::{Extent, ObjectClass, ObjectType};
    use std::collections::BTreeMap;
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    struct Pool {
        scratch: Scratch,
        pool: Arc<OpenPool>,
        container: Container,
    }

    fn oid(lo: u64) -> ObjectId {
        ObjectId::generate(0, lo, ObjectType::KvHashed, ObjectClass::S1)
    }

    /// An object that is no Key-Value.
    fn array() -> ObjectId {
        ObjectId::generate(0, 2, ObjectType::MultiHashed, ObjectClass::S1)
    }

    impl Pool {
        fn new() -> Self {
            let scratch = Scratch::new(24 << 20, |spec| {
                (spec.targets, spec.put_log) = (Some(1), true);
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

        fn log(&self) -> Log<'_> {
            self.target().log().unwrap()
        }

        fn change(&self, op: WriteOp<'_>, reads: &[ReadVersion]) -> Result<Epoch> {
            self.pool.write(&self.container, 0, &[Write { oid: oid(1), op }], reads, None)
        }

        /// Writes records of `size` bytes to the array, from record `start` on.
        fn store(&self, start: u64, size: u64, data: &[u8]) -> Result<Epoch> {
            let (extents, data) =
                ([Extent::new(start, data.len() as u64 / size)], Source::One(data));
            let value = Value::Array { record_size: size, extents: &extents, data };
            let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
            let op = WriteOp::Update { dkey: b"d", cond: Cond::NONE, updates: &updates };
            self.pool.write(&self.container, 0, &[Write { oid: array(), op }], &[], None)
        }

        fn clear(&self, extent: Extent) {
            let value = Value::PunchExtents(&[extent]);
            let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
            let op = WriteOp::Update { dkey: b"d", cond: Cond::NONE, updates: &updates };
            let write = Write { oid: array(), op };
            self.pool.write(&self.container, 0, &[write], &[], None).unwrap();
        }

        /// Some bytes of the array, with dots where there are none, and the size of its records.
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

        fn put_if(&self, dkey: &[u8], value: &[u8], reads: &[ReadVersion]) -> Result<Epoch> {
            let value = Value::Single(Source::One(value));
            let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
            self.change(WriteOp::Update { dkey, cond: Cond::NONE, updates: &updates }, reads)
        }

        fn put(&self, dkey: &[u8], value: &[u8]) -> Epoch {
            self.put_if(dkey, value, &[]).unwrap()
        }

        fn put_array(&self, dkey: &[u8]) -> Result<Epoch> {
            let extents = [Extent::new(0, 1)];
            let value = Value::Array { record_size: 1, extents: &extents, data: Source::One(b"x") };
            let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
            self.change(WriteOp::Update { dkey, cond: Cond::NONE, updates: &updates }, &[])
        }

        fn get_at(&self, dkey: &[u8], at: ReadAt<'_>) -> Vec<u8> {
            let mut bytes = [0; 64];
            let mut fetches = [Fetch::single(b"a", Sink::One(&mut bytes))];
            let id = self.container.id();
            self.target().fetch(id, oid(1), dkey, Cond::NONE, &mut fetches, at).unwrap();
            let len = fetches[0].reply.size as usize;
            bytes[..len].to_vec()
        }

        fn get(&self, dkey: &[u8]) -> Vec<u8> {
            self.get_at(dkey, ReadAt::LATEST)
        }

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

        fn last_commit(&self) -> u64 {
            self.target().index.last_commit().unwrap()
        }

        /// Puts that are only in the log.
        fn logged(&self) -> usize {
            self.target().logged_puts().unwrap().iter().count()
        }
    }

    #[test]
    fn a_put_is_seen_before_it_is_committed_and_after() {
        let pool = Pool::new();
        let commits = pool.last_commit();
        let first = pool.put(b"key", b"one");
        assert!(pool.put(b"key", b"two") > first);
        assert_eq!((pool.logged(), pool.last_commit()), (2, commits));
        assert_eq!((pool.get(b"key"), pool.get(b"none")), (b"two".to_vec(), vec![]));
        assert_eq!((pool.keys(), pool.logged()), (vec![b"key".to_vec()], 0));
        assert_eq!((pool.get(b"key"), pool.last_commit()), (b"two".to_vec(), commits + 1));
        pool.put(b"key", b"three");
        assert_eq!((pool.get(b"key"), pool.logged()), (b"three".to_vec(), 1));
    }

    /// Whatever other changes and reads come between.
    #[test]
    fn puts_come_out_as_they_went_in() {
        let (pool, mut random) = (Pool::new(), Random::new(31));
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
                2 => drop(pool.target().write_txn().unwrap()),
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
            most = most.max(pool.logged());
        }
        assert!(most > 5, "{most} puts were in the log at most");
    }

    #[test]
    fn a_full_log_is_committed_with_the_put_that_finds_it_full() {
        let pool = Pool::new();
        let commits = pool.last_commit();
        let most = (0..2000_u32).map(|number| {
            pool.put(&number.to_le_bytes(), &[7; 1000]);
            pool.logged()
        });
        let most = most.max().unwrap();
        assert!((10..2000).contains(&most), "{most}");
        assert_eq!(pool.keys().len(), 2000);
        assert!(pool.last_commit() < commits + 2000 / 5);
    }

    /// A transaction that has read what is then put must not be committed.
    #[test]
    fn a_put_in_the_log_is_a_conflict() {
        let pool = Pool::new();
        pool.put(b"key", b"one");
        let tokens = ReadTokens::default();
        pool.get_at(b"key", ReadAt { view: View::Latest, tokens: Some(&tokens) });
        let reads = ReadVersion::of(&tokens, 1).unwrap();
        assert!(pool.pool.are_unchanged(&reads));
        pool.pool.check_read_versions(&reads).unwrap();
        pool.put(b"key", b"two");
        assert_eq!(pool.logged(), 1);
        assert!(!pool.pool.are_unchanged(&reads));
        for _ in 0..2 {
            let refused = pool.put_if(b"other", b"value", &reads).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::TxRestart);
            let refused = pool.pool.check_read_versions(&reads).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::TxRestart);
        }
        assert_eq!(pool.get(b"key"), b"two");
    }

    /// A transaction that has read something else is not refused for ever, where that has the same slot.
    #[test]
    fn a_transaction_is_not_refused_for_what_the_log_had_before() {
        let pool = Pool::new();
        let id = pool.container.id();
        let read = |dkey: &[u8]| {
            let (mut bytes, tokens) = ([0; 8], ReadTokens::default());
            let mut fetches = [Fetch::single(b"a", Sink::One(&mut bytes))];
            let at = ReadAt { view: View::Latest, tokens: Some(&tokens) };
            pool.target().fetch(id, oid(9), dkey, Cond::NONE, &mut fetches, at).unwrap();
            ReadVersion::of(&tokens, 1).unwrap()
        };
        let slot = touched_slots(id, oid(1), b"key")[2];
        let twin = (0..1 << 20_u32).map(u32::to_le_bytes);
        let twin =
            twin.into_iter().find(|dkey| touched_slots(id, oid(9), dkey)[2] == slot).unwrap();
        let makers: [&dyn Fn(); 2] =
            [&|| (), &|| pool.target().txn_for_room().unwrap().commit().unwrap()];
        for make_room in makers {
            pool.put(b"key", b"value");
            make_room();
            assert_eq!(pool.logged(), 1);
            pool.put_if(b"other", b"value", &read(&twin)).unwrap();
        }
    }

    /// A change that fails neither throws away what it took along nor leaves the log closed.
    #[test]
    fn puts_go_into_the_log_after_a_change_that_failed() {
        let pool = Pool::new();
        let insert = || {
            let value = Value::Single(Source::One(b"new"));
            let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
            let op = WriteOp::Update { dkey: b"key", cond: Cond::DKEY_INSERT, updates: &updates };
            pool.change(op, &[]).unwrap_err().kind()
        };
        pool.put(b"key", b"value");
        for dkey in [b"one", b"two"] {
            assert_eq!((insert(), pool.logged()), (ErrorKind::Exists, 0));
            assert_eq!(insert(), ErrorKind::Exists, "with nothing in the log");
            let last = pool.target().index.last_commit().unwrap();
            pool.put(dkey, b"value");
            assert_eq!(pool.logged(), 1);
            assert_eq!(pool.target().index.last_commit().unwrap(), last);
        }
        assert_eq!([b"key", b"one", b"two"].map(|dkey| pool.get(dkey)), [b"value"; 3]);
    }

    /// Where single values have to be told from arrays, nothing goes into the log.
    #[test]
    fn a_value_beside_an_array_is_refused() {
        let pool = Pool::new();
        pool.put(b"single", b"value");
        assert_eq!(pool.put_array(b"single").unwrap_err().kind(), ErrorKind::NoPermission);
        pool.put(b"single", b"other");
        pool.put_array(b"array").unwrap();
        let refused = pool.put_if(b"array", b"value", &[]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NoPermission);
        pool.put(b"single", b"last");
        assert_eq!((pool.get(b"single"), pool.logged()), (b"last".to_vec(), 0));
    }

    #[test]
    fn an_extent_is_seen_before_it_is_committed_and_after() {
        let pool = Pool::new();
        let (commits, long) = (pool.last_commit(), vec![b'l'; 5000]);
        pool.store(100, 1, &long).unwrap();
        pool.store(10, 1, b"short").unwrap();
        assert_eq!((pool.logged(), pool.last_commit()), (2, commits));
        assert_eq!((pool.load(10, 5), pool.load(11, 3)), (b"short".to_vec(), b"hor".to_vec()));
        assert_eq!(pool.load(4000, 1100), long[..1100]);
        assert_eq!((pool.logged(), pool.last_commit()), (2, commits), "nothing else is needed");
        assert_eq!(pool.load(8, 9), b"..short..");
        assert_eq!((pool.logged(), pool.last_commit()), (0, commits + 1), "it is only a part");
        pool.store(15, 1, b"er").unwrap();
        assert_eq!((pool.load(100, 5000), pool.load(15, 2)), (long, b"er".to_vec()));
        assert_eq!((pool.logged(), pool.load_at(Extent::new(50, 1), ReadAt::LATEST).1), (1, 1));
        assert_eq!(pool.load(10, 7), b"shorter");
    }

    /// Readers of values that are just being put must not commit each.
    #[test]
    fn a_view_or_a_get_of_what_is_in_the_log_commits_nothing() {
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
        assert_eq!(view(oid(1), b"short", Wanted::Single), None, "it must be fetched");
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
        assert_eq!((pool.logged(), pool.last_commit()), (3, commits));
        assert_eq!(get(array(), b"d"), Ok(0), "there is an array");
        assert_eq!(pool.logged(), 0);
    }

    /// What the index or the log has already is changed by a commit.
    #[test]
    fn an_extent_that_overlaps_another_does_not_go_into_the_log() {
        let pool = Pool::new();
        pool.store(10, 1, b"first").unwrap();
        pool.store(20, 1, b"other").unwrap();
        assert_eq!(pool.logged(), 2);
        pool.store(14, 1, b"second").unwrap();
        assert_eq!((pool.logged(), pool.load(10, 15)), (0, b"firssecondother".to_vec()));
        pool.store(0, 1, b"third").unwrap();
        pool.store(24, 1, b"R").unwrap();
        assert_eq!((pool.logged(), pool.load(20, 5)), (0, b"otheR".to_vec()));
    }

    /// What must not exist is looked for in both.
    #[test]
    fn the_first_value_under_a_dkey_goes_into_the_log() {
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
        assert_eq!((pool.logged(), create(b"d").unwrap_err()), (1, ErrorKind::Exists));
        assert_eq!(pool.store(0, 1, b"x").unwrap_err().kind(), ErrorKind::NoPermission);
        create(b"e").unwrap();
        assert_eq!(create(b"d").unwrap_err(), ErrorKind::Exists);
        let at = ReadAt { view: View::Latest, tokens: Some(&ReadTokens::default()) };
        assert_eq!(pool.load_at(Extent::new(0, 1), at).1, 0);
        assert_eq!(create(b"e").unwrap_err(), ErrorKind::Exists);
    }

    /// Whether the records beside it are in the log or in the index.
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

    /// Whatever other changes and reads come between.
    #[test]
    fn extents_come_out_as_they_went_in() {
        const LEN: u64 = 40_000;
        let (pool, mut random) = (Pool::new(), Random::new(33));
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
                9 => drop(pool.target().write_txn().unwrap()),
                10 => pool.target().compact_all().unwrap(),
                11 => {
                    let at = ReadAt { view: View::Latest, tokens: Some(&ReadTokens::default()) };
                    assert_eq!(pool.load_at(Extent::new(start, count), at).0, model[place]);
                }
                _ => assert_eq!(pool.load(start, count), model[place]),
            }
            most = most.max(pool.logged());
        }
        assert_eq!(pool.load(0, LEN), model);
        assert!(most > 3, "{most} extents were in the log at most");
    }

    /// A process that dies after a put into the log and before it has counted what it appended.
    #[test]
    fn what_only_the_log_refers_to_is_live() {
        let pool = Pool::new();
        let (target, data) = (pool.target(), vec![b'x'; 5000]);
        let extents = [Extent::new(0, 5000)];
        let value = Value::Array { record_size: 1, extents: &extents, data: Source::One(&data) };
        let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
        let op = WriteOp::Update { dkey: b"d", cond: Cond::NONE, updates: &updates };
        let writes = [Write { oid: array(), op }];
        let mut staged = super::super::stage::stage(target, &pool.container, &writes).unwrap();
        let segment = staged.appended().next().unwrap().segment;
        pool.pool.put_in_log(&pool.container, target, &writes, &mut staged).unwrap().unwrap();
        let atomics = target.shared();
        atomics.segment(segment).published.store(0, Ordering::Relaxed);
        atomics.segment(segment).stamp.store(0, Ordering::Relaxed);
        atomics.segment(segment).store(SegmentState::Busy(ProcessSlot::NOBODY));
        target.collect().unwrap();
        assert_eq!(atomics.segment(segment).live(0), 5000);
        assert_eq!(pool.load(0, 5000), data);
    }

    /// A process that dies while it changes the log leaves it to others, with all that was acknowledged.
    #[test]
    fn a_log_whose_owner_died_is_committed() {
        let pool = Pool::new();
        pool.put(b"key", b"one");
        let dead = ProcessSlot::NOBODY;
        let held = pool.log().lock(dead, |_| true);
        std::mem::forget(held);
        pool.put(b"other", b"two");
        assert_eq!((pool.get(b"key"), pool.get(b"other")), (b"one".to_vec(), b"two".to_vec()));
        pool.put(b"third", b"three");
        assert_eq!(pool.logged(), 1, "it is in use again");
        std::mem::forget(pool.log().lock(dead, |_| true));
        pool.log().forget_owner(dead);
        pool.put(b"key", b"four");
        assert_eq!((pool.get(b"key"), pool.get(b"third")), (b"four".to_vec(), b"three".to_vec()));
    }

    /// A snapshot keeps what was put before it, and shows nothing that was put later.
    #[test]
    fn a_snapshot_shows_what_was_put_before_it() {
        let pool = Pool::new();
        pool.put(b"key", b"one");
        let snapshot = pool.pool.create_snapshot(&pool.container, "s").unwrap();
        pool.put(b"key", b"two");
        pool.put(b"key", b"three");
        let at = ReadAt { view: View::Snapshot(snapshot), tokens: None };
        assert_eq!(pool.get(b"key"), b"three");
        assert_eq!(pool.get_at(b"key", at), b"one");
    }

    /// Copies a pool as it is, as if its processes had been killed.
    fn copy_of(pool: &Path) -> PathBuf {
        let copy = pool.with_file_name("copy");
        let status = Command::new("cp").arg("-a").args([pool, &copy]).status().unwrap();
        assert!(status.success());
        copy
    }

    #[test]
    fn what_was_killed_leaves_its_puts_to_the_next_and_to_salvage() {
        let pool = Pool::new();
        pool.put(b"key", b"one");
        pool.store(5000, 1, &[b'y'; 2000]).unwrap();
        pool.keys();
        pool.put(b"key", b"two");
        pool.put(b"other", b"three");
        pool.store(7, 1, &[b'x'; 2000]).unwrap();
        let copy = copy_of(&pool.scratch.path());
        let mut found = Vec::new();
        let mut hear = |value: crate::Salvaged<'_>| {
            found.push(value.dkey.to_vec());
            Ok(())
        };
        crate::Salvage::open(&copy).unwrap().visit(&mut hear, &mut |_, _| {}).unwrap();
        found.sort();
        assert_eq!(found, [&b"d"[..], b"d", b"key", b"other"]);
        let reopened = crate::Pool::open(&copy).unwrap();
        let target = &reopened.opened().unwrap().targets[0];
        assert!(target.logged().unwrap().is_some());
        assert_eq!(target.log().unwrap().puts().iter().count(), 4);
        let count =
            |usage: crate::walk::Usage| usage.segments.values().map(|it| it.live).sum::<u64>();
        assert_eq!(count(crate::walk::usage(target, &[]).unwrap()), 4000);
        drop(target.read().unwrap());
        assert!(target.logged().unwrap().is_none());
        assert_eq!(count(crate::walk::usage(target, &[]).unwrap()), 4000);
    }

    #[test]
    fn any_bytes_in_a_log_are_puts_or_nothing() {
        let pool = Pool::new();
        let (words, mut random) = (pool.log().atomics(), Random::new(32));
        for _ in 0..esker_testing::rounds(300) {
            for _ in 0..200 {
                let word = &words[1 + random.draw() as usize % (words.len() - 1)];
                word.store(random.draw() >> (random.draw() % 64), Ordering::Relaxed);
            }
            let commit = pool.log().base_number();
            let _ = pool.log().pending(|| Ok(commit)).unwrap().map(|log| log.find(b"D"));
            assert!(pool.log().puts().iter().count() <= words.len());
            words[0].store(0, Ordering::Relaxed);
            words[2].store(pool.last_commit(), Ordering::Relaxed);
            pool.target().write_txn().unwrap().commit().unwrap();
        }
    }
}
