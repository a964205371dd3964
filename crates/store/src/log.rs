//! The log of a target: puts that the next commit of its index takes along.
//!
//! A commit of the index copies pages, whatever it changes. A put of one record is less than that: it is stored in the
//! log, in memory that all processes share and that outlives them, and is acknowledged then (decision 0053).
//!
//! The log belongs to the commit of the index that it follows, its base. Whoever begins a write transaction closes the log
//! and takes along what it has. So a reader who finds that the base is the last commit looks into the log first, and to
//! anybody who sees a later commit the log is empty. Nobody has to empty it: the next put restarts it behind the commit
//! that is the last one then.
//!
//! The exception are transactions that only make room in the index: what the log has may need that room. They keep the log,
//! which belongs to their commit, too.
//!
//! One process at a time changes the log, readers take no lock. They copy what they find, and look at the version of the
//! log again. `docs/format.md` has the layout.
use crate::control::{CONFLICT_SLOTS, ProcessSlot, TouchedSlots};
use crate::io::writing::Writing;
use crate::record::RecordBytes;
use crate::sync::{AtomicU64, fence, yield_now};
use esker_types::{Extent, Result, StableHash};
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::Ordering;

/// Atomics of the log of one target.
pub(crate) const LOG_LEN: usize = 8192;
const BUCKETS: usize = 512;
const HEAD_LEN: usize = 16;
/// Where the puts begin.
const PUTS: usize = HEAD_LEN + BUCKETS;
/// Atomics in front of the key of a put.
const PUT_HEAD_LEN: usize = 3;
/// Fewest atomics of a put: its head, a word of key and one of the record.
const PUT_LEN_MIN: usize = PUT_HEAD_LEN + 2;
/// Bits of a slot of the conflict table in an atomic.
const SLOT_BITS: u32 = 16;
/// Bytes at the end of the key of an extent: its first record.
const START_LEN: usize = 8;

/// The log of one target.
#[derive(Clone, Copy)]
pub(crate) struct Log<'c>(&'c [AtomicU64]);

/// A put into the log.
pub(crate) struct Put<'p> {
    /// Key in the data table.
    pub(crate) key: &'p [u8],
    /// The record.
    pub(crate) record: &'p [u8],
    /// Records of an array that it has, zero for a single value.
    pub(crate) count: u32,
    /// Slots of the conflict table that it changes.
    pub(crate) slots: TouchedSlots,
}

/// A copy of all puts of a log.
#[derive(Default)]
pub(crate) struct Puts {
    /// What the log has from [`PUTS`] on.
    bytes: Vec<u8>,
    places: Vec<(Place, TouchedSlots)>,
}

impl Puts {
    /// Neighbours one after the other; of one key, the first put first.
    pub(crate) fn sort(&mut self) {
        let bytes = &self.bytes;
        self.places.sort_unstable_by(|(one, _), (other, _)| {
            one.key_in(bytes).cmp(other.key_in(bytes)).then(one.at.cmp(&other.at))
        });
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Put<'_>> {
        self.places.iter().map(|(place, slots)| Put {
            key: place.key_in(&self.bytes),
            record: place.record_in(&self.bytes),
            count: place.count,
            slots: *slots,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

impl<'c> Log<'c> {
    /// The log in these atomics.
    pub(crate) fn of(atomics: &'c [AtomicU64]) -> Self {
        Self(atomics)
    }

    /// One more than the slot of the process that changes it, zero if nobody does.
    fn owner(self) -> &'c AtomicU64 {
        &self.0[0]
    }

    /// Counts restarts.
    fn version(self) -> &'c AtomicU64 {
        &self.0[1]
    }

    fn base(self) -> &'c AtomicU64 {
        &self.0[2]
    }

    /// Number of the commit that it follows.
    pub(crate) fn base_number(self) -> u64 {
        self.base().load(Ordering::Acquire)
    }

    /// Number of the last write transaction that took it along.
    fn closed(self) -> &'c AtomicU64 {
        &self.0[3]
    }

