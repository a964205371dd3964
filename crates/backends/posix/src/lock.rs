//! Locks for files that are read, changed and replaced: a directory next to each, with one entry that names the holder.
//!
//! The lock only orders writers, so that none of them undoes another's change; readers see complete values without it.
//! A change to several objects takes the locks of all of them, in the order of their paths. It expires: its entry is
//! removed if the holder is known to have ended, if it is older than [`LEASE`] by the clock of the file system, or if a
//! process that waits for it finds it unchanged for so long. No two locks have an entry of the same name, so a process
//! that is slow to remove an old one does not remove a new one. A holder that takes long renews its entries.
//!
//! The entry also names the staging directory of the holder, from which a rename makes its change visible. A process
//! that takes over a lock moves that directory away first. So a holder that continues afterwards cannot change
//! anything.
use super::files::{
    self, Files, Moved, Temporary, discard, info, io_error, is_missing, move_directory, read,
};
use super::journal::MAKE_TRIES;
use super::owner;
use super::permissions::Permissions;
use esker_os::{ForkGuard, ForkLock};
use esker_types::{Error, ErrorKind, Result};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Age at which a lock counts as abandoned.
pub(super) const LEASE: Duration = Duration::from_secs(10);
/// Time to wait for a lock before giving up.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(60);
/// First and longest pause between two attempts to take a lock.
pub(super) const PAUSES: (Duration, Duration) =
    (Duration::from_micros(50), Duration::from_millis(5));
/// Number of locks among which the threads of a process are spread, so that they do not contend for lock directories.
const THREAD_LOCKS: usize = 64;
/// The staged file of a change of one file.
const STAGED: &str = "0";
/// Attempts to take a thread lock without a pause.
const SPINS: u32 = 64;

/// Locks among the threads of this process. A forked child starts with free ones.
pub(super) struct ThreadLocks([ForkLock<()>; THREAD_LOCKS]);

impl ThreadLocks {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| ForkLock::new()))
    }

    /// Number of the lock between threads for a path. Several paths may share one.
    fn number_of(path: &Path) -> usize {
        let mut hasher = esker_types::StableHash.build_hasher();
        hasher.write(path.as_os_str().as_encoded_bytes());
        (hasher.finish() % THREAD_LOCKS as u64) as usize
    }

    /// Locks one of the locks between threads, waiting with growing pauses.
    fn lock(&self, number: usize) -> ForkGuard<'_, ()> {
        let (mut attempts, mut pause) = (0, PAUSES.0);
        loop {
            if let Some(guard) = self.0[number].try_lock() {
                return guard;
            }
            attempts += 1;
            if attempts < SPINS {
                std::thread::yield_now();
            } else {
                std::thread::sleep(pause);
                pause = (pause * 2).min(PAUSES.1);
            }
        }
    }
}

/// Locks, released when dropped.
pub(super) struct Locks<'a> {
    /// The locks of the paths.
    held: Vec<LockDirectory>,
    staging: Staging,
    _thread_locks: Vec<ForkGuard<'a, ()>>,
}

/// The directory in which a holder of locks stages its change, removed when dropped.
struct Staging(PathBuf);

impl Drop for Staging {
    fn drop(&mut self) {
        let removed = fs::remove_dir(&self.0);
        if removed.is_err_and(|error| error.kind() == io::ErrorKind::DirectoryNotEmpty) {
            discard(&self.0);
        }
    }
}

/// A directory with the entry of a lock of this process, both removed when dropped. At first it is among the temporary
/// files.
struct LockDirectory {
    path: PathBuf,
    /// Name of the entry, which no other lock has.
    entry: String,
    /// When the entry was made or renewed.
    since: Cell<Duration>,
}

/// End of the names of lock directories.
const SUFFIX: &str = "%lock";

/// Path of the lock directory of `path`; no key or label has this name.
fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(SUFFIX);
    PathBuf::from(name)
}

/// True if a lock directory has this name.
pub(super) fn is_lock(name: &str) -> bool {
    name.ends_with(SUFFIX)
}

/// Returns the time since the machine started. Unlike `Instant`, it includes the time for which the machine is
/// suspended.
fn uptime() -> Duration {
    Duration::from_micros(esker_os::uptime())
}

