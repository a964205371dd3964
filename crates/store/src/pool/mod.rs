//! Pools: a directory with a superblock, a control file and targets.
mod create;
mod destroy;
mod layout;
mod setup;
mod vouch;

pub use create::PoolSpec;
pub(crate) use destroy::in_use;
#[cfg(test)]
pub(crate) use setup::rebuild;
pub(crate) use setup::{Purpose, declare_sound, refuse_damaged};

use crate::catalog::Uses;
use crate::commit::reserved_pages;
use crate::control::{self, Control};
use crate::holds::Holds;
use crate::io::folder::Folder;
use crate::io::index::read_only;
use crate::io::sys;
use crate::superblock::Superblock;
use crate::target::Target;
use arc_swap::{ArcSwap, Guard};
use esker_os::{self as fork, ForkLock};
use esker_types::info::{OpenMode, PoolInfo, Space};
use esker_types::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};

/// An open pool. Cheap to share; survives fork: a child opens the pool anew with its first operation.
pub struct Pool {
    path: PathBuf,
    current: ArcSwap<State>,
}

/// A pool as this very process has it open.
pub struct State {
    path: PathBuf,
    /// What it is made of.
    pub superblock: Superblock,
    pub(crate) control: Arc<Control>,
    /// Its shards.
    pub targets: Vec<Arc<Target>>,
    pub(crate) uses: Mutex<Uses>,
    /// Held over a commit of several targets.
    pub(crate) coordinating: Mutex<()>,
    handles: Mutex<Handles>,
    pub(crate) holds: Holds,
    generation: u64,
    /// What it noted of the indexes when it vouched for them last.
    stamped: AtomicU64,
    /// Dropped last.
    closed: Closed,
}

/// Handles of this process on the pool.
#[derive(Default)]
struct Handles {
    shared: u32,
    exclusive: bool,
}

/// A pool of this process: the state while it is open, and whether it is closed for good. What closes
/// must be gone before it is opened again, for closing a file drops all of a process's locks on it.
struct Entry {
    state: Weak<State>,
    closed: Arc<AtomicBool>,
}

type Registry = HashMap<(u64, u64), Entry>;

/// What a pool directory is, by whatever path it is reached.
fn identity(path: &Path) -> Result<(u64, u64)> {
    let failed = |error| Error::io(format_args!("looking at {}", path.display()), &error);
    let info = path.metadata().map_err(failed)?;
    Ok((info.dev(), info.ino()))
}

/// Tells that everything declared before it has been dropped.
struct Closed(Arc<AtomicBool>);

impl Drop for Closed {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Pools this process has open, by device and inode of the directory: an index must not be opened twice.
static OPEN: ForkLock<Registry> = ForkLock::new();

static AT_EXIT: Once = Once::new();

extern "C" fn ending() {
    vouch_for_all();
}

/// Leaves the pools that this process still has open so that the next one to open them need not look at their indexes:
/// for the end of a program that closes nothing.
pub fn vouch_for_all() {
    // Whoever opens a pool at this very time vouches for nothing yet.
    let Some(open) = OPEN.try_lock() else { return };
    let states: Vec<_> = open.values().filter_map(|entry| entry.state.upgrade()).collect();
    drop(open);
    states.iter().for_each(|state| state.vouch());
}

impl Pool {
    /// Opens the pool at `path`.
    ///
    /// # Errors
    /// `NotFound` where there is none; `Incompatible` for another format; `Corrupt` where the machine
    /// stopped under a pool that does not survive it: run `esker pool check`.
    pub fn open(path: &Path) -> Result<Self> {
        let path = path.canonicalize().map_err(|error| {
            Error::new(ErrorKind::NotFound, format!("no pool at {}: {error}", path.display()))
        })?;
        let state = State::shared(&path, Purpose::Use)?;
        Ok(Self { path, current: ArcSwap::new(state) })
    }

    /// The pool as this process has it open.
    pub fn state(&self) -> Result<Guard<Arc<State>>> {
        let state = self.current.load();
        if state.generation == fork::generation() {
            return Ok(state);
        }
        let fresh = State::shared(&self.path, Purpose::Use)?;
        let replaced = self.current.swap(fresh);
        if replaced.generation != fork::generation() {
            // The parent's state is not this process's to close.
            std::mem::forget(replaced);
        }
        Ok(self.current.load())
    }

