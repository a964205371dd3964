//! Pools on Ceph RADOS, for data that outlives the machines: consensus, replication, recovery and scrubbing
//! are Ceph's.
//!
//! Every byte is in docs/format.md under "The rados layout". A container is a namespace. What an object of
//! Esker has under its keys are entries in the maps of RADOS objects: of one for each shard, or, for arrays, of
//! one for each chunk, which has the chunk's bytes as well. An operation on one RADOS object is atomic as Ceph
//! does it, with guards for what was read before; one on several is a transaction (`transaction.rs`).
#![forbid(unsafe_code)]

mod backend;
mod bodies;
mod fetch;
mod list;
mod loaded;
mod names;
mod patch;
mod piece;
mod record;
mod registry;
mod session;
mod space;
mod transaction;
mod url;
mod write;

pub use backend::Rados;
pub use url::RadosUrl;

use backend::TARGETS;
use esker_backend::Reply;
use esker_backend::handles::Handled;
use esker_backend::{Backend, Capabilities, NewContainer, Scope};
use esker_os::executor::{Task, side_by_side};
use esker_types::info::{
    ContainerId, ContainerInfo, ContainerRef, OpenMode, PoolInfo, SnapshotInfo,
};
use esker_types::ops::{
    AkeyRef, Anchor, Cond, Fetch, KeyFound, KeyQuery, KeyScope, ListLimit, ReadAt, ReadMarks,
    StoredExtent, View, Write,
};
use esker_types::{Epoch, Error, ErrorKind, KeyBatch, ObjectId, Result};
use fetch::Fetching;
use list::Listing;
use space::Space;
use std::sync::Arc;
use write::Writing;

/// Most operations of [`join_all`] that are under way at a time.
const JOIN_MAX: usize = 64;

/// Does work side by side, a bounded number of tasks at a time.
async fn join_all<T>(tasks: Vec<Task<'_, T>>) -> Vec<T> {
    side_by_side(tasks, JOIN_MAX).await
}

/// An answer that comes from the cluster.
fn pending<'a, T>(work: impl Future<Output = Result<T>> + Send + 'a) -> Reply<'a, T> {
    Reply::Pending(Box::pin(work))
}

/// There are no snapshots to read.
fn check_view(at: ReadAt<'_>) -> Result<()> {
    match at.view {
        View::Latest => Ok(()),
        View::Snapshot(epoch) => {
            let message = format!("no snapshot at epoch {}: a rados pool has none", epoch.0);
            Err(Error::new(ErrorKind::NotFound, message))
        }
    }
}

#[cold]
fn no_snapshots() -> Error {
    let message = "a rados pool has no snapshots: copy the container (`esker cont copy`)";
    Error::new(ErrorKind::NotSupported, message)
}

impl Rados {
    /// What concerns an object that is read.
    fn reading(&self, id: ContainerId, at: ReadAt<'_>) -> Result<Space> {
        check_view(at)?;
        self.space(id).map(|(_, space)| space)
    }

    fn listing<'a>(&self, id: ContainerId, oid: ObjectId, at: ReadAt<'a>) -> Result<Listing<'a>> {
        let space = self.reading(id, at)?;
        Ok(Listing { space, oid, targets: TARGETS, marks: at.marks })
    }

    async fn objects(
        &self,
        id: ContainerId,
        anchor: &mut Anchor,
        entries: usize,
    ) -> Result<Vec<ObjectId>> {
        let container = self.table.get(id)?;
        if *anchor == Anchor::Start || container.objects.lock().is_empty() {
            *container.objects.lock() = Arc::new(container.find_objects()?);
        }
        let all = Arc::clone(&container.objects.lock());
        let mut page = Vec::new();
        for oid in list::left(&all, anchor)? {
            if page.len() >= entries {
                return Ok(page);
            }
            let listing = self.listing(id, oid, ReadAt::LATEST)?;
            if listing.exists().await? {
                page.push(oid);
                *anchor = esker_backend::object::list::after(0, oid.to_bytes().to_vec());
            }
        }
        *anchor = Anchor::End;
        Ok(page)
    }
}

