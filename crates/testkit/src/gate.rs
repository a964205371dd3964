//! A backend whose operations wait at a gate: a local pool that responds late, like a pool on another machine.
use esker_backend::{
    Capabilities, Metadata, MetadataChanges, NewContainer, OpenContainer, Pool, Reply,
};
use esker_types::info::{ContainerInfo, ContainerRef, OpenMode, PoolInfo, SnapshotInfo};
use esker_types::ops::{
    AkeyRef, Anchor, Change, DkeyFetch, KeyFound, KeyQuery, KeyScope, ListLimit, ReadAt,
    StoredExtent,
};
use esker_types::{Epoch, KeyBatch, ObjectId};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// A gate at which operations wait while it is shut. It is open at first.
#[derive(Default)]
pub struct Gate(Mutex<Operations>);

#[derive(Default)]
struct Operations {
    /// Number of operations that must arrive before the gate opens; 0 while it is open.
    missing: usize,
    waiting: Vec<Waker>,
    come: usize,
    passed: usize,
}

impl Gate {
    fn operations(&self) -> MutexGuard<'_, Operations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shuts the gate until `count` operations wait at it, so that each of them depends on all others.
    pub fn shut_until(&self, count: usize) {
        self.operations().missing = count;
    }

    /// Shuts the gate until [`Gate::open`].
    pub fn shut(&self) {
        self.shut_until(usize::MAX);
    }

    /// Opens the gate for all waiting and later operations.
    pub fn open(&self) {
        let waiting = {
            let mut operations = self.operations();
            operations.missing = 0;
            std::mem::take(&mut operations.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Number of operations that arrived while the gate was shut.
    #[must_use]
    pub fn come(&self) -> usize {
        self.operations().come
    }

    /// Number of those operations that have passed.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.operations().passed
    }

    /// Counts an arriving operation; true if it is the last one that the gate waits for.
    fn arrive(&self) -> bool {
        let mut operations = self.operations();
        operations.come += 1;
        operations.missing = operations.missing.saturating_sub(1);
        operations.missing == 0
    }

    async fn pass(&self) {
        if self.arrive() {
            self.open();
        }
        poll_fn(|context| {
            let mut operations = self.operations();
            if operations.missing == 0 {
                operations.passed += 1;
                return Poll::Ready(());
            }
            operations.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// The reply to a call that is made when the gate lets it pass.
    fn before<'a, T: Send + Unpin + 'a>(
        &'a self,
        call: impl FnOnce() -> Reply<'a, T> + Send + 'a,
    ) -> Reply<'a, T> {
        if self.operations().missing == 0 {
            return call();
        }
        Reply::Pending(Box::pin(async move {
            self.pass().await;
            call().await
        }))
    }
}

/// A pool behind a gate, with its containers.
pub struct Gated {
    inner: Arc<dyn Pool>,
    gate: Arc<Gate>,
}

struct GatedContainer {
    inner: Box<dyn OpenContainer>,
    gate: Arc<Gate>,
}

impl Gated {
    /// Puts a pool behind a gate.
    #[must_use]
    pub fn new(inner: Arc<dyn Pool>, gate: &Arc<Gate>) -> Self {
        Self { inner, gate: Arc::clone(gate) }
    }
}

/// Metadata of a pool and of a container have the same calls.
macro_rules! metadata {
    ($of:ty) => {
        impl Metadata for $of {
            fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
                self.gate.before(move || self.inner.get_metadata(name))
            }

            fn set_metadata<'a>(&'a self, changes: &'a MetadataChanges<'a>) -> Reply<'a, ()> {
                self.gate.before(move || self.inner.set_metadata(changes))
            }

            fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>> {
                self.gate.before(move || self.inner.list_metadata(prefix))
            }
        }
    };
}

metadata!(Gated);
metadata!(GatedContainer);

impl Pool for Gated {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn info(&self) -> Reply<'_, PoolInfo> {
        self.gate.before(|| self.inner.info())
    }

