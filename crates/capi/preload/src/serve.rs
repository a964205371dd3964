//! Decides for every call whether the store or the C library answers it.
use crate::answer::{Answer, Fail, Returned, fail, to_c};
use crate::edge::Text;
use crate::open_file::OpenFile;
use crate::paths::{self, MountPath};
use crate::{descriptors, internal, process, report, threads};
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

/// Answers a call on a path below the descriptor `dir`: `ours` if it is in the mount point, else `theirs`, with another
/// path if a symbolic link or `..` leads out.
#[inline]
pub(crate) fn at<T: Returned>(
    dir: c_int,
    path: Text,
    ours: impl FnOnce(MountPath<'_>) -> Answer<T>,
    theirs: impl FnOnce(c_int, Text) -> T,
) -> T {
    match path.bytes() {
        Some(bytes) if paths::is_ours(dir, bytes) => {
            settle(serve(|| ours(MountPath::new(dir, bytes)?)), theirs)
        }
        _ => theirs(dir, path),
    }
}

/// Returns an answer to C, or continues outside.
pub(crate) fn settle<T: Returned>(answer: Answer<T>, theirs: impl FnOnce(c_int, Text) -> T) -> T {
    match answer {
        Err(Fail::Outside(host)) => match CString::new(host) {
            Ok(host) => theirs(libc::AT_FDCWD, Text::of(&host)),
            Err(_) => fail(libc::ENOENT),
        },
        answer => to_c(answer),
    }
}

/// Runs a call that the store answers.
pub(crate) fn serve<T>(work: impl FnOnce() -> Answer<T>) -> Answer<T> {
    report::served();
    process::used();
    let answer = threads::inside(work);
    if process::is_ending() {
        process::before_end();
    }
    answer
}