    /// The pool as this very process has it open, if it does: a forked child has not until its first
    /// operation.
    pub fn state_if_open(&self) -> Option<Guard<Arc<State>>> {
        Some(self.current.load()).filter(|state| state.generation == fork::generation())
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Pool {
    /// A forked child must not close what its parent opened.
    fn drop(&mut self) {
        if self.state_if_open().is_none() {
            std::mem::forget(self.current.load_full());
        }
    }
}

impl State {
    /// The state of the pool at `path` (canonical), opened if this process has not done so.
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
            while !entry.closed.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        }
        let state = Arc::new(Self::open(path, purpose)?);
        for target in &state.targets {
            let _ = target.pool.set(Arc::downgrade(&state));
        }
        let closed = Arc::clone(&state.closed.0);
        open.insert(identity, Entry { state: Arc::downgrade(&state), closed });
        drop(open);
        AT_EXIT.call_once(|| sys::at_exit(ending));
        if purpose == Purpose::Use && !state.control.read_only {
            // Only space depends on it, and the next one to open the pool tries again.
            let _ = crate::doomed::empty_all(&state);
        }
        Ok(state)
    }

    /// True where this process has the pool at `path` (canonical) open.
    pub(crate) fn is_open_here(path: &Path) -> bool {
        let Ok(identity) = identity(path) else { return false };
        OPEN.lock().get(&identity).is_some_and(|entry| entry.state.strong_count() > 0)
    }

    fn open(path: &Path, purpose: Purpose) -> Result<Self> {
        let folder = Folder::open(path)?;
        let superblock = Superblock::read_in(&folder)?;
        let control = Arc::new(Control::open(&folder, &superblock)?);
        // A note left behind would be taken for another copy of this code, once its place is mapped again.
        let targets = setup::set_up(&folder, &superblock, &control, purpose)
            .inspect_err(|_| crate::copies::leave(&control))?;
        Ok(Self {
            path: path.to_owned(),
            superblock,
            control,
            targets,
            uses: Mutex::default(),
            coordinating: Mutex::default(),
            handles: Mutex::default(),
            holds: Holds::default(),
            generation: fork::generation(),
            stamped: AtomicU64::new(0),
            closed: Closed(Arc::default()),
        })
    }

    fn vouch(&self) {
        vouch::end(&self.path, &self.superblock, &self.control, &self.stamped);
    }

    /// Takes a handle on the pool.
    ///
    /// # Errors
    /// `Busy` where exclusive use stands against it.
    pub fn connect(&self, mode: OpenMode) -> Result<()> {
        if self.control.read_only && mode != OpenMode::ReadOnly {
            return Err(read_only(&self.path));
        }
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        let exclusive = mode == OpenMode::Exclusive;
        let blocked = handles.exclusive || (exclusive && handles.shared > 0);
        if blocked || (handles.shared == 0 && !self.control.use_pool(Some(mode))?) {
            let message = format!("pool {} is in use, or in exclusive use", self.superblock.label);
            return Err(Error::new(ErrorKind::Busy, message));
        }
        handles.shared += 1;
        handles.exclusive = exclusive;
        Ok(())
    }

    /// Gives a handle back.
    pub fn disconnect(&self) -> Result<()> {
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles.shared = handles.shared.saturating_sub(1);
        if handles.shared == 0 {
            handles.exclusive = false;
            self.control.use_pool(None)?;
        }
        Ok(())
    }

    /// Name, space and state of the pool.
    pub fn info(&self) -> Result<PoolInfo> {
        Ok(PoolInfo {
            uuid: self.superblock.uuid,
            label: self.superblock.label.clone(),
            url: format!("esker:{}", self.path.display()),
            targets: self.targets.iter().map(|target| self.space(target)).collect::<Result<_>>()?,
            medium: self.superblock.medium,
            durability: self.superblock.durability,
        })
    }

    fn space(&self, target: &Target) -> Result<Space> {
        let txn = target.index.read()?;
        let (used, total) = target.pages_counted(&txn)?;
        let bytes = txn.pages()?.bytes;
        Ok(Space {
            data_total: target.data_bytes(),
            data_free: target.free_data_bytes()?,
            index_total: total * bytes,
            index_free: total.saturating_sub(used + reserved_pages(total)) * bytes,
            is_shared: target.lending.is_some(),
        })
    }

    /// Reader slots in use on the busiest target, over all processes.
    pub fn readers(&self) -> Result<u32> {
        let counts = self.targets.iter().map(|target| target.index.readers());
        counts.collect::<Result<Vec<_>>>().map(|counts| counts.into_iter().max().unwrap_or(0))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if self.generation != fork::generation() {
            // Opened by an ancestor: closing its files would be harmless, but the words of the control
            // file and LMDB's environments are not this process's to touch.
            std::mem::forget(std::mem::take(&mut self.targets));
            return;
        }
        self.release_all();
        crate::copies::leave(&self.control);
        setup::release_segments(&self.targets);
        self.vouch();
    }
}

/// Bytes of the control file a pool needs.
pub(crate) fn control_bytes(superblock: &Superblock) -> u64 {
    control::file_size(superblock.targets as usize, superblock.segments as usize)
}
