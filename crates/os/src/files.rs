//! Plain files, and the file systems they are on.
use esker_types::{Error, Result};
use rustix::fs::{OFlags, StatVfsMountFlags, fstatvfs};
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a file whose name is no link; for writing too if `write` is set.
///
/// # Errors
/// What the file system reports; for a link, that there are too many (`ELOOP`).
pub fn open_plain(path: &Path, write: bool) -> io::Result<File> {
    // NONBLOCK: opening a pipe must not wait for its other end.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    File::options().read(true).write(write).custom_flags(flags.bits().cast_signed()).open(path)
}

/// Free and total bytes of the file system a directory is on, as its user may fill it.
///
/// # Errors
/// What the file system reports.
pub fn space_of(directory: &Path) -> Result<(u64, u64)> {
    mounted(directory).map(|info| (info.f_bavail * info.f_frsize, info.f_blocks * info.f_frsize))
}

/// True where the file system a directory is on is mounted read-only, as this process sees it.
///
/// # Errors
/// What the file system reports.
pub fn is_read_only(directory: &Path) -> Result<bool> {
    mounted(directory).map(|info| info.f_flag.contains(StatVfsMountFlags::RDONLY))
}

fn mounted(directory: &Path) -> Result<rustix::fs::StatVfs> {
    let info = File::open(directory).and_then(|file| Ok(fstatvfs(file)?));
    info.map_err(|error| Error::io(directory.display(), &error))
}
