//! A container on another node. It is opened there at its first use.
use crate::reconnecting::pool::{ReconnectingPool, resent};
use crate::remote::pool::RemotePool;
use esker_backend::{Metadata, MetadataChanges, OpenContainer, Pool, Reply};
use esker_os::PerProcess;
use esker_os::executor::task;
use esker_types::info::{ContainerInfo, ContainerRef, OpenMode, SnapshotInfo};
use esker_types::ops::{
    AkeyRef, Anchor, Change, Commit, Cond, DkeyFetch, Fetch, KeyFound, KeyQuery, KeyScope,
    ListLimit, Preparation, ReadAt, ReadLease, ReadTokens, Removal, Sink, StoredExtent, Take,
    Taken, TakenWithArray,
};
use esker_types::{Epoch, Error, ErrorKind, Extent, KeyBatch, ObjectId, Result};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Mutex, oneshot};

/// Pause between attempts to reach a node that was lost while this process has leases there.
const LEASES_AGAIN_EVERY: Duration = Duration::from_secs(1);

/// Leases that are taken again, or ended, by one request.
const LEASES_AT_ONCE: usize = 1024;

/// A container on another node. It is opened there at its first use.
pub(crate) struct ReconnectingContainer(Arc<Inner>);

/// The state of a container, which the task that takes leases again shares.
pub(crate) struct Inner {
    peer: Arc<ReconnectingPool>,
    info: ContainerInfo,
    mode: OpenMode,
    /// The container as this process has it open. A forked child opens it again.
    opened: PerProcess<Opened>,
}

/// An open container, and the connection it belongs to.
type Current = (Arc<RemotePool>, Arc<dyn OpenContainer>);

/// Open container and leases of this process.
#[derive(Default)]
struct Opened {
    current: Mutex<Option<Current>>,
    /// Leases to take again over a new connection.
    leases: std::sync::Mutex<HashMap<ObjectId, u32>>,
    /// The connection whose end is waited for, because there are leases.
    watched: std::sync::Mutex<Watched>,
    /// How often the connection was lost while there were leases.
    losses: AtomicU64,
}

/// A connection whose end a task waits for. The task ends when this is dropped.
#[derive(Default)]
struct Watched {
    remote: Weak<RemotePool>,
    _task: Option<oneshot::Sender<()>>,
}

impl Deref for ReconnectingContainer {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl ReconnectingContainer {
    /// The container with the UUID of `info`.
    pub(crate) fn new(peer: Arc<ReconnectingPool>, info: ContainerInfo, mode: OpenMode) -> Self {
        Self(Arc::new(Inner { peer, info, mode, opened: PerProcess::empty() }))
    }

    /// Opens a container by its name.
    pub(crate) async fn open(
        peer: &Arc<ReconnectingPool>,
        name: ContainerRef<'_>,
        mode: OpenMode,
    ) -> Result<Self> {
        let (remote, container) = resent!(peer, remote => {
            remote.open_container(name, mode).await.map(|opened| (Arc::clone(&remote), opened))
        })
        .await?;
        let container: Arc<dyn OpenContainer> = container.into();
        let info = container.info().clone();
        let opened = Opened { current: Mutex::new(Some((remote, container))), ..Opened::default() };
        let opened = PerProcess::new(opened);
        Ok(Self(Arc::new(Inner { peer: Arc::clone(peer), info, mode, opened })))
    }
}

impl Inner {
    fn opened(&self) -> &Opened {
        self.opened.get_or_create(Opened::default)
    }

    /// The container as it is open on the connection `remote`. On a new connection it is opened once more, because the
    /// engine forgot the old connection's handles. Leases are then taken again, and count as lost.
    async fn on(self: &Arc<Self>, remote: &Arc<RemotePool>) -> Result<Arc<dyn OpenContainer>> {
        let opened = self.opened();
        let mut current = opened.current.lock().await;
        if let Some((known, container)) = &*current
            && Arc::ptr_eq(known, remote)
        {
            return Ok(Arc::clone(container));
        }
        let name = ContainerRef::Uuid(self.info.uuid);
        let container = remote.open_container(name, self.mode).await;
        let missing = |error| missing_container_error(self.peer.name(), &self.info, error);
        let container: Arc<dyn OpenContainer> = container.map_err(missing)?.into();
        let leases = opened.all_leases();
        if !leases.is_empty() {
            opened.losses.fetch_add(1, Ordering::AcqRel);
            self.watch(remote)?;
        }
        let taken = lease_all(&*container, &leases).await;
        if taken.is_err() {
            discard(&*container, &leases).await;
        }
        taken?;
        *current = Some((Arc::clone(remote), Arc::clone(&container)));
        Ok(container)
    }

