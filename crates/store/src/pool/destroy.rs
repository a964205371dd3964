//! Destruction of pools.
use super::Pool;
use crate::format::superblock::{self, Superblock};
use crate::io::folder::{Folder, Use};
use crate::io::lock::{self, ByteLock};
use crate::shard::open_pool::OpenPool;
use crate::shared::control::{self, BYTE_SETUP, PROCESS_BYTES};
use esker_os::directory::{self, Kind, refuse_unless_writable};
use esker_os::resolve_links;
use esker_types::{Error, ErrorKind, Result};
use std::fs::File;
use std::io;
use std::path::Path;

impl Pool {
    /// Destroys the pool at `path` with all its content. Operations of processes that have it open fail with `NoHandle`
    /// as soon as its name is gone. If it is interrupted after that, the next creation or destruction of a pool in the
    /// same directory removes the remaining files.
    ///
    /// # Errors
    /// `Busy` if a process has it open, unless `force`; `NoPermission`. Nothing has changed, unless the message says
    /// that the pool is removed.
    pub fn destroy(path: &Path, force: bool) -> Result<()> {
        let superblock = Superblock::read(path)?;
        let path = &resolve_links(path)?;
        let folder = Folder::open(path)?;
        let control = control_of_users(&folder, &superblock)?;
        let setup = if force { None } else { control.as_ref() };
        let _setup = setup.map(|file| lock_setup(file, path)).transpose()?;
        if !force && in_use(&folder, &superblock)? {
            return Err(busy_error(path));
        }
        for number in 0..superblock.targets {
            let target = path.join(superblock::target_name(number));
            refuse_unless_writable(&target.join(superblock::INDEX))?;
            refuse_unless_writable(&target)?;
        }
        directory::remove(path, POOL, || {
            let declared = control.as_ref().map_or(Ok(()), control::declare_destroyed);
            declared.map_err(|error| untold_error(path, &error))
        })
    }
}

/// Takes the setup lock, without which no process opens the pool. So none begins to use it between the check and the
/// removal. Fails if a process is opening the pool.
fn lock_setup<'f>(control: &'f File, path: &Path) -> Result<ByteLock<'f>> {
    let taken = ByteLock::take(control, BYTE_SETUP);
    let taken = taken.map_err(|error| io_error("locking", path, &error))?;
    taken.ok_or_else(|| busy_error(path))
}

#[cold]
fn busy_error(path: &Path) -> Error {
    let message = format!("{} is in use: end its users, or use force", path.display());
    Error::new(ErrorKind::Busy, message)
}

/// The control file through which the users of a pool are told that it is destroyed. `None` if no process has opened
/// the pool yet, or if the file is damaged: such a pool is destroyed, too.
fn control_of_users(folder: &Folder, superblock: &Superblock) -> Result<Option<File>> {
    let mode = superblock.file_permissions();
    let Ok(Some(_)) = folder.info(control::NAME, mode) else { return Ok(None) };
    match control_file(folder, superblock, Use::Write) {
        Err(error) if error.kind() == ErrorKind::NoPermission => Ok(None),
        other => other,
    }
}

/// Declares a pool destroyed whose removal a killed process began. `directory` is its hidden directory. A pool that is
/// being created has no superblock, and is left alone.
fn declare_removed(directory: &Path) -> Result<()> {
    let path = resolve_links(directory)?;
    let folder = Folder::open(&path)?;
    let superblock = Superblock::read_in(&folder)?;
    let control = control_of_users(&folder, &superblock)?;
    let declared = control.as_ref().map_or(Ok(()), control::declare_destroyed);
    declared.map_err(|error| untold_error(&path, &error))
}

/// Completes what a killed process had to do before it removed the content of a pool.
fn discard(directory: &Path) {
    super::create::discard_unfinished(directory);
    // An error is ignored: this process can tell the users in no other way.
    let _ = declare_removed(directory);
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
pub(super) const POOL: Kind = Kind { marker: superblock::NAME, discard };

#[cold]
fn untold_error(path: &Path, error: &io::Error) -> Error {
    let path = path.display();
    Error::io(format_args!("pool {path} is removed, but its users are not told: end them"), error)
}

fn io_error(doing: &str, path: &Path, error: &io::Error) -> Error {
    Error::io(format_args!("{doing} {}", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PoolSpec;
    use crate::tests::Scratch;

    #[test]
    fn pool_that_a_process_is_opening_is_busy() {
        let mut pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        pool.close();
        let path = pool.path().join(control::NAME);
        let opener = File::options().read(true).write(true).open(path).unwrap();
        let setup = ByteLock::take(&opener, BYTE_SETUP).unwrap().unwrap();
        let destroy = || Pool::destroy(&pool.path(), false);
        assert_eq!(destroy().unwrap_err().kind(), ErrorKind::Busy);
        drop(setup);
        destroy().unwrap();
    }

    /// The process that destroyed the pool was killed right after the name was removed.
    #[test]
    fn interrupted_destruction_is_declared_by_next_one() {
        let pool = Scratch::new(24 << 20, |_| {});
        let state = pool.opened();
        let parent = pool.path().parent().unwrap().to_owned();
        let hidden = parent.join(".esker-going-1");
        std::fs::rename(pool.path(), &hidden).unwrap();
        state.check_alive().unwrap();
        Pool::create(&parent, &PoolSpec::new("other", 24 << 20), &mut |_, _| {}).unwrap();
        assert!(!hidden.exists());
        assert_eq!(state.check_alive().unwrap_err().kind(), ErrorKind::NoHandle);
    }
}
