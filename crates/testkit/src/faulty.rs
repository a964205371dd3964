//! A backend with one injected fault, to verify that tests detect it. It also counts what it lists.
#![expect(clippy::panic, reason = "some faults are panics")]

use esker::types::info::{ContainerInfo, ContainerRef, OpenMode, PoolInfo, SnapshotInfo};
use esker::types::ops::{
    AkeyRef, Anchor, Change, Commit, DkeyFetch, FetchReply, KeyFound, KeyQuery, KeyScope,
    ListLimit, Outcome, Preparation, ReadAt, Sink, StoredExtent, View,
};
use esker::types::{Epoch, KeyBatch, ObjectId};
use esker_backend::{
    Capabilities, Metadata, MetadataChanges, NewContainer, OpenContainer, Pool, Reply,
};
use esker_memory::Memory;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;

/// The fault, which shows now and then.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Fault {
    /// No fault.
    #[default]
    None,
    /// A write is acknowledged but not applied.
    LostWrite,
    /// A write takes effect, and fails as if no reply had come. Its replies take a while.
    LostReply,
    /// Changes that are sent again are applied again.
    ForgottenIds,
    /// A fetch returns a wrong byte.
    FlippedBit,
    /// Snapshots show the latest state.
    MovingSnapshots,
    /// Commits do not verify reads.
    MissedConflicts,
    /// Transactions always fail with a request to restart.
    NeedlessRestarts,
    /// Listings of keys end too early.
    ShortListings,
    /// A write fails as if the pool were full.
    Full,
    /// Writes never complete.
    NoAnswer,
    /// Writes wait on their thread until [`Faulty::let_go`].
    Waits,
    /// Writes panic at once.
    Panics,
    /// Writes panic after they have waited for a moment.
    PanicsLater,
    /// Writes panic on threads that may wait.
    PanicsApart,
}

/// The reference backend, or another, with a fault.
#[derive(Clone)]
pub struct Faulty {
    inner: Arc<dyn Pool>,
    way: Arc<Way>,
}

/// The fault, and how many times it could have shown.
#[derive(Default)]
struct Way {
    fault: Fault,
    calls: AtomicU64,
    listed: AtomicU64,
    waiting: AtomicU64,
    let_go: AtomicBool,
}

impl Way {
    /// Panics now or later, if that is the fault.
    fn panic<'a>(&self) -> Option<Reply<'a, Epoch>> {
        match self.fault {
            Fault::Panics => panic!("a planned panic"),
            Fault::PanicsApart if esker_os::executor::must_not_wait() => {
                Some(Reply::Ready(Err(esker::types::ErrorKind::Busy.into())))
            }
            Fault::PanicsApart => panic!("a planned panic"),
            Fault::PanicsLater => Some(Reply::Pending(Box::pin(async {
                later().await;
                panic!("a planned panic")
            }))),
            _ => None,
        }
    }

    /// False on a thread that must not wait.
    fn wait(&self) -> bool {
        let mut noted = false;
        while !self.let_go.load(Ordering::Acquire) {
            if esker_os::executor::must_not_wait() {
                return false;
            }
            if !std::mem::replace(&mut noted, true) {
                self.waiting.fetch_add(1, Ordering::Relaxed);
            }
            esker_testing::pause(100);
        }
        true
    }
}

