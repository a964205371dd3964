//! The pool trait of backends.
use crate::container::OpenContainer;
use crate::reply::Reply;
use esker_types::info::{Capabilities, ContainerInfo, ContainerRef, OpenMode, PoolInfo};
use esker_types::ops::{Commit, CommitId, Decisions, Outcome};
use esker_types::{Checksum, Epoch, Error, ErrorKind, Result, Uuid};

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

    /// The requested UUID, or else a random one.
    ///
    /// # Errors
    /// If the operating system has no random numbers.
    pub fn uuid_or_random(&self) -> Result<Uuid> {
        self.uuid.map_or_else(esker_os::random_uuid, Ok)
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

    /// Applies all changes or none.
    fn set_metadata<'a>(&'a self, changes: &'a MetadataChanges<'a>) -> Reply<'a, ()>;

    /// The names that begin with `prefix`, sorted.
    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>>;
}

/// A pool that a backend has opened.
pub trait Pool: Metadata {
    /// Capabilities of this backend.
    fn capabilities(&self) -> Capabilities;

    /// Number of nodes that store the objects of this pool.
    fn nodes(&self) -> u32 {
        1
    }

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

    /// Commits the writes that this node has prepared, at `epoch`. On the coordinator, this is the commit decision: it
    /// fails with `TxRestart` if the commit was aborted, and with `TxUncertain` if the decision may have been swept.
    /// The decision is stored until [`Pool::forget`] or [`Pool::sweep`]. Committing again does nothing.
    ///
    /// A preparation with a later epoch is a copy that arrived after its commit: it is aborted.
    ///
    /// This and the following operations concern commits over several nodes; the default implementation refuses them.
    fn commit(&self, _commit: Commit, _epoch: Epoch) -> Reply<'_, ()> {
        Reply::Ready(Err(single_node_error()))
    }

    /// Aborts what this node has prepared. Does nothing if it has prepared nothing, or has committed it.
    fn abort(&self, _commit: Commit) -> Reply<'_, ()> {
        Reply::Ready(Err(single_node_error()))
    }

    /// The state of a commit that this node coordinates. With `decide`, an undecided one is aborted. The node stores
    /// that decision until [`Pool::forget`], since the client may still try to prepare and commit it.
    fn outcome(&self, _commit: Commit, _decide: bool) -> Reply<'_, Outcome> {
        Reply::Ready(Err(single_node_error()))
    }

    /// The commits that are prepared on this node. Operations on their data wait for their decisions.
    fn prepared(&self) -> Reply<'_, Vec<Commit>> {
        Reply::Ready(Err(single_node_error()))
    }

    /// Removes a decision of this node. That is safe once all nodes have committed, or once the client that aborts the
    /// commit never asked to commit it. Otherwise a late copy of a request must still find the decision.
    fn forget(&self, _commit: Commit) -> Reply<'_, ()> {
        Reply::Ready(Err(single_node_error()))
    }

    /// The decisions of this node: at most `most` of the oldest.
    fn decisions(&self, _most: usize) -> Reply<'_, Decisions> {
        Reply::Ready(Err(single_node_error()))
    }

    /// Removes decisions of this node that [`Pool::decisions`] has listed. Before, every other node must have been
    /// asked for its [prepared](Pool::prepared) commits; the decisions about those must stay. Afterwards, queries for
    /// removed and older commits are answered by "unknown", and such commits cannot be prepared here.
    fn sweep<'a>(&'a self, _ids: &'a [CommitId]) -> Reply<'a, ()> {
        Reply::Ready(Err(single_node_error()))
    }
}

#[cold]
pub(crate) fn single_node_error() -> Error {
    Error::new(
        ErrorKind::NotSupported,
        "this pool does not take part in commits over several nodes",
    )
}
