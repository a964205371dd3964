//! A backend behind an interceptor, which sees every call.
use esker_backend::{
    Capabilities, Metadata, MetadataChanges, NewContainer, OpenContainer, Pool, Reply,
};
use esker_types::info::{ContainerInfo, ContainerRef, OpenMode, PoolInfo, SnapshotInfo};
use esker_types::ops::{
    AkeyRef, Anchor, Change, Commit, CommitId, Decisions, DkeyFetch, KeyFound, KeyQuery, KeyScope,
    ListLimit, Outcome, Preparation, ReadAt, ReadLease, ReadTokens, StoredExtent,
};
use esker_types::{Epoch, KeyBatch, ObjectId};
use std::ops::Deref;
use std::sync::Arc;

/// An interceptor between a backend and its callers. Calls go through [`Interceptor::pass`], or through a function of
/// their own.
pub trait Interceptor: Send + Sync + Sized + 'static {
    /// Makes a call to the backend, at once or later, and returns the reply.
    fn pass<'a, T: Send + Unpin + 'a>(
        &'a self,
        call: impl FnOnce() -> Reply<'a, T> + Send + 'a,
    ) -> Reply<'a, T> {
        call()
    }

    /// The capabilities that callers see; `of` are those of the backend.
    fn capabilities(&self, of: Capabilities) -> Capabilities {
        of
    }

    /// False if calls of [`Pool::forget`] do nothing.
    fn forgets(&self) -> bool {
        true
    }

    /// The state from which the backend reads when a caller asks for the state `at`.
    fn at<'a>(&self, at: ReadAt<'a>) -> ReadAt<'a> {
        at
    }

    /// Passes a change on to the backend's container `to`.
    fn write<'a>(&'a self, to: &'a dyn OpenContainer, change: Change<'a>) -> Reply<'a, Epoch> {
        self.pass(move || to.write(change))
    }

    /// Writes acknowledged changes of the backend's container to the medium.
    fn sync<'a>(&'a self, of: &'a dyn OpenContainer) -> Reply<'a, ()> {
        self.pass(move || of.sync())
    }

    /// Reads akeys.
    fn fetch<'a, 'f, 'b>(
        &'a self,
        from: &'a dyn OpenContainer,
        oid: ObjectId,
        dkeys: &'a mut [DkeyFetch<'f, 'b>],
        at: ReadAt<'a>,
    ) -> Reply<'a, ()>
    where
        'b: 'f,
        'f: 'a,
    {
        self.pass(move || from.fetch(oid, dkeys, at))
    }

    /// Asks for a lease on reads.
    fn lease_reads<'a>(
        &'a self,
        of: &'a dyn OpenContainer,
        reads: &'a ReadTokens,
    ) -> Reply<'a, Option<ReadLease>> {
        self.pass(move || of.lease_reads(reads))
    }

    /// Takes a lease on an object.
    fn lease<'a>(&'a self, from: &'a dyn OpenContainer, oid: ObjectId) -> Reply<'a, ()> {
        self.pass(move || from.lease(oid))
    }

    /// Ends a lease on an object.
    fn release<'a>(&'a self, from: &'a dyn OpenContainer, oid: ObjectId) -> Reply<'a, bool> {
        self.pass(move || from.release(oid))
    }

    /// Called before keys are listed after `anchor`.
    fn before_keys(&self, _anchor: &mut Anchor) {}

    /// Makes a call that lists or searches. `len` counts the entries of its reply.
    fn list<'a, T: Send + Unpin + 'a>(
        &'a self,
        call: impl FnOnce() -> Reply<'a, T> + Send + 'a,
        _len: fn(&T) -> usize,
    ) -> Reply<'a, T> {
        self.pass(call)
    }
}

/// A pool or one of its containers, behind an interceptor.
pub struct Between<T, W> {
    pub(crate) inner: T,
    pub(crate) interceptor: Arc<W>,
}

/// A pool behind an interceptor, with its containers.
pub type PoolBetween<W> = Between<Arc<dyn Pool>, W>;

