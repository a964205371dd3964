//! Objects: dkeys, under them akeys, under those single values or arrays.
use crate::access::Access;
use crate::container::Container;
use crate::lease::Lease;
use crate::view::View;
use esker_types::ops::{
    AkeyRef, Anchor, Cond, DkeyFetch, Fetch, KeyFound, KeyQuery, KeyScope, ListLimit, StoredExtent,
    Update, Wanted, Write, WriteOp,
};
use esker_types::{Epoch, Error, ErrorKind, KeyBatch, ObjectId, Result};

/// An object of a container, by its id. It exists while it has a key.
///
/// Every operation fails with [`ErrorKind::NoHandle`] on a closed container, and with
/// [`ErrorKind::NoPermission`] on a transaction that is over. Keys are byte strings of 1 to
/// [`esker_types::limits::KEY_MAX`] bytes, or 8 bytes in the machine's order where the object's type
/// has integer keys; others are refused with [`ErrorKind::Invalid`] or [`ErrorKind::KeyTooBig`].
#[derive(Clone)]
pub struct Object {
    container: Container,
    oid: ObjectId,
    writable: bool,
}

impl Object {
    pub(crate) fn new(container: Container, oid: ObjectId) -> Self {
        Self { container, oid, writable: true }
    }

    /// The same object, refusing every write with [`ErrorKind::NoPermission`].
    #[must_use]
    pub fn read_only(self) -> Self {
        Self { writable: false, ..self }
    }

    /// Its id.
    #[must_use]
    pub fn oid(&self) -> ObjectId {
        self.oid
    }

    /// The container it is in.
    #[must_use]
    pub fn container(&self) -> &Container {
        &self.container
    }

    /// Reads akeys of a dkey, of one consistent state. What is missing is no error: see [`Fetch`].
    /// `cond` is [`Cond::DKEY_FETCH`] or none; [`Cond::AKEY_FETCH`] stands in each [`Fetch`].
    ///
    /// # Errors
    /// [`ErrorKind::RecordTooBig`] where a sink is too short (the size is in the reply and in the
    /// error), [`ErrorKind::NotFound`] where a condition fails. A single value asked of an array, or
    /// an array of a single value, is missing.
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

    /// The single value of an akey, or one extent of its array, where it lies; `None` where it is not
    /// there or cannot be used in place.
    pub(crate) async fn view(
        &self,
        key: AkeyRef<'_>,
        wanted: Wanted<'_>,
        access: Access<'_>,
    ) -> Result<Option<View>> {
        let reading = access.reading(&self.container)?;
        let opened = self.container.opened()?;
        let found = opened.view(self.oid, key, wanted, reading.at()).await?;
        Ok(found.map(View::in_place))
    }

