//! How files come into being: whole, by a rename or a link, so that nobody ever sees half of one.
use esker_os::open_plain;
use esker_types::{Error, ErrorKind, Result};
use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Temporary files that were not touched for this long belong to nobody alive.
pub(super) const SWEEP_AGE: Duration = Duration::from_secs(24 * 3600);
/// Times an operation is tried where a server says that its handle is stale.
const STALE_TRIES: u32 = 8;

/// Makes files of one pool.
pub(super) struct Files {
    /// Directory for temporary files of this session; made when first needed.
    session: PathBuf,
    next: AtomicU64,
    /// Syncs data and directories before an operation returns.
    pub(super) fsync: bool,
}

/// A file nobody else knows of; removed when dropped, unless it was given its place.
pub(super) struct Temporary {
    pub(super) path: PathBuf,
    pub(super) file: File,
    placed: Cell<bool>,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.placed.get() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Files {
    pub(super) fn new(tmp: &Path, session: &str, fsync: bool) -> Self {
        Self { session: tmp.join(session), next: AtomicU64::new(0), fsync }
    }

    /// A name in the directory for temporary files that nobody has used. The process is part of it,
    /// for a forked child counts on from where its parent was.
    pub(super) fn fresh_path(&self) -> PathBuf {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.session.join(format!("{}-{number}", std::process::id()))
    }

    /// Sees to it that there is a directory for temporary files.
    pub(super) fn make_session(&self) -> Result<()> {
        match fs::create_dir(&self.session) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(failed("making", &self.session, &error))
            }
            _ => Ok(()),
        }
    }

    /// Removes the directory of this session where nothing is in it. Whoever needs it makes it anew.
    pub(super) fn end_session(&self) {
        let _ = fs::remove_dir(&self.session);
    }

    /// A temporary file that `fill` wrote.
    pub(super) fn temporary(
        &self,
        fill: impl FnOnce(&File) -> io::Result<()>,
    ) -> Result<Temporary> {
        let temporary = self.create()?;
        let filled = fill(&temporary.file);
        filled.map_err(|error| failed("writing", &temporary.path, &error))?;
        if self.fsync {
            let synced = temporary.file.sync_all();
            synced.map_err(|error| failed("syncing", &temporary.path, &error))?;
        }
        Ok(temporary)
    }

    fn create(&self) -> Result<Temporary> {
        let mut made = false;
        loop {
            let path = self.fresh_path();
            match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Temporary { path, file, placed: Cell::new(false) }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound && !made => {
                    self.make_session()?;
                    made = true;
                }
                Err(error) => return Err(failed("making", &path, &error)),
            }
        }
    }

    /// Gives `temporary` its place, over whatever is there. False where the directory is missing.
    pub(super) fn replace(&self, temporary: &Temporary, to: &Path) -> Result<bool> {
        match fs::rename(&temporary.path, to) {
            Ok(()) => {
                temporary.placed.set(true);
                self.sync_parent(to).map(|()| true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed("renaming to", to, &error)),
        }
    }

    /// As [`Files::replace`], where nothing is there yet.
    ///
    /// # Errors
    /// `Exists`.
    pub(super) fn insert(&self, temporary: &Temporary, to: &Path) -> Result<bool> {
        match fs::hard_link(&temporary.path, to) {
            Ok(()) => self.sync_parent(to).map(|()| true),
            // A server may do a link twice where its first answer was lost.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                match temporary.file.metadata().is_ok_and(|info| info.nlink() == 2) {
                    true => self.sync_parent(to).map(|()| true),
                    false => Err(failed("making", to, &error)),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed("making", to, &error)),
        }
    }

    /// Removes a file; false where there was none.
    pub(super) fn remove(&self, path: &Path) -> Result<bool> {
        match fs::remove_file(path) {
            Ok(()) => self.sync_parent(path).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed("removing", path, &error)),
        }
    }

    /// Makes a directory; one that exists is as good.
    ///
    /// # Errors
    /// `NotFound` where its parent is missing.
    pub(super) fn make_directory(&self, path: &Path) -> Result<()> {
        match fs::create_dir(path) {
            Ok(()) => self.sync_parent(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(failed("making", path, &error)),
        }
    }

    /// Where asked for, makes the entry of `path` in its directory last.
    pub(super) fn sync_parent(&self, path: &Path) -> Result<()> {
        match path.parent().filter(|_| self.fsync) {
            None => Ok(()),
            Some(parent) => {
                let synced = File::open(parent).and_then(|directory| directory.sync_all());
                synced.map_err(|error| failed("syncing", parent, &error))
            }
        }
    }
}

/// An error with what was done to what.
#[cold]
pub(super) fn failed(doing: &str, path: &Path, error: &io::Error) -> Error {
    Error::io(format_args!("{doing} {}", path.display()), error)
}

/// Does `work` again where it met a file that another node replaced meanwhile.
pub(super) fn while_stale<T>(work: impl Fn() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..STALE_TRIES {
        match work() {
            Err(error) if error.kind() == io::ErrorKind::StaleNetworkFileHandle => {}
            outcome => return outcome,
        }
    }
    work()
}

/// Everything in a file, `None` where there is none.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    let read = while_stale(|| {
        let mut bytes = Vec::new();
        open_plain(path, false)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    });
    none_if_missing(read).map_err(|error| failed("reading", path, &error))
}

/// Names in a directory, those that are text; none where there is no directory.
pub(super) fn names_in(path: &Path) -> Result<Vec<String>> {
    let names = while_stale(|| {
        let entries = fs::read_dir(path)?;
        entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>()
    });
    let names = none_if_missing(names).map_err(|error| failed("listing", path, &error))?;
    Ok(names.unwrap_or_default().into_iter().filter_map(|name| name.into_string().ok()).collect())
}

/// What `path` is, `None` where there is nothing.
pub(super) fn info(path: &Path) -> Result<Option<fs::Metadata>> {
    let info = while_stale(|| fs::metadata(path));
    none_if_missing(info).map_err(|error| failed("looking at", path, &error))
}

/// `None` for what is not there.
pub(super) fn none_if_missing<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes what sessions left behind that ended long ago. Ages are told by the clock of the file
/// system, not by that of this machine.
pub(super) fn sweep(tmp: &Path, now: SystemTime) {
    for session in directory(tmp) {
        let idle = is_old(&session, now);
        let (old, young): (Vec<_>, Vec<_>) =
            directory(&session).into_iter().partition(|path| is_old(path, now));
        old.iter().for_each(|path| discard(path));
        if young.is_empty() && idle {
            let _ = fs::remove_dir(&session);
        }
    }
}

fn directory(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten();
    entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect()
}

fn is_old(path: &Path, now: SystemTime) -> bool {
    let touched = fs::symlink_metadata(path).and_then(|info| info.modified());
    touched.is_ok_and(|touched| now.duration_since(touched).is_ok_and(|age| age > SWEEP_AGE))
}

/// What cannot be removed now is left to the next sweep.
pub(super) fn discard(path: &Path) {
    if fs::remove_file(path).is_err() {
        let _ = fs::remove_dir_all(path);
    }
}

/// Writes `parts` to a file that is empty.
pub(super) fn write_parts(mut file: &File, parts: &[&[u8]]) -> io::Result<()> {
    parts.iter().try_for_each(|part| file.write_all(part))
}

/// An error for bytes that are not ours.
#[cold]
pub(super) fn damaged(path: &Path, what: &str) -> Error {
    let message = format!("{}: {what}: restore it, or remove it", path.display());
    Error::new(ErrorKind::Corrupt, message)
}