impl<'a> Locks<'a> {
    /// Waits for the locks on all `paths`, which are in one directory; `None` if that is missing. All processes take
    /// locks in the order of paths, and all threads of a process take their locks in the order of numbers, so none
    /// waits for another forever.
    ///
    /// # Errors
    /// `TimedOut` if others hold one of them for a minute, or take them over again and again.
    pub(super) fn take(
        thread_locks: &'a ThreadLocks,
        files: &Files,
        paths: &BTreeSet<PathBuf>,
    ) -> Result<Option<Self>> {
        let numbers: BTreeSet<_> = paths.iter().map(|path| ThreadLocks::number_of(path)).collect();
        let thread_locks: Vec<_> =
            numbers.into_iter().map(|number| thread_locks.lock(number)).collect();
        let directory = paths.first().and_then(|path| path.parent());
        let permissions = directory.map(Permissions::read).transpose()?.flatten();
        let (Some(permissions), Some(first)) = (permissions, paths.first()) else {
            return Ok(None);
        };
        let begun = Instant::now();
        while begun.elapsed() < WAIT_MAX {
            let Some((held, staging)) = hold_all(files, permissions, paths)? else {
                return Ok(None);
            };
            // The first one may have been taken over while the last one was busy.
            held.iter().for_each(LockDirectory::renew);
            if held.iter().all(|lock| lock.check().is_ok()) {
                return Ok(Some(Self { held, staging, _thread_locks: thread_locks }));
            }
        }
        Err(locked_error(first))
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

    /// Renews the locks that were last renewed more than a quarter of [`LEASE`] ago. Long work calls this repeatedly,
    /// so that its locks do not expire.
    pub(super) fn renew(&self) {
        self.held.iter().for_each(LockDirectory::renew);
    }

    /// Fails if another process has taken over a lock.
    ///
    /// # Errors
    /// `Again`: nothing was changed.
    pub(super) fn check(&self) -> Result<()> {
        self.held.iter().try_for_each(LockDirectory::check)
    }

    /// The directory in which to stage a change that a rename makes visible.
    pub(super) fn staging(&self) -> &Path {
        &self.staging.0
    }

    /// Runs `work`, which stages a change or makes it visible. Maps its error if another process has moved the staging
    /// directory away.
    ///
    /// # Errors
    /// `Again` in that case; the errors of `work`.
    pub(super) fn guard<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        work().map_err(|error| match is_missing(&self.staging.0) {
            true => self.lost(),
            false => error,
        })
    }

    /// Replaces a file, whose directory `make_parent` creates if it is missing.
    ///
    /// # Errors
    /// `Again` if another process has taken over a lock; the errors of `make_parent` and of the file system.
    pub(super) fn replace(
        &self,
        files: &Files,
        path: &Path,
        content: &[u8],
        make_parent: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let staged = self.staging.0.join(STAGED);
        self.guard(|| files.write_new(&staged, content))?;
        self.check()?;
        for _ in 0..MAKE_TRIES {
            if files.move_to(&staged, path)? {
                return Ok(());
            }
            match (is_missing(&staged), is_missing(&self.staging.0)) {
                (_, true) => return Err(self.lost()),
                // A server may execute a rename twice if its first reply was lost.
                (true, false) => return files.sync_parent(path),
                (false, false) => make_parent()?,
            }
        }
        Err(files::directory_removed_error(path))
    }

    /// Removes a file, if it exists: moves it to the staging directory.
    ///
    /// # Errors
    /// `Again` if another process has taken over a lock; errors of the file system.
    pub(super) fn remove(&self, files: &Files, path: &Path) -> Result<()> {
        let staged = self.staging.0.join(STAGED);
        self.check()?;
        if files.move_to(path, &staged)? || !is_missing(&staged) {
            let _ = fs::remove_file(&staged);
            return files.sync_parent(path);
        }
        match is_missing(&self.staging.0) {
            true => Err(self.lost()),
            false => Ok(()),
        }
    }

    /// The error of a holder whose lock was taken over: nothing was changed.
    #[cold]
    pub(super) fn lost(&self) -> Error {
        expired_error(self.held.first().map_or(&self.staging.0, |lock| &lock.path))
    }
}

