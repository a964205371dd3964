//! The process of an engine, as far as clients may control it.
use esker_types::{Error, ErrorKind, Result};
use esker_wire::message::{Check, Maintained, Maintenance};

/// The process of an engine.
pub trait Host: Send + Sync {
    /// Ends the process soon, but not before the reply to this request can be sent. With `remove`, the node's pool that
    /// the engine serves is destroyed before this returns.
    ///
    /// # Errors
    /// The errors of destroying a pool; the engine then continues to serve.
    fn shut_down(&self, remove: bool) -> Result<()>;

    /// Starts a check of the structures of the node's pool, unless one is running. Returns its result once it is
    /// finished, and `None` before.
    ///
    /// # Errors
    /// The errors of reading the node's pool.
    fn check(&self) -> Result<Option<Check>>;

    /// Starts a maintenance of the node's pool, unless one with the same `number` is running. Returns its result once
    /// it is finished, and `None` before.
    ///
    /// # Errors
    /// `Busy` if a maintenance with another number is running; those of the maintenance.
    fn maintain(&self, what: Maintenance, number: u64) -> Result<Option<Maintained>>;
}

/// The host of an engine, or an error if it has none.
pub(crate) fn require_host(host: Option<&dyn Host>) -> Result<&dyn Host> {
    host.ok_or_else(|| {
        let message = "the engine runs inside another program, which clients cannot end";
        Error::new(ErrorKind::NotSupported, message)
    })
}
