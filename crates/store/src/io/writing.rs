//! Guard for threads that hold, or wait for, a lock for changing an index.
//!
//! A program may end in a signal handler. Then the interrupted code of that thread does not continue, so the handler
//! must not wait for a lock that the thread holds.
use std::cell::Cell;

thread_local! {
    static HOLDS: Cell<u32> = const { Cell::new(0) };
}

/// Marks a lock that the calling thread holds or is about to take.
pub(crate) struct Writing(());

impl Writing {
    /// Call this before waiting for the lock.
    pub(crate) fn begin() -> Self {
        HOLDS.with(|holds| holds.set(holds.get() + 1));
        Self(())
    }

    /// True if the calling thread holds or waits for such a lock.
    pub(crate) fn is_in_progress() -> bool {
        HOLDS.with(Cell::get) > 0
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // Saturates at zero, since another thread may end what this one began.
        HOLDS.with(|holds| holds.set(holds.get().saturating_sub(1)));
    }
}
