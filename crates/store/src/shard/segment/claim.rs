//! Claims of segments for appending.
use super::compact::MadeRoom;
use crate::data::table::{RESERVE, SegmentState, Segments};
use crate::shard::Target;
use crate::shared::control::ProcessSlot;
use crate::sync::{AtomicUsize, Mutex, MutexGuard, pause};
use esker_types::{Error, ErrorKind, Result};
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::Ordering;
use std::sync::{PoisonError, TryLockError};

/// Append slots of one target in this process, each with a segment. Their number limits the threads that append at the
/// same time.
pub(crate) struct AppendSlots {
    append_slots: Vec<Mutex<ClaimedSegment>>,
    /// Slot for data that compaction moves, since it must not wait for compaction itself.
    compaction: Mutex<ClaimedSegment>,
    /// Held during compaction. It excludes other threads, which file locks do not.
    pub(super) compacting: Mutex<()>,
    turn: AtomicUsize,
}

/// State of an append slot between operations.
#[derive(Default)]
pub(crate) struct ClaimedSegment {
    segment: Option<u32>,
    /// Buffer for headers and copied data.
    pub(super) scratch: Vec<u8>,
}

/// An append slot that one thread uses.
pub(crate) struct AppendSlot<'t> {
    held: MutexGuard<'t, ClaimedSegment>,
    /// True if the segment is busy for this append slot.
    busy: bool,
    may_collect: bool,
}

impl AppendSlots {
    pub(crate) fn new(count: usize) -> Self {
        let append_slots =
            (0..count.max(1)).map(|_| Mutex::new(ClaimedSegment::default())).collect();
        let (compaction, compacting) = (Mutex::new(ClaimedSegment::default()), Mutex::new(()));
        Self { append_slots, compaction, compacting, turn: AtomicUsize::new(0) }
    }

    /// Takes a free append slot of this process. If all are taken, waits for one of them, which is chosen in turn.
    pub(crate) fn enter(&self) -> AppendSlot<'_> {
        let free = self.append_slots.iter().find_map(|slot| match slot.try_lock() {
            Ok(held) => Some(held),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        });
        let held = free.unwrap_or_else(|| {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.append_slots.len();
            self.append_slots[turn].lock().unwrap_or_else(PoisonError::into_inner)
        });
        AppendSlot { held, busy: false, may_collect: true }
    }

    /// Takes the append slot of compaction. Waits while another thread of this process has it.
    pub(crate) fn enter_compaction(&self) -> AppendSlot<'_> {
        let held = self.compaction.lock().unwrap_or_else(PoisonError::into_inner);
        AppendSlot { held, busy: false, may_collect: false }
    }

    /// The segment to which compaction moves data; `None` if it has none yet.
    pub(super) fn compaction_segment(&self) -> Option<u32> {
        self.compaction.lock().unwrap_or_else(PoisonError::into_inner).segment
    }
}

impl std::ops::Deref for AppendSlot<'_> {
    type Target = ClaimedSegment;

    fn deref(&self) -> &ClaimedSegment {
        &self.held
    }
}

impl std::ops::DerefMut for AppendSlot<'_> {
    fn deref_mut(&mut self) -> &mut ClaimedSegment {
        &mut self.held
    }
}

impl AppendSlot<'_> {
    /// State of the segment while it is not written to. The segment of compaction has no owner, since compaction may
    /// need the rest of it. Otherwise another append slot of this process that had it earlier would use it.
    fn released_state(&self, process: ProcessSlot) -> SegmentState {
        SegmentState::Open(self.may_collect.then_some(process))
    }

    /// Makes the segment of the slot busy, and returns its number. Returns `None` if the slot has no segment, or
    /// has lost it.
    pub(crate) fn take(&mut self, table: &Segments<'_>) -> Option<u32> {
        let segment = self.held.segment?;
        let (open, busy) = (self.released_state(table.process), SegmentState::Busy(table.process));
        self.busy = self.busy || table.segment(segment).change(open, busy);
        if !self.busy {
            self.held.segment = None;
        }
        self.held.segment
    }

    /// Claims another segment with at least `need` bytes of space. The operation keeps `kept` others busy. The caller
    /// has released the previous segment of the slot.
    ///
    /// # Errors
    /// `NoSpace` if there is none, even after collection and compaction.
    pub(crate) fn claim(&mut self, target: &Target, need: u64, kept: usize) -> Result<()> {
        self.held.segment = None;
        self.busy = false;
        let segment = match self.may_collect {
            true => claim_anywhere(target, need, SpaceWait::new(kept > 0, kept)),
            false => target
                .table()
                .take_for_compaction(need)
                .ok_or_else(|| pool_full_error(target, need)),
        };
        self.set_segment(segment?);
        Ok(())
    }

    /// Sets the segment of the slot, which is busy.
    pub(crate) fn set_segment(&mut self, segment: u32) {
        self.held.segment = Some(segment);
        self.busy = true;
    }

    /// Releases the segment of the slot. The slot keeps it until another process needs it.
    pub(crate) fn release(&mut self, table: &Segments<'_>) {
        if let Some(segment) = self.held.segment.filter(|_| self.busy) {
            let (busy, open) =
                (SegmentState::Busy(table.process), self.released_state(table.process));
            table.segment(segment).change(busy, open);
        }
        self.busy = false;
    }
}

