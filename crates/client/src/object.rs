//! Objects: dkeys, which hold akeys, which hold single values or arrays.
use crate::access::Access;
use crate::container::Container;
use crate::lease::Lease;
use crate::view::View;
use esker_types::ops::{
    AkeyRef, Anchor, Cond, DkeyFetch, Fetch, KeyFound, KeyQuery, KeyScope, ListLimit, StoredExtent,
    Take, Taken, Update, Wanted, Write, WriteOp,
};
use esker_types::{Epoch, Error, ErrorKind, KeyBatch, ObjectId, Result};

/// An object of a container, by its id. It exists while it has a key.
/// Every operation fails with [`ErrorKind::NoHandle`] on a closed container and with [`ErrorKind::NoPermission`] on a
/// transaction that has ended. Keys are byte strings of 1 to [`esker_types::limits::KEY_MAX`] bytes, or 8 bytes in
/// the machine's byte order if the object's type has integer keys; others fail with [`ErrorKind::Invalid`] or
/// [`ErrorKind::KeyTooBig`].
#[derive(Clone)]
pub struct Object {
    container: Container,
    oid: ObjectId,
    writable: bool,
}

/// Objects of a container.
impl Container {
    /// An object. Nothing is read or written: an object exists while it has a key.
    #[must_use]
    pub fn object(&self, oid: ObjectId) -> Object {
        Object::new(self.clone(), oid)
    }
}

impl Object {
    pub(crate) fn new(container: Container, oid: ObjectId) -> Self {
        Self { container, oid, writable: true }
    }

    /// The same object, but every write fails with [`ErrorKind::NoPermission`].
    #[must_use]
    pub fn read_only(self) -> Self {
        Self { writable: false, ..self }
    }

    /// The id of the object.
    #[must_use]
    pub fn oid(&self) -> ObjectId {
        self.oid
    }

    /// The container it belongs to.
    #[must_use]
    pub fn container(&self) -> &Container {
        &self.container
    }

    /// Reads akeys of a dkey from one consistent state. A missing akey is not an error: see [`Fetch`]. `cond` is
    /// [`Cond::DKEY_FETCH`] or none; [`Cond::AKEY_FETCH`] is given in each [`Fetch`].
    ///
    /// # Errors
    /// [`ErrorKind::RecordTooBig`] if a sink is too short (the size is in the reply and in the error),
    /// [`ErrorKind::NotFound`] if a condition fails. An akey that holds the other kind of value is reported as
    /// missing.
    pub async fn fetch<'b>(
        &self,
        dkey: &[u8],
        cond: Cond,
        fetches: &mut [Fetch<'b>],
        access: Access<'_>,
    ) -> Result<()> {
        let reading = access.reading(&self.container)?;
        let opened = self.container.opened()?;
        let mut dkeys = [DkeyFetch { dkey, cond, akeys: fetches }];
        opened.fetch(self.oid, &mut dkeys, reading.at()).await
    }

    /// The single value of an akey, or one extent of its array, in place; `None` if it is missing or cannot be used
    /// in place.
    pub(crate) async fn view(
        &self,
        key: AkeyRef<'_>,
        wanted: Wanted<'_>,
        access: Access<'_>,
    ) -> Result<Option<View>> {
        let reading = access.reading(&self.container)?;
        let opened = self.container.opened()?;
        let found = opened.view(self.oid, key, wanted, reading.at()).await?;
        Ok(found.map(|found| View::in_place(found.bytes)))
    }

