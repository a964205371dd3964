//! A backend that does one thing wrong, to see that tests notice.
use esker::Reply;
use esker::backend::{Backend, Capabilities, NewContainer, Scope};
use esker::memory::Memory;
use esker::types::info::{
    ContainerId, ContainerInfo, ContainerRef, OpenMode, PoolInfo, SnapshotInfo,
};
use esker::types::ops::{
    AkeyRef, Anchor, Cond, Fetch, KeyFound, KeyQuery, KeyScope, ListLimit, ReadAt, ReadMarks, Sink,
    StoredExtent, View, Write,
};
use esker::types::{Epoch, KeyBatch, ObjectId};
use std::sync::atomic::{AtomicU64, Ordering};

/// What is done wrong, now and then.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(dead_code, reason = "each test file uses a part of it")]
pub(crate) enum Fault {
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

/// The reference with a fault.
pub(crate) struct Faulty {
    memory: Memory,
    fault: Fault,
    calls: AtomicU64,
}

impl Faulty {
    pub(crate) fn new(fault: Fault) -> Self {
        Self { memory: Memory::new(2), fault, calls: AtomicU64::new(1) }
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
        self.memory.write(container, writes, marks)
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
        let result = self.memory.fetch(container, oid, dkey, cond, fetches, self.at(at)).wait();
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
        self.memory.list_keys(container, oid, scope, anchor, limit, self.at(at))
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
        self.memory.list_extents(container, oid, key, anchor, entries, self.at(at))
    }

    fn list_objects<'a>(
        &'a self,
        container: ContainerId,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<ObjectId>> {
        self.memory.list_objects(container, anchor, entries, self.at(at))
    }

    fn query_key<'a>(
        &'a self,
        container: ContainerId,
        oid: ObjectId,
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Option<KeyFound>> {
        self.memory.query_key(container, oid, query, self.at(at))
    }

    fn object_epoch<'a>(
        &'a self,
        container: ContainerId,
        oid: ObjectId,
        at: ReadAt<'a>,
    ) -> Reply<'a, Epoch> {
        self.memory.object_epoch(container, oid, self.at(at))
    }

    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    fn pool_info(&self) -> Reply<'_, PoolInfo> {
        self.memory.pool_info()
    }

    fn create_container<'a>(&'a self, new: &'a NewContainer<'a>) -> Reply<'a, ContainerInfo> {
        self.memory.create_container(new)
    }

    fn open_container<'a>(
        &'a self,
        name: ContainerRef<'a>,
        mode: OpenMode,
    ) -> Reply<'a, ContainerInfo> {
        self.memory.open_container(name, mode)
    }

    fn close_container(&self, container: ContainerId) -> Reply<'_, ()> {
        self.memory.close_container(container)
    }

    fn destroy_container<'a>(&'a self, name: ContainerRef<'a>, force: bool) -> Reply<'a, ()> {
        self.memory.destroy_container(name, force)
    }

    fn list_containers(&self) -> Reply<'_, Vec<ContainerInfo>> {
        self.memory.list_containers()
    }

    fn rename_container<'a>(
        &'a self,
        container: ContainerId,
        label: Option<&'a str>,
    ) -> Reply<'a, ()> {
        self.memory.rename_container(container, label)
    }

    fn get_metadata<'a>(&'a self, scope: Scope, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        self.memory.get_metadata(scope, name)
    }

    fn set_metadata<'a>(
        &'a self,
        scope: Scope,
        changes: &'a [(&'a str, Option<&'a [u8]>)],
    ) -> Reply<'a, ()> {
        self.memory.set_metadata(scope, changes)
    }

    fn list_metadata<'a>(&'a self, scope: Scope, prefix: &'a str) -> Reply<'a, Vec<String>> {
        self.memory.list_metadata(scope, prefix)
    }

    fn allocate_oids(&self, container: ContainerId, count: u64) -> Reply<'_, u64> {
        self.memory.allocate_oids(container, count)
    }

    fn next_oid(&self, container: ContainerId) -> Reply<'_, u64> {
        self.memory.next_oid(container)
    }

    fn create_snapshot<'a>(&'a self, container: ContainerId, name: &'a str) -> Reply<'a, Epoch> {
        self.memory.create_snapshot(container, name)
    }

    fn list_snapshots(&self, container: ContainerId) -> Reply<'_, Vec<SnapshotInfo>> {
        self.memory.list_snapshots(container)
    }

    fn destroy_snapshot(&self, container: ContainerId, epoch: Epoch) -> Reply<'_, ()> {
        self.memory.destroy_snapshot(container, epoch)
    }

    fn hold(&self, container: ContainerId, oid: ObjectId) -> Reply<'_, ()> {
        self.memory.hold(container, oid)
    }

    fn release(&self, container: ContainerId, oid: ObjectId) -> Reply<'_, bool> {
        self.memory.release(container, oid)
    }

    fn doom(&self, container: ContainerId, oid: ObjectId) -> Reply<'_, bool> {
        self.memory.doom(container, oid)
    }
}