/// Takes the locks on all `paths`, and makes the directory in which their holder stages its change. `None` if their
/// directory is missing.
fn hold_all(
    files: &Files,
    permissions: Permissions,
    paths: &BTreeSet<PathBuf>,
) -> Result<Option<(Vec<LockDirectory>, Staging)>> {
    // It exists before the locks name it: a process that does not find it concludes that nothing can be renamed from
    // it.
    let staging = Staging(files.temporary_directory(permissions)?);
    let entry = entry_name(&files.name_of(&staging.0));
    let mut held = Vec::with_capacity(paths.len());
    for path in paths {
        let taken = LockDirectory::take(files, permissions, path, &entry)?;
        let Some(lock) = taken else { return Ok(None) };
        held.push(lock);
    }
    Ok(Some((held, staging)))
}

impl LockDirectory {
    /// Takes the lock of `path` when no other process has it, under the name `entry`; `None` if the directory of `path`
    /// is missing.
    fn take(
        files: &Files,
        permissions: Permissions,
        path: &Path,
        entry: &str,
    ) -> Result<Option<Self>> {
        let (path, begun) = (lock_path(path), Instant::now());
        let (mut pause, mut seen) = (PAUSES.0, Seen::default());
        while begun.elapsed() < WAIT_MAX {
            // Created again for each attempt: the lock's age counts from the creation of the entry.
            let mut own = Self::create(files, permissions, entry)?;
            match own.place(&path)? {
                Moved::Done => return Ok(Some(own)),
                Moved::NoParent => return Ok(None),
                Moved::InUse => remove_left(files, &path, &own.info()?, &mut seen)?,
            }
            drop(own);
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSES.1);
        }
        Err(locked_error(&path))
    }

    /// Creates a directory with an entry, among the temporary files.
    fn create(files: &Files, permissions: Permissions, entry: &str) -> Result<Self> {
        let since = Cell::new(uptime());
        let path = files.temporary_directory(permissions)?;
        let own = Self { path, entry: entry.to_owned(), since };
        let created = File::create_new(own.entry_path());
        created.map_err(|error| io_error("making", &own.entry_path(), &error))?;
        Ok(own)
    }

    /// Moves the directory to its place. A server may execute the rename twice if its first reply was lost.
    fn place(&mut self, path: &Path) -> Result<Moved> {
        let moved = move_directory(&self.path, path)?;
        let placed = moved == Moved::Done || fs::symlink_metadata(path.join(&self.entry)).is_ok();
        if !placed {
            return Ok(moved);
        }
        path.clone_into(&mut self.path);
        Ok(Moved::Done)
    }

    fn entry_path(&self) -> PathBuf {
        self.path.join(&self.entry)
    }

    /// Metadata of the entry, whose time is that of the lock.
    fn info(&self) -> Result<Metadata> {
        let path = self.entry_path();
        fs::metadata(&path).map_err(|error| io_error("looking at", &path, &error))
    }

    /// Sets the time of the lock anew if a quarter of [`LEASE`] has passed, so that other nodes do not take it for
    /// abandoned.
    fn renew(&self) {
        let now = uptime();
        if now.saturating_sub(self.since.get()) > LEASE / 4 {
            // Fails if the lock was taken over.
            let _ = esker_os::touch(&self.entry_path());
            self.since.set(now);
        }
    }

    /// Fails if another process has taken over the lock.
    fn check(&self) -> Result<()> {
        match info(&self.entry_path())? {
            Some(_) => Ok(()),
            None => Err(expired_error(&self.path)),
        }
    }
}

#[cold]
fn expired_error(lock: &Path) -> Error {
    let message =
        format!("{}: the change took longer than its lock is valid: retry", lock.display());
    Error::new(ErrorKind::Again, message)
}

impl Drop for LockDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.entry_path());
        // Fails if the lock was taken over.
        let _ = fs::remove_dir(&self.path);
    }
}

/// Name of the entry of a lock of this process: its line, with other separators, and the name of the staging directory.
fn entry_name(staging: &str) -> String {
    let line = owner::own().replace(['/', ' '], "_");
    format!("{line}_{staging}")
}

