//! The segment table of a target: how processes claim and release segments through shared atomics.
use crate::shared::control::{ProcessSlot, SEGMENT_LEN, SegmentAtomics};
use crate::sync::{AtomicU64, fence};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Free segments that are kept for compaction: without one, a full target could never be compacted.
pub(crate) const RESERVE: usize = 1;

/// The segments of a target, as one process uses them.
pub(crate) struct Segments<'c> {
    pub(crate) atomics: &'c [AtomicU64],
    pub(crate) process: ProcessSlot,
    /// Bytes of a segment.
    pub(crate) bytes: u64,
}

impl<'c> Segments<'c> {
    pub(crate) fn segment(&self, number: u32) -> SegmentAtomics<'c> {
        SegmentAtomics::from_table(self.atomics, number)
    }

    fn numbers(&self) -> Range<u32> {
        0..(self.atomics.len() / SEGMENT_LEN) as u32
    }

    /// State of a segment that this process writes to.
    fn mine(&self) -> SegmentState {
        SegmentState::Busy(self.process)
    }

    /// Number of segments in such a state.
    fn count(&self, is_wanted: impl Fn(SegmentState) -> bool) -> usize {
        self.numbers().filter(|&number| is_wanted(self.segment(number).load())).count()
    }

    fn count_free(&self) -> usize {
        self.count(|state| state == SegmentState::Free)
    }

    fn has_room(&self, number: u32, need: u64) -> bool {
        need <= self.bytes - self.segment(number).tail_in(self.bytes)
    }

    /// True if the reserve is free.
    pub(crate) fn has_reserve(&self) -> bool {
        self.count_free() >= RESERVE
    }

    /// True if a claim of `need` bytes would succeed at once.
    pub(crate) fn has_room_for(&self, need: u64) -> bool {
        let is_open = |number| matches!(self.segment(number).load(), SegmentState::Open(_));
        let has_open =
            || self.numbers().any(|number| is_open(number) && self.has_room(number, need));
        let free = self.count_free();
        free > RESERVE || (free == RESERVE && has_open())
    }

    /// Takes a segment that is open without an owner, or free.
    pub(crate) fn search(&self, need: u64) -> Option<u32> {
        self.spare(need, Self::abandoned).or_else(|| self.take_free(RESERVE))
    }

    /// Takes an open segment, unless the reserve is in use: then open ones with room are left to compaction, or
    /// nothing would ever become free. If the reserve came into use meanwhile, the segment is given back.
    pub(crate) fn spare(&self, need: u64, take: fn(&Self, u64) -> Option<u32>) -> Option<u32> {
        if !self.has_reserve() {
            return None;
        }
        let taken = take(self, need)?;
        fence(Ordering::SeqCst);
        if !self.has_reserve() {
            self.segment(taken).store(SegmentState::Open(None));
            return None;
        }
        Some(taken)
    }

    /// Takes an open segment, so that half empty segments are joined, else a free one, including the reserve.
    pub(crate) fn take_for_compaction(&self, need: u64) -> Option<u32> {
        self.abandoned(need).or_else(|| self.steal(need)).or_else(|| self.take_free(0))
    }

    /// Takes an open segment without an owner.
    pub(crate) fn abandoned(&self, need: u64) -> Option<u32> {
        self.numbers().find(|&number| {
            self.has_room(number, need)
                && self.segment(number).change(SegmentState::Open(None), self.mine())
        })
    }

    /// Takes an open segment from an owner that is not writing: the only way if many processes have one each and none
    /// is free.
    pub(crate) fn steal(&self, need: u64) -> Option<u32> {
        self.numbers().find(|&number| {
            let atomics = self.segment(number);
            let state = atomics.load();
            let stealable =
                matches!(state, SegmentState::Open(Some(_))) && self.has_room(number, need);
            stealable && atomics.change(state, self.mine())
        })
    }

    /// Takes the free segment that was freed last, whose pages are likely in memory, unless only `keep` are left.
    pub(crate) fn take_free(&self, keep: usize) -> Option<u32> {
        let mut free: Vec<(u64, u32)> = self
            .numbers()
            .filter(|&number| self.segment(number).load() == SegmentState::Free)
            .map(|number| (self.segment(number).stamp.load(Ordering::Relaxed), number))
            .collect();
        free.sort_unstable_by_key(|&(stamp, number)| (std::cmp::Reverse(stamp), number));
        let available = free.len().saturating_sub(keep);
        let mut numbers = free[..available].iter().map(|&(_, number)| number);
        let taken =
            numbers.find(|&number| self.segment(number).change(SegmentState::Free, self.mine()))?;
        // Others took some meanwhile: at least one of those who took the last ones sees it.
        fence(Ordering::SeqCst);
        if self.count_free() < keep {
            self.segment(taken).change(self.mine(), SegmentState::Free);
            return None;
        }
        self.segment(taken).begin();
        Some(taken)
    }

    /// Releases a segment that is busy for this process: open for smaller extents, or sealed if there is hardly any
    /// room.
    pub(crate) fn leave(&self, number: u32) {
        let atomics = self.segment(number);
        let next = SegmentState::left_with(atomics.tail.load(Ordering::Acquire), self.bytes);
        atomics.change(self.mine(), next);
    }
}