    /// Records leases that were taken on a connection, to take them again as soon as it is lost. False if the container
    /// was opened on another one meanwhile, which does not have them.
    async fn record_leases(
        self: &Arc<Self>,
        on: &Arc<RemotePool>,
        oids: &[ObjectId],
    ) -> Result<bool> {
        let opened = self.opened();
        let current = opened.current.lock().await;
        if !current.as_ref().is_some_and(|(remote, _)| Arc::ptr_eq(remote, on)) {
            return Ok(false);
        }
        let add = |oid: &ObjectId| *opened.leases().entry(*oid).or_default() += 1;
        oids.iter().for_each(add);
        self.watch(on).map(|()| true)
    }

    /// Waits for the end of a connection, to take the leases again then.
    fn watch(self: &Arc<Self>, remote: &Arc<RemotePool>) -> Result<()> {
        let opened = self.opened();
        let mut watched = opened.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if std::ptr::eq(watched.remote.as_ptr(), Arc::as_ptr(remote)) {
            return Ok(());
        }
        let (task_guard, ended) = oneshot::channel();
        *watched = Watched { remote: Arc::downgrade(remote), _task: Some(task_guard) };
        let (inner, over) = (Arc::downgrade(self), remote.connection.until_over());
        self.peer.dial().spawn(task(async move {
            tokio::select! {
                biased;
                () = over => take_leases_again(inner).await,
                _ = ended => {}
            }
        }));
        Ok(())
    }
}

/// Takes leases on a container that was just opened. After an error, the engine may have some of them.
async fn lease_all(container: &dyn OpenContainer, oids: &[ObjectId]) -> Result<()> {
    for oids in oids.chunks(LEASES_AT_ONCE) {
        container.lease_each(oids).await?;
    }
    Ok(())
}

/// Ends leases. True for each that was the last one of an object that is to be removed. After an error, the first ones may
/// have ended.
async fn release_all(
    container: &dyn OpenContainer,
    oids: &[ObjectId],
) -> (Vec<bool>, Option<Error>) {
    let mut last = Vec::with_capacity(oids.len());
    for oids in oids.chunks(LEASES_AT_ONCE) {
        match container.release_each(oids).await {
            Ok(each) => last.extend(each),
            Err(error) => return (last, Some(error)),
        }
    }
    (last, None)
}

/// Ends leases of a container that was just opened, and closes it. Objects that were unlinked meanwhile stay, because
/// this process still uses them, and takes its leases again. Errors are ignored, because the caller gets an earlier one.
async fn discard(container: &dyn OpenContainer, oids: &[ObjectId]) {
    for oids in oids.chunks(LEASES_AT_ONCE) {
        if container.release_each(oids).await.is_err() {
            break;
        }
    }
    let _ = container.close().await;
}

/// Connects again, and takes the leases again, as long as there are any. The loss is counted first, so that callers
/// check their objects even if this takes long.
async fn take_leases_again(inner: Weak<Inner>) {
    let mut is_counted = false;
    while let Some(inner) = inner.upgrade() {
        let Some(opened) = inner.opened.get().filter(|opened| !opened.leases().is_empty()) else {
            return;
        };
        if !std::mem::replace(&mut is_counted, true) {
            opened.losses.fetch_add(1, Ordering::AcqRel);
        }
        let taken = match inner.peer.remote().await {
            Ok(remote) => inner.on(&remote).await.map(drop),
            Err(error) => Err(error),
        };
        if taken.is_ok() || inner.peer.dial().pause(LEASES_AGAIN_EVERY).await.is_err() {
            return;
        }
    }
}

impl Opened {
    fn leases(&self) -> std::sync::MutexGuard<'_, HashMap<ObjectId, u32>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the objects on which this handle has leases; an object with several leases occurs as often.
    fn all_leases(&self) -> Vec<ObjectId> {
        let leases = self.leases();
        let each = |(oid, count): (&ObjectId, &u32)| std::iter::repeat_n(*oid, *count as usize);
        leases.iter().flat_map(each).collect()
    }

