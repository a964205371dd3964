//! Segment table of a target. Through its shared atomics, processes claim and release segments.
use crate::shared::control::{ProcessSlot, SEGMENT_LEN, SegmentAtomics};
use crate::sync::{AtomicU64, fence};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Number of free segments that are reserved for compaction. Without one, a full target could never be compacted.
pub(crate) const RESERVE: usize = 1;

/// The segment table of a target, as one process uses it.
pub(crate) struct Segments<'c> {
    pub(crate) atomics: &'c [AtomicU64],
    pub(crate) process: ProcessSlot,
    /// Bytes per segment.
    pub(crate) bytes: u64,
}

impl<'c> Segments<'c> {
    pub(crate) fn segment(&self, number: u32) -> SegmentAtomics<'c> {
        SegmentAtomics::from_table(self.atomics, number)
    }

    fn numbers(&self) -> Range<u32> {
        0..(self.atomics.len() / SEGMENT_LEN) as u32
    }

    /// State of a segment to which this process is appending.
    fn busy_state(&self) -> SegmentState {
        SegmentState::Busy(self.process)
    }

    /// Number of segments whose state satisfies a condition.
    fn count(&self, is_wanted: impl Fn(SegmentState) -> bool) -> usize {
        self.numbers().filter(|&number| is_wanted(self.segment(number).load())).count()
    }

    fn count_free(&self) -> usize {
        self.count(|state| state == SegmentState::Free)
    }

    fn has_room(&self, number: u32, need: u64) -> bool {
        need <= self.bytes - self.segment(number).tail_in(self.bytes)
    }

    /// True if the reserved number of segments is free.
    pub(crate) fn has_reserve(&self) -> bool {
        self.count_free() >= RESERVE
    }

    /// True if a claim of `need` bytes would succeed immediately.
    pub(crate) fn has_room_for(&self, need: u64) -> bool {
        let is_open = |number| matches!(self.segment(number).load(), SegmentState::Open(_));
        let has_open =
            || self.numbers().any(|number| is_open(number) && self.has_room(number, need));
        let free = self.count_free();
        free > RESERVE || (free == RESERVE && has_open())
    }

    /// Takes an open segment without an owner and with space for `need` bytes, or a free segment beyond the reserve.
    /// Returns its number; `None` if there is none.
    pub(crate) fn search(&self, need: u64) -> Option<u32> {
        self.take_open(need, Self::take_unowned).or_else(|| self.take_free(RESERVE))
    }

    /// Takes an open segment by `take`, unless the reserve is in use. Then open segments with space are left to
    /// compaction, since otherwise no segment would ever become free. If the reserve comes into use meanwhile, the
    /// segment is released again, and the result is `None`.
    pub(crate) fn take_open(&self, need: u64, take: fn(&Self, u64) -> Option<u32>) -> Option<u32> {
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

    /// Takes an open segment with space for `need` bytes, so that partly filled segments are merged. If there is none,
    /// takes a free segment, which may be the reserve. Returns its number; `None` if no segment could be taken.
    pub(crate) fn take_for_compaction(&self, need: u64) -> Option<u32> {
        self.take_unowned(need).or_else(|| self.steal(need)).or_else(|| self.take_free(0))
    }

    /// Takes an open segment without an owner that has space for `need` bytes, and makes it busy for this process.
    /// Returns its number; `None` if there is none.
    pub(crate) fn take_unowned(&self, need: u64) -> Option<u32> {
        self.numbers().find(|&number| {
            self.has_room(number, need)
                && self.segment(number).change(SegmentState::Open(None), self.busy_state())
        })
    }

    /// Takes an open segment with space for `need` bytes from an owner that is not writing, and makes it busy for this
    /// process. Returns its number; `None` if there is none. This is the only way if no segment is free and each of
    /// many processes has one.
    pub(crate) fn steal(&self, need: u64) -> Option<u32> {
        self.numbers().find(|&number| {
            let atomics = self.segment(number);
            let state = atomics.load();
            let stealable =
                matches!(state, SegmentState::Open(Some(_))) && self.has_room(number, need);
            stealable && atomics.change(state, self.busy_state())
        })
    }

    /// Takes the free segment that was freed last, since its pages are likely in memory, and makes it busy for this
    /// process. Returns `None` if fewer than `keep` segments would be free afterwards.
    pub(crate) fn take_free(&self, keep: usize) -> Option<u32> {
        let mut free: Vec<(u64, u32)> = self
            .numbers()
            .filter(|&number| self.segment(number).load() == SegmentState::Free)
            .map(|number| (self.segment(number).stamp.load(Ordering::Relaxed), number))
            .collect();
        free.sort_unstable_by_key(|&(stamp, number)| (std::cmp::Reverse(stamp), number));
        let available = free.len().saturating_sub(keep);
        let mut numbers = free[..available].iter().map(|&(_, number)| number);
        let taken = numbers
            .find(|&number| self.segment(number).change(SegmentState::Free, self.busy_state()))?;
        // Other processes may have taken segments meanwhile. At least one process that took the last ones sees that.
        fence(Ordering::SeqCst);
        if self.count_free() < keep {
            self.segment(taken).change(self.busy_state(), SegmentState::Free);
            return None;
        }
        self.segment(taken).begin();
        Some(taken)
    }

    /// Releases a segment that is busy for this process. It becomes open for smaller extents, or sealed if it is almost
    /// full.
    pub(crate) fn release(&self, number: u32) {
        let atomics = self.segment(number);
        let next = SegmentState::after_release(atomics.tail.load(Ordering::Acquire), self.bytes);
        atomics.change(self.busy_state(), next);
    }
}

