//! Containers: sets of objects with snapshots and transactions of their own.
use crate::access::Access;
use crate::array::Array;
use crate::attributes::{self, Attributes};
use crate::kv::Kv;
use crate::object::Object;
use crate::transaction::Transaction;
use esker_backend::{self as backend, Capabilities, OpenContainer};
use esker_types::info::{ContainerId, ContainerInfo, OpenMode, PoolInfo, SnapshotInfo};
use esker_types::ops::{Anchor, Change, View, Write};
use esker_types::{ArrayAttributes, check_label};
use esker_types::{ClassError, Epoch, Error, ErrorKind, ObjectClass, ObjectId, ObjectType, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A container that is open. Clones share it; it is closed by [`Container::close`], or with the last
/// clone and the last object, Key-Value, array and transaction of it.
#[derive(Clone)]
pub struct Container(Arc<Handle>);

struct Handle {
    /// Its pool, which lives at least as long.
    pool: Arc<dyn backend::Pool>,
    opened: Box<dyn OpenContainer>,
    capabilities: Capabilities,
    mode: OpenMode,
    closed: AtomicBool,
}

impl Handle {
    /// True for the first caller only.
    fn begin_close(&self) -> bool {
        !self.closed.swap(true, Ordering::AcqRel)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.begin_close() {
            let _ = self.opened.close().wait();
        }
    }
}

impl Container {
    pub(crate) fn new(
        pool: &Arc<dyn backend::Pool>,
        opened: Box<dyn OpenContainer>,
        mode: OpenMode,
    ) -> Self {
        let (pool, capabilities) = (Arc::clone(pool), pool.capabilities());
        let closed = AtomicBool::new(false);
        Self(Arc::new(Handle { pool, opened, capabilities, mode, closed }))
    }

    /// What the container said about itself when it was opened.
    #[must_use]
    pub fn info(&self) -> &ContainerInfo {
        self.0.opened.info()
    }

    /// What it says about itself now.
    ///
    /// # Errors
    /// [`ErrorKind::NoHandle`] where it was closed or destroyed; what the backend meets.
    pub async fn query(&self) -> Result<ContainerInfo> {
        self.opened()?;
        let all = self.0.pool.list_containers().await?;
        all.into_iter().find(|info| info.id == self.id()).ok_or_else(closed)
    }

    /// Name, space and state of the pool it is in.
    ///
    /// # Errors
    /// [`ErrorKind::NoHandle`] where it was closed; what the backend meets.
    pub async fn pool_info(&self) -> Result<PoolInfo> {
        self.opened()?;
        self.0.pool.info().await
    }

    /// How it was opened.
    #[must_use]
    pub fn mode(&self) -> OpenMode {
        self.0.mode
    }

    /// Ends this use of it, for all clones: operations fail with [`ErrorKind::NoHandle`] from now on.
    /// Closing twice is no error.
    ///
    /// # Errors
    /// What the backend meets.
    pub async fn close(&self) -> Result<()> {
        match self.0.begin_close() {
            true => self.0.opened.close().await,
            false => Ok(()),
        }
    }

    /// Gives it another label; `None` takes it away.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] where another has it, [`ErrorKind::Invalid`] where it is no label,
    /// [`ErrorKind::NoPermission`] where the container is open for reading only.
    pub async fn rename(&self, label: Option<&str>) -> Result<()> {
        label.map_or(Ok(()), check_label)?;
        self.writable()?.rename(label).await
    }

    /// The attributes users keep with it.
    #[must_use]
    pub fn attributes(&self) -> Attributes {
        self.metadata(attributes::USER)
    }

    /// The properties kept with it.
    #[must_use]
    pub fn properties(&self) -> Attributes {
        self.metadata(attributes::PROPERTY)
    }

    /// Sets a property even where the container is open for reading only: for notes kept beside it, such as when it
    /// was last opened.
    ///
    /// # Errors
    /// [`ErrorKind::NoHandle`] where it was closed; what the backend meets.
    pub async fn note_property(&self, name: &str, value: &[u8]) -> Result<()> {
        self.opened()?;
        Attributes::of_container(self, attributes::PROPERTY, true).set(name, value).await
    }

    /// First of `count` consecutive numbers that no other client of the container ever gets, fit
    /// for the lower word of object ids.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for no number at all, [`ErrorKind::NoPermission`] where the container is
    /// open for reading only.
    pub async fn allocate_oids(&self, count: u64) -> Result<u64> {
        if count == 0 {
            return Err(Error::new(ErrorKind::Invalid, "allocate_oids: the count is 0"));
        }
        self.writable()?.allocate_oids(count).await
    }

    /// Number the next [`Container::allocate_oids`] would begin with.
    ///
    /// # Errors
    /// What the backend meets.
    pub async fn next_oid(&self) -> Result<u64> {
        self.opened()?.next_oid().await
    }

    /// An object id: the user's 96 bits (all of `lo` and the lower half of `hi`), a type, and a class
    /// fitted to the pool. Where no class is given, DAOS's rules pick one; `hints` are its
    /// `DAOS_OCH_*` bits.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] where the class is unknown or needs more targets or fault domains than
    /// the pool has.
    pub fn generate_oid(
        &self,
        hi: u64,
        lo: u64,
        otype: ObjectType,
        class: Option<ObjectClass>,
        hints: u32,
    ) -> Result<ObjectId> {
        self.opened()?;
        let able = self.capabilities();
        let class = class.unwrap_or_else(|| ObjectClass::automatic(otype, hints, able.targets));
        let fitted = class.fit(able.targets, able.domains);
        let fitted = fitted.map_err(|cause| refuse_class(class, cause, able.targets))?;
        Ok(ObjectId::generate(hi, lo, otype, fitted))
    }

    /// An object. Nothing is read or written: it exists while it has a key.
    #[must_use]
    pub fn object(&self, oid: ObjectId) -> Object {
        Object::new(self.clone(), oid)
    }

    /// A Key-Value. Nothing is read or written.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] where `oid` is of no Key-Value type.
    pub fn kv(&self, oid: ObjectId) -> Result<Kv> {
        Kv::new(self.object(oid))
    }

    /// Makes an array and stores its attributes with it; `oid` may have any array type.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`]; [`ErrorKind::Invalid`] where the type is no array's or a size is 0;
    /// [`ErrorKind::NoPermission`] where the container is open for reading only. In a transaction,
    /// `Exists` comes with the commit.
    pub async fn create_array(
        &self,
        oid: ObjectId,
        attributes: ArrayAttributes,
        access: Access<'_>,
    ) -> Result<Array> {
        Array::create(self.object(oid), attributes, access).await
    }

    /// Opens an array made by [`Container::create_array`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] where the type is not [`ObjectType::Array`], [`ErrorKind::NotFound`],
    /// [`ErrorKind::NoPermission`] where what is stored are no attributes of an array.
    pub async fn open_array(&self, oid: ObjectId, access: Access<'_>) -> Result<Array> {
        Array::open(self.object(oid), access).await
    }

    /// An array whose attributes the caller keeps. Nothing is read or written.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] where the type is neither [`ObjectType::ArrayAttr`] nor
    /// [`ObjectType::ArrayByte`], or a size is 0.
    pub fn open_array_with_attributes(
        &self,
        oid: ObjectId,
        attributes: ArrayAttributes,
    ) -> Result<Array> {
        Array::with_attributes(self.object(oid), attributes)
    }

    /// A transaction that reads and writes.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] where the backend has none, [`ErrorKind::NoHandle`] where the
    /// container is closed.
    pub fn transaction(&self) -> Result<Transaction> {
        self.new_transaction(View::Latest, true)
    }

    /// A transaction that only reads; its commit tells whether all it read stood together.
    ///
    /// # Errors
    /// As [`Container::transaction`].
    pub fn transaction_read_only(&self) -> Result<Transaction> {
        self.new_transaction(View::Latest, false)
    }

    /// A transaction that reads a snapshot (DAOS: `daos_tx_open_snap`).
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where there is no snapshot at `epoch`.
    pub async fn transaction_at(&self, epoch: Epoch) -> Result<Transaction> {
        self.check_snapshot(epoch).await?;
        Ok(Transaction::new(self.clone(), View::Snapshot(epoch), false))
    }

    fn new_transaction(&self, view: View, writable: bool) -> Result<Transaction> {
        self.opened()?;
        if !self.capabilities().transactions {
            let message = format!(
                "container {} is on a pool without transactions: copy it to one made with `esker pool create`, or \
                 to one on Ceph (`esker cont copy`)",
                self.info().label
            );
            return Err(Error::new(ErrorKind::NotSupported, message));
        }
        Ok(Transaction::new(self.clone(), view, writable))
    }

    /// Freezes the state of the container under a name, which may be empty.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] where the backend has no snapshots, [`ErrorKind::NoPermission`]
    /// where the container is open for reading only, [`ErrorKind::Overflow`] at the limit.
    pub async fn create_snapshot(&self, name: &str) -> Result<Epoch> {
        self.writable()?.create_snapshot(name).await
    }

    /// Its snapshots, oldest first.
    ///
    /// # Errors
    /// What the backend meets.
    pub async fn snapshots(&self) -> Result<Vec<SnapshotInfo>> {
        self.opened()?.list_snapshots().await
    }

    /// Drops a snapshot and what only it kept.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where there is none at `epoch`, [`ErrorKind::NoPermission`] where the
    /// container is open for reading only.
    pub async fn destroy_snapshot(&self, epoch: Epoch) -> Result<()> {
        self.writable()?.destroy_snapshot(epoch).await
    }

    /// The view of a snapshot that exists.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where there is none at `epoch`.
    pub async fn at(&self, epoch: Epoch) -> Result<Access<'static>> {
        self.check_snapshot(epoch).await?;
        Ok(Access::Snapshot(epoch))
    }

    async fn check_snapshot(&self, epoch: Epoch) -> Result<()> {
        let known = self.snapshots().await?.iter().any(|snapshot| snapshot.epoch == epoch);
        known.then_some(()).ok_or_else(|| {
            let message = format!(
                "container {} has no snapshot at epoch {}: `esker cont snapshot list` shows those there are",
                self.info().label,
                epoch.0
            );
            Error::new(ErrorKind::NotFound, message)
        })
    }

    /// At most `entries` objects after `anchor`, which moves on, of the latest state or a snapshot.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] in a transaction that is not one of a snapshot: it could not prove
    /// that no object came or went; what the backend meets.
    pub async fn list_objects(
        &self,
        anchor: &mut Anchor,
        entries: usize,
        access: Access<'_>,
    ) -> Result<Vec<ObjectId>> {
        let reading = access.reading(self)?;
        if reading.attempt.is_some() {
            return Err(Error::new(
                ErrorKind::NotSupported,
                "objects cannot be listed in a transaction; use a snapshot",
            ));
        }
        self.opened()?.list_objects(anchor, entries, reading.at()).await
    }

    fn metadata(&self, prefix: &'static str) -> Attributes {
        Attributes::of_container(self, prefix, self.is_writable())
    }
}

