//! Open containers, on which data operations act.
use crate::leases::Leases;
use crate::pool::Metadata;
use crate::reply::Reply;
use bytes::Bytes;
use esker_os::executor::{side_by_side, task};
use esker_types::info::{ContainerInfo, SnapshotInfo};
use esker_types::ops::{
    AkeyRef, Anchor, Change, Commit, DkeyFetch, KeyFound, KeyQuery, KeyScope, ListLimit,
    Preparation, ReadAt, ReadLease, ReadTokens, Removal, StoredExtent, Take, Taken, TakenWithArray,
    Wanted,
};
use esker_types::{Epoch, Error, ErrorKind, KeyBatch, ObjectId, Result};

/// Bytes that are read in place.
#[derive(Clone, Debug)]
pub struct Viewed {
    /// The bytes.
    pub bytes: Bytes,
    /// CRC-32C of the bytes, if the backend knows it without reading them again.
    pub crc32c: Option<u32>,
}

/// Concurrent requests of the default implementations for several objects.
const SIDE_BY_SIDE: usize = 16;

/// A container opened by [`crate::Pool::open_container`]. It keeps the resources of its pool alive.
///
/// The trait is small on purpose: everything else (Key-Values, Arrays, transactions, properties) is implemented on top
/// of it, once for all backends. Dropping a reply before it is ready is safe: the operation is atomic, and takes effect
/// or not.
pub trait OpenContainer: Metadata {
    /// The description of the container at the time it was opened.
    fn info(&self) -> &ContainerInfo;