    /// Writes akeys of a dkey, all or none. `cond` is [`Cond::DKEY_INSERT`], [`Cond::DKEY_UPDATE`] or none;
    /// conditions on akeys are given in each [`Update`].
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] or [`ErrorKind::NotFound`] if a condition fails, [`ErrorKind::Invalid`] if buffers do
    /// not match extents or the record size differs from the stored one, [`ErrorKind::NoPermission`] if an akey holds
    /// the other kind of value, [`ErrorKind::NoSpace`]. In a transaction, the commit reports errors that depend on
    /// the state.
    pub async fn update(
        &self,
        dkey: &[u8],
        cond: Cond,
        updates: &[Update<'_>],
        access: Access<'_>,
    ) -> Result<()> {
        self.write(WriteOp::Update { dkey, cond, updates }, access).await
    }

    /// Removes the object with all its keys. `cond` is [`Cond::PUNCH`] or none.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the condition fails.
    pub async fn punch(&self, cond: Cond, access: Access<'_>) -> Result<()> {
        self.write(WriteOp::PunchObject { cond }, access).await
    }

    /// Removes a dkey with all its akeys. `cond` is [`Cond::PUNCH`] or none.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the condition fails.
    pub async fn punch_dkey(&self, dkey: &[u8], cond: Cond, access: Access<'_>) -> Result<()> {
        self.write(WriteOp::PunchDkey { dkey, cond }, access).await
    }

    /// Removes a dkey of this object and returns its content, if its array has the expected bytes. `None` if not, or if
    /// the content is too long: then nothing was changed.
    ///
    /// # Errors
    /// [`ErrorKind::TxUncertain`] if the connection to the node was lost: the dkey was removed by this call, or has
    /// been changed by others.
    pub async fn take(&self, take: Take<'_>) -> Result<Option<Taken>> {
        self.check_writable()?;
        self.container.writable()?.take(Take { oid: self.oid, ..take }).await
    }

    /// Removes akeys of a dkey. With [`Cond::PUNCH`], all of them must exist or none is removed.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the condition fails.
    pub async fn punch_akeys(
        &self,
        dkey: &[u8],
        akeys: &[&[u8]],
        cond: Cond,
        access: Access<'_>,
    ) -> Result<()> {
        self.write(WriteOp::PunchAkeys { dkey, akeys, cond }, access).await
    }

    /// The next dkeys after `anchor`, which is advanced. They come target by target; those of one target are sorted.
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn list_dkeys(
        &self,
        anchor: &mut Anchor,
        limit: ListLimit,
        access: Access<'_>,
    ) -> Result<KeyBatch> {
        self.list_keys(KeyScope::Dkeys, anchor, limit, access).await
    }

    /// The next akeys of a dkey after `anchor`, which is advanced, sorted.
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn list_akeys(
        &self,
        dkey: &[u8],
        anchor: &mut Anchor,
        limit: ListLimit,
        access: Access<'_>,
    ) -> Result<KeyBatch> {
        self.list_keys(KeyScope::Akeys(dkey), anchor, limit, access).await
    }

    /// Lists one batch of the keys in `scope`, and moves `anchor` past it.
    async fn list_keys(
        &self,
        scope: KeyScope<'_>,
        anchor: &mut Anchor,
        limit: ListLimit,
        access: Access<'_>,
    ) -> Result<KeyBatch> {
        let reading = access.reading(&self.container)?;
        let opened = self.container.opened()?;
        opened.list_keys(self.oid, scope, anchor, limit, reading.at()).await
    }

    /// At most `entries` stored extents of an array akey after `anchor`, which is advanced, in the order of their
    /// records. How the backend splits runs of records into extents is unspecified.
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn list_extents(
        &self,
        key: AkeyRef<'_>,
        anchor: &mut Anchor,
        entries: usize,
        access: Access<'_>,
    ) -> Result<Vec<StoredExtent>> {
        let reading = access.reading(&self.container)?;
        let opened = self.container.opened()?;
        opened.list_extents(self.oid, key, anchor, entries, reading.at()).await
    }

    /// The smallest or largest dkey, akey or extent; `None` if there is none.
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn query_key(
        &self,
        query: KeyQuery<'_>,
        access: Access<'_>,
    ) -> Result<Option<KeyFound>> {
        let reading = access.reading(&self.container)?;
        let opened = self.container.opened()?;
        opened.query_key(self.oid, query, reading.at()).await
    }

    /// The epoch of the object's last modification, computed from its existing keys; zero if it has none.
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn epoch(&self, access: Access<'_>) -> Result<Epoch> {
        let reading = access.reading(&self.container)?;
        self.container.opened()?.last_epoch(self.oid, None, reading.at()).await
    }

    /// The epoch of the last modification under a dkey; zero if it has no akeys. On `daos:` pools, this is the epoch of
    /// the object.
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn dkey_epoch(&self, dkey: &[u8], access: Access<'_>) -> Result<Epoch> {
        let reading = access.reading(&self.container)?;
        self.container.opened()?.last_epoch(self.oid, Some(dkey), reading.at()).await
    }

    /// Reads akeys of several dkeys. Each dkey is read from one consistent state.
    ///
    /// # Errors
    /// The errors of [`Object::fetch`].
    pub async fn fetch_dkeys(
        &self,
        dkeys: &mut [DkeyFetch<'_, '_>],
        access: Access<'_>,
    ) -> Result<()> {
        let reading = access.reading(&self.container)?;
        self.container.opened()?.fetch(self.oid, dkeys, reading.at()).await
    }

    /// Takes a lease: declares that this process uses the object until the [`Lease`] ends. Nothing is read; to make
    /// sure that the object still exists, check after this call.
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn lease(&self) -> Result<Lease> {
        self.container.opened()?;
        Lease::take(self.container.clone(), self.oid).await
    }

    /// Leaves the removal of the object to the last process with a lease, this one included. False if no process has
    /// one: then the caller removes the object ([`Object::punch`]). Call it when no directory entry refers to the
    /// object any more, so that processes which take a lease later notice that and end it.
    ///
    /// If the last process with a lease is killed, the object stays until a cleanup calls this again.
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn unlink_on_last_close(&self) -> Result<bool> {
        self.container.opened()?.unlink_on_last_close(self.oid).await
    }

    /// Records that a lock file of the object ([`crate::lock_file`]) is about to be created (`made` is true), or was
    /// removed (false). A process that has such a file open, with a shared lock on [`crate::PRESENCE`], uses the object
    /// as if it had a lease.
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn note_lock_file(&self, made: bool) -> Result<()> {
        self.container.opened()?.note_lock_file(self.oid, made).await
    }

    /// Makes one change to the object, at once or in a transaction.
    pub(crate) async fn write(&self, op: WriteOp<'_>, access: Access<'_>) -> Result<()> {
        self.check_writable()?;
        self.container.write(&[Write { oid: self.oid, op }], access).await
    }

    /// Fails with `NoPermission` if the object is open read-only.
    pub(crate) fn check_writable(&self) -> Result<()> {
        match self.writable {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::NoPermission,
                format!("object {} is open read-only", self.oid),
            )),
        }
    }
}
