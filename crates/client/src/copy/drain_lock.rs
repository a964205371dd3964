//! The lock that keeps two drains from one source apart.
use super::open_alone;
use crate::container::Container;
use crate::pool::Pool;
use esker_backend::NewContainer;
use esker_os::executor::Wait;
use esker_types::{Error, ErrorKind, Result};

/// Start of the label of the lock's container; the UUID of the source follows.
const DRAINING: &str = "draining-";

/// The right to drain a container: an empty container in the pool of the source that this process has open exclusively.
/// All pools that can be drained end an exclusive handle with its process. Many pools of destinations do not, and
/// programs read the destination meanwhile.
pub(super) struct DrainLock {
    pool: Pool,
    label: String,
    container: Container,
}

impl DrainLock {
    /// Takes the lock for a source. A drain that was killed may have left the container.
    pub(super) fn take(from: &Container) -> Result<Self> {
        let (pool, label) = (Pool::from_container(from), format!("{DRAINING}{}", from.info().uuid));
        loop {
            match pool.create_container(&NewContainer::named(&label)).wait() {
                Err(error) if error.kind() != ErrorKind::Exists => return Err(error),
                _ => {}
            }
            match open_alone(&pool, &label) {
                Ok(Some(container)) => return Ok(Self { pool, label, container }),
                // The drain that held the lock has ended after the container was found, and destroyed it.
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::Busy => return Err(busy_error(from)),
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for DrainLock {
    /// Destroys the container, unless another drain has opened it. An error leaves it for the next drain.
    fn drop(&mut self) {
        let _ = self.container.close().wait();
        let _ = self.pool.destroy_container(&self.label, false).wait();
    }
}

/// The error for a source that another process drains.
#[cold]
fn busy_error(from: &Container) -> Error {
    let text = format!(
        "another process drains container {}: end it (SIGTERM) and wait for it before you start the next",
        from.info().label
    );
    Error::new(ErrorKind::Busy, text)
}
