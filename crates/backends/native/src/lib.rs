//! The native backend: the calling process works on targets of this machine directly.
//!
//! Every reply is ready when it is returned: an operation whose reply is dropped has been done. Some operations block
//! the calling thread before they return. A write that finds no free space waits for readers and other writers, for
//! seconds at most ([`esker_store`]). A write waits for the write lock of its target, which one commit holds at a time.
//! An operation on a target that takes part in a commit over several waits for that commit. A caller with other work on
//! its thread runs such operations on another one.
#![forbid(unsafe_code)]

mod list;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use esker_backend::{
    Capabilities, Metadata, MetadataChanges, NewContainer, OpenContainer, Placement, Pool, Reply,
    Viewed,
};
use esker_store::{Container, ContainerSpec, OpenPool, ReadVersion, TakeResult, compact_reads};
use esker_types::info::{
    ContainerId, ContainerInfo, ContainerRef, OpenMode, Part, PoolInfo, SnapshotInfo,
};
use esker_types::limits::TAKEN_BYTES_MAX;
use esker_types::ops::{
    AkeyRef, Anchor, Change, Commit, CommitId, Decisions, DkeyFetch, KeyFound, KeyQuery, KeyScope,
    ListLimit, Outcome, Preparation, ReadAt, ReadLease, ReadTokens, StoredExtent, Take, Taken,
    View, Wanted, Write,
};
use esker_types::{Epoch, Error, ErrorKind, KeyBatch, ObjectId, Result};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// A pool on this machine.
pub struct Native(Arc<Shared>);

/// State that a pool and its open containers share.
struct Shared {
    pool: esker_store::Pool,
    placement: Placement,
}

impl Native {
    /// Opens the pool at `path`.
    ///
    /// # Errors
    /// `NotFound` if there is none, `Busy` if exclusive use forbids it, `Corrupt` or `Incompatible` if it cannot be
    /// used.
    pub fn open(path: &Path, mode: OpenMode) -> Result<Self> {
        let pool = esker_store::Pool::open(path)?;
        let placement = {
            let open = pool.opened()?;
            open.connect(mode)?;
            Placement::new(open.superblock.targets, open.superblock.part)
        };
        Ok(Self(Arc::new(Shared { pool, placement })))
    }

    /// The position of the pool in a pool over nodes.
    #[must_use]
    pub fn part(&self) -> Part {
        self.0.placement.part()
    }

    /// The pool itself, for maintenance.
    #[must_use]
    pub fn pool(&self) -> &esker_store::Pool {
        &self.0.pool
    }
}

impl Shared {
    fn with<'a, T>(&self, work: impl FnOnce(&OpenPool) -> Result<T>) -> Reply<'a, T> {
        let alive = self.pool.opened().and_then(|open| open.check_alive().map(|()| open));
        Reply::Ready(alive.and_then(|open| work(open)))
    }
}

impl Drop for Shared {
    /// Ends the use of the pool. A forked child is not counted for the handle of its parent.
    fn drop(&mut self) {
        if let Some(open) = self.pool.opened_here().filter(|_| !self.pool.is_inherited()) {
            // No caller is left to receive an error, and the kernel releases the lock with the process.
            let _ = open.disconnect();
        }
    }
}

/// A container that is open.
struct Opened {
    shared: Arc<Shared>,
    container: Container,
}

impl Opened {
    fn id(&self) -> ContainerId {
        self.container.id()
    }

    /// Runs `work` on the open pool, unless the container was destroyed: then the reply is an error.
    fn within<'a, T>(&self, work: impl FnOnce(&OpenPool) -> Result<T>) -> Reply<'a, T> {
        self.shared.with(|open| {
            self.container.check_alive(open)?;
            work(open)
        })
    }

    /// Runs a read of the container. It is an error if the container was destroyed meanwhile, because the read may have
    /// found it partly emptied.
    fn reading<'a, T>(&self, read: impl FnOnce(&OpenPool) -> Result<T>) -> Reply<'a, T> {
        self.within(|open| {
            let seen = read(open);
            self.container.check_alive(open)?;
            seen
        })
    }

