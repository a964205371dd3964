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
    files: ForkLock<Files>,
    /// Locked until the content is freed, so that a concurrent caller waits for it.
    freeing: PerProcess<Mutex<()>>,
}

#[derive(Default)]
struct Files {
    entries: Vec<FullEntry>,
    /// A thread is scheduled that frees them.
    is_scheduled: bool,
}

/// State after a file was added.
pub(crate) struct Added {
    /// Number of files whose content is to be freed.
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
        let is_to_schedule = !std::mem::replace(&mut files.is_scheduled, true);
        Added { count: files.entries.len(), is_to_schedule }
    }

    /// Frees the content of all files by `free`. If that fails, one file after the other is freed, and the others are
    /// kept for the next call.
    pub(crate) fn free_all(&self, free: impl Fn(&[FullEntry]) -> Result<()>) -> Result<()> {
        let Ok(freeing) = self.freeing.get_or_make(|| Ok::<_, Infallible>(Mutex::default()));
        let _freeing = freeing.lock().unwrap_or_else(PoisonError::into_inner);
        let Files { entries, .. } = std::mem::take(&mut *self.files.lock());
        if entries.is_empty() || free(&entries).is_ok() {
            return Ok(());
        }
        let (mut kept, mut result) = (Vec::new(), Ok(()));
        for entry in entries {
            if let Err(error) = free(std::slice::from_ref(&entry)) {
                kept.push(entry);
                result = Err(error);
            }
        }
        self.files.lock().entries.append(&mut kept);
        result
    }
}
