//! Ids of changes in progress on one node, so that a repeated request is applied once.
use esker_types::Result;
use esker_types::ops::ChangeId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Changes in progress on one node; others wait.
pub const CHANGES_MAX: usize = 256;

/// The slots of a session with one node.
pub(crate) struct Slots {
    /// Random number of this client.
    session: u64,
    free: Mutex<Free>,
    /// Permits for changes in progress.
    turns: Semaphore,
}

/// Free slots, the lowest first, and the total number of slots.
#[derive(Default)]
struct Free {
    /// Each with the sequence number of its next change.
    slots: BinaryHeap<Reverse<(u16, u64)>>,
    /// Number of slots so far.
    made: u16,
}

/// An id for one change. Its slot is free again when this is dropped; a copy that is still in progress then is refused.
pub(crate) struct Slot<'s> {
    slots: &'s Slots,
    pub(crate) id: ChangeId,
    _turn: Option<SemaphorePermit<'s>>,
}

impl Slots {
    /// Starts a session with a random number, which has no slots yet.
    pub(crate) fn new() -> Result<Self> {
        let session = u64::from_le_bytes(esker_os::random_bytes()?);
        Ok(Self { session, free: Mutex::default(), turns: Semaphore::new(CHANGES_MAX) })
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the random number that identifies this session to the node.
    pub(crate) fn session(&self) -> u64 {
        self.session
    }

    /// Waits until fewer changes are in flight than there are slots, and takes the lowest free one, so that few are
    /// ever used.
    pub(crate) async fn take(&self) -> Slot<'_> {
        // The semaphore is never closed.
        let turn = self.turns.acquire().await.ok();
        let mut free = self.free();
        let (slot, sequence) = match free.slots.pop() {
            Some(Reverse(lowest)) => lowest,
            None => {
                free.made += 1;
                (free.made - 1, 1)
            }
        };
        let id = ChangeId { session: self.session, slot, sequence };
        Slot { slots: self, id, _turn: turn }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let ChangeId { slot, sequence, .. } = self.id;
        self.slots.free().slots.push(Reverse((slot, sequence + 1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_os::executor::block_on;

    #[test]
    fn the_lowest_free_slot_is_used_with_a_number_that_grows() {
        let slots = Slots::new().unwrap();
        let [first, second] = [block_on(slots.take()), block_on(slots.take())];
        assert_eq!((first.id.slot, second.id.slot, first.id.sequence), (0, 1, 1));
        drop(second);
        drop(first);
        let again = block_on(slots.take());
        assert_eq!((again.id.slot, again.id.sequence), (0, 2));
    }
}