    /// Decrements the count of leases on an object; false if there was none.
    fn release(&self, oid: ObjectId) -> bool {
        let mut leases = self.leases();
        let Some(count) = leases.get_mut(&oid) else { return false };
        *count -= 1;
        if *count == 0 {
            leases.remove(&oid);
        }
        true
    }
}

/// Runs `$call` on the open container, and again if the connection is lost.
macro_rules! within {
    ($self:ident, $container:ident => $call:expr) => {
        within!($self, $container, _attempts => $call)
    };
    ($self:ident, $container:ident, $attempts:ident => $call:expr) => {
        resent!($self.peer, remote, $attempts => match $self.0.on(&remote).await {
            Ok($container) => $call,
            Err(error) => Err(error),
        })
    };
}

impl ReconnectingContainer {
    /// Takes leases on the objects over the present connection. If that breaks before they are recorded, takes them
    /// over the next one.
    async fn take_leases(&self, oids: &[ObjectId]) -> Result<()> {
        loop {
            let taken = resent!(self.peer, remote => match self.0.on(&remote).await {
                Ok(container) => container.lease_each(oids).await.map(|()| Arc::clone(&remote)),
                Err(error) => Err(error),
            });
            if self.0.record_leases(&taken.await?, oids).await? {
                return Ok(());
            }
        }
    }

    /// Ends leases on the connection that has them. They end with it: the next connection does not take them again.
    /// True for each that was the last one of an object that is to be removed. If the engine fails, it still has some of
    /// them, and which is not known: the connection is ended, and with it all of them.
    async fn end_leases(&self, oids: &[ObjectId]) -> Result<Vec<bool>> {
        let (current, held) = {
            let opened = self.opened();
            let current = opened.current.lock().await;
            let held: Vec<bool> = oids.iter().map(|oid| opened.release(*oid)).collect();
            (current.clone(), held)
        };
        let ours = oids.iter().zip(&held).filter(|(_, held)| **held);
        let ours: Vec<ObjectId> = ours.map(|(oid, _)| *oid).collect();
        let Some((remote, container)) = current.filter(|_| !ours.is_empty()) else {
            return Ok(vec![false; oids.len()]);
        };
        let (last, error) = release_all(&*container, &ours).await;
        if let Some(error) = error.filter(|_| !remote.is_over()) {
            remote.connection.end(&error);
            return Err(error);
        }
        let mut last = last.into_iter();
        Ok(held.into_iter().map(|held| held && last.next().unwrap_or(false)).collect())
    }
}

/// Explains the error of a node that does not have a container of the catalog.
pub(crate) fn missing_container_error(node: &str, info: &ContainerInfo, error: Error) -> Error {
    if error.kind() != ErrorKind::NotFound {
        return error;
    }
    let message = format!(
        "node {node} does not have container {}: it was destroyed, or the node has lost its pool",
        info.uuid
    );
    Error::new(ErrorKind::DataLoss, message)
}

impl Metadata for ReconnectingContainer {
    fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        within!(self, container => container.get_metadata(name).await)
    }

    fn set_metadata<'a>(&'a self, changes: &'a MetadataChanges<'a>) -> Reply<'a, ()> {
        within!(self, container => container.set_metadata(changes).await)
    }

    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>> {
        within!(self, container => container.list_metadata(prefix).await)
    }
}

impl OpenContainer for ReconnectingContainer {
    fn info(&self) -> &ContainerInfo {
        &self.info
    }

