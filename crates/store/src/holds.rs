//! Holds: which processes have which objects in use, so that what is removed can stay until the last of
//! them lets go. Kept in words all processes share; no system call on the way, unless another process
//! holds the same object.
//!
//! A hold is one word: process slot, a mark, and the rest of a hash of 64 bits whose lowest bits chose the
//! bucket. The hash is one to one for objects that differ in `lo` only; others meet by chance.
#[cfg(all(loom, test))]
mod models;

use crate::control::{Control, ProcessSlot};
use crate::pool::State;
use crate::sync::{AtomicU64, fence};
use esker_types::ObjectId;
use esker_types::StableHash;
use esker_types::info::ContainerId;
use esker_types::limits::{HOLD_BUCKETS, PROCESSES_MAX};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Words of a bucket: holds, and at the end two counts.
const BUCKET_WORDS: usize = 8;
/// The bits of the last word that count holds that found no room.
const UNPLACED: u64 = u32::MAX as u64;
/// One of what the others count: files for locks on objects of the bucket ([`crate::inherited`]).
pub(crate) const LOCK_FILE: u64 = 1 << 32;
/// Words of the table.
pub(crate) const HOLD_WORDS: usize = HOLD_BUCKETS * BUCKET_WORDS;

const TAG_BITS: u32 = 64 - HOLD_BUCKETS.ilog2();
const TAG: u64 = (1 << TAG_BITS) - 1;
/// The object is to be removed by the last who lets go.
const DOOMED: u64 = 1 << TAG_BITS;
const SLOT_SHIFT: u32 = TAG_BITS + 1;
const _: () = assert!(PROCESSES_MAX <= 1 << (64 - SLOT_SHIFT));

/// Threads of a process meet only where their objects fall on one of so many parts of its table.
const PARTS: usize = 16;

type Id = (ContainerId, ObjectId);

/// Holds of this process.
#[derive(Default)]
pub(crate) struct Holds([Mutex<HashMap<Id, Held, StableHash>>; PARTS]);

/// An object this process holds.
struct Held {
    count: u32,
    /// Its word in the shared table, `None` where there was no room.
    place: Option<usize>,
}

fn hash_of((container, oid): Id) -> u64 {
    let mut hasher = StableHash.build_hasher();
    hasher.write_u32(container.0);
    hasher.write(&oid.hi.to_ne_bytes());
    hasher.write(&oid.lo.to_ne_bytes());
    hasher.finish()
}

impl Holds {
    fn part(&self, hash: u64) -> MutexGuard<'_, HashMap<Id, Held, StableHash>> {
        let part = hash as usize / HOLD_BUCKETS % PARTS;
        self.0[part].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Declares that this process uses an object; a child made by fork does not.
    ///
    /// To be sure that it is still there, look for it after this call: whoever removes it asks
    /// [`State::doom`] afterwards.
    pub fn hold(&self, container: ContainerId, oid: ObjectId) {
        let hash = hash_of((container, oid));
        match self.holds.part(hash).entry((container, oid)) {
            Entry::Occupied(mut held) => held.get_mut().count += 1,
            Entry::Vacant(none) => {
                self.control.process(self.control.slot).held.store(1, Ordering::Relaxed);
                let place = self.bucket(hash).insert();
                none.insert(Held { count: 1, place });
            }
        }
    }

    /// Ends one hold. True where the object was doomed and nobody holds it any more: the caller removes it.
    #[must_use]
    pub fn release(&self, container: ContainerId, oid: ObjectId) -> bool {
        let hash = hash_of((container, oid));
        let mut part = self.holds.part(hash);
        let Entry::Occupied(mut held) = part.entry((container, oid)) else { return false };
        held.get_mut().count -= 1;
        if held.get().count > 0 {
            return false;
        }
        let place = held.remove().place;
        drop(part);
        self.bucket(hash).release(place)
    }

