//! Directories by paths.
use super::mount::find;
use crate::abi::{DfsSys, Dir, Ptr, Str};
use crate::dfs::list::{dirent, type_of};
use crate::errno::{self, Errno};
use crate::handles::{self, Entry, kind};
use ::dfs::DirStream;
use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

/// A directory that is being listed.
pub(crate) struct OpenDir(Mutex<Listing>);

struct Listing {
    stream: DirStream,
    /// The latest entry, which C reads until it asks for the next.
    entry: Box<libc::dirent>,
}

/// Opens a directory.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_opendir(
    sys: Ptr<DfsSys>,
    path: Str,
    flags: c_int,
    dir: Ptr<Ptr<Dir>>,
) -> c_int {
    errno::now(|| {
        dir.needed()?;
        let stream = find(sys, path, flags)?.entries()?;
        let listing = Listing { stream, entry: Box::new(dirent(b"")) };
        let handle = handles::open(Entry::Dir(OpenDir(Mutex::new(listing))))?;
        dir.set(handles::as_pointer(handle));
        Ok(())
    })
}

/// Closes a directory.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_closedir(dir: Ptr<Dir>) -> c_int {
    errno::now(|| Ok(handles::close(handles::behind(dir).cookie, &[kind::DIR]).map(drop)?))
}

/// Stores a pointer to the next entry in `entry`; null at the end.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_readdir(
    sys: Ptr<DfsSys>,
    dir: Ptr<Dir>,
    entry: Ptr<Ptr<libc::dirent>>,
) -> c_int {
    errno::now(|| {
        handles::sys(sys)?;
        let open = handles::dir(dir)?;
        let mut listing = open.0.lock().unwrap_or_else(PoisonError::into_inner);
        entry.needed()?.set(Ptr::null());
        let Some(found) = listing.stream.read()? else { return Ok(()) };
        let (d_ino, d_type) = (found.number(), type_of(found.kind()));
        let d_reclen = size_of::<libc::dirent>() as u16;
        let d_off = i64::try_from(listing.stream.tell()).map_err(|_| Errno(libc::EOVERFLOW))?;
        let named = dirent(&found.name);
        *listing.entry = libc::dirent { d_ino, d_off, d_reclen, d_type, ..named };
        // SAFETY: it stays in its box until the directory is closed, and changes here only.
        entry.set(unsafe { Ptr::new(&raw mut *listing.entry) });
        Ok(())
    })
}
