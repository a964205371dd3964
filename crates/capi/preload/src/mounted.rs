//! The file system at the mount point, opened on first use.
use crate::answer::{Answer, refuse};
use crate::{config, internal, paths, raw, report, store, threads};
use arc_swap::ArcSwapOption;
use esker::types::{Error, ErrorKind};
use esker_preload_interface::{Dfs, Mount, Table};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

static MOUNTED: ArcSwapOption<Dfs> = ArcSwapOption::const_empty();
static OPENING: Mutex<()> = Mutex::new(());
static REPORTED: AtomicBool = AtomicBool::new(false);

/// The file system. The first call opens it. Children share the file system of their parent, in which the store opens
/// its files again.
///
/// # Errors
/// `ENXIO` if it cannot be opened. The reason is printed once to standard error.
pub(crate) fn get() -> Answer<Arc<Dfs>> {
    match MOUNTED.load_full() {
        Some(fs) => Ok(fs),
        None => open(),
    }
}

/// The file system, if it is open.
pub(crate) fn if_open() -> Option<Arc<Dfs>> {
    MOUNTED.load_full()
}

/// True if the mount point covers files that the store itself opens: the pool, the run directory or lock files. The
/// store then sees the directories of the system there. Called inside the store, for a path below the mount point.
pub(crate) fn is_above_store() -> bool {
    static FOUND: AtomicBool = AtomicBool::new(false);
    // A path that is opened before the file system is ready is one of the pool.
    if MOUNTED.load().is_none() {
        FOUND.store(true, Ordering::Relaxed);
    }
    let config = config::get();
    let is_below = |dir: &Vec<u8>| paths::below_mount(dir).is_some();
    FOUND.load(Ordering::Relaxed) || [&config.run_dir, &config.locks].into_iter().any(is_below)
}

/// Loads the store and mounts the container, once for the process.
#[cold]
fn open() -> Answer<Arc<Dfs>> {
    threads::watch();
    internal::choose_base();
    // Before the lock is taken: see `store::load`.
    let store = store::load().map_err(|text| Error::new(ErrorKind::Incompatible, text));
    let _one = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(fs) = MOUNTED.load_full() {
        return Ok(fs);
    }
    match store.and_then(mount) {
        Ok(fs) => {
            MOUNTED.store(Some(fs.clone()));
            Ok(fs)
        }
        Err(error) => {
            explain(&error);
            refuse(libc::ENXIO)
        }
    }
}

/// Mounts the container that the environment names.
fn mount(store: &Table) -> Result<Arc<Dfs>, Error> {
    let config = config::get();
    let (pool, container, path) = (&config.pool, &config.container, &config.mount);
    (store.mount)(&Mount { pool, container, path, read_only: config.read_only }).map(Arc::new)
}

/// Reports why the file system cannot be opened: in the report, and once on standard error.
fn explain(error: &Error) {
    report::report_error(error);
    if !REPORTED.swap(true, Ordering::Relaxed) {
        let mount = String::from_utf8_lossy(&config::get().mount);
        let text = format!("esker: {mount} cannot be opened: {}\n", error.message());
        let _ = raw::write(libc::STDERR_FILENO, text.as_bytes());
    }
}
