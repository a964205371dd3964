//! Lock files that stay open after their object was closed: making and removing one takes longer than all else that an open
//! file with a lock does.
//!
//! Nothing is locked in them. Who removes the object meanwhile finds nobody there, and removes the lock file, too. They
//! are closed before a fork or exec, because locks belong to whoever has the descriptor.
use crate::limits::LOCK_FILES_KEPT;
use crate::{locks, threads};
use esker::types::ObjectId;
use esker_os::ForkLock;
use std::ffi::c_int;

static KEPT: ForkLock<Vec<(ObjectId, c_int)>> = ForkLock::new();

/// True if there are any.
pub(crate) fn any() -> bool {
    !KEPT.lock().is_empty()
}

/// Takes out the lock file of an object.
pub(crate) fn take(oid: ObjectId) -> Option<c_int> {
    let mut kept = KEPT.lock();
    let at = kept.iter().rposition(|(other, _)| *other == oid)?;
    Some(kept.remove(at).1)
}

/// Keeps a lock file open. Above the limit, the one that was used least recently is closed.
pub(crate) fn keep(oid: ObjectId, fd: c_int) {
    let mut kept = KEPT.lock();
    kept.push((oid, fd));
    if kept.len() <= LOCK_FILES_KEPT {
        return;
    }
    // Closing one would drop the record locks of this process.
    let Some(at) = kept.iter().position(|(oid, _)| !locks::has_records(*oid)) else { return };
    let (oid, fd) = kept.remove(at);
    drop(kept);
    locks::close_of(fd, oid);
}

/// Closes all of them.
pub(crate) fn close() {
    let kept = std::mem::take(&mut *KEPT.lock());
    if kept.is_empty() {
        return;
    }
    let (locked, unlocked): (Vec<_>, Vec<_>) =
        kept.into_iter().partition(|(oid, _)| locks::has_records(*oid));
    KEPT.lock().extend(locked);
    let _ = threads::inside(|| {
        for (oid, fd) in unlocked {
            locks::close_of(fd, oid);
        }
        Ok(())
    });
}
