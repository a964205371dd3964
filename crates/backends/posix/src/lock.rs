//! Locks for files that are read, changed and replaced: a lock file next to each.
//!
//! The lock only orders writers, so that none of them undoes another's change; readers see complete values without it.
//! A change to several objects takes the locks of all of them, in the order of their paths.
//! It expires: a lock file is taken over if its owner is known to have ended or if it is older than [`LEASE`]. Ages
//! are measured by the clock of the file system.
use super::files::{Files, Temporary, discard, info, io_error, read, write_parts};
use super::owner;
use esker_types::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Age at which a lock file counts as abandoned.
pub(super) const LEASE: Duration = Duration::from_secs(10);
/// Time to wait for a lock before giving up.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(60);
/// First and longest pause between two attempts to take a lock.
pub(super) const PAUSES: (Duration, Duration) =
    (Duration::from_micros(50), Duration::from_millis(5));
/// Number of locks among which the threads of a process are spread, so that they do not contend for lock files.
const THREAD_LOCKS: usize = 64;

/// Locks among the threads of this process.
pub(super) struct ThreadLocks([Mutex<()>; THREAD_LOCKS]);

impl ThreadLocks {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| Mutex::new(())))
    }

    fn number_of(path: &Path) -> usize {
        let mut hasher = esker_types::StableHash.build_hasher();
        hasher.write(path.as_os_str().as_encoded_bytes());
        (hasher.finish() % THREAD_LOCKS as u64) as usize
    }

    fn lock(&self, number: usize) -> MutexGuard<'_, ()> {
        self.0[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks, released when dropped.
pub(super) struct Locks<'a> {
    files: Vec<LockFile>,
    _thread_locks: Vec<MutexGuard<'a, ()>>,
}

/// A lock file of this process, removed when dropped.
struct LockFile {
    path: PathBuf,
    own: Temporary,
    since: Instant,
}

/// Path of the lock file of `path`; no key has this name.
fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("%lock");
    PathBuf::from(name)
}

impl<'a> Locks<'a> {
    /// Waits for the locks on all `paths`; `None` if their directory is missing. All processes take locks in the order of
    /// paths, and all threads of a process take their locks in the order of numbers, so none waits for another forever.
    ///
    /// # Errors
    /// `TimedOut` if others hold one of them for a minute.
    pub(super) fn take(
        thread_locks: &'a ThreadLocks,
        files: &Files,
        paths: &BTreeSet<PathBuf>,
    ) -> Result<Option<Self>> {
        let numbers: BTreeSet<_> = paths.iter().map(|path| ThreadLocks::number_of(path)).collect();
        let thread_locks: Vec<_> =
            numbers.into_iter().map(|number| thread_locks.lock(number)).collect();
        loop {
            let mut taken = Vec::with_capacity(paths.len());
            for path in paths {
                let Some(file) = LockFile::make(files, path)? else { return Ok(None) };
                taken.push(file);
            }
            // The first lock may have become old while the last one was busy.
            if taken.iter().all(|file| file.since.elapsed() < LEASE / 4) {
                return Ok(Some(Self { files: taken, _thread_locks: thread_locks }));
            }
        }
    }

    /// Waits for the lock on one path.
    ///
    /// # Errors
    /// The errors of [`Locks::take`].
    pub(super) fn take_one(
        thread_locks: &'a ThreadLocks,
        files: &Files,
        path: PathBuf,
    ) -> Result<Option<Self>> {
        Self::take(thread_locks, files, &BTreeSet::from([path]))
    }

    /// Fails if a lock is about to expire: another process may have taken it over.
    ///
    /// # Errors
    /// `Again`: nothing was changed.
    pub(super) fn check(&self) -> Result<()> {
        self.files.iter().try_for_each(LockFile::check)
    }
}

impl LockFile {
    /// Makes the lock file of `path`, when no other process has it; `None` if its directory is missing.
    fn make(files: &Files, path: &Path) -> Result<Option<Self>> {
        let (path, begun) = (lock_path(path), Instant::now());
        let mut pause = PAUSES.0;
        while begun.elapsed() < WAIT_MAX {
            // Created again for each attempt: the lock's age counts from the creation of the file.
            let (own, since) = (own_file(files)?, Instant::now());
            match files.insert(&own, &path) {
                Ok(true) => return Ok(Some(Self { path, own, since })),
                Ok(false) => return Ok(None),
                Err(error) if error.kind() != ErrorKind::Exists => return Err(error),
                Err(_) => take_over_if_left(files, &path, &own)?,
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSES.1);
        }
        Err(busy(&path))
    }

    fn check(&self) -> Result<()> {
        match self.since.elapsed() < LEASE / 2 {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Again,
                format!(
                    "{}: the change took longer than its lock is valid: retry",
                    self.path.display()
                ),
            )),
        }
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        let own = self.own.file.metadata().map(|info| info.ino()).ok();
        let found = fs::metadata(&self.path).map(|info| info.ino()).ok();
        if own.is_some() && found == own {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A new lock file, which names its owner.
fn own_file(files: &Files) -> Result<Temporary> {
    files.temporary(|file| write_parts(file, &[owner::own().as_bytes()]))
}

/// Removes the lock file if its owner has ended or it has expired. The file is first moved away by a rename and then
/// checked again: if it is recent, it belongs to another process and is moved back.
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

/// True if the owner of the lock file is known to have ended, or if the file is older than a new file by [`LEASE`].
fn is_left(path: &Path, fresh: &Temporary) -> Result<bool> {
    let line = read(path)?.unwrap_or_default();
    if std::str::from_utf8(&line).is_ok_and(owner::has_ended) {
        return Ok(true);
    }
    let Some(lock) = info(path)? else { return Ok(false) };
    let made = lock.modified().map_err(|error| io_error("looking at", path, &error))?;
    Ok(time_of(fresh)?.duration_since(made).is_ok_and(|age| age > LEASE))
}

/// Time of a file's last modification, by the clock of the file system.
pub(super) fn time_of(file: &Temporary) -> Result<SystemTime> {
    let time = file.file.metadata().and_then(|info| info.modified());
    time.map_err(|error| io_error("looking at", &file.path, &error))
}

#[cold]
pub(super) fn busy(path: &Path) -> Error {
    let message = format!(
        "{}: locked by another process: retry, or remove the file if its owner no longer runs",
        path.display()
    );
    Error::new(ErrorKind::TimedOut, message)
}
