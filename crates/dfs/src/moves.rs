//! Directories that this process moved, so that who has one open still finds its entry.
use crate::limits::MOVES_MAX;
use crate::mount::Mounted;
use crate::place::Place;
use esker::types::ObjectId;
use esker_os::ForkLock;
use std::collections::HashMap;

/// Where they stand now. Beyond [`MOVES_MAX`] all are forgotten, and begin anew.
#[derive(Default)]
pub(crate) struct Moves(ForkLock<HashMap<ObjectId, Place>>);

impl Moves {
    pub(crate) fn note(&self, oid: ObjectId, place: &Place) {
        let mut moves = self.0.lock();
        if moves.len() >= MOVES_MAX {
            moves.clear();
        }
        moves.insert(oid, place.clone());
    }
}

impl Mounted {
    /// Where something stands that this process moved: a directory, or a file while it is open.
    pub(crate) fn moved_to(&self, oid: ObjectId) -> Option<Place> {
        let moved = self.moves.0.lock().get(&oid).cloned();
        moved.or_else(|| self.open_files.known_place(oid))
    }
}
