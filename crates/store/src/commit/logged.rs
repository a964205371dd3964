//! Puts that go into the log of a target, and write transactions that take them along (see [`crate::log`]).
use super::change::{Change, headroom_pages, note_versions};
use crate::catalog::Container;
use crate::control::touched_slots;
use crate::io::txn::WriteTxn;
use crate::keys::{DataKey, Key, Table};
use crate::log::{Held, Log, Pending, Put};
use crate::long_keys::LeftOut;
use crate::pool::OpenPool;
use crate::record::{Body, Record, RecordBytes};
use crate::target::Target;
use esker_types::limits::INLINE_MAX;
use esker_types::ops::{Cond, Source, Value, Write, WriteOp};
use esker_types::{Epoch, Error, ErrorKind, ObjectId, Result};

/// Most free pages of the index that a put may take when it is committed: those from the root to a leaf, another leaf for
/// what a snapshot shows, and some that split.
const PAGES_PER_PUT: u64 = 8;

/// Puts of small values that a log has when it is full, about.
const PUTS_WHEN_FULL: u64 = 400;

/// Longest key that is put into the log.
const KEY_MAX: usize = 1024;

/// A write that may go into the log: one small value of a Key-Value, whatever was there before.
struct Plain<'w> {
    oid: ObjectId,
    dkey: &'w [u8],
    akey: &'w [u8],
    value: Source<'w>,
}

impl<'w> Plain<'w> {
    fn of(write: &Write<'w>) -> Option<Self> {
        let WriteOp::Update { dkey, cond: Cond::NONE, updates: [update] } = write.op else {
            return None;
        };
        let Value::Single(value) = update.value else { return None };
        let is_plain = update.cond == Cond::NONE
            && value.len() <= INLINE_MAX as u64
            && write.oid.object_type().is_some_and(|kind| kind.is_kv());
        is_plain.then_some(Self { oid: write.oid, dkey, akey: update.akey, value })
    }

    /// Key of the value in the data table; `None` if it is too long for the log, or not valid.
    fn key(&self, container: &Container) -> Option<Key> {
        let dkey = Key::dkey(Table::Data, container.id(), self.oid, self.dkey).ok()?;
        let key = dkey.akey(self.oid, self.akey).ok()?.single();
        let is_whole = dkey.left_out(self.oid, self.dkey, self.akey).is_empty();
        (is_whole && key.len() <= KEY_MAX).then_some(key)
    }

    /// The value as a record, encoded.
    fn record(&self, key: &Key, epoch: Epoch) -> RecordBytes {
        let value = self.value.part(0, self.value.len());
        let (record_size, body) = (value.len() as u32, Body::Inline(&value));
        let record = Record { epoch, record_size, count: 1, left_out: LeftOut::default(), body };
        let mut bytes = RecordBytes::new();
        record.encode(&key[1..], &mut bytes);
        bytes
    }
}

/// Key of a value that exists if an object of a Key-Value's type has an array. A single value beside it must be refused,
/// which takes a look into the index: then there is no log.
fn arrays_key() -> Key {
    Key::table(Table::Arrays)
}

/// Notes that an object of a Key-Value's type has an array, if there is a log.
pub(super) fn note_array(change: &mut Change<'_>, oid: ObjectId) -> Result<()> {
    let is_kv = || oid.object_type().is_some_and(|kind| kind.is_kv());
    let concerns = change.target().log().is_some() && is_kv();
    match concerns && change.txn().get(&arrays_key())?.is_none() {
        true => change.put(&arrays_key(), &[]),
        false => Ok(()),
    }
}

