//! Path validation: creates and removes a file by its path in one message, over the network.
//!
//! A client that resolves a path and then creates a file waits for two replies. But an update can carry a proof of
//! earlier reads, and the server applies it only if they are still current. So the client reads the entries of a path
//! once, and writes or removes each entry on condition that none of them has changed. All of them must be stored on one
//! node.
use crate::create::Create;
use crate::entry::{self, EntryLocation, MARK};
use crate::inode::{Inode, Kind};
use crate::limits::{NAME_MAX, STEPS_MAX};
use crate::mount::Dfs;
use crate::node::Node;
use crate::path::split_last;
use crate::prefetch;
use crate::validated_paths::{PathKey, ValidatedDirectory};
use esker::types::ops::FIRST_CHUNK;
use esker::types::{ErrorKind, ObjectId, Result};
use esker::{Access, Wait, side_by_side, task};
use std::sync::Arc;

impl Dfs {
    /// Creates a file by its path in a single message. That works if this process has read all directories of the path
    /// before, none of them has changed, and the name is free. Otherwise returns `None` and changes nothing: the caller
    /// resolves the path. `new` is called with the directory.
    ///
    /// # Errors
    /// The errors of [`Node::create`].
    pub fn create_by_known_path(
        &self,
        base: &Node,
        path: &[u8],
        new: impl Fn(&Node) -> Create,
    ) -> Result<Option<Node>> {
        let mounted = self.mounted();
        let Some((from, path, name)) = self.path_to_validate(base, path)? else { return Ok(None) };
        // The second attempt has a new proof, if the path has changed.
        for _ in 0..2 {
            let Some(dir) = self.validated_directory(&path)? else { break };
            let Some(node) = dir.node_for_new_entry(&from, name)? else { break };
            match node.insert_file(name, &new(&node), Some(&dir.proof)) {
                Err(error) if error.kind() == ErrorKind::TxRestart => {
                    mounted.validated_paths.remove(&path)
                }
                // Perhaps the path leads to another directory by now.
                Err(error) if matches!(error.kind(), ErrorKind::Exists | ErrorKind::NotFound) => {
                    break;
                }
                result => return result.map(Some),
            }
        }
        Ok(None)
    }

    /// Removes a file by its path in a single message. That works if this process has seen the file, and if one node has
    /// its entry, its content and the path. Otherwise returns false and changes nothing: the caller resolves the path.
    ///
    /// # Errors
    /// The errors of [`Node::unlink`].
    pub fn unlink_by_known_path(&self, base: &Node, path: &[u8]) -> Result<bool> {
        let mounted = self.mounted();
        let Some((from, path, name)) = self.path_to_validate(base, path)? else {
            return Ok(false);
        };
        // The second attempt has a new proof, if the path has changed.
        for _ in 0..2 {
            let Some(dir) = self.validated_directory(&path)? else { break };
            let Some(node) = dir.node_for_removal(&from, name)? else { break };
            match node.take_away(name, Some(&dir.proof)) {
                Err(error) if error.kind() == ErrorKind::TxRestart => {
                    mounted.validated_paths.remove(&path);
                }
                result => return result,
            }
        }
        Ok(false)
    }

