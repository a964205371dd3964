//! A backend that does one thing wrong, to see that tests notice, and counts what it lists.
use esker::Reply;
use esker::types::info::{
    ContainerId, ContainerInfo, ContainerRef, OpenMode, PoolInfo, SnapshotInfo,
};
use esker::types::ops::{
    AkeyRef, Anchor, Cond, Fetch, KeyFound, KeyQuery, KeyScope, ListLimit, ReadAt, ReadMarks, Sink,
    StoredExtent, View, Write,
};
use esker::types::{Epoch, KeyBatch, ObjectId};
use esker_backend::{Backend, Capabilities, NewContainer, Scope};
use esker_memory::Memory;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is done wrong, now and then.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(dead_code, reason = "each test file uses a part of it")]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// A write is acknowledged and not done.
    LostWrite,
    /// A byte of a fetch is wrong.
    FlippedBit,
    /// Snapshots show the latest state.
    MovingSnapshots,
    /// Commits do not look at what was read.
    MissedConflicts,
    /// Transactions are told to restart all the time.
    NeedlessRestarts,
    /// Listings of keys end too early.
    ShortListings,
    /// A write finds the pool full.
    Full,
    /// Writes are never answered.
    NoAnswer,
}

/// The reference, or another backend, with a fault.
pub(crate) struct Faulty {
    inner: Arc<dyn Backend>,
    fault: Fault,
    calls: AtomicU64,
    listed: AtomicU64,
}

#[allow(dead_code, reason = "each test file uses a part of it")]
impl Faulty {
    pub(crate) fn new(fault: Fault) -> Self {
        Self::on(Arc::new(Memory::new(2)), fault)
    }

    pub(crate) fn on(inner: Arc<dyn Backend>, fault: Fault) -> Self {
        Self { inner, fault, calls: AtomicU64::new(1), listed: AtomicU64::new(0) }
    }

    /// Calls that list or look for keys and extents, and what they gave, since this was asked last.
    pub(crate) fn listed(&self) -> u64 {
        self.listed.swap(0, Ordering::Relaxed)
    }

    fn count<'a, T>(&self, reply: Reply<'a, T>, len: fn(&T) -> usize) -> Reply<'a, T> {
        let result = reply.wait();
        let given = result.as_ref().map_or(0, len) as u64;
        self.listed.fetch_add(1 + given, Ordering::Relaxed);
        Reply::Ready(result)
    }

    /// True at every 50th time that the fault could show.
    fn strikes(&self, fault: Fault) -> bool {
        self.fault == fault && self.calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(50)
    }

    fn at<'a>(&self, at: ReadAt<'a>) -> ReadAt<'a> {
        match self.fault {
            Fault::MovingSnapshots => ReadAt { view: View::Latest, ..at },
            _ => at,
        }
    }
}

