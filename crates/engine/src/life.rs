//! Phases of an engine: ready, draining, ended.
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Phase of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It accepts clients and serves requests.
    Ready,
    /// It accepts no more clients, and finishes the requests in progress.
    Draining,
    /// Every connection ends at once.
    Ended,
}

/// The phase of an engine, and the number of connected clients.
#[derive(Default)]
pub(crate) struct Life {
    now: Mutex<Now>,
    /// Notified of each phase.
    phase_changed: Notify,
    /// Notified when the last client has gone.
    last_client_left: Notify,
}

#[derive(Clone, Copy)]
struct Now {
    phase: Phase,
    connections: u64,
}

impl Default for Now {
    fn default() -> Self {
        Self { phase: Phase::Ready, connections: 0 }
    }
}

/// A connected client, until this is dropped.
pub(crate) struct Connected<'l>(&'l Life);

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        let mut now = self.0.now();
        now.connections -= 1;
        let is_last = now.connections == 0;
        drop(now);
        if is_last {
            self.0.last_client_left.notify_waiters();
        }
    }
}

impl Life {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the state fulfils `is_so`; `changes` is notified of its changes. It is registered for them before
    /// the check, so that a change in between is not missed.
    async fn until(&self, changes: &Notify, is_so: impl Fn(&Now) -> bool) {
        loop {
            let changed = changes.notified();
            if is_so(&self.now()) {
                return;
            }
            changed.await;
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.now().phase
    }

    pub(crate) fn connections(&self) -> u64 {
        self.now().connections
    }

    /// Counts a client. `None` if there are `most` already, or if the engine accepts no more.
    pub(crate) fn connect(&self, most: u64) -> Option<Connected<'_>> {
        let mut now = self.now();
        let is_accepted = now.phase == Phase::Ready && now.connections < most;
        now.connections += u64::from(is_accepted);
        is_accepted.then(|| Connected(self))
    }

    /// Enters `phase`, unless the engine is in a later one: an engine never goes back.
    pub(crate) fn enter(&self, phase: Phase) {
        let mut now = self.now();
        now.phase = phase.max(now.phase);
        drop(now);
        self.phase_changed.notify_waiters();
    }

    /// Waits until the engine is in `phase` or a later one.
    pub(crate) async fn reached(&self, phase: Phase) {
        self.until(&self.phase_changed, |now| now.phase >= phase).await;
    }

    /// Waits until no client is connected.
    pub(crate) async fn no_clients(&self) {
        self.until(&self.last_client_left, |now| now.connections == 0).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A handshake may end after the engine has begun to drain, and even after the last client has left.
    #[test]
    fn draining_engine_counts_no_more_clients() {
        let life = Life::default();
        let first = life.connect(2).expect("a client");
        life.enter(Phase::Draining);
        assert!(life.connect(2).is_none());
        drop(first);
        assert!(life.connect(2).is_none());
        assert_eq!(life.connections(), 0);
    }
}
