//! What one client has open: containers and leases. All of it ends with its connection.
use crate::metrics::Metrics;
use esker_backend::{OpenContainer, Pool};
use esker_types::ops::{Change, Cond, Write, WriteOp};
use esker_types::{Error, ErrorKind, ObjectId, Result};
use esker_wire::message::Handle;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Containers that one client may have open.
const HANDLES_MAX: usize = 4096;

/// Leases that one client may have.
const LEASES_MAX: usize = 1 << 20;

/// What one client has open.
pub(crate) struct Session {
    pub(crate) pool: Arc<dyn Pool>,
    pub(crate) metrics: Arc<Metrics>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    containers: BTreeMap<Handle, Arc<dyn OpenContainer>>,
    leases: HashMap<(Handle, ObjectId), Leased>,
    last: u32,
}

/// Leases of a client on one object. They may outlive the handle by which they were taken.
struct Leased {
    container: Arc<dyn OpenContainer>,
    count: u32,
}

impl Session {
    pub(crate) fn new(pool: Arc<dyn Pool>, metrics: Arc<Metrics>) -> Self {
        Self { pool, metrics, open: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a container that was opened for the client.
    pub(crate) fn keep(&self, container: Box<dyn OpenContainer>) -> Result<Handle> {
        let mut open = self.open();
        if open.containers.len() >= HANDLES_MAX {
            let message =
                format!("a client may have {HANDLES_MAX} containers of a pool open: close some");
            return Err(Error::new(ErrorKind::Overflow, message));
        }
        open.last += 1;
        let handle = Handle(open.last);
        open.containers.insert(handle, container.into());
        Ok(handle)
    }

    /// An open container of the client.
    pub(crate) fn container(&self, handle: Handle) -> Result<Arc<dyn OpenContainer>> {
        self.open().containers.get(&handle).cloned().ok_or_else(not_open)
    }

    /// Forgets a container, which the caller closes.
    pub(crate) fn forget(&self, handle: Handle) -> Result<Arc<dyn OpenContainer>> {
        self.open().containers.remove(&handle).ok_or_else(not_open)
    }

    /// Counts a lease.
    pub(crate) fn leased(
        &self,
        handle: Handle,
        oid: ObjectId,
        container: &Arc<dyn OpenContainer>,
    ) -> Result<()> {
        let mut open = self.open();
        if open.leases.len() >= LEASES_MAX {
            let message = format!("a client may have {LEASES_MAX} leases: close some files");
            return Err(Error::new(ErrorKind::Overflow, message));
        }
        let first = || Leased { container: Arc::clone(container), count: 0 };
        open.leases.entry((handle, oid)).or_insert_with(first).count += 1;
        Ok(())
    }

    /// Ends a lease of the client. True if the client is to remove the object.
    pub(crate) async fn release(&self, handle: Handle, oid: ObjectId) -> Result<bool> {
        match self.released(handle, oid) {
            Some(container) => container.release(oid).await,
            None => Ok(false),
        }
    }

    /// Counts one lease less; `None` if the client had none.
    fn released(&self, handle: Handle, oid: ObjectId) -> Option<Arc<dyn OpenContainer>> {
        let mut open = self.open();
        let leased = open.leases.get_mut(&(handle, oid))?;
        leased.count -= 1;
        let container = Arc::clone(&leased.container);
        if leased.count == 0 {
            open.leases.remove(&(handle, oid));
        }
        Some(container)
    }

    /// Ends everything. Objects that were left to the last lease are removed.
    pub(crate) async fn end(&self) {
        let (containers, leases) = {
            let mut open = self.open();
            (std::mem::take(&mut open.containers), std::mem::take(&mut open.leases))
        };
        for ((_, oid), Leased { container, count }) in leases {
            for _ in 0..count {
                if let Ok(true) = container.release(oid).await {
                    remove(&*container, oid).await;
                }
            }
        }
        for container in containers.values() {
            // Nobody is left to hear of a failure.
            let _ = container.close().await;
        }
    }
}

/// Removes an object that nobody uses any more. What cannot be removed now is found by the next check.
async fn remove(container: &dyn OpenContainer, oid: ObjectId) {
    let writes = [Write { oid, op: WriteOp::PunchObject { cond: Cond::NONE } }];
    let _ = container.write(Change::of(&writes)).await;
}

#[cold]
fn not_open() -> Error {
    Error::new(ErrorKind::NoHandle, "the container is not open on this connection: open it again")
}