    fn create_container<'a>(&'a self, new: &'a NewContainer<'a>) -> Reply<'a, ContainerInfo> {
        self.gate.before(move || self.inner.create_container(new))
    }

    fn open_container<'a>(
        &'a self,
        name: ContainerRef<'a>,
        mode: OpenMode,
    ) -> Reply<'a, Box<dyn OpenContainer>> {
        let gated = |inner| {
            Box::new(GatedContainer { inner, gate: Arc::clone(&self.gate) })
                as Box<dyn OpenContainer>
        };
        self.gate.before(move || self.inner.open_container(name, mode).wait().map(gated).into())
    }

    fn destroy_container<'a>(&'a self, name: ContainerRef<'a>, force: bool) -> Reply<'a, ()> {
        self.gate.before(move || self.inner.destroy_container(name, force))
    }

    fn list_containers(&self) -> Reply<'_, Vec<ContainerInfo>> {
        self.gate.before(|| self.inner.list_containers())
    }
}

impl OpenContainer for GatedContainer {
    fn info(&self) -> &ContainerInfo {
        self.inner.info()
    }

    fn close(&self) -> Reply<'_, ()> {
        self.gate.before(|| self.inner.close())
    }

    fn rename<'a>(&'a self, label: Option<&'a str>) -> Reply<'a, ()> {
        self.gate.before(move || self.inner.rename(label))
    }

    fn allocate_oids(&self, count: u64) -> Reply<'_, u64> {
        self.gate.before(move || self.inner.allocate_oids(count))
    }

    fn next_oid(&self) -> Reply<'_, u64> {
        self.gate.before(|| self.inner.next_oid())
    }

    fn write<'a>(&'a self, change: Change<'a>) -> Reply<'a, Epoch> {
        self.gate.before(move || self.inner.write(change))
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
        self.gate.before(move || self.inner.fetch(oid, dkeys, at))
    }

    fn list_keys<'a>(
        &'a self,
        oid: ObjectId,
        scope: KeyScope<'a>,
        anchor: &'a mut Anchor,
        limit: ListLimit,
        at: ReadAt<'a>,
    ) -> Reply<'a, KeyBatch> {
        self.gate.before(move || self.inner.list_keys(oid, scope, anchor, limit, at))
    }

    fn list_extents<'a>(
        &'a self,
        oid: ObjectId,
        key: AkeyRef<'a>,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<StoredExtent>> {
        self.gate.before(move || self.inner.list_extents(oid, key, anchor, entries, at))
    }

    fn list_objects<'a>(
        &'a self,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<ObjectId>> {
        self.gate.before(move || self.inner.list_objects(anchor, entries, at))
    }

    fn query_key<'a>(
        &'a self,
        oid: ObjectId,
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Option<KeyFound>> {
        self.gate.before(move || self.inner.query_key(oid, query, at))
    }

    fn object_epoch<'a>(&'a self, oid: ObjectId, at: ReadAt<'a>) -> Reply<'a, Epoch> {
        self.gate.before(move || self.inner.object_epoch(oid, at))
    }

    fn create_snapshot<'a>(&'a self, name: &'a str) -> Reply<'a, Epoch> {
        self.gate.before(move || self.inner.create_snapshot(name))
    }

    fn list_snapshots(&self) -> Reply<'_, Vec<SnapshotInfo>> {
        self.gate.before(|| self.inner.list_snapshots())
    }

    fn destroy_snapshot(&self, epoch: Epoch) -> Reply<'_, ()> {
        self.gate.before(move || self.inner.destroy_snapshot(epoch))
    }

    fn lease(&self, oid: ObjectId) -> Reply<'_, ()> {
        self.gate.before(move || self.inner.lease(oid))
    }

    fn release(&self, oid: ObjectId) -> Reply<'_, bool> {
        self.gate.before(move || self.inner.release(oid))
    }

    fn unlink_on_last_close(&self, oid: ObjectId) -> Reply<'_, bool> {
        self.gate.before(move || self.inner.unlink_on_last_close(oid))
    }
}
