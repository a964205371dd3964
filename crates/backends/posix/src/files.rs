//! Creating files atomically, by a rename or a link, so that no process sees a partial file.
use super::journal::MAKE_TRIES;
use super::permissions::Permissions;
use esker_os::{close, look_up_again, open_plain};
use esker_types::{Error, ErrorKind, Result, Uuid};
use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Age at which a temporary file counts as abandoned.
pub(super) const SWEEP_AGE: Duration = Duration::from_secs(24 * 3600);
/// Attempts of an operation for which a server reports a stale handle.
const STALE_TRIES: u32 = 16;
/// Pause before the second attempt; before each further one it is longer by as much.
const STALE_PAUSE: Duration = Duration::from_millis(1);

/// Bytes that a check of a file reads at a time.
const READ_BYTES: usize = 1 << 20;

/// Creates the files of one pool.
pub(super) struct Files {
    /// Directory for the temporary files of this session, created on first use.
    session: PathBuf,
    /// Number of the next temporary file.
    next: AtomicU64,
    /// Sync data and directories before an operation returns.
    pub(super) fsync: bool,
}

/// A complete temporary file of this process. Dropping it removes the file, unless the file was moved to its final
/// path.
pub(super) struct Temporary {
    pub(super) path: PathBuf,
    /// True once it was moved to its final path.
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
    /// Files of the pool whose directory for temporary files is `tmp`. `session` is the name of this session's
    /// directory in it.
    pub(super) fn new(tmp: &Path, session: &str, fsync: bool) -> Self {
        Self { session: tmp.join(session), next: AtomicU64::new(0), fsync }
    }

    /// A new name in the directory for temporary files. It contains the process id, because a forked child continues
    /// its parent's counter.
    pub(super) fn fresh_path(&self) -> PathBuf {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.session.join(format!("{}-{number}", std::process::id()))
    }

    /// The name by which other processes find a directory among the temporary files of this session.
    pub(super) fn name_of(&self, path: &Path) -> String {
        let names = [self.session.file_name(), path.file_name()];
        names.map(|name| name.unwrap_or_default().to_string_lossy()).join("_")
    }

    /// Moves a directory of any session away, by its name, so that its owner can rename nothing from it. It need not
    /// exist.
    ///
    /// # Errors
    /// `Invalid` for another name; errors of the file system.
    pub(super) fn withdraw(&self, name: &str) -> Result<()> {
        let found = name.split_once('_').and_then(|(session, own)| {
            let is_own = !own.is_empty() && own.bytes().all(|b| b.is_ascii_digit() || b == b'-');
            let session = Uuid::parse(session).filter(|_| is_own)?;
            Some(self.session.with_file_name(session.to_string()).join(own))
        });
        let Some(path) = found else {
            return Err(Error::new(ErrorKind::Invalid, "not the name of a staging directory"));
        };
        let withdrawn = path.with_extension("withdrawn");
        if self.move_to(&path, &withdrawn)? {
            discard(&withdrawn);
        }
        Ok(())
    }

    /// Makes sure that the directory for temporary files exists.
    pub(super) fn make_session(&self) -> Result<()> {
        // Processes of other users move directories away in it, so it has the permissions of its parent.
        let parent = self.session.parent().map(Permissions::read).transpose()?.flatten();
        match parent.map(|permissions| permissions.make_directory(&self.session)) {
            // `NotFound`: a forked child has removed it at once.
            Some(Err(error))
                if !matches!(error.kind(), ErrorKind::Exists | ErrorKind::NotFound) =>
            {
                Err(error)
            }
            Some(_) => Ok(()),
            None => {
                Err(io_error("making", &self.session, &io::Error::from(io::ErrorKind::NotFound)))
            }
        }
    }

    /// Removes the directory of this session if it is empty. It is created again when needed.
    pub(super) fn end_session(&self) {
        let _ = fs::remove_dir(&self.session);
    }

