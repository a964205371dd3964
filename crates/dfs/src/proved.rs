//! New files in directories that were seen before, where replies take a while.
//!
//! Who creates a file by its path would wait for the steps of the path, and then for the new entry. But a change can
//! require that what was read earlier still holds. So the steps are read once, and each new entry is written on condition
//! that none of them has changed since. Steps and entry must lie on one node: then that is a single message.
use crate::ahead;
use crate::create::Create;
use crate::entry::{self, EntryLocation, MARK};
use crate::inode::{Inode, Kind};
use crate::limits::{NAME_MAX, PROVED_MAX, STEPS_MAX};
use crate::mount::Dfs;
use crate::node::Node;
use crate::path::split_last;
use esker::types::{ErrorKind, ObjectId, Result};
use esker::{Access, Proof, Wait, side_by_side, task};
use esker_os::ForkLock;
use std::collections::HashMap;
use std::sync::Arc;

/// Where a path begins, and the path.
type From = (ObjectId, Box<[u8]>);

/// Directories by the paths that led to them.
#[derive(Default)]
pub(crate) struct Proved(ForkLock<HashMap<From, Arc<Directory>>>);

/// A directory that is there if its proof holds.
struct Directory {
    /// The entries that lead to it.
    steps: Vec<(EntryLocation, Inode)>,
    proof: Proof,
    /// The node on which all of them lie.
    lies_on: u32,
}

impl Proved {
    fn get(&self, path: &From) -> Option<Arc<Directory>> {
        self.0.lock().get(path).cloned()
    }

    fn put(&self, path: From, dir: Arc<Directory>) {
        let mut proved = self.0.lock();
        if proved.len() >= PROVED_MAX {
            proved.clear();
        }
        proved.insert(path, dir);
    }

    fn forget(&self, path: &From) {
        self.0.lock().remove(path);
    }
}

impl Dfs {
    /// Creates a file by its path in a single message: if the path leads through directories alone which were seen before,
    /// if they still are where they were, and if the name is free. `None` if not, or if that is not known: then nothing
    /// was done, and the path has to be resolved. `new` is given the directory.
    ///
    /// # Errors
    /// As [`Node::create`].
    pub fn create_where_seen(
        &self,
        base: &Node,
        path: &[u8],
        new: impl Fn(&Node) -> Create,
    ) -> Result<Option<Node>> {
        let mounted = self.mounted();
        if !mounted.is_slow() || self.is_read_only() || path.ends_with(b"/") {
            return Ok(None);
        }
        let (above, name) = split_last(path)?;
        if entry::is_special(name) || name.len() > NAME_MAX {
            return Ok(None);
        }
        let from = if path.starts_with(b"/") { self.root() } else { base.clone() };
        let path = (from.oid(), above.into());
        // The second time with a new proof, once the steps have changed.
        for _ in 0..2 {
            let Some(dir) = self.proved(&path)? else { break };
            let Some(node) = dir.for_new(&from, name)? else { break };
            match node.insert_file(name, &new(&node), Some(&dir.proof)) {
                Err(error) if error.kind() == ErrorKind::TxRestart => mounted.proved.forget(&path),
                // What stands there was perhaps not what the path leads to by now.
                Err(error) if matches!(error.kind(), ErrorKind::Exists | ErrorKind::NotFound) => {
                    break;
                }
                result => return result.map(Some),
            }
        }
        Ok(None)
    }

    /// The directory to which a path leads; `None` if that is not known.
    fn proved(&self, path: &From) -> Result<Option<Arc<Directory>>> {
        if let Some(known) = self.mounted().proved.get(path) {
            return Ok(Some(known));
        }
        let Some(dir) = self.prove(path)?.map(Arc::new) else { return Ok(None) };
        self.mounted().proved.put(path.clone(), Arc::clone(&dir));
        Ok(Some(dir))
    }

    /// Reads the steps of a path where they were seen, if they lie on one node.
    fn prove(&self, (from, path): &From) -> Result<Option<Directory>> {
        let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        let (places, end) = ahead::guess(self, *from, names);
        let node = |place: &EntryLocation| self.container().node_of(place.dir, &place.name);
        let (Some(_), Some(first)) = (end, places.first()) else { return Ok(None) };
        let lies_on = node(first);
        if places.len() > STEPS_MAX || places.iter().any(|place| node(place) != lies_on) {
            return Ok(None);
        }
        let transaction = self.container().transaction_read_only()?;
        let access = Access::Tx(&transaction);
        let asked = places.iter().map(|place| task(place.inode(self.container(), access)));
        let found = side_by_side(asked.collect(), STEPS_MAX).wait();
        let found = found.into_iter().collect::<Result<Option<Vec<_>>>>()?;
        let Some(inodes) = found else { return Ok(None) };
        let steps: Vec<_> = std::iter::zip(places, inodes).collect();
        let proof = transaction.proof()?;
        Ok(is_path(*from, &steps).then_some(Directory { steps, proof, lies_on }))
    }
}

/// True if each step leads through a directory to the next one.
fn is_path(from: ObjectId, steps: &[(EntryLocation, Inode)]) -> bool {
    let dirs = std::iter::once(from).chain(steps.iter().map(|(_, inode)| inode.oid));
    let is_step = |(dir, (place, inode)): (ObjectId, &(EntryLocation, Inode))| {
        place.dir == dir && inode.kind == Kind::Directory
    };
    dirs.zip(steps).all(is_step)
}

impl Directory {
    /// Its node, if a new entry of this name lies where the steps lie, and nothing was seen there.
    fn for_new(&self, from: &Node, name: &[u8]) -> Result<Option<Node>> {
        let Some((_, Inode { oid: dir, .. })) = self.steps.last() else { return Ok(None) };
        let (fs, new) = (from.fs(), EntryLocation { dir: *dir, name: name.into() });
        let lies_there = |name| fs.container().node_of(*dir, name) == self.lies_on;
        if fs.mounted().seen.inode(&new).is_some() || !lies_there(MARK) || !lies_there(name) {
            return Ok(None);
        }
        let mut node = from.clone();
        for (place, inode) in &self.steps {
            node = node.child(&place.name, *inode)?;
        }
        Ok(Some(node))
    }
}
