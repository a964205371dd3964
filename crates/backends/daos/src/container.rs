//! The backend trait of open containers.
use super::backend::{Known, Shared, checksum_of, created};
use super::names::{shown_label, unnamed};
use super::read::Reader;
use super::snapshots::Snapshots;
use super::write::Writer;
use super::{JOIN_MAX, listing, metadata, names, objects, pending, snapshots};
use crate::binding;
use crate::binding::{ContainerMode, Tx};
use esker_backend::handles::{Handled, gone};
use esker_backend::{Metadata, MetadataChanges, OpenContainer, Reply};
use esker_os::executor::{side_by_side, task};
use esker_types::info::{ContainerInfo, OpenMode, SnapshotInfo};
use esker_types::ops::{
    AkeyRef, Anchor, Change, DkeyFetch, KeyFound, KeyQuery, KeyScope, ListLimit, ReadAt,
    StoredExtent, View,
};
use esker_types::{Epoch, Error, ErrorKind, KeyBatch, ObjectId, Result, Uuid};
use std::sync::Arc;

/// An open container.
pub(super) struct Opened {
    pub(super) pool: Arc<Shared>,
    pub(super) known: Arc<Known>,
    pub(super) container: binding::Container,
    pub(super) writable: bool,
    /// The snapshots, as last listed.
    pub(super) snapshots: Snapshots,
    /// The most recent unfinished listings of keys.
    pub(super) listing: listing::Recent,
    /// The most recent unfinished listing of objects.
    pub(super) objects: objects::Recent,
    info: ContainerInfo,
}

impl Opened {
    /// Opens the container `name`, and reads what does not change while it is open, such as its checksum.
    pub(super) async fn open(pool: &Arc<Shared>, name: &str, mode: OpenMode) -> Result<Self> {
        if names::shown_label(name).is_empty() {
            let message = format!("{name:?} is the label of a container that has none");
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        pool.check_mode(mode)?;
        let container = pool.connection.open(name, ContainerMode::Use(mode)).await?;
        let state = container.query().await?;
        let (checksum, created) = (checksum_of(state.checksum), created(&container).await?);
        let known = pool.note(state.uuid);
        *known.about.lock() = Some((checksum, created));
        let info = ContainerInfo {
            id: known.id,
            uuid: state.uuid,
            label: shown_label(&state.label).to_owned(),
            checksum,
            created,
            handles: state.handles,
        };
        let (pool, writable) = (Arc::clone(pool), mode != OpenMode::ReadOnly);
        let (snapshots, listing) = (Snapshots::default(), listing::Recent::default());
        let objects = objects::Recent::default();
        Ok(Self { pool, known, container, writable, snapshots, listing, objects, info })
    }

    /// A reader of an object. Fails with `NotFound` if the snapshot does not exist any more.
    async fn reader<'a>(&'a self, oid: ObjectId, at: ReadAt<'a>) -> Result<Reader<'a>> {
        self.known.check_alive()?;
        let tx = self.view(at.view).await?;
        let object = self.container.object(oid, self.writable)?;
        Ok(Reader { opened: self, object, oid, tx, view: at.view, tokens: at.tokens })
    }

    pub(super) fn uuid(&self) -> Uuid {
        self.info.uuid
    }

    /// Opens the snapshot of a view as a transaction for reading. None for the latest state.
    pub(super) async fn view(&self, view: View) -> Result<Option<Tx>> {
        match view {
            View::Latest => Ok(None),
            View::Snapshot(epoch) => {
                self.snapshots.expect(&self.container, epoch).await?;
                self.container.at(epoch.0).map(Some)
            }
        }
    }

    /// The value of a name from the properties of the container; `None` if it has no such property.
    async fn property(&self, name: &str) -> Result<Option<Vec<u8>>> {
        Ok(metadata::property(&self.container.query().await?, name))
    }
}

impl Metadata for Opened {
    /// An attribute, or a property of DAOS in its place, as in a container that a DAOS tool created.
    fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        pending(async move {
            match metadata::get(&self.container.attributes(), name).await? {
                None if metadata::may_be_property(name) => self.property(name).await,
                found => Ok(found),
            }
        })
    }

    fn set_metadata<'a>(&'a self, changes: &'a MetadataChanges<'a>) -> Reply<'a, ()> {
        pending(async move {
            metadata::set(&self.container.attributes(), changes).await?;
            metadata::tell_layout(&self.container, changes).await
        })
    }

    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>> {
        pending(async move { metadata::list(&self.container.attributes(), prefix).await })
    }
}