    /// Creates a temporary file with the content that `fill` writes.
    pub(super) fn temporary(
        &self,
        fill: impl FnOnce(&File) -> io::Result<()>,
    ) -> Result<Temporary> {
        let (path, file) = self.fresh(|path| {
            let created = File::create_new(path);
            created.map_err(|error| io_error("making", path, &error))
        })?;
        let temporary = Temporary { path, placed: Cell::new(false) };
        let filled = fill(&file).and_then(|()| self.finish(file));
        filled.map_err(|error| io_error("writing", &temporary.path, &error))?;
        Ok(temporary)
    }

    /// Syncs a file that was written, if the pool is configured so, and closes it. Network file systems may report only
    /// now that they could not write it.
    pub(super) fn finish(&self, file: File) -> io::Result<()> {
        if self.fsync {
            file.sync_all()?;
        }
        close(file)
    }

    /// Creates a directory with these permissions among the temporary files.
    pub(super) fn temporary_directory(&self, permissions: Permissions) -> Result<PathBuf> {
        self.fresh(|path| permissions.make_directory(path)).map(|(path, ())| path)
    }

    /// Calls `make` with new names among the temporary files until it has made something. Forked children, and sweeps,
    /// remove the directory of the session while it is empty.
    pub(super) fn fresh<T>(&self, make: impl Fn(&Path) -> Result<T>) -> Result<(PathBuf, T)> {
        for _ in 0..MAKE_TRIES {
            let path = self.fresh_path();
            match make(&path) {
                Ok(made) => return Ok((path, made)),
                Err(error) if error.kind() == ErrorKind::Exists => {}
                Err(error) if error.kind() == ErrorKind::NotFound => self.make_session()?,
                Err(error) => return Err(error),
            }
        }
        Err(directory_removed_error(&self.session))
    }

    /// Moves `temporary` to its final path, replacing an existing file. False if the directory is missing.
    pub(super) fn replace(&self, temporary: &Temporary, to: &Path) -> Result<bool> {
        match fs::rename(&temporary.path, to) {
            Ok(()) => self.placed(temporary, to),
            // A server may execute a rename twice if its first reply was lost.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match is_missing(&temporary.path) {
                    true => self.placed(temporary, to),
                    false => Ok(false),
                }
            }
            Err(error) => Err(io_error("renaming to", to, &error)),
        }
    }

    /// Notes that a temporary file was moved to its final path, and syncs the directory there.
    fn placed(&self, temporary: &Temporary, to: &Path) -> Result<bool> {
        temporary.placed.set(true);
        self.sync_parent(to).map(|()| true)
    }

    /// Writes a file that does not exist yet.
    pub(super) fn write_new(&self, path: &Path, content: &[u8]) -> Result<()> {
        let written = OpenOptions::new().write(true).create_new(true).open(path);
        let written = written.and_then(|mut file| {
            file.write_all(content)?;
            self.finish(file)
        });
        written.map_err(|error| io_error("writing", path, &error))
    }

    /// Moves a file or directory, replacing a file. False if it, or the directory of `to`, is missing.
    pub(super) fn move_to(&self, from: &Path, to: &Path) -> Result<bool> {
        match fs::rename(from, to) {
            Ok(()) => self.sync_parent(to).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(io_error("renaming to", to, &error)),
        }
    }

    /// Links `temporary` at its final path. False if the directory is missing.
    ///
    /// # Errors
    /// `Exists`.
    pub(super) fn insert(&self, temporary: &Temporary, to: &Path) -> Result<bool> {
        match fs::hard_link(&temporary.path, to) {
            Ok(()) => self.sync_parent(to).map(|()| true),
            // A server may execute a link twice if its first reply was lost.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                match fs::metadata(&temporary.path).is_ok_and(|info| info.nlink() == 2) {
                    true => self.sync_parent(to).map(|()| true),
                    false => Err(io_error("making", to, &error)),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(io_error("making", to, &error)),
        }
    }

    /// Removes a file; false if it did not exist.
    pub(super) fn remove(&self, path: &Path) -> Result<bool> {
        match fs::remove_file(path) {
            Ok(()) => self.sync_parent(path).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(io_error("removing", path, &error)),
        }
    }

    /// Removes a file as a step of the commit at `entered`: moves it there, under the name `removed`. After the commit,
    /// a process that was stopped in it does nothing. False if the file is missing.
    pub(super) fn remove_into(&self, path: &Path, entered: &Path, removed: &str) -> Result<bool> {
        let moved = self.move_to(path, &entered.join(removed))?;
        if moved {
            self.sync_parent(path)?;
        }
        Ok(moved)
    }

    /// Creates a directory. An existing directory is not an error.
    ///
    /// # Errors
    /// `NotFound` if its parent is missing.
    pub(super) fn make_directory(&self, path: &Path) -> Result<()> {
        match fs::create_dir(path) {
            Ok(()) => self.sync_parent(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(io_error("making", path, &error)),
        }
    }

    /// Syncs the parent directory of `path`, if the pool is configured so.
    pub(super) fn sync_parent(&self, path: &Path) -> Result<()> {
        match path.parent().filter(|_| self.fsync) {
            None => Ok(()),
            Some(parent) => {
                let synced = File::open(parent).and_then(|directory| directory.sync_all());
                synced.map_err(|error| io_error("syncing", parent, &error))
            }
        }
    }
}

