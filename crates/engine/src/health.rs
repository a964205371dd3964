//! State of an engine, for programs that monitor it.
use crate::life::Phase;

/// State of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// Phase of the engine's life.
    pub phase: Phase,
    /// Authenticated clients that are connected.
    pub connections: u64,
    /// Connections whose client has not authenticated yet.
    pub unauthenticated: u64,
}

impl Health {
    /// True if the engine accepts clients.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }
}
