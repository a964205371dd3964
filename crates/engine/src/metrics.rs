//! Counters of an engine. Counting takes a few atomic additions per request.
use crate::kinds::RequestKind;
use esker_types::ErrorKind;
use esker_types::metrics::{Counter, Latency};
use esker_wire::frame::{Frame, PREFIX_LEN};
use std::array::from_fn;
use std::time::Duration;

/// Reason for which a connection ended before its client had authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The client does not know the secret.
    Secret,
    /// It speaks another version of the protocol.
    Version,
    /// It asks for another pool.
    Pool,
    /// It does not keep to the protocol.
    Malformed,
    /// It did not finish the handshake in time.
    TimedOut,
    /// It lost its slot to another connection.
    Crowded,
    /// Too many clients are connected.
    Full,
    /// Any other error, such as a connection that was lost.
    Lost,
}

impl Refused {
    /// Every reason, in the order of their numbers, with its name.
    pub(crate) const ALL: [(Self, &'static str); 8] = [
        (Self::Secret, "secret"),
        (Self::Version, "version"),
        (Self::Pool, "pool"),
        (Self::Malformed, "malformed"),
        (Self::TimedOut, "timeout"),
        (Self::Crowded, "crowded"),
        (Self::Full, "full"),
        (Self::Lost, "lost"),
    ];

    /// Maps an error of the handshake to its reason.
    fn of_error(error: ErrorKind) -> Self {
        match error {
            ErrorKind::NoPermission => Self::Secret,
            ErrorKind::Incompatible => Self::Version,
            ErrorKind::BadPath => Self::Pool,
            ErrorKind::Corrupt => Self::Malformed,
            ErrorKind::TimedOut => Self::TimedOut,
            ErrorKind::Busy => Self::Crowded,
            ErrorKind::Overflow => Self::Full,
            _ => Self::Lost,
        }
    }
}

/// The numbers of one engine.
pub(crate) struct Metrics {
    /// Clients that have authenticated.
    pub(crate) connections: Counter,
    /// Connections that ended before that, by [`Refused`].
    pub(crate) refused: [Counter; Refused::ALL.len()],
    /// Authenticated clients that broke the protocol.
    pub(crate) malformed: Counter,
    pub(crate) received_bytes: Counter,
    pub(crate) sent_bytes: Counter,
    /// Time to serve requests, by [`RequestKind`].
    pub(crate) requests: [Latency; RequestKind::ALL.len()],
    /// Requests that were answered by an error, by the position of its kind in [`ErrorKind::ALL`].
    pub(crate) errors: [Counter; ErrorKind::ALL.len()],
    /// Requests whose handler panicked.
    pub(crate) panics: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            connections: Counter::default(),
            refused: from_fn(|_| Counter::default()),
            malformed: Counter::default(),
            received_bytes: Counter::default(),
            sent_bytes: Counter::default(),
            requests: from_fn(|_| Latency::default()),
            errors: from_fn(|_| Counter::default()),
            panics: Counter::default(),
        }
    }
}

impl Metrics {
    /// Number of requests, by the name of their kind.
    pub(crate) fn requests(&self) -> Vec<(String, u64)> {
        let kinds = RequestKind::ALL.iter().zip(&self.requests);
        kinds.map(|((_, name), latency)| ((*name).to_owned(), latency.count())).collect()
    }
}

/// Bytes of a frame on the wire.
fn wire_bytes(frame: &Frame) -> u64 {
    (PREFIX_LEN + frame.message.len() + frame.bulk.len()) as u64
}

impl Metrics {
    /// Counts a connection that ended during its handshake.
    pub(crate) fn refuse(&self, error: ErrorKind) {
        self.refused[Refused::of_error(error) as usize].add(1);
    }

    pub(crate) fn received(&self, frame: &Frame) {
        self.received_bytes.add(wire_bytes(frame));
    }

    pub(crate) fn sent(&self, bytes: u64) {
        self.sent_bytes.add(bytes);
    }

    /// Counts a request that was served in the time `took`, and its error if it failed.
    pub(crate) fn answered(&self, kind: RequestKind, took: Duration, error: Option<ErrorKind>) {
        self.requests[kind as usize].add(took);
        let known = |error| ErrorKind::ALL.iter().position(|known| *known == error);
        if let Some(counter) = error.and_then(known).and_then(|at| self.errors.get(at)) {
            counter.add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_listed_in_the_order_of_their_numbers() {
        for (number, (reason, _)) in Refused::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, number);
        }
    }
}
