//! Containers: sets of objects with their own snapshots and transactions.
use crate::proof::Proof;
use esker_backend::{self as backend, Capabilities, OpenContainer};
use esker_types::check_label;
use esker_types::info::{ContainerId, ContainerInfo, OpenMode, PoolInfo, SnapshotInfo};
use esker_types::ops::{Change, Write};
use esker_types::{ClassError, Epoch, Error, ErrorKind, ObjectClass, ObjectId, ObjectType, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// An open container. Clones share it. It is closed by [`Container::close`], or when the last clone and the last
/// object, Key-Value, array and transaction of it are dropped.
#[derive(Clone)]
pub struct Container(Arc<Handle>);

struct Handle {
    /// Its pool, which lives at least as long as the container.
    pool: Arc<dyn backend::Pool>,
    opened: Box<dyn OpenContainer>,
    capabilities: Capabilities,
    mode: OpenMode,
    closed: AtomicBool,
}

impl Handle {
    /// Marks the handle as closed. True for the first caller only, which then closes it.
    fn begin_close(&self) -> bool {
        !self.closed.swap(true, Ordering::AcqRel)
    }
}

impl Drop for Handle {
    /// Closes the container, unless that was done. An error is lost here; [`Container::close`] returns it.
    fn drop(&mut self) {
        if self.begin_close() {
            let _ = self.opened.close().wait();
        }
    }
}

impl Container {
    /// A handle of a container that the backend has opened.
    pub(crate) fn new(
        pool: &Arc<dyn backend::Pool>,
        opened: Box<dyn OpenContainer>,
        mode: OpenMode,
    ) -> Self {
        let (pool, capabilities) = (Arc::clone(pool), pool.capabilities());
        let closed = AtomicBool::new(false);
        Self(Arc::new(Handle { pool, opened, capabilities, mode, closed }))
    }

    /// The description of the container at the time it was opened.
    #[must_use]
    pub fn info(&self) -> &ContainerInfo {
        self.0.opened.info()
    }

    /// The current description of the container.
    ///
    /// # Errors
    /// [`ErrorKind::NoHandle`] if it is closed or destroyed; errors of the backend.
    pub async fn query(&self) -> Result<ContainerInfo> {
        self.opened()?;
        let all = self.0.pool.list_containers().await?;
        all.into_iter().find(|info| info.id == self.id()).ok_or_else(closed)
    }

    /// Its pool, as the backend has opened it.
    pub(crate) fn pool(&self) -> &Arc<dyn backend::Pool> {
        &self.0.pool
    }

    /// Name, space and state of its pool.
    ///
    /// # Errors
    /// [`ErrorKind::NoHandle`] if it is closed; errors of the backend.
    pub async fn pool_info(&self) -> Result<PoolInfo> {
        self.opened()?;
        self.0.pool.info().await
    }

    /// The mode in which it was opened.
    #[must_use]
    pub fn mode(&self) -> OpenMode {
        self.0.mode
    }

    /// Closes it for all clones: operations fail with [`ErrorKind::NoHandle`] from now on. Closing it twice is not an
    /// error.
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn close(&self) -> Result<()> {
        match self.0.begin_close() {
            true => self.0.opened.close().await,
            false => Ok(()),
        }
    }

    /// Writes acknowledged changes of `posix:` pools to the medium, so that they survive power loss. Does nothing on other
    /// pools: there, the pool's durability applies.
    ///
    /// # Errors
    /// [`ErrorKind::NoHandle`] if it is closed; errors of the file system.
    pub async fn sync(&self) -> Result<()> {
        self.opened()?.sync().await
    }

    /// Changes its label; `None` removes the label.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if another container has the label, [`ErrorKind::Invalid`] if it is not a valid label,
    /// [`ErrorKind::NoPermission`] if the container is open read-only.
    pub async fn rename(&self, label: Option<&str>) -> Result<()> {
        label.map_or(Ok(()), check_label)?;
        self.writable()?.rename(label).await
    }

    /// Takes a lease on the data of a proof: none of it changes for the returned time, counted from before this call. A
    /// writer that changes it waits until then. The returned proof covers the same data and renews the lease. `None` if
    /// some of it has changed, if changes have had to wait lately, or if the backend grants no leases
    /// ([`Capabilities::read_leases`]).
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn lease_reads(&self, proof: &Proof) -> Result<Option<(Duration, Proof)>> {
        let lease = self.opened()?.lease_reads(proof.tokens()).await?;
        Ok(lease.map(|lease| (lease.term, Proof::from_tokens(lease.reads))))
    }

    /// A proof for a complete object: it holds until any of its keys or values changes. `None` if the backend cannot
    /// detect that.
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn object_version(&self, oid: ObjectId) -> Result<Option<Proof>> {
        Ok(self.opened()?.object_version(oid).await?.map(Proof::from_tokens))
    }

    /// True if the data of a proof has not changed, nor is about to; false also if that is not certain. `None` if the
    /// backend has no check that is much faster than repeating the reads.
    #[must_use]
    pub fn is_unchanged(&self, proof: &Proof) -> Option<bool> {
        self.opened().map_or(Some(false), |opened| opened.is_unchanged(proof.tokens()))
    }

    /// How often leases of this process on an object may have been lost, and were taken again. A caller that has a lease
    /// and finds another number than before the lease was taken checks that the object still exists.
    #[must_use]
    pub fn lease_losses(&self, oid: ObjectId) -> u64 {
        self.opened_or_closed().lease_losses(oid)
    }

    /// The number of the node that stores a dkey of an object; 0 in a pool on one node. Changes on one node need one
    /// message.
    #[must_use]
    pub fn node_of(&self, oid: ObjectId, dkey: &[u8]) -> u32 {
        self.0.opened.node_of(oid, dkey)
    }

    /// Number of nodes that store its objects; 1 unless it is in a pool over nodes.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.0.pool.nodes()
    }

    /// Reserves `count` consecutive numbers that no other client of the container gets, for use in the lower word of
    /// object ids. Returns the first.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if `count` is 0, [`ErrorKind::NoPermission`] if the container is open read-only.
    pub async fn allocate_oids(&self, count: u64) -> Result<u64> {
        if count == 0 {
            return Err(Error::new(
                ErrorKind::Invalid,
                "allocate_oids: the count is 0, it must be at least 1",
            ));
        }
        self.writable()?.allocate_oids(count).await
    }

    /// The number after all that clients of the container have reserved: [`Container::allocate_oids`] returns smaller ones
    /// only from a block that this client has reserved before.
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn next_oid(&self) -> Result<u64> {
        self.opened()?.next_oid().await
    }

    /// An object id made of the user's 96 bits (all of `lo` and the lower half of `hi`), a type, and a class adapted
    /// to the pool. If no class is given, DAOS's rules select one; `hints` are its `DAOS_OCH_*` bits.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the class is unknown or needs more targets or fault domains than the pool has.
    pub fn generate_oid(
        &self,
        hi: u64,
        lo: u64,
        otype: ObjectType,
        class: Option<ObjectClass>,
        hints: u32,
    ) -> Result<ObjectId> {
        self.opened()?;
        generate_oid(self.capabilities(), (hi, lo), otype, class, hints)
    }

    /// Takes a snapshot of the container. The name may be empty.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] if the backend has no snapshots, [`ErrorKind::NoPermission`] if the container is
    /// open read-only, [`ErrorKind::Overflow`] if the limit is reached.
    pub async fn create_snapshot(&self, name: &str) -> Result<Epoch> {
        self.writable()?.create_snapshot(name).await
    }

    /// The snapshots of the container, oldest first.
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn snapshots(&self) -> Result<Vec<SnapshotInfo>> {
        self.opened()?.list_snapshots().await
    }

    /// Destroys a snapshot and frees the data that only it referred to.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is none at `epoch`, [`ErrorKind::NoPermission`] if the container is open
    /// read-only.
    pub async fn destroy_snapshot(&self, epoch: Epoch) -> Result<()> {
        self.writable()?.destroy_snapshot(epoch).await
    }

    /// Fails if the container has no snapshot of this epoch.
    pub(crate) async fn check_snapshot(&self, epoch: Epoch) -> Result<()> {
        match self.snapshots().await?.iter().any(|snapshot| snapshot.epoch == epoch) {
            true => Ok(()),
            false => Err(self.missing_snapshot_error(format!("at epoch {}", epoch.0)).await),
        }
    }

    /// The error for a snapshot that does not exist. It names the command that lists the container's snapshots.
    pub(crate) async fn missing_snapshot_error(&self, named: String) -> Error {
        let container = &self.info().label;
        let pool = self.pool_info().await.map_or_else(|_| "POOL".to_owned(), |info| info.label);
        let message = format!(
            "container {container} has no snapshot {named}: `esker cont snapshot list {pool} {container}` lists its snapshots"
        );
        Error::new(ErrorKind::NotFound, message)
    }
}

