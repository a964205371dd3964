//! Admission of connections. A connection that has not yet sent a valid signature takes one of a few slots, for a short
//! time. So clients without a key cannot block clients with a key.
use crate::limits::UNAUTHENTICATED_MAX;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};

/// Connection slots of a server.
pub(crate) struct Places {
    authenticated: Arc<Semaphore>,
    unauthenticated: Arc<Semaphore>,
}

/// The slot of one connection. Clones share it.
#[derive(Clone)]
pub(crate) struct Admission(Arc<Place>);

/// Slot of a connection: one for unauthenticated connections, until it has one for authenticated connections.
struct Place {
    all: Arc<Semaphore>,
    is_authenticated: AtomicBool,
    unauthenticated: Mutex<Option<OwnedSemaphorePermit>>,
    authenticated: OnceCell<OwnedSemaphorePermit>,
}

impl Places {
    /// Slots for `connections` authenticated connections, and for [`UNAUTHENTICATED_MAX`] others.
    pub(crate) fn new(connections: usize) -> Self {
        Self {
            authenticated: Arc::new(Semaphore::new(connections)),
            unauthenticated: Arc::new(Semaphore::new(UNAUTHENTICATED_MAX)),
        }
    }

    /// Number of free slots for authenticated connections.
    pub(crate) fn free(&self) -> usize {
        self.authenticated.available_permits()
    }

    /// Waits for a slot for the next connection, which is unauthenticated yet. `None` if the slots are closed.
    pub(crate) async fn next(&self) -> Option<Admission> {
        let place = Arc::clone(&self.unauthenticated).acquire_owned().await.ok()?;
        Some(Admission(Arc::new(Place {
            all: Arc::clone(&self.authenticated),
            is_authenticated: AtomicBool::new(false),
            unauthenticated: Mutex::new(Some(place)),
            authenticated: OnceCell::new(),
        })))
    }
}

impl Admission {
    /// Marks the connection as authenticated after a valid signature: waits for a slot of that kind, and then returns
    /// the other one. Further calls have no effect.
    pub(crate) async fn admit(&self) {
        let place = &*self.0;
        place.is_authenticated.store(true, Ordering::Relaxed);
        let acquire = || Arc::clone(&place.all).acquire_owned();
        if place.authenticated.get_or_try_init(acquire).await.is_ok() {
            drop(place.unauthenticated.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
    }

    /// Returns after `limit`, the handshake timeout, unless the connection has authenticated. Then it never returns, so
    /// that only other events end the connection.
    pub(crate) async fn expire(&self, limit: Duration) {
        tokio::time::sleep(limit).await;
        if self.0.is_authenticated.load(Ordering::Relaxed) {
            pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn connection_expires_unless_it_authenticates() {
        let places = Places::new(1);
        let (silent, known) = (places.next().await.unwrap(), places.next().await.unwrap());
        known.admit().await;
        assert!(timeout(2 * LIMIT, silent.expire(LIMIT)).await.is_ok());
        assert!(timeout(2 * LIMIT, known.expire(LIMIT)).await.is_err());
        assert_eq!(places.free(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn unauthenticated_connections_have_slots_of_their_own() {
        let places = Places::new(1);
        let mut silent = Vec::new();
        for _ in 0..UNAUTHENTICATED_MAX {
            silent.push(places.next().await.unwrap());
        }
        assert!(timeout(LIMIT, places.next()).await.is_err());
        let known = silent.pop().unwrap();
        known.admit().await;
        known.admit().await;
        let next = places.next().await.unwrap();
        assert!(timeout(LIMIT, next.admit()).await.is_err(), "the only place is taken");
        assert!(timeout(2 * LIMIT, next.expire(LIMIT)).await.is_err(), "it has authenticated");
        drop(known);
        next.admit().await;
        assert_eq!(places.free(), 0);
    }
}