impl Backend for Rados {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            snapshots: false,
            transactions: true,
            any_akeys: true,
            holes: true,
            atomic_arrays: true,
            shared_holds: false,
            targets: TARGETS,
            domains: TARGETS,
        }
    }

    fn pool_info(&self) -> Reply<'_, PoolInfo> {
        Reply::Ready(self.info())
    }

    fn create_container<'a>(&'a self, new: &'a NewContainer<'a>) -> Reply<'a, ContainerInfo> {
        pending(async move { Ok(self.described(&self.registry.create(new).await?)) })
    }

    fn open_container<'a>(
        &'a self,
        name: ContainerRef<'a>,
        mode: OpenMode,
    ) -> Reply<'a, ContainerInfo> {
        pending(async move {
            let listed = self.registry.find(name).await?;
            self.note(&listed).handles().open(mode)?;
            Ok(self.described(&listed))
        })
    }

    fn close_container(&self, container: ContainerId) -> Reply<'_, ()> {
        self.table.close(container);
        Reply::Ready(Ok(()))
    }

    fn destroy_container<'a>(&'a self, name: ContainerRef<'a>, force: bool) -> Reply<'a, ()> {
        pending(async move {
            let listed = self.registry.find(name).await?;
            self.note(&listed).handles().retire(force)?;
            self.registry.destroy(&listed).await
        })
    }

    fn list_containers(&self) -> Reply<'_, Vec<ContainerInfo>> {
        pending(async move {
            let all = self.registry.all().await?;
            Ok(all.iter().map(|listed| self.described(listed)).collect())
        })
    }

    fn rename_container<'a>(
        &'a self,
        container: ContainerId,
        label: Option<&'a str>,
    ) -> Reply<'a, ()> {
        pending(async move {
            let uuid = self.table.get(container)?.listed.info.uuid;
            self.registry.rename(uuid, label).await
        })
    }

    fn get_metadata<'a>(&'a self, scope: Scope, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        pending(async move { self.metadata(scope)?.get(name).await })
    }

    fn set_metadata<'a>(
        &'a self,
        scope: Scope,
        changes: &'a [(&'a str, Option<&'a [u8]>)],
    ) -> Reply<'a, ()> {
        pending(async move { self.metadata(scope)?.set(changes).await })
    }

    fn list_metadata<'a>(&'a self, scope: Scope, prefix: &'a str) -> Reply<'a, Vec<String>> {
        pending(async move { self.metadata(scope)?.list(prefix).await })
    }

    fn allocate_oids(&self, container: ContainerId, count: u64) -> Reply<'_, u64> {
        pending(async move { self.table.get(container)?.allocate(count).await })
    }

    fn next_oid(&self, container: ContainerId) -> Reply<'_, u64> {
        pending(async move { self.table.get(container)?.next().await })
    }

    fn write<'a>(
        &'a self,
        container: ContainerId,
        writes: &'a [Write<'a>],
        marks: Option<&'a ReadMarks>,
    ) -> Reply<'a, Epoch> {
        pending(async move {
            let (container, space) = self.space(container)?;
            Writing { container: &container, space, targets: TARGETS }.write(writes, marks).await
        })
    }

    fn fetch<'a, 'b>(
        &'a self,
        container: ContainerId,
        oid: ObjectId,
        dkey: &'a [u8],
        cond: Cond,
        fetches: &'a mut [Fetch<'b>],
        at: ReadAt<'a>,
    ) -> Reply<'a, ()>
    where
        'b: 'a,
    {
        pending(async move {
            let space = self.reading(container, at)?;
            let fetching = Fetching { space: &space, oid, targets: TARGETS, marks: at.marks };
            fetching.fetch(dkey, cond, fetches).await
        })
    }

    fn list_keys<'a>(
        &'a self,
        container: ContainerId,
        oid: ObjectId,
        scope: KeyScope<'a>,
        anchor: &'a mut Anchor,
        limit: ListLimit,
        at: ReadAt<'a>,
    ) -> Reply<'a, KeyBatch> {
        pending(
            async move { self.listing(container, oid, at)?.list_keys(scope, anchor, limit).await },
        )
    }

    fn list_extents<'a>(
        &'a self,
        container: ContainerId,
        oid: ObjectId,
        key: AkeyRef<'a>,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<StoredExtent>> {
        pending(async move {
            self.listing(container, oid, at)?.list_extents(key, anchor, entries).await
        })
    }

    fn list_objects<'a>(
        &'a self,
        container: ContainerId,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<ObjectId>> {
        pending(async move {
            check_view(at)?;
            self.objects(container, anchor, entries).await
        })
    }

    fn query_key<'a>(
        &'a self,
        container: ContainerId,
        oid: ObjectId,
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Option<KeyFound>> {
        pending(async move { self.listing(container, oid, at)?.query(query).await })
    }

    fn object_epoch<'a>(
        &'a self,
        container: ContainerId,
        oid: ObjectId,
        at: ReadAt<'a>,
    ) -> Reply<'a, Epoch> {
        pending(async move { self.listing(container, oid, at)?.epoch().await })
    }

    fn create_snapshot<'a>(&'a self, _: ContainerId, _: &'a str) -> Reply<'a, Epoch> {
        Reply::Ready(Err(no_snapshots()))
    }

    fn list_snapshots(&self, container: ContainerId) -> Reply<'_, Vec<SnapshotInfo>> {
        Reply::Ready(self.table.get(container).map(|_| Vec::new()))
    }

    fn destroy_snapshot(&self, _: ContainerId, _: Epoch) -> Reply<'_, ()> {
        Reply::Ready(Err(no_snapshots()))
    }

    fn hold(&self, container: ContainerId, oid: ObjectId) -> Reply<'_, ()> {
        self.holds.hold(container, oid);
        Reply::Ready(Ok(()))
    }

    fn release(&self, container: ContainerId, oid: ObjectId) -> Reply<'_, bool> {
        Reply::Ready(Ok(self.holds.release(container, oid)))
    }

    fn doom(&self, container: &ContainerInfo, oid: ObjectId) -> Reply<'_, bool> {
        Reply::Ready(Ok(self.holds.doom(container.id, oid)))
    }
}
