//! Turns at changing a file that is read, changed and replaced: a lock file beside it.
//!
//! The lock only orders writers, so that none undoes another's change; whole values do not depend on it.
//! It is a lease: a lock file whose owner is known to have ended, or that stood for [`LEASE`], is taken over.
//! Ages are told by the clock of the file system.
use super::files::{Files, Temporary, discard, failed, info, read, write_parts};
use super::owner;
use esker_types::{Error, ErrorKind, Result};
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How long a lock file stands before others take it for left behind.
pub(super) const LEASE: Duration = Duration::from_secs(10);
/// How long a change waits for its turn.
const PATIENCE: Duration = Duration::from_secs(60);
/// Looks at a lock in the way are this far apart, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(5));
/// Threads of a process take turns by these, so that they do not meet at the lock file.
const TURNS: usize = 64;

/// The turns of the threads of this process.
pub(super) struct Turns([Mutex<()>; TURNS]);

impl Turns {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| Mutex::new(())))
    }

    fn of(&self, path: &Path) -> &Mutex<()> {
        let mut hasher = esker_types::StableHash.build_hasher();
        hasher.write(path.as_os_str().as_encoded_bytes());
        &self.0[(hasher.finish() % TURNS as u64) as usize]
    }
}

/// A turn; it ends when dropped.
pub(super) struct Lock<'a> {
    path: PathBuf,
    own: Temporary,
    since: Instant,
    _turn: MutexGuard<'a, ()>,
}

/// Name of the lock file of `path`; no key has it.
fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("%lock");
    PathBuf::from(name)
}

impl<'a> Lock<'a> {
    /// Waits for the turn to change `path`; `None` where its directory is missing.
    ///
    /// # Errors
    /// `TimedOut` where others hold it for a minute.
    pub(super) fn take(turns: &'a Turns, files: &Files, path: &Path) -> Result<Option<Self>> {
        let turn = turns.of(path).lock().unwrap_or_else(PoisonError::into_inner);
        let (path, begun) = (lock_path(path), Instant::now());
        let mut pause = PAUSES.0;
        while begun.elapsed() < PATIENCE {
            // Made anew each time: the lease counts from the making of the file.
            let (own, since) = (own_file(files)?, Instant::now());
            match files.insert(&own, &path) {
                Ok(true) => return Ok(Some(Self { path, own, since, _turn: turn })),
                Ok(false) => return Ok(None),
                Err(error) if error.kind() != ErrorKind::Exists => return Err(error),
                Err(_) => take_over_if_left(files, &path, &own)?,
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSES.1);
        }
        Err(busy(&path))
    }

    /// Refuses to go on where the lease is about to end: others may have taken the turn.
    ///
    /// # Errors
    /// `Again`: nothing was changed.
    pub(super) fn check(&self) -> Result<()> {
        match self.since.elapsed() < LEASE / 2 {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Again,
                format!("{}: the change took longer than its lease: retry it", self.path.display()),
            )),
        }
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        let inode = |path: &Path| fs::metadata(path).map(|info| info.ino()).ok();
        if inode(&self.path).is_some() && inode(&self.path) == inode(&self.own.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A lock file to be, which says whose it is.
fn own_file(files: &Files) -> Result<Temporary> {
    files.temporary(|file| write_parts(file, &[owner::own().as_bytes()]))
}

/// Removes the lock file where its owner has ended, or where it is older than a lease. What a rename caught is looked at again: a
/// young one was somebody else's, and goes back.
fn take_over_if_left(files: &Files, path: &Path, fresh: &Temporary) -> Result<()> {
    if !is_left(path, fresh)? {
        return Ok(());
    }
    let caught = files.fresh_path();
    if fs::rename(path, &caught).is_err() {
        return Ok(());
    }
    if !is_left(&caught, fresh)? {
        let _ = fs::hard_link(&caught, path);
    }
    discard(&caught);
    Ok(())
}

/// True where the owner of the lock file is known to have ended, or where it is older by a lease than a
/// file made just now.
fn is_left(path: &Path, fresh: &Temporary) -> Result<bool> {
    let line = read(path)?.unwrap_or_default();
    if std::str::from_utf8(&line).is_ok_and(owner::has_ended) {
        return Ok(true);
    }
    let Some(lock) = info(path)? else { return Ok(false) };
    let made = lock.modified().map_err(|error| failed("looking at", path, &error))?;
    Ok(time_of(fresh)?.duration_since(made).is_ok_and(|age| age > LEASE))
}

/// When a file was written last, by the clock of the file system.
pub(super) fn time_of(file: &Temporary) -> Result<SystemTime> {
    let time = file.file.metadata().and_then(|info| info.modified());
    time.map_err(|error| failed("looking at", &file.path, &error))
}

#[cold]
fn busy(path: &Path) -> Error {
    let message =
        format!("{}: others hold it: retry, or remove it where nobody does", path.display());
    Error::new(ErrorKind::TimedOut, message)
}
