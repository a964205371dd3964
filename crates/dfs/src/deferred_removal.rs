//! Deferred removal, in a relaxed file system: the content of a removed file is freed a moment later, together with
//! that of others, by one request to each node. Until then, processes that have the file open may not find its
//! attributes.
use crate::entry::FullEntry;
use crate::limits::DEFERRED_FAILURES_MAX;
use esker::types::Result;
use esker_os::{ForkLock, PerProcess};
use std::sync::{Mutex, PoisonError};

/// Removed files whose content is to be freed. A forked child starts without any.
pub(crate) struct DeferredRemovals {
    files: ForkLock<Files>,
    /// Locked until the content is freed, so that a concurrent caller waits for it.
    freeing: PerProcess<Mutex<()>>,
}

#[derive(Default)]
struct Files {
    entries: Vec<FullEntry>,
    /// Number of entries added since the last attempt to free them.
    added: usize,
    /// A thread is scheduled that frees them.
    is_scheduled: bool,
}

/// State after a file was added.
pub(crate) struct Added {
    /// Number of files added since the last attempt to free their content.
    pub(crate) count: usize,
    /// True for the first file since the last call of [`DeferredRemovals::free_all`]: the caller schedules the next
    /// call.
    pub(crate) is_to_schedule: bool,
}

impl Default for DeferredRemovals {
    fn default() -> Self {
        Self { files: ForkLock::default(), freeing: PerProcess::empty() }
    }
}

impl DeferredRemovals {
    /// Adds a file whose entry was removed: its content is removed later.
    pub(crate) fn add(&self, entry: FullEntry) -> Added {
        let mut files = self.files.lock();
        files.entries.push(entry);
        files.added += 1;
        let is_to_schedule = !std::mem::replace(&mut files.is_scheduled, true);
        Added { count: files.added, is_to_schedule }
    }

    /// Frees the content of all files by `free`. If that fails, one file after the other is freed until
    /// [`DEFERRED_FAILURES_MAX`] have failed: a node that does not answer may have them all. The others are kept for the
    /// next call, which begins with those that were not tried.
    pub(crate) fn free_all(&self, free: impl Fn(&[FullEntry]) -> Result<()>) -> Result<()> {
        let freeing = self.freeing.get_or_create(Mutex::default);
        let _freeing = freeing.lock().unwrap_or_else(PoisonError::into_inner);
        let Files { entries, .. } = std::mem::take(&mut *self.files.lock());
        if entries.is_empty() || free(&entries).is_ok() {
            return Ok(());
        }
        let (mut failed, mut result) = (Vec::new(), Ok(()));
        let mut entries = entries.into_iter();
        for entry in entries.by_ref() {
            if let Err(error) = free(std::slice::from_ref(&entry)) {
                failed.push(entry);
                result = result.and(Err(error));
            }
            if failed.len() == DEFERRED_FAILURES_MAX {
                break;
            }
        }
        self.files.lock().entries.splice(..0, entries.chain(failed));
        result
    }
}