impl<W> PoolBetween<W> {
    /// Puts a pool behind an interceptor.
    pub fn before(pool: Arc<dyn Pool>, interceptor: &Arc<W>) -> Self {
        Self { inner: pool, interceptor: Arc::clone(interceptor) }
    }
}

impl<T: Clone, W> Clone for Between<T, W> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), interceptor: Arc::clone(&self.interceptor) }
    }
}

impl<T, W> Metadata for Between<T, W>
where
    T: Deref<Target: Metadata> + Send + Sync,
    W: Interceptor,
{
    fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        self.interceptor.pass(move || self.inner.get_metadata(name))
    }

    fn set_metadata<'a>(&'a self, changes: &'a MetadataChanges<'a>) -> Reply<'a, ()> {
        self.interceptor.pass(move || self.inner.set_metadata(changes))
    }

    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>> {
        self.interceptor.pass(move || self.inner.list_metadata(prefix))
    }
}

impl<W: Interceptor> Pool for PoolBetween<W> {
    fn capabilities(&self) -> Capabilities {
        self.interceptor.capabilities(self.inner.capabilities())
    }

    fn nodes(&self) -> u32 {
        self.inner.nodes()
    }

    fn info(&self) -> Reply<'_, PoolInfo> {
        self.interceptor.pass(|| self.inner.info())
    }

    fn create_container<'a>(&'a self, new: &'a NewContainer<'a>) -> Reply<'a, ContainerInfo> {
        self.interceptor.pass(move || self.inner.create_container(new))
    }

    fn open_container<'a>(
        &'a self,
        name: ContainerRef<'a>,
        mode: OpenMode,
    ) -> Reply<'a, Box<dyn OpenContainer>> {
        let behind = |inner| {
            Box::new(Between { inner, interceptor: Arc::clone(&self.interceptor) })
                as Box<dyn OpenContainer>
        };
        self.interceptor
            .pass(move || self.inner.open_container(name, mode).wait().map(behind).into())
    }

    fn destroy_container<'a>(&'a self, name: ContainerRef<'a>, force: bool) -> Reply<'a, ()> {
        self.interceptor.pass(move || self.inner.destroy_container(name, force))
    }

    fn list_containers(&self) -> Reply<'_, Vec<ContainerInfo>> {
        self.interceptor.pass(|| self.inner.list_containers())
    }

    fn commit(&self, commit: Commit, epoch: Epoch) -> Reply<'_, ()> {
        self.interceptor.pass(move || self.inner.commit(commit, epoch))
    }

    fn abort(&self, commit: Commit) -> Reply<'_, ()> {
        self.interceptor.pass(move || self.inner.abort(commit))
    }

    fn outcome(&self, commit: Commit, decide: bool) -> Reply<'_, Outcome> {
        self.interceptor.pass(move || self.inner.outcome(commit, decide))
    }

    fn prepared(&self) -> Reply<'_, Vec<Commit>> {
        self.interceptor.pass(|| self.inner.prepared())
    }

    fn forget(&self, commit: Commit) -> Reply<'_, ()> {
        match self.interceptor.forgets() {
            true => self.interceptor.pass(move || self.inner.forget(commit)),
            false => Reply::Ready(Ok(())),
        }
    }

    fn decisions(&self, most: usize) -> Reply<'_, Decisions> {
        self.interceptor.pass(move || self.inner.decisions(most))
    }

    fn sweep<'a>(&'a self, ids: &'a [CommitId]) -> Reply<'a, ()> {
        self.interceptor.pass(move || self.inner.sweep(ids))
    }
}

impl<W: Interceptor> OpenContainer for Between<Box<dyn OpenContainer>, W> {
    fn info(&self) -> &ContainerInfo {
        self.inner.info()
    }

    fn node_of(&self, oid: ObjectId, dkey: &[u8]) -> u32 {
        self.inner.node_of(oid, dkey)
    }