    /// Closes the container. Must be called once; dropping does not replace it. The default implementation does
    /// nothing.
    fn close(&self) -> Reply<'_, ()> {
        Reply::Ready(Ok(()))
    }

    /// Changes the container's label; `None` removes it.
    fn rename<'a>(&'a self, label: Option<&'a str>) -> Reply<'a, ()>;

    /// The number of the node that stores a dkey of an object; 0 in a pool on one node.
    fn node_of(&self, _oid: ObjectId, _dkey: &[u8]) -> u32 {
        0
    }

    /// Reserves `count` consecutive numbers that no other client of this container gets. Returns the first.
    fn allocate_oids(&self, count: u64) -> Reply<'_, u64>;

    /// The number after all that any client has reserved. A backend from which each client reserves numbers in blocks
    /// counts complete blocks. The default implementation reserves none.
    fn next_oid(&self) -> Reply<'_, u64> {
        self.allocate_oids(0)
    }

    /// Applies a change at one epoch, or nothing of it. `TxRestart` if data read under its tokens has changed.
    fn write<'a>(&'a self, change: Change<'a>) -> Reply<'a, Epoch>;

    /// Prepares this node's writes of a commit over several nodes. The data of the commit is then in doubt (`InDoubt`)
    /// until [`crate::Pool::commit`] or [`crate::Pool::abort`]. A preparation outlives this process. Returns the epoch
    /// of the preparation, by the node's clock: the epoch of the commit is the latest that any of its nodes returned.
    /// Preparing the same commit again does nothing and returns the same epoch. `TxRestart` if data read under its
    /// tokens has changed, or if [`crate::Pool::outcome`] has aborted it. `InDoubt`, without any trace, if another
    /// commit has prepared the same data. `Again` on the coordinator, if it stores the maximum of decisions, or if the
    /// commit started before decisions that it has swept, or after its clock: see [`crate::Pool::decisions`]. The
    /// default implementation refuses.
    fn prepare<'a>(&'a self, _commit: Commit, _what: Preparation<'a>) -> Reply<'a, Epoch> {
        Reply::Ready(Err(crate::pool::single_node_error()))
    }

    /// Reads akeys of one or several dkeys of an object. Each dkey is read from one consistent state. A missing akey
    /// is not an error (see [`esker_types::ops::FetchReply`]) unless a condition requires it to exist. `RecordTooBig`
    /// if a sink is too short.
    fn fetch<'a, 'f, 'b>(
        &'a self,
        oid: ObjectId,
        dkeys: &'a mut [DkeyFetch<'f, 'b>],
        at: ReadAt<'a>,
    ) -> Reply<'a, ()>
    where
        'b: 'f,
        'f: 'a;

    /// A view of the single value of an akey, or of one extent of its array, without a copy and verified against its
    /// checksums. `None` if it does not exist or has no such view: fetch it then. The default implementation returns
    /// `None`.
    fn view<'a>(
        &'a self,
        _oid: ObjectId,
        _key: AkeyRef<'a>,
        _wanted: Wanted<'a>,
        _at: ReadAt<'a>,
    ) -> Reply<'a, Option<Viewed>> {
        Reply::Ready(Ok(None))
    }

    /// Lists the next keys after `anchor`, which is advanced. An error does not change the anchor, so the call can be
    /// repeated.
    fn list_keys<'a>(
        &'a self,
        oid: ObjectId,
        scope: KeyScope<'a>,
        anchor: &'a mut Anchor,
        limit: ListLimit,
        at: ReadAt<'a>,
    ) -> Reply<'a, KeyBatch>;

    /// Lists the next extents of an array akey after `anchor`, in the order of their records.
    fn list_extents<'a>(
        &'a self,
        oid: ObjectId,
        key: AkeyRef<'a>,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<StoredExtent>>;

    /// Lists the next objects of the container after `anchor`, in the order of their ids; [`Anchor::at_object`] begins
    /// at any id. An object exists while it has a key. A backend whose store has no order of objects collects them at
    /// [`Anchor::Start`]; later calls may list that state.
    fn list_objects<'a>(
        &'a self,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<ObjectId>>;

    /// The smallest or largest key or extent; `None` if there is none. The default implementation lists the keys; a
    /// backend that stores them in order answers sooner.
    fn query_key<'a>(
        &'a self,
        oid: ObjectId,
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Option<KeyFound>> {
        Reply::Pending(Box::pin(crate::query::query_by_listing(self, oid, query, at)))
    }

    /// Queries each of several objects as [`OpenContainer::query_key`] does.
    fn query_keys<'a>(
        &'a self,
        oids: &'a [ObjectId],
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<Option<KeyFound>>> {
        let tasks = oids.iter().map(|oid| task(self.query_key(*oid, query, at)));
        let replies = side_by_side(tasks.collect(), SIDE_BY_SIDE);
        Reply::Pending(Box::pin(async move { replies.await.into_iter().collect() }))
    }

    /// Takes a lease on all reads of these tokens: none of that data changes until the lease ends. A change to it waits
    /// until then. `None` if some of it has changed, or if no lease is granted for now. To renew a lease, call this
    /// with its tokens. The default implementation grants none.
    fn lease_reads<'a>(&'a self, _reads: &'a ReadTokens) -> Reply<'a, Option<ReadLease>> {
        Reply::Ready(Ok(None))
    }

    /// Tokens for a complete object: they hold until any of its keys or values changes. `None` if the backend cannot
    /// detect that, as in the default implementation.
    fn object_version(&self, _oid: ObjectId) -> Reply<'_, Option<ReadTokens>> {
        Reply::Ready(Ok(None))
    }

    /// True if the data of these tokens has not changed, nor is about to; false also if that is not certain. `None` if
    /// reading again is about as fast, which is the default.
    fn is_unchanged(&self, _reads: &ReadTokens) -> Option<bool> {
        None
    }

    /// The epoch of the last modification of an object, or of its data under a dkey, according to existing keys; zero
    /// if there are none. DAOS has no such epoch for a dkey: `daos:` pools return that of the object.
    fn last_epoch<'a>(
        &'a self,
        oid: ObjectId,
        dkey: Option<&'a [u8]>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Epoch>;

    /// Writes acknowledged changes to the medium, so that they survive power loss. For a backend that leaves them in the
    /// page cache and whose files are complete without a log. The default implementation does nothing.
    fn sync(&self) -> Reply<'_, ()> {
        Reply::Ready(Ok(()))
    }

    /// Takes a snapshot of the container; `NotSupported`, as in the default implementation, if the capabilities
    /// exclude it.
    fn create_snapshot<'a>(&'a self, _name: &'a str) -> Reply<'a, Epoch> {
        Reply::Ready(Err(no_snapshots_error()))
    }

    /// Snapshots of the container, oldest first. The default implementation lists none.
    fn list_snapshots(&self) -> Reply<'_, Vec<SnapshotInfo>> {
        Reply::Ready(Ok(Vec::new()))
    }

    /// Destroys a snapshot and frees the data that only it referred to. `NotFound` if there is none at `epoch`. The
    /// default implementation refuses.
    fn destroy_snapshot(&self, _epoch: Epoch) -> Reply<'_, ()> {
        Reply::Ready(Err(no_snapshots_error()))
    }

    /// The leases of this process on objects of the container, for a backend that cannot detect other processes. Such
    /// a backend keeps the default implementations of the operations on leases. `None`, the default, counts none: an
    /// object that is unlinked is removed at once.
    fn leases(&self) -> Option<&Leases> {
        None
    }

    /// Takes a lease on an object: declares that this process uses it, so that its removal can be left to the last
    /// user ([`OpenContainer::unlink_on_last_close`]). Nothing is read; to make sure that the object still exists,
    /// check after this call. Each successful call must be matched by one [`OpenContainer::release`]; all leases of a
    /// process end when it dies. A child made by fork has no leases until it takes its own, unless lock files
    /// indicate that it inherited an open file.
    fn lease(&self, oid: ObjectId) -> Reply<'_, ()> {
        if let Some(leases) = self.leases() {
            leases.take(oid);
        }
        Reply::Ready(Ok(()))
    }

    /// How often leases of this process on an object may have been lost, and were taken again. A caller that has a
    /// lease and finds another number than before the lease was taken checks that the object still exists. Zero, the
    /// default, for backends whose leases last as long as the process.
    fn lease_losses(&self, _oid: ObjectId) -> u64 {
        0
    }

    /// Ends one lease. True if the object is to be removed and this was the last lease: the caller removes the object.
    /// If several processes end their leases at the same time, more than one may get true.
    fn release(&self, oid: ObjectId) -> Reply<'_, bool> {
        Reply::Ready(Ok(self.leases().is_some_and(|leases| leases.release(oid))))
    }

    /// Takes a lease on each of several objects. If it fails, none is taken.
    fn lease_each<'a>(&'a self, oids: &'a [ObjectId]) -> Reply<'a, ()> {
        Reply::Pending(Box::pin(async move {
            let takes = oids.iter().map(|oid| task(self.lease(*oid))).collect();
            let taken: Vec<Result<()>> = side_by_side(takes, SIDE_BY_SIDE).await;
            if taken.iter().any(Result::is_err) {
                let held = oids.iter().zip(&taken).filter(|(_, taken)| taken.is_ok());
                let held: Vec<_> = held.map(|(oid, _)| *oid).collect();
                crate::undo_leases(self, &held).await;
            }
            taken.into_iter().collect()
        }))
    }

    /// Ends one lease on each of several objects, with a result for each as in [`OpenContainer::release`].
    fn release_each<'a>(&'a self, oids: &'a [ObjectId]) -> Reply<'a, Vec<bool>> {
        // The work is inside the future: if the reply is dropped before its first poll, no lease ends.
        Reply::Pending(Box::pin(async move {
            let ends = oids.iter().map(|oid| task(self.release(*oid))).collect();
            side_by_side(ends, SIDE_BY_SIDE).await.into_iter().collect()
        }))
    }

    /// Leaves the removal of an object to the last process with a lease. No directory entry may refer to the object any
    /// more. False if no process has a lease: the caller removes the object. If the last process is killed, or the
    /// backend has lost count, the object stays until a cleanup calls this again.
    fn unlink_on_last_close(&self, oid: ObjectId) -> Reply<'_, bool> {
        Reply::Ready(Ok(self.leases().is_some_and(|leases| leases.unlink_on_last_close(oid))))
    }

    /// Removes a dkey and returns its content, if its array has the expected bytes. `None` if not, if the content is
    /// longer than [`esker_types::limits::TAKEN_BYTES_MAX`], or if others keep changing it: then nothing was changed.
    fn take<'a>(&'a self, take: Take<'a>) -> Reply<'a, Option<Taken>> {
        Reply::Pending(Box::pin(crate::take::take(self, take)))
    }

    /// Removes an array of bytes that ends in its first chunk, unless a process has a lease on it: then as
    /// [`OpenContainer::unlink_on_last_close`]. No directory entry may refer to the object any more. An array with a
    /// stripe mark stays. The call may be repeated.
    fn remove_unused(&self, oid: ObjectId) -> Reply<'_, Removal> {
        Reply::Pending(Box::pin(async move {
            let removals = crate::removal::remove_unused(self, &[oid]).await?;
            Ok(removals.first().copied().unwrap_or(Removal::Removed))
        }))
    }

    /// Removes several arrays as [`OpenContainer::remove_unused`] does. The call may be repeated.
    fn remove_unused_each<'a>(&'a self, oids: &'a [ObjectId]) -> Reply<'a, Vec<Removal>> {
        Reply::Pending(Box::pin(crate::removal::remove_unused(self, oids)))
    }

    /// True if an object takes no space once its dkeys are removed one by one. The default, false, makes callers remove
    /// the object itself.
    fn is_empty_without_dkeys(&self) -> bool {
        false
    }

    /// Removes a dkey as [`OpenContainer::take`] does, and then an array as [`OpenContainer::remove_unused`] does, for
    /// a directory entry and the file that it refers to. The array is left to the caller if another node has it, or if
    /// an error occurs after the removal of the dkey. With `reads`, it fails with `TxRestart` unless these reads hold
    /// at one moment before the removal, and also if that is not certain.
    fn take_with_array<'a>(
        &'a self,
        take: Take<'a>,
        array: ObjectId,
        reads: Option<&'a ReadTokens>,
    ) -> Reply<'a, Option<TakenWithArray>> {
        Reply::Pending(Box::pin(async move {
            if reads.is_some_and(|reads| self.is_unchanged(reads) != Some(true)) {
                let message = "data that the removal depends on has changed: read it again";
                return Err(Error::new(ErrorKind::TxRestart, message));
            }
            let Some(taken) = self.take(take).await? else { return Ok(None) };
            let removal = self.remove_unused(array).await.ok();
            Ok(Some(TakenWithArray { taken, removal }))
        }))
    }

    /// Records that a lock file of an object is about to be created (`made`), or was removed. Backends look for lock
    /// files to find processes that inherited an open file.
    fn note_lock_file(&self, _oid: ObjectId, _made: bool) -> Reply<'_, ()> {
        Reply::Ready(Ok(()))
    }
}

#[cold]
fn no_snapshots_error() -> Error {
    let message = "this pool has no snapshots: copy the container (`esker cont copy`)";
    Error::new(ErrorKind::NotSupported, message)
}