    fn close(&self) -> Reply<'_, ()> {
        Reply::Pending(Box::pin(async move {
            let Some(opened) = self.opened.get() else { return Ok(()) };
            // The container stays here after its end: leases that were taken by it may outlive it, and are released
            // through it.
            match &*opened.current.lock().await {
                // The end of a connection closes its containers, also if it ends meanwhile.
                Some((remote, container)) if !remote.is_over() => match container.close().await {
                    Err(_) if remote.is_over() => Ok(()),
                    closed => closed,
                },
                _ => Ok(()),
            }
        }))
    }

    fn rename<'a>(&'a self, label: Option<&'a str>) -> Reply<'a, ()> {
        within!(self, container => container.rename(label).await)
    }

    fn allocate_oids(&self, count: u64) -> Reply<'_, u64> {
        within!(self, container => container.allocate_oids(count).await)
    }

    fn next_oid(&self) -> Reply<'_, u64> {
        within!(self, container => container.next_oid().await)
    }

    /// Gives the change an id, so that the engine applies it once even if it is sent again.
    fn write<'a>(&'a self, change: Change<'a>) -> Reply<'a, Epoch> {
        Reply::Pending(Box::pin(async move {
            let slot = self.peer.slots()?.take().await;
            let change = Change { id: change.id.or(Some(slot.id)), ..change };
            within!(self, container => container.write(change).await).await
        }))
    }

    fn prepare<'a>(&'a self, commit: Commit, what: Preparation<'a>) -> Reply<'a, Epoch> {
        within!(self, container => container.prepare(commit, what).await)
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
        within!(self, container => container.fetch(oid, &mut *dkeys, at).await)
    }

    fn list_keys<'a>(
        &'a self,
        oid: ObjectId,
        scope: KeyScope<'a>,
        anchor: &'a mut Anchor,
        limit: ListLimit,
        at: ReadAt<'a>,
    ) -> Reply<'a, KeyBatch> {
        within!(self, container => container.list_keys(oid, scope, &mut *anchor, limit, at).await)
    }

    fn list_extents<'a>(
        &'a self,
        oid: ObjectId,
        key: AkeyRef<'a>,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<StoredExtent>> {
        within!(self, container => {
            container.list_extents(oid, key, &mut *anchor, entries, at).await
        })
    }

    fn list_objects<'a>(
        &'a self,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<ObjectId>> {
        within!(self, container => container.list_objects(&mut *anchor, entries, at).await)
    }

    fn query_key<'a>(
        &'a self,
        oid: ObjectId,
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Option<KeyFound>> {
        within!(self, container => container.query_key(oid, query, at).await)
    }

    fn query_keys<'a>(
        &'a self,
        oids: &'a [ObjectId],
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<Option<KeyFound>>> {
        within!(self, container => container.query_keys(oids, query, at).await)
    }

    fn lease_reads<'a>(&'a self, reads: &'a ReadTokens) -> Reply<'a, Option<ReadLease>> {
        within!(self, container => container.lease_reads(reads).await)
    }

    fn last_epoch<'a>(
        &'a self,
        oid: ObjectId,
        dkey: Option<&'a [u8]>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Epoch> {
        within!(self, container => container.last_epoch(oid, dkey, at).await)
    }

    /// If a repeated request finds a new snapshot of this name, the first one has taken it, and its reply was lost.
    fn create_snapshot<'a>(&'a self, name: &'a str) -> Reply<'a, Epoch> {
        Reply::Pending(Box::pin(async move {
            let before = self.list_snapshots().await?;
            within!(self, container, attempts => match attempts.may_be_done() {
                true => take_snapshot_unless_done(&*container, name, &before).await,
                false => container.create_snapshot(name).await,
            })
            .await
        }))
    }

    fn list_snapshots(&self) -> Reply<'_, Vec<SnapshotInfo>> {
        within!(self, container => container.list_snapshots().await)
    }

    /// If a repeated request finds no snapshot, the first one has destroyed it, and its reply was lost.
    fn destroy_snapshot(&self, epoch: Epoch) -> Reply<'_, ()> {
        within!(self, container, attempts => match container.destroy_snapshot(epoch).await {
            Err(error) if error.kind() == ErrorKind::NotFound && attempts.may_be_done() => Ok(()),
            other => other,
        })
    }

    fn lease(&self, oid: ObjectId) -> Reply<'_, ()> {
        Reply::Pending(Box::pin(async move { self.take_leases(&[oid]).await }))
    }

    fn release(&self, oid: ObjectId) -> Reply<'_, bool> {
        Reply::Pending(Box::pin(async move {
            self.end_leases(&[oid]).await.map(|last| last.contains(&true))
        }))
    }

    fn lease_each<'a>(&'a self, oids: &'a [ObjectId]) -> Reply<'a, ()> {
        Reply::Pending(Box::pin(self.take_leases(oids)))
    }

    fn release_each<'a>(&'a self, oids: &'a [ObjectId]) -> Reply<'a, Vec<bool>> {
        Reply::Pending(Box::pin(self.end_leases(oids)))
    }

    fn lease_losses(&self, _oid: ObjectId) -> u64 {
        self.opened.get().map_or(0, |opened| opened.losses.load(Ordering::Acquire))
    }

    fn unlink_on_last_close(&self, oid: ObjectId) -> Reply<'_, bool> {
        within!(self, container => container.unlink_on_last_close(oid).await)
    }

    /// If a repeated request finds other content, the first one may have removed the dkey: the result is then
    /// uncertain.
    fn take<'a>(&'a self, take: Take<'a>) -> Reply<'a, Option<Taken>> {
        within!(self, container, attempts => match container.take(take).await {
            Ok(None) if attempts.may_be_done() => Err(uncertain_take_error()),
            other => other,
        })
    }

    /// Repeats the request as [`Self::take`] does. If a repeated request fails because its reads have changed, the dkey
    /// shows whether the first one removed it.
    fn take_with_array<'a>(
        &'a self,
        take: Take<'a>,
        array: ObjectId,
        reads: Option<&'a ReadTokens>,
    ) -> Reply<'a, Option<TakenWithArray>> {
        within!(self, container, attempts => {
            match container.take_with_array(take, array, reads).await {
                Ok(None) if attempts.may_be_done() => Err(uncertain_take_error()),
                Err(error) if error.kind() == ErrorKind::TxRestart && attempts.may_be_done() => {
                    Err(refused_take_error(&*container, take, error).await)
                }
                other => other,
            }
        })
    }

    fn remove_unused(&self, oid: ObjectId) -> Reply<'_, Removal> {
        within!(self, container => container.remove_unused(oid).await)
    }

    fn remove_unused_each<'a>(&'a self, oids: &'a [ObjectId]) -> Reply<'a, Vec<Removal>> {
        within!(self, container => container.remove_unused_each(oids).await)
    }
}

