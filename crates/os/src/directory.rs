//! Directories that appear and go as a whole. One that is being made or removed has a hidden name, so a process
//! that is killed half-way leaves nothing that looks complete; the next one to work beside it cleans up.
use crate::random_uuid;
use esker_types::{Error, ErrorKind, Result};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Prefix of the names of directories that are being removed.
const GOING: &str = ".esker-going-";
/// Prefix of the names of directories that are being made.
const COMING: &str = ".esker-coming-";

/// A kind of directory: the file that makes a directory one of this kind, and what to discard from one that was
/// never finished.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Name of the file that goes last. As long as it is there, a directory is known for one of this kind.
    pub marker: &'static str,
    /// Removes what a process that was killed while making the directory left in it.
    pub discard: fn(&Path),
}

/// Refuses to begin what could not be finished: fails where this process may not change what is in a directory. One
/// that does not exist is no obstacle.
///
/// # Errors
/// What the file system reports.
pub fn refuse_unless_writable(directory: &Path) -> Result<()> {
    let access = Access::WRITE_OK | Access::EXEC_OK;
    match accessat(CWD, directory, access, AtFlags::EACCESS).map_err(io::Error::from) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed("removing what is in", directory, &error))
        }
        _ => Ok(()),
    }
}

/// Removes a directory with everything in it: first its name, then its content, the marker last.
///
/// # Errors
/// Where its name cannot be removed, nothing has changed. Where some of its content cannot be removed, the
/// directory is gone from its place and the message names what is left.
pub fn remove(path: &Path, kind: Kind) -> Result<()> {
    let path = &path.canonicalize().map_err(|error| failed("looking at", path, &error))?;
    let parent = path.parent().unwrap_or(path);
    refuse_unless_writable(path)?;
    let going = hidden(parent, GOING)?;
    fs::rename(path, &going).map_err(|error| failed("removing", path, &error))?;
    let removed = remove_all(&going, kind.marker);
    finish_others(parent, kind);
    removed.map_err(|error| {
        let message = format!(
            "pool {} is gone, but some of its files are left: removing {}: {error}",
            path.display(),
            going.display()
        );
        Error::new(ErrorKind::Io, message)
    })
}

/// An unused hidden name in `parent` for a directory that is being made.
///
/// # Errors
/// Where the kernel gives no randomness.
pub fn coming(parent: &Path) -> Result<PathBuf> {
    hidden(parent, COMING)
}

fn hidden(parent: &Path, prefix: &str) -> Result<PathBuf> {
    Ok(parent.join(format!("{prefix}{}", random_uuid()?)))
}

/// True for a directory that is being made or removed.
#[must_use]
pub fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with(GOING) || name.starts_with(COMING)
}

fn remove_all(directory: &Path, marker: &str) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name() == marker {
            continue;
        }
        none_if_gone(match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path()),
            false => fs::remove_file(entry.path()),
        })?;
    }
    none_if_gone(fs::remove_file(directory.join(marker)))?;
    none_if_gone(fs::remove_dir(directory))
}

/// Another process may be removing the same directory.
fn none_if_gone(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })
}

/// Cleans up, as far as possible, what killed processes of this user left in `parent` while they made or removed
/// directories of this kind.
pub fn finish_others(parent: &Path, kind: Kind) {
    let user = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        // The metadata of a link is that of the link, not of a directory.
        let mine = |info: fs::Metadata| info.is_dir() && info.uid() == user;
        if is_unfinished(&entry.path()) && entry.metadata().is_ok_and(mine) {
            finish(&entry.path(), kind);
        }
    }
}

fn finish(directory: &Path, kind: Kind) {
    (kind.discard)(directory);
    if directory.join(kind.marker).exists() {
        let _ = remove_all(directory, kind.marker);
    }
    // The process may have been killed before it made the first file, or after it removed the last.
    let _ = fs::remove_dir(directory);
}

fn failed(doing: &str, path: &Path, error: &io::Error) -> Error {
    Error::io(format_args!("{doing} {}", path.display()), error)
}
