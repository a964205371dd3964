//! Pools: directories with a superblock, a control file and targets.
mod catalog;
mod create;
mod destroy;
mod huge;
mod inherited;
mod leases;
mod setup;
mod verified;

pub use catalog::ContainerSpec;
pub(crate) use catalog::parse_container;
pub use create::PoolSpec;
pub(crate) use destroy::in_use;
pub use huge::HugePages;
pub use inherited::{PRESENCE, lock_file};
#[cfg(test)]
pub(crate) use setup::rebuild;
pub(crate) use setup::{Purpose, declare_sound, refuse_damaged};

use crate::format::superblock::Superblock;
use crate::io::folder::Folder;
use crate::io::sys;
use crate::io::writing::Writing;
use crate::shard::Target;
use crate::shard::open_pool::{Closed, OpenPool};
use crate::shared::control::{self, Control};
use crate::shared::double_open;
use crate::shared::leases::Leases;
use esker_os::{self as fork, ForkLock, PerProcess, resolve_links};
use esker_types::limits::DECISIONS_MAX;
use esker_types::{Error, ErrorKind, Result, Uuid};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// Callback for the progress of a long operation: the number of finished bytes or entries, and the total.
pub type Progress<'p> = &'p mut dyn FnMut(u64, u64);

/// An open pool, which is cheap to share. It survives a fork: the child opens the pool again with its first operation.
pub struct Pool {
    path: PathBuf,
    uuid: Uuid,
    /// The process that opened it ([`fork::generation`]).
    generation: u64,
    current: PerProcess<Arc<OpenPool>>,
}

/// An open pool of this process, and whether it is completely closed. Before it is opened again it must be closed,
/// since closing a file drops all locks of the process on it.
struct OpenEntry {
    state: Weak<OpenPool>,
    closed: Arc<AtomicBool>,
}

type Registry = HashMap<(u64, u64), OpenEntry>;

/// Device and inode of a pool directory, which are the same for all paths to it.
fn identity(path: &Path) -> Result<(u64, u64)> {
    let failed =
        |error| Error::io(format_args!("reading the metadata of {}", path.display()), &error);
    let info = path.metadata().map_err(failed)?;
    Ok((info.dev(), info.ino()))
}

/// Pools that this process has open, by device and inode of the directory. An index must not be opened twice.
static OPEN: ForkLock<Registry> = ForkLock::new();

/// Whether [`on_exit`] is registered, or the program records its exit itself.
static AT_EXIT: AtomicBool = AtomicBool::new(false);

extern "C" fn on_exit() {
    record_clean_exit();
}

/// Declares that the caller will call [`record_clean_exit`] itself before the process ends. Call this before any pool
/// is opened.
pub fn will_record_exit() {
    AT_EXIT.store(true, Ordering::SeqCst);
}

/// Commits the buffered puts of the pools that this process still has open. Records that their indexes are sound, so
/// that the next process need not verify them. It is for programs that end without closing their pools.
pub fn record_clean_exit() {
    // If another thread is opening a pool right now, that pool has nothing to record yet.
    let Some(open) = OPEN.try_lock() else { return };
    let states: Vec<_> = open.values().filter_map(|entry| entry.state.upgrade()).collect();
    drop(open);
    states.iter().for_each(|state| {
        // In a signal handler, the interrupted operation will never finish, so its lock must not be waited for.
        if !Writing::is_in_progress() {
            flush_all(state);
        }
        state.record_clean();
    });
}

/// Adds the remedy to the error of opening the directory of a pool.
#[cold]
fn closed_directory_error(path: &Path, cause: Error) -> Error {
    match cause.kind() {
        ErrorKind::NoPermission => {
            let remedy =
                "ask its owner for a pool that your group may use (`esker pool create --group`)";
            Error::new(ErrorKind::NoPermission, format!("{}: {remedy}", cause.message()))
        }
        _ if !path.is_dir() => not_a_pool_error(path),
        _ => cause,
    }
}

/// Names the directory if it has no superblock.
#[cold]
fn no_superblock_error(path: &Path, cause: Error) -> Error {
    if cause.kind() == ErrorKind::NotFound { not_a_pool_error(path) } else { cause }
}

#[cold]
fn not_a_pool_error(path: &Path) -> Error {
    let message = format!(
        "{} is not a pool: `esker pool list` lists the pools in the known directories",
        path.display()
    );
    Error::new(ErrorKind::NotFound, message)
}

#[cold]
fn no_pool_error(path: &Path, cause: Error) -> Error {
    if cause.kind() == ErrorKind::NoPermission {
        return cause;
    }
    let message = format!(
        "cannot find a pool at {}: {cause}: `esker pool list` lists the pools in the known directories",
        path.display()
    );
    Error::new(ErrorKind::NotFound, message)
}

impl Pool {
    /// Opens the pool at `path`.
    ///
    /// # Errors
    /// `NotFound` if there is not a pool; `Incompatible` for another format version; `Corrupt` if the machine crashed
    /// while a pool with durability `process` was in use: run `esker pool check`.
    pub fn open(path: &Path) -> Result<Self> {
        let path = resolve_links(path).map_err(|error| no_pool_error(path, error))?;
        let state = OpenPool::shared(&path, Purpose::Use)?;
        let (uuid, generation) = (state.superblock.uuid, fork::generation());
        Ok(Self { path, uuid, generation, current: PerProcess::new(state) })
    }

