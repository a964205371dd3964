//! Pools on Ceph RADOS, for data that outlives the machines. Ceph provides consensus, replication, recovery and
//! scrubbing.
//!
//! docs/format.md, "The rados layout", specifies every byte. A container is a namespace. The keys of an Esker object
//! are omap entries of RADOS objects: one RADOS object per shard or, for arrays, one per chunk, which also holds the
//! chunk's bytes. An operation on one RADOS object is a single atomic Ceph operation, guarded by comparisons with
//! what was read before; an operation on several is a transaction (`transaction.rs`).
#![deny(unsafe_code)]

mod backend;
mod blobs;
mod fetch;
pub mod librados;
mod list;
mod loaded;
mod names;
mod patch;
mod piece;
mod proof;
mod record;
mod registry;
mod session;
mod space;
mod transaction;
mod url;
mod write;

pub use backend::Rados;
pub use url::RadosUrl;

use backend::{Container, Shared, TARGETS};
use esker_backend::check::check_latest;
use esker_backend::handles::Handled;
use esker_backend::leases::Leases;
use esker_backend::{
    Capabilities, Metadata, MetadataChanges, NewContainer, OpenContainer, Pool, Reply,
};
use esker_os::executor::{Task, side_by_side, task};
use esker_types::info::{ContainerInfo, ContainerRef, OpenMode, PoolInfo, SnapshotInfo};
use esker_types::ops::{
    AkeyRef, Anchor, Change, DkeyFetch, KeyFound, KeyQuery, KeyScope, ListLimit, ReadAt,
    StoredExtent,
};
use esker_types::{Epoch, KeyBatch, ObjectId, Result};
use fetch::Fetcher;
use list::Listing;
use registry::Metadata as Stored;
use space::Space;
use std::sync::Arc;
use write::Writer;

/// Limit of concurrent operations in [`join_all`].
const JOIN_MAX: usize = 64;

/// Runs tasks concurrently, up to a limit.
async fn join_all<T>(tasks: Vec<Task<'_, T>>) -> Vec<T> {
    side_by_side(tasks, JOIN_MAX).await
}

/// A reply that waits for the cluster.
fn pending<'a, T>(work: impl Future<Output = Result<T>> + Send + 'a) -> Reply<'a, T> {
    Reply::Pending(Box::pin(work))
}

/// Rejects reads of snapshots, because this backend has none.
fn check_view(at: ReadAt<'_>) -> Result<()> {
    check_latest(at, "rados")
}

/// An open container.
struct Opened {
    pool: Arc<Shared>,
    container: Arc<Container>,
    info: ContainerInfo,
}

impl Opened {
    /// Returns the access to the RADOS objects of the container. Fails if the container was destroyed.
    async fn space(&self) -> Result<Space> {
        self.pool.check_exists(&self.container).await?;
        self.container.space()
    }

    /// The named values of the container.
    async fn metadata(&self) -> Result<Stored> {
        self.pool.registry.metadata_of(Some(self.space().await?))
    }

    /// The listings and queries of an object.
    async fn listing<'a>(&self, oid: ObjectId, at: ReadAt<'a>) -> Result<Listing<'a>> {
        check_view(at)?;
        Ok(Listing { space: self.space().await?, oid, targets: TARGETS, tokens: at.tokens })
    }

    /// Lists objects from the anchor on. The list is read at the start, and kept for the following pages.
    async fn objects(&self, anchor: &mut Anchor, entries: usize) -> Result<Vec<ObjectId>> {
        let container = &self.container;
        self.pool.check_exists(container).await?;
        if *anchor == Anchor::Start || container.objects.lock().is_empty() {
            *container.objects.lock() = Arc::new(container.find_objects()?);
        }
        let all = Arc::clone(&container.objects.lock());
        let mut page = Vec::new();
        for oid in list::after_anchor(&all, anchor)? {
            if page.len() >= entries {
                return Ok(page);
            }
            if self.listing(oid, ReadAt::LATEST).await?.exists().await? {
                page.push(oid);
                *anchor = esker_backend::object::list::after(0, oid.to_bytes().to_vec());
            }
        }
        // A container that was destroyed meanwhile has no objects: a copy of it must not end as if it were complete.
        self.pool.check_listed(container).await?;
        *anchor = Anchor::End;
        Ok(page)
    }
}

impl Metadata for Rados {
    fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        pending(async move { self.0.registry.metadata_of(None)?.get(name).await })
    }

    fn set_metadata<'a>(&'a self, changes: &'a MetadataChanges<'a>) -> Reply<'a, ()> {
        pending(async move { self.0.registry.metadata_of(None)?.set(changes).await })
    }

    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>> {
        pending(async move { self.0.registry.metadata_of(None)?.list(prefix).await })
    }
}

