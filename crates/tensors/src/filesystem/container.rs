//! The container of a file system of tensors. Objects of directories and files are computed from the tensor store.
//! Other objects, such as the superblock, are in memory.
use crate::filesystem::fetch;
use crate::filesystem::files::Files;
use crate::filesystem::ids;
use crate::filesystem::pool::refusal;
use dfs::INODE_AKEY;
use esker::types::info::{ContainerInfo, SnapshotInfo};
use esker::types::ops::{
    AkeyRef, Anchor, Change, DkeyFetch, KeyFound, KeyQuery, KeyScope, ListLimit, ReadAt,
    StoredExtent,
};
use esker::types::{Epoch, Error, ErrorKind, KeyBatch, ObjectId, Result};
use esker_backend::{Metadata, MetadataChanges, OpenContainer, Reply};
use std::sync::Arc;

/// The open container.
pub(crate) struct ShownContainer {
    inner: Box<dyn OpenContainer>,
    files: Arc<Files>,
}

impl ShownContainer {
    pub(crate) fn new(inner: Box<dyn OpenContainer>, files: Arc<Files>) -> Self {
        Self { inner, files }
    }

    /// Reads chunks of the HDF5 file that shows a tensor. That file is not stored: its bytes are computed for the read.
    fn read_file(&self, oid: ObjectId, dkeys: &mut [DkeyFetch<'_, '_>]) -> Result<()> {
        match self.files.image(oid)? {
            Some(image) => fetch::chunks(&image, dkeys),
            None => Err(tensor_removed_error()),
        }
    }

    /// Answers a query about the chunks of the HDF5 file that shows a tensor, as a container would for a stored file.
    fn query_file(&self, oid: ObjectId, query: KeyQuery<'_>) -> Result<Option<KeyFound>> {
        match self.files.image(oid)? {
            Some(image) => fetch::query(&image, query),
            None => Err(tensor_removed_error()),
        }
    }

    /// Lists the names in a directory from the anchor on, and moves the anchor. `directory` is the prefix of the names
    /// of its tensors.
    fn list(&self, directory: &str, anchor: &mut Anchor, limit: ListLimit) -> Result<KeyBatch> {
        let after = match &*anchor {
            Anchor::Start => Vec::new(),
            Anchor::After { position, .. } => position.clone(),
            Anchor::End => return Ok(KeyBatch::default()),
        };
        let (names, end) = self.files.list(directory, &after, limit.entries)?;
        *anchor = end.map_or(Anchor::End, |position| Anchor::After { shard: 0, position });
        Ok(names)
    }

    /// The akeys of the entry `name` of a directory: only the one with its inode, if the entry exists.
    fn akeys(&self, directory: &str, name: &[u8], anchor: &mut Anchor) -> Result<KeyBatch> {
        let mut akeys = KeyBatch::default();
        if *anchor == Anchor::Start && self.files.inode(directory, name)?.is_some() {
            akeys.push(INODE_AKEY);
        }
        *anchor = Anchor::End;
        Ok(akeys)
    }
}

#[cold]
fn tensor_removed_error() -> Error {
    let text = "the tensor was removed or replaced: open it again by its name";
    Error::new(ErrorKind::NotFound, text)
}

impl Metadata for ShownContainer {
    fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        self.inner.get_metadata(name)
    }

    fn set_metadata<'a>(&'a self, _changes: &'a MetadataChanges<'a>) -> Reply<'a, ()> {
        Reply::Ready(Err(refusal()))
    }

    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>> {
        self.inner.list_metadata(prefix)
    }
}

impl OpenContainer for ShownContainer {
    fn info(&self) -> &ContainerInfo {
        self.inner.info()
    }

    fn close(&self) -> Reply<'_, ()> {
        self.inner.close()
    }

    fn rename<'a>(&'a self, _label: Option<&'a str>) -> Reply<'a, ()> {
        Reply::Ready(Err(refusal()))
    }

    fn allocate_oids(&self, _count: u64) -> Reply<'_, u64> {
        Reply::Ready(Err(refusal()))
    }

    fn next_oid(&self) -> Reply<'_, u64> {
        self.inner.next_oid()
    }

    fn write<'a>(&'a self, _change: Change<'a>) -> Reply<'a, Epoch> {
        Reply::Ready(Err(refusal()))
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
        if ids::is_file(oid) {
            return Reply::Ready(self.read_file(oid, dkeys));
        }
        match self.files.directory(oid) {
            Ok(Some(path)) => Reply::Ready(fetch::entries(&self.files, &path, dkeys)),
            Ok(None) => self.inner.fetch(oid, dkeys, at),
            Err(error) => Reply::Ready(Err(error)),
        }
    }

    fn list_keys<'a>(
        &'a self,
        oid: ObjectId,
        scope: KeyScope<'a>,
        anchor: &'a mut Anchor,
        limit: ListLimit,
        at: ReadAt<'a>,
    ) -> Reply<'a, KeyBatch> {
        match (self.files.directory(oid), scope) {
            (Ok(Some(path)), KeyScope::Dkeys) => Reply::Ready(self.list(&path, anchor, limit)),
            (Ok(Some(path)), KeyScope::Akeys(name)) => {
                Reply::Ready(self.akeys(&path, name, anchor))
            }
            (Ok(None), scope) => self.inner.list_keys(oid, scope, anchor, limit, at),
            (Err(error), _) => Reply::Ready(Err(error)),
        }
    }

    fn list_extents<'a>(
        &'a self,
        oid: ObjectId,
        key: AkeyRef<'a>,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<StoredExtent>> {
        self.inner.list_extents(oid, key, anchor, entries, at)
    }

    fn list_objects<'a>(
        &'a self,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<ObjectId>> {
        self.inner.list_objects(anchor, entries, at)
    }

    fn query_key<'a>(
        &'a self,
        oid: ObjectId,
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Option<KeyFound>> {
        match ids::is_file(oid) {
            true => Reply::Ready(self.query_file(oid, query)),
            false => self.inner.query_key(oid, query, at),
        }
    }

    fn last_epoch<'a>(
        &'a self,
        oid: ObjectId,
        dkey: Option<&'a [u8]>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Epoch> {
        self.inner.last_epoch(oid, dkey, at)
    }

    fn create_snapshot<'a>(&'a self, _name: &'a str) -> Reply<'a, Epoch> {
        Reply::Ready(Err(refusal()))
    }

    fn list_snapshots(&self) -> Reply<'_, Vec<SnapshotInfo>> {
        self.inner.list_snapshots()
    }

    fn destroy_snapshot(&self, _epoch: Epoch) -> Reply<'_, ()> {
        Reply::Ready(Err(refusal()))
    }

    fn lease(&self, oid: ObjectId) -> Reply<'_, ()> {
        Reply::Ready(self.files.lease(oid))
    }

    /// Always false: the store frees a removed tensor itself, so the caller has no object to remove.
    fn release(&self, oid: ObjectId) -> Reply<'_, bool> {
        self.files.release(oid);
        Reply::Ready(Ok(false))
    }

    /// Always false: the store frees tensors by its own leases, so the last close frees nothing. A file system calls
    /// this to tell if a process has a removed file open, and then searches its orphans.
    fn unlink_on_last_close(&self, _oid: ObjectId) -> Reply<'_, bool> {
        Reply::Ready(Ok(false))
    }
}