    /// Marks an object for removal by the last who lets go of it. False where nobody holds it: the caller
    /// removes it.
    #[must_use]
    pub fn doom(&self, container: ContainerId, oid: ObjectId) -> bool {
        self.bucket(hash_of((container, oid))).mark()
    }

    /// The word of the bucket of an object that counts, in units of [`LOCK_FILE`] too.
    pub(crate) fn hold_counts(&self, container: ContainerId, oid: ObjectId) -> &AtomicU64 {
        self.bucket(hash_of((container, oid))).counts()
    }

    /// Ends all holds of this process, as it closes the pool.
    pub(crate) fn release_all(&self) {
        for part in &self.holds.0 {
            for (id, held) in part.lock().unwrap_or_else(PoisonError::into_inner).drain() {
                self.bucket(hash_of(id)).remove(held.place);
            }
        }
        self.control.process(self.control.slot).held.store(0, Ordering::Release);
    }

    fn bucket(&self, hash: u64) -> Bucket<'_, impl Fn(ProcessSlot) -> bool> {
        let first = hash as usize % HOLD_BUCKETS * BUCKET_WORDS;
        Bucket {
            words: &self.control.holds()[first..][..BUCKET_WORDS],
            unplaced_anywhere: self.control.unplaced_holds(),
            tag: hash >> (64 - TAG_BITS),
            slot: self.control.slot,
            is_alive: |slot| self.control.is_alive(slot),
        }
    }
}

/// Where holds of an object are in the shared table, as a process sees it.
struct Bucket<'c, A> {
    words: &'c [AtomicU64],
    /// How many holds found no room in their buckets.
    unplaced_anywhere: &'c AtomicU64,
    tag: u64,
    slot: ProcessSlot,
    is_alive: A,
}

impl<'c, A: Fn(ProcessSlot) -> bool> Bucket<'c, A> {
    fn places(&self) -> std::ops::Range<usize> {
        0..self.words.len() - 1
    }

    /// How many holds found no room here, and how many files for locks there are. Holds of processes that died are
    /// among them until nobody has the pool open.
    fn counts(&self) -> &'c AtomicU64 {
        &self.words[self.words.len() - 1]
    }

    /// Enters a hold of this process; who looks for the object after it and finds it has it.
    fn insert(&self) -> Option<usize> {
        let mine = u64::from(self.slot.0) << SLOT_SHIFT | self.tag;
        let place = self.places().find(|&place| self.replace(place, 0, mine)).or_else(|| {
            self.places().find(|&place| {
                let found = self.words[place].load(Ordering::SeqCst);
                !(self.is_alive)(owner(found)) && self.replace(place, found, mine)
            })
        });
        // Zero is an empty word: the one hold that looks so is kept as those without room are.
        let place = place.filter(|_| mine != 0);
        if place.is_none() {
            self.unplaced_anywhere.fetch_add(1, Ordering::AcqRel);
            self.counts().fetch_add(1, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        place
    }

    fn replace(&self, place: usize, from: u64, to: u64) -> bool {
        let (won, lost) = (Ordering::SeqCst, Ordering::Relaxed);
        self.words[place].compare_exchange(from, to, won, lost).is_ok()
    }

    /// Ends a hold of this process; true where the object was doomed and nobody holds it any more.
    fn release(&self, place: Option<usize>) -> bool {
        self.remove(place) && !self.mark()
    }

    /// Takes out a hold of this process; true where it was marked.
    fn remove(&self, place: Option<usize>) -> bool {
        match place {
            Some(place) => self.words[place].swap(0, Ordering::SeqCst) & DOOMED != 0,
            None => {
                self.counts().fetch_sub(1, Ordering::SeqCst);
                false
            }
        }
    }

    /// Marks all holds on the object; true where there are any, or may be.
    ///
    /// Whoever takes a marked one away marks the others again: so the mark comes to the last, even where
    /// that one began after the first marking.
    fn mark(&self) -> bool {
        fence(Ordering::SeqCst);
        let marked = self.places().filter(|&place| self.mark_one(place)).count();
        marked > 0 || self.counts().load(Ordering::SeqCst) & UNPLACED > 0
    }

    fn mark_one(&self, place: usize) -> bool {
        loop {
            let found = self.words[place].load(Ordering::SeqCst);
            if found == 0 || found & TAG != self.tag {
                return false;
            }
            let alive = (self.is_alive)(owner(found));
            if self.replace(place, found, if alive { found | DOOMED } else { 0 }) {
                return alive;
            }
        }
    }
}

fn owner(word: u64) -> ProcessSlot {
    ProcessSlot((word >> SLOT_SHIFT) as u32)
}

/// Forgets what nobody holds any more, as this process has taken its slot: holds of one that had the
/// slot before and died, and those without room once nobody else is there. Call with the setup lock held.
pub(crate) fn forget_predecessors(control: &Control, slot: ProcessSlot) {
    if control.unplaced_holds().load(Ordering::Acquire) > 0 && !control.others_alive() {
        forget_all(control);
    }
    if control.process(slot).held.swap(0, Ordering::AcqRel) == 0 {
        return;
    }
    let buckets = control.holds().chunks(BUCKET_WORDS);
    for word in buckets.flat_map(|bucket| &bucket[..BUCKET_WORDS - 1]) {
        let found = word.load(Ordering::Relaxed);
        if found != 0 && owner(found) == slot {
            // Somebody else may mark it meanwhile, and find it gone.
            let _ = word.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |seen| {
                (seen != 0 && owner(seen) == slot).then_some(0)
            });
        }
    }
}