    fn close(&self) -> Reply<'_, ()> {
        self.interceptor.pass(|| self.inner.close())
    }

    fn rename<'a>(&'a self, label: Option<&'a str>) -> Reply<'a, ()> {
        self.interceptor.pass(move || self.inner.rename(label))
    }

    fn allocate_oids(&self, count: u64) -> Reply<'_, u64> {
        self.interceptor.pass(move || self.inner.allocate_oids(count))
    }

    fn next_oid(&self) -> Reply<'_, u64> {
        self.interceptor.pass(|| self.inner.next_oid())
    }

    fn write<'a>(&'a self, change: Change<'a>) -> Reply<'a, Epoch> {
        self.interceptor.write(&*self.inner, change)
    }

    fn prepare<'a>(&'a self, commit: Commit, what: Preparation<'a>) -> Reply<'a, Epoch> {
        self.interceptor.pass(move || self.inner.prepare(commit, what))
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
        self.interceptor.fetch(&*self.inner, oid, dkeys, self.interceptor.at(at))
    }

    fn list_keys<'a>(
        &'a self,
        oid: ObjectId,
        scope: KeyScope<'a>,
        anchor: &'a mut Anchor,
        limit: ListLimit,
        at: ReadAt<'a>,
    ) -> Reply<'a, KeyBatch> {
        self.interceptor.before_keys(anchor);
        let at = self.interceptor.at(at);
        self.interceptor
            .list(move || self.inner.list_keys(oid, scope, anchor, limit, at), KeyBatch::len)
    }

    fn list_extents<'a>(
        &'a self,
        oid: ObjectId,
        key: AkeyRef<'a>,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<StoredExtent>> {
        let at = self.interceptor.at(at);
        self.interceptor
            .list(move || self.inner.list_extents(oid, key, anchor, entries, at), Vec::len)
    }

    fn list_objects<'a>(
        &'a self,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<ObjectId>> {
        let at = self.interceptor.at(at);
        self.interceptor.pass(move || self.inner.list_objects(anchor, entries, at))
    }

    fn query_key<'a>(
        &'a self,
        oid: ObjectId,
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Option<KeyFound>> {
        let at = self.interceptor.at(at);
        self.interceptor.list(move || self.inner.query_key(oid, query, at), |_| 0)
    }

    fn query_keys<'a>(
        &'a self,
        oids: &'a [ObjectId],
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<Option<KeyFound>>> {
        let at = self.interceptor.at(at);
        self.interceptor.list(move || self.inner.query_keys(oids, query, at), Vec::len)
    }

    fn lease_reads<'a>(&'a self, reads: &'a ReadTokens) -> Reply<'a, Option<ReadLease>> {
        self.interceptor.lease_reads(&*self.inner, reads)
    }

    fn object_version(&self, oid: ObjectId) -> Reply<'_, Option<ReadTokens>> {
        self.interceptor.pass(move || self.inner.object_version(oid))
    }

    fn is_unchanged(&self, reads: &ReadTokens) -> Option<bool> {
        self.inner.is_unchanged(reads)
    }

    fn last_epoch<'a>(
        &'a self,
        oid: ObjectId,
        dkey: Option<&'a [u8]>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Epoch> {
        let at = self.interceptor.at(at);
        self.interceptor.pass(move || self.inner.last_epoch(oid, dkey, at))
    }

    fn sync(&self) -> Reply<'_, ()> {
        self.interceptor.sync(&*self.inner)
    }

    fn create_snapshot<'a>(&'a self, name: &'a str) -> Reply<'a, Epoch> {
        self.interceptor.pass(move || self.inner.create_snapshot(name))
    }

    fn list_snapshots(&self) -> Reply<'_, Vec<SnapshotInfo>> {
        self.interceptor.pass(|| self.inner.list_snapshots())
    }

    fn destroy_snapshot(&self, epoch: Epoch) -> Reply<'_, ()> {
        self.interceptor.pass(move || self.inner.destroy_snapshot(epoch))
    }

    fn lease(&self, oid: ObjectId) -> Reply<'_, ()> {
        self.interceptor.lease(&*self.inner, oid)
    }

    fn release(&self, oid: ObjectId) -> Reply<'_, bool> {
        self.interceptor.release(&*self.inner, oid)
    }

    fn unlink_on_last_close(&self, oid: ObjectId) -> Reply<'_, bool> {
        self.interceptor.pass(move || self.inner.unlink_on_last_close(oid))
    }
}
