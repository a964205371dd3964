//! Deferred close: over the network, a process releases the leases of closed files a moment later.
//!
//! Otherwise each close would wait for the release of a lease, and each reopen for a new one. So a process holds leases
//! for [`esker_os::LATER`], and releases several in one message. Until then other processes find the file in use. If
//! they remove it, this process frees its content, as for a file that was removed while it was open.
use crate::inode::Inode;
use esker::types::{ObjectId, Result};
use esker::{Lease, Wait};
use esker_os::{ForkLock, PerProcess};
use std::sync::{Mutex, PoisonError};

/// Leases to release later. A forked child starts without any.
pub(crate) struct DeferredCloses {
    leases: ForkLock<Vec<(Lease, Inode)>>,
    /// Removed files whose content is to be freed. Locked until that is done, so that a concurrent caller waits for it.
    removed: PerProcess<Mutex<Vec<Inode>>>,
}

impl Default for DeferredCloses {
    fn default() -> Self {
        Self { leases: ForkLock::default(), removed: PerProcess::empty() }
    }
}

impl DeferredCloses {
    /// Takes the lease of a file that was closed a moment ago, to open it again; `None` if this process holds none.
    pub(crate) fn take(&self, oid: ObjectId) -> Option<Lease> {
        let mut leases = self.leases.lock();
        let at = leases.iter().position(|(lease, _)| lease.oid() == oid)?;
        Some(leases.swap_remove(at).0)
    }

    /// Adds the lease of a closed file, and returns the number of leases held.
    pub(crate) fn add(&self, lease: Lease, inode: Inode) -> usize {
        let mut leases = self.leases.lock();
        leases.push((lease, inode));
        leases.len()
    }

    /// True if this process holds the lease of a closed file with this object.
    pub(crate) fn contains(&self, oid: ObjectId) -> bool {
        self.leases.lock().iter().any(|(lease, _)| lease.oid() == oid)
    }

    /// Releases all leases, and frees the removed files that no other process has open, by `free`. If `fs` returns
    /// `None`, the file system was unmounted, and the thread that unmounted it frees them.
    pub(crate) fn release_all<M>(
        &self,
        fs: impl FnOnce() -> Option<M>,
        free: impl Fn(&M, &Inode) -> Result<()>,
    ) -> Result<()> {
        let removed = self.removed.get_or_create(Mutex::default);
        let mut removed = removed.lock().unwrap_or_else(PoisonError::into_inner);
        let held = std::mem::take(&mut *self.leases.lock());
        let (leases, inodes): (Vec<_>, Vec<_>) = held.into_iter().unzip();
        // True for each removed file whose last lease this was. An error is ignored: leases end with their connection.
        let is_last = Lease::release_each(leases).wait().unwrap_or_default();
        removed
            .extend(inodes.into_iter().zip(is_last).filter(|(_, is_last)| *is_last).map(|it| it.0));
        if removed.is_empty() {
            return Ok(());
        }
        let Some(fs) = fs() else { return Ok(()) };
        let freed = std::iter::from_fn(|| removed.pop()).try_for_each(|inode| free(&fs, &inode));
        // If this is the last reference to the file system, its drop releases the leases of files closed since.
        drop(removed);
        drop(fs);
        freed
    }
}