    /// Number of atomics that puts take.
    fn len(self) -> &'c AtomicU64 {
        &self.0[4]
    }

    /// Where the puts end.
    fn end(self) -> usize {
        let len = self.len().load(Ordering::Acquire) as usize;
        PUTS.saturating_add(len).min(self.0.len())
    }

    /// Number of puts.
    fn count(self) -> &'c AtomicU64 {
        &self.0[5]
    }

    /// Most puts for which the index has room.
    fn count_max(self) -> &'c AtomicU64 {
        &self.0[6]
    }

    /// One bit for each object, by its slot of the conflict table.
    fn objects(self) -> &'c AtomicU64 {
        &self.0[7]
    }

    /// Number of the last write transaction that keeps the log.
    fn kept(self) -> &'c AtomicU64 {
        &self.0[8]
    }

    fn bucket(self, hash: u64) -> &'c AtomicU64 {
        &self.0[HEAD_LEN + hash as usize % BUCKETS]
    }

    /// What it has that is not in the index; `None` if that is nothing.
    #[inline]
    pub(crate) fn pending(
        self,
        last_commit: impl Fn() -> Result<u64>,
    ) -> Result<Option<Pending<'c>>> {
        loop {
            let version = self.version().load(Ordering::Acquire);
            // In this order: the base is stored before it is no longer kept, and last in a restart.
            let kept = self.kept().load(Ordering::Acquire);
            let base = self.base_number();
            let end = self.end();
            if end == PUTS {
                return Ok(None);
            }
            let last = last_commit()?;
            if base == last || kept == last {
                return Ok(Some(Pending { log: self, version, end }));
            }
            fence(Ordering::Acquire);
            // A commit since then may keep the log.
            if self.kept().load(Ordering::Relaxed) == kept {
                return Ok(None);
            }
        }
    }

    /// True if the write transaction after this commit has taken it along, or keeps it.
    pub(crate) fn is_closed(self, last_commit: u64) -> bool {
        self.closed().load(Ordering::Acquire) == last_commit + 1
    }

    /// True if there is no put.
    pub(crate) fn is_empty(self) -> bool {
        self.end() == PUTS
    }

    /// True if a put changes this slot of the conflict table. Call while a write transaction keeps the log closed.
    pub(crate) fn touches(self, slot: u32) -> bool {
        self.places(self.end()).any(|place| place.slots(self).contains(&slot))
    }

    /// All puts, in order.
    pub(crate) fn puts(self) -> Puts {
        let end = self.end();
        let words = &self.0[PUTS..end];
        let mut places = Vec::with_capacity(words.len() / PUT_LEN_MIN);
        places.extend(self.places(end).map(|place| (place, place.slots(self))));
        let mut bytes = Vec::with_capacity(words.len() * 8);
        bytes_of(words).for_each(|word| bytes.extend_from_slice(&word));
        Puts { bytes, places }
    }

    /// The puts in front of `end`.
    fn places(self, end: usize) -> impl Iterator<Item = Place> {
        let mut at = PUTS;
        std::iter::from_fn(move || {
            let place = self.place(at, end)?;
            at = place.end();
            Some(place)
        })
    }

    /// The put that begins at an atomic, if it is in front of `end`.
    fn place(self, at: usize, end: usize) -> Option<Place> {
        let lengths = self.0.get(at + 1)?.load(Ordering::Relaxed);
        let (key_len, record_len) = (lengths as u16 as usize, (lengths >> 16) as u16 as usize);
        let place = Place { at, key_len, record_len, count: (lengths >> 32) as u32 };
        (at >= PUTS && place.name_len() > 0 && place.end() <= end).then_some(place)
    }

    /// Waits until no other process changes it. One that died while it did leaves the log closed.
    pub(crate) fn lock(self, own: ProcessSlot, is_alive: impl Fn(ProcessSlot) -> bool) -> Held<'c> {
        /// Attempts before the processor is given to others.
        const SPINS: u32 = 100;
        /// Attempts between two looks whether the owner lives.
        const ROUNDS: u32 = 1000;
        let own = u64::from(own.0) + 1;
        let take = |from| {
            let taken =
                self.owner().compare_exchange(from, own, Ordering::Acquire, Ordering::Relaxed);
            taken.err()
        };
        let _writing = Writing::begin();
        let mut round = 0;
        while let Some(owner) = take(0) {
            round += 1;
            match round {
                ..SPINS => std::hint::spin_loop(),
                _ => yield_now(),
            }
            let is_dead =
                || owner != 0 && owner != own && !is_alive(ProcessSlot((owner - 1) as u32));
            if round % ROUNDS == 0 && is_dead() && take(owner).is_none() {
                self.close_behind_base();
                break;
            }
        }
        Held { log: self, owner: own, _writing }
    }

    /// Releases it from a process that had the slot before and died. Call before the slot is used.
    pub(crate) fn forget_owner(self, slot: ProcessSlot) {
        let dead = u64::from(slot.0) + 1;
        if self.owner().load(Ordering::Relaxed) == dead {
            self.close_behind_base();
            let (released, order) = (0, (Ordering::Release, Ordering::Relaxed));
            // Somebody else may have taken it from the dead meanwhile.
            let _ = self.owner().compare_exchange(dead, released, order.0, order.1);
        }
    }

    fn close(self, transaction: u64) {
        self.closed().store(transaction, Ordering::Release);
    }

    /// No more puts until the next commit: its buckets may lead to what a process left that died.
    fn close_behind_base(self) {
        self.close(self.base_number().wrapping_add(1));
    }
}

