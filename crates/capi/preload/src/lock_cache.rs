//! Cache of lock files that stay open after their object was closed. Making and removing a lock file takes longer than
//! all other work for an open file with a lock.
//!
//! Cached files hold no locks. A process that removes the object meanwhile sees no user, and removes the lock file
//! too. Cached files are closed before a fork or exec, because a child would share their locks.
use crate::limits::LOCK_FILES_KEPT;
use crate::{locks, threads};
use esker::types::ObjectId;
use esker_os::ForkLock;
use std::ffi::c_int;

static KEPT: ForkLock<Vec<(ObjectId, c_int)>> = ForkLock::new();

/// True if this process has a cached lock file open.
pub(crate) fn any() -> bool {
    !KEPT.lock().is_empty()
}

/// Removes the lock file of an object from the cache, and returns its descriptor.
pub(crate) fn take(oid: ObjectId) -> Option<c_int> {
    let mut kept = KEPT.lock();
    let at = kept.iter().rposition(|(other, _)| *other == oid)?;
    Some(kept.remove(at).1)
}

/// Adds an open lock file to the cache. Above the limit, closes the least recently used one.
pub(crate) fn keep(oid: ObjectId, fd: c_int) {
    let mut kept = KEPT.lock();
    kept.push((oid, fd));
    if kept.len() <= LOCK_FILES_KEPT {
        return;
    }
    drop(kept);
    let Some(_opening) = locks::opening_soon() else { return };
    let mut kept = KEPT.lock();
    // Closing the lock file of an object with record locks would drop these locks.
    let Some(at) = kept.iter().position(|(oid, _)| !locks::has_records(*oid)) else { return };
    let (oid, fd) = kept.remove(at);
    drop(kept);
    locks::close_lock_file(fd, oid);
}

/// Closes all cached lock files except those of objects with record locks.
pub(crate) fn close() {
    if !any() {
        return;
    }
    let Some(_opening) = locks::opening_soon() else { return };
    let kept = std::mem::take(&mut *KEPT.lock());
    let (locked, unlocked): (Vec<_>, Vec<_>) =
        kept.into_iter().partition(|(oid, _)| locks::has_records(*oid));
    KEPT.lock().extend(locked);
    let _ = threads::inside(|| {
        for (oid, fd) in unlocked {
            locks::close_lock_file(fd, oid);
        }
        Ok(())
    });
}