/// State of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentState {
    /// The segment is empty.
    Free,
    /// Partly filled. The owner, if any, is not writing.
    Open(Option<ProcessSlot>),
    /// The owner is writing to it or compacting it.
    Busy(ProcessSlot),
    /// Full: nothing is appended to it.
    Sealed,
    /// It has no live data, but readers of old states may still read it.
    Dead,
    /// The index uses its space.
    Index,
}

const NOBODY: u32 = u32::MAX;

impl SegmentState {
    /// Encodes the state: its kind in the upper half of the word, its owner in the lower half.
    fn to_word(self) -> u64 {
        let (tag, owner) = match self {
            Self::Free => (0, NOBODY),
            Self::Open(owner) => (1, owner.map_or(NOBODY, |slot| slot.0)),
            Self::Busy(owner) => (2, owner.0),
            Self::Sealed => (3, NOBODY),
            Self::Dead => (4, NOBODY),
            Self::Index => (5, NOBODY),
        };
        // The owner is inverted, so that a word of zeros is a free segment.
        tag << 32 | u64::from(!owner)
    }

    /// Decodes a word from [`SegmentState::to_word`]. A damaged word counts as a sealed segment.
    fn from_word(word: u64) -> Self {
        let owner = !(word as u32);
        let slot = ProcessSlot(owner);
        match (word >> 32, owner) {
            (0, NOBODY) => Self::Free,
            (1, _) => Self::Open((owner != NOBODY).then_some(slot)),
            (2, _) => Self::Busy(slot),
            (4, NOBODY) => Self::Dead,
            (5, NOBODY) => Self::Index,
            // A damaged word. Nothing is written to the segment, and its state cannot be changed.
            _ => Self::Sealed,
        }
    }

    /// State of a segment that its owner releases with `tail` of its `size` bytes used. If less than one sixteenth is
    /// left, hardly any extent would fit.
    pub(crate) fn after_release(tail: u64, size: u64) -> Self {
        match tail {
            0 => Self::Free,
            _ if size - tail.min(size) < size / 16 => Self::Sealed,
            _ => Self::Open(None),
        }
    }

    /// The process that owns the segment, if any.
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

    /// Bytes appended so far, at most `size`, the size of the segment. A damaged word may be larger.
    pub(crate) fn tail_in(&self, size: u64) -> u64 {
        self.tail.load(Ordering::Acquire).min(size)
    }

