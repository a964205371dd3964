//! Getting hold of a segment to append to.
use super::State;
use crate::control::ProcessSlot;
use crate::target::Target;
use esker_types::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// How often and how long to wait for those who are about to free a segment: two seconds in all, and more
/// on a machine with so much to do that the kernel keeps them waiting.
const PATIENCE: u32 = 2000;
const MOMENT: Duration = Duration::from_millis(1);
/// Rounds of waiting after which compaction is tried again.
const COMPACT_EVERY: u32 = 16;
/// How often it is tried then, and where there is nobody to wait for.
const TRIES_ALONE: u32 = 2;

/// Segments of one target this process appends to, one per lane: so many threads can append at once.
pub(crate) struct Lanes {
    lanes: Vec<Mutex<Held>>,
    /// Takes what compaction moves; it must not wait for compaction itself.
    compaction: Mutex<Held>,
    turn: AtomicUsize,
}

/// What a lane keeps between operations.
#[derive(Default)]
pub(crate) struct Held {
    segment: Option<u32>,
    /// Room for headers and gathered data.
    pub(super) scratch: Vec<u8>,
}

/// A lane, held by one thread.
pub(crate) struct Lane<'t> {
    held: MutexGuard<'t, Held>,
    /// The segment is busy on behalf of this very lane.
    busy: bool,
    may_collect: bool,
}

impl Lanes {
    pub(crate) fn new(count: usize) -> Self {
        let lanes = (0..count.max(1)).map(|_| Mutex::default()).collect();
        Self { lanes, compaction: Mutex::default(), turn: AtomicUsize::new(0) }
    }

    /// A lane nobody is in, or the next one as soon as it is left.
    pub(crate) fn enter(&self) -> Lane<'_> {
        let free = self.lanes.iter().find_map(|lane| match lane.try_lock() {
            Ok(held) => Some(held),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        });
        let held = free.unwrap_or_else(|| {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.lanes.len();
            self.lanes[turn].lock().unwrap_or_else(PoisonError::into_inner)
        });
        Lane { held, busy: false, may_collect: true }
    }

    /// The lane of compaction.
    pub(crate) fn enter_compaction(&self) -> Lane<'_> {
        let held = self.compaction.lock().unwrap_or_else(PoisonError::into_inner);
        Lane { held, busy: false, may_collect: false }
    }
}

impl std::ops::Deref for Lane<'_> {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}

impl std::ops::DerefMut for Lane<'_> {
    fn deref_mut(&mut self) -> &mut Held {
        &mut self.held
    }
}

impl Lane<'_> {
    /// The lane's segment, made busy; `None` where it has none or lost it.
    pub(crate) fn take(&mut self, target: &Target) -> Option<u32> {
        let segment = self.held.segment?;
        let (open, busy) = (State::Open(Some(target.process())), State::Busy(target.process()));
        self.busy = self.busy || target.words().segment(segment).change(open, busy);
        if !self.busy {
            self.held.segment = None;
        }
        self.held.segment
    }

    /// Gives the lane another busy segment with at least `need` bytes of room. A full one must have
    /// been taken note of by the caller.
    ///
    /// # Errors
    /// `NoSpace` where there is none, even after collection.
    pub(crate) fn claim(&mut self, target: &Target, need: u64) -> Result<()> {
        self.held.segment = None;
        self.busy = false;
        let segment = match self.may_collect {
            true => claim_anywhere(target, need),
            false => claim_any(target, need, 0).ok_or_else(|| full(target, need)),
        };
        self.held.segment = Some(segment?);
        self.busy = true;
        Ok(())
    }

    /// Lets go of the lane's segment; it stays the lane's until somebody else needs it.
    pub(crate) fn release(&mut self, target: &Target) {
        if let Some(segment) = self.held.segment.filter(|_| self.busy) {
            let slot = target.process();
            target.words().segment(segment).change(State::Busy(slot), State::Open(Some(slot)));
        }
        self.busy = false;
    }
}

/// A segment to append to. What has died is freed first: its memory is warm, where that of a segment
/// never used may cost ten times as much to write.
///
/// As long as the reserve is in use, what is open with room is left to compaction: without it nothing
/// would ever become free.
fn claim_anywhere(target: &Target, need: u64) -> Result<u32> {
    let spare = |take: fn(&Target, u64) -> Option<u32>| {
        if has_reserve(target) { take(target, need) } else { None }
    };
    let search = || spare(abandoned).or_else(|| take_free(target, target.reserve()));
    if let Some(segment) = spare(abandoned) {
        return Ok(segment);
    }
    target.recycle()?;
    if let Some(segment) = search() {
        return Ok(segment);
    }
    let mut alone = 0;
    for round in 0..PATIENCE {
        target.collect()?;
        if let Some(segment) = search().or_else(|| spare(steal)) {
            return Ok(segment);
        }
        alone = if may_free(target) { 0 } else { alone + 1 };
        if alone > TRIES_ALONE {
            break;
        }
        // Now and then again: those one waits for may need what only compaction brings, and may have let go
        // of the room for it.
        if alone > 0 || round % COMPACT_EVERY < TRIES_ALONE {
            seal_open(target, need);
            compact(target)?;
        } else {
            std::thread::sleep(MOMENT);
        }
    }
    target.collect()?;
    claim_any(target, need, target.reserve()).ok_or_else(|| full(target, need))
}

