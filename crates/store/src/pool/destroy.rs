//! Destruction of pools.
use super::Pool;
use crate::format::superblock::{self, Superblock};
use crate::io::folder::{Folder, Use};
use crate::io::lock;
use crate::shard::open_pool::OpenPool;
use crate::shared::control::{self, PROCESS_BYTES};
use esker_os::directory::{self, Kind, refuse_unless_writable};
use esker_os::resolve_links;
use esker_types::{Error, ErrorKind, Result};
use std::fs::File;
use std::io;
use std::path::Path;

impl Pool {
    /// Destroys the pool at `path` with all its content. On error nothing has changed. If it is interrupted, the pool
    /// is destroyed, and the next creation or destruction of a pool in the same directory removes the remaining files.
    /// Operations of processes that have it open fail with `NoHandle` from then on.
    ///
    /// # Errors
    /// `Busy` if a process has it open, unless `force`; `NoPermission`.
    pub fn destroy(path: &Path, force: bool) -> Result<()> {
        let superblock = Superblock::read(path)?;
        let path = &resolve_links(path)?;
        let folder = Folder::open(path)?;
        if !force && in_use(&folder, &superblock)? {
            let message = format!("{} is in use: end its users, or use force", path.display());
            return Err(Error::new(ErrorKind::Busy, message));
        }
        for number in 0..superblock.targets {
            let target = path.join(superblock::target_name(number));
            refuse_unless_writable(&target.join(superblock::INDEX))?;
            refuse_unless_writable(&target)?;
        }
        // A pool with a damaged control file is destroyed, too.
        let control = control_file(&folder, &superblock, Use::Write).ok().flatten();
        // Processes that have the pool open are told only after the removal, since on error nothing may have changed.
        directory::remove(path, POOL)?;
        let declared = control.as_ref().map_or(Ok(()), control::declare_destroyed);
        declared.map_err(|error| io_error("telling the users of", path, &error))
    }
}

/// The control file of a pool; `None` if no process has opened the pool yet.
fn control_file(folder: &Folder, superblock: &Superblock, how: Use) -> Result<Option<File>> {
    match folder.file(control::NAME, how, superblock.file_permissions()) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// True if any process, including this one, has the pool open.
pub(crate) fn in_use(folder: &Folder, superblock: &Superblock) -> Result<bool> {
    if OpenPool::is_open_here(&folder.handle()) {
        return Ok(true);
    }
    let Some(file) = control_file(folder, superblock, Use::Read)? else { return Ok(false) };
    let used = lock::any_held_by_other(&file, PROCESS_BYTES);
    used.map_err(|error| io_error("reading the locks of", folder.path(), &error))
}

/// Description of pool directories. The superblock is removed last.
pub(super) const POOL: Kind =
    Kind { marker: superblock::NAME, discard: super::create::discard_unfinished };

fn io_error(doing: &str, path: &Path, error: &io::Error) -> Error {
    Error::io(format_args!("{doing} {}", path.display()), error)
}
