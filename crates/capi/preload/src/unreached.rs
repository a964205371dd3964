//! Programs that this library does not reach. Standard error and the report name those that start without it.
use crate::answer::Fail;
use crate::{config, raw, report};
use dfs::PreloadObstacle;
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Warns if the loader will not load this library into the program at this path. Called inside the store.
pub(crate) fn warn(path: &CStr) {
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    let Some(why) = PreloadObstacle::find(path) else { return };
    let mount = String::from_utf8_lossy(&config::get().mount);
    let text = format!("{} {}: it cannot see {mount}", path.display(), why.cause());
    report::note(&text);
    if is_first(path) {
        let _ = raw::write(libc::STDERR_FILENO, format!("esker: warning: {text}\n").as_bytes());
    }
}

/// Searches `PATH` for a program, and warns if the loader will not load this library into it. Returns its path.
pub(crate) fn warn_found(name: &CStr) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let name = OsStr::from_bytes(name.to_bytes());
    let found =
        std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file());
    if let Some(Ok(path)) = found.as_ref().map(|path| CString::new(path.as_os_str().as_bytes())) {
        warn(&path);
    }
    found
}

/// True once for each program of a run: a marker file in the run's directory shows that it was reported.
fn is_first(path: &Path) -> bool {
    let (Ok(file), run_dir) = (path.metadata(), &config::get().run_dir) else { return true };
    let mark = format!("/warned.{}.{}", file.dev(), file.ino());
    let Ok(mark) = CString::new([run_dir.as_slice(), mark.as_bytes()].concat()) else {
        return true;
    };
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    match raw::open(&mark, flags, 0o600) {
        Ok(fd) => raw::close(fd),
        Err(error) => return !matches!(error, Fail::Errno(libc::EEXIST)),
    }
    true
}