/// True where the segments kept back for compaction are free.
fn has_reserve(target: &Target) -> bool {
    let words = target.words();
    let free = |&segment: &u32| words.segment(segment).load() == State::Free;
    (0..target.segment_count()).filter(free).take(target.reserve()).count() == target.reserve()
}

/// Whatever has room, but for `keep` free segments.
fn claim_any(target: &Target, need: u64, keep: usize) -> Option<u32> {
    abandoned(target, need).or_else(|| take_free(target, keep)).or_else(|| steal(target, need))
}

/// Compacts as far as there is room to move to. That there is none says nothing yet: it may be held by
/// others who compact, or wait for readers.
fn compact(target: &Target) -> Result<()> {
    match target.compact_for_space() {
        Err(error) if error.kind() == ErrorKind::NoSpace => Ok(()),
        result => result.map(drop),
    }
}

/// True where somebody writes to a segment, moves data out of it, or is about to free it, or where readers
/// still look at a dead one: there may be space in a moment. A view may last for ever.
fn may_free(target: &Target) -> bool {
    let words = target.words();
    (0..target.segment_count()).any(|segment| match words.segment(segment).load() {
        State::Busy(_) => true,
        State::Dead => !target.is_viewed(segment),
        _ => false,
    })
}

/// Dead segments that views keep.
fn viewed(target: &Target) -> usize {
    let words = target.words();
    let dead = |&segment: &u32| words.segment(segment).load() == State::Dead;
    (0..target.segment_count()).filter(dead).filter(|&segment| target.is_viewed(segment)).count()
}

fn full(target: &Target, need: u64) -> Error {
    let remedy = match viewed(target) {
        0 => "delete something, or make a larger pool".to_owned(),
        count => format!("views keep {count} that are empty: drop those, or make a larger pool"),
    };
    let number = target.number();
    let text = format!("target {number} has no segment with room for {need} bytes: {remedy}");
    Error::new(ErrorKind::NoSpace, text)
}

fn has_room(target: &Target, segment: u32, need: u64) -> bool {
    let tail = target.words().segment(segment).tail.load(Ordering::Acquire);
    tail + need <= target.segment_bytes()
}

fn abandoned(target: &Target, need: u64) -> Option<u32> {
    let mine = State::Busy(target.process());
    (0..target.segment_count()).find(|&segment| {
        has_room(target, segment, need)
            && target.words().segment(segment).change(State::Open(None), mine)
    })
}

/// Takes the free segment that was freed last, for its pages are warm, unless only `keep` are left.
fn take_free(target: &Target, keep: usize) -> Option<u32> {
    let words = target.words();
    let mine = State::Busy(target.process());
    let mut free: Vec<(u64, u32)> = (0..target.segment_count())
        .filter(|&segment| words.segment(segment).load() == State::Free)
        .map(|segment| (words.segment(segment).stamp.load(Ordering::Relaxed), segment))
        .collect();
    free.sort_unstable_by_key(|&(stamp, segment)| (std::cmp::Reverse(stamp), segment));
    let available = free.len().saturating_sub(keep);
    let taken = free[..available]
        .iter()
        .map(|&(_, segment)| segment)
        .find(|&segment| words.segment(segment).change(State::Free, mine))?;
    target.begin_segment(taken);
    Some(taken)
}

/// Takes an open segment from an owner that is not writing right now: the only way when many
/// processes hold one each and none is free.
fn steal(target: &Target, need: u64) -> Option<u32> {
    let mine = State::Busy(target.process());
    (0..target.segment_count()).find(|&segment| {
        let words = target.words().segment(segment);
        let state = words.load();
        let stealable = matches!(state, State::Open(Some(_))) && has_room(target, segment, need);
        stealable && words.change(state, mine)
    })
}

/// Seals segments left open, which have no room for anybody by now, so that they can be compacted: an
/// idle owner may never come back to them.
fn seal_open(target: &Target, need: u64) {
    for segment in 0..target.segment_count() {
        let words = target.words().segment(segment);
        let state = words.load();
        if matches!(state, State::Open(_)) && !has_room(target, segment, need) {
            words.change(state, State::Sealed);
        }
    }
}

/// Frees what dead processes held. Returns segments whose owner died while busy: what is alive in
/// them has to be counted again.
pub(crate) fn disown_dead(target: &Target) -> Vec<u32> {
    let alive = |slot: ProcessSlot| target.is_alive(slot);
    let words = target.words();
    let mut orphans = Vec::new();
    for segment in 0..target.segment_count() {
        let state = words.segment(segment).load();
        match (state, state.owner()) {
            (_, Some(owner)) if alive(owner) => {}
            (State::Open(Some(_)), _) => {
                words.segment(segment).change(state, State::Open(None));
            }
            (State::Busy(owner), _) if take_over(target, segment, owner) => orphans.push(segment),
            _ => {}
        }
    }
    orphans
}

/// Takes a busy segment from an owner that is dead. Since it was found dead, another process may have got
/// its slot, and then the segment: that one keeps it.
fn take_over(target: &Target, segment: u32, owner: ProcessSlot) -> bool {
    let words = target.words().segment(segment);
    let (theirs, mine) = (State::Busy(owner), State::Busy(target.process()));
    target.control.while_dead(owner, || words.change(theirs, mine)).unwrap_or(false)
}