    /// Writes akeys of a dkey, all or none. `cond` is [`Cond::DKEY_INSERT`], [`Cond::DKEY_UPDATE`]
    /// or none; conditions on akeys stand in each [`Update`].
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] or [`ErrorKind::NotFound`] where a condition fails, [`ErrorKind::Invalid`]
    /// where buffers do not match extents or the record size differs from the stored one,
    /// [`ErrorKind::NoPermission`] where an akey holds the other kind of value,
    /// [`ErrorKind::NoSpace`]. In a transaction those that depend on the state come with the commit.
    pub async fn update(
        &self,
        dkey: &[u8],
        cond: Cond,
        updates: &[Update<'_>],
        access: Access<'_>,
    ) -> Result<()> {
        self.write(WriteOp::Update { dkey, cond, updates }, access).await
    }

    /// Removes everything of the object. `cond` is [`Cond::PUNCH`] or none.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where the condition fails.
    pub async fn punch(&self, cond: Cond, access: Access<'_>) -> Result<()> {
        self.write(WriteOp::PunchObject { cond }, access).await
    }

    /// Removes everything under a dkey. `cond` is [`Cond::PUNCH`] or none.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where the condition fails.
    pub async fn punch_dkey(&self, dkey: &[u8], cond: Cond, access: Access<'_>) -> Result<()> {
        self.write(WriteOp::PunchDkey { dkey, cond }, access).await
    }

    /// Removes akeys of a dkey. With [`Cond::PUNCH`] all of them must exist, or none is removed.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where the condition fails.
    pub async fn punch_akeys(
        &self,
        dkey: &[u8],
        akeys: &[&[u8]],
        cond: Cond,
        access: Access<'_>,
    ) -> Result<()> {
        self.write(WriteOp::PunchAkeys { dkey, akeys, cond }, access).await
    }

    /// Next dkeys after `anchor`, which moves on. Target by target, sorted in each.
    ///
    /// # Errors
    /// What the backend meets.
    pub async fn list_dkeys(
        &self,
        anchor: &mut Anchor,
        limit: ListLimit,
        access: Access<'_>,
    ) -> Result<KeyBatch> {
        self.list_keys(KeyScope::Dkeys, anchor, limit, access).await
    }

    /// Next akeys of a dkey after `anchor`, which moves on, sorted.
    ///
    /// # Errors
    /// What the backend meets.
    pub async fn list_akeys(
        &self,
        dkey: &[u8],
        anchor: &mut Anchor,
        limit: ListLimit,
        access: Access<'_>,
    ) -> Result<KeyBatch> {
        self.list_keys(KeyScope::Akeys(dkey), anchor, limit, access).await
    }

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

    /// At most `entries` stored extents of an array akey after `anchor`, which moves on, in order of
    /// their records. How runs of records are cut into extents is up to the backend.
    ///
    /// # Errors
    /// What the backend meets.
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

    /// The smallest or largest dkey, akey or extent; `None` where there is nothing.
    ///
    /// # Errors
    /// What the backend meets.
    pub async fn query_key(
        &self,
        query: KeyQuery<'_>,
        access: Access<'_>,
    ) -> Result<Option<KeyFound>> {
        let reading = access.reading(&self.container)?;
        let opened = self.container.opened()?;
        opened.query_key(self.oid, query, reading.at()).await
    }

    /// When it was last changed, as far as what exists of it tells; zero where nothing does.
    ///
    /// # Errors
    /// What the backend meets.
    pub async fn epoch(&self, access: Access<'_>) -> Result<Epoch> {
        let reading = access.reading(&self.container)?;
        self.container.opened()?.object_epoch(self.oid, reading.at()).await
    }

    /// Reads akeys of several dkeys; those of one dkey are read from one consistent state.
    ///
    /// # Errors
    /// As [`Object::fetch`].
    pub async fn fetch_dkeys(
        &self,
        dkeys: &mut [DkeyFetch<'_, '_>],
        access: Access<'_>,
    ) -> Result<()> {
        let reading = access.reading(&self.container)?;
        self.container.opened()?.fetch(self.oid, dkeys, reading.at()).await
    }

    /// Takes a lease: declares that this process uses the object, until the [`Lease`] ends. Nothing is read: to be
    /// sure that the object still exists, look after this call.
    ///
    /// # Errors
    /// What the backend meets.
    pub async fn lease(&self) -> Result<Lease> {
        self.container.opened()?;
        Lease::take(self.container.clone(), self.oid).await
    }

    /// Leaves its removal to the last process with a lease, this one included. False where there is none: the caller
    /// removes it ([`Object::punch`]). Call it when no name leads to the object any more, so that whoever takes a
    /// lease from now on finds that out and ends it.
    ///
    /// Where the last one with a lease is killed, nobody is told: whoever cleans up later asks this again.
    ///
    /// # Errors
    /// What the backend meets.
    pub async fn unlink_on_last_close(&self) -> Result<bool> {
        self.container.opened()?.unlink_on_last_close(self.oid).await
    }

    /// Notes that a lock file of it ([`crate::lock_file`]) is about to be made, or has been removed. A process that has
    /// such a file open, with a shared lock on [`crate::PRESENCE`], uses the object as if it had a lease.
    ///
    /// # Errors
    /// What the backend meets.
    pub async fn note_lock_file(&self, made: bool) -> Result<()> {
        self.container.opened()?.note_lock_file(self.oid, made).await
    }

    pub(crate) async fn write(&self, op: WriteOp<'_>, access: Access<'_>) -> Result<()> {
        self.check_writable()?;
        self.container.write(&[Write { oid: self.oid, op }], access).await
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        match self.writable {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::NoPermission,
                format!("object {} is open for reading only", self.oid),
            )),
        }
    }
}
