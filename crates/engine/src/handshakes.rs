//! Connections whose client has not authenticated yet: at most [`HANDSHAKES_MAX`]. If more arrive, the oldest of them
//! is closed, so that clients that keep silent connections open cannot keep others out.
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Unauthenticated connections that one engine accepts. Further connections wait in the listen queue.
pub const HANDSHAKES_MAX: usize = 1024;

/// Handshake timeout of a client while other connections wait for its slot.
pub const HANDSHAKE_GRACE: Duration = Duration::from_secs(1);

/// The connections of an engine that are in their handshake.
pub(crate) struct Handshakes {
    slots: Arc<Semaphore>,
    present: Arc<Present>,
}

/// The connections that have a slot, oldest first.
#[derive(Default)]
struct Present(Mutex<Pending>);

#[derive(Default)]
struct Pending {
    /// Handshakes by number. Numbers grow with time, so the first one is the oldest.
    by_number: BTreeMap<u64, Arc<Handshake>>,
    /// Number of the last handshake.
    last: u64,
}

struct Handshake {
    since: Instant,
    /// Notified when the connection must leave.
    leave: Notify,
}

impl Present {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The slot of one connection in its handshake, until it is dropped.
pub(crate) struct Slot {
    number: u64,
    handshake: Arc<Handshake>,
    present: Arc<Present>,
    /// `Some`, as the semaphore is never closed. It is returned when the slot is dropped.
    _permit: Option<OwnedSemaphorePermit>,
}

impl Slot {
    /// The time at which the connection got its slot.
    pub(crate) fn since(&self) -> Instant {
        self.handshake.since
    }

    /// Waits until the engine asks this connection to leave, because a new one needs its slot.
    pub(crate) async fn must_leave(&self) {
        self.handshake.leave.notified().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.present.pending().by_number.remove(&self.number);
    }
}

impl Handshakes {
    pub(crate) fn new() -> Self {
        Self { slots: Arc::new(Semaphore::new(HANDSHAKES_MAX)), present: Arc::default() }
    }

    /// Number of connections in their handshake.
    pub(crate) fn count(&self) -> usize {
        self.present.pending().by_number.len()
    }

    /// Waits for a slot. If none is free once the oldest handshake has lasted [`HANDSHAKE_GRACE`], that connection
    /// loses its slot.
    pub(crate) async fn enter(&self) -> Slot {
        let free = || Arc::clone(&self.slots).acquire_owned();
        let permit = match timeout_at(self.wait_deadline(), free()).await {
            Ok(permit) => permit,
            Err(_) => {
                self.evict_oldest();
                free().await
            }
        };
        // The semaphore is never closed.
        self.new_slot(permit.ok())
    }

    /// The time until which a new connection waits for a slot: [`HANDSHAKE_GRACE`] after the start of the oldest
    /// handshake.
    fn wait_deadline(&self) -> Instant {
        let pending = self.present.pending();
        let oldest = pending.by_number.first_key_value().map(|(_, handshake)| handshake.since);
        oldest.unwrap_or_else(Instant::now) + HANDSHAKE_GRACE
    }

    /// Ends the handshake that has lasted longest, to make room for another.
    fn evict_oldest(&self) {
        if let Some((_, oldest)) = self.present.pending().by_number.pop_first() {
            oldest.leave.notify_one();
        }
    }

    /// Adds a handshake to the list of those in progress. It is removed when the slot is dropped.
    fn new_slot(&self, permit: Option<OwnedSemaphorePermit>) -> Slot {
        let handshake = Arc::new(Handshake { since: Instant::now(), leave: Notify::new() });
        let mut pending = self.present.pending();
        pending.last += 1;
        let number = pending.last;
        pending.by_number.insert(number, Arc::clone(&handshake));
        drop(pending);
        Slot { number, handshake, present: Arc::clone(&self.present), _permit: permit }
    }
}
