//! The life of an engine: it serves, it drains, it ends.
use tokio::sync::watch;

/// What an engine is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It accepts clients and serves requests.
    Ready,
    /// It accepts nothing more, and finishes what is under way.
    Draining,
    /// Every connection ends at once.
    Ended,
}

/// The phase of an engine, and how many clients are connected.
pub(crate) struct Life {
    phase: watch::Sender<Phase>,
    connections: watch::Sender<u64>,
}

/// A client that is connected, until it is dropped.
pub(crate) struct Connected<'l>(&'l Life);

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.0.connections.send_modify(|count| *count -= 1);
    }
}

impl Life {
    pub(crate) fn new() -> Self {
        Self { phase: watch::Sender::new(Phase::Ready), connections: watch::Sender::new(0) }
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    pub(crate) fn connections(&self) -> u64 {
        *self.connections.borrow()
    }

    /// Counts a client.
    pub(crate) fn connect(&self) -> Connected<'_> {
        self.connections.send_modify(|count| *count += 1);
        Connected(self)
    }

    /// Goes on to `phase`; an engine never goes back.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.send_modify(|present| *present = phase.max(*present));
    }

    /// Waits until the engine is in `phase` or a later one.
    pub(crate) async fn reached(&self, phase: Phase) {
        // The sender lives as long as this does.
        let _ = self.phase.subscribe().wait_for(|present| *present >= phase).await;
    }

    /// Waits until no client is connected.
    pub(crate) async fn alone(&self) {
        let _ = self.connections.subscribe().wait_for(|count| *count == 0).await;
    }
}
