//! The segment table of a target: how a process gets hold of a segment by the words that all of them share.
#[cfg(all(loom, test))]
mod models;

use super::State;
use crate::control::{ProcessSlot, SEGMENT_WORDS, SegmentWords};
use crate::sync::{AtomicU64, fence};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Free segments kept back for compaction: without one, a full target could never be compacted.
pub(crate) const RESERVE: usize = 1;

/// The segments of a target, as one process works on them.
pub(crate) struct Segments<'c> {
    pub(crate) words: &'c [AtomicU64],
    pub(crate) process: ProcessSlot,
    /// Bytes of a segment.
    pub(crate) bytes: u64,
}

impl<'c> Segments<'c> {
    pub(crate) fn segment(&self, number: u32) -> SegmentWords<'c> {
        SegmentWords::of(self.words, number)
    }

    fn numbers(&self) -> Range<u32> {
        0..(self.words.len() / SEGMENT_WORDS) as u32
    }

    /// What a segment is that this process writes to.
    fn mine(&self) -> State {
        State::Busy(self.process)
    }

    /// Number of segments in such a state.
    fn count(&self, is_wanted: impl Fn(State) -> bool) -> usize {
        self.numbers().filter(|&number| is_wanted(self.segment(number).load())).count()
    }

    fn count_free(&self) -> usize {
        self.count(|state| state == State::Free)
    }

    fn has_room(&self, number: u32, need: u64) -> bool {
        self.segment(number).tail.load(Ordering::Acquire) + need <= self.bytes
    }

    /// True where the segment kept back for compaction is free.
    pub(crate) fn has_reserve(&self) -> bool {
        self.count_free() >= RESERVE
    }

    /// True where a claim of `need` bytes finds something.
    pub(super) fn has_room_for(&self, need: u64) -> bool {
        let is_open = |number| matches!(self.segment(number).load(), State::Open(_));
        let has_open =
            || self.numbers().any(|number| is_open(number) && self.has_room(number, need));
        let free = self.count_free();
        free > RESERVE || (free == RESERVE && has_open())
    }

    /// What is left open, or free.
    pub(super) fn search(&self, need: u64) -> Option<u32> {
        self.spare(need, Self::abandoned).or_else(|| self.take_free(RESERVE))
    }

    /// As long as the reserve is in use, what is open with room is left to compaction: without it nothing
    /// would ever become free. It may have come into use meanwhile: then what was taken is given back.
    pub(super) fn spare(&self, need: u64, take: fn(&Self, u64) -> Option<u32>) -> Option<u32> {
        if !self.has_reserve() {
            return None;
        }
        let taken = take(self, need)?;
        fence(Ordering::SeqCst);
        if !self.has_reserve() {
            self.segment(taken).store(State::Open(None));
            return None;
        }
        Some(taken)
    }

    /// What is open first, so that segments half empty are joined; the reserve last.
    pub(super) fn take_for_compaction(&self, need: u64) -> Option<u32> {
        self.abandoned(need).or_else(|| self.steal(need)).or_else(|| self.take_free(0))
    }

    /// Takes an open segment that belongs to nobody.
    pub(super) fn abandoned(&self, need: u64) -> Option<u32> {
        self.numbers().find(|&number| {
            self.has_room(number, need)
                && self.segment(number).change(State::Open(None), self.mine())
        })
    }

    /// Takes an open segment from an owner that is not writing right now: the only way when many
    /// processes hold one each and none is free.
    pub(super) fn steal(&self, need: u64) -> Option<u32> {
        self.numbers().find(|&number| {
            let words = self.segment(number);
            let state = words.load();
            let stealable = matches!(state, State::Open(Some(_))) && self.has_room(number, need);
            stealable && words.change(state, self.mine())
        })
    }

    /// Takes the free segment that was freed last, for its pages are warm, unless only `keep` are left.
    pub(super) fn take_free(&self, keep: usize) -> Option<u32> {
        let mut free: Vec<(u64, u32)> = self
            .numbers()
            .filter(|&number| self.segment(number).load() == State::Free)
            .map(|number| (self.segment(number).stamp.load(Ordering::Relaxed), number))
            .collect();
        free.sort_unstable_by_key(|&(stamp, number)| (std::cmp::Reverse(stamp), number));
        let available = free.len().saturating_sub(keep);
        let mut numbers = free[..available].iter().map(|&(_, number)| number);
        let taken =
            numbers.find(|&number| self.segment(number).change(State::Free, self.mine()))?;
        // Others took some meanwhile: of those who take the last ones, at least one sees it.
        fence(Ordering::SeqCst);
        if self.count_free() < keep {
            self.segment(taken).change(self.mine(), State::Free);
            return None;
        }
        self.segment(taken).begin();
        Some(taken)
    }

    /// Lets go of a segment that is busy on behalf of this process: to be appended to by whoever finds room
    /// for what is smaller, or sealed where there is hardly any.
    pub(crate) fn leave(&self, number: u32) {
        let words = self.segment(number);
        let next = State::left_with(words.tail.load(Ordering::Acquire), self.bytes);
        words.change(self.mine(), next);
    }
}
