//! Locks of uploads: one request at a time completes an upload.
use std::collections::HashSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The locks of all uploads.
#[derive(Default)]
pub(crate) struct UploadLocks {
    /// IDs of the uploads that are locked.
    locked: Mutex<HashSet<String>>,
    unlocked: Condvar,
}

/// The lock of an upload, until it is dropped.
pub(crate) struct UploadLock<'l> {
    locks: &'l UploadLocks,
    id: &'l str,
}

impl UploadLocks {
    /// Waits until no other request of this server has the lock of the upload `id`, and takes it. Blocks the thread.
    pub(crate) fn lock<'l>(&'l self, id: &'l str) -> UploadLock<'l> {
        let waited = self.unlocked.wait_while(self.locked(), |locked| locked.contains(id));
        waited.unwrap_or_else(PoisonError::into_inner).insert(id.to_owned());
        UploadLock { locks: self, id }
    }

    fn locked(&self) -> MutexGuard<'_, HashSet<String>> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UploadLock<'_> {
    fn drop(&mut self) {
        self.locks.locked().remove(self.id);
        self.locks.unlocked.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn one_request_at_a_time_has_the_lock_of_an_upload() {
        let (locks, inside) = (UploadLocks::default(), AtomicU64::new(0));
        let first = locks.lock("a");
        drop(locks.lock("b"));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let _lock = locks.lock("a");
                        assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::Relaxed);
                    }
                });
            }
            drop(first);
        });
        assert!(locks.locked().is_empty());
    }
}
