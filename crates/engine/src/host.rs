//! The process that an engine is in, as far as clients may control it.
use esker_types::{Error, ErrorKind, Result};
use esker_wire::message::{Check, Maintained, Maintenance};

/// The process that an engine is in.
pub trait Host: Send + Sync {
    /// Ends the process soon, but not before the reply to this request can be sent. With `remove`, the part of the pool
    /// that the engine serves is destroyed before this returns.
    ///
    /// # Errors
    /// Those of destroying a pool. Then the engine goes on serving.
    fn shut_down(&self, remove: bool) -> Result<()>;

    /// Begins to verify the structures of the part, unless that is under way. Returns what it found once it is finished,
    /// and `None` before.
    ///
    /// # Errors
    /// Those of reading the part.
    fn check(&self) -> Result<Option<Check>>;

    /// Begins to maintain the part, unless that is under way under the same `number`. Returns what it did once it is
    /// finished, and `None` before.
    ///
    /// # Errors
    /// `Busy` if it is being maintained under another number; those of the maintenance.
    fn maintain(&self, what: Maintenance, number: u64) -> Result<Option<Maintained>>;
}

/// The host of an engine, for requests that need one.
pub(crate) fn of(host: Option<&dyn Host>) -> Result<&dyn Host> {
    host.ok_or_else(|| {
        let message = "the engine is part of another program, which clients cannot end";
        Error::new(ErrorKind::NotSupported, message)
    })
}
