//! States of a segment and who owns it, in one atomic word.
use crate::control::{ProcessSlot, SegmentWords};
use std::sync::atomic::Ordering;

/// What a segment is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing in it.
    Free,
    /// Partly filled; its owner, if it has one, is not writing.
    Open(Option<ProcessSlot>),
    /// Its owner is writing to it, or moving data out of it.
    Busy(ProcessSlot),
    /// Full.
    Sealed,
    /// Nothing in it is alive; readers of the past may still look.
    Dead,
    /// The index has its space.
    Lent,
}

const NOBODY: u32 = u32::MAX;

impl State {
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
        match word >> 32 {
            1 => Self::Open((owner != NOBODY).then_some(slot)),
            2 => Self::Busy(slot),
            3 => Self::Sealed,
            4 => Self::Dead,
            5 => Self::Lent,
            _ => Self::Free,
        }
    }

    /// What a segment becomes whose owner leaves it with `tail` of its `size` bytes used: with less than one
    /// in sixteen left, hardly anything would ever fit.
    pub(crate) fn left_with(tail: u64, size: u64) -> Self {
        match tail {
            0 => Self::Free,
            _ if size - tail.min(size) < size / 16 => Self::Sealed,
            _ => Self::Open(None),
        }
    }

    /// The process it belongs to.
    pub(crate) fn owner(self) -> Option<ProcessSlot> {
        match self {
            Self::Open(owner) => owner,
            Self::Busy(owner) => Some(owner),
            _ => None,
        }
    }
}

impl SegmentWords<'_> {
    /// What the segment is doing.
    pub(crate) fn load(&self) -> State {
        State::from_word(self.state.load(Ordering::Acquire))
    }

    /// Changes the state; only its owner (or whoever holds the setup lock) may.
    pub(crate) fn store(&self, state: State) {
        self.state.store(state.to_word(), Ordering::Release);
    }

    /// Changes the state if it is still `from`.
    pub(crate) fn change(&self, from: State, to: State) -> bool {
        let (from, to) = (from.to_word(), to.to_word());
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Prepares a segment that was free for its first bytes.
    pub(super) fn begin(&self) {
        self.tail.store(0, Ordering::Release);
        self.published.store(0, Ordering::Release);
        self.stamp.store(0, Ordering::Release);
    }

    /// Frees a segment that nobody else can touch.
    pub(super) fn make_free(&self, stamp: u64) {
        self.tail.store(0, Ordering::Release);
        self.published.store(0, Ordering::Release);
        self.stamp.store(stamp, Ordering::Release);
        self.store(State::Free);
    }

    /// Bytes of data alive in it, given how many are dead.
    pub(crate) fn live(&self, dead: u64) -> u64 {
        self.published.load(Ordering::Acquire).saturating_sub(dead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_come_back_and_zero_is_free() {
        let slot = ProcessSlot(7);
        use State::*;
        for state in [Free, Open(None), Open(Some(slot)), Busy(slot), Sealed, Dead, Lent] {
            assert_eq!(State::from_word(state.to_word()), state);
        }
        assert_eq!(Free.to_word(), 0);
    }
}
