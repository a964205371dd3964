//! Leases of files that were closed a moment ago, where replies take a while.
//!
//! Who closes a file would wait for the end of its lease, and who opens it again for a new one. So leases are kept for a moment
//! ([`esker_os::LATER`]) and end several at a time. Until then others find the file in use: if they remove it, this process
//! frees its content, as it does for a file that was removed while it was open.
use crate::inode::Inode;
use crate::limits::CLOSING_MAX;
use crate::mount::{Dfs, Mounted};
use crate::orphans;
use esker::types::{ObjectId, Result};
use esker::{Lease, Wait};
use esker_os::{ForkLock, PerProcess, later};
use std::convert::Infallible;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

/// Leases that end in a moment. A forked child begins with none.
pub(crate) struct Closing {
    kept: ForkLock<Vec<(Lease, Inode)>>,
    /// Files whose content is to be freed. Locked until they are, so that who comes meanwhile waits for it.
    lost: PerProcess<Mutex<Vec<Inode>>>,
}

impl Default for Closing {
    fn default() -> Self {
        Self { kept: ForkLock::default(), lost: PerProcess::empty() }
    }
}

impl Closing {
    /// The lease of a file that was closed a moment ago.
    pub(crate) fn take(&self, oid: ObjectId) -> Option<Lease> {
        let mut kept = self.kept.lock();
        let at = kept.iter().position(|(lease, _)| lease.oid() == oid)?;
        Some(kept.swap_remove(at).0)
    }

    /// Returns how many are kept now.
    fn keep(&self, lease: Lease, inode: Inode) -> usize {
        let mut kept = self.kept.lock();
        kept.push((lease, inode));
        kept.len()
    }

    fn keeps(&self, oid: ObjectId) -> bool {
        self.kept.lock().iter().any(|(lease, _)| lease.oid() == oid)
    }

    /// Ends all leases, and frees what nobody else has open. Without a file system, whoever unmounted it does that.
    fn end_all<M: Deref<Target = Mounted>>(&self, fs: impl FnOnce() -> Option<M>) -> Result<()> {
        let Ok(lost) = self.lost.get_or_make(|| Ok::<_, Infallible>(Mutex::default()));
        let mut lost = lost.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = std::mem::take(&mut *self.kept.lock());
        let (leases, inodes): (Vec<_>, Vec<_>) = kept.into_iter().unzip();
        // An error is nobody's concern: leases end with their connection.
        let is_last = Lease::release_each(leases).wait().unwrap_or_default();
        lost.extend(inodes.into_iter().zip(is_last).filter(|(_, is_last)| *is_last).map(|it| it.0));
        if lost.is_empty() {
            return Ok(());
        }
        let Some(fs) = fs() else { return Ok(()) };
        let freed =
            std::iter::from_fn(|| lost.pop()).try_for_each(|inode| orphans::bury(&fs, &inode));
        // If the file system was unmounted meanwhile, it ends here, and ends what was closed since.
        drop(lost);
        drop(fs);
        freed
    }
}

impl Dfs {
    /// Ends the lease of a file that was closed, in a moment.
    pub(crate) fn end_later(&self, lease: Lease, inode: Inode) -> Result<()> {
        let closing = &self.mounted().closing;
        match closing.keep(lease, inode) {
            CLOSING_MAX.. => return self.mounted().end_leases(),
            1 => {}
            _ => return Ok(()),
        }
        // Whoever unmounts the file system meanwhile does not find it in use.
        let (closing, mounted) = (Arc::clone(closing), self.downgrade());
        later(move || {
            let _ = closing.end_all(|| mounted.upgrade());
        });
        Ok(())
    }
}

impl Mounted {
    /// Ends the leases of all files that were closed, and frees what was removed meanwhile.
    pub(crate) fn end_leases(&self) -> Result<()> {
        self.closing.end_all(|| Some(self))
    }

    /// Ends the lease of this file, if it was closed.
    pub(crate) fn end_lease(&self, oid: ObjectId) -> Result<()> {
        if self.closing.keeps(oid) { self.end_leases() } else { Ok(()) }
    }
}