    /// Runs a read. Checks its snapshot before and after the read, because the view of a snapshot that is destroyed
    /// meanwhile may have holes.
    fn with_checked_view<'a, T>(
        &self,
        at: ReadAt<'_>,
        work: impl FnOnce(&OpenPool) -> Result<T>,
    ) -> Reply<'a, T> {
        self.reading(|open| {
            self.check_view(open, at)?;
            let seen = work(open)?;
            self.check_view(open, at)?;
            Ok(seen)
        })
    }

    /// Fails if the snapshot of the view does not exist.
    #[inline]
    fn check_view(&self, open: &OpenPool, at: ReadAt<'_>) -> Result<()> {
        match at.view {
            View::Latest => Ok(()),
            View::Snapshot(epoch) => self.check_snapshot(open, epoch),
        }
    }

    /// Refuses a view of a snapshot that does not exist: its versions may be gone.
    fn check_snapshot(&self, open: &OpenPool, epoch: Epoch) -> Result<()> {
        if open.has_snapshot(&self.container, epoch)? {
            return Ok(());
        }
        let message = format!("the container has no snapshot at epoch {}", epoch.0);
        Err(Error::new(ErrorKind::NotFound, message))
    }

    /// Applies writes to several targets, or writes that depend on reads of several. Targets of other nodes are left
    /// out.
    fn write_spread(
        &self,
        open: &OpenPool,
        change: Change<'_>,
        reads: &[ReadVersion],
    ) -> Result<Epoch> {
        let Change { writes, id, .. } = change;
        let spread = self.spread(writes)?;
        let shards = spread.iter().flat_map(|(_, shards)| shards.iter().copied());
        let all: BTreeSet<u32> = shards.chain(reads.iter().map(|read| read.target)).collect();
        match all.first() {
            None => Ok(Epoch::now()),
            Some(&only) if all.len() == 1 => open.write(&self.container, only, writes, reads, id),
            Some(_) => open.write_many(&self.container, &spread, reads, id),
        }
    }

    /// Pairs each write with the targets of this node that it changes.
    fn spread<'w>(&self, writes: &[Write<'w>]) -> Result<Vec<(Write<'w>, Vec<u32>)>> {
        writes.iter().map(|write| Ok((*write, self.shards_of(write)?))).collect()
    }

    fn lister<'l>(&self, open: &'l OpenPool, oid: ObjectId, at: ReadAt<'l>) -> list::Lister<'l> {
        list::Lister { open, container: self.id(), oid, at }
    }

    /// The number of a target on this node. Fails if it is a target of another node.
    fn own(&self, target: u32) -> Result<u32> {
        self.shared.placement.own(target).ok_or_else(elsewhere)
    }

    /// The target that all of `writes` change, if it is only one. It may be one of another node.
    fn only_shard_of_all(&self, writes: &[Write<'_>]) -> Option<u32> {
        let placement = self.shared.placement;
        let (first, others) = writes.split_first()?;
        let only = placement.only_shard_of(first)?;
        others.iter().all(|write| placement.only_shard_of(write) == Some(only)).then_some(only)
    }

    /// Targets of this node that a write changes.
    fn shards_of(&self, write: &Write<'_>) -> Result<Vec<u32>> {
        let placement = self.shared.placement;
        match placement.only_shard_of(write) {
            Some(only) => Ok(vec![self.own(only)?]),
            None => Ok(self.own_shards(write.oid)),
        }
    }

    /// Targets of this node that store data of an object.
    fn own_shards(&self, oid: ObjectId) -> Vec<u32> {
        let placement = self.shared.placement;
        placement.shards(oid).into_iter().filter_map(|target| placement.own(target)).collect()
    }

    /// Numbers of the targets of this node that store the dkey or, without one, data of the object. They are indexes of
    /// [`OpenPool`]'s targets.
    fn shards(&self, oid: ObjectId, dkey: Option<&[u8]>) -> Result<Vec<u32>> {
        match dkey {
            Some(dkey) => Ok(vec![self.own(self.shared.placement.shard(oid, dkey))?]),
            None => Ok(self.own_shards(oid)),
        }
    }

    /// Removes a dkey and returns its content in one transaction. `Unsuited` if it cannot be done so.
    fn take_at_once(&self, open: &OpenPool, take: &Take<'_>) -> Result<TakeResult> {
        if take.extent.count > TAKEN_BYTES_MAX {
            return Ok(TakeResult::Unsuited);
        }
        let shard = self.own(self.shared.placement.shard(take.oid, take.dkey))?;
        open.take(&self.container, shard, take)
    }

    /// The target that stores a dkey. An error if the dkey belongs to another node.
    fn target<'o>(
        &self,
        open: &'o OpenPool,
        oid: ObjectId,
        dkey: &[u8],
    ) -> Result<&'o esker_store::Target> {
        Ok(&open.targets[self.own(self.shared.placement.shard(oid, dkey))? as usize])
    }
}

