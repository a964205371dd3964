//! The marker of a run in which no process has passed an open file or a working directory of the mount point to another
//! process. `esker run` creates it in the directory of the run. While it exists, a starting program need not search
//! `/proc` for inherited files. Without the marker, each program searches `/proc`.
use crate::{config, raw};
use esker_preload_interface::UNSHARED;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};

static REMOVED: AtomicBool = AtomicBool::new(false);

/// The path of the marker; `None` if the run has no directory.
pub(crate) fn path(run_dir: &[u8]) -> Option<CString> {
    CString::new([run_dir, b"/", UNSHARED.as_bytes()].concat()).ok().filter(|_| !run_dir.is_empty())
}

/// True if the marker exists: no process of the run has passed anything to another. Called when the library is loaded.
pub(crate) fn is_certain() -> bool {
    let path = config::get().unshared.as_deref();
    path.is_some_and(|path| raw::find(libc::AT_FDCWD, path).is_ok())
}

/// Removes the marker. Called before another process can inherit anything. Allocates no memory: a signal handler may
/// fork.
pub(crate) fn end() {
    if REMOVED.load(Ordering::Acquire) {
        return;
    }
    if let Some(path) = config::get().unshared.as_deref() {
        raw::unlink(path);
    }
    // Set after the removal: another thread that finds it set may fork at once.
    REMOVED.store(true, Ordering::Release);
}
