//! Getting hold of a segment to append to.
use super::State;
use super::compact::MadeRoom;
use super::patience::Patience;
use super::table::{RESERVE, Segments};
use crate::control::ProcessSlot;
use crate::sync::{AtomicUsize, Mutex, MutexGuard};
use crate::target::Target;
use esker_types::{Error, ErrorKind, Result};
use std::sync::atomic::Ordering;
use std::sync::{PoisonError, TryLockError};

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
        let lanes = (0..count.max(1)).map(|_| Mutex::new(Held::default())).collect();
        let (compaction, compacting) = (Mutex::new(Held::default()), Mutex::new(()));
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
    fn at_rest(&self, process: ProcessSlot) -> State {
        State::Open(self.may_collect.then_some(process))
    }

    /// The lane's segment, made busy; `None` where it has none or lost it.
    pub(crate) fn take(&mut self, table: &Segments<'_>) -> Option<u32> {
        let segment = self.held.segment?;
        let (open, busy) = (self.at_rest(table.process), State::Busy(table.process));
        self.busy = self.busy || table.segment(segment).change(open, busy);
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
            false => target.table().take_for_compaction(need).ok_or_else(|| full(target, need)),
        };
        self.keep(segment?);
        Ok(())
    }

    /// From now on the lane has this segment, which is busy.
    pub(super) fn keep(&mut self, segment: u32) {
        self.held.segment = Some(segment);
        self.busy = true;
    }

    /// Lets go of the lane's segment; it stays the lane's until somebody else needs it.
    pub(crate) fn release(&mut self, table: &Segments<'_>) {
        if let Some(segment) = self.held.segment.filter(|_| self.busy) {
            let (busy, open) = (State::Busy(table.process), self.at_rest(table.process));
            table.segment(segment).change(busy, open);
        }
        self.busy = false;
    }
}

/// A segment to append to. What has died is freed first: its memory is warm, where that of a segment
/// never used may cost ten times as much to write.
fn claim_anywhere(target: &Target, need: u64, keeping: bool) -> Result<u32> {
    if let Some(segment) = target.table().spare(need, Segments::abandoned) {
        return Ok(segment);
    }
    target.recycle()?;
    if let Some(segment) = target.table().search(need) {
        return Ok(segment);
    }
    while target.take_back(false)? {
        if let Some(segment) = target.table().search(need) {
            return Ok(segment);
        }
    }
    let mut patience = Patience::new(keeping);
    loop {
        target.collect()?;
        let found =
            target.table().search(need).or_else(|| target.table().spare(need, Segments::steal));
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
        false => target.table().take_free(RESERVE).ok_or_else(|| full(target, bytes)),
    }
}

/// Where nothing is free because views keep what is dead, the reserve comes back with it.
fn last_resort(target: &Target, need: u64) -> Option<u32> {
    let kept = viewed(target) > 0;
    let table = target.table();
    kept.then(|| table.abandoned(need).or_else(|| table.steal(need))).flatten()
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
