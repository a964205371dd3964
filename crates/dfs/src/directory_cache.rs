//! Directory cache: entries of directories that paths lead through, each with a proof that it has not changed.
//!
//! Most paths lead through the same directories. One load from shared memory tells whether a cached entry is still
//! current. If it is, the lookup does not read the index.
use crate::entry::EntryLocation;
use crate::inode::{Inode, Kind};
use crate::limits::DIRECTORY_CACHE_MAX;
use esker::types::{ObjectId, Result};
use esker::{Access, Container, Proof, Wait};
use esker_os::ForkLock;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Cached directories.
#[derive(Default)]
pub(crate) struct DirectoryCache {
    directories: ForkLock<Directories>,
    /// The backend cannot tell whether a directory has changed.
    is_unsupported: AtomicBool,
}

#[derive(Default)]
struct Directories {
    /// Directories by parent directory and name.
    found: HashMap<ObjectId, HashMap<Box<[u8]>, Arc<Directory>>>,
    count: usize,
}

struct Directory {
    inode: Inode,
    proof: Proof,
}

impl DirectoryCache {
    /// The inode of a directory by its parent and its name, in the latest state. `None` if there is no directory of
    /// this name, or if the backend cannot tell whether a cached one has changed.
    ///
    /// # Errors
    /// Errors of the backend.
    pub(crate) fn directory(
        &self,
        container: &Container,
        (dir, name): (ObjectId, &[u8]),
    ) -> Result<Option<Inode>> {
        if self.is_unsupported.load(Ordering::Relaxed) {
            return Ok(None);
        }
        match self.get(dir, name) {
            Some(found) if container.is_unchanged(&found.proof) == Some(true) => {
                Ok(Some(found.inode))
            }
            _ => self.read_and_cache(container, EntryLocation { dir, name: name.into() }),
        }
    }

    /// Reads the inode at `location` and caches it, if it is a directory; `None` otherwise.
    #[cold]
    fn read_and_cache(
        &self,
        container: &Container,
        location: EntryLocation,
    ) -> Result<Option<Inode>> {
        let transaction = container.transaction_read_only()?;
        let found = location.inode(container, Access::Tx(&transaction)).wait()?;
        let Some(inode) = found.filter(|inode| inode.kind == Kind::Directory) else {
            return Ok(None);
        };
        let proof = transaction.proof()?;
        match container.is_unchanged(&proof) {
            // `None`: the backend cannot tell.
            None => self.is_unsupported.store(true, Ordering::Relaxed),
            Some(_) => self.put(location, Directory { inode, proof }),
        }
        Ok(Some(inode))
    }

    /// The cached directory of this name in `dir`, which another process may have changed since.
    fn get(&self, dir: ObjectId, name: &[u8]) -> Option<Arc<Directory>> {
        self.directories.lock().found.get(&dir)?.get(name).cloned()
    }

    /// Caches a directory, in place of the one cached before under its name. A full cache is emptied first.
    fn put(&self, location: EntryLocation, directory: Directory) {
        let mut all = self.directories.lock();
        if all.count >= DIRECTORY_CACHE_MAX {
            *all = Directories::default();
        }
        let names = all.found.entry(location.dir).or_default();
        let before = names.insert(location.name, Arc::new(directory));
        all.count += usize::from(before.is_none());
    }
}
