//! Leases record which processes use which objects, so that an unlinked object remains until its last user closes it.
//! They are stored in shared atomics. Taking or ending one needs no system call, unless another process has a lease on
//! the same object.
//!
//! A lease is one atomic: the slot of the process, the flag "unlink on last close", and the upper bits of a 64-bit hash
//! of the object. The lowest bits of the hash select the bucket. Objects that differ only in `lo` have different
//! hashes; others may collide.
use super::control::{Control, ProcessSlot};
use crate::sync::{AtomicU64, fence};
use esker_os::uptime;
use esker_types::info::ContainerId;
use esker_types::limits::{LEASE_BUCKETS, PROCESSES_MAX};
use esker_types::{ObjectId, StableHash};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of atomics of a bucket: leases, and in the last atomic two counts.
const BUCKET_LEN: usize = 8;
/// Bits of the last atomic that count leases that did not fit into the bucket.
const OVERFLOWED: u64 = u32::MAX as u64;
/// Unit of the other count: the number of lock files of objects in the bucket. A process makes such a file if it passes
/// an open object on.
pub(crate) const LOCK_FILE: u64 = 1 << 32;
/// Number of atomics of the table.
pub(crate) const LEASE_TABLE_LEN: usize = LEASE_BUCKETS * BUCKET_LEN;

const TAG_BITS: u32 = 64 - LEASE_BUCKETS.ilog2();
const TAG: u64 = (1 << TAG_BITS) - 1;
/// Flag: the object is unlinked on last close.
const UNLINKED: u64 = 1 << TAG_BITS;
const SLOT_SHIFT: u32 = TAG_BITS + 1;
const _: () = assert!(PROCESSES_MAX <= 1 << (64 - SLOT_SHIFT));

/// Longest time for which lost leases may be taken again, in microseconds.
const GRACE_MAX_US: u64 = 60_000_000;

/// Number of mutexes for the leases of this process. Threads contend only for objects under the same one.
const SHARDS: usize = 16;

/// An object of a container.
pub(crate) type Id = (ContainerId, ObjectId);

/// Leases of this process.
#[derive(Default)]
pub(crate) struct Leases([Mutex<HashMap<Id, LeasedObject, StableHash>>; SHARDS]);

/// An object that this process has leases on.
struct LeasedObject {
    count: u32,
    /// Index of the lease in the bucket; `None` if it did not fit.
    index: Option<usize>,
}

fn hash_of((container, oid): Id) -> u64 {
    let mut hasher = StableHash.build_hasher();
    hasher.write_u32(container.0);
    hasher.write(&oid.hi.to_ne_bytes());
    hasher.write(&oid.lo.to_ne_bytes());
    hasher.finish()
}