/// Forgets all holds. Call with the setup lock held, and nobody else in the pool.
pub(crate) fn forget_all(control: &Control) {
    for bucket in control.holds().chunks(BUCKET_WORDS) {
        let (holds, counts) = bucket.split_at(BUCKET_WORDS - 1);
        holds.iter().for_each(|word| word.store(0, Ordering::Release));
        // Who inherited an object may not have the pool open.
        counts[0].fetch_and(!UNPLACED, Ordering::Release);
    }
    control.unplaced_holds().store(0, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;
    use crate::tests::Scratch;

    const CONTAINER: ContainerId = ContainerId(7);

    fn pool() -> Scratch {
        Scratch::new(24 << 20, |spec| spec.targets = Some(2))
    }

    fn oid(lo: u64) -> ObjectId {
        ObjectId { hi: 3 << 56, lo }
    }

    /// Objects whose holds fall into one bucket.
    fn of_one_bucket() -> impl Iterator<Item = ObjectId> {
        let bucket = |oid| hash_of((CONTAINER, oid)) as usize % HOLD_BUCKETS;
        (0..).map(oid).filter(move |&oid| bucket(oid) == 5)
    }

    /// Enters a hold as another process would, one that has died since unless `slot` is taken.
    fn hold_of(state: &State, slot: u32, oid: ObjectId) -> &AtomicU64 {
        let bucket = state.bucket(hash_of((CONTAINER, oid)));
        let free = bucket.words.iter().find(|word| word.load(Ordering::SeqCst) == 0);
        let word = free.unwrap();
        word.store(u64::from(slot) << SLOT_SHIFT | bucket.tag, Ordering::SeqCst);
        word
    }

    fn other_slot(state: &State) -> u32 {
        (state.control.slot.0 + 1) % PROCESSES_MAX as u32
    }

    #[test]
    fn a_bucket_without_room_keeps_everything() {
        let pool = pool();
        let state = pool.state();
        let oids: Vec<_> = of_one_bucket().take(BUCKET_WORDS + 2).collect();
        oids.iter().for_each(|&oid| state.hold(CONTAINER, oid));
        for &oid in &oids {
            assert!(state.doom(CONTAINER, oid), "{oid} is held, or may be");
        }
        let told: Vec<_> = oids.iter().map(|&oid| state.release(CONTAINER, oid)).collect();
        assert!(told.iter().all(|told| !told), "another may hold it: {told:?}");
        for &oid in &oids {
            assert!(!state.doom(CONTAINER, oid), "nobody holds {oid}");
        }
    }

    #[test]
    fn holds_without_room_are_forgotten_once_nobody_is_left() {
        let mut pool = pool();
        let oids: Vec<_> = of_one_bucket().take(2).collect();
        let state = pool.state();
        state.bucket(hash_of((CONTAINER, oids[0]))).counts().store(1, Ordering::SeqCst);
        state.control.unplaced_holds().store(1, Ordering::SeqCst);
        assert!(state.doom(CONTAINER, oids[1]));
        drop(state);
        pool.reopen();
        assert!(!pool.state().doom(CONTAINER, oids[1]));
    }

    #[test]
    fn the_dead_hold_nothing() {
        let pool = pool();
        let state = pool.state();
        let dead = hold_of(&state, other_slot(&state), oid(1));
        assert!(!state.doom(CONTAINER, oid(1)));
        assert_eq!(dead.load(Ordering::SeqCst), 0);
        let oids: Vec<_> = of_one_bucket().take(BUCKET_WORDS).collect();
        for &oid in &oids[1..] {
            hold_of(&state, other_slot(&state), oid);
        }
        state.hold(CONTAINER, oids[0]);
        assert_eq!(
            state.control.unplaced_holds().load(Ordering::SeqCst),
            0,
            "a dead one makes room"
        );
        assert!(state.doom(CONTAINER, oids[0]) && state.release(CONTAINER, oids[0]));
    }

    #[test]
    fn a_slot_comes_without_the_holds_of_its_predecessor() {
        let mut pool = pool();
        let state = pool.state();
        let slot = state.control.slot;
        let (own, others) =
            (hold_of(&state, slot.0, oid(1)), hold_of(&state, other_slot(&state), oid(2)));
        assert!(own.load(Ordering::SeqCst) != 0 && others.load(Ordering::SeqCst) != 0);
        drop(state);
        pool.close();
        // As a process leaves its word that dies.
        let folder = crate::io::folder::Folder::open(&pool.path()).unwrap();
        let superblock = crate::Superblock::read_in(&folder).unwrap();
        let control = Control::open(&folder, &superblock).unwrap();
        control.process(slot).held.store(1, Ordering::SeqCst);
        drop(control);
        pool.reopen();
        let state = pool.state();
        assert_eq!(state.control.slot, slot);
        let left = state.control.holds().iter().filter(|word| word.load(Ordering::SeqCst) != 0);
        assert_eq!(left.count(), 1, "only that of the other slot");
    }

    /// The first release made control files without these words.
    #[test]
    fn a_shorter_control_file_is_lengthened() {
        let mut pool = pool();
        pool.close();
        let path = pool.path().join("control");
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        let full = file.metadata().unwrap().len();
        file.set_len(full - ((HOLD_WORDS + PROCESSES_MAX * 2) * 8) as u64).unwrap();
        pool.reopen();
        assert_eq!(file.metadata().unwrap().len(), full);
        let state = pool.state();
        state.hold(CONTAINER, oid(1));
        assert!(state.doom(CONTAINER, oid(1)) && state.release(CONTAINER, oid(1)));
        drop(state);
        pool.close();
        file.set_len(full - ((HOLD_WORDS + PROCESSES_MAX * 2) * 8) as u64 - 8).unwrap();
        let refused = Pool::open(&pool.path()).map(drop).unwrap_err();
        assert!(refused.message().contains("cut short"), "{refused}");
    }

    #[test]
    fn ids_that_follow_each_other_have_hashes_of_their_own() {
        let hashes: std::collections::HashSet<u64> =
            (0..200_000).map(|lo| hash_of((CONTAINER, oid(lo)))).collect();
        assert_eq!(hashes.len(), 200_000);
        let mut sizes = vec![0; HOLD_BUCKETS];
        hashes.iter().for_each(|&hash| sizes[hash as usize % HOLD_BUCKETS] += 1);
        assert!(sizes.iter().all(|&size| size < 60), "24 on average: {:?}", sizes.iter().max());
    }
}
