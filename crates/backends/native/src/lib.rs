//! The native backend: targets on this machine, worked on directly. Every answer is ready at once.
#![forbid(unsafe_code)]

mod list;
mod open;
mod placement;

use arc_swap::{ArcSwap, Guard};
use esker_backend::reply::Reply;
use esker_backend::{Backend, Capabilities, NewContainer, Scope};
use esker_store::{Container, ContainerSpec, Mapped, OpenPool, Pool};
use esker_types::info::{
    ContainerId, ContainerInfo, ContainerRef, OpenMode, PoolInfo, SnapshotInfo,
};
use esker_types::ops::{
    AkeyRef, Anchor, Cond, Fetch, KeyFound, KeyQuery, KeyScope, ListLimit, ReadAt, ReadMark,
    ReadMarks, StoredExtent, View, Wanted, Write,
};
use esker_types::{Epoch, Error, ErrorKind, KeyBatch, ObjectId, Result};
use open::Open;
use placement::Placement;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

/// A pool on this machine.
pub struct Native {
    pool: Pool,
    placement: Placement,
    /// Containers in use and how often. Swapped as a whole, so that a fork finds it consistent.
    open: ArcSwap<HashMap<ContainerId, Open>>,
}

impl Native {
    /// Opens the pool at `path`.
    ///
    /// # Errors
    /// `NotFound` where there is none, `Busy` where exclusive use stands against it, `Corrupt` or
    /// `Incompatible` where it cannot be used.
    pub fn open(path: &Path, mode: OpenMode) -> Result<Self> {
        let pool = Pool::open(path)?;
        let targets = {
            let state = pool.opened()?;
            state.connect(mode)?;
            state.superblock.targets
        };
        Ok(Self { pool, placement: Placement::new(targets), open: ArcSwap::default() })
    }

    /// The pool itself, for maintenance.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    fn with<'a, T>(&self, work: impl FnOnce(&OpenPool) -> Result<T>) -> Reply<'a, T> {
        Reply::Ready(self.pool.opened().and_then(|state| work(state)))
    }

    fn within<'a, T>(
        &self,
        id: ContainerId,
        work: impl FnOnce(&OpenPool, &Container) -> Result<T>,
    ) -> Reply<'a, T> {
        self.with(|state| {
            let open: Guard<_> = self.open.load();
            let container = &open.get(&id).ok_or_else(not_open)?.container;
            container.check_alive(state)?;
            work(state, container)
        })
    }

    /// As [`Native::within`], for reads: what a snapshot that goes meanwhile shows may have holes.
    fn viewing<'a, T>(
        &self,
        id: ContainerId,
        at: ReadAt<'_>,
        work: impl FnOnce(&OpenPool, &Container) -> Result<T>,
    ) -> Reply<'a, T> {
        self.within(id, |state, container| {
            check_view(state, container, at)?;
            let seen = work(state, container)?;
            check_view(state, container, at)?;
            Ok(seen)
        })
    }

    /// Writes that fall on several targets, or that depend on reads of several.
    fn write_spread(
        &self,
        state: &OpenPool,
        container: &Container,
        writes: &[Write<'_>],
        marks: &[ReadMark],
    ) -> Result<Epoch> {
        let spread: Vec<(Write<'_>, Vec<u32>)> =
            writes.iter().map(|write| (*write, self.placement.shards_of(write))).collect();
        let shards = spread.iter().flat_map(|(_, shards)| shards.iter().copied());
        let all: BTreeSet<u32> = shards.chain(marks.iter().map(|mark| mark.shard)).collect();
        match all.first() {
            None => Ok(Epoch::now()),
            Some(&only) if all.len() == 1 => state.write(container, only, writes, marks),
            Some(_) => state.write_many(container, &spread, marks),
        }
    }
}

fn not_open() -> Error {
    Error::new(ErrorKind::NoHandle, "the container is not open")
}

fn id_of(scope: Scope) -> Option<ContainerId> {
    match scope {
        Scope::Pool => None,
        Scope::Container(id) => Some(id),
    }
}

/// Refuses a view of a snapshot that does not exist: its past may be gone.
fn check_view(state: &OpenPool, container: &Container, at: ReadAt<'_>) -> Result<()> {
    let View::Snapshot(epoch) = at.view else { return Ok(()) };
    if state.list_snapshots(container)?.iter().any(|snapshot| snapshot.epoch == epoch) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::NotFound,
        format!("the container has no snapshot at epoch {}", epoch.0),
    ))
}

