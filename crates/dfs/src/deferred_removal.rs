//! Deferred removal, in a relaxed file system: the content of a removed file is freed a moment later, together with
//! that of others, by one request to each node. Until then, processes that have the file open may not find its
//! attributes.
use crate::entry::FullEntry;
use esker::types::Result;
use esker_os::{ForkLock, PerProcess};
use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};

/// Removed files whose content is to be freed. A forked child starts without any.
pub(crate) struct DeferredRemovals {
    entries: ForkLock<Vec<FullEntry>>,
    /// Locked until the content is freed, so that a concurrent caller waits for it.
    freeing: PerProcess<Mutex<()>>,
}

impl Default for DeferredRemovals {
    fn default() -> Self {
        Self { entries: ForkLock::default(), freeing: PerProcess::empty() }
    }
}

impl DeferredRemovals {
    /// Adds a removed file, and returns the number of files.
    pub(crate) fn add(&self, entry: FullEntry) -> usize {
        let mut entries = self.entries.lock();
        entries.push(entry);
        entries.len()
    }

    /// Frees the content of all files by `free`.
    pub(crate) fn free_all(&self, free: impl FnOnce(&[FullEntry]) -> Result<()>) -> Result<()> {
        let Ok(freeing) = self.freeing.get_or_make(|| Ok::<_, Infallible>(Mutex::default()));
        let _freeing = freeing.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = std::mem::take(&mut *self.entries.lock());
        if entries.is_empty() { Ok(()) } else { free(&entries) }
    }
}
