//! The seam between the API and what stores the objects.
use crate::reply::Reply;
use esker_store::Mapped;
use esker_types::info::{
    ContainerId, ContainerInfo, ContainerRef, OpenMode, PoolInfo, SnapshotInfo,
};
use esker_types::ops::{
    AkeyRef, Anchor, Cond, Fetch, KeyFound, KeyQuery, KeyScope, ListLimit, ReadAt, ReadMarks,
    StoredExtent, Wanted, Write,
};
use esker_types::{Checksum, Epoch, KeyBatch, ObjectId, Uuid};

/// What a backend can do beyond the required operations. Asking for more is refused with
/// [`esker_types::ErrorKind::NotSupported`] when the thing is opened, not in the middle of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Snapshots can be made and read.
    pub snapshots: bool,
    /// Writes to several objects are atomic, and conflicts are found.
    pub transactions: bool,
    /// Objects of Key-Value and array types hold any akeys and kinds of values, as others do. Without
    /// it they hold what [`crate::Kv`] and [`crate::Array`] keep in them (akey `0`: a single value of
    /// each key; attributes at dkey 0, records at others); the rest is refused with
    /// [`esker_types::ErrorKind::NotSupported`].
    pub any_akeys: bool,
    /// Objects of array types know which of their records were never written or were punched. Without
    /// it, such records before the last one of their chunk are there, as zeros.
    pub holes: bool,
    /// A read sees a write to a chunk of an array whole or not at all. Without it a read that is under
    /// way at the same time may bring parts of what was there before.
    pub atomic_arrays: bool,
    /// Holds ([`Backend::hold`]) of other processes are seen. Without it those of this handle on the pool
    /// are, and a process that removes an object does so under the hands of others.
    pub shared_holds: bool,
    /// Sharding width: targets over which an object class can spread.
    pub targets: u32,
    /// Fault domains among them.
    pub domains: u32,
}

/// Whom metadata belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The pool.
    Pool,
    /// A container.
    Container(ContainerId),
}

/// A container to be made.
#[derive(Clone, Debug, Default)]
pub struct NewContainer<'a> {
    /// Its name, unique in the pool; `None` for one known by UUID only.
    pub label: Option<&'a str>,
    /// Its id; `None` draws one.
    pub uuid: Option<Uuid>,
    /// Checksum over its data.
    pub checksum: Checksum,
    /// Metadata it has from the beginning.
    pub metadata: &'a [(&'a str, &'a [u8])],
    /// First object id that [`Backend::allocate_oids`] hands out.
    pub first_oid: u64,
}

/// A pool, opened on something that stores objects.
///
/// Operations that act on an open container take the [`ContainerId`] that
/// [`Backend::open_container`] returned. The methods are few on purpose: everything else (Key-Values,
/// Arrays, transactions, properties) is built on them, once, for every backend.
pub trait Backend: Send + Sync {
    /// What this backend can do.
    fn capabilities(&self) -> Capabilities;

    /// Name, space and state of the pool.
    fn pool_info(&self) -> Reply<'_, PoolInfo>;