/// State of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentState {
    /// It is empty.
    Free,
    /// Partly filled; its owner, if any, is not writing.
    Open(Option<ProcessSlot>),
    /// Its owner is writing to it, or compacting it.
    Busy(ProcessSlot),
    /// Full: nothing is appended any more.
    Sealed,
    /// Nothing in it is live, but readers of old states may still read it.
    Dead,
    /// Its space is lent to the index.
    Lent,
}

const NOBODY: u32 = u32::MAX;

impl SegmentState {
    fn to_word(self) -> u64 {
        let (tag, owner) = match self {
            Self::Free => (0, NOBODY),
            Self::Open(owner) => (1, owner.map_or(NOBODY, |slot| slot.0)),
            Self::Busy(owner) => (2, owner.0),
            Self::Sealed => (3, NOBODY),
            Self::Dead => (4, NOBODY),
            Self::Lent => (5, NOBODY),
        };
        tag << 32 | u64::from(!owner)
    }

    fn from_word(word: u64) -> Self {
        let owner = !(word as u32);
        let slot = ProcessSlot(owner);
        match (word >> 32, owner) {
            (0, NOBODY) => Self::Free,
            (1, _) => Self::Open((owner != NOBODY).then_some(slot)),
            (2, _) => Self::Busy(slot),
            (4, NOBODY) => Self::Dead,
            (5, NOBODY) => Self::Lent,
            // A damaged word: nothing is written to the segment, and no change of its state succeeds.
            _ => Self::Sealed,
        }
    }

    /// State of a segment whose owner leaves it with `tail` of its `size` bytes used. With less than one sixteenth
    /// left, hardly anything would ever fit.
    pub(crate) fn left_with(tail: u64, size: u64) -> Self {
        match tail {
            0 => Self::Free,
            _ if size - tail.min(size) < size / 16 => Self::Sealed,
            _ => Self::Open(None),
        }
    }

    /// The process that owns it.
    pub(crate) fn owner(self) -> Option<ProcessSlot> {
        match self {
            Self::Open(owner) => owner,
            Self::Busy(owner) => Some(owner),
            _ => None,
        }
    }
}

impl SegmentAtomics<'_> {
    /// Loads the state.
    pub(crate) fn load(&self) -> SegmentState {
        SegmentState::from_word(self.state.load(Ordering::Acquire))
    }

    /// Bytes appended so far, in a segment of `size` bytes: a damaged word may say more.
    pub(crate) fn tail_in(&self, size: u64) -> u64 {
        self.tail.load(Ordering::Acquire).min(size)
    }

    /// Stores the state; only its owner, or the holder of the setup lock, may.
    pub(crate) fn store(&self, state: SegmentState) {
        self.state.store(state.to_word(), Ordering::Release);
    }

    /// Changes the state if it is still `from`; true if it was.
    pub(crate) fn change(&self, from: SegmentState, to: SegmentState) -> bool {
        let (from, to) = (from.to_word(), to.to_word());
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Resets a free segment before its first bytes.
    pub(crate) fn begin(&self) {
        self.tail.store(0, Ordering::Release);
        self.published.store(0, Ordering::Release);
        self.stamp.store(0, Ordering::Release);
    }

    /// Frees a segment that nobody else can touch.
    pub(crate) fn make_free(&self, stamp: u64) {
        self.tail.store(0, Ordering::Release);
        self.published.store(0, Ordering::Release);
        self.stamp.store(stamp, Ordering::Release);
        self.store(SegmentState::Free);
    }

    /// Number of live bytes of data, given the number of dead ones.
    pub(crate) fn live(&self, dead: u64) -> u64 {
        self.published.load(Ordering::Acquire).saturating_sub(dead)
    }
}