/// Ready at the second poll.
async fn later() {
    let mut is_later = false;
    std::future::poll_fn(|context| {
        context.waker().wake_by_ref();
        if std::mem::replace(&mut is_later, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// One of its containers.
struct FaultyContainer {
    inner: Box<dyn OpenContainer>,
    way: Arc<Way>,
}

impl Faulty {
    /// The reference backend with a fault.
    #[must_use]
    pub fn new(fault: Fault) -> Self {
        Self::on(Arc::new(Memory::new(2)), fault)
    }

    /// Another backend with a fault.
    #[must_use]
    pub fn on(inner: Arc<dyn Pool>, fault: Fault) -> Self {
        let way = Way { fault, calls: AtomicU64::new(1), ..Way::default() };
        Self { inner, way: Arc::new(way) }
    }

    /// Number of writes that wait on their thread.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.way.waiting.load(Ordering::Relaxed)
    }

    /// Lets all writes go on.
    pub fn let_go(&self) {
        self.way.let_go.store(true, Ordering::Release);
    }

    /// Number of calls that list or search keys and extents, and of the entries they returned, since the last call of
    /// this function.
    pub fn listed(&self) -> u64 {
        self.way.listed.swap(0, Ordering::Relaxed)
    }
}

impl Way {
    fn count<'a, T>(&self, reply: Reply<'a, T>, len: fn(&T) -> usize) -> Reply<'a, T> {
        let result = reply.wait();
        let given = result.as_ref().map_or(0, len) as u64;
        self.listed.fetch_add(1 + given, Ordering::Relaxed);
        Reply::Ready(result)
    }

    /// True every 50th time that the fault could show.
    fn strikes(&self, fault: Fault) -> bool {
        self.fault == fault && self.calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(50)
    }

    fn at<'a>(&self, at: ReadAt<'a>) -> ReadAt<'a> {
        match self.fault {
            Fault::MovingSnapshots => ReadAt { view: View::Latest, ..at },
            _ => at,
        }
    }

    fn flip(&self, reply: &mut FetchReply<'_>) {
        if reply.filled_bytes == 0 {
            return;
        }
        if let (Sink::One(buffer), true) = (&mut reply.sink, self.strikes(Fault::FlippedBit)) {
            buffer[reply.filled_bytes as usize - 1] ^= 1;
        }
    }
}

impl Metadata for Faulty {
    fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        self.inner.get_metadata(name)
    }

    fn set_metadata<'a>(&'a self, changes: &'a MetadataChanges<'a>) -> Reply<'a, ()> {
        self.inner.set_metadata(changes)
    }

    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>> {
        self.inner.list_metadata(prefix)
    }
}

impl Pool for Faulty {
    fn capabilities(&self) -> Capabilities {
        let able = self.inner.capabilities();
        Capabilities {
            asynchronous: able.asynchronous || self.way.fault == Fault::LostReply,
            ..able
        }
    }

    fn info(&self) -> Reply<'_, PoolInfo> {
        self.inner.info()
    }

    fn create_container<'a>(&'a self, new: &'a NewContainer<'a>) -> Reply<'a, ContainerInfo> {
        self.inner.create_container(new)
    }

    fn open_container<'a>(
        &'a self,
        name: ContainerRef<'a>,
        mode: OpenMode,
    ) -> Reply<'a, Box<dyn OpenContainer>> {
        Reply::Ready(self.inner.open_container(name, mode).wait().map(|inner| {
            let way = Arc::clone(&self.way);
            Box::new(FaultyContainer { inner, way }) as Box<dyn OpenContainer>
        }))
    }

    fn destroy_container<'a>(&'a self, name: ContainerRef<'a>, force: bool) -> Reply<'a, ()> {
        self.inner.destroy_container(name, force)
    }

    fn list_containers(&self) -> Reply<'_, Vec<ContainerInfo>> {
        self.inner.list_containers()
    }

    fn commit(&self, commit: Commit, epoch: Epoch) -> Reply<'_, ()> {
        self.inner.commit(commit, epoch)
    }

    fn give_up(&self, commit: Commit) -> Reply<'_, ()> {
        self.inner.give_up(commit)
    }

    fn outcome(&self, commit: Commit, decide: bool) -> Reply<'_, Outcome> {
        self.inner.outcome(commit, decide)
    }

    fn prepared(&self) -> Reply<'_, Vec<Commit>> {
        self.inner.prepared()
    }

    fn forget(&self, commit: Commit) -> Reply<'_, ()> {
        self.inner.forget(commit)
    }
}

impl Metadata for FaultyContainer {
    fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        self.inner.get_metadata(name)
    }

    fn set_metadata<'a>(&'a self, changes: &'a MetadataChanges<'a>) -> Reply<'a, ()> {
        self.inner.set_metadata(changes)
    }

    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>> {
        self.inner.list_metadata(prefix)
    }
}

