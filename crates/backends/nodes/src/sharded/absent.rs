//! A substitute for a node that has lost its pool: its listings are empty, and all other operations fail with
//! `DataLoss`. With it in the place of the node, the rest of a container can be read.
use esker_backend::{
    Capabilities, Metadata, MetadataChanges, NewContainer, OpenContainer, Pool, Reply,
};
use esker_types::info::{
    ContainerId, ContainerInfo, ContainerRef, OpenMode, PoolInfo, SnapshotInfo,
};
use esker_types::ops::{
    AkeyRef, Anchor, Change, DkeyFetch, KeyFound, KeyQuery, KeyScope, ListLimit, ReadAt,
    StoredExtent,
};
use esker_types::{Checksum, Epoch, Error, ErrorKind, KeyBatch, ObjectId, Uuid};

/// The lost pool of a node.
#[derive(Clone, Debug)]
pub struct AbsentPool {
    name: String,
    targets: u32,
}

impl AbsentPool {
    /// The pool of the node called `name`, which had `targets` targets.
    #[must_use]
    pub fn new(name: &str, targets: u32) -> Self {
        Self { name: name.to_owned(), targets }
    }

    /// Fails with `DataLoss`.
    #[cold]
    fn lost<'a, T: 'a>(&self) -> Reply<'a, T> {
        let message = format!("it is stored on node {}, whose pool is lost", self.name);
        Reply::Ready(Err(Error::new(ErrorKind::DataLoss, message)))
    }
}

/// A container in the lost pool of a node.
struct AbsentContainer {
    part: AbsentPool,
    info: ContainerInfo,
}

/// Metadata, which only the first node stores.
macro_rules! without_metadata {
    ($of:ty, $self:ident => $part:expr) => {
        impl Metadata for $of {
            fn get_metadata<'a>(&'a $self, _: &'a str) -> Reply<'a, Option<Vec<u8>>> {
                $part.lost()
            }

            fn set_metadata<'a>(&'a $self, _: &'a MetadataChanges<'a>) -> Reply<'a, ()> {
                $part.lost()
            }

            fn list_metadata<'a>(&'a $self, _: &'a str) -> Reply<'a, Vec<String>> {
                $part.lost()
            }
        }
    };
}

without_metadata!(AbsentPool, self => self);
without_metadata!(AbsentContainer, self => self.part);

impl Pool for AbsentPool {
    fn capabilities(&self) -> Capabilities {
        Capabilities::all(self.targets)
    }

    fn info(&self) -> Reply<'_, PoolInfo> {
        self.lost()
    }

    fn create_container<'a>(&'a self, _: &'a NewContainer<'a>) -> Reply<'a, ContainerInfo> {
        self.lost()
    }

    /// Opens a container with a description that says nothing but its UUID.
    fn open_container<'a>(
        &'a self,
        name: ContainerRef<'a>,
        _: OpenMode,
    ) -> Reply<'a, Box<dyn OpenContainer>> {
        let uuid = match name {
            ContainerRef::Uuid(uuid) => uuid,
            ContainerRef::Label(_) => Uuid([0; 16]),
        };
        let info = ContainerInfo {
            id: ContainerId(0),
            uuid,
            label: String::new(),
            checksum: Checksum::default(),
            created: Epoch(0),
            handles: 0,
        };
        Reply::Ready(Ok(Box::new(AbsentContainer { part: self.clone(), info })))
    }

    fn destroy_container<'a>(&'a self, _: ContainerRef<'a>, _: bool) -> Reply<'a, ()> {
        self.lost()
    }

    fn list_containers(&self) -> Reply<'_, Vec<ContainerInfo>> {
        Reply::Ready(Ok(Vec::new()))
    }
}

/// Ends a listing at once: sets its anchor to the end and returns no entries.
fn empty_listing<'a, T: Default + 'a>(anchor: &mut Anchor) -> Reply<'a, T> {
    *anchor = Anchor::End;
    Reply::Ready(Ok(T::default()))
}

impl OpenContainer for AbsentContainer {
    fn info(&self) -> &ContainerInfo {
        &self.info
    }

    fn close(&self) -> Reply<'_, ()> {
        Reply::Ready(Ok(()))
    }

    fn rename<'a>(&'a self, _: Option<&'a str>) -> Reply<'a, ()> {
        self.part.lost()
    }

    fn allocate_oids(&self, _: u64) -> Reply<'_, u64> {
        self.part.lost()
    }

    fn next_oid(&self) -> Reply<'_, u64> {
        self.part.lost()
    }

    fn write<'a>(&'a self, _: Change<'a>) -> Reply<'a, Epoch> {
        self.part.lost()
    }

    fn fetch<'a, 'f, 'b>(
        &'a self,
        _: ObjectId,
        _: &'a mut [DkeyFetch<'f, 'b>],
        _: ReadAt<'a>,
    ) -> Reply<'a, ()>
    where
        'b: 'f,
        'f: 'a,
    {
        self.part.lost()
    }

    fn list_keys<'a>(
        &'a self,
        _: ObjectId,
        scope: KeyScope<'a>,
        anchor: &'a mut Anchor,
        _: ListLimit,
        _: ReadAt<'a>,
    ) -> Reply<'a, KeyBatch> {
        match scope {
            KeyScope::Dkeys => empty_listing(anchor),
            KeyScope::Akeys(_) => self.part.lost(),
        }
    }

    fn list_extents<'a>(
        &'a self,
        _: ObjectId,
        _: AkeyRef<'a>,
        _: &'a mut Anchor,
        _: usize,
        _: ReadAt<'a>,
    ) -> Reply<'a, Vec<StoredExtent>> {
        self.part.lost()
    }

    fn list_objects<'a>(
        &'a self,
        anchor: &'a mut Anchor,
        _: usize,
        _: ReadAt<'a>,
    ) -> Reply<'a, Vec<ObjectId>> {
        empty_listing(anchor)
    }

    fn query_key<'a>(
        &'a self,
        _: ObjectId,
        _: KeyQuery<'a>,
        _: ReadAt<'a>,
    ) -> Reply<'a, Option<KeyFound>> {
        self.part.lost()
    }

    fn last_epoch<'a>(
        &'a self,
        _: ObjectId,
        _: Option<&'a [u8]>,
        _: ReadAt<'a>,
    ) -> Reply<'a, Epoch> {
        self.part.lost()
    }

    fn create_snapshot<'a>(&'a self, _: &'a str) -> Reply<'a, Epoch> {
        self.part.lost()
    }

    fn list_snapshots(&self) -> Reply<'_, Vec<SnapshotInfo>> {
        Reply::Ready(Ok(Vec::new()))
    }

    fn destroy_snapshot(&self, _: Epoch) -> Reply<'_, ()> {
        self.part.lost()
    }

    fn lease(&self, _: ObjectId) -> Reply<'_, ()> {
        self.part.lost()
    }

    fn release(&self, _: ObjectId) -> Reply<'_, bool> {
        self.part.lost()
    }

    fn unlink_on_last_close(&self, _: ObjectId) -> Reply<'_, bool> {
        self.part.lost()
    }
}