    /// Makes a container. `Exists` where the label or UUID is taken: of racing creators one wins.
    fn create_container<'a>(&'a self, new: &'a NewContainer<'a>) -> Reply<'a, ContainerInfo>;

    /// Opens a container. `NotFound`, or `Busy` where exclusive use stands against it. Each success
    /// is undone by one [`Backend::close_container`].
    fn open_container<'a>(
        &'a self,
        name: ContainerRef<'a>,
        mode: OpenMode,
    ) -> Reply<'a, ContainerInfo>;

    /// Ends one use of a container.
    fn close_container(&self, container: ContainerId) -> Reply<'_, ()>;

    /// Removes a container with all its objects. `Busy` where somebody has it open, unless `force`.
    fn destroy_container<'a>(&'a self, name: ContainerRef<'a>, force: bool) -> Reply<'a, ()>;

    /// All containers, by label.
    fn list_containers(&self) -> Reply<'_, Vec<ContainerInfo>>;

    /// Gives a container another label; `None` takes it away.
    fn rename_container<'a>(
        &'a self,
        container: ContainerId,
        label: Option<&'a str>,
    ) -> Reply<'a, ()>;

    /// Value of a piece of metadata, `None` where there is none.
    fn get_metadata<'a>(&'a self, scope: Scope, name: &'a str) -> Reply<'a, Option<Vec<u8>>>;

    /// Sets (`Some`) or removes (`None`) metadata, all or nothing.
    fn set_metadata<'a>(
        &'a self,
        scope: Scope,
        changes: &'a [(&'a str, Option<&'a [u8]>)],
    ) -> Reply<'a, ()>;

    /// Names of the metadata that begin with `prefix`, sorted.
    fn list_metadata<'a>(&'a self, scope: Scope, prefix: &'a str) -> Reply<'a, Vec<String>>;

    /// First of `count` consecutive numbers no other client of this container ever gets.
    fn allocate_oids(&self, container: ContainerId, count: u64) -> Reply<'_, u64>;

    /// Number the next [`Backend::allocate_oids`] would begin with.
    fn next_oid(&self, container: ContainerId) -> Reply<'_, u64>;

    /// Does all of `writes` at one epoch, or nothing. A single update is a list of one.
    /// `TxRestart` where anything noted in `marks` has changed since it was read.
    fn write<'a>(
        &'a self,
        container: ContainerId,
        writes: &'a [Write<'a>],
        marks: Option<&'a ReadMarks>,
    ) -> Reply<'a, Epoch>;

    /// Reads akeys of one dkey, of one consistent state. A missing akey is no error (see [`Fetch`]);
    /// `cond` may ask for [`Cond::DKEY_FETCH`]. `RecordTooBig` where a sink is too short.
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
        'b: 'a;

    /// The single value of an akey, or one extent of its array, where it lies, compared with its checksums.
    /// `None` where it is not there, or cannot be used in place: then it must be fetched. A backend
    /// that never can has nothing to do.
    fn view<'a>(
        &'a self,
        _container: ContainerId,
        _oid: ObjectId,
        _key: AkeyRef<'a>,
        _wanted: Wanted<'a>,
        _at: ReadAt<'a>,
    ) -> Reply<'a, Option<Mapped>> {
        Reply::Ready(Ok(None))
    }

    /// Next keys after `anchor`, which moves on.
    fn list_keys<'a>(
        &'a self,
        container: ContainerId,
        oid: ObjectId,
        scope: KeyScope<'a>,
        anchor: &'a mut Anchor,
        limit: ListLimit,
        at: ReadAt<'a>,
    ) -> Reply<'a, KeyBatch>;

    /// Next extents of an array akey after `anchor`, in order of their records.
    fn list_extents<'a>(
        &'a self,
        container: ContainerId,
        oid: ObjectId,
        key: AkeyRef<'a>,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<StoredExtent>>;

    /// Next objects of the container after `anchor`. An object exists while it has a key.
    fn list_objects<'a>(
        &'a self,
        container: ContainerId,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<ObjectId>>;

    /// Smallest or largest key or extent, `None` where there is nothing.
    fn query_key<'a>(
        &'a self,
        container: ContainerId,
        oid: ObjectId,
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Option<KeyFound>>;

    /// When the object was last changed, as far as what exists of it tells; zero for none.
    fn object_epoch<'a>(
        &'a self,
        container: ContainerId,
        oid: ObjectId,
        at: ReadAt<'a>,
    ) -> Reply<'a, Epoch>;

    /// Freezes the state of the container; `NotSupported` where capabilities say so.
    fn create_snapshot<'a>(&'a self, container: ContainerId, name: &'a str) -> Reply<'a, Epoch>;

    /// Snapshots of the container, oldest first.
    fn list_snapshots(&self, container: ContainerId) -> Reply<'_, Vec<SnapshotInfo>>;

    /// Drops a snapshot and what only it kept. `NotFound` where there is none at `epoch`.
    fn destroy_snapshot(&self, container: ContainerId, epoch: Epoch) -> Reply<'_, ()>;

    /// Declares that this process uses an object, so that who removes it can leave that to the last user
    /// ([`Backend::doom`]). Nothing is read: to be sure that the object is still there, look after this call.
    /// Each success is undone by one [`Backend::release`]; the death of the process undoes all of its holds.
    /// A child made by fork holds nothing until it says so itself, unless files for locks tell of it.
    fn hold(&self, container: ContainerId, oid: ObjectId) -> Reply<'_, ()>;

    /// Ends one hold. True where the object was doomed and nobody holds it any more: the caller removes it.
    /// Of several who end theirs at one time more than one may be told.
    fn release(&self, container: ContainerId, oid: ObjectId) -> Reply<'_, bool>;

    /// Leaves the removal of an object, whose name must be gone by now, to the last who holds it. False
    /// where nobody does: the caller removes it. Where the last holder is killed, or the backend has lost
    /// count, nobody is told: whoever sweeps up later asks this again.
    fn doom(&self, container: &ContainerInfo, oid: ObjectId) -> Reply<'_, bool>;

    /// Notes that a file for locks on an object is about to be made, or has been removed: for backends that look
    /// there for who inherited it.
    fn note_lock_file(&self, _: ContainerId, _: ObjectId, _made: bool) -> Reply<'_, ()> {
        Reply::Ready(Ok(()))
    }
}