impl OpenPool {
    /// Puts a value into the log of target `number`. `None` if that cannot be done: then it must be committed.
    pub(super) fn put_in_log(
        &self,
        container: &Container,
        number: u32,
        writes: &[Write<'_>],
    ) -> Result<Option<Epoch>> {
        let target = &self.targets[number as usize];
        let (Some(log), [write]) = (target.log(), writes) else { return Ok(None) };
        let Some(plain) = Plain::of(write) else { return Ok(None) };
        let Some(key) = plain.key(container) else { return Ok(None) };
        let slots = touched_slots(container.id(), plain.oid, plain.dkey);
        let held = log.lock(target.process(), |slot| target.is_alive(slot));
        let base = target.index.last_commit()?;
        if !target.open_log(&held, base)? || target.is_in_doubt() {
            return Ok(None);
        }
        container.check_alive(self)?;
        let epoch = self.control.next_epoch();
        let record = plain.record(&key, epoch);
        if !held.has_room(key.len(), record.len()) {
            return Ok(None);
        }
        // As a commit does, so that whoever has read what the put changes finds out.
        note_versions(target, base + 1, &slots);
        if target.expect_no_leases(&slots).is_err() {
            return Ok(None);
        }
        held.put(&key, &record, slots);
        Ok(Some(epoch))
    }

    /// Commits what the logs have, before the pool is closed: so whoever can only read it sees all of it. What cannot be
    /// committed stays in the log.
    pub(crate) fn commit_logs(&self) {
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

    /// True if puts may go into the log, which is restarted behind the last commit if it follows an earlier one.
    fn open_log(&self, log: &Held<'_>, last_commit: u64) -> Result<bool> {
        if log.follows(last_commit) {
            return Ok(log.is_open(last_commit));
        }
        let txn = self.index.read()?;
        let (used, total) = self.pages(&txn)?;
        // Half of them: those that were freed last may not be used yet.
        let free = total.saturating_sub(used + headroom_pages(total)) / 2;
        let count_max = if txn.get(&arrays_key())?.is_some() { 0 } else { free / PAGES_PER_PUT };
        log.restart(last_commit, count_max);
        // A commit since then closes it again, or comes after what is put into it.
        Ok(txn.id() == last_commit && count_max > 0)
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
        }
        Ok(txn)
    }

    /// Holds the log, which follows the commit before a write transaction.
    fn hold_behind<'l>(&self, log: Log<'l>, txn: &WriteTxn) -> Held<'l> {
        let held = log.lock(self.process(), |slot| self.is_alive(slot));
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
        self.replace_encoded(parts.container(), put.key, put.record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::ProcessSlot;
    use crate::tests::{Random, Scratch};
    use crate::{ContainerSpec, ReadVersion};
    use esker_types::info::{ContainerRef, OpenMode};
    use esker_types::ops::{
        Anchor, Fetch, KeyScope, ListLimit, ReadAt, ReadTokens, Sink, Update, View,
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

    impl Pool {
        fn new() -> Self {
            let scratch = Scratch::new(24 << 20, |spec| {
                (spec.targets, spec.put_log) = (Some(1), Some(true));
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
            let write = Write { oid: oid(1), op };
            self.pool.write(&self.container, 0, &[write], reads, None)
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
            self.target().logged().unwrap().map_or(0, |_| self.log().puts().iter().count())
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
        pool.keys();
        pool.put(b"key", b"two");
        pool.put(b"other", b"three");
        let copy = copy_of(&pool.scratch.path());
        let mut found = Vec::new();
        let mut hear = |value: crate::Salvaged<'_>| {
            found.push(value.dkey.to_vec());
            Ok(())
        };
        crate::Salvage::open(&copy).unwrap().visit(&mut hear, &mut |_, _| {}).unwrap();
        assert_eq!(found, [b"key".to_vec(), b"other".to_vec()]);
        let reopened = crate::Pool::open(&copy).unwrap();
        let target = &reopened.opened().unwrap().targets[0];
        assert!(target.logged().unwrap().is_some());
        assert_eq!(target.log().unwrap().puts().iter().count(), 2);
        drop(target.read().unwrap());
        assert!(target.logged().unwrap().is_none());
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