    /// The directory at which a path begins, the path without its last name, and that name. `None` if validation is of
    /// no use or not possible: on a local pool, in a read-only mount, or for a last name that no file has.
    fn path_to_validate<'p>(
        &self,
        base: &Node,
        path: &'p [u8],
    ) -> Result<Option<(Node, PathKey, &'p [u8])>> {
        if !self.mounted().is_slow() || self.is_read_only() || path.ends_with(b"/") {
            return Ok(None);
        }
        let (above, name) = split_last(path)?;
        if entry::is_special(name) || name.len() > NAME_MAX {
            return Ok(None);
        }
        let from = if path.starts_with(b"/") { self.root() } else { base.clone() };
        let key = (from.oid(), above.into());
        Ok(Some((from, key, name)))
    }

    /// The directory to which a path leads, with its proof; `None` if the path cannot be validated.
    fn validated_directory(&self, path: &PathKey) -> Result<Option<Arc<ValidatedDirectory>>> {
        if let Some(cached) = self.mounted().validated_paths.get(path) {
            return Ok(Some(cached));
        }
        let Some(dir) = self.read_path(path)?.map(Arc::new) else { return Ok(None) };
        self.mounted().validated_paths.put(path.clone(), Arc::clone(&dir));
        Ok(Some(dir))
    }

    /// Reads the entries of a path at their predicted locations, if one node stores them all. `None` if another node
    /// has one, a prediction is missing, or the entries read are not the path.
    fn read_path(&self, (from, path): &PathKey) -> Result<Option<ValidatedDirectory>> {
        let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        let (locations, end) = prefetch::predict_path(self, *from, names);
        let node =
            |location: &EntryLocation| self.container().node_of(location.dir, &location.name);
        let (Some(_), Some(first)) = (end, locations.first()) else { return Ok(None) };
        let storage_node = node(first);
        if locations.len() > STEPS_MAX
            || locations.iter().any(|location| node(location) != storage_node)
        {
            return Ok(None);
        }
        let transaction = self.container().transaction_read_only()?;
        let access = Access::Tx(&transaction);
        let asked = locations.iter().map(|location| task(location.inode(self.container(), access)));
        let found = side_by_side(asked.collect(), STEPS_MAX).wait();
        let found = found.into_iter().collect::<Result<Option<Vec<_>>>>()?;
        let Some(inodes) = found else { return Ok(None) };
        let steps: Vec<_> = std::iter::zip(locations, inodes).collect();
        let proof = transaction.proof()?;
        Ok(is_path(*from, &steps).then_some(ValidatedDirectory { steps, proof, storage_node }))
    }
}

/// True if each entry is in the directory that the one before it names.
fn is_path(from: ObjectId, steps: &[(EntryLocation, Inode)]) -> bool {
    let dirs = std::iter::once(from).chain(steps.iter().map(|(_, inode)| inode.oid));
    let is_step = |(dir, (location, inode)): (ObjectId, &(EntryLocation, Inode))| {
        location.dir == dir && inode.kind == Kind::Directory
    };
    dirs.zip(steps).all(is_step)
}

impl ValidatedDirectory {
    /// The node of the directory, if its storage node also stores a new entry of this name, and no hint says that one
    /// exists.
    fn node_for_new_entry(&self, from: &Node, name: &[u8]) -> Result<Option<Node>> {
        let Some((_, Inode { oid: dir, .. })) = self.steps.last() else { return Ok(None) };
        let (fs, new) = (from.fs(), EntryLocation { dir: *dir, name: name.into() });
        let is_stored_there = |name| fs.container().node_of(*dir, name) == self.storage_node;
        if fs.mounted().entry_hints.inode(&new).is_some()
            || entry::has_marks(fs.container()) && !is_stored_there(MARK)
            || !is_stored_there(name)
        {
            return Ok(None);
        }
        self.node(from).map(Some)
    }

    /// The node of the directory, if its storage node also has the entry of this name, and the content of the file that
    /// this process has seen there.
    fn node_for_removal(&self, from: &Node, name: &[u8]) -> Result<Option<Node>> {
        let Some((_, Inode { oid: dir, .. })) = self.steps.last() else { return Ok(None) };
        let (fs, entry) = (from.fs(), EntryLocation { dir: *dir, name: name.into() });
        let Some(known) = fs.mounted().entry_hints.inode(&entry) else { return Ok(None) };
        let node_of = |oid: ObjectId, dkey: &[u8]| fs.container().node_of(oid, dkey);
        match node_of(*dir, name) == self.storage_node
            && node_of(known.oid, &FIRST_CHUNK) == self.storage_node
        {
            true => self.node(from).map(Some),
            false => Ok(None),
        }
    }

    /// The node of the directory, reached by its steps from the node at which the path begins.
    fn node(&self, from: &Node) -> Result<Node> {
        let mut steps = self.steps.iter();
        steps.try_fold(from.clone(), |node, (location, inode)| node.child(&location.name, *inode))
    }
}
