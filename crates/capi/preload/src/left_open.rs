//! Leases of files that this process has closed while other processes, which inherited them, have them open.
//!
//! A lease keeps the content of a file after its name is removed. In a pool on this node, lock files show which files
//! are open ([`crate::locks`]), so no lease is kept. Engines on other nodes see only leases. A process that inherits a
//! file takes its own lease only at the first use of the file. Until then, the process that closed the file keeps its
//! lease. It ends unused leases when it closes another shared file, and when it forks, execs or ends.
use crate::limits::LEFT_OPEN_MAX;
use crate::locks;
use crate::mounted;
use crate::open_file::Content;
use esker::types::ObjectId;
use esker_os::ForkLock;
use std::collections::VecDeque;
use std::sync::Arc;

/// A file that is left open.
pub(crate) type LeftOpen = (ObjectId, Arc<Content>);

/// Files whose leases this process keeps. A forked child starts without any: the leases are its parent's.
static LEFT: ForkLock<VecDeque<LeftOpen>> = ForkLock::new();

/// True if an engine on another node needs leases to know which files are in use. False for a pool on this node, whose
/// lock files show that, and while the file system is not open.
pub(crate) fn is_needed() -> bool {
    mounted::if_open().is_some_and(|fs| fs.is_asynchronous().unwrap_or(false))
}

/// Keeps the lease of a file that other processes have open. Above `LEFT_OPEN_MAX` files, ends the oldest lease. Does
/// nothing if leases are not needed ([`is_needed`]).
pub(crate) fn keep(oid: ObjectId, content: Arc<Content>) {
    if !is_needed() {
        return;
    }
    end_unused_leases();
    let mut left = LEFT.lock();
    left.push_back((oid, content));
    let surplus = if left.len() > LEFT_OPEN_MAX { left.pop_front() } else { None };
    // Dropping `surplus` ends its lease. That takes a while, so the lock is released first.
    drop(left);
    drop(surplus);
}

/// Removes all files from the list, after their unused leases were ended. Returns the others, whose leases a keeper
/// continues ([`crate::keeper`]). Called when the process ends or starts another program.
pub(crate) fn take() -> Vec<LeftOpen> {
    end_unused_leases();
    std::mem::take(&mut *LEFT.lock()).into()
}

/// Ends the leases of files that no other process has open any more.
pub(crate) fn end_unused_leases() {
    let left = std::mem::take(&mut *LEFT.lock());
    if left.is_empty() {
        return;
    }
    let (used, unused): (VecDeque<LeftOpen>, VecDeque<LeftOpen>) =
        left.into_iter().partition(|(oid, _)| locks::is_used(*oid));
    LEFT.lock().extend(used);
    drop(unused);
}
