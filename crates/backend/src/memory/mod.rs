//! A backend that keeps everything in memory under one lock: the simple reference that tests compare other backends
//! with, and a backend for data that need not outlive the process.

mod commits;
mod container;
mod state;

use crate::leases::Leases;
use crate::{Capabilities, Metadata, MetadataChanges, NewContainer, OpenContainer, Pool, Reply};
use esker_types::info::{
    ContainerId, ContainerInfo, ContainerRef, OpenMode, Part, PoolInfo, SnapshotInfo,
};
use esker_types::ops::{
    AkeyRef, Anchor, Change, Commit, CommitId, Decisions, DkeyFetch, KeyFound, KeyQuery, KeyScope,
    ListLimit, Outcome, Preparation, ReadAt, StoredExtent,
};
use esker_types::{Epoch, KeyBatch, ObjectId, Result};
use state::PoolState;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Number of targets of a pool created by [`Memory::named`].
const NAMED_TARGETS: u32 = 4;

/// A pool in memory. It is freed with its last user.
///
/// Listings go through its simulated targets one by one, as with real targets.
#[derive(Clone)]
pub struct Memory {
    /// Number of targets over all nodes, which the capabilities report.
    targets: u32,
    state: Arc<Mutex<PoolState>>,
}

impl Memory {
    /// An empty pool of `targets` targets (at least 1), each in its own fault domain.
    #[must_use]
    pub fn new(targets: u32) -> Self {
        Self::part(targets, Part::WHOLE)
    }

    /// The pool of one node of a pool over several. It takes part in their commits; a prepared one stays in doubt as
    /// long as the pool lasts.
    #[must_use]
    pub fn part(targets: u32, part: Part) -> Self {
        let targets = targets.max(1);
        let over_nodes = targets * part.nodes;
        Self { targets: over_nodes, state: Arc::new(Mutex::new(PoolState::new(targets, part))) }
    }

    /// Sets the number of commit decisions that it stores, in place of
    /// [`DECISIONS_MAX`](esker_types::limits::DECISIONS_MAX).
    #[must_use]
    pub fn with_decisions_max(self, most: usize) -> Self {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).commits.decisions_max = most;
        self
    }

    /// Number of decisions that were swept.
    #[must_use]
    pub fn swept_decisions(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).commits.swept_count
    }

    /// The pool with this name. It is created on first use and lasts as long as the process.
    #[must_use]
    pub fn named(name: &str) -> Self {
        static POOLS: LazyLock<Mutex<HashMap<String, Memory>>> = LazyLock::new(Mutex::default);
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        pools.entry(name.to_owned()).or_insert_with(|| Self::new(NAMED_TARGETS)).clone()
    }

    /// Runs `work` on the state of the pool, under its lock. A lock that is poisoned by a panic is taken all the same.
    fn with<'a, T>(&self, work: impl FnOnce(&mut PoolState) -> Result<T>) -> Reply<'a, T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Reply::Ready(work(&mut state))
    }
}

impl Metadata for Memory {
    fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        self.with(|state| Ok(state.metadata.get(name)))
    }

    fn set_metadata<'a>(&'a self, changes: &'a MetadataChanges<'a>) -> Reply<'a, ()> {
        self.with(|state| {
            state.metadata.change(changes);
            Ok(())
        })
    }

    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>> {
        self.with(|state| Ok(state.metadata.list(prefix)))
    }
}

impl Pool for Memory {
    fn capabilities(&self) -> Capabilities {
        Capabilities { domains: self.targets, ..Capabilities::all(self.targets) }
    }

    fn info(&self) -> Reply<'_, PoolInfo> {
        self.with(|state| Ok(state.info()))
    }

    fn create_container<'a>(&'a self, new: &'a NewContainer<'a>) -> Reply<'a, ContainerInfo> {
        self.with(|state| state.create_container(new))
    }

    fn open_container<'a>(
        &'a self,
        name: ContainerRef<'a>,
        mode: OpenMode,
    ) -> Reply<'a, Box<dyn OpenContainer>> {
        self.with(|state| {
            let (info, leases) = state.open_container(name, mode)?;
            let pool = self.clone();
            Ok(Box::new(Opened { pool, id: info.id, info, leases }) as Box<dyn OpenContainer>)
        })
    }

    fn destroy_container<'a>(&'a self, name: ContainerRef<'a>, force: bool) -> Reply<'a, ()> {
        self.with(|state| state.containers.destroy(name, force))
    }

    fn list_containers(&self) -> Reply<'_, Vec<ContainerInfo>> {
        self.with(|state| Ok(state.containers.list()))
    }

    fn commit(&self, commit: Commit, epoch: Epoch) -> Reply<'_, ()> {
        self.with(|state| state.commit(commit, epoch))
    }

    fn abort(&self, commit: Commit) -> Reply<'_, ()> {
        self.with(|state| state.abort(commit))
    }

    fn outcome(&self, commit: Commit, decide: bool) -> Reply<'_, Outcome> {
        self.with(|state| state.outcome(commit, decide))
    }

    fn prepared(&self) -> Reply<'_, Vec<Commit>> {
        self.with(|state| Ok(state.commits.prepared()))
    }

    fn forget(&self, commit: Commit) -> Reply<'_, ()> {
        self.with(|state| state.forget(commit))
    }

    fn decisions(&self, most: usize) -> Reply<'_, Decisions> {
        self.with(|state| Ok(state.decisions(most)))
    }

    fn sweep<'a>(&'a self, ids: &'a [CommitId]) -> Reply<'a, ()> {
        self.with(|state| {
            state.sweep(ids);
            Ok(())
        })
    }
}