/// The line of the process that made an entry, and the name of its staging directory; both empty if they are not known.
/// A process without `/proc` has no line.
fn parse_entry(entry: &str) -> (String, &str) {
    let Some(line) = entry.rsplitn(3, '_').nth(2) else { return (String::new(), "") };
    let staging = &entry[line.len() + 1..];
    match line.splitn(4, '_').collect::<Vec<_>>()[..] {
        [boot, space, process, start] => (format!("{boot}/{space} {process} {start}"), staging),
        _ => (String::new(), staging),
    }
}

/// The entries of a lock with the times at which they were made or renewed, as a waiting process finds them again and
/// again.
#[derive(Default)]
struct Seen(Option<(Duration, Entries)>);

type Entries = Vec<(String, SystemTime)>;

impl Seen {
    /// Compares the entries of a lock at time `now` with those noted before. True if they have not changed for longer
    /// than [`LEASE`]: their owner would have renewed them, so the lock has expired. The time of this machine alone
    /// counts, because the clocks of nodes may differ.
    fn note(&mut self, found: &Entries, now: Duration) -> bool {
        match &self.0 {
            Some((since, before)) if before == found => now.saturating_sub(*since) > LEASE,
            _ => {
                self.0 = Some((now, found.clone()));
                false
            }
        }
    }
}

/// Removes the entry of a lock whose owner has ended or which has expired. `fresh` belongs to a file that was just
/// made, and shows the time of the file system. If the removal is not permitted, its owner, or another user, does it.
fn remove_left(files: &Files, lock: &Path, fresh: &Metadata, seen: &mut Seen) -> Result<()> {
    let entries = entries_of(lock)?;
    let is_stuck = seen.note(&entries, uptime());
    for (entry, modified) in entries {
        let (path, (owner, staging)) = (lock.join(&entry), parse_entry(&entry));
        let has_ended = owner::has_ended(&owner);
        // An owner that has ended renames nothing any more.
        if (has_ended || is_stuck || is_old(modified, time(lock, fresh)?))
            && (files.withdraw(staging).is_ok() || has_ended)
        {
            let _ = fs::remove_file(path);
        }
    }
    // Some file systems cannot replace an empty directory.
    let _ = fs::remove_dir(lock);
    remove_left_file(lock, fresh)
}

/// Entries of a lock's directory, with their times.
fn entries_of(lock: &Path) -> Result<Entries> {
    let mut entries = Entries::new();
    for name in files::names_in(lock).unwrap_or_default() {
        if let Some(found) = info(&lock.join(&name))? {
            entries.push((name, time(lock, &found)?));
        }
    }
    Ok(entries)
}

/// Removes a lock file, the lock of earlier releases, if its owner has ended or it has expired. `fresh` is as in
/// [`remove_left`].
fn remove_left_file(lock: &Path, fresh: &Metadata) -> Result<()> {
    let Some(found) = info(lock)?.filter(Metadata::is_file) else { return Ok(()) };
    let line = read(lock)?.unwrap_or_default();
    let has_ended = owner::has_ended(&String::from_utf8_lossy(&line));
    if has_ended || is_old(time(lock, &found)?, time(lock, fresh)?) {
        let _ = fs::remove_file(lock);
    }
    Ok(())
}

/// True if a lock was made or renewed longer than [`LEASE`] before a new file.
fn is_old(modified: SystemTime, fresh: SystemTime) -> bool {
    fresh.duration_since(modified).is_ok_and(|age| age > LEASE)
}

/// The time at which a file was last changed.
fn time(path: &Path, info: &Metadata) -> Result<SystemTime> {
    info.modified().map_err(|error| io_error("looking at", path, &error))
}

/// Time at which a temporary file was last changed, by the clock of the file system.
pub(super) fn time_of(file: &Temporary) -> Result<SystemTime> {
    let time = fs::metadata(&file.path).and_then(|info| info.modified());
    time.map_err(|error| io_error("looking at", &file.path, &error))
}