impl Backend for Faulty {
    fn write<'a>(
        &'a self,
        container: ContainerId,
        writes: &'a [Write<'a>],
        marks: Option<&'a ReadMarks>,
    ) -> Reply<'a, Epoch> {
        if self.strikes(Fault::LostWrite) {
            return Reply::Ready(Ok(Epoch::now()));
        }
        if self.strikes(Fault::Full) {
            return Reply::Ready(Err(esker::types::ErrorKind::NoSpace.into()));
        }
        if self.fault == Fault::NoAnswer {
            return Reply::Pending(Box::pin(std::future::pending()));
        }
        if marks.is_some() && self.fault == Fault::NeedlessRestarts {
            return Reply::Ready(Err(esker::types::ErrorKind::TxRestart.into()));
        }
        let marks = marks.filter(|_| self.fault != Fault::MissedConflicts);
        self.inner.write(container, writes, marks)
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
        let result = self.inner.fetch(container, oid, dkey, cond, fetches, self.at(at)).wait();
        for fetch in fetches.iter_mut().filter(|fetch| fetch.filled_bytes > 0) {
            if let (Sink::One(buffer), true) = (&mut fetch.sink, self.strikes(Fault::FlippedBit)) {
                buffer[fetch.filled_bytes as usize - 1] ^= 1;
            }
        }
        Reply::Ready(result)
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
        if *anchor != Anchor::Start && self.strikes(Fault::ShortListings) {
            *anchor = Anchor::End;
        }
        let reply = self.inner.list_keys(container, oid, scope, anchor, limit, self.at(at));
        self.count(reply, KeyBatch::len)
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
        let reply = self.inner.list_extents(container, oid, key, anchor, entries, self.at(at));
        self.count(reply, Vec::len)
    }

    fn list_objects<'a>(
        &'a self,
        container: ContainerId,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<ObjectId>> {
        self.inner.list_objects(container, anchor, entries, self.at(at))
    }

    fn query_key<'a>(
        &'a self,
        container: ContainerId,
        oid: ObjectId,
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Option<KeyFound>> {
        self.count(self.inner.query_key(container, oid, query, self.at(at)), |_| 0)
    }

    fn object_epoch<'a>(
        &'a self,
        container: ContainerId,
        oid: ObjectId,
        at: ReadAt<'a>,
    ) -> Reply<'a, Epoch> {
        self.inner.object_epoch(container, oid, self.at(at))
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn pool_info(&self) -> Reply<'_, PoolInfo> {
        self.inner.pool_info()
    }

    fn create_container<'a>(&'a self, new: &'a NewContainer<'a>) -> Reply<'a, ContainerInfo> {
        self.inner.create_container(new)
    }

    fn open_container<'a>(
        &'a self,
        name: ContainerRef<'a>,
        mode: OpenMode,
    ) -> Reply<'a, ContainerInfo> {
        self.inner.open_container(name, mode)
    }

    fn close_container(&self, container: ContainerId) -> Reply<'_, ()> {
        self.inner.close_container(container)
    }

    fn destroy_container<'a>(&'a self, name: ContainerRef<'a>, force: bool) -> Reply<'a, ()> {
        self.inner.destroy_container(name, force)
    }

    fn list_containers(&self) -> Reply<'_, Vec<ContainerInfo>> {
        self.inner.list_containers()
    }

    fn rename_container<'a>(
        &'a self,
        container: ContainerId,
        label: Option<&'a str>,
    ) -> Reply<'a, ()> {
        self.inner.rename_container(container, label)
    }

    fn get_metadata<'a>(&'a self, scope: Scope, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        self.inner.get_metadata(scope, name)
    }

    fn set_metadata<'a>(
        &'a self,
        scope: Scope,
        changes: &'a [(&'a str, Option<&'a [u8]>)],
    ) -> Reply<'a, ()> {
        self.inner.set_metadata(scope, changes)
    }

    fn list_metadata<'a>(&'a self, scope: Scope, prefix: &'a str) -> Reply<'a, Vec<String>> {
        self.inner.list_metadata(scope, prefix)
    }

    fn allocate_oids(&self, container: ContainerId, count: u64) -> Reply<'_, u64> {
        self.inner.allocate_oids(container, count)
    }

    fn next_oid(&self, container: ContainerId) -> Reply<'_, u64> {
        self.inner.next_oid(container)
    }

    fn create_snapshot<'a>(&'a self, container: ContainerId, name: &'a str) -> Reply<'a, Epoch> {
        self.inner.create_snapshot(container, name)
    }

    fn list_snapshots(&self, container: ContainerId) -> Reply<'_, Vec<SnapshotInfo>> {
        self.inner.list_snapshots(container)
    }

    fn destroy_snapshot(&self, container: ContainerId, epoch: Epoch) -> Reply<'_, ()> {
        self.inner.destroy_snapshot(container, epoch)
    }

    fn hold(&self, container: ContainerId, oid: ObjectId) -> Reply<'_, ()> {
        self.inner.hold(container, oid)
    }

    fn release(&self, container: ContainerId, oid: ObjectId) -> Reply<'_, bool> {
        self.inner.release(container, oid)
    }

    fn doom(&self, container: &ContainerInfo, oid: ObjectId) -> Reply<'_, bool> {
        self.inner.doom(container, oid)
    }
}
