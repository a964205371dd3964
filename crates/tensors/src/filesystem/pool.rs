//! The pool of a file system of tensors: a pool in memory that reports the space of the tensors' pool.
use crate::filesystem::container::ShownContainer;
use crate::filesystem::files::Files;
use esker::types::info::{Capabilities, ContainerInfo, ContainerRef, OpenMode, PoolInfo};
use esker::types::{Error, ErrorKind};
use esker_backend::memory::Memory;
use esker_backend::{Metadata, MetadataChanges, NewContainer, OpenContainer, Pool, Reply};
use std::sync::Arc;

/// A pool with one container.
pub(crate) struct Shown {
    memory: Memory,
    files: Arc<Files>,
}

impl Shown {
    pub(crate) fn new(memory: Memory, files: Arc<Files>) -> Self {
        Self { memory, files }
    }
}

/// The error of every operation that would change a tensor shown as a file.
#[cold]
pub(crate) fn refusal() -> Error {
    let text = "tensors are shown for reading: store them with `esker tensor` or a program that puts tensors";
    Error::new(ErrorKind::ReadOnly, text)
}

impl Metadata for Shown {
    fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        self.memory.get_metadata(name)
    }

    fn set_metadata<'a>(&'a self, _changes: &'a MetadataChanges<'a>) -> Reply<'a, ()> {
        Reply::Ready(Err(refusal()))
    }

    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>> {
        self.memory.list_metadata(prefix)
    }
}

impl Pool for Shown {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    fn info(&self) -> Reply<'_, PoolInfo> {
        Reply::Pending(Box::pin(self.files.store().container().pool_info()))
    }

    fn create_container<'a>(&'a self, _new: &'a NewContainer<'a>) -> Reply<'a, ContainerInfo> {
        Reply::Ready(Err(refusal()))
    }

    fn open_container<'a>(
        &'a self,
        name: ContainerRef<'a>,
        mode: OpenMode,
    ) -> Reply<'a, Box<dyn OpenContainer>> {
        let opened = self.memory.open_container(name, mode).wait();
        let shown = |inner| Box::new(ShownContainer::new(inner, Arc::clone(&self.files)));
        Reply::Ready(opened.map(|inner| shown(inner) as Box<dyn OpenContainer>))
    }

    fn destroy_container<'a>(&'a self, _name: ContainerRef<'a>, _force: bool) -> Reply<'a, ()> {
        Reply::Ready(Err(refusal()))
    }

    fn list_containers(&self) -> Reply<'_, Vec<ContainerInfo>> {
        self.memory.list_containers()
    }
}
