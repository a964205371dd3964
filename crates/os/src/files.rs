//! Plain files and their file systems.
use esker_types::{Error, Result};
use rustix::fs::{
    Access, AtFlags, CWD, FallocateFlags, OFlags, StatVfsMountFlags, StatxFlags, accessat,
    fallocate, fstatvfs, statx,
};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a file that is not a symbolic link; for writing too if `write` is set.
///
/// # Errors
/// Errors of the file system; `ELOOP` for a symbolic link.
pub fn open_plain(path: &Path, write: bool) -> io::Result<File> {
    // NONBLOCK: opening a pipe must not wait for its other end.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    File::options().read(true).write(write).custom_flags(flags.bits().cast_signed()).open(path)
}

/// Makes a network file system look up a path again, if it remembers a file that another node has replaced or removed.
pub fn look_up_again(path: &Path) {
    // The lookup is all that is wanted. If it fails, so does the next use of the path.
    let _ = statx(CWD, path, AtFlags::STATX_FORCE_SYNC, StatxFlags::INO);
}

/// Fails if this process may not create and remove names in a directory.
///
/// # Errors
/// Errors of the file system.
pub fn check_may_change(directory: &Path) -> io::Result<()> {
    let names = Access::WRITE_OK | Access::EXEC_OK;
    Ok(accessat(CWD, directory, names, AtFlags::EACCESS)?)
}

/// Allocates space for a range of a file, whose length does not change. Does nothing on file systems that cannot do so.
///
/// # Errors
/// `StorageFull` and other errors of the file system.
pub fn reserve(file: &File, from: u64, len: u64) -> io::Result<()> {
    if len == 0 {
        return Ok(());
    }
    loop {
        match fallocate(file, FallocateFlags::KEEP_SIZE, from, len) {
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
            outcome => return Ok(outcome?),
        }
    }
}

/// Free and total bytes of a directory's file system, as available to its user.
///
/// # Errors
/// Errors of the file system.
pub fn space_of(directory: &Path) -> Result<(u64, u64)> {
    mounted(directory).map(|info| (info.f_bavail * info.f_frsize, info.f_blocks * info.f_frsize))
}

/// True if a directory's file system is mounted read-only for this process.
///
/// # Errors
/// Errors of the file system.
pub fn is_read_only(directory: &Path) -> Result<bool> {
    mounted(directory).map(|info| info.f_flag.contains(StatVfsMountFlags::RDONLY))
}

fn mounted(directory: &Path) -> Result<rustix::fs::StatVfs> {
    let info = File::open(directory).and_then(|file| Ok(fstatvfs(file)?));
    info.map_err(|error| Error::io(directory.display(), &error))
}