/// Takes a snapshot, unless there is one of this name that was not there `before`. Returns its epoch.
async fn take_snapshot_unless_done(
    container: &dyn OpenContainer,
    name: &str,
    before: &[SnapshotInfo],
) -> Result<Epoch> {
    let is_new = |found: &SnapshotInfo| {
        found.name == name && !before.iter().any(|known| known.epoch == found.epoch)
    };
    match container.list_snapshots().await?.into_iter().find(is_new) {
        Some(taken) => Ok(taken.epoch),
        None => container.create_snapshot(name).await,
    }
}

/// The error of a removal whose reads have changed, and whose first attempt had no reply: `refused` if the dkey is
/// still there, so that no attempt has removed it.
async fn refused_take_error(
    container: &dyn OpenContainer,
    take: Take<'_>,
    refused: Error,
) -> Error {
    match is_as_expected(container, take).await {
        Ok(true) => refused,
        Ok(false) => uncertain_take_error(),
        Err(error) => error,
    }
}

/// True if the array of a dkey has the bytes that its removal expects.
async fn is_as_expected(container: &dyn OpenContainer, take: Take<'_>) -> Result<bool> {
    let start = take.extent.start.saturating_add(take.at);
    let (mut found, extents) =
        (vec![0; take.expected.len()], [Extent::new(start, take.expected.len() as u64)]);
    let mut array = Fetch::array(take.akey, 1, &extents, Sink::One(&mut found));
    let akeys = std::slice::from_mut(&mut array);
    let mut dkeys = [DkeyFetch { dkey: take.dkey, cond: Cond::NONE, akeys }];
    container.fetch(take.oid, &mut dkeys, ReadAt::LATEST).await?;
    Ok(array.reply.size > 0 && found == take.expected)
}

#[cold]
fn uncertain_take_error() -> Error {
    let message =
        "the connection was lost while a dkey was removed, which is gone or has changed now";
    Error::new(ErrorKind::TxUncertain, message)
}