/// Result of moving a directory to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    Done,
    /// The directory that contains the path, or the moved one, is missing.
    NoParent,
    /// There is a directory with content at the path, or a file.
    InUse,
}

/// Moves a directory to a path at which there is nothing, or an empty directory. If several processes do so at the same
/// time, one succeeds.
pub(super) fn move_directory(from: &Path, to: &Path) -> Result<Moved> {
    use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotADirectory, NotFound};
    match fs::rename(from, to).map_err(|error| (error.kind(), error)) {
        Ok(()) => Ok(Moved::Done),
        Err((NotFound, _)) => Ok(Moved::NoParent),
        Err((AlreadyExists | DirectoryNotEmpty | NotADirectory, _)) => Ok(Moved::InUse),
        Err((_, error)) => Err(io_error("renaming to", to, &error)),
    }
}

/// The error of an action on a path.
#[cold]
pub(super) fn io_error(doing: &str, path: &Path, error: &io::Error) -> Error {
    Error::io(format_args!("{doing} {}", path.display()), error)
}

/// Runs `work`, and again after a pause while `is_stale` is true for its error. Another node then replaces or removes
/// files (`ESTALE`), and `work` opens and reads them again each time.
pub(super) fn while_stale<T, E>(
    is_stale: impl Fn(&E) -> bool,
    mut work: impl FnMut() -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    for attempt in 1..STALE_TRIES {
        match work() {
            Err(error) if is_stale(&error) => std::thread::sleep(STALE_PAUSE * attempt),
            outcome => return outcome,
        }
    }
    work()
}

/// True if another node has replaced or removed a file that was read.
pub(super) fn is_stale(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref());
    source.is_some_and(is_stale_handle)
}

fn is_stale_handle(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StaleNetworkFileHandle
}

/// Runs `work` on the file at `path`, again while it is replaced or removed.
pub(super) fn retry<T>(path: &Path, work: impl Fn() -> io::Result<T>) -> io::Result<T> {
    while_stale(is_stale_handle, || noting_stale(path, work()))
}

/// Reads a part of a file. If it was replaced or removed, the next use of its path finds that.
pub(super) fn read_at(file: &File, path: &Path, buffer: &mut [u8], at: u64) -> io::Result<()> {
    noting_stale(path, file.read_exact_at(buffer, at))
}

/// Makes the client look up a path again after an error `ESTALE`: its cached handle is of a file that was replaced.
fn noting_stale<T>(path: &Path, outcome: io::Result<T>) -> io::Result<T> {
    outcome.inspect_err(|error| {
        if is_stale_handle(error) {
            look_up_again(path);
        }
    })
}

/// The content of a file, `None` if it does not exist.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    let read = retry(path, || {
        let mut bytes = Vec::new();
        open_plain(path, false)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    });
    none_if_missing(read).map_err(|error| io_error("reading", path, &error))
}

/// Reads a file to its end, which finds errors of the medium.
pub(super) fn read_through(file: &File, path: &Path) -> Result<()> {
    let mut reader = BufReader::with_capacity(READ_BYTES, file);
    let read = io::copy(&mut reader, &mut io::sink()).map(drop);
    read.map_err(|error| io_error("reading", path, &error))
}

