//! Destroying pools, and finishing what was broken off: a directory that goes, or that is not yet there, has
//! a hidden name beside it, so that whoever is killed half-way is in nobody's way.
use super::State;
use crate::control::{self, PROCESS_BYTES};
use crate::io::folder::{Folder, Use};
use crate::io::{lock, sys};
use crate::pool::Pool;
use crate::superblock::{self, Superblock};
use crate::target;
use esker_types::{Error, ErrorKind, Result, Uuid};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Before the names of directories that go.
const GOING: &str = ".esker-going-";
/// Before the names of directories that are to become pools.
const COMING: &str = ".esker-coming-";

impl Pool {
    /// Removes the pool at `path` with everything in it. Where that is refused, nothing has changed; where it
    /// is broken off, the pool is gone, and the next one to make or destroy a pool beside it finishes it.
    ///
    /// # Errors
    /// `Busy` where a process has it open, unless `force`; `NoPermission`.
    pub fn destroy(path: &Path, force: bool) -> Result<()> {
        let superblock = Superblock::read(path)?;
        if !force && in_use(&Folder::open(path)?, &superblock)? {
            let message = format!("{} is in use: end its users, or use force", path.display());
            return Err(Error::new(ErrorKind::Busy, message));
        }
        for number in 0..superblock.targets {
            let target = path.join(target::name(number));
            refuse_unless_writable(&target.join(target::INDEX))?;
            refuse_unless_writable(&target)?;
        }
        remove_directory(path, superblock::NAME)
    }
}

/// True where any process, this one included, has the pool open.
pub(crate) fn in_use(folder: &Folder, superblock: &Superblock) -> Result<bool> {
    if State::is_open_here(&folder.handle()) {
        return Ok(true);
    }
    let mode = superblock.file_permissions();
    let file = match folder.file(control::NAME, Use::Read, mode) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        other => other?,
    };
    let used = lock::any_held_by_other(&file, PROCESS_BYTES);
    used.map_err(|error| failed("looking at", folder.path(), &error))
}

/// Refuses to begin with what could not be ended; what is missing is in nobody's way.
fn refuse_unless_writable(directory: &Path) -> Result<()> {
    match sys::is_writable(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed("removing what is in", directory, &error))
        }
        _ => Ok(()),
    }
}

/// Removes the directory of a pool, whose superblock has this name: first its name, by which it is a pool, then
/// everything in it, the superblock last.
///
/// # Errors
/// Where its name cannot be taken away, and nothing has changed; where not all of it can be removed, and the
/// pool is gone.
pub fn remove_directory(path: &Path, superblock: &str) -> Result<()> {
    let path = &path.canonicalize().map_err(|error| failed("looking at", path, &error))?;
    let parent = path.parent().unwrap_or(path);
    refuse_unless_writable(path)?;
    let going = hidden(parent, GOING)?;
    fs::rename(path, &going).map_err(|error| failed("removing", path, &error))?;
    let removed = remove_all(&going, superblock);
    finish_others(parent, superblock);
    removed.map_err(|error| {
        let message = format!(
            "pool {} is gone, but what was in it is not: removing {}: {error}",
            path.display(),
            going.display()
        );
        Error::new(ErrorKind::Io, message)
    })
}

/// A name that nobody has in a directory, with this beginning.
fn hidden(parent: &Path, beginning: &str) -> Result<PathBuf> {
    Ok(parent.join(format!("{beginning}{}", Uuid::from_random(crate::random_bytes()?))))
}

/// A name for a directory that is to become a pool.
pub(super) fn coming(parent: &Path) -> Result<PathBuf> {
    hidden(parent, COMING)
}

/// True for the directory of what goes or is to become a pool.
#[must_use]
pub fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with(GOING) || name.starts_with(COMING)
}

/// Removes a directory, the superblock in it last: as long as that is there, it is known for one that goes.
fn remove_all(directory: &Path, superblock: &str) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name() == superblock {
            continue;
        }
        none_if_gone(match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path()),
            false => fs::remove_file(entry.path()),
        })?;
    }
    none_if_gone(fs::remove_file(directory.join(superblock)))?;
    none_if_gone(fs::remove_dir(directory))
}

/// Somebody else may be finishing the same.
fn none_if_gone(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })
}

/// Finishes, as far as it can, what processes of this user were killed at that made or destroyed pools in a
/// directory, whose superblocks have this name.
pub fn finish_others(parent: &Path, superblock: &str) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        // A link would not be a directory.
        let mine = |info: fs::Metadata| info.is_dir() && info.uid() == sys::user();
        if is_unfinished(&entry.path()) && entry.metadata().is_ok_and(mine) {
            finish(&entry.path(), superblock);
        }
    }
}

fn finish(directory: &Path, superblock: &str) {
    super::create::discard_draft(directory);
    if directory.join(superblock).exists() {
        let _ = remove_all(directory, superblock);
    }
    // Where somebody was killed before or behind all else.
    let _ = fs::remove_dir(directory);
}

fn failed(doing: &str, path: &Path, error: &io::Error) -> Error {
    Error::io(format_args!("{doing} {}", path.display()), error)
}
