//! Files that this process closed while those who inherited them still have them open.
//!
//! A pool on this node sees their lock files ([`crate::locks`]); engines on other nodes see only leases, and who inherited a
//! file takes one at its first use. Until then the process that closed the file keeps its lease. It looks whether it
//! still has to when it closes another shared file, when it forks, and when it ends.
use crate::limits::LEFT_OPEN_MAX;
use crate::locks;
use crate::mounted;
use crate::open_file::Content;
use esker::types::ObjectId;
use esker_os::ForkLock;
use std::collections::VecDeque;
use std::sync::Arc;

/// A file that is left open.
pub(crate) type Left = (ObjectId, Arc<Content>);

/// A forked child begins with none: the leases are its parent's.
static LEFT: ForkLock<VecDeque<Left>> = ForkLock::new();

/// False where lock files tell everybody what is in use, and while the file system was not used.
pub(crate) fn is_needed() -> bool {
    mounted::if_open().is_some_and(|fs| fs.container().capabilities().asynchronous)
}

/// Keeps the lease of a file that others have open. Above the limit, that of the file that was closed first ends.
pub(crate) fn keep(oid: ObjectId, content: Arc<Content>) {
    if !is_needed() {
        return;
    }
    review();
    let mut left = LEFT.lock();
    left.push_back((oid, content));
    let surplus = if left.len() > LEFT_OPEN_MAX { left.pop_front() } else { None };
    // A lease ends without the lock, because that takes a while.
    drop(left);
    drop(surplus);
}

/// Takes out all of them: the process ends, or starts another program.
pub(crate) fn take() -> Vec<Left> {
    review();
    std::mem::take(&mut *LEFT.lock()).into()
}

/// Ends the leases of files that nobody else has open any more.
pub(crate) fn review() {
    let left = std::mem::take(&mut *LEFT.lock());
    if left.is_empty() {
        return;
    }
    let (used, unused): (VecDeque<Left>, VecDeque<Left>) =
        left.into_iter().partition(|(oid, _)| locks::is_used(*oid));
    LEFT.lock().extend(used);
    drop(unused);
}