#[cold]
fn elsewhere() -> Error {
    let message = "the key is stored on another node of the pool: open the pool by its map";
    Error::new(ErrorKind::Invalid, message)
}

/// The read versions in the tokens; none without tokens.
fn read_versions(open: &OpenPool, tokens: Option<&ReadTokens>) -> Result<Vec<ReadVersion>> {
    tokens
        .map_or(Ok(Vec::new()), |tokens| ReadVersion::parse_tokens(tokens, open.superblock.targets))
}

/// From this number of keys or objects on, a read has compact tokens.
const COMPACT_MIN: usize = 32;

/// Runs `read`, which reads `many` keys or objects. From `COMPACT_MIN` on, its tokens are replaced by fewer compact
/// ones.
fn compacting<T>(
    open: &OpenPool,
    many: usize,
    at: ReadAt<'_>,
    read: impl FnOnce(ReadAt<'_>) -> Result<T>,
) -> Result<T> {
    let Some(tokens) = at.tokens.filter(|_| many >= COMPACT_MIN) else { return read(at) };
    let long = ReadTokens::default();
    let found = read(ReadAt { tokens: Some(&long), ..at });
    // A read that failed has tokens too: they cover missing data.
    compact_reads(&long, open.superblock.targets)?.map(|token| tokens.add(token));
    found
}

impl Metadata for Native {
    fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        self.0.with(|open| open.get_metadata(None, name))
    }

    fn set_metadata<'a>(&'a self, changes: &'a MetadataChanges<'a>) -> Reply<'a, ()> {
        self.0.with(|open| open.set_metadata(changes))
    }

    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>> {
        self.0.with(|open| open.list_metadata(None, prefix))
    }
}

impl Pool for Native {
    fn capabilities(&self) -> Capabilities {
        Capabilities::all(self.0.placement.targets())
    }

    fn info(&self) -> Reply<'_, PoolInfo> {
        self.0.with(OpenPool::info)
    }

    fn create_container<'a>(&'a self, new: &'a NewContainer<'a>) -> Reply<'a, ContainerInfo> {
        let spec = ContainerSpec {
            label: new.label,
            uuid: new.uuid,
            checksum: new.checksum,
            metadata: new.metadata,
            first_oid: new.first_oid,
        };
        self.0.with(|open| open.create_container(&spec))
    }

    fn open_container<'a>(
        &'a self,
        name: ContainerRef<'a>,
        mode: OpenMode,
    ) -> Reply<'a, Box<dyn OpenContainer>> {
        self.0.with(|open| {
            let container = open.open_container(name, mode)?;
            let opened = Opened { shared: Arc::clone(&self.0), container };
            Ok(Box::new(opened) as Box<dyn OpenContainer>)
        })
    }

    fn destroy_container<'a>(&'a self, name: ContainerRef<'a>, force: bool) -> Reply<'a, ()> {
        self.0.with(|open| open.destroy_container(name, force))
    }

    fn list_containers(&self) -> Reply<'_, Vec<ContainerInfo>> {
        self.0.with(OpenPool::list_containers)
    }

    fn commit(&self, commit: Commit, epoch: Epoch) -> Reply<'_, ()> {
        self.0.with(|open| open.commit_prepared(commit, epoch))
    }

    fn abort(&self, commit: Commit) -> Reply<'_, ()> {
        self.0.with(|open| open.abort_prepared(commit))
    }

    fn outcome(&self, commit: Commit, decide: bool) -> Reply<'_, Outcome> {
        self.0.with(|open| open.outcome(commit, decide))
    }

    fn prepared(&self) -> Reply<'_, Vec<Commit>> {
        self.0.with(OpenPool::prepared)
    }

    fn forget(&self, commit: Commit) -> Reply<'_, ()> {
        self.0.with(|open| open.forget(commit))
    }

    fn decisions(&self, most: usize) -> Reply<'_, Decisions> {
        self.0.with(|open| open.decisions(most))
    }

    fn sweep<'a>(&'a self, ids: &'a [CommitId]) -> Reply<'a, ()> {
        self.0.with(|open| open.sweep(ids))
    }
}

