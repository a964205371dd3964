//! Moves: where this process renamed directories to.
use crate::entry::EntryLocation;
use crate::limits::MOVES_MAX;
use esker::types::ObjectId;
use esker_os::ForkLock;
use std::collections::HashMap;

/// New locations of the directories that this process renamed, by which open ones find their entry. Cleared at
/// [`MOVES_MAX`].
#[derive(Default)]
pub(crate) struct Moves(ForkLock<HashMap<ObjectId, EntryLocation>>);

impl Moves {
    /// Records the new location of a directory.
    pub(crate) fn note(&self, oid: ObjectId, location: &EntryLocation) {
        let mut moves = self.0.lock();
        if moves.len() >= MOVES_MAX {
            moves.clear();
        }
        moves.insert(oid, location.clone());
    }

    /// The new location of a directory that this process renamed.
    pub(crate) fn location(&self, oid: ObjectId) -> Option<EntryLocation> {
        self.0.lock().get(&oid).cloned()
    }
}
