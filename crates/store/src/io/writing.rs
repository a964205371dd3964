//! Whether a thread holds, or waits for, what it needs to change an index.
//!
//! A program may end in a signal handler. What the thread was doing then does not go on, so whatever it holds is
//! not to be waited for.
use std::cell::Cell;

thread_local! {
    static HOLDS: Cell<u32> = const { Cell::new(0) };
}

/// What the calling thread holds, or is about to.
pub(crate) struct Writing(());

impl Writing {
    /// Call before waiting for it.
    pub(crate) fn begin() -> Self {
        HOLDS.with(|holds| holds.set(holds.get() + 1));
        Self(())
    }

    /// True if the calling thread holds anything.
    pub(crate) fn is_here() -> bool {
        HOLDS.with(Cell::get) > 0
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // Not below zero, even if another thread ends what this one began.
        HOLDS.with(|holds| holds.set(holds.get().saturating_sub(1)));
    }
}