/// Claims a segment with space for `need` bytes. Dead segments are freed first: their memory is already in use, while
/// the first write to a segment may take ten times as long. The later steps cost more, and the last ones are repeated.
fn claim_anywhere(target: &Target, need: u64, mut wait: SpaceWait) -> Result<u32> {
    if let Some(segment) = target.table().take_open(need, Segments::take_unowned) {
        return Ok(segment);
    }
    target.recycle()?;
    if let Some(segment) = target.table().search(need) {
        return Ok(segment);
    }
    while target.return_segment(false)? {
        if let Some(segment) = target.table().search(need) {
            return Ok(segment);
        }
    }
    loop {
        target.collect()?;
        let found =
            target.table().search(need).or_else(|| target.table().take_open(need, Segments::steal));
        if let Some(segment) = found.or_else(|| last_resort(target, need)) {
            return Ok(segment);
        }
        let made = target.make_room(need)?;
        if made != MadeRoom::Some
            && !wait.wait(target, need, made)?
            && !target.return_segment(true)?
        {
            return Err(pool_full_error(target, need));
        }
    }
}

/// Claims an empty segment and returns its number. If `urgent`, segments are freed for it. Otherwise only a free
/// segment beyond the reserve is claimed.
pub(crate) fn claim_empty(target: &Target, urgent: bool) -> Result<u32> {
    let bytes = target.segment_bytes();
    match urgent {
        true => claim_anywhere(target, bytes, SpaceWait::new(true, 0)),
        false => target.table().take_free(RESERVE).ok_or_else(|| pool_full_error(target, bytes)),
    }
}

/// Takes an open segment without leaving the reserve free, if no segment is free because views pin dead ones. The
/// reserve becomes free when the views end. `None` if no view pins one, or no open segment has `need` bytes of space.
fn last_resort(target: &Target, need: u64) -> Option<u32> {
    let kept = viewed_count(target) > 0;
    let table = target.table();
    kept.then(|| table.take_unowned(need).or_else(|| table.steal(need))).flatten()
}

/// Number of dead segments that views pin.
pub(super) fn viewed_count(target: &Target) -> usize {
    let atomics = target.shared();
    let dead = |&segment: &u32| atomics.segment(segment).load() == SegmentState::Dead;
    (0..target.segment_count()).filter(dead).filter(|&segment| target.is_viewed(segment)).count()
}

/// Error for a claim of `need` bytes. Its message depends on whether views pin segments, and on other targets' space.
fn pool_full_error(target: &Target, need: u64) -> Error {
    let remedy = match viewed_count(target) {
        0 => "delete something, or make a larger pool".to_owned(),
        count => format!(
            "views prevent the reuse of {count} empty segments: drop them, or make a larger pool"
        ),
    };
    let (number, free) = (target.number(), free_elsewhere(target));
    let elsewhere = match free {
        0 => String::new(),
        _ => format!(", though others have {free} bytes free"),
    };
    let text = format!(
        "the pool is full: target {number} has no segment with room for {need} bytes{elsewhere}: {remedy}"
    );
    Error::new(ErrorKind::NoSpace, text)
}

/// Estimated number of free bytes on the other targets of the pool.
fn free_elsewhere(target: &Target) -> u64 {
    let pool = target.pool();
    let others = pool.iter().flat_map(|pool| &pool.targets);
    let others = others.filter(|other| other.number() != target.number());
    others.filter_map(|other| other.free_data_bytes().ok()).sum()
}

