//! Open containers: what data operations act on.
use crate::pool::Metadata;
use crate::reply::Reply;
use bytes::Bytes;
use esker_types::info::{ContainerInfo, SnapshotInfo};
use esker_types::ops::{
    AkeyRef, Anchor, Change, DkeyFetch, KeyFound, KeyQuery, KeyScope, ListLimit, ReadAt,
    StoredExtent, Wanted,
};
use esker_types::{Epoch, KeyBatch, ObjectId};

/// A container that was opened by [`crate::Pool::open_container`]. It keeps what it needs of its pool alive.
///
/// The methods are few on purpose: everything else (Key-Values, Arrays, transactions, properties) is built on them,
/// once, for every backend. A reply that is dropped before it is ready leaves nothing half done: the operation takes
/// effect as a whole or not at all.
pub trait OpenContainer: Metadata {
    /// What the container said about itself when it was opened.
    fn info(&self) -> &ContainerInfo;

    /// Ends this use of it. To be called once; dropping does not replace it.
    fn close(&self) -> Reply<'_, ()>;

    /// Gives the container another label; `None` takes it away.
    fn rename<'a>(&'a self, label: Option<&'a str>) -> Reply<'a, ()>;

    /// First of `count` consecutive numbers no other client of this container ever gets.
    fn allocate_oids(&self, count: u64) -> Reply<'_, u64>;

    /// Number the next [`OpenContainer::allocate_oids`] would begin with.
    fn next_oid(&self) -> Reply<'_, u64>;

    /// Does all of a change at one epoch, or nothing. `TxRestart` where what its tokens prove has changed.
    fn write<'a>(&'a self, change: Change<'a>) -> Reply<'a, Epoch>;

    /// Reads akeys of one or several dkeys of an object. Those of one dkey are read from one consistent state. A
    /// missing akey is no error (see [`esker_types::ops::FetchReply`]); conditions may ask for what must exist.
    /// `RecordTooBig` where a sink is too short.
    fn fetch<'a, 'f, 'b>(
        &'a self,
        oid: ObjectId,
        dkeys: &'a mut [DkeyFetch<'f, 'b>],
        at: ReadAt<'a>,
    ) -> Reply<'a, ()>
    where
        'b: 'f,
        'f: 'a;

    /// The single value of an akey, or one extent of its array, where it is stored, verified against its checksums.
    /// `None` where it does not exist or cannot be used in place: then it must be fetched. The default never can.
    fn view<'a>(
        &'a self,
        _oid: ObjectId,
        _key: AkeyRef<'a>,
        _wanted: Wanted<'a>,
        _at: ReadAt<'a>,
    ) -> Reply<'a, Option<Bytes>> {
        Reply::Ready(Ok(None))
    }

    /// Next keys after `anchor`, which moves on.
    fn list_keys<'a>(
        &'a self,
        oid: ObjectId,
        scope: KeyScope<'a>,
        anchor: &'a mut Anchor,
        limit: ListLimit,
        at: ReadAt<'a>,
    ) -> Reply<'a, KeyBatch>;

    /// Next extents of an array akey after `anchor`, in order of their records.
    fn list_extents<'a>(
        &'a self,
        oid: ObjectId,
        key: AkeyRef<'a>,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<StoredExtent>>;

    /// Next objects of the container after `anchor`. An object exists while it has a key.
    fn list_objects<'a>(
        &'a self,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<ObjectId>>;

    /// Smallest or largest key or extent, `None` where there is nothing.
    fn query_key<'a>(
        &'a self,
        oid: ObjectId,
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Option<KeyFound>>;

    /// When the object was last changed, as far as its present content tells; zero where it has none.
    fn object_epoch<'a>(&'a self, oid: ObjectId, at: ReadAt<'a>) -> Reply<'a, Epoch>;

    /// Freezes the state of the container; `NotSupported` where capabilities say so.
    fn create_snapshot<'a>(&'a self, name: &'a str) -> Reply<'a, Epoch>;

    /// Snapshots of the container, oldest first.
    fn list_snapshots(&self) -> Reply<'_, Vec<SnapshotInfo>>;

    /// Destroys a snapshot and what only it kept. `NotFound` where there is none at `epoch`.
    fn destroy_snapshot(&self, epoch: Epoch) -> Reply<'_, ()>;

    /// Takes a lease on an object: declares that this process uses it, so that its removal can be left to the last
    /// user ([`OpenContainer::unlink_on_last_close`]). Nothing is read: to be sure that the object still exists, look
    /// after this call. Each success is undone by one [`OpenContainer::release`]; the death of the process ends all of
    /// its leases. A child made by fork has none until it takes its own, unless lock files tell of it.
    fn lease(&self, oid: ObjectId) -> Reply<'_, ()>;

    /// Ends one lease. True where the object is to be removed and nobody has a lease any more: the caller removes it.
    /// Of several processes that end theirs at the same time more than one may be told.
    fn release(&self, oid: ObjectId) -> Reply<'_, bool>;

    /// Leaves the removal of an object, whose name must be gone by now, to the last one with a lease. False
    /// where nobody has one: the caller removes it. Where the last one is killed, or the backend has lost
    /// count, nobody is told: whoever cleans up later asks this again.
    fn unlink_on_last_close(&self, oid: ObjectId) -> Reply<'_, bool>;

    /// Notes that a lock file of an object is about to be made, or has been removed: for backends that look there for
    /// processes that inherited it.
    fn note_lock_file(&self, _oid: ObjectId, _made: bool) -> Reply<'_, ()> {
        Reply::Ready(Ok(()))
    }
}