/// Operations on which objects and transactions are built.
impl Container {
    /// The id of the container in its pool.
    pub(crate) fn id(&self) -> ContainerId {
        self.info().id
    }

    /// Capabilities of its pool.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.0.capabilities
    }

    /// The backend's open container, unless this handle is closed.
    pub(crate) fn opened(&self) -> Result<&dyn OpenContainer> {
        match self.0.closed.load(Ordering::Acquire) {
            false => Ok(&*self.0.opened),
            true => Err(closed()),
        }
    }

    /// The backend's open container, even if this handle is closed.
    pub(crate) fn opened_or_closed(&self) -> &dyn OpenContainer {
        &*self.0.opened
    }

    /// The backend's open container, if it may be modified.
    pub(crate) fn writable(&self) -> Result<&dyn OpenContainer> {
        match self.is_writable() {
            true => self.opened(),
            false => Err(Error::new(
                ErrorKind::NoPermission,
                format!("container {:?} is open read-only", self.info().label),
            )),
        }
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.0.mode != OpenMode::ReadOnly
    }

    /// True if both use one handle of a container. A lease is valid only with the handle that took it.
    pub(crate) fn shares_handle(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// True if both are the same container, even if opened separately.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0.pool, &other.0.pool) && self.id() == other.id()
    }

    /// Applies writes on condition that the reads of a proof still hold at one moment after the call. This is like
    /// reading again and then writing. Use a transaction if they must hold until the write.
    ///
    /// # Errors
    /// The errors of [`Container::write`], and [`ErrorKind::TxRestart`] if any of the data has changed.
    pub async fn write_if(&self, writes: &[Write<'_>], proof: &Proof) -> Result<()> {
        let tokens = Some(proof.tokens());
        self.writable()?
            .write(Change { tokens, proved_once: true, ..Change::from_writes(writes) })
            .await
            .map(drop)
    }

    /// Applies writes on condition that the reads of a proof hold until the write.
    pub(crate) async fn write_with(&self, writes: &[Write<'_>], proof: &Proof) -> Result<()> {
        let tokens = Some(proof.tokens());
        self.writable()?.write(Change { tokens, ..Change::from_writes(writes) }).await.map(drop)
    }
}

/// The error for an operation on a closed container.
#[cold]
fn closed() -> Error {
    Error::new(ErrorKind::NoHandle, "the container is closed: open it again")
}

/// Generates an object ID like [`Container::generate_oid`], for containers of a pool with these capabilities.
pub(crate) fn generate_oid(
    able: Capabilities,
    (hi, lo): (u64, u64),
    otype: ObjectType,
    class: Option<ObjectClass>,
    hints: u32,
) -> Result<ObjectId> {
    let class = class.unwrap_or_else(|| ObjectClass::automatic(otype, hints, able.targets));
    let fitted = class.fit(able.targets, able.domains);
    let fitted = fitted.map_err(|cause| object_class_error(class, cause, able.targets))?;
    Ok(ObjectId::generate(hi, lo, otype, fitted))
}

#[cold]
fn object_class_error(class: ObjectClass, cause: ClassError, targets: u32) -> Error {
    let message = match cause {
        ClassError::Unknown => format!("{:#x} is not an object class", class.code()),
        ClassError::DoesNotFit => {
            format!(
                "object class {class} does not fit a pool of {targets} targets: choose one for fewer targets, or SX for \
                 all of them"
            )
        }
    };
    Error::new(ErrorKind::Invalid, message)
}
