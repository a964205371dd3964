//! Paths that were validated: the directories that they lead to, with proofs ([`crate::path_validation`]).
use crate::entry::EntryLocation;
use crate::inode::Inode;
use crate::limits::VALIDATED_PATHS_MAX;
use esker::Proof;
use esker::types::ObjectId;
use esker_os::ForkLock;
use std::collections::HashMap;
use std::sync::Arc;

/// The directory at which a path starts, and the path.
pub(crate) type PathKey = (ObjectId, Box<[u8]>);

/// Directories by the paths that lead to them, with proofs.
#[derive(Default)]
pub(crate) struct ValidatedPaths(ForkLock<HashMap<PathKey, Arc<ValidatedDirectory>>>);

/// A directory, to which the path still leads if its proof is valid.
pub(crate) struct ValidatedDirectory {
    /// The entries that lead to it.
    pub(crate) steps: Vec<(EntryLocation, Inode)>,
    pub(crate) proof: Proof,
    /// The node that stores all of them.
    pub(crate) storage_node: u32,
}

impl ValidatedPaths {
    /// The directory to which a path leads, if its validation is cached. The caller checks the proof.
    pub(crate) fn get(&self, path: &PathKey) -> Option<Arc<ValidatedDirectory>> {
        self.0.lock().get(path).cloned()
    }

    /// Adds a directory whose path was validated. If there are too many, all others are dropped.
    pub(crate) fn put(&self, path: PathKey, dir: Arc<ValidatedDirectory>) {
        let mut paths = self.0.lock();
        if paths.len() >= VALIDATED_PATHS_MAX {
            paths.clear();
        }
        paths.insert(path, dir);
    }

    /// Forgets a path whose proof has turned out not to be valid.
    pub(crate) fn remove(&self, path: &PathKey) {
        self.0.lock().remove(path);
    }
}
