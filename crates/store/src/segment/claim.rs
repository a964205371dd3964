//! Getting hold of a segment to append to.
use super::State;
use super::compact::MadeRoom;
use super::patience::Patience;
use crate::control::ProcessSlot;
use crate::target::Target;
use esker_types::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Free segments kept back for compaction: without one, a full target could never be compacted.
pub(crate) const RESERVE: usize = 1;

/// Segments of one target this process appends to, one per lane: so many threads can append at once.
pub(crate) struct Lanes {
    lanes: Vec<Mutex<Held>>,
    /// Takes what compaction moves; it must not wait for compaction itself.
    compaction: Mutex<Held>,
    /// Held over compaction: locks of the control file do not tell the threads of a process apart.
    pub(super) compacting: Mutex<()>,
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
        let (compaction, compacting) = (Mutex::default(), Mutex::default());
        Self { lanes, compaction, compacting, turn: AtomicUsize::new(0) }
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

    /// The segment that takes what compaction moves.
    pub(super) fn compacts_into(&self) -> Option<u32> {
        self.compaction.lock().unwrap_or_else(PoisonError::into_inner).segment
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
    /// What the lane's segment is while nobody writes to it. What compaction may need the rest of belongs to nobody:
    /// else another lane of this process, which had it long ago, could take it for its own.
    fn at_rest(&self, target: &Target) -> State {
        State::Open(self.may_collect.then(|| target.process()))
    }

    /// The lane's segment, made busy; `None` where it has none or lost it.
    pub(crate) fn take(&mut self, target: &Target) -> Option<u32> {
        let segment = self.held.segment?;
        let (open, busy) = (self.at_rest(target), State::Busy(target.process()));
        self.busy = self.busy || target.words().segment(segment).change(open, busy);
        if !self.busy {
            self.held.segment = None;
        }
        self.held.segment
    }

    /// Gives the lane another busy segment with at least `need` bytes of room, for an operation that keeps
    /// others busy if it is `keeping` some. The one it had must have been left by the caller.
    ///
    /// # Errors
    /// `NoSpace` where there is none, even after collection.
    pub(crate) fn claim(&mut self, target: &Target, need: u64, keeping: bool) -> Result<()> {
        self.held.segment = None;
        self.busy = false;
        let segment = match self.may_collect {
            true => claim_anywhere(target, need, keeping),
            false => claim_for_compaction(target, need).ok_or_else(|| full(target, need)),
        };
        self.held.segment = Some(segment?);
        self.busy = true;
        Ok(())
    }

    /// Lets go of the lane's segment; it stays the lane's until somebody else needs it.
    pub(crate) fn release(&mut self, target: &Target) {
        if let Some(segment) = self.held.segment.filter(|_| self.busy) {
            let busy = State::Busy(target.process());
            target.words().segment(segment).change(busy, self.at_rest(target));
        }
        self.busy = false;
    }
}

/// A segment to append to. What has died is freed first: its memory is warm, where that of a segment
/// never used may cost ten times as much to write.
fn claim_anywhere(target: &Target, need: u64, keeping: bool) -> Result<u32> {
    if let Some(segment) = spare(target, need, abandoned) {
        return Ok(segment);
    }
    target.recycle()?;
    if let Some(segment) = search(target, need) {
        return Ok(segment);
    }
    while target.take_back(false)? {
        if let Some(segment) = search(target, need) {
            return Ok(segment);
        }
    }
    let mut patience = Patience::new(keeping);
    loop {
        target.collect()?;
        let found = search(target, need).or_else(|| spare(target, need, steal));
        if let Some(segment) = found.or_else(|| last_resort(target, need)) {
            return Ok(segment);
        }
        let made = target.make_room(need)?;
        if made != MadeRoom::Some
            && !patience.wait(target, need, made)?
            && !target.take_back(true)?
        {
            return Err(full(target, need));
        }
    }
}

/// A segment with nothing in it, busy on behalf of this process: whatever has to be done for that where it is
/// `urgent`, else one that is free as it is.
pub(crate) fn claim_whole(target: &Target, urgent: bool) -> Result<u32> {
    let bytes = target.segment_bytes();
    match urgent {
        true => claim_anywhere(target, bytes, true),
        false => take_free(target, RESERVE).ok_or_else(|| full(target, bytes)),
    }
}

/// What is left open, or free.
fn search(target: &Target, need: u64) -> Option<u32> {
    spare(target, need, abandoned).or_else(|| take_free(target, RESERVE))
}

/// As long as the reserve is in use, what is open with room is left to compaction: without it nothing
/// would ever become free. It may have come into use meanwhile: then what was taken is given back.
fn spare(target: &Target, need: u64, take: fn(&Target, u64) -> Option<u32>) -> Option<u32> {
    if !has_reserve(target) {
        return None;
    }
    let taken = take(target, need)?;
    fence(Ordering::SeqCst);
    if !has_reserve(target) {
        target.words().segment(taken).store(State::Open(None));
        return None;
    }
    Some(taken)
}

/// Where nothing is free because views keep what is dead, the reserve comes back with it.
fn last_resort(target: &Target, need: u64) -> Option<u32> {
    let kept = viewed(target) > 0;
    kept.then(|| abandoned(target, need).or_else(|| steal(target, need))).flatten()
}

/// What is open first, so that segments half empty are joined; the reserve last.
fn claim_for_compaction(target: &Target, need: u64) -> Option<u32> {
    abandoned(target, need).or_else(|| steal(target, need)).or_else(|| take_free(target, 0))
}

/// True where the segment kept back for compaction is free.
pub(super) fn has_reserve(target: &Target) -> bool {
    target.count(|state| state == State::Free) >= RESERVE
}

/// True where a claim of `need` bytes finds something.
pub(super) fn has_room_for(target: &Target, need: u64) -> bool {
    let words = target.words();
    let open = |&segment: &u32| {
        let is_open = matches!(words.segment(segment).load(), State::Open(_));
        is_open && has_room(target, segment, need)
    };
    let free = target.count(|state| state == State::Free);
    free > RESERVE || (free == RESERVE && (0..target.segment_count()).any(|s| open(&s)))
}

/// Dead segments that views keep.
pub(super) fn viewed(target: &Target) -> usize {
    let words = target.words();
    let dead = |&segment: &u32| words.segment(segment).load() == State::Dead;
    (0..target.segment_count()).filter(dead).filter(|&segment| target.is_viewed(segment)).count()
}

fn full(target: &Target, need: u64) -> Error {
    let remedy = match viewed(target) {
        0 => "delete something, or make a larger pool".to_owned(),
        count => format!("views keep {count} that are empty: drop those, or make a larger pool"),
    };
    let (number, free) = (target.number(), free_elsewhere(target));
    let elsewhere = match free {
        0 => String::new(),
        _ => format!(", though others have {free} bytes free"),
    };
    let text =
        format!("target {number} has no segment with room for {need} bytes{elsewhere}: {remedy}");
    Error::new(ErrorKind::NoSpace, text)
}

/// Bytes free on the other targets of the pool, as far as that can be told.
fn free_elsewhere(target: &Target) -> u64 {
    let pool = target.pool();
    let others = pool.iter().flat_map(|pool| &pool.targets);
    let others = others.filter(|other| other.number() != target.number());
    others.filter_map(|other| other.free_data_bytes().ok()).sum()
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
    // Others took some meanwhile: of those who take the last ones, at least one sees it.
    fence(Ordering::SeqCst);
    if target.count(|state| state == State::Free) < keep {
        words.segment(taken).change(mine, State::Free);
        return None;
    }
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
