//! How an engine is, as programs that watch it ask.
use crate::life::Phase;

/// How an engine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// What it is doing.
    pub phase: Phase,
    /// Clients that are connected and have proved themselves.
    pub connections: u64,
    /// Connections whose client has not proved itself yet.
    pub strangers: u64,
}

impl Health {
    /// True if the engine accepts clients.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }
}