/// What a log had at one moment that was not in the index.
#[derive(Clone, Copy)]
pub(crate) struct Pending<'c> {
    log: Log<'c>,
    version: u64,
    end: usize,
}

impl<'c> Pending<'c> {
    /// True if it may have puts to an object with this slot of the conflict table.
    pub(crate) fn may_have(self, object_slot: u32) -> bool {
        self.log.objects().load(Ordering::Acquire) & bit_of(object_slot) != 0
    }

    /// The record of a single value, if the last put of it is here, and not in the index since.
    pub(crate) fn find(&self, key: &[u8]) -> Option<RecordBytes> {
        let found = self.named(key).next().map(|place| place.record(self.log));
        found.filter(|_| self.is_as_found())
    }

    /// An extent of an array that overlaps `wanted`, and its record, if there is one here, and not in the index since. `name`
    /// is what the keys of the extents begin with.
    pub(crate) fn find_extent(&self, name: &[u8], wanted: Extent) -> Option<(Extent, RecordBytes)> {
        let found = self.extents(name).find(|found| found.extent.intersect(wanted).is_some());
        found.map(|found| (found.extent, found.record())).filter(|_| self.is_as_found())
    }

    /// Extents of an array, the last put first.
    pub(crate) fn extents(&self, name: &[u8]) -> impl Iterator<Item = LoggedExtent<'c>> {
        let log = self.log;
        self.named(name).map(move |place| LoggedExtent { extent: place.extent(log), place, log })
    }

    /// True if what was found is still in the log, and that follows this commit.
    pub(crate) fn is_behind(&self, commit: u64) -> bool {
        let log = self.log;
        let follows = log.base_number() == commit || log.kept().load(Ordering::Acquire) == commit;
        follows && self.is_as_found()
    }

    /// False after a restart: then all that the log had is in the index.
    fn is_as_found(&self) -> bool {
        fence(Ordering::Acquire);
        self.log.version().load(Ordering::Relaxed) == self.version
    }

    /// Puts with this name, the last one first.
    fn named(&self, name: &[u8]) -> impl Iterator<Item = Place> {
        let (log, hash, end) = (self.log, hash_of(name), self.end);
        let mut next = newest(log.bucket(hash).load(Ordering::Acquire), self.version);
        let chain = std::iter::from_fn(move || {
            let at = next?;
            // What is behind the end leads on to what was there before: put later, or left by a process that died.
            let before = log.0.get(at)?.load(Ordering::Relaxed) as u32 as usize;
            next = (before != 0 && before < at).then_some(before);
            Some(log.place(at, end))
        });
        chain.flatten().filter(move |place| place.has(log, hash, name))
    }
}

