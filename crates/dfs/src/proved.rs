//! New files in directories that were seen before, where replies take a while.
//!
//! Who creates a file by its path would wait for the steps of the path, and then for the new entry. But a change can
//! require that what was read earlier still holds. So the steps are read once, and each new entry is written on condition
//! that none of them has changed since. Steps and entry must lie on one node: then that is a single message.
use crate::ahead;
use crate::create::Create;
use crate::entry::{self, EntryLocation, MARK};
use crate::inode::{Inode, Kind};
use crate::limits::{NAME_MAX, PROVED_MAX};
use crate::mount::Dfs;
use crate::node::Node;
use crate::path::split_last;
use esker::types::{ErrorKind, ObjectId, Result};
use esker::{Access, Proof, Wait};
use esker_os::ForkLock;
use std::collections::HashMap;
use std::sync::Arc;

/// Entries of directories, with the proof that they were so.
#[derive(Default)]
pub(crate) struct Proved(ForkLock<HashMap<EntryLocation, (Inode, Arc<Proof>)>>);

impl Proved {
    fn get(&self, place: &EntryLocation) -> Option<(Inode, Arc<Proof>)> {
        self.0.lock().get(place).cloned()
    }

    fn put(&self, place: EntryLocation, inode: Inode, proof: Arc<Proof>) {
        let mut proved = self.0.lock();
        if proved.len() >= PROVED_MAX {
            proved.clear();
        }
        proved.insert(place, (inode, proof));
    }

    fn forget(&self, places: &[EntryLocation]) {
        let mut proved = self.0.lock();
        places.iter().for_each(|place| drop(proved.remove(place)));
    }
}

/// A directory that is there if its proofs hold.
struct Directory {
    node: Node,
    proofs: Vec<Arc<Proof>>,
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
        let from = if path.starts_with(b"/") { self.root() } else { base.clone() };
        let Some(places) = self.one_message(&from, above, name) else { return Ok(None) };
        // The second time with new proofs, once the steps have changed.
        for _ in 0..2 {
            let Some(dir) = self.proved(&from, &places)? else { break };
            match dir.node.insert_file(name, &new(&dir.node), &dir.proofs) {
                Err(error) if error.kind() == ErrorKind::TxRestart => {
                    mounted.proved.forget(&places)
                }
                // What stands there was perhaps not what the path leads to by now.
                Err(error) if matches!(error.kind(), ErrorKind::Exists | ErrorKind::NotFound) => {
                    break;
                }
                result => return result.map(Some),
            }
        }
        Ok(None)
    }

    /// The steps to a directory as they were seen, if they and a new entry there lie on one node.
    fn one_message(&self, from: &Node, above: &[u8], name: &[u8]) -> Option<Vec<EntryLocation>> {
        let names = || above.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        let is_plain = |name: &[u8]| !entry::is_special(name) && name.len() <= NAME_MAX;
        if names().next().is_none() || !names().all(is_plain) || !is_plain(name) {
            return None;
        }
        let (places, end) = ahead::guess(self, from.oid(), names());
        let dir = end.filter(|end| end.kind == Kind::Directory)?.oid;
        let new = EntryLocation { dir, name: name.into() };
        if self.mounted().seen.inode(&new).is_some() {
            return None;
        }
        let node = |dir: ObjectId, name: &[u8]| self.container().node_of(dir, name);
        let of_entry = node(dir, name);
        let is_there = |place: &EntryLocation| node(place.dir, &place.name) == of_entry;
        (node(dir, MARK) == of_entry && places.iter().all(is_there)).then_some(places)
    }

    /// The directory at the end of these steps, with a proof for each; `None` if they lead elsewhere by now.
    fn proved(&self, from: &Node, places: &[EntryLocation]) -> Result<Option<Directory>> {
        let mut dir = Directory { node: from.clone(), proofs: Vec::with_capacity(places.len()) };
        for place in places {
            let known = match self.mounted().proved.get(place) {
                None => self.prove(place)?,
                known => known,
            };
            let is_step =
                |inode: &Inode| inode.kind == Kind::Directory && dir.node.oid() == place.dir;
            let Some((inode, proof)) = known.filter(|(inode, _)| is_step(inode)) else {
                return Ok(None);
            };
            dir.node = dir.node.child(&place.name, inode)?;
            dir.proofs.push(proof);
        }
        Ok(Some(dir))
    }

    /// Reads an entry, and keeps the proof.
    fn prove(&self, place: &EntryLocation) -> Result<Option<(Inode, Arc<Proof>)>> {
        let transaction = self.container().transaction()?;
        let found = place.inode(self.container(), Access::Tx(&transaction)).wait()?;
        let Some(inode) = found else { return Ok(None) };
        let proof = Arc::new(transaction.proof()?);
        self.mounted().proved.put(place.clone(), inode, Arc::clone(&proof));
        Ok(Some((inode, proof)))
    }
}
