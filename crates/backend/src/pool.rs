//! Pools: what a backend opens first.
use crate::container::OpenContainer;
use crate::reply::Reply;
use esker_types::info::{ContainerInfo, ContainerRef, OpenMode, PoolInfo};
use esker_types::{Checksum, Uuid};

/// What a backend can do beyond the required operations. Asking for more is refused with
/// [`esker_types::ErrorKind::NotSupported`] when the thing is opened, not in the middle of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Snapshots can be made and read.
    pub snapshots: bool,
    /// Writes to several objects are atomic, and conflicts are found.
    pub transactions: bool,
    /// Objects of Key-Value and array types hold any akeys and kinds of values, as others do. Without
    /// it they hold what Key-Values and Arrays keep in them (akey `0`: a single value of each key; attributes at
    /// dkey 0, records at others); the rest is refused with [`esker_types::ErrorKind::NotSupported`].
    pub any_akeys: bool,
    /// Objects of array types know which of their records were never written or were punched. Without
    /// it, such records before the last one of their chunk are there, as zeros.
    pub holes: bool,
    /// A read sees a write to a chunk of an array whole or not at all. Without it, a read that runs at the same
    /// time may return parts of what was there before.
    pub atomic_arrays: bool,
    /// Leases ([`OpenContainer::lease`]) of other processes are seen. Without it only those of this handle on the
    /// pool are, and a process that removes an object does so while others use it.
    pub shared_leases: bool,
    /// A change with an id that was done before is not done again ([`esker_types::ops::ChangeId`]). Without it such a
    /// change is refused with [`esker_types::ErrorKind::NotSupported`].
    pub change_ids: bool,
    /// Sharding width: targets over which an object class can spread.
    pub targets: u32,
    /// Fault domains among them.
    pub domains: u32,
}

/// A container to be made.
///
/// ```
/// use esker_backend::NewContainer;
/// use esker_types::Checksum;
///
/// let new = NewContainer::named("run1").with_checksum(Checksum::Crc64);
/// assert_eq!(new.label, Some("run1"));
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct NewContainer<'a> {
    /// Its name, unique in the pool; `None` for one known by UUID only.
    pub label: Option<&'a str>,
    /// Its id; `None` draws one.
    pub uuid: Option<Uuid>,
    /// Checksum over its data.
    pub checksum: Checksum,
    /// Metadata it has from the beginning.
    pub metadata: &'a [(&'a str, &'a [u8])],
    /// First object id that [`OpenContainer::allocate_oids`] hands out.
    pub first_oid: u64,
}

impl<'a> NewContainer<'a> {
    /// A container with a label.
    #[must_use]
    pub fn named(label: &'a str) -> Self {
        Self { label: Some(label), ..Self::default() }
    }

    /// A container known by its UUID only.
    #[must_use]
    pub fn nameless() -> Self {
        Self::default()
    }

    /// With another label, or none.
    #[must_use]
    pub fn with_label(self, label: Option<&'a str>) -> Self {
        Self { label, ..self }
    }

    /// With a UUID of the caller's, in place of one drawn at random.
    #[must_use]
    pub fn with_uuid(self, uuid: impl Into<Option<Uuid>>) -> Self {
        Self { uuid: uuid.into(), ..self }
    }

    /// With a checksum over its data.
    #[must_use]
    pub fn with_checksum(self, checksum: Checksum) -> Self {
        Self { checksum, ..self }
    }

    /// With metadata from the beginning.
    #[must_use]
    pub fn with_metadata(self, metadata: &'a [(&'a str, &'a [u8])]) -> Self {
        Self { metadata, ..self }
    }

    /// With the first object id that [`OpenContainer::allocate_oids`] hands out.
    #[must_use]
    pub fn with_first_oid(self, first_oid: u64) -> Self {
        Self { first_oid, ..self }
    }
}

/// Changes to metadata: names to set (`Some`) or to remove (`None`).
pub type MetadataChanges<'a> = [(&'a str, Option<&'a [u8]>)];

/// Named values that belong to a pool or to a container.
pub trait Metadata: Send + Sync {
    /// The value of a name, `None` where there is none.
    fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>>;

    /// Makes all changes or none.
    fn set_metadata<'a>(&'a self, changes: &'a MetadataChanges<'a>) -> Reply<'a, ()>;

    /// The names that begin with `prefix`, sorted.
    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>>;
}

/// A pool, opened on something that stores objects.
pub trait Pool: Metadata {
    /// What this backend can do.
    fn capabilities(&self) -> Capabilities;

    /// Name, space and state of the pool.
    fn info(&self) -> Reply<'_, PoolInfo>;

    /// Makes a container. `Exists` where the label or UUID is taken; of racing creators one wins.
    fn create_container<'a>(&'a self, new: &'a NewContainer<'a>) -> Reply<'a, ContainerInfo>;

    /// Opens a container. `NotFound`, or `Busy` where exclusive use forbids it.
    fn open_container<'a>(
        &'a self,
        name: ContainerRef<'a>,
        mode: OpenMode,
    ) -> Reply<'a, Box<dyn OpenContainer>>;

    /// Removes a container with all its objects. `Busy` where it is open, unless `force` is set.
    fn destroy_container<'a>(&'a self, name: ContainerRef<'a>, force: bool) -> Reply<'a, ()>;

    /// All containers, by label.
    fn list_containers(&self) -> Reply<'_, Vec<ContainerInfo>>;
}
