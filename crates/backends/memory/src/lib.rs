//! A backend that keeps everything in memory, one lock around it: the plain reference that other
//! backends are compared with, and a stand-in where nothing has to last.
#![forbid(unsafe_code)]

mod container;
mod state;

use esker_backend::holds::Holds;
use esker_backend::reply::Reply;
use esker_backend::{Backend, Capabilities, NewContainer, Scope};
use esker_types::info::{
    ContainerId, ContainerInfo, ContainerRef, OpenMode, PoolInfo, SnapshotInfo,
};
use esker_types::ops::{
    AkeyRef, Anchor, Cond, Fetch, KeyFound, KeyQuery, KeyScope, ListLimit, ReadAt, ReadMarks,
    StoredExtent, Write,
};
use esker_types::{Epoch, KeyBatch, ObjectId, Result};
use state::State;
use std::sync::{Mutex, PoisonError};

/// A pool in memory. It ends with its last user.
///
/// Listings go over its pretend targets one by one, as they do where targets are real.
pub struct Memory {
    targets: u32,
    state: Mutex<State>,
    holds: Holds,
}

impl Memory {
    /// An empty pool of `targets` targets (at least 1), each a fault domain of its own.
    #[must_use]
    pub fn new(targets: u32) -> Self {
        let targets = targets.max(1);
        Self { targets, state: Mutex::new(State::new(targets)), holds: Holds::default() }
    }

    fn with<'a, T>(&self, work: impl FnOnce(&mut State) -> Result<T>) -> Reply<'a, T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Reply::Ready(work(&mut state))
    }
}

impl Backend for Memory {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            snapshots: true,
            transactions: true,
            any_akeys: true,
            holes: true,
            atomic_arrays: true,
            shared_holds: true,
            targets: self.targets,
            domains: self.targets,
        }
    }

    fn pool_info(&self) -> Reply<'_, PoolInfo> {
        self.with(|state| Ok(state.info()))
    }

    fn create_container<'a>(&'a self, new: &'a NewContainer<'a>) -> Reply<'a, ContainerInfo> {
        self.with(|state| state.create_container(new))
    }

    fn open_container<'a>(
        &'a self,
        name: ContainerRef<'a>,
        mode: OpenMode,
    ) -> Reply<'a, ContainerInfo> {
        self.with(|state| state.open_container(name, mode))
    }

    fn close_container(&self, container: ContainerId) -> Reply<'_, ()> {
        self.with(|state| {
            state.close_container(container);
            Ok(())
        })
    }

    fn destroy_container<'a>(&'a self, name: ContainerRef<'a>, force: bool) -> Reply<'a, ()> {
        self.with(|state| state.destroy_container(name, force))
    }

    fn list_containers(&self) -> Reply<'_, Vec<ContainerInfo>> {
        self.with(|state| Ok(state.list_containers()))
    }

    fn rename_container<'a>(
        &'a self,
        container: ContainerId,
        label: Option<&'a str>,
    ) -> Reply<'a, ()> {
        self.with(|state| state.rename_container(container, label))
    }

    fn get_metadata<'a>(&'a self, scope: Scope, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        self.with(|state| Ok(state.metadata(scope)?.get(name).cloned()))
    }

    fn set_metadata<'a>(
        &'a self,
        scope: Scope,
        changes: &'a [(&'a str, Option<&'a [u8]>)],
    ) -> Reply<'a, ()> {
        self.with(|state| {
            state::change_metadata(state.metadata(scope)?, changes);
            Ok(())
        })
    }

    fn list_metadata<'a>(&'a self, scope: Scope, prefix: &'a str) -> Reply<'a, Vec<String>> {
        self.with(|state| {
            let names = state.metadata(scope)?.keys();
            Ok(names.filter(|name| name.starts_with(prefix)).cloned().collect())
        })
    }

    fn allocate_oids(&self, container: ContainerId, count: u64) -> Reply<'_, u64> {
        self.with(|state| state.container(container)?.allocate_oids(count))
    }

    fn next_oid(&self, container: ContainerId) -> Reply<'_, u64> {
        self.with(|state| Ok(state.container(container)?.next_oid))
    }

    fn write<'a>(
        &'a self,
        container: ContainerId,
        writes: &'a [Write<'a>],
        marks: Option<&'a ReadMarks>,
    ) -> Reply<'a, Epoch> {
        self.with(|state| state.write(container, writes, marks))
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
        self.with(|state| state.reader(container, oid, at)?.fetch(dkey, cond, fetches))
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
        self.with(|state| state.reader(container, oid, at)?.list_keys(scope, anchor, limit))
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
        self.with(|state| state.reader(container, oid, at)?.list_extents(key, anchor, entries))
    }

    fn list_objects<'a>(
        &'a self,
        container: ContainerId,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<ObjectId>> {
        let nil = ObjectId::default();
        self.with(|state| Ok(state.reader(container, nil, at)?.list_objects(anchor, entries)))
    }

    fn query_key<'a>(
        &'a self,
        container: ContainerId,
        oid: ObjectId,
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Option<KeyFound>> {
        self.with(|state| state.reader(container, oid, at)?.query(query))
    }

    fn object_epoch<'a>(
        &'a self,
        container: ContainerId,
        oid: ObjectId,
        at: ReadAt<'a>,
    ) -> Reply<'a, Epoch> {
        self.with(|state| Ok(state.reader(container, oid, at)?.epoch()))
    }

    fn create_snapshot<'a>(&'a self, container: ContainerId, name: &'a str) -> Reply<'a, Epoch> {
        self.with(|state| state.create_snapshot(container, name))
    }

    fn list_snapshots(&self, container: ContainerId) -> Reply<'_, Vec<SnapshotInfo>> {
        self.with(|state| Ok(state.container(container)?.list_snapshots()))
    }

    fn destroy_snapshot(&self, container: ContainerId, epoch: Epoch) -> Reply<'_, ()> {
        self.with(|state| state.container(container)?.destroy_snapshot(epoch))
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
