//! Progress and result of a copy.
use super::FAILURES_MAX;
use esker::types::{Error, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// An entry that could not be copied.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The path of the original.
    pub path: Vec<u8>,
    /// The error.
    pub error: Error,
}

/// Counters of a copy, which other threads may read while it runs.
#[derive(Debug, Default)]
pub struct Progress {
    pub(super) files: AtomicU64,
    pub(super) directories: AtomicU64,
    pub(super) links: AtomicU64,
    pub(super) skipped: AtomicU64,
    pub(super) more_names: AtomicU64,
    pub(super) lost_xattrs: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) bytes_found: AtomicU64,
    pub(super) bytes_passed: AtomicU64,
    pub(super) bytes_verified: AtomicU64,
    failed: AtomicU64,
    stopped: AtomicBool,
    failures: Mutex<Vec<Failure>>,
}

/// The result of a copy.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Files copied.
    pub files: u64,
    /// Directories created or completed.
    pub directories: u64,
    /// Symbolic links made.
    pub links: u64,
    /// Files and symbolic links that existed already.
    pub skipped: u64,
    /// Files with more than one name: each name became a file of its own.
    pub more_names: u64,
    /// Extended attributes of the system, not of users, that the other side does not support.
    pub lost_xattrs: u64,
    /// Bytes copied. Holes do not count.
    pub bytes: u64,
    /// Bytes of all files seen so far, holes too.
    pub bytes_found: u64,
    /// Bytes of them that are done: copied, existing, or holes.
    pub bytes_passed: u64,
    /// Bytes that were read back and compared.
    pub bytes_verified: u64,
    /// Entries that could not be copied.
    pub failed: u64,
    /// The first [`FAILURES_MAX`] of them.
    pub failures: Vec<Failure>,
    /// True if the copy stopped early, because nothing more would have succeeded.
    pub stopped: bool,
}

impl Progress {
    /// The current counts, with the failures.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Summary { failures, ..self.counts() }
    }

    /// The current counts.
    #[must_use]
    pub fn counts(&self) -> Summary {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Summary {
            files: load(&self.files),
            directories: load(&self.directories),
            links: load(&self.links),
            skipped: load(&self.skipped),
            more_names: load(&self.more_names),
            lost_xattrs: load(&self.lost_xattrs),
            bytes: load(&self.bytes),
            bytes_found: load(&self.bytes_found),
            bytes_passed: load(&self.bytes_passed),
            bytes_verified: load(&self.bytes_verified),
            failed: load(&self.failed),
            failures: Vec::new(),
            stopped: self.is_stopped(),
        }
    }

    /// Records that an entry could not be copied.
    pub(super) fn fail(&self, path: Vec<u8>, error: Error) {
        // All other entries would fail, too.
        if matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::NoHandle) {
            self.stopped.store(true, Ordering::Relaxed);
        }
        self.failed.fetch_add(1, Ordering::Relaxed);
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() < FAILURES_MAX {
            failures.push(Failure { path, error });
        }
    }

    /// True if the copy has stopped, because nothing more would succeed.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// Adds to a count.
pub(super) fn add(count: &AtomicU64, by: u64) {
    count.fetch_add(by, Ordering::Relaxed);
}
