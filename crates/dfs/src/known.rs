//! Directories on the way of paths, where a look at shared memory tells whether they have changed.
//!
//! A path is looked up name by name, and most paths lead through the same directories. What was read of one is proved: as
//! long as nothing has changed since, the index need not be read again.
use crate::entry::EntryLocation;
use crate::inode::{Inode, Kind};
use crate::limits::KNOWN_MAX;
use crate::node::Node;
use esker::types::{ObjectId, Result};
use esker::{Access, Container, Proof, Wait};
use esker_os::ForkLock;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Directories as they were seen.
#[derive(Default)]
pub(crate) struct Known {
    directories: ForkLock<Directories>,
    /// The backend cannot tell whether they have changed.
    is_useless: AtomicBool,
}

#[derive(Default)]
struct Directories {
    /// By the directory that has them, and their names.
    found: HashMap<ObjectId, HashMap<Box<[u8]>, Arc<Directory>>>,
    count: usize,
}

struct Directory {
    inode: Inode,
    proof: Proof,
}

impl Known {
    fn get(&self, dir: ObjectId, name: &[u8]) -> Option<Arc<Directory>> {
        self.directories.lock().found.get(&dir)?.get(name).cloned()
    }

    /// Keeps a directory in place of what was known under the name.
    fn put(&self, place: EntryLocation, directory: Directory) {
        let mut all = self.directories.lock();
        if all.count >= KNOWN_MAX {
            *all = Directories::default();
        }
        let names = all.found.entry(place.dir).or_default();
        let before = names.insert(place.name, Arc::new(directory));
        all.count += usize::from(before.is_none());
    }
}

/// The entry of this name, for a path that goes on behind it.
///
/// # Errors
/// As [`Node::lookup`].
pub(crate) fn lookup(dir: &Node, name: &[u8]) -> Result<Node> {
    let mounted = dir.fs().mounted();
    let (known, container) = (&mounted.known, mounted.container());
    if known.is_useless.load(Ordering::Relaxed) || !matches!(dir.fs().view(), Access::Latest) {
        return dir.lookup(name);
    }
    match known.get(dir.oid(), name) {
        Some(found) if container.is_unchanged(&found.proof) == Some(true) => {
            dir.child(name, found.inode)
        }
        _ => learn(known, container, dir, name),
    }
}

#[cold]
fn learn(known: &Known, container: &Container, dir: &Node, name: &[u8]) -> Result<Node> {
    let place = EntryLocation { dir: dir.oid(), name: name.into() };
    let transaction = container.transaction_read_only()?;
    let found = place.inode(container, Access::Tx(&transaction)).wait()?;
    let Some(inode) = found.filter(|inode| inode.kind == Kind::Directory) else {
        return dir.lookup(name);
    };
    let proof = transaction.proof()?;
    match container.is_unchanged(&proof) {
        None => known.is_useless.store(true, Ordering::Relaxed),
        Some(_) => known.put(place, Directory { inode, proof }),
    }
    dir.child(name, inode)
}
