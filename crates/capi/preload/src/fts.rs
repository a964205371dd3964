//! `fts` of the C library walks trees by system calls of its own, which see neither the mount point nor a working
//! directory in it. So a walk of the mount point fails, rather than find a part of it or nothing.
use crate::answer::{Answer, refuse, to_c};
use crate::edge::{Texts, export};
use crate::serve::serve;
use crate::{cwd, paths, report};
use std::ffi::{c_int, c_void};

/// The walk does not change the working directory.
const FTS_NOCHDIR: c_int = 4;

/// Opens a walk of trees that are all outside of the mount point.
fn open(roots: Texts, options: c_int, theirs: impl Fn(c_int) -> *mut c_void) -> *mut c_void {
    let is_ours = |root: &[u8]| paths::is_ours(libc::AT_FDCWD, root);
    if roots.list().iter().any(|root| is_ours(root.to_bytes())) {
        return to_c(serve(refuse_walk));
    }
    // The C library could not change back to a directory of ours.
    theirs(if cwd::is_ours() { options | FTS_NOCHDIR } else { options })
}

/// Refuses a walk, and says why.
#[cold]
fn refuse_walk() -> Answer<*mut c_void> {
    report::warn_once(
        "fts of the C library, which this program walks directories with, does not see the mount point: run the program \
         on a mount (`esker mount`)",
    );
    refuse(libc::EOPNOTSUPP)
}

export! {
    fn fts_open(roots: Texts, options: c_int, compare: usize) -> *mut c_void | next {
        open(roots, options, |options| next(roots, options, compare))
    }

    fn fts64_open(roots: Texts, options: c_int, compare: usize) -> *mut c_void | next {
        open(roots, options, |options| next(roots, options, compare))
    }
}