impl Pool for Rados {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            transactions: true,
            any_akeys: true,
            holes: true,
            atomic_arrays: true,
            asynchronous: true,
            domains: TARGETS,
            ..Capabilities::minimal(TARGETS)
        }
    }

    fn info(&self) -> Reply<'_, PoolInfo> {
        Reply::Ready(self.0.info())
    }

    fn create_container<'a>(&'a self, new: &'a NewContainer<'a>) -> Reply<'a, ContainerInfo> {
        pending(async move { Ok(self.0.described(&self.0.registry.create(new).await?)) })
    }

    fn open_container<'a>(
        &'a self,
        name: ContainerRef<'a>,
        mode: OpenMode,
    ) -> Reply<'a, Box<dyn OpenContainer>> {
        pending(async move {
            let listed = self.0.registry.find(name).await?;
            let container = self.0.note(&listed);
            container.handles().open(mode)?;
            let info = self.0.described(&listed);
            let opened = Opened { pool: Arc::clone(&self.0), container, info };
            Ok(Box::new(opened) as Box<dyn OpenContainer>)
        })
    }

    fn destroy_container<'a>(&'a self, name: ContainerRef<'a>, force: bool) -> Reply<'a, ()> {
        pending(async move {
            let listed = self.0.registry.find(name).await?;
            let container = self.0.note(&listed);
            container.handles().check_unused(force)?;
            self.0.registry.unregister(&listed, name).await?;
            // The handles are retired before the objects are removed, so that this process adds no more objects.
            container.handles().retire();
            self.0.registry.remove_objects(&listed).await
        })
    }

    fn list_containers(&self) -> Reply<'_, Vec<ContainerInfo>> {
        pending(async move {
            let all = self.0.registry.all().await?;
            Ok(all.iter().map(|listed| self.0.described(listed)).collect())
        })
    }
}

impl Metadata for Opened {
    fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        pending(async move { self.metadata().await?.get(name).await })
    }

    fn set_metadata<'a>(&'a self, changes: &'a MetadataChanges<'a>) -> Reply<'a, ()> {
        pending(async move { self.metadata().await?.set(changes).await })
    }

    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>> {
        pending(async move { self.metadata().await?.list(prefix).await })
    }
}

impl OpenContainer for Opened {
    fn info(&self) -> &ContainerInfo {
        &self.info
    }

    fn close(&self) -> Reply<'_, ()> {
        self.container.handles().close();
        Reply::Ready(Ok(()))
    }

    fn rename<'a>(&'a self, label: Option<&'a str>) -> Reply<'a, ()> {
        pending(async move {
            self.container.check_alive()?;
            self.pool.registry.rename(&self.info, label).await
        })
    }

    fn allocate_oids(&self, count: u64) -> Reply<'_, u64> {
        pending(async move {
            self.pool.check_exists(&self.container).await?;
            self.container.allocate(count).await
        })
    }

    fn next_oid(&self) -> Reply<'_, u64> {
        pending(async move {
            self.pool.check_exists(&self.container).await?;
            self.container.next().await
        })
    }

    fn write<'a>(&'a self, change: Change<'a>) -> Reply<'a, Epoch> {
        pending(async move {
            let (container, space) = (&*self.container, self.space().await?);
            Writer { container, space, targets: TARGETS }.write(&change).await
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
            check_view(at)?;
            let space = self.space().await?;
            let fetching = Fetcher { space: &space, oid, targets: TARGETS, tokens: at.tokens };
            if let [only] = dkeys {
                return fetching.fetch(only.dkey, only.cond, only.akeys).await;
            }
            let each = dkeys.iter_mut().map(|of| task(fetching.fetch(of.dkey, of.cond, of.akeys)));
            join_all(each.collect()).await.into_iter().collect()
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
        pending(async move { self.listing(oid, at).await?.list_keys(scope, anchor, limit).await })
    }

    fn list_extents<'a>(
        &'a self,
        oid: ObjectId,
        key: AkeyRef<'a>,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<StoredExtent>> {
        pending(
            async move { self.listing(oid, at).await?.list_extents(key, anchor, entries).await },
        )
    }

    fn list_objects<'a>(
        &'a self,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<ObjectId>> {
        pending(async move {
            check_view(at)?;
            self.objects(anchor, entries).await
        })
    }

    fn query_key<'a>(
        &'a self,
        oid: ObjectId,
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Option<KeyFound>> {
        pending(async move { self.listing(oid, at).await?.query(query).await })
    }

    fn last_epoch<'a>(
        &'a self,
        oid: ObjectId,
        dkey: Option<&'a [u8]>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Epoch> {
        pending(async move { self.listing(oid, at).await?.epoch(dkey).await })
    }

    fn list_snapshots(&self) -> Reply<'_, Vec<SnapshotInfo>> {
        Reply::Ready(self.container.check_alive().map(|()| Vec::new()))
    }

    fn leases(&self) -> Option<&Leases> {
        Some(&self.container.leases)
    }
}
