//! Connections whose client has not proved itself yet: a bounded number. If there are too many, the one that has been
//! silent for longest makes room, so that those who keep connections open without speaking keep nobody out.
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Connections of one engine whose client has not proved itself yet. Others wait in the network.
pub const STRANGERS_MAX: usize = 1024;

/// How long the client of a connection may take to prove itself while others wait for its place.
pub const STRANGER_GRACE: Duration = Duration::from_secs(1);

/// The connections of an engine that are in their handshake.
pub(crate) struct Strangers {
    places: Arc<Semaphore>,
    present: Arc<Present>,
}

/// Those that have a place, oldest first.
#[derive(Default)]
struct Present(Mutex<Known>);

#[derive(Default)]
struct Known {
    by_number: BTreeMap<u64, Arc<Stranger>>,
    last: u64,
}

struct Stranger {
    since: Instant,
    leave: Notify,
}

impl Present {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one connection, until it is dropped.
pub(crate) struct Place {
    number: u64,
    stranger: Arc<Stranger>,
    present: Arc<Present>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Place {
    /// When the connection got it.
    pub(crate) fn since(&self) -> Instant {
        self.stranger.since
    }

    /// Waits until the connection must make room for another one.
    pub(crate) async fn must_leave(&self) {
        self.stranger.leave.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.present.known().by_number.remove(&self.number);
    }
}

impl Strangers {
    pub(crate) fn new() -> Self {
        Self { places: Arc::new(Semaphore::new(STRANGERS_MAX)), present: Arc::default() }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.present.known().by_number.len()
    }

    /// Waits for a place. After [`STRANGER_GRACE`], the connection that has had one for longest loses it.
    pub(crate) async fn enter(&self) -> Place {
        let place = || Arc::clone(&self.places).acquire_owned();
        let permit = match timeout_at(self.patience(), place()).await {
            Ok(permit) => permit,
            Err(_) => {
                self.send_away();
                place().await
            }
        };
        // The semaphore is never closed.
        self.place(permit.ok())
    }

    /// Until when a newcomer waits.
    fn patience(&self) -> Instant {
        let known = self.present.known();
        let oldest = known.by_number.first_key_value().map(|(_, stranger)| stranger.since);
        oldest.unwrap_or_else(Instant::now) + STRANGER_GRACE
    }

    fn send_away(&self) {
        if let Some((_, oldest)) = self.present.known().by_number.pop_first() {
            oldest.leave.notify_one();
        }
    }

    fn place(&self, permit: Option<OwnedSemaphorePermit>) -> Place {
        let stranger = Arc::new(Stranger { since: Instant::now(), leave: Notify::new() });
        let mut known = self.present.known();
        known.last += 1;
        let number = known.last;
        known.by_number.insert(number, Arc::clone(&stranger));
        drop(known);
        Place { number, stranger, present: Arc::clone(&self.present), _permit: permit }
    }
}