/// Takes over the segments of dead processes. Returns those whose owner died while writing; their live data must be
/// recounted.
pub(crate) fn take_over_dead(target: &Target) -> Vec<u32> {
    let alive = |slot: ProcessSlot| target.is_alive(slot);
    let atomics = target.shared();
    let mut unfinished = Vec::new();
    for segment in 0..target.segment_count() {
        let state = atomics.segment(segment).load();
        match (state, state.owner()) {
            (_, Some(owner)) if alive(owner) => {}
            (SegmentState::Open(Some(_)), _) => {
                atomics.segment(segment).change(state, SegmentState::Open(None));
            }
            (SegmentState::Busy(owner), _) if take_over(target, segment, owner) => {
                unfinished.push(segment)
            }
            _ => {}
        }
    }
    unfinished
}

/// Takes over a busy segment of a dead owner; returns true if that succeeded. Since the owner was found dead, another
/// process may have taken its slot and then the segment. In that case it keeps the segment.
fn take_over(target: &Target, segment: u32, owner: ProcessSlot) -> bool {
    let atomics = target.shared().segment(segment);
    let (old, new) = (SegmentState::Busy(owner), SegmentState::Busy(target.process()));
    target.control.while_dead(owner, || atomics.change(old, new)).unwrap_or(false)
}

/// Maximum number of waits while other processes make progress that does not help. They take more than two seconds.
const ROUNDS_MAX: u32 = 2000;
/// Maximum number of waits without any progress. On a loaded machine, the kernel may delay the other processes.
const ROUNDS_STILL_MAX: u32 = 30_000;
/// Maximum number of waits without another active process, which may just have finished.
const ROUNDS_ALONE_MAX: u32 = 2;

/// State of a claim that waits for space.
struct SpaceWait {
    /// True if the operation keeps segments for which others may be waiting.
    keeping: bool,
    /// Number of segments that the operation itself keeps busy.
    kept: usize,
    rounds: u32,
    rounds_still: u32,
    rounds_alone: u32,
    /// Result of [`activity`] at the last wait.
    seen: u64,
}

impl SpaceWait {
    /// A claim that has not waited yet.
    fn new(keeping: bool, kept: usize) -> Self {
        Self { keeping, kept, rounds: 0, rounds_still: 0, rounds_alone: 0, seen: 0 }
    }

    /// Waits for one interval; returns false if waiting longer will not free `need` bytes.
    fn wait(&mut self, target: &Target, need: u64, made: MadeRoom) -> Result<bool> {
        if !may_fit(target, need)? {
            return Ok(false);
        }
        pause()?;
        if made == MadeRoom::None && !is_space_coming(target, self.kept) {
            self.rounds_alone += 1;
            return Ok(self.rounds_alone <= ROUNDS_ALONE_MAX);
        }
        self.rounds_alone = 0;
        let now = activity(target)?;
        let still = std::mem::replace(&mut self.seen, now) == now && !self.keeping;
        *(if still { &mut self.rounds_still } else { &mut self.rounds }) += 1;
        Ok(self.rounds <= ROUNDS_MAX && self.rounds_still <= ROUNDS_STILL_MAX)
    }
}

/// True if the free and dead bytes of the target suffice for `need` bytes in addition to the reserve.
fn may_fit(target: &Target, need: u64) -> Result<bool> {
    Ok(target.free_data_bytes()? >= need)
}

/// True if a process writes to a segment, compacts or frees one, or reads a dead one, so that space may become free
/// soon. Views do not count, since they may last for ever. The `kept` segments that the operation itself keeps busy do
/// not count either.
fn is_space_coming(target: &Target, kept: usize) -> bool {
    let atomics = target.shared();
    let comes_back = |&segment: &u32| match atomics.segment(segment).load() {
        SegmentState::Busy(_) => true,
        SegmentState::Dead => !target.is_viewed(segment),
        _ => false,
    };
    (0..target.segment_count()).filter(comes_back).count() > kept
}

/// A hash that changes when any process changes segments or the index, or ends a read.
fn activity(target: &Target) -> Result<u64> {
    let mut hasher = esker_types::StableHash.build_hasher();
    for word in target.shared().segments() {
        hasher.write(&word.load(Ordering::Relaxed).to_le_bytes());
    }
    hasher.write(&target.index.last_commit()?.to_le_bytes());
    hasher.write(&target.index.oldest_reader()?.to_le_bytes());
    Ok(hasher.finish())
}