/// Names in a directory that are valid UTF-8; none if the directory does not exist.
pub(super) fn names_in(path: &Path) -> Result<Vec<String>> {
    let names = none_if_missing(retry(path, || esker_os::names_in(path)))
        .map_err(|error| io_error("listing", path, &error))?;
    Ok(names.unwrap_or_default().into_iter().filter_map(|name| name.into_string().ok()).collect())
}

/// Returns the metadata of the file or directory at `path`; None if there is none.
pub(super) fn info(path: &Path) -> Result<Option<fs::Metadata>> {
    let info = retry(path, || fs::metadata(path));
    none_if_missing(info).map_err(|error| io_error("looking at", path, &error))
}

/// True if nothing is at `path`.
pub(super) fn is_missing(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Replaces the errors for a missing file, or a missing directory on its path, by `None`.
pub(super) fn none_if_missing<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(None),
        Err(error) => Err(error),
    }
}

/// The error for a directory that was made again as often as allowed, and was missing each time.
#[cold]
pub(super) fn directory_removed_error(path: &Path) -> Error {
    let message =
        format!("{}: other processes remove its directory again and again: retry", path.display());
    Error::new(ErrorKind::Again, message)
}

/// Removes temporary files that processes left behind long ago. `now` is the time on the file system's clock, since the
/// clock of this machine may differ from it.
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

/// Paths of all entries of a directory; none if it cannot be read.
fn directory(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten();
    entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect()
}

/// True if a file was last changed before `now` by more than [`SWEEP_AGE`].
fn is_old(path: &Path, now: SystemTime) -> bool {
    let touched = fs::symlink_metadata(path).and_then(|info| info.modified());
    touched.is_ok_and(|touched| now.duration_since(touched).is_ok_and(|age| age > SWEEP_AGE))
}

/// Removes a file or directory. If that fails, the next sweep tries again.
pub(super) fn discard(path: &Path) {
    if fs::remove_file(path).is_err() {
        let _ = fs::remove_dir_all(path);
    }
}

/// Writes `parts` to an empty file.
pub(super) fn write_parts(mut file: &File, parts: &[&[u8]]) -> io::Result<()> {
    parts.iter().try_for_each(|part| file.write_all(part))
}

/// The error for content that is not in this format.
#[cold]
pub(super) fn damaged(path: &Path, what: &str) -> Error {
    let message = format!("{}: {what}: restore it, or remove it", path.display());
    Error::new(ErrorKind::Corrupt, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ESTALE` of Linux.
    const STALE: i32 = 116;

    /// Runs work whose first `times` attempts find the file replaced. Returns the number of attempts and the result.
    fn replaced(times: u32) -> (u32, Result<u32>) {
        let attempts = Cell::new(0);
        let outcome = while_stale(is_stale, || {
            attempts.set(attempts.get() + 1);
            match attempts.get() > times {
                true => Ok(times),
                false => {
                    Err(io_error("reading", Path::new("f"), &io::Error::from_raw_os_error(STALE)))
                }
            }
        });
        (attempts.get(), outcome)
    }

    #[test]
    fn reads_of_replaced_files_are_repeated() {
        assert_eq!(replaced(0), (1, Ok(0)));
        assert_eq!(replaced(STALE_TRIES - 1), (STALE_TRIES, Ok(STALE_TRIES - 1)));
        let (attempts, outcome) = replaced(u32::MAX);
        assert_eq!(attempts, STALE_TRIES);
        assert!(is_stale(&outcome.unwrap_err()));
    }

    #[test]
    fn other_errors_are_reported_at_once() {
        let refused = io_error("reading", Path::new("f"), &io::ErrorKind::PermissionDenied.into());
        assert!(!is_stale(&refused));
        let attempts = Cell::new(0);
        let outcome: Result<()> = while_stale(is_stale, || {
            attempts.set(attempts.get() + 1);
            Err(refused.clone())
        });
        assert_eq!((attempts.get(), outcome), (1, Err(refused)));
    }
}