impl OpenContainer for Opened {
    fn info(&self) -> &ContainerInfo {
        &self.info
    }

    fn close(&self) -> Reply<'_, ()> {
        pending(self.container.close())
    }

    fn rename<'a>(&'a self, label: Option<&'a str>) -> Reply<'a, ()> {
        pending(async move {
            names::check_shown(label)?;
            let stored = label.map_or_else(|| unnamed(self.info.uuid), str::to_owned);
            match self.container.query().await?.label == stored {
                true => Ok(()),
                false => self.container.set_label(&stored).await,
            }
        })
    }

    fn allocate_oids(&self, count: u64) -> Reply<'_, u64> {
        pending(self.known.numbers.allocate(&self.container, count))
    }

    fn next_oid(&self) -> Reply<'_, u64> {
        pending(self.known.numbers.next(&self.container))
    }

    fn write<'a>(&'a self, change: Change<'a>) -> Reply<'a, Epoch> {
        pending(async move {
            self.known.check_alive()?;
            Writer { opened: self }.write(&change).await
        })
    }

    fn fetch<'a, 'f, 'b>(
        &'a self,
        oid: ObjectId,
        dkeys: &'a mut [DkeyFetch<'f, 'b>],
        at: ReadAt<'a>,
    ) -> Reply<'a, ()>
    where
        'b: 'f,
        'f: 'a,
    {
        pending(async move {
            let reader = self.reader(oid, at).await?;
            if let [only] = dkeys {
                return reader.fetch(only.dkey, only.cond, only.akeys).await;
            }
            let each = dkeys.iter_mut().map(|of| task(reader.fetch(of.dkey, of.cond, of.akeys)));
            side_by_side(each.collect(), JOIN_MAX).await.into_iter().collect()
        })
    }

    fn list_keys<'a>(
        &'a self,
        oid: ObjectId,
        scope: KeyScope<'a>,
        anchor: &'a mut Anchor,
        limit: ListLimit,
        at: ReadAt<'a>,
    ) -> Reply<'a, KeyBatch> {
        pending(async move { self.reader(oid, at).await?.list_keys(scope, anchor, limit).await })
    }

    fn list_extents<'a>(
        &'a self,
        oid: ObjectId,
        key: AkeyRef<'a>,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<StoredExtent>> {
        pending(async move { self.reader(oid, at).await?.list_extents(key, anchor, entries).await })
    }

    fn list_objects<'a>(
        &'a self,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<ObjectId>> {
        pending(async move {
            self.known.check_alive()?;
            objects::list(self, anchor, entries, at).await
        })
    }

    fn query_key<'a>(
        &'a self,
        oid: ObjectId,
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Option<KeyFound>> {
        pending(async move { self.reader(oid, at).await?.query(query).await })
    }

    fn last_epoch<'a>(
        &'a self,
        oid: ObjectId,
        dkey: Option<&'a [u8]>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Epoch> {
        pending(async move { self.reader(oid, at).await?.epoch(dkey).await })
    }

    fn create_snapshot<'a>(&'a self, name: &'a str) -> Reply<'a, Epoch> {
        pending(snapshots::create(&self.container, name))
    }

    fn list_snapshots(&self) -> Reply<'_, Vec<SnapshotInfo>> {
        pending(async move {
            self.known.check_alive()?;
            snapshots::list(&self.container).await
        })
    }

    fn destroy_snapshot(&self, epoch: Epoch) -> Reply<'_, ()> {
        pending(snapshots::destroy(self, epoch))
    }

    /// Takes a lease. The check follows, so that a lease that is taken before the container is destroyed succeeds.
    fn lease(&self, oid: ObjectId) -> Reply<'_, ()> {
        self.known.leases.take(oid);
        Reply::Ready(if self.known.handles().is_gone() { Err(gone()) } else { Ok(()) })
    }

    fn release(&self, oid: ObjectId) -> Reply<'_, bool> {
        Reply::Ready(Ok(self.known.leases.release(oid)))
    }

    fn unlink_on_last_close(&self, oid: ObjectId) -> Reply<'_, bool> {
        Reply::Ready(Ok(self.known.leases.unlink_on_last_close(oid)))
    }
}