    /// True in a child made by fork after the pool was opened. The child is not counted as a holder of it.
    #[must_use]
    pub fn is_inherited(&self) -> bool {
        self.generation != fork::generation()
    }

    /// The pool, as this process has it open. A forked child opens it first.
    ///
    /// # Errors
    /// In a forked child: `NoHandle` if another pool is at its path; errors of opening it.
    #[inline]
    pub fn opened(&self) -> Result<&Arc<OpenPool>> {
        self.current.get_or_make(|| self.open_again())
    }

    /// Opens the pool in a forked child. Another pool may be at the path: its containers have the same numbers.
    #[cold]
    fn open_again(&self) -> Result<Arc<OpenPool>> {
        let state = OpenPool::shared(&self.path, Purpose::Use)?;
        if state.superblock.uuid == self.uuid {
            return Ok(state);
        }
        let message = format!(
            "the pool that the parent process opened at {} was destroyed, and another one was created: open that one",
            self.path.display()
        );
        Err(Error::new(ErrorKind::NoHandle, message))
    }

    /// The pool, as this process has it open; `None` in a forked child before its first operation.
    pub fn opened_here(&self) -> Option<&Arc<OpenPool>> {
        self.current.get()
    }

    /// Path of the pool.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl OpenPool {
    /// The pool at `path`, which is canonical. Opens the pool unless this process has it open.
    pub(crate) fn shared(path: &Path, purpose: Purpose) -> Result<Arc<Self>> {
        let identity = identity(path)?;
        let mut open = OPEN.lock();
        if let Some(entry) = open.get(&identity) {
            if let Some(state) = entry.state.upgrade() {
                if purpose == Purpose::Use && !state.control.is_current() {
                    return Err(Error::new(ErrorKind::Busy, "this process is checking the pool"));
                }
                return Ok(state);
            }
            // The last handle is gone, but another thread is still closing the pool.
            while !entry.closed.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        }
        let state = Arc::new(Self::open(path, purpose)?);
        for target in &state.targets {
            // The target is new, so its pool was not set before.
            let _ = target.pool.set(Arc::downgrade(&state));
        }
        let closed = Arc::clone(&state.closed.0);
        open.insert(identity, OpenEntry { state: Arc::downgrade(&state), closed });
        drop(open);
        if !AT_EXIT.swap(true, Ordering::SeqCst) {
            sys::at_exit(on_exit);
        }
        if purpose == Purpose::Use && !state.control.read_only {
            // A failure only delays the release of space, and the next process that opens the pool tries again.
            let _ = crate::commit::destroyed::free_all(&state);
        }
        Ok(state)
    }

    /// True if this process has the pool open at `path`, which is canonical.
    pub(crate) fn is_open_here(path: &Path) -> bool {
        let Ok(identity) = identity(path) else { return false };
        OPEN.lock().get(&identity).is_some_and(|entry| entry.state.strong_count() > 0)
    }

    /// Opens the pool at `path`, which this process does not have open.
    fn open(path: &Path, purpose: Purpose) -> Result<Self> {
        let folder = Folder::open(path).map_err(|error| closed_directory_error(path, error))?;
        let superblock =
            Superblock::read_in(&folder).map_err(|error| no_superblock_error(path, error))?;
        let control = Arc::new(Control::open(&folder, &superblock)?);
        // A remaining record would look like another copy of this library when its address is reused.
        let targets = setup::set_up(&folder, &superblock, &control, purpose)
            .inspect_err(|_| double_open::leave(&control))?;
        Ok(Self {
            path: path.to_owned(),
            superblock,
            control,
            targets,
            uses: Mutex::default(),
            handles: Mutex::default(),
            leases: Leases::default(),
            has_unfreed_space: AtomicBool::new(false),
            decisions_max: AtomicU64::new(DECISIONS_MAX as u64),
            generation: fork::generation(),
            stamped: AtomicU64::new(0),
            closed: Closed::default(),
        })
    }

    /// Records in the control file that the indexes are sound, so that the next process need not verify them.
    fn record_clean(&self) {
        verified::end(&self.path, &self.superblock, &self.control, &self.stamped);
    }
}

impl Drop for OpenPool {
    fn drop(&mut self) {
        if self.generation != fork::generation() {
            // An ancestor opened the pool. This process must not use its control file and LMDB environments.
            std::mem::forget(std::mem::take(&mut self.targets));
            return;
        }
        self.leases.release_all(&self.control);
        flush_all(self);
        double_open::leave(&self.control);
        setup::release_segments(&self.targets);
        self.record_clean();
    }
}

/// Commits the buffered puts before the pool is closed. Puts that cannot be committed remain in the buffer. If another
/// process has the write lock of a target, its puts are left to that process, which may be stopped. A check after a
/// restart of the machine does not rebuild the shared state that a commit needs, so it leaves the puts in the buffer.
fn flush_all(pool: &OpenPool) {
    if pool.control.read_only || !pool.control.is_current() {
        return;
    }
    let may_flush = |target: &&Arc<Target>| {
        !target.is_in_doubt() && !pool.control.is_turn_taken(target.number())
    };
    for target in pool.targets.iter().filter(may_flush) {
        let _ = target.flush();
    }
}

/// Size in bytes of the control file of a pool.
pub(crate) fn control_bytes(superblock: &Superblock) -> u64 {
    control::file_size(superblock)
}
