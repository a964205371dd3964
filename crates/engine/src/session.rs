//! Containers and leases of one client. They end with its connection.
use crate::Shared;
use crate::host::Host;
use crate::limits::{HANDLES_MAX, LEASES_MAX, check};
use crate::metrics::Metrics;
use esker_backend::{OpenContainer, Pool, remove_unlinked};
use esker_types::{Error, ErrorKind, ObjectId, Result};
use esker_wire::message::Handle;
use esker_wire::spare::Spare;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Containers and leases of one client.
pub(crate) struct Session {
    pub(crate) pool: Arc<dyn Pool>,
    pub(crate) host: Option<Arc<dyn Host>>,
    /// Memory for replies.
    pub(crate) spare: Spare,
    /// Counters of the engine.
    pub(crate) metrics: Arc<Metrics>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    containers: BTreeMap<Handle, Arc<dyn OpenContainer>>,
    leases: HashMap<(Handle, ObjectId), Leased>,
    /// Number of all leases; several may be on the same object.
    leases_total: usize,
    /// Number of the last handle.
    last: u32,
}

/// Leases of a client on one object. They may outlive the handle by which they were taken.
struct Leased {
    container: Arc<dyn OpenContainer>,
    count: u32,
}

impl Session {
    /// The session of a new connection, which has opened nothing.
    pub(crate) fn new(engine: &Shared) -> Self {
        let Shared { pool, spare, host, metrics, .. } = engine;
        let (pool, metrics) = (Arc::clone(pool), Arc::clone(metrics));
        let (host, spare) = (host.get().cloned(), spare.clone());
        Self { pool, host, spare, metrics, open: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a container that was opened for the client, or closes it if the client has too many.
    pub(crate) async fn register(&self, container: Box<dyn OpenContainer>) -> Result<Handle> {
        let container: Arc<dyn OpenContainer> = container.into();
        let registered = self.insert(&container);
        if registered.is_err() {
            container.close().await?;
        }
        registered
    }

    /// Adds a container that the client has opened. Fails if it has too many open.
    fn insert(&self, container: &Arc<dyn OpenContainer>) -> Result<Handle> {
        let mut open = self.open();
        check("containers of one client", open.containers.len() + 1, HANDLES_MAX)?;
        open.last = open.last.checked_add(1).ok_or_else(handles_exhausted_error)?;
        let handle = Handle(open.last);
        open.containers.insert(handle, Arc::clone(container));
        Ok(handle)
    }

    /// An open container of the client.
    pub(crate) fn container(&self, handle: Handle) -> Result<Arc<dyn OpenContainer>> {
        self.open().containers.get(&handle).cloned().ok_or_else(not_open_error)
    }

    /// Closes a container of the client. It stays open if that fails, so that the client can retry.
    pub(crate) async fn close(&self, handle: Handle) -> Result<()> {
        let container = self.open().containers.remove(&handle).ok_or_else(not_open_error)?;
        let closed = container.close().await;
        if closed.is_err() {
            self.open().containers.insert(handle, container);
        }
        closed
    }

    /// Takes a lease on an object for the client, and counts it. A lease that cannot be counted is ended again; if it
    /// was the last one on an unlinked object, the object is removed.
    pub(crate) async fn lease(
        &self,
        handle: Handle,
        oid: ObjectId,
        container: &Arc<dyn OpenContainer>,
    ) -> Result<()> {
        container.lease(oid).await?;
        let counted = self.count_lease(handle, oid, container);
        if counted.is_err() && container.release(oid).await? {
            remove_unlinked(&**container, oid).await;
        }
        counted
    }

    /// Counts a lease of the client on the object, so that it is released when the connection ends. Fails if the client
    /// has `LEASES_MAX` already.
    fn count_lease(
        &self,
        handle: Handle,
        oid: ObjectId,
        container: &Arc<dyn OpenContainer>,
    ) -> Result<()> {
        let mut open = self.open();
        check("leases of one client", open.leases_total + 1, LEASES_MAX)?;
        open.leases_total += 1;
        let first = || Leased { container: Arc::clone(container), count: 0 };
        open.leases.entry((handle, oid)).or_insert_with(first).count += 1;
        Ok(())
    }

    /// Ends a lease of the client; if that fails, the client still has it. True if the client is to remove the object.
    /// False also if it had no lease.
    pub(crate) async fn release(&self, handle: Handle, oid: ObjectId) -> Result<bool> {
        let Some(container) = self.uncount_lease(handle, oid) else { return Ok(false) };
        let released = container.release(oid).await;
        if released.is_err() {
            self.count_lease(handle, oid, &container)?;
        }
        released
    }

    /// Takes leases on several objects. If one fails, those before it are released.
    pub(crate) async fn lease_each(
        &self,
        handle: Handle,
        oids: &[ObjectId],
        container: &Arc<dyn OpenContainer>,
    ) -> Result<()> {
        for (taken, oid) in oids.iter().enumerate() {
            let result = self.lease(handle, *oid, container).await;
            if result.is_err() {
                self.release_taken(handle, &oids[..taken], container).await;
                return result;
            }
        }
        Ok(())
    }

    /// Undoes `lease_each` after one of its leases failed: releases the leases on `oids`, which it took before. An
    /// object may have been unlinked meanwhile. If the released lease was its last one, this removes the object.
    ///
    /// Errors are ignored, because the client gets the error of the lease that failed.
    async fn release_taken(
        &self,
        handle: Handle,
        oids: &[ObjectId],
        container: &Arc<dyn OpenContainer>,
    ) {
        for oid in oids {
            if let Ok(true) = self.release(handle, *oid).await {
                remove_unlinked(&**container, *oid).await;
            }
        }
    }

    /// Ends leases on several objects.
    pub(crate) async fn release_each(
        &self,
        handle: Handle,
        oids: &[ObjectId],
    ) -> Result<Vec<bool>> {
        let mut last = Vec::with_capacity(oids.len());
        for oid in oids {
            last.push(self.release(handle, *oid).await?);
        }
        Ok(last)
    }

    /// Decrements the count of leases on an object; `None` if the client had none.
    fn uncount_lease(&self, handle: Handle, oid: ObjectId) -> Option<Arc<dyn OpenContainer>> {
        let mut open = self.open();
        let leased = open.leases.get_mut(&(handle, oid))?;
        leased.count -= 1;
        let (container, is_last) = (Arc::clone(&leased.container), leased.count == 0);
        if is_last {
            open.leases.remove(&(handle, oid));
        }
        open.leases_total -= 1;
        Some(container)
    }

    /// Ends all leases and closes all containers. Objects that await the end of their last lease are not removed: a
    /// process that inherited a file of this client may still read it. The pool removes them later, like those of a
    /// process that was killed on a node of the pool. True if there were leases.
    pub(crate) async fn end(&self) -> bool {
        let (containers, leases) = {
            let mut open = self.open();
            (std::mem::take(&mut open.containers), std::mem::take(&mut open.leases))
        };
        let had_leases = !leases.is_empty();
        for ((_, oid), Leased { container, count }) in leases {
            for _ in 0..count {
                // No client is left to receive an error.
                let _ = container.release(oid).await;
            }
        }
        for container in containers.values() {
            let _ = container.close().await;
        }
        had_leases
    }
}

#[cold]
fn not_open_error() -> Error {
    Error::new(ErrorKind::NoHandle, "the container is not open on this connection: open it again")
}

#[cold]
fn handles_exhausted_error() -> Error {
    let message = "this connection has opened as many containers as one can: connect again";
    Error::new(ErrorKind::Overflow, message)
}
