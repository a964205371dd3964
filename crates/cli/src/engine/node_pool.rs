//! Files of a node's pool, and the files next to it: the lock of its engine, the log and the map.
use esker::types::{Error, ErrorKind, Result};
use esker_nodes::Map;
use esker_store::Superblock;
use std::fs::{File, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Lock file, in the pool's directory for locks. The engine that serves the pool holds the lock.
const LOCK: &str = "engine";

/// Locks a node's pool for the engine of this process. The lock is held until the file is closed.
///
/// # Errors
/// `Busy` if another engine serves it.
pub(crate) fn claim(directory: &Path) -> Result<File> {
    let path = directory.join(esker::LOCKS).join(LOCK);
    let failed = |error| Error::io(format_args!("locking {}", path.display()), &error);
    let opened = File::options().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = opened.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let message = format!("another engine serves {}: end it first", directory.display());
            Err(Error::new(ErrorKind::Busy, message))
        }
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Path of the log of an engine that `esker pool create` has started. It is next to the node's pool, and removed with
/// it.
pub(crate) fn log_beside(directory: &Path) -> PathBuf {
    let mut name = directory.as_os_str().to_owned();
    name.push(".log");
    PathBuf::from(name)
}

/// The map next to a node's pool, if the map lists that pool.
pub(crate) fn map_beside(directory: &Path, pool: &Superblock) -> Option<(PathBuf, Map)> {
    let (label, _) = pool.label.rsplit_once('.')?;
    let path = Map::path(directory.parent()?, label);
    let map = Map::read(&path).ok()?;
    map.nodes.iter().any(|node| node.uuid == pool.uuid).then_some((path, map))
}