/// An open container in memory.
struct Opened {
    pool: Memory,
    id: ContainerId,
    info: ContainerInfo,
    leases: Arc<Leases>,
}

impl Metadata for Opened {
    fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        self.pool.with(|state| Ok(state.containers.get(self.id)?.metadata.get(name)))
    }

    fn set_metadata<'a>(&'a self, changes: &'a MetadataChanges<'a>) -> Reply<'a, ()> {
        self.pool.with(|state| {
            state.containers.get_mut(self.id)?.metadata.change(changes);
            Ok(())
        })
    }

    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>> {
        self.pool.with(|state| Ok(state.containers.get(self.id)?.metadata.list(prefix)))
    }
}

impl OpenContainer for Opened {
    fn info(&self) -> &ContainerInfo {
        &self.info
    }

    fn close(&self) -> Reply<'_, ()> {
        self.pool.with(|state| {
            state.containers.close(self.id);
            Ok(())
        })
    }

    fn rename<'a>(&'a self, label: Option<&'a str>) -> Reply<'a, ()> {
        self.pool.with(|state| state.containers.rename(self.id, label))
    }

    fn allocate_oids(&self, count: u64) -> Reply<'_, u64> {
        self.pool.with(|state| state.containers.get_mut(self.id)?.allocate_oids(count))
    }

    fn write<'a>(&'a self, change: Change<'a>) -> Reply<'a, Epoch> {
        self.pool.with(|state| state.write(self.id, &change))
    }

    fn prepare<'a>(&'a self, commit: Commit, what: Preparation<'a>) -> Reply<'a, Epoch> {
        self.pool.with(|state| state.prepare(self.id, commit, what))
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
        self.pool.with(|state| {
            let mut reader = state.reader(self.id, oid, at)?;
            dkeys.iter_mut().try_for_each(|of| reader.fetch(of.dkey, of.cond, of.akeys))
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
        self.pool.with(|state| state.reader(self.id, oid, at)?.list_keys(scope, anchor, limit))
    }

    fn list_extents<'a>(
        &'a self,
        oid: ObjectId,
        key: AkeyRef<'a>,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<StoredExtent>> {
        self.pool.with(|state| state.reader(self.id, oid, at)?.list_extents(key, anchor, entries))
    }

    fn list_objects<'a>(
        &'a self,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<ObjectId>> {
        let nil = ObjectId::default();
        self.pool.with(|state| Ok(state.reader(self.id, nil, at)?.list_objects(anchor, entries)))
    }

    fn query_key<'a>(
        &'a self,
        oid: ObjectId,
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Option<KeyFound>> {
        self.pool.with(|state| state.reader(self.id, oid, at)?.query(query))
    }

    fn last_epoch<'a>(
        &'a self,
        oid: ObjectId,
        dkey: Option<&'a [u8]>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Epoch> {
        self.pool.with(|state| state.reader(self.id, oid, at)?.epoch(dkey))
    }

    fn create_snapshot<'a>(&'a self, name: &'a str) -> Reply<'a, Epoch> {
        self.pool.with(|state| state.create_snapshot(self.id, name))
    }

    fn list_snapshots(&self) -> Reply<'_, Vec<SnapshotInfo>> {
        self.pool.with(|state| Ok(state.resolved()?.container(self.id)?.list_snapshots()))
    }

    fn destroy_snapshot(&self, epoch: Epoch) -> Reply<'_, ()> {
        self.pool.with(|state| state.resolved()?.container(self.id)?.destroy_snapshot(epoch))
    }

    fn leases(&self) -> Option<&Leases> {
        Some(&self.leases)
    }
}