impl Metadata for Opened {
    fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        self.reading(|open| open.get_metadata(Some(self.id()), name))
    }

    fn set_metadata<'a>(&'a self, changes: &'a MetadataChanges<'a>) -> Reply<'a, ()> {
        self.within(|open| open.set_container_metadata(&self.container, changes))
    }

    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>> {
        self.reading(|open| open.list_metadata(Some(self.id()), prefix))
    }
}

impl OpenContainer for Opened {
    fn info(&self) -> &ContainerInfo {
        self.container.info()
    }

    fn close(&self) -> Reply<'_, ()> {
        // A forked child may have handles of its own on the container, but it is not counted for that of its parent.
        match self.shared.pool.opened_here().filter(|_| !self.container.is_inherited()) {
            Some(open) => Reply::Ready(open.close_container(self.id())),
            None => Reply::Ready(Ok(())),
        }
    }

    fn rename<'a>(&'a self, label: Option<&'a str>) -> Reply<'a, ()> {
        self.within(|open| open.rename_container(&self.container, label))
    }

    fn allocate_oids(&self, count: u64) -> Reply<'_, u64> {
        self.within(|open| open.allocate_oids(&self.container, count))
    }

    fn next_oid(&self) -> Reply<'_, u64> {
        self.reading(|open| open.next_oid(&self.container))
    }

    fn write<'a>(&'a self, change: Change<'a>) -> Reply<'a, Epoch> {
        self.within(|open| {
            if change.tokens.is_none()
                && let Some(shard) = self.only_shard_of_all(change.writes)
            {
                let shard = self.own(shard)?;
                return open.write(&self.container, shard, change.writes, &[], change.id);
            }
            let mut reads = read_versions(open, change.tokens)?;
            if change.writes.is_empty() {
                // All reads were valid together when the first target was checked. There is nothing to write.
                return open.check_read_versions(&reads).map(|()| Epoch::now());
            }
            // Such reads must hold once after the call began, so the commit need not check them again.
            if change.proved_once && open.are_unchanged(&reads) {
                reads.clear();
            }
            self.write_spread(open, change, &reads)
        })
    }

    fn prepare<'a>(&'a self, commit: Commit, what: Preparation<'a>) -> Reply<'a, Epoch> {
        self.within(|open| match what {
            Preparation::Change(change) => {
                let reads = read_versions(open, change.tokens)?;
                let writes = self.spread(change.writes)?;
                open.prepare_change(&self.container, commit, &writes, &reads)
            }
            Preparation::Snapshot(name) => open.prepare_snapshot(&self.container, commit, name),
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
        let many = dkeys.len();
        self.with_checked_view(at, |open| {
            compacting(open, many, at, |at| {
                dkeys.iter_mut().try_for_each(|DkeyFetch { dkey, cond, akeys }| {
                    self.target(open, oid, dkey)?.fetch(self.id(), oid, dkey, *cond, akeys, at)
                })
            })
        })
    }

    fn view<'a>(
        &'a self,
        oid: ObjectId,
        key: AkeyRef<'a>,
        wanted: Wanted<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Option<Viewed>> {
        self.with_checked_view(at, |open| {
            let found = self.target(open, oid, key.dkey)?.view(self.id(), oid, key, wanted, at)?;
            Ok(found.map(|view| Viewed { crc32c: view.crc32c(), bytes: Bytes::from_owner(view) }))
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
        self.with_checked_view(at, |open| {
            let shards = match scope {
                KeyScope::Dkeys => self.shards(oid, None)?,
                KeyScope::Akeys(dkey) => self.shards(oid, Some(dkey))?,
            };
            self.lister(open, oid, at).keys(&shards, scope, anchor, limit)
        })
    }

    fn list_extents<'a>(
        &'a self,
        oid: ObjectId,
        key: AkeyRef<'a>,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<StoredExtent>> {
        self.with_checked_view(at, |open| {
            let target = self.target(open, oid, key.dkey)?;
            target.list_extents(self.id(), oid, key, anchor, entries, at)
        })
    }

    fn list_objects<'a>(
        &'a self,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<ObjectId>> {
        self.with_checked_view(at, |open| {
            self.lister(open, ObjectId::default(), at).objects(anchor, entries)
        })
    }

    fn query_key<'a>(
        &'a self,
        oid: ObjectId,
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Option<KeyFound>> {
        self.with_checked_view(at, |open| {
            self.lister(open, oid, at).query(&self.shards(oid, query.dkey)?, query)
        })
    }

    fn query_keys<'a>(
        &'a self,
        oids: &'a [ObjectId],
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<Option<KeyFound>>> {
        self.with_checked_view(at, |open| {
            compacting(open, oids.len(), at, |at| {
                let query = |oid: &ObjectId| {
                    self.lister(open, *oid, at).query(&self.shards(*oid, query.dkey)?, query)
                };
                oids.iter().map(query).collect()
            })
        })
    }

    fn lease_reads<'a>(&'a self, reads: &'a ReadTokens) -> Reply<'a, Option<ReadLease>> {
        self.within(|open| open.lease_reads(&self.container, reads))
    }

    fn object_version(&self, oid: ObjectId) -> Reply<'_, Option<ReadTokens>> {
        self.within(|open| {
            let tokens = ReadTokens::default();
            // Only the tokens are wanted: a search among the keys of an object depends on all of them and their values.
            let at = ReadAt { tokens: Some(&tokens), ..ReadAt::LATEST };
            self.lister(open, oid, at).query(&self.own_shards(oid), KeyQuery::FIRST_DKEY)?;
            Ok(Some(tokens))
        })
    }

    fn is_unchanged(&self, reads: &ReadTokens) -> Option<bool> {
        let unchanged =
            |open: &OpenPool| Ok(open.are_unchanged(&read_versions(open, Some(reads))?));
        Some(self.within(unchanged).wait().unwrap_or(false))
    }

    fn last_epoch<'a>(
        &'a self,
        oid: ObjectId,
        dkey: Option<&'a [u8]>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Epoch> {
        self.with_checked_view(at, |open| {
            let targets = self.shards(oid, dkey)?;
            let epochs = targets
                .iter()
                .map(|&target| open.targets[target as usize].last_epoch(self.id(), oid, dkey, at));
            epochs.collect::<Result<Vec<_>>>().map(|all| all.into_iter().max().unwrap_or_default())
        })
    }

    fn create_snapshot<'a>(&'a self, name: &'a str) -> Reply<'a, Epoch> {
        self.within(|open| open.create_snapshot(&self.container, name))
    }

    fn list_snapshots(&self) -> Reply<'_, Vec<SnapshotInfo>> {
        self.reading(|open| open.list_snapshots(&self.container))
    }

    fn destroy_snapshot(&self, epoch: Epoch) -> Reply<'_, ()> {
        self.within(|open| open.destroy_snapshot(&self.container, epoch))
    }

    fn lease(&self, oid: ObjectId) -> Reply<'_, ()> {
        self.shared.with(|open| {
            open.lease(self.id(), oid);
            Ok(())
        })
    }

    fn release(&self, oid: ObjectId) -> Reply<'_, bool> {
        self.shared.with(|open| Ok(open.end_lease(self.id(), oid)))
    }

    fn unlink_on_last_close(&self, oid: ObjectId) -> Reply<'_, bool> {
        self.shared.with(|open| {
            Ok(open.unlink_on_last_close(self.id(), oid)
                || open.leave_to_inheritors(self.container.info(), oid)?)
        })
    }

    fn take<'a>(&'a self, take: Take<'a>) -> Reply<'a, Option<Taken>> {
        let taken = self.within(|open| self.take_at_once(open, &take));
        match taken.wait() {
            Ok(TakeResult::Taken(taken)) => Reply::Ready(Ok(Some(taken))),
            // The condition does not hold.
            Ok(TakeResult::Unexpected) => Reply::Ready(Ok(None)),
            // One transaction cannot do it, so several calls do.
            Ok(TakeResult::Unsuited) => Reply::Pending(Box::pin(esker_backend::take(self, take))),
            Err(error) => Reply::Ready(Err(error)),
        }
    }

    fn is_empty_without_dkeys(&self) -> bool {
        true
    }

    fn note_lock_file(&self, oid: ObjectId, made: bool) -> Reply<'_, ()> {
        self.shared.with(|open| {
            open.note_lock_file(self.id(), oid, made);
            Ok(())
        })
    }
}