/// An extent of an array in the log.
pub(crate) struct LoggedExtent<'c> {
    pub(crate) extent: Extent,
    place: Place,
    log: Log<'c>,
}

impl LoggedExtent<'_> {
    /// Its record, encoded.
    pub(crate) fn record(&self) -> RecordBytes {
        self.place.record(self.log)
    }
}

/// A log that nobody else changes.
pub(crate) struct Held<'c> {
    log: Log<'c>,
    owner: u64,
    _writing: Writing,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let (owner, order) = (self.log.owner(), (Ordering::Release, Ordering::Relaxed));
        let _ = owner.compare_exchange(self.owner, 0, order.0, order.1);
    }
}

impl<'c> Held<'c> {
    /// True if it follows this commit, and no write transaction has taken it along.
    pub(crate) fn is_open(&self, last_commit: u64) -> bool {
        self.log.base().load(Ordering::Relaxed) == last_commit && !self.log.is_closed(last_commit)
    }

    /// True if it follows this commit, or was kept by it.
    pub(crate) fn follows(&self, commit: u64) -> bool {
        if self.log.kept().load(Ordering::Relaxed) == commit {
            self.log.base().store(commit, Ordering::Release);
        }
        self.log.base().load(Ordering::Relaxed) == commit
    }

    /// Empties and opens it. It follows this commit from now on, and takes so many puts.
    pub(crate) fn restart(&self, base: u64, count_max: u64) {
        let version = self.log.version();
        version.store(version.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        // Whoever sees what follows sees the version, too.
        fence(Ordering::Release);
        self.log.len().store(0, Ordering::Relaxed);
        self.log.count().store(0, Ordering::Relaxed);
        self.log.objects().store(0, Ordering::Relaxed);
        self.log.count_max().store(count_max, Ordering::Relaxed);
        self.log.kept().store(0, Ordering::Relaxed);
        self.log.close(0);
        self.log.base().store(base, Ordering::Release);
    }

    /// No more puts until this write transaction is committed, which takes along what there is.
    pub(crate) fn close(&self, transaction: u64) {
        self.log.close(transaction);
        self.log.kept().store(0, Ordering::Release);
    }

    /// No more puts until this write transaction is committed, which keeps what there is.
    pub(crate) fn keep(&self, transaction: u64) {
        self.log.close(transaction);
        self.log.kept().store(transaction, Ordering::Release);
    }

    /// True if nobody has taken it, as from a process that was believed dead.
    pub(crate) fn is_mine(&self) -> bool {
        fence(Ordering::SeqCst);
        self.log.owner().load(Ordering::Relaxed) == self.owner
    }

    /// What it has.
    pub(crate) fn content(&self) -> Pending<'c> {
        let version = self.log.version().load(Ordering::Relaxed);
        Pending { log: self.log, version, end: self.log.end() }
    }

    /// True if there is room for a put.
    pub(crate) fn has_room(&self, put: &Put<'_>) -> bool {
        let place = Place::of(put, self.log.end());
        place.end() <= self.log.0.len()
            && self.log.count().load(Ordering::Relaxed)
                < self.log.count_max().load(Ordering::Relaxed)
    }

