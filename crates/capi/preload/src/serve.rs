//! Decides for every call whether the store or the C library answers it.
use crate::answer::{Answer, Fail, Returned, fail, refuse, to_c};
use crate::edge::Text;
use crate::open_file::OpenFile;
use crate::paths::{self, MountPath};
use crate::{descriptors, internal, mounted, open, process, report, threads};
use dfs::Follow;
use esker_preload_interface::Node;
use std::ffi::{CString, c_int};

/// Answers a call on a descriptor: `ours` for a file of the mount point, else `theirs`.
#[inline]
pub(crate) fn on<T: Returned>(
    fd: c_int,
    ours: impl FnOnce(&OpenFile) -> Answer<T>,
    theirs: impl FnOnce() -> T,
) -> T {
    if descriptors::is_ours(fd) {
        return to_c(serve(|| ours(&*descriptors::get(fd)?)));
    }
    if internal::has(fd) { fail(libc::EBADF) } else { theirs() }
}

/// Answers a call on a path below the descriptor `dir`: `ours` if it is in the mount point, else `theirs`. If a
/// symbolic link or `..` leads out, `theirs` gets the path on the host.
#[inline]
pub(crate) fn at<T: Returned>(
    dir: c_int,
    path: Text,
    ours: impl FnOnce(MountPath<'_>) -> Answer<T>,
    theirs: impl FnOnce(c_int, Text) -> T,
) -> T {
    match path.bytes() {
        Some(bytes) if paths::is_ours(dir, bytes) => {
            return_or_forward(serve(|| ours(MountPath::new(dir, bytes)?)), theirs)
        }
        _ => theirs(dir, path),
    }
}

/// Answers a call on the file to which a path leads, through links: `ours` gets its node if it is in the mount point. The
/// path may also be that of a descriptor, such as `/proc/self/fd/3`.
pub(crate) fn at_node<T: Returned>(
    path: Text,
    ours: impl Fn(Node) -> Answer<T>,
    theirs: impl FnOnce(Text) -> T,
) -> T {
    match open::descriptor(path) {
        Some(fd) => on(fd, |file| ours(file.node()?), || theirs(path)),
        None => {
            let at_path = |path: MountPath<'_>| path.with_node(Follow::All, &ours);
            at(libc::AT_FDCWD, path, at_path, |_, path| theirs(path))
        }
    }
}

/// Returns an answer to C. If the path leads out of the mount point, calls `theirs` with the path on the host instead.
pub(crate) fn return_or_forward<T: Returned>(
    answer: Answer<T>,
    theirs: impl FnOnce(c_int, Text) -> T,
) -> T {
    match answer {
        Err(Fail::Outside(host)) => match CString::new(host) {
            Ok(host) => theirs(libc::AT_FDCWD, Text::from_c_str(&host)),
            Err(_) => fail(libc::ENOENT),
        },
        answer => to_c(answer),
    }
}

/// An argument that may name a file of the mount point.
pub(crate) trait NamesFile {
    /// True if the argument names a file of the mount point.
    fn is_ours(&self) -> bool;
}

impl NamesFile for c_int {
    fn is_ours(&self) -> bool {
        descriptors::is_ours(*self)
    }
}

/// Checks absolute paths only: the store opens its own files by paths relative to its own directories.
impl NamesFile for Text {
    fn is_ours(&self) -> bool {
        let path = self.bytes().unwrap_or_default();
        path.starts_with(b"/") && paths::is_ours(libc::AT_FDCWD, path) && !mounted::is_above_store()
    }
}

/// Errno of a call by a signal handler that interrupted another call: it would wait for the interrupted call.
const INTERRUPTS: c_int = libc::EDEADLK;

/// Fails a call of a signal handler that interrupted a call on files of the mount point.
#[cold]
pub(crate) fn refuse_interrupting_call<T: Returned>() -> T {
    fail(INTERRUPTS)
}

/// Runs a call that the store answers, and counts it. Fails with `EDEADLK` if the thread is inside the store already:
/// then a signal handler makes the call.
pub(crate) fn serve<T>(work: impl FnOnce() -> Answer<T>) -> Answer<T> {
    if threads::is_inside() {
        return refuse(INTERRUPTS);
    }
    report::served();
    process::used();
    let answer = threads::inside(work);
    // The exit handler has run before this call, so its changes are stored now.
    if process::is_ending() {
        process::before_end();
    }
    answer
}