    /// Stores the state. Only the owner, or the holder of the setup lock, may call this.
    pub(crate) fn store(&self, state: SegmentState) {
        self.state.store(state.to_word(), Ordering::Release);
    }

    /// Changes the state from `from` to `to`, by one compare-and-swap. Returns false, without a change, if the state is
    /// not `from`.
    pub(crate) fn change(&self, from: SegmentState, to: SegmentState) -> bool {
        let (from, to) = (from.to_word(), to.to_word());
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Resets the counters of a free segment before the first append.
    pub(crate) fn begin(&self) {
        self.tail.store(0, Ordering::Release);
        self.published.store(0, Ordering::Release);
        self.stamp.store(0, Ordering::Release);
    }

    /// Frees a segment that no other process can access. `stamp` counts the segments freed so far.
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

/// Models of processes that share a segment table, under every order of execution.
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
                model.as_process(0).segment(number).store(*state);
            }
            model
        }

        fn as_process(&self, process: u32) -> Segments<'_> {
            Segments { atomics: &self.atomics, process: ProcessSlot(process), bytes: BYTES }
        }

        /// Appends to a segment. Loom fails the model if another thread does so at the same time.
        fn append(&self, number: u32) {
            self.data[number as usize].with_mut(|_| ());
            let tail = self.as_process(0).segment(number).tail;
            tail.store(tail.load(Ordering::Relaxed) + 10, Ordering::Release);
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

    /// One process at a time writes to a segment, also after a change of the owner, and sees the data of earlier
    /// owners.
    #[test]
    fn segment_has_one_writer_at_a_time() {
        loom::model(|| {
            let model = Model::new(&[SegmentState::Free]);
            let steals = model.beside(|model| {
                let table = model.as_process(2);
                let taken = table.steal(10).into_iter().chain(table.take_unowned(10));
                taken.for_each(|number| {
                    model.append(number);
                    table.release(number);
                });
            });
            let (append_slots, table) = (AppendSlots::new(1), model.as_process(1));
            let mut slot = append_slots.enter();
            slot.set_segment(table.take_free(0).unwrap());
            for _ in 0..2 {
                slot.take(&table).into_iter().for_each(|number| model.append(number));
                slot.release(&table);
            }
            steals.join().unwrap();
        });
    }

    /// One free segment remains for compaction, even if a process counted a segment as free that was taken and freed
    /// meanwhile.
    #[test]
    fn reserve_remains_free_for_compaction() {
        loom::model(|| {
            let model = Model::new(&[
                SegmentState::Free,
                SegmentState::Busy(ProcessSlot(1)),
                SegmentState::Free,
            ]);
            [0, 2].into_iter().for_each(|number| {
                model.as_process(1).segment(number).make_free(5 - u64::from(number))
            });
            let other = model.beside(|model| model.as_process(2).take_free(RESERVE));
            let table = model.as_process(1);
            let first = table.take_free(RESERVE);
            table.segment(1).make_free(6);
            let second = table.take_free(RESERVE);
            let third = other.join().unwrap();
            assert!(table.has_reserve(), "{first:?} {second:?} {third:?}");
        });
    }

    /// Compaction finds a segment while another process takes one.
    #[test]
    fn compaction_finds_a_segment() {
        loom::model(|| {
            let model = Model::new(&[SegmentState::Open(None), SegmentState::Free]);
            let other = model.beside(|model| {
                let taken = model.as_process(2).search(10);
                taken.into_iter().for_each(|number| model.append(number));
                taken
            });
            let mine = model.as_process(1).take_for_compaction(10);
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
    fn states_round_trip_and_zero_is_free() {
        let slot = ProcessSlot(7);
        use SegmentState::*;
        for state in [Free, Open(None), Open(Some(slot)), Busy(slot), Sealed, Dead, Index] {
            assert_eq!(SegmentState::from_word(state.to_word()), state);
        }
        assert_eq!(Free.to_word(), 0);
        for word in [1, 6 << 32, u64::MAX, 4 << 32 | 7, 1 << 63] {
            assert_eq!(SegmentState::from_word(word), Sealed, "{word:x}");
        }
    }
}