    /// Stores a put for which [`Held::has_room`] holds. Readers see it from now on.
    pub(crate) fn put(&self, put: &Put<'_>) {
        let log = self.log;
        let place = Place::of(put, log.end());
        let hash = hash_of(&put.key[..place.name_len()]);
        let version = log.version().load(Ordering::Relaxed);
        let bucket = log.bucket(hash);
        let before = newest(bucket.load(Ordering::Relaxed), version).unwrap_or(0);
        place.write(log, hash & !u64::from(u32::MAX) | before as u64, put);
        // A reader who finds it before the end is stored goes on to what was there before.
        bucket.store(version << 32 | place.at as u64, Ordering::Release);
        log.objects().fetch_or(bit_of(put.slots[1]), Ordering::Relaxed);
        log.count().fetch_add(1, Ordering::Relaxed);
        log.len().store((place.end() - PUTS) as u64, Ordering::Release);
    }
}

/// Where a put is.
#[derive(Clone, Copy)]
struct Place {
    at: usize,
    key_len: usize,
    record_len: usize,
    count: u32,
}

impl Place {
    fn of(put: &Put<'_>, at: usize) -> Self {
        Self { at, key_len: put.key.len(), record_len: put.record.len(), count: put.count }
    }

    /// Bytes of the key by which it is found: those of an array have one name.
    fn name_len(self) -> usize {
        self.key_len.saturating_sub(if self.count > 0 { START_LEN } else { 0 })
    }

    fn key_at(self) -> usize {
        self.at + PUT_HEAD_LEN
    }

    fn record_at(self) -> usize {
        self.key_at() + self.key_len.div_ceil(8)
    }

    fn end(self) -> usize {
        self.record_at() + self.record_len.div_ceil(8)
    }

    fn has(self, log: Log<'_>, hash: u64, name: &[u8]) -> bool {
        let (whole, rest) = name.as_chunks();
        let mut words = log.0[self.key_at()..].iter().map(|word| word.load(Ordering::Relaxed));
        log.0[self.at].load(Ordering::Relaxed) >> 32 == hash >> 32
            && self.name_len() == name.len()
            && whole.iter().all(|bytes| words.next() == Some(u64::from_le_bytes(*bytes)))
            && (rest.is_empty()
                || words.next().is_some_and(|word| word.to_le_bytes().starts_with(rest)))
    }

    /// The records of an array that it has.
    fn extent(self, log: Log<'_>) -> Extent {
        let (at, shift) = (self.key_at() + self.name_len() / 8, self.name_len() % 8 * 8);
        let word = |at: usize| log.0.get(at).map_or(0, |word| word.load(Ordering::Relaxed));
        let (low, high) = (word(at), word(at + 1));
        let start = (u128::from(high) << 64 | u128::from(low)) >> shift;
        Extent::new((start as u64).swap_bytes(), u64::from(self.count))
    }

    fn record(self, log: Log<'_>) -> RecordBytes {
        let mut bytes = RecordBytes::new();
        let words = &log.0[self.record_at()..self.end()];
        bytes_of(words).for_each(|word| bytes.extend_from_slice(&word));
        bytes.truncate(self.record_len);
        bytes
    }

    /// Its key, in a copy of all puts.
    fn key_in(self, puts: &[u8]) -> &[u8] {
        &puts[(self.key_at() - PUTS) * 8..][..self.key_len]
    }

    fn record_in(self, puts: &[u8]) -> &[u8] {
        &puts[(self.record_at() - PUTS) * 8..][..self.record_len]
    }

    fn slots(self, log: Log<'_>) -> TouchedSlots {
        let packed = log.0[self.at + 2].load(Ordering::Relaxed);
        // A damaged word may have any bits.
        let slot = |number: u32| (packed >> (number * SLOT_BITS)) as u32 % CONFLICT_SLOTS as u32;
        [slot(0), slot(1), slot(2)]
    }

    fn write(self, log: Log<'_>, first: u64, put: &Put<'_>) {
        let sizes = (self.record_len as u64) << 16 | self.key_len as u64;
        let slots = (0..).zip(put.slots);
        let packed = slots.map(|(number, slot)| u64::from(slot) << (number * SLOT_BITS)).sum();
        let head = [first, u64::from(self.count) << 32 | sizes, packed];
        let words = head.into_iter().chain(words_of(put.key)).chain(words_of(put.record));
        for (atomic, word) in log.0[self.at..self.end()].iter().zip(words) {
            atomic.store(word, Ordering::Relaxed);
        }
    }
}