impl OpenContainer for FaultyContainer {
    fn write<'a>(&'a self, change: Change<'a>) -> Reply<'a, Epoch> {
        let way = &self.way;
        if way.strikes(Fault::LostWrite) {
            return Reply::Ready(Ok(Epoch::now()));
        }
        if way.strikes(Fault::Full) {
            return Reply::Ready(Err(esker::types::ErrorKind::NoSpace.into()));
        }
        if way.fault == Fault::Waits && !way.wait() {
            return Reply::Ready(Err(esker::types::ErrorKind::Busy.into()));
        }
        if let Some(reply) = way.panic() {
            return reply;
        }
        if way.fault == Fault::NoAnswer {
            return Reply::Pending(Box::pin(std::future::pending()));
        }
        if change.tokens.is_some() && way.fault == Fault::NeedlessRestarts {
            return Reply::Ready(Err(esker::types::ErrorKind::TxRestart.into()));
        }
        let tokens = change.tokens.filter(|_| way.fault != Fault::MissedConflicts);
        let id = change.id.filter(|_| way.fault != Fault::ForgottenIds);
        let written = self.inner.write(Change { tokens, id, ..change });
        if way.strikes(Fault::LostReply) {
            return Reply::Ready(written.wait().and(Err(esker::types::ErrorKind::TimedOut.into())));
        }
        written
    }

    fn prepare<'a>(&'a self, commit: Commit, what: Preparation<'a>) -> Reply<'a, Epoch> {
        self.inner.prepare(commit, what)
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
        let result = self.inner.fetch(oid, dkeys, self.way.at(at)).wait();
        let replies = dkeys.iter_mut().flat_map(|dkey| dkey.akeys.iter_mut());
        replies.for_each(|fetch| self.way.flip(&mut fetch.reply));
        Reply::Ready(result)
    }

    fn list_keys<'a>(
        &'a self,
        oid: ObjectId,
        scope: KeyScope<'a>,
        anchor: &'a mut Anchor,
        limit: ListLimit,
        at: ReadAt<'a>,
    ) -> Reply<'a, KeyBatch> {
        if *anchor != Anchor::Start && self.way.strikes(Fault::ShortListings) {
            *anchor = Anchor::End;
        }
        let reply = self.inner.list_keys(oid, scope, anchor, limit, self.way.at(at));
        self.way.count(reply, KeyBatch::len)
    }

    fn list_extents<'a>(
        &'a self,
        oid: ObjectId,
        key: AkeyRef<'a>,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<StoredExtent>> {
        let reply = self.inner.list_extents(oid, key, anchor, entries, self.way.at(at));
        self.way.count(reply, Vec::len)
    }

    fn list_objects<'a>(
        &'a self,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<ObjectId>> {
        self.inner.list_objects(anchor, entries, self.way.at(at))
    }

    fn query_key<'a>(
        &'a self,
        oid: ObjectId,
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Option<KeyFound>> {
        self.way.count(self.inner.query_key(oid, query, self.way.at(at)), |_| 0)
    }

    fn object_epoch<'a>(&'a self, oid: ObjectId, at: ReadAt<'a>) -> Reply<'a, Epoch> {
        self.inner.object_epoch(oid, self.way.at(at))
    }

    fn info(&self) -> &ContainerInfo {
        self.inner.info()
    }

    fn close(&self) -> Reply<'_, ()> {
        self.inner.close()
    }

    fn rename<'a>(&'a self, label: Option<&'a str>) -> Reply<'a, ()> {
        self.inner.rename(label)
    }

    fn allocate_oids(&self, count: u64) -> Reply<'_, u64> {
        self.inner.allocate_oids(count)
    }

    fn next_oid(&self) -> Reply<'_, u64> {
        self.inner.next_oid()
    }

    fn create_snapshot<'a>(&'a self, name: &'a str) -> Reply<'a, Epoch> {
        self.inner.create_snapshot(name)
    }

    fn list_snapshots(&self) -> Reply<'_, Vec<SnapshotInfo>> {
        self.inner.list_snapshots()
    }

    fn destroy_snapshot(&self, epoch: Epoch) -> Reply<'_, ()> {
        self.inner.destroy_snapshot(epoch)
    }

    fn lease(&self, oid: ObjectId) -> Reply<'_, ()> {
        self.inner.lease(oid)
    }

    fn release(&self, oid: ObjectId) -> Reply<'_, bool> {
        self.inner.release(oid)
    }

    fn unlink_on_last_close(&self, oid: ObjectId) -> Reply<'_, bool> {
        self.inner.unlink_on_last_close(oid)
    }
}
