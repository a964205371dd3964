//! The log of a target: puts that the next commit of its index takes along.
//!
//! A commit of the index copies pages, whatever it changes. A put of one small value is less than that: it is stored in the
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
use crate::record::RecordBytes;
use crate::sync::{AtomicU64, fence, yield_now};
use esker_types::{Result, StableHash};
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

/// The log of one target.
#[derive(Clone, Copy)]
pub(crate) struct Log<'c>(&'c [AtomicU64]);

/// A put that was found in the log.
pub(crate) struct Put<'p> {
    /// Key in the data table.
    pub(crate) key: &'p [u8],
    /// The record.
    pub(crate) record: &'p [u8],
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
        for word in words {
            bytes.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
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
        let place = Place { at, key_len, record_len };
        (at >= PUTS && key_len > 0 && place.end() <= end).then_some(place)
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
        Held(self)
    }

    /// Releases it from a process that had the slot before and died. Call before the slot is used.
    pub(crate) fn forget_owner(self, slot: ProcessSlot) {
        if self.owner().load(Ordering::Relaxed) == u64::from(slot.0) + 1 {
            self.close_behind_base();
            self.owner().store(0, Ordering::Release);
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

impl Pending<'_> {
    /// True if it may have puts to an object with this slot of the conflict table.
    pub(crate) fn may_have(self, object_slot: u32) -> bool {
        self.log.objects().load(Ordering::Acquire) & bit_of(object_slot) != 0
    }

    /// The record of a key, if the last put of it is here, and not in the index since.
    pub(crate) fn find(self, key: &[u8]) -> Option<RecordBytes> {
        let found = self.look_up(key);
        fence(Ordering::Acquire);
        // After a restart, all that the log had is in the index.
        found.filter(|_| self.log.version().load(Ordering::Relaxed) == self.version)
    }

    fn look_up(self, key: &[u8]) -> Option<RecordBytes> {
        let (log, hash) = (self.log, hash_of(key));
        let mut at = newest(log.bucket(hash).load(Ordering::Acquire), self.version)?;
        loop {
            let place = log.place(at, self.end);
            if let Some(place) = place.filter(|place| place.has(log, hash, key)) {
                return Some(place.record(log));
            }
            // What is behind the end leads on to what was there before: put later, or left by a process that died.
            let before = log.0.get(at)?.load(Ordering::Relaxed) as u32 as usize;
            if before == 0 || before >= at {
                return None;
            }
            at = before;
        }
    }
}

/// A log that nobody else changes.
pub(crate) struct Held<'c>(Log<'c>);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.owner().store(0, Ordering::Release);
    }
}

impl<'c> Held<'c> {
    /// True if it follows this commit, and no write transaction has taken it along.
    pub(crate) fn is_open(&self, last_commit: u64) -> bool {
        self.0.base().load(Ordering::Relaxed) == last_commit
            && self.0.closed().load(Ordering::Relaxed) != last_commit + 1
    }

    /// True if it follows this commit, or was kept by it.
    pub(crate) fn follows(&self, commit: u64) -> bool {
        if self.0.kept().load(Ordering::Relaxed) == commit {
            self.0.base().store(commit, Ordering::Release);
        }
        self.0.base().load(Ordering::Relaxed) == commit
    }

    /// Empties it. It follows this commit from now on, and takes so many puts.
    pub(crate) fn restart(&self, base: u64, count_max: u64) {
        let version = self.0.version();
        version.store(version.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        // Whoever sees what follows sees the version, too.
        fence(Ordering::Release);
        self.0.len().store(0, Ordering::Relaxed);
        self.0.count().store(0, Ordering::Relaxed);
        self.0.objects().store(0, Ordering::Relaxed);
        self.0.count_max().store(count_max, Ordering::Relaxed);
        self.0.kept().store(0, Ordering::Relaxed);
        self.0.base().store(base, Ordering::Release);
    }

    /// No more puts until this write transaction is committed, which takes along what there is.
    pub(crate) fn close(&self, transaction: u64) {
        self.0.close(transaction);
        self.0.kept().store(0, Ordering::Release);
    }

    /// No more puts until this write transaction is committed, which keeps what there is.
    pub(crate) fn keep(&self, transaction: u64) {
        self.0.close(transaction);
        self.0.kept().store(transaction, Ordering::Release);
    }

    /// True if there is room for a put.
    pub(crate) fn has_room(&self, key_len: usize, record_len: usize) -> bool {
        let place = Place { at: self.0.end(), key_len, record_len };
        place.end() <= self.0.0.len()
            && self.0.count().load(Ordering::Relaxed) < self.0.count_max().load(Ordering::Relaxed)
    }

    /// Stores a put for which [`Held::has_room`] holds. Readers see it from now on.
    pub(crate) fn put(&self, key: &[u8], record: &[u8], slots: TouchedSlots) {
        let log = self.0;
        let (hash, at) = (hash_of(key), log.end());
        let place = Place { at, key_len: key.len(), record_len: record.len() };
        let version = log.version().load(Ordering::Relaxed);
        let bucket = log.bucket(hash);
        let before = newest(bucket.load(Ordering::Relaxed), version).unwrap_or(0);
        place.write(log, hash & !u64::from(u32::MAX) | before as u64, key, record, slots);
        // A reader who finds it before the end is stored goes on to what was there before.
        bucket.store(version << 32 | at as u64, Ordering::Release);
        log.objects().fetch_or(bit_of(slots[1]), Ordering::Relaxed);
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
}

impl Place {
    fn key_at(self) -> usize {
        self.at + PUT_HEAD_LEN
    }

    fn record_at(self) -> usize {
        self.key_at() + self.key_len.div_ceil(8)
    }

    fn end(self) -> usize {
        self.record_at() + self.record_len.div_ceil(8)
    }

    fn has(self, log: Log<'_>, hash: u64, key: &[u8]) -> bool {
        log.0[self.at].load(Ordering::Relaxed) >> 32 == hash >> 32
            && self.key_len == key.len()
            && words_of(key)
                .zip(&log.0[self.key_at()..])
                .all(|(word, atomic)| atomic.load(Ordering::Relaxed) == word)
    }

    fn record(self, log: Log<'_>) -> RecordBytes {
        let mut bytes = RecordBytes::new();
        for word in &log.0[self.record_at()..self.end()] {
            bytes.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
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

    fn write(self, log: Log<'_>, first: u64, key: &[u8], record: &[u8], slots: TouchedSlots) {
        let lengths = (self.record_len as u64) << 16 | self.key_len as u64;
        let packed = (0..).zip(slots).map(|(number, slot)| u64::from(slot) << (number * SLOT_BITS));
        let head = [first, lengths, packed.sum()];
        let words = head.into_iter().chain(words_of(key)).chain(words_of(record));
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
        assert!(held.is_open(41) && held.has_room(9, 3));
        held.put(b"123456789", b"abc", [1, 66, 3]);
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
        drop(held);
        for (last, is_there) in [(40, false), (41, true), (42, true), (43, false)] {
            let found = log.pending(|| Ok(last)).unwrap().and_then(|it| it.find(b"123456789"));
            assert_eq!(found.as_deref(), is_there.then_some(&b"abc"[..]), "after commit {last}");
        }
    }
}
