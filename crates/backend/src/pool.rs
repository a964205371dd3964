//! Pools, which a backend opens first.
use crate::container::OpenContainer;
use crate::reply::Reply;
use esker_types::info::{ContainerInfo, ContainerRef, OpenMode, PoolInfo};
use esker_types::{Checksum, Uuid};

/// Optional abilities of a backend. Requests beyond them fail with [`esker_types::ErrorKind::NotSupported`] when
/// something is opened, not in the middle of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Snapshots can be taken and read.
    pub snapshots: bool,
    /// Writes to several objects are atomic, and conflicts are detected.
    pub transactions: bool,
    /// Objects of Key-Value and array types can hold any akeys and kinds of values, like other objects. Without this
    /// capability they hold only what Key-Values and Arrays store in them (akey `0`: a single value for each key;
    /// attributes at dkey 0 and records at other dkeys); anything else fails with
    /// [`esker_types::ErrorKind::NotSupported`].
    pub any_akeys: bool,
    /// Objects of array types distinguish records that were never written or were punched. Without this capability,
    /// such records before the last one of their chunk exist and are zeros.
    pub holes: bool,
    /// A read sees each write to a chunk of an array as a whole or not at all. Without this capability, a concurrent
    /// read may return a mix of old and new bytes.
    pub atomic_arrays: bool,
    /// Leases ([`OpenContainer::lease`]) work across processes. Without this capability only leases of this handle on
    /// the pool count, and a process may remove an object while others use it.
    pub shared_leases: bool,
    /// A change with an id that was applied before is not applied again ([`esker_types::ops::ChangeId`]). Without
    /// this capability such a change fails with [`esker_types::ErrorKind::NotSupported`].
    pub change_ids: bool,
    /// Number of targets over which an object class can spread.
    pub targets: u32,
    /// Number of fault domains among them.
    pub domains: u32,
}

/// Parameters of a new container.
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
    /// Its label, unique in the pool; `None` for a container known by its UUID only.
    pub label: Option<&'a str>,
    /// Its UUID; `None` generates one.
    pub uuid: Option<Uuid>,
    /// Checksum type of its data.
    pub checksum: Checksum,
    /// Initial metadata.
    pub metadata: &'a [(&'a str, &'a [u8])],
    /// First object id that [`OpenContainer::allocate_oids`] returns.
    pub first_oid: u64,
}

impl<'a> NewContainer<'a> {
    /// A container with a label.
    #[must_use]
    pub fn named(label: &'a str) -> Self {
        Self { label: Some(label), ..Self::default() }
    }

    /// A container without a label.
    #[must_use]
    pub fn nameless() -> Self {
        Self::default()
    }

    /// Sets another label, or none.
    #[must_use]
    pub fn with_label(self, label: Option<&'a str>) -> Self {
        Self { label, ..self }
    }

    /// Sets the UUID instead of generating one.
    #[must_use]
    pub fn with_uuid(self, uuid: impl Into<Option<Uuid>>) -> Self {
        Self { uuid: uuid.into(), ..self }
    }

    /// Sets the checksum type of its data.
    #[must_use]
    pub fn with_checksum(self, checksum: Checksum) -> Self {
        Self { checksum, ..self }
    }

    /// Sets initial metadata.
    #[must_use]
    pub fn with_metadata(self, metadata: &'a [(&'a str, &'a [u8])]) -> Self {
        Self { metadata, ..self }
    }

    /// Sets the first object id that [`OpenContainer::allocate_oids`] returns.
    #[must_use]
    pub fn with_first_oid(self, first_oid: u64) -> Self {
        Self { first_oid, ..self }
    }
}

/// Changes to metadata: names to set (`Some`) or to remove (`None`).
pub type MetadataChanges<'a> = [(&'a str, Option<&'a [u8]>)];

/// Metadata of a pool or container: named values.
pub trait Metadata: Send + Sync {
    /// The value of a name, `None` if it is not set.
    fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>>;

    /// Makes all changes or none.
    fn set_metadata<'a>(&'a self, changes: &'a MetadataChanges<'a>) -> Reply<'a, ()>;

    /// The names that begin with `prefix`, sorted.
    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>>;
}

/// A pool that a backend has opened.
pub trait Pool: Metadata {
    /// Capabilities of this backend.
    fn capabilities(&self) -> Capabilities;

    /// Name, space and state of the pool.
    fn info(&self) -> Reply<'_, PoolInfo>;

    /// Creates a container. `Exists` if the label or UUID is in use; of several concurrent creators one succeeds.
    fn create_container<'a>(&'a self, new: &'a NewContainer<'a>) -> Reply<'a, ContainerInfo>;

    /// Opens a container. `NotFound`, or `Busy` if exclusive use conflicts.
    fn open_container<'a>(
        &'a self,
        name: ContainerRef<'a>,
        mode: OpenMode,
    ) -> Reply<'a, Box<dyn OpenContainer>>;

    /// Destroys a container with all its objects. `Busy` if it is open, unless `force` is set.
    fn destroy_container<'a>(&'a self, name: ContainerRef<'a>, force: bool) -> Reply<'a, ()>;

    /// All containers, sorted by label.
    fn list_containers(&self) -> Reply<'_, Vec<ContainerInfo>>;
}