/// Bytes as words; zeros follow the last one.
fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let (whole, rest) = bytes.as_chunks();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let last = (!rest.is_empty()).then(|| u64::from_le_bytes(last));
    whole.iter().map(|word| u64::from_le_bytes(*word)).chain(last)
}

fn bytes_of(words: &[AtomicU64]) -> impl Iterator<Item = [u8; 8]> {
    words.iter().map(|word| word.load(Ordering::Relaxed).to_le_bytes())
}

fn hash_of(key: &[u8]) -> u64 {
    let mut hasher = StableHash.build_hasher();
    hasher.write(key);
    hasher.finish()
}

/// Where the newest put of a bucket begins, if it is of this version of the log.
fn newest(bucket: u64, version: u64) -> Option<usize> {
    (bucket >> 32 == version & u64::from(u32::MAX)).then_some(bucket as u32 as usize)
}

fn bit_of(object_slot: u32) -> u64 {
    1 << (object_slot % 64)
}

#[cfg(test)]
impl<'c> Log<'c> {
    /// All of it, for tests that damage it.
    pub(crate) fn atomics(self) -> &'c [AtomicU64] {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `docs/format.md` draws it.
    #[test]
    fn puts_are_stored_as_described() {
        let words: Vec<AtomicU64> = (0..LOG_LEN).map(|_| AtomicU64::new(0)).collect();
        let log = Log::of(&words);
        let held = log.lock(ProcessSlot(6), |_| true);
        held.restart(41, 9);
        let put = Put { key: b"123456789", record: b"abc", count: 0, slots: [1, 66, 3] };
        assert!(held.is_open(41) && held.has_room(&put) && held.is_mine());
        held.put(&put);
        held.keep(42);
        let word = |at: usize| words[at].load(Ordering::Relaxed);
        let (hash, length) = (hash_of(b"123456789"), 3 + 2 + 1);
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7, 8].map(word), [7, 1, 41, 42, length, 1, 9, 1 << 2, 42]);
        assert_eq!(word(16 + (hash % 512) as usize), 1 << 32 | 528);
        assert_eq!(
            [528, 529, 530].map(word),
            [hash >> 32 << 32, 3 << 16 | 9, 3 << 32 | 66 << 16 | 1]
        );
        let bytes = |text: &[u8; 8]| u64::from_le_bytes(*text);
        let stored = [b"12345678", b"9\0\0\0\0\0\0\0", b"abc\0\0\0\0\0"].map(bytes);
        assert_eq!([531, 532, 533].map(word), stored);
        let put = Put { key: b"name of\0\0\0\0\0\0\x01\x02", record: b"r", count: 5, ..put };
        held.put(&put);
        assert_eq!([2, 535].map(word), [41, 5 << 32 | 1 << 16 | 15]);
        assert_eq!(word(16 + (hash_of(b"name of") % 512) as usize), 1 << 32 | 534);
        let found = held.content().find_extent(b"name of", Extent::new(0x106, 9)).unwrap();
        assert_eq!((found.0, &found.1[..]), (Extent::new(0x102, 5), &b"r"[..]));
        assert!(held.content().find_extent(b"name of", Extent::new(0x107, 9)).is_none());
        assert!(held.content().find_extent(b"name o", Extent::new(0x106, 9)).is_none());
        drop(held);
        for (last, is_there) in [(40, false), (41, true), (42, true), (43, false)] {
            let found = log.pending(|| Ok(last)).unwrap().and_then(|it| it.find(b"123456789"));
            assert_eq!(found.as_deref(), is_there.then_some(&b"abc"[..]), "after commit {last}");
        }
    }
}