impl Leases {
    /// Leases of this process on the objects under one mutex, which hash bits above those of the bucket select.
    fn shard(&self, hash: u64) -> MutexGuard<'_, HashMap<Id, LeasedObject, StableHash>> {
        let shard = hash as usize / LEASE_BUCKETS % SHARDS;
        self.0[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a lease on an object.
    pub(crate) fn take(&self, control: &Control, id: Id) {
        let hash = hash_of(id);
        match self.shard(hash).entry(id) {
            Entry::Occupied(mut held) => held.get_mut().count += 1,
            Entry::Vacant(none) => {
                control.process(control.slot).has_leases.store(1, Ordering::Relaxed);
                let index = bucket(control, hash).insert();
                none.insert(LeasedObject { count: 1, index });
            }
        }
    }

    /// Ends a lease. Returns true if the caller must remove the object: it was unlinked, and this was its last lease.
    /// While leases of clients on other nodes are lost, the object remains.
    pub(crate) fn end(&self, control: &Control, id: Id) -> bool {
        let hash = hash_of(id);
        let mut shard = self.shard(hash);
        let Entry::Occupied(mut held) = shard.entry(id) else { return false };
        held.get_mut().count -= 1;
        if held.get().count > 0 {
            return false;
        }
        let index = held.remove().index;
        drop(shard);
        bucket(control, hash).release(index) && !are_lost(control)
    }

    /// Ends all leases of this process when it closes the pool. Unlinked objects are not removed.
    pub(crate) fn release_all(&self, control: &Control) {
        for shard in &self.0 {
            for (id, held) in shard.lock().unwrap_or_else(PoisonError::into_inner).drain() {
                bucket(control, hash_of(id)).remove(held.index);
            }
        }
        control.process(control.slot).has_leases.store(0, Ordering::Release);
    }
}

/// Flags all leases on an object, so that the process that ends the last one removes it. Returns false if no process
/// has a lease: then the caller removes it. True for every object while leases of clients on other nodes are lost.
pub(crate) fn unlink_on_last_close(control: &Control, id: Id) -> bool {
    bucket(control, hash_of(id)).flag_all() || are_lost(control)
}

/// Records that this process is an engine, which has leases for clients on other nodes. If the engine before it has lost
/// such leases, they may be taken again within `grace_us`. Until then, every object counts as leased.
pub(crate) fn begin_engine(control: &Control, grace_us: u64) {
    if control.engine().load(Ordering::SeqCst) != 0 {
        control.leases_lost_until().store(uptime() + grace_us, Ordering::SeqCst);
    }
    control.engine().store(control.slot.word(), Ordering::SeqCst);
}

/// Records that this engine has ended the leases of its clients on other nodes in order. If leases of the engine before
/// it are still lost, the record of an engine stays, so that they remain lost.
pub(crate) fn end_engine(control: &Control) {
    if !is_before(control.leases_lost_until()) {
        control.engine().store(0, Ordering::SeqCst);
    }
}

/// True if clients on other nodes have lost leases, and may not have taken them again yet: the engine that had them is
/// dead, or another was started a moment ago.
fn are_lost(control: &Control) -> bool {
    let engine = control.engine().load(Ordering::SeqCst);
    let is_alive =
        |slot: u64| slot < PROCESSES_MAX as u64 && control.is_alive(ProcessSlot(slot as u32));
    // A dead engine also seems alive if a process has just taken its slot. That process has changed the word before.
    let is_lost = || !is_alive(engine - 1) || control.engine().load(Ordering::SeqCst) != engine;
    engine != 0 && (is_lost() || is_before(control.leases_lost_until()))
}

/// True until `time`, in microseconds of the machine's uptime. A time more than [`GRACE_MAX_US`] ahead is damage, and
/// counts as past.
fn is_before(time: &AtomicU64) -> bool {
    let rest = time.load(Ordering::SeqCst).saturating_sub(uptime());
    rest > 0 && rest <= GRACE_MAX_US
}

/// The two counts of an object's bucket: leases that did not fit, and lock files in units of [`LOCK_FILE`].
pub(crate) fn counts(control: &Control, id: Id) -> &AtomicU64 {
    bucket(control, hash_of(id)).counts()
}

/// Processes that may have leases. Models implement it too.
trait Processes {
    /// True if the process with that slot is alive.
    fn is_alive(&self, slot: ProcessSlot) -> bool;

    /// Runs `work` and returns its result if the process with that slot is dead, and prevents others from getting the
    /// slot meanwhile. Returns false if the process is alive, or if another process acts for it.
    fn while_dead(&self, slot: ProcessSlot, work: impl FnOnce() -> bool) -> bool;
}

impl Processes for Control {
    fn is_alive(&self, slot: ProcessSlot) -> bool {
        Control::is_alive(self, slot)
    }

    fn while_dead(&self, slot: ProcessSlot, work: impl FnOnce() -> bool) -> bool {
        Control::while_dead(self, slot, work).unwrap_or(false)
    }
}

/// The bucket of an object with this hash.
fn bucket(control: &Control, hash: u64) -> Bucket<'_, Control> {
    let first = hash as usize % LEASE_BUCKETS * BUCKET_LEN;
    Bucket {
        atomics: &control.lease_table()[first..][..BUCKET_LEN],
        overflowed_anywhere: control.overflowed_leases(),
        tag: hash >> (64 - TAG_BITS),
        slot: control.slot,
        processes: control,
    }
}