#[cold]
pub(super) fn locked_error(path: &Path) -> Error {
    let message = format!(
        "{}: locked by another process: retry, or remove it if its owner no longer runs",
        path.display()
    );
    Error::new(ErrorKind::TimedOut, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with an object `o`, removed when the test ends.
    struct Site(PathBuf);

    impl Site {
        fn new(name: &str) -> Self {
            let name = format!("esker-lock-{name}-{}", std::process::id());
            let site = Self(std::env::temp_dir().join(name));
            fs::create_dir(&site.0).unwrap();
            site
        }

        /// The files of another opening.
        fn files(&self) -> Files {
            Files::new(&self.0, &esker_os::random_uuid().unwrap().to_string(), false)
        }

        /// Takes the lock as another process does.
        fn take(&self) -> Locks<'static> {
            let thread_locks = Box::leak(Box::new(ThreadLocks::new()));
            Locks::take_one(thread_locks, &self.files(), self.0.join("o")).unwrap().unwrap()
        }

        /// Makes the lock of a process that is stopped look expired, and takes it over.
        fn take_over(&self, stopped: &Locks<'_>) -> Locks<'static> {
            let entry = File::open(stopped.held[0].entry_path()).unwrap();
            let long_ago = SystemTime::now() - LEASE * 3;
            entry.set_modified(long_ago).unwrap();
            self.take()
        }

        /// Leaves a lock of a process that has ended. Returns the path of its entry.
        fn leave(&self) -> PathBuf {
            let lock = self.0.join("o%lock");
            fs::create_dir(&lock).unwrap();
            let line = owner::ended().replace(['/', ' '], "_");
            let entry = lock.join(format!("{line}_elsewhere_1-2"));
            File::create_new(&entry).unwrap();
            entry
        }
    }

    impl Drop for Site {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// The name of an entry has the owner's line and the staging directory. An owner that is unknown is an empty line.
    #[test]
    fn entries_name_their_owner_and_its_staging_directory() {
        let entry = entry_name("session_1-2");
        assert_eq!(parse_entry(&entry), (owner::own().to_owned(), "session_1-2"));
        assert!(entry_name(&format!("{}_1-2", "u".repeat(36))).len() < 200);
        let left = owner::ended().replace(['/', ' '], "_");
        assert!(owner::has_ended(&parse_entry(&format!("{left}_session_1-2")).0));
        assert_eq!(parse_entry("_session_1-2"), (String::new(), "session_1-2"));
        assert_eq!(parse_entry("unknown"), (String::new(), ""));
    }

    /// A server executes a rename, and its reply is lost: the second attempt does not find the file any more.
    #[test]
    fn rename_whose_reply_was_lost_has_happened() {
        let site = Site::new("twice");
        let (files, file) = (site.files(), site.0.join("new/file"));
        let held = site.take();
        let executed = || {
            fs::create_dir(site.0.join("new")).unwrap();
            fs::rename(held.staging().join(STAGED), &file).unwrap();
            Ok(())
        };
        held.replace(&files, &file, b"value", executed).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"value");
        fs::rename(&file, held.staging().join(STAGED)).unwrap();
        held.remove(&files, &file).unwrap();
        assert!(is_missing(&held.staging().join(STAGED)));
        let temporary = files.temporary(|_| Ok(())).unwrap();
        fs::rename(&temporary.path, &file).unwrap();
        assert!(files.replace(&temporary, &file).unwrap());
    }

    /// A forked child that ends removes the directory for temporary files while it is empty.
    #[test]
    fn directory_of_a_session_may_vanish_at_any_time() {
        let site = Site::new("vanish");
        let files = site.files();
        let model = Permissions::read(&site.0).unwrap().unwrap();
        for _ in 0..3 {
            fs::remove_dir(files.temporary_directory(model).unwrap()).unwrap();
            files.end_session();
        }
        let vanished = Cell::new(0);
        let (path, ()) = files
            .fresh(|path| {
                if vanished.replace(vanished.get() + 1) < 5 {
                    files.end_session();
                }
                File::create_new(path).map(drop).map_err(|error| io_error("making", path, &error))
            })
            .unwrap();
        assert!(path.exists() && vanished.get() > 5);
    }

    /// The lock of a process that had no `/proc` names its staging directory, so it expires like others.
    #[test]
    fn lock_of_an_unknown_process_is_taken_over() {
        let site = Site::new("unknown");
        let (files, lock) = (site.files(), site.0.join("o%lock"));
        let model = Permissions::read(&site.0).unwrap().unwrap();
        let staging = files.temporary_directory(model).unwrap();
        fs::create_dir(&lock).unwrap();
        let entry = lock.join(format!("_{}", files.name_of(&staging)));
        File::create_new(&entry).unwrap().set_modified(SystemTime::now() - LEASE * 3).unwrap();
        drop(site.take());
        assert!(!staging.exists() && !lock.exists());
    }

    /// The clock of a node that made a lock and ended is ahead. Others wait until the lock has been the same for long
    /// enough.
    #[test]
    fn unchanged_lock_expires_whatever_its_time() {
        let (name, later) = ("entry".to_owned(), SystemTime::now() + LEASE * 100);
        let entries = vec![(name.clone(), later)];
        let (mut seen, second) = (Seen::default(), Duration::from_secs(1));
        assert!(!seen.note(&entries, second) && !seen.note(&entries, second + LEASE));
        assert!(seen.note(&entries, second * 2 + LEASE));
        let renewed = vec![(name, later + second)];
        assert!(!seen.note(&renewed, second * 3 + LEASE));
    }

    /// A change that takes long is refused only if another process has taken its lock over.
    #[test]
    fn old_lock_that_nobody_wants_is_valid() {
        let site = Site::new("slow");
        let (files, file) = (site.files(), site.0.join("file"));
        let held = site.take();
        let (lock, long_ago) = (&held.held[0], SystemTime::now() - LEASE * 3);
        lock.since.set(lock.since.get().saturating_sub(LEASE * 3));
        File::open(lock.entry_path()).unwrap().set_modified(long_ago).unwrap();
        held.renew();
        let fresh = held.held[0].info().unwrap();
        assert!(!is_old(fresh.modified().unwrap(), SystemTime::now()));
        lock.since.set(lock.since.get().saturating_sub(LEASE * 3));
        held.replace(&files, &file, b"slow", || Ok(())).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"slow");
    }

    /// A process finds a lock of a dead one, and is stopped before it removes the entry. Meanwhile another one takes
    /// the lock over and releases it, and a third one takes it.
    #[test]
    fn late_take_over_leaves_a_new_lock_alone() {
        let site = Site::new("late");
        let left = site.leave();
        drop(site.take());
        assert!(!left.exists() && !site.0.join("o%lock").exists());
        let held = site.take();
        let _ = fs::remove_file(&left);
        let _ = fs::remove_dir(site.0.join("o%lock"));
        held.check().unwrap();
        let fresh = held.held[0].info().unwrap();
        let lock = site.0.join("o%lock");
        remove_left(&site.files(), &lock, &fresh, &mut Seen::default()).unwrap();
        held.check().unwrap();
    }

    #[test]
    fn holder_whose_lock_was_taken_over_is_refused() {
        let site = Site::new("over");
        let held = site.take();
        let other = site.take_over(&held);
        assert_eq!(held.check().unwrap_err().kind(), ErrorKind::Again);
        drop(held);
        other.check().unwrap();
        drop(other);
        assert!(!site.0.join("o%lock").exists());
    }

    /// A process is stopped between its check and the rename, for longer than its lock is valid.
    #[test]
    fn stopped_holder_renames_nothing_when_it_continues() {
        let site = Site::new("stopped");
        let (files, file) = (site.files(), site.0.join("file"));
        let none = || Ok(());
        site.take().replace(&files, &file, b"old", none).unwrap();
        let held = site.take();
        let staged = held.staging().join("staged");
        files.write_new(&staged, b"late").unwrap();
        let other = site.take_over(&held);
        other.replace(&files, &file, b"new", none).unwrap();
        assert!(!files.move_to(&staged, &file).unwrap(), "a late rename");
        assert!(!files.move_to(&file, &held.staging().join("gone")).unwrap(), "a late removal");
        let late = held.guard(|| files.write_new(&staged, b"x"));
        assert_eq!(late.unwrap_err().kind(), ErrorKind::Again);
        drop((held, other));
        assert_eq!(fs::read(&file).unwrap(), b"new");
        site.take().remove(&files, &file).unwrap();
        site.take().remove(&files, &file).unwrap();
        assert!(!file.exists());
    }

    /// Earlier releases made a file with the owner's line, instead of a directory.
    #[test]
    fn lock_files_of_earlier_releases_are_taken_over() {
        let site = Site::new("file");
        fs::write(site.0.join("o%lock"), owner::ended()).unwrap();
        drop(site.take());
        assert!(!site.0.join("o%lock").exists());
    }
}