/// What objects and transactions build on.
impl Container {
    pub(crate) fn id(&self) -> ContainerId {
        self.info().id
    }

    /// What its pool can do.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.0.capabilities
    }

    /// The open container of the backend, unless this was closed.
    pub(crate) fn opened(&self) -> Result<&dyn OpenContainer> {
        match self.0.closed.load(Ordering::Acquire) {
            false => Ok(&*self.0.opened),
            true => Err(closed()),
        }
    }

    /// The same, whether or not this was closed.
    pub(crate) fn opened_or_closed(&self) -> &dyn OpenContainer {
        &*self.0.opened
    }

    /// The same, where the container may be changed.
    fn writable(&self) -> Result<&dyn OpenContainer> {
        match self.is_writable() {
            true => self.opened(),
            false => Err(Error::new(
                ErrorKind::NoPermission,
                format!("container {:?} is open for reading only", self.info().label),
            )),
        }
    }

    fn is_writable(&self) -> bool {
        self.0.mode != OpenMode::ReadOnly
    }

    /// True where both are the same container, however they were opened.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0.pool, &other.0.pool) && self.id() == other.id()
    }

    /// Does `writes`, to any objects of the container, at one epoch and all or nothing; in a
    /// transaction they wait for its commit.
    ///
    /// # Errors
    /// Those of the operations; [`ErrorKind::NoPermission`] on a snapshot and where the container is
    /// open for reading only.
    pub async fn write(&self, writes: &[Write<'_>], access: Access<'_>) -> Result<()> {
        let opened = self.writable()?;
        match access {
            Access::Latest => opened.write(Change::of(writes)).await.map(drop),
            Access::Tx(transaction) => transaction.buffer(self, writes),
            Access::Snapshot(_) => {
                Err(Error::new(ErrorKind::NoPermission, "a snapshot cannot be written"))
            }
        }
    }
}

#[cold]
fn closed() -> Error {
    Error::new(ErrorKind::NoHandle, "the container is closed")
}

#[cold]
fn refuse_class(class: ObjectClass, cause: ClassError, targets: u32) -> Error {
    let message = match cause {
        ClassError::Unknown => format!("{:#x} is no object class", class.code()),
        ClassError::DoesNotFit => {
            format!("object class {class} does not fit a pool of {targets} targets")
        }
    };
    Error::new(ErrorKind::Invalid, message)
}