/// The bucket of an object in the shared table, as one process uses it.
struct Bucket<'c, P> {
    atomics: &'c [AtomicU64],
    /// Number of leases in all buckets that did not fit.
    overflowed_anywhere: &'c AtomicU64,
    tag: u64,
    slot: ProcessSlot,
    processes: &'c P,
}

impl<'c, P: Processes> Bucket<'c, P> {
    fn entries(&self) -> std::ops::Range<usize> {
        0..self.atomics.len() - 1
    }

    /// Number of leases that did not fit here, and number of lock files. Leases of dead processes remain counted until
    /// no process has the pool open.
    fn counts(&self) -> &'c AtomicU64 {
        &self.atomics[self.atomics.len() - 1]
    }

    /// Stores a lease of this process; returns its index in the bucket, or `None` if it does not fit and is only
    /// counted. If the caller still finds the object after this, the object remains.
    fn insert(&self) -> Option<usize> {
        let lease = u64::from(self.slot.0) << SLOT_SHIFT | self.tag;
        // An empty entry is taken first, otherwise that of a dead process.
        let index = self.entries().find(|&index| self.replace(index, 0, lease)).or_else(|| {
            self.entries().find(|&index| {
                let found = self.atomics[index].load(Ordering::SeqCst);
                !self.processes.is_alive(owner(found)) && self.replace_dead(index, found, lease)
            })
        });
        // Zero means empty. The one lease with that value is counted as one that did not fit.
        let index = index.filter(|_| lease != 0);
        if index.is_none() {
            self.overflowed_anywhere.fetch_add(1, Ordering::AcqRel);
            self.counts().fetch_add(1, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        index
    }

    /// Changes a word of the bucket by one compare-and-swap; returns false if it is not `from`.
    fn replace(&self, index: usize, from: u64, to: u64) -> bool {
        let (won, lost) = (Ordering::SeqCst, Ordering::Relaxed);
        self.atomics[index].compare_exchange(from, to, won, lost).is_ok()
    }

    /// Replaces the lease `from` of a dead process; returns false if that is not possible. A new process in the slot
    /// might store the same word for a lease of its own, so none gets the slot meanwhile.
    fn replace_dead(&self, index: usize, from: u64, to: u64) -> bool {
        self.processes.while_dead(owner(from), || self.replace(index, from, to))
    }

    /// Ends a lease of this process; returns true if the caller must unlink the object now.
    fn release(&self, index: Option<usize>) -> bool {
        self.remove(index) && !self.flag_all()
    }

    /// Removes a lease of this process: the lease at `index` or, for `None`, one that is only counted. Returns true if
    /// the lease was flagged because its object was unlinked.
    fn remove(&self, index: Option<usize>) -> bool {
        match index {
            Some(index) => self.atomics[index].swap(0, Ordering::SeqCst) & UNLINKED != 0,
            None => {
                self.counts().fetch_sub(1, Ordering::SeqCst);
                false
            }
        }
    }

    /// Flags all leases on the object; returns true if there are any, or may be.
    ///
    /// The release of a flagged lease flags the others again. So the flag reaches the last lease, even if that was
    /// taken after the first flagging.
    fn flag_all(&self) -> bool {
        fence(Ordering::SeqCst);
        let flagged = self.entries().filter(|&index| self.flag_one(index)).count();
        flagged > 0 || self.counts().load(Ordering::SeqCst) & OVERFLOWED > 0
    }

    /// Flags the lease at `index` as one on an unlinked object. Returns false if the lease is not on this object, or if
    /// its owner is dead. A lease of a dead process is removed. If another process acts for the dead one, the lease
    /// counts, and a later sweep frees the object.
    fn flag_one(&self, index: usize) -> bool {
        loop {
            let found = self.atomics[index].load(Ordering::SeqCst);
            if found == 0 || found & TAG != self.tag {
                return false;
            }
            if !self.processes.is_alive(owner(found)) && self.replace_dead(index, found, 0) {
                return false;
            }
            if self.replace(index, found, found | UNLINKED) {
                return true;
            }
        }
    }
}

/// The process that has the lease in a word.
fn owner(word: u64) -> ProcessSlot {
    ProcessSlot((word >> SLOT_SHIFT) as u32)
}

/// Clears leases of dead processes before this process takes its slot: those of the previous process in the slot and,
/// if no other process is alive, those that did not fit. The caller holds the setup lock.
pub(crate) fn clear_dead_leases(control: &Control, slot: ProcessSlot) {
    if control.overflowed_leases().load(Ordering::Acquire) > 0 && !control.others_alive() {
        clear_all(control);
    }
    // If a dead engine had this slot, the engine must not seem to live.
    let (engine, nobody) = (slot.word(), ProcessSlot::NOBODY.word());
    let (won, lost) = (Ordering::SeqCst, Ordering::Relaxed);
    let _ = control.engine().compare_exchange(engine, nobody, won, lost);
    if control.process(slot).has_leases.swap(0, Ordering::AcqRel) == 0 {
        return;
    }
    control.lease_table().chunks(BUCKET_LEN).for_each(|bucket| clear_leases_of(slot, bucket));
}

/// Clears the leases in a bucket of a dead process that had this slot.
fn clear_leases_of(slot: ProcessSlot, bucket: &[AtomicU64]) {
    // The last word has counts.
    for word in &bucket[..bucket.len() - 1] {
        let found = word.load(Ordering::Relaxed);
        if found != 0 && owner(found) == slot {
            // Another process may flag or clear the lease meanwhile.
            let _ = word.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |seen| {
                (seen != 0 && owner(seen) == slot).then_some(0)
            });
        }
    }
}