/// What processes that share a segment table rely on, under every order they may run in.
#[cfg(all(loom, test))]
mod models {
    use super::*;
    use crate::shard::segment::claim::AppendSlots;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    const BYTES: u64 = 1000;

    /// A segment table, and the data of its segments.
    #[derive(Clone)]
    struct Model {
        atomics: Arc<Vec<AtomicU64>>,
        data: Arc<Vec<UnsafeCell<()>>>,
    }

    impl Model {
        fn new(states: &[SegmentState]) -> Self {
            let atomics = (0..states.len() * SEGMENT_LEN).map(|_| AtomicU64::new(0)).collect();
            let data = states.iter().map(|_| UnsafeCell::new(())).collect();
            let model = Self { atomics: Arc::new(atomics), data: Arc::new(data) };
            for (number, state) in (0..).zip(states) {
                model.of(0).segment(number).store(*state);
            }
            model
        }

        fn of(&self, process: u32) -> Segments<'_> {
            Segments { atomics: &self.atomics, process: ProcessSlot(process), bytes: BYTES }
        }

        /// Appends to a segment; loom ends the model where somebody else does so meanwhile.
        fn append(&self, number: u32) {
            self.data[number as usize].with_mut(|_| ());
            let tail = self.of(0).segment(number).tail;
            tail.store(tail.load(Ordering::Relaxed) + 10, Ordering::Release);
        }

        fn beside<T: 'static>(
            &self,
            work: impl FnOnce(&Self) -> T + 'static,
        ) -> thread::JoinHandle<T> {
            let model = self.clone();
            thread::spawn(move || work(&model))
        }
    }

    /// One process at a time writes to a segment, whoever it belonged to before, and sees what others wrote to it.
    #[test]
    fn a_segment_is_written_to_by_one_process() {
        loom::model(|| {
            let model = Model::new(&[SegmentState::Free]);
            let steals = model.beside(|model| {
                let table = model.of(2);
                let taken = table.steal(10).into_iter().chain(table.abandoned(10));
                taken.for_each(|number| {
                    model.append(number);
                    table.leave(number);
                });
            });
            let (append_slots, table) = (AppendSlots::new(1), model.of(1));
            let mut slot = append_slots.enter();
            slot.keep(table.take_free(0).unwrap());
            for _ in 0..2 {
                slot.take(&table).into_iter().for_each(|number| model.append(number));
                slot.release(&table);
            }
            steals.join().unwrap();
        });
    }

    /// One free segment stays for compaction, even where a process has seen as free what was taken and freed while it
    /// looked.
    #[test]
    fn the_reserve_is_taken_by_nobody() {
        loom::model(|| {
            let model = Model::new(&[
                SegmentState::Free,
                SegmentState::Busy(ProcessSlot(1)),
                SegmentState::Free,
            ]);
            [0, 2]
                .into_iter()
                .for_each(|number| model.of(1).segment(number).make_free(5 - u64::from(number)));
            let other = model.beside(|model| model.of(2).take_free(RESERVE));
            let table = model.of(1);
            let first = table.take_free(RESERVE);
            table.segment(1).make_free(6);
            let second = table.take_free(RESERVE);
            let third = other.join().unwrap();
            assert!(table.has_reserve(), "{first:?} {second:?} {third:?}");
        });
    }

    /// Compaction finds a place while others look for what they may take.
    #[test]
    fn compaction_finds_a_place() {
        loom::model(|| {
            let model = Model::new(&[SegmentState::Open(None), SegmentState::Free]);
            let other = model.beside(|model| {
                let taken = model.of(2).search(10);
                taken.into_iter().for_each(|number| model.append(number));
                taken
            });
            let mine = model.of(1).take_for_compaction(10);
            mine.into_iter().for_each(|number| model.append(number));
            let theirs = other.join().unwrap();
            assert!(mine.is_some() && mine != theirs);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_come_back_and_zero_is_free() {
        let slot = ProcessSlot(7);
        use SegmentState::*;
        for state in [Free, Open(None), Open(Some(slot)), Busy(slot), Sealed, Dead, Lent] {
            assert_eq!(SegmentState::from_word(state.to_word()), state);
        }
        assert_eq!(Free.to_word(), 0);
        for word in [1, 6 << 32, u64::MAX, 4 << 32 | 7, 1 << 63] {
            assert_eq!(SegmentState::from_word(word), Sealed, "{word:x}");
        }
    }
}
