//! The part of a pool that an engine serves, as files.
use esker::types::{Error, ErrorKind, Result};
use esker_nodes::Map;
use esker_store::Superblock;
use std::fs::{File, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The file in the directory for locks that the engine of a part has locked.
const LOCK: &str = "engine";

/// Claims a part for the engine of this process, as long as the file is open.
///
/// # Errors
/// `Busy` if another engine serves it.
pub(crate) fn claim(part: &Path) -> Result<File> {
    let path = part.join(esker::LOCKS).join(LOCK);
    let failed = |error| Error::io(format_args!("locking {}", path.display()), &error);
    let opened = File::options().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = opened.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let message = format!("another engine serves {}: end it first", part.display());
            Err(Error::new(ErrorKind::Busy, message))
        }
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Where the engine of a part logs, unless it is started by hand: beside the part, and removed with it.
pub(crate) fn log_beside(part: &Path) -> PathBuf {
    let mut name = part.as_os_str().to_owned();
    name.push(".log");
    PathBuf::from(name)
}

/// The map beside a part, if it is that of the part's pool.
pub(crate) fn map_beside(part: &Path, pool: &Superblock) -> Option<(PathBuf, Map)> {
    let (label, _) = pool.label.rsplit_once('.')?;
    let path = Map::path(part.parent()?, label);
    let map = Map::read(&path).ok()?;
    map.nodes.iter().any(|node| node.uuid == pool.uuid).then_some((path, map))
}
