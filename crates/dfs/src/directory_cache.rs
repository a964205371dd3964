//! Directory cache: entries of directories that paths lead through, each with a proof that it has not changed.
//!
//! Most paths lead through the same directories. One load from shared memory tells whether a cached entry is still
//! current. If it is, the lookup does not read the index.
use crate::entry::EntryLocation;
use crate::inode::{Inode, Kind};
use crate::limits::DIRECTORY_CACHE_MAX;
use crate::node::Node;
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
    /// By parent directory and name.
    found: HashMap<ObjectId, HashMap<Box<[u8]>, Arc<Directory>>>,
    count: usize,
}

struct Directory {
    inode: Inode,
    proof: Proof,
}

impl DirectoryCache {
    fn get(&self, dir: ObjectId, name: &[u8]) -> Option<Arc<Directory>> {
        self.directories.lock().found.get(&dir)?.get(name).cloned()
    }

    /// Caches a directory, in place of the one cached before under its name.
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

/// The entry of this name, for a path that continues after it.
///
/// # Errors
/// The errors of [`Node::lookup`].
pub(crate) fn lookup(dir: &Node, name: &[u8]) -> Result<Node> {
    let mounted = dir.fs().mounted();
    let (cache, container) = (&mounted.directory_cache, mounted.container());
    if cache.is_unsupported.load(Ordering::Relaxed) || !matches!(dir.fs().view(), Access::Latest) {
        return dir.lookup(name);
    }
    match cache.get(dir.oid(), name) {
        Some(found) if container.is_unchanged(&found.proof) == Some(true) => {
            dir.child(name, found.inode)
        }
        _ => read_and_cache(cache, container, dir, name),
    }
}

#[cold]
fn read_and_cache(
    cache: &DirectoryCache,
    container: &Container,
    dir: &Node,
    name: &[u8],
) -> Result<Node> {
    let location = EntryLocation { dir: dir.oid(), name: name.into() };
    let transaction = container.transaction_read_only()?;
    let found = location.inode(container, Access::Tx(&transaction)).wait()?;
    let Some(inode) = found.filter(|inode| inode.kind == Kind::Directory) else {
        return dir.lookup(name);
    };
    let proof = transaction.proof()?;
    match container.is_unchanged(&proof) {
        None => cache.is_unsupported.store(true, Ordering::Relaxed),
        Some(_) => cache.put(location, Directory { inode, proof }),
    }
    dir.child(name, inode)
}