impl Backend for Native {
    fn capabilities(&self) -> Capabilities {
        let targets = self.placement.targets();
        Capabilities {
            snapshots: true,
            transactions: true,
            any_akeys: true,
            holes: true,
            atomic_arrays: true,
            shared_holds: true,
            targets,
            domains: 1,
        }
    }

    fn pool_info(&self) -> Reply<'_, PoolInfo> {
        self.with(OpenPool::info)
    }

    fn create_container<'a>(&'a self, new: &'a NewContainer<'a>) -> Reply<'a, ContainerInfo> {
        let spec = ContainerSpec {
            label: new.label,
            uuid: new.uuid,
            checksum: new.checksum,
            metadata: new.metadata,
            first_oid: new.first_oid,
        };
        self.with(|state| state.create_container(&spec))
    }

    fn open_container<'a>(
        &'a self,
        name: ContainerRef<'a>,
        mode: OpenMode,
    ) -> Reply<'a, ContainerInfo> {
        self.with(|state| Ok(self.note_opened(state.open_container(name, mode)?)))
    }

    fn close_container(&self, container: ContainerId) -> Reply<'_, ()> {
        self.note_closed(container);
        match self.pool.opened_here() {
            Some(state) => Reply::Ready(state.close_container(container)),
            None => Reply::Ready(Ok(())),
        }
    }

    fn destroy_container<'a>(&'a self, name: ContainerRef<'a>, force: bool) -> Reply<'a, ()> {
        self.with(|state| state.destroy_container(name, force))
    }

    fn list_containers(&self) -> Reply<'_, Vec<ContainerInfo>> {
        self.with(OpenPool::list_containers)
    }

    fn rename_container<'a>(
        &'a self,
        container: ContainerId,
        label: Option<&'a str>,
    ) -> Reply<'a, ()> {
        self.within(container, |state, container| state.rename_container(container, label))
    }

    fn get_metadata<'a>(&'a self, scope: Scope, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        self.with(|state| state.get_metadata(id_of(scope), name))
    }

    fn set_metadata<'a>(
        &'a self,
        scope: Scope,
        changes: &'a [(&'a str, Option<&'a [u8]>)],
    ) -> Reply<'a, ()> {
        self.with(|state| state.set_metadata(id_of(scope), changes))
    }

    fn list_metadata<'a>(&'a self, scope: Scope, prefix: &'a str) -> Reply<'a, Vec<String>> {
        self.with(|state| state.list_metadata(id_of(scope), prefix))
    }

    fn allocate_oids(&self, container: ContainerId, count: u64) -> Reply<'_, u64> {
        self.within(container, |state, container| state.allocate_oids(container, count))
    }

    fn next_oid(&self, container: ContainerId) -> Reply<'_, u64> {
        self.within(container, OpenPool::next_oid)
    }

    fn write<'a>(
        &'a self,
        container: ContainerId,
        writes: &'a [Write<'a>],
        marks: Option<&'a ReadMarks>,
    ) -> Reply<'a, Epoch> {
        self.within(container, |state, container| {
            if let ([write], None) = (writes, marks)
                && let Some(shard) = self.placement.only_shard_of(write)
            {
                return state.write(container, shard, writes, &[]);
            }
            let marks = marks.map(ReadMarks::to_vec).unwrap_or_default();
            if writes.is_empty() {
                state.check_read_versions(&marks)?;
            }
            self.write_spread(state, container, writes, &marks)
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
        self.viewing(container, at, |state, container| {
            let target = &state.targets[self.placement.shard(oid, dkey) as usize];
            target.fetch(container.id(), oid, dkey, cond, fetches, at)
        })
    }

    fn view<'a>(
        &'a self,
        container: ContainerId,
        oid: ObjectId,
        key: AkeyRef<'a>,
        wanted: Wanted<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Option<Mapped>> {
        self.viewing(container, at, |state, container| {
            let target = &state.targets[self.placement.shard(oid, key.dkey) as usize];
            target.view(container.id(), oid, key, wanted, at)
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
        self.viewing(container, at, |state, container| {
            let lister = list::Lister { state, container: container.id(), oid, at };
            let shards = match scope {
                KeyScope::Dkeys => self.placement.shards(oid),
                KeyScope::Akeys(dkey) => vec![self.placement.shard(oid, dkey)],
            };
            lister.keys(&shards, scope, anchor, limit)
        })
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
        self.viewing(container, at, |state, container| {
            let target = &state.targets[self.placement.shard(oid, key.dkey) as usize];
            target.list_extents(container.id(), oid, key, anchor, entries, at)
        })
    }

    fn list_objects<'a>(
        &'a self,
        container: ContainerId,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<ObjectId>> {
        self.viewing(container, at, |state, container| {
            let oid = ObjectId::default();
            list::Lister { state, container: container.id(), oid, at }.objects(anchor, entries)
        })
    }

    fn query_key<'a>(
        &'a self,
        container: ContainerId,
        oid: ObjectId,
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Option<KeyFound>> {
        self.viewing(container, at, |state, container| {
            let lister = list::Lister { state, container: container.id(), oid, at };
            let shards = match query.dkey {
                Some(dkey) => vec![self.placement.shard(oid, dkey)],
                None => self.placement.shards(oid),
            };
            lister.query(&shards, query)
        })
    }

    fn object_epoch<'a>(
        &'a self,
        container: ContainerId,
        oid: ObjectId,
        at: ReadAt<'a>,
    ) -> Reply<'a, Epoch> {
        self.viewing(container, at, |state, container| {
            let shards = self.placement.shards(oid);
            let epochs = shards
                .iter()
                .map(|&shard| state.targets[shard as usize].object_epoch(container.id(), oid, at));
            epochs.collect::<Result<Vec<_>>>().map(|all| all.into_iter().max().unwrap_or_default())
        })
    }

    fn create_snapshot<'a>(&'a self, container: ContainerId, name: &'a str) -> Reply<'a, Epoch> {
        self.within(container, |state, container| state.create_snapshot(container, name))
    }

    fn list_snapshots(&self, container: ContainerId) -> Reply<'_, Vec<SnapshotInfo>> {
        self.within(container, OpenPool::list_snapshots)
    }

    fn destroy_snapshot(&self, container: ContainerId, epoch: Epoch) -> Reply<'_, ()> {
        self.within(container, |state, container| state.destroy_snapshot(container, epoch))
    }

    fn hold(&self, container: ContainerId, oid: ObjectId) -> Reply<'_, ()> {
        self.with(|state| {
            state.lease(container, oid);
            Ok(())
        })
    }

    fn release(&self, container: ContainerId, oid: ObjectId) -> Reply<'_, bool> {
        self.with(|state| Ok(state.end_lease(container, oid)))
    }

    fn note_lock_file(&self, container: ContainerId, oid: ObjectId, made: bool) -> Reply<'_, ()> {
        self.with(|state| {
            state.note_lock_file(container, oid, made);
            Ok(())
        })
    }

    fn doom(&self, container: &ContainerInfo, oid: ObjectId) -> Reply<'_, bool> {
        self.with(|state| {
            Ok(state.unlink_on_last_close(container.id, oid)
                || state.leave_to_inheritors(container, oid)?)
        })
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        if let Some(state) = self.pool.opened_here() {
            // Nobody is left to hear of a failure, and the kernel drops the lock with the process.
            let _ = state.disconnect();
        }
    }
}
