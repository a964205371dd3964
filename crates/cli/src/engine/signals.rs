//! The signals that end a process that serves.
use esker::types::{Error, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Streams of SIGTERM and SIGINT.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn new() -> Result<Self> {
        let on =
            |kind| signal(kind).map_err(|error| Error::io("setting up a signal handler", &error));
        Ok(Self {
            terminate: on(SignalKind::terminate())?,
            interrupt: on(SignalKind::interrupt())?,
        })
    }

    /// Waits for the first signal and returns its name.
    pub(crate) async fn first(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