/// Clears all leases. The caller holds the setup lock, and no other process has the pool open.
pub(crate) fn clear_all(control: &Control) {
    for bucket in control.lease_table().chunks(BUCKET_LEN) {
        let (leases, counts) = bucket.split_at(BUCKET_LEN - 1);
        leases.iter().for_each(|word| word.store(0, Ordering::Release));
        // Lock files remain counted, since processes that inherited an object need not have the pool open.
        counts[0].fetch_and(!OVERFLOWED, Ordering::Release);
    }
    control.overflowed_leases().store(0, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenPool;
    use crate::Pool;
    use crate::tests::Scratch;
    use std::time::Duration;

    const CONTAINER: ContainerId = ContainerId(7);

    fn pool() -> Scratch {
        Scratch::new(24 << 20, |spec| spec.targets = Some(2))
    }

    fn oid(lo: u64) -> ObjectId {
        ObjectId { hi: 3 << 56, lo }
    }

    /// Ids of objects whose leases are in the same bucket.
    fn oids_of_one_bucket() -> impl Iterator<Item = ObjectId> {
        let bucket = |oid| hash_of((CONTAINER, oid)) as usize % LEASE_BUCKETS;
        (0..).map(oid).filter(move |&oid| bucket(oid) == 5)
    }

    /// Stores a lease of another process, which is dead unless `slot` is in use.
    fn lease_of(state: &OpenPool, slot: u32, oid: ObjectId) -> &AtomicU64 {
        let bucket = bucket(&state.control, hash_of((CONTAINER, oid)));
        let free = bucket.atomics.iter().find(|word| word.load(Ordering::SeqCst) == 0);
        let word = free.unwrap();
        word.store(u64::from(slot) << SLOT_SHIFT | bucket.tag, Ordering::SeqCst);
        word
    }

    fn other_slot(state: &OpenPool) -> u32 {
        (state.control.slot.0 + 1) % PROCESSES_MAX as u32
    }

    /// Leases that do not fit into the bucket are only counted, so any object of the bucket may be in use.
    #[test]
    fn full_bucket_keeps_unlinked_objects() {
        let pool = pool();
        let state = pool.opened();
        let oids: Vec<_> = oids_of_one_bucket().take(BUCKET_LEN + 2).collect();
        oids.iter().for_each(|&oid| state.lease(CONTAINER, oid));
        for &oid in &oids {
            assert!(state.unlink_on_last_close(CONTAINER, oid), "{oid} is held, or may be");
        }
        let told: Vec<_> = oids.iter().map(|&oid| state.end_lease(CONTAINER, oid)).collect();
        assert!(told.iter().all(|told| !told), "another may hold it: {told:?}");
        for &oid in &oids {
            assert!(!state.unlink_on_last_close(CONTAINER, oid), "nobody holds {oid}");
        }
    }

    /// Clients of a dead engine may have leases, until a moment after the next engine was started.
    #[test]
    fn objects_count_as_leased_while_leases_of_an_engine_are_lost() {
        let mut pool = pool();
        let is_leased = |pool: &Scratch| pool.opened().unlink_on_last_close(CONTAINER, oid(1));
        pool.opened().begin_engine(Duration::from_secs(60));
        assert!(!is_leased(&pool), "the first engine has lost nothing");
        pool.reopen();
        assert!(is_leased(&pool), "the engine is dead");
        pool.opened().lease(CONTAINER, oid(1));
        assert!(is_leased(&pool));
        assert!(!pool.opened().end_lease(CONTAINER, oid(1)), "another may hold it");
        pool.opened().begin_engine(Duration::from_secs(60));
        assert!(is_leased(&pool), "clients take their leases again");
        pool.opened().end_engine();
        pool.reopen();
        assert!(is_leased(&pool), "they had no time for that");
        pool.opened().begin_engine(Duration::from_secs(60));
        pool.opened().control.leases_lost_until().store(1, Ordering::SeqCst);
        assert!(!is_leased(&pool), "they had time for that");
        pool.opened().end_engine();
        pool.reopen();
        assert!(!is_leased(&pool), "the engine ended in order");
    }

    #[test]
    fn overflowed_leases_are_cleared_when_pool_is_idle() {
        let mut pool = pool();
        let oids: Vec<_> = oids_of_one_bucket().take(2).collect();
        let state = pool.opened();
        bucket(&state.control, hash_of((CONTAINER, oids[0]))).counts().store(1, Ordering::SeqCst);
        state.control.overflowed_leases().store(1, Ordering::SeqCst);
        assert!(state.unlink_on_last_close(CONTAINER, oids[1]));
        drop(state);
        pool.reopen();
        assert!(!pool.opened().unlink_on_last_close(CONTAINER, oids[1]));
    }

    /// An entry of a dead process is cleared when the object is unlinked, and a new lease may take it.
    #[test]
    fn leases_of_dead_processes_do_not_count() {
        let pool = pool();
        let state = pool.opened();
        let dead = lease_of(&state, other_slot(&state), oid(1));
        assert!(!state.unlink_on_last_close(CONTAINER, oid(1)));
        assert_eq!(dead.load(Ordering::SeqCst), 0);
        let oids: Vec<_> = oids_of_one_bucket().take(BUCKET_LEN).collect();
        for &oid in &oids[1..] {
            lease_of(&state, other_slot(&state), oid);
        }
        state.lease(CONTAINER, oids[0]);
        assert_eq!(
            state.control.overflowed_leases().load(Ordering::SeqCst),
            0,
            "a dead one makes room"
        );
        assert!(
            state.unlink_on_last_close(CONTAINER, oids[0]) && state.end_lease(CONTAINER, oids[0])
        );
    }

    #[test]
    fn taking_a_slot_clears_leases_of_its_previous_owner() {
        let mut pool = pool();
        let state = pool.opened();
        let slot = state.control.slot;
        let (own, others) =
            (lease_of(&state, slot.0, oid(1)), lease_of(&state, other_slot(&state), oid(2)));
        assert!(own.load(Ordering::SeqCst) != 0 && others.load(Ordering::SeqCst) != 0);
        drop(state);
        pool.close();
        // The flag that a process leaves when it dies with leases.
        let folder = crate::io::folder::Folder::open(&pool.path()).unwrap();
        let superblock = crate::Superblock::read_in(&folder).unwrap();
        let control = Control::open(&folder, &superblock).unwrap();
        control.process(slot).has_leases.store(1, Ordering::SeqCst);
        drop(control);
        pool.reopen();
        let state = pool.opened();
        assert_eq!(state.control.slot, slot);
        let left =
            state.control.lease_table().iter().filter(|word| word.load(Ordering::SeqCst) != 0);
        assert_eq!(left.count(), 1, "only that of the other slot");
    }

    /// The first release created control files without the atomics of processes and leases.
    #[test]
    fn control_file_of_first_release_is_extended() {
        let mut pool = Scratch::new(24 << 20, |spec| {
            spec.targets = Some(2);
        });
        let read_leases =
            pool.opened().superblock.targets as usize * crate::shared::control::CONFLICT_SLOTS;
        pool.close();
        let path = pool.path().join("control");
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        let full = file.metadata().unwrap().len();
        let more = ((LEASE_TABLE_LEN + PROCESSES_MAX * 2 + read_leases) * 8) as u64;
        file.set_len(full - more).unwrap();
        pool.reopen();
        assert_eq!(file.metadata().unwrap().len(), full);
        let state = pool.opened();
        state.lease(CONTAINER, oid(1));
        assert!(
            state.unlink_on_last_close(CONTAINER, oid(1)) && state.end_lease(CONTAINER, oid(1))
        );
        drop(state);
        pool.close();
        file.set_len(full - more - 8).unwrap();
        let refused = Pool::open(&pool.path()).map(drop).unwrap_err();
        assert!(refused.message().contains("truncated"), "{refused}");
    }

    #[test]
    fn consecutive_ids_have_distinct_hashes_and_fill_buckets_evenly() {
        let hashes: std::collections::HashSet<u64> =
            (0..200_000).map(|lo| hash_of((CONTAINER, oid(lo)))).collect();
        assert_eq!(hashes.len(), 200_000);
        let mut sizes = vec![0; LEASE_BUCKETS];
        hashes.iter().for_each(|&hash| sizes[hash as usize % LEASE_BUCKETS] += 1);
        assert!(sizes.iter().all(|&size| size < 60), "24 on average: {:?}", sizes.iter().max());
    }
}

/// Models of users of an object and processes that unlink it, under every order of execution.
#[cfg(all(loom, test))]
mod models {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::atomic::{AtomicBool, AtomicUsize};
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    /// First process that is dead when a model begins.
    const DEAD: u32 = 100;
    /// Number of atomics of a bucket in a model: two leases and the counts.
    const BUCKET: usize = 3;
    const TAG_OF_OBJECT: u64 = 5;

    /// An object, and the bucket of its leases.
    #[derive(Clone)]
    struct Model {
        atomics: Arc<Vec<AtomicU64>>,
        overflowed_anywhere: Arc<AtomicU64>,
        has_name: Arc<AtomicBool>,
        content: Arc<UnsafeCell<()>>,
        /// Number of times that a caller was told to remove the object.
        removed: Arc<AtomicUsize>,
        processes: Arc<ModelProcesses>,
    }

    /// Process 100 is dead until a new process takes its slot. Processes from 101 on are dead, all others are alive.
    #[derive(Default)]
    struct ModelProcesses {
        is_taken: AtomicBool,
        /// Held by a process that takes slot 100 or acts for its dead owner.
        cleanup: Mutex<()>,
    }

    impl Processes for ModelProcesses {
        fn is_alive(&self, slot: ProcessSlot) -> bool {
            slot.0 < DEAD || slot.0 == DEAD && self.is_taken.load(Ordering::SeqCst)
        }

        fn while_dead(&self, slot: ProcessSlot, work: impl FnOnce() -> bool) -> bool {
            let Ok(_cleanup) = self.cleanup.try_lock() else { return false };
            !self.is_alive(slot) && work()
        }
    }

    impl Model {
        fn new(leases: &[u64]) -> Self {
            let word = |index: usize| AtomicU64::new(leases.get(index).copied().unwrap_or(0));
            Self {
                atomics: Arc::new((0..BUCKET).map(word).collect()),
                overflowed_anywhere: Arc::new(AtomicU64::new(0)),
                has_name: Arc::new(AtomicBool::new(true)),
                content: Arc::new(UnsafeCell::new(())),
                removed: Arc::new(AtomicUsize::new(0)),
                processes: Arc::default(),
            }
        }

        /// The bucket of the object as a process uses it.
        fn as_process(&self, process: u32) -> Bucket<'_, ModelProcesses> {
            self.bucket_of(TAG_OF_OBJECT, process)
        }

        /// The bucket of an object with this tag, as a process uses it.
        fn bucket_of(&self, tag: u64, process: u32) -> Bucket<'_, ModelProcesses> {
            Bucket {
                atomics: &self.atomics,
                overflowed_anywhere: &self.overflowed_anywhere,
                tag,
                slot: ProcessSlot(process),
                processes: &*self.processes,
            }
        }

        /// Takes the slot of the dead process 100, or another one if a process acts for it. Returns the slot.
        fn begin_process(&self) -> u32 {
            let Ok(_cleanup) = self.processes.cleanup.try_lock() else { return 2 };
            clear_leases_of(ProcessSlot(DEAD), &self.atomics);
            self.processes.is_taken.store(true, Ordering::SeqCst);
            DEAD
        }

        /// Opens the object by its name, reads it, and closes it.
        fn open_and_close(&self, process: u32) {
            let bucket = self.as_process(process);
            let index = bucket.insert();
            if self.has_name.load(Ordering::Relaxed) {
                self.content.with(|_| ());
            }
            if bucket.release(index) {
                self.remove();
            }
        }

        /// Removes the name of the object. Removes the object too if no process has a lease on it.
        fn unlink(&self, process: u32) {
            self.has_name.store(false, Ordering::Relaxed);
            if !self.as_process(process).flag_all() {
                self.remove();
            }
        }

        /// Removes the object. Loom fails the model if another thread still reads it.
        fn remove(&self) {
            if self.removed.fetch_add(1, Ordering::AcqRel) == 0 {
                self.content.with_mut(|_| ());
            }
        }

        fn removed(&self) -> usize {
            self.removed.load(Ordering::Acquire)
        }

        /// Runs `work` in another thread.
        fn beside<T: 'static>(
            &self,
            work: impl FnOnce(&Self) -> T + 'static,
        ) -> thread::JoinHandle<T> {
            let model = self.clone();
            thread::spawn(move || work(&model))
        }
    }

    fn lease_of(process: u64, tag: u64) -> u64 {
        process << SLOT_SHIFT | tag
    }

    /// An object is removed, but not while a process has it open that found its name.
    #[test]
    fn unlinked_object_is_removed_after_last_close() {
        loom::model(|| {
            let model = Model::new(&[]);
            let reads =
                [1, 2].map(|process| model.beside(move |model| model.open_and_close(process)));
            model.unlink(3);
            reads.into_iter().for_each(|reads| reads.join().unwrap());
            assert!(model.removed() > 0);
        });
    }

    /// If a bucket is full, an unlinked object remains until a process unlinks it again.
    #[test]
    fn unlinked_object_survives_full_bucket_until_retry() {
        loom::model(|| {
            let model = Model::new(&[lease_of(8, 1), lease_of(9, 2)]);
            let reads = model.beside(|model| model.open_and_close(1));
            model.unlink(3);
            reads.join().unwrap();
            if model.removed() == 0 {
                model.unlink(3);
            }
            assert_eq!(model.removed(), 1);
        });
    }

    /// The entry of a dead process goes to one of the processes that want it, and its lease ends.
    #[test]
    fn entry_of_dead_process_is_reused_once() {
        loom::model(|| {
            let model = Model::new(&[lease_of(100, TAG_OF_OBJECT), lease_of(9, 2)]);
            let other = model.beside(|model| model.as_process(1).insert());
            let mine = model.as_process(2).insert();
            let theirs = other.join().unwrap();
            assert!(mine.is_some() != theirs.is_some());
            assert!(model.as_process(3).flag_all(), "it is held");
            let released = [model.as_process(1).release(theirs), model.as_process(2).release(mine)];
            assert!(!model.as_process(3).flag_all() && released != [true; 2]);
        });
    }

    /// A process wants the entry of a dead one, whose slot a new process takes for a lease on the same object.
    #[test]
    fn lease_of_new_process_in_reused_slot_is_kept() {
        loom::model(|| {
            let model = Model::new(&[lease_of(u64::from(DEAD), TAG_OF_OBJECT), lease_of(9, 2)]);
            let other = model.beside(|model| model.bucket_of(7, 1).insert());
            let new_process = model.begin_process();
            model.as_process(new_process).insert();
            other.join().unwrap();
            assert!(model.as_process(3).flag_all(), "it is held");
        });
    }
}
