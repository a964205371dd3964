//! Changes of several files that take effect together: a redo journal (docs/format.md, "The journal").
//!
//! A commit stages the new files and a record of all its steps in a directory of its own, and reserves what the steps
//! need. Then it renames that directory into the journal of the container: this is the commit. Then it moves the staged
//! files to their places, replaces the commit marks of its objects, and takes its directory out of the journal. A
//! reader that finds a directory of its object in the journal waits until it is gone, and reads again; so does one that
//! finds another mark than before. If the process has died, the next process that finds the directory completes it: it
//! gives the directory another name first. Each staged file can be moved only once, and a removed file is moved into
//! the directory. So a process that was stopped in between finds neither under the name that it knows, and changes
//! nothing later.
use super::array::{ArrayFiles, CommitStep};
use super::array_plan::ArrayStep;
use super::container::{Container, PoolDirectory, destroyed};
use super::files::{self, Files, damaged, discard, io_error, is_missing};
use super::form::Object;
use super::lock::{LEASE, Locks, PAUSES, WAIT_MAX, locked_error};
use super::owner;
use super::permissions::Permissions;
use super::plan::{Plan, Step};
use super::reservations::Reservations;
use esker_backend::encoding::{Parts, begin, finish, put_bytes, put_oid, put_u32};
use esker_backend::handles::gone;
use esker_os::look_up_again;
use esker_types::{Error, ErrorKind, ObjectId, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

const MAGIC: &[u8; 8] = b"ESKRJRNL";
/// The journal of a container.
const JOURNAL: &str = "journal";
/// The file with the steps, among the staged files.
pub(super) const RECORD: &str = "record";
/// The directory of a container with its commit marks.
const MARKS: &str = "commits";
/// Number of marks among which the objects of a container are spread.
const MARK_COUNT: u64 = 64;
/// Attempts to make a directory that others remove while it is empty, as the journal's.
pub(super) const MAKE_TRIES: u32 = 1000;

/// Number of headings of commits that a process remembers for a container.
const HEADINGS_MAX: usize = 64;

/// Kinds of steps in a record.
const PLACE: u32 = 0;
const REMOVE: u32 = 1;
const ARRAY: u32 = 2;

/// A commit in the journal.
#[derive(Debug, PartialEq, Eq)]
struct Record {
    /// The line of its process, as in lock files.
    owner: String,
    /// The objects that it changes.
    oids: BTreeSet<ObjectId>,
    steps: Vec<Entry>,
}

/// A step as recorded.
#[derive(Debug, PartialEq, Eq)]
enum Entry {
    /// Moves the staged file with the number of the step to this path in the container.
    Place(String),
    /// Removes the file at this path in the container.
    Remove(String),
    /// Changes an Array.
    Array(ObjectId, ArrayStep),
}

/// The part of a record by which others see whether to wait for the commit.
pub(super) struct Heading {
    /// The line of its process.
    owner: String,
    /// The objects that it changes.
    oids: BTreeSet<ObjectId>,
}

/// Headings of commits that this process has read, by the paths of their directories. These have random names, so a
/// path never belongs to another commit.
pub(super) type Headings = BTreeMap<PathBuf, Arc<Heading>>;

impl Record {
    /// The record as the content of a file.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = begin(MAGIC);
        put_bytes(&mut out, self.owner.as_bytes());
        put_u32(&mut out, self.oids.len() as u32);
        self.oids.iter().for_each(|oid| put_oid(&mut out, *oid));
        put_u32(&mut out, self.steps.len() as u32);
        self.steps.iter().for_each(|step| step.put(&mut out));
        finish(out)
    }

    /// Decodes the content of a record's file; `None` if it is damaged.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut parts = Parts::open(MAGIC, bytes)?;
        let owner = String::from_utf8(parts.bytes()?.to_vec()).ok()?;
        let count = parts.u32()?;
        let oids = (0..count).map(|_| parts.oid()).collect::<Option<_>>()?;
        let count = parts.u32()?;
        let steps = (0..count).map(|_| Entry::take(&mut parts)).collect::<Option<_>>()?;
        Some(Self { owner, oids, steps })
    }
}

impl Entry {
    /// Appends the encoded step to `out`.
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Place(path) => {
                put_u32(out, PLACE);
                put_bytes(out, path.as_bytes());
            }
            Self::Remove(path) => {
                put_u32(out, REMOVE);
                put_bytes(out, path.as_bytes());
            }
            Self::Array(oid, step) => {
                put_u32(out, ARRAY);
                put_oid(out, *oid);
                step.put(out);
            }
        }
    }

    /// Decodes a step; `None` if it is damaged, or leads out of the container.
    fn take(parts: &mut Parts<'_>) -> Option<Self> {
        Some(match parts.u32()? {
            PLACE => Self::Place(inner_path(parts.bytes()?)?),
            REMOVE => Self::Remove(inner_path(parts.bytes()?)?),
            ARRAY => Self::Array(parts.oid()?, ArrayStep::take(parts)?),
            _ => return None,
        })
    }
}

/// The path of a file of an object, relative to the container; `None` if it leads elsewhere.
fn inner_path(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut parts = Path::new(text).components();
    let two = [parts.next()?, parts.next()?];
    let inside = two.iter().all(|part| matches!(part, Component::Normal(_)));
    (inside && parts.next().is_none()).then(|| text.to_owned())
}

/// Name of the commit mark of an object: a symbolic link, whose target is the UUID of the last commit of several files
/// that changed an object with this mark. It leads nowhere.
fn mark_name(oid: ObjectId) -> String {
    format!("{:02x}", (oid.hi ^ oid.lo) % MARK_COUNT)
}

/// The journal of a container.
pub(super) struct Journal<'a> {
    pub(super) directory: &'a PoolDirectory,
    pub(super) container: &'a Container,
}

impl Journal<'_> {
    fn files(&self) -> &Files {
        &self.directory.files
    }

    fn path(&self) -> PathBuf {
        self.container.dir.join(JOURNAL)
    }

    /// Carries out a plan under the locks of its objects: completely, or, if it fails before the commit, not at all. A
    /// plan that changes one file needs no journal, since files are replaced atomically.
    ///
    /// # Errors
    /// `Again` if the locks have expired; errors of the file system.
    pub(super) fn carry_out(&self, locks: &Locks<'_>, plan: Plan) -> Result<()> {
        match plan.steps.as_slice() {
            // The plan depends on data that was read under the locks.
            [] => locks.check(),
            [Step::Place { path, content }] => {
                locks.replace(self.files(), path, content, || self.make_parent(path))
            }
            [Step::Remove { path }] => locks.remove(self.files(), path),
            _ => {
                let (record, permissions) = (self.record_of(&plan)?, self.permissions()?);
                let staged = locks.staging();
                let renew = || locks.renew();
                locks.guard(|| self.stage(&plan, &record, staged, permissions, renew))?;
                locks.check()?;
                let entered = self.enter(staged, permissions)?.ok_or_else(|| locks.lost())?;
                self.apply_all(&entered, &record, || ()).map_err(|error| not_applied_error(&error))
            }
        }
    }

    /// Creates the directory of a file. Fails if the container was destroyed.
    fn make_parent(&self, path: &Path) -> Result<()> {
        let parent = path.parent().unwrap_or(path);
        self.files().make_directory(parent).map_err(destroyed)
    }

    /// The record of a commit: what its steps do, without the content of files, which is staged beside it.
    fn record_of(&self, plan: &Plan) -> Result<Record> {
        let inner = |path: &Path| {
            let inner = path.strip_prefix(&self.container.dir).ok().and_then(Path::to_str);
            inner.map(str::to_owned).ok_or_else(|| damaged(path, "a file outside its container"))
        };
        let steps = plan.steps.iter().map(|step| {
            Ok(match step {
                Step::Place { path, .. } => Entry::Place(inner(path)?),
                Step::Remove { path } => Entry::Remove(inner(path)?),
                Step::Array { oid, step } => Entry::Array(*oid, step.clone()),
            })
        });
        let steps = steps.collect::<Result<_>>()?;
        Ok(Record { owner: owner::own().to_owned(), oids: plan.written.clone(), steps })
    }

    /// Permissions of the container, which its files get.
    fn permissions(&self) -> Result<Permissions> {
        Permissions::read(&self.container.dir)?.ok_or_else(gone)
    }

    /// Writes the new files, the record and the marks to a new directory outside the journal, and reserves what the
    /// steps need. Calls `after_each` after each file.
    fn stage(
        &self,
        plan: &Plan,
        record: &Record,
        staged: &Path,
        permissions: Permissions,
        after_each: impl Fn(),
    ) -> Result<()> {
        let (files, path) = (self.files(), staged.join(RECORD));
        for (number, step) in plan.steps.iter().enumerate() {
            if let Step::Place { content, .. } = step {
                files.write_new(&staged.join(number.to_string()), content)?;
                after_each();
            }
        }
        self.make_marks(permissions)?;
        stage_marks(&record.oids, staged)?;
        files.write_new(&path, &record.to_bytes())?;
        let file = File::open(&path).map_err(|error| io_error("opening", &path, &error))?;
        permissions.give_to_file(&file, &path)?;
        after_each();
        self.reserve(plan, staged)?;
        files.sync_parent(&path)
    }

    /// Reserves what the steps need. This comes last, because space in existing files stays reserved if anything fails
    /// later.
    fn reserve(&self, plan: &Plan, staged: &Path) -> Result<()> {
        let mut reservations = Reservations::new(self.files());
        plan.steps.iter().enumerate().try_for_each(|(number, step)| match step {
            Step::Place { path, .. } | Step::Remove { path } => {
                reservations.ensure_directory_writable(path)
            }
            Step::Array { oid, step } => {
                let file = staged.join(number.to_string());
                reservations.reserve_for_array(&self.array(*oid), step, file)
            }
        })
    }

    /// The files of an Array of the container.
    fn array(&self, oid: ObjectId) -> ArrayFiles<'_> {
        ArrayFiles(Object::new(self.directory, self.container, oid))
    }

    /// Makes sure that there is a directory of marks, in which names can be changed.
    fn make_marks(&self, permissions: Permissions) -> Result<()> {
        let marks = self.container.dir.join(MARKS);
        match esker_os::check_may_change(&marks) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                permissions.ensure_directory(self.files(), &marks)
            }
            checked => checked.map_err(|error| io_error("changing names in", &marks, &error)),
        }
    }

    /// Returns the commit mark of an object: the target of a symbolic link that a commit of several files replaces for
    /// each object it changes. A reader compares the marks from before and after its read. Objects may share a mark, so
    /// a commit of another object may replace it, too.
    pub(super) fn mark(&self, oid: ObjectId) -> Result<Option<PathBuf>> {
        let path = self.container.dir.join(MARKS).join(mark_name(oid));
        let mark = files::none_if_missing(files::retry(&path, || fs::read_link(&path)));
        mark.map_err(|error| io_error("reading", &path, &error))
    }

    /// Commits: moves the staged directory into the journal. Returns its new path; `None` if another process has moved
    /// the staged directory away, because it has taken over a lock.
    fn enter(&self, staged: &Path, permissions: Permissions) -> Result<Option<PathBuf>> {
        let path = self.path().join(esker_os::random_uuid()?.to_string());
        for _ in 0..MAKE_TRIES {
            let moved = self.files().move_to(staged, &path);
            // A server may execute a rename twice if its first reply was lost; or the directory could not be synced.
            match moved {
                Ok(true) => return Ok(Some(path)),
                Ok(false) if files::info(&path)?.is_some() => return Ok(Some(path)),
                Ok(false) if files::info(staged)?.is_none() => return Ok(None),
                Ok(false) => permissions.ensure_directory(self.files(), &self.path())?,
                Err(error) if fs::metadata(&path).is_ok() => return Err(not_applied_error(&error)),
                Err(error) => return Err(error),
            }
        }
        Err(files::directory_removed_error(&self.path()))
    }

    /// Applies all steps of a commit, and removes the commit from the journal. Calls `after_each` after each step. Has
    /// no further effect once another process has taken the commit over.
    fn apply_all(&self, entered: &Path, record: &Record, after_each: impl Fn()) -> Result<()> {
        for number in 0..record.steps.len() {
            self.apply(entered, record, number)?;
            after_each();
        }
        self.leave(entered, record)
    }

    /// Applies a step, unless it was applied before.
    fn apply(&self, entered: &Path, record: &Record, number: usize) -> Result<()> {
        let commit = CommitStep { entered, number };
        match &record.steps[number] {
            Entry::Place(path) => self.place(&commit.staged(), &self.container.dir.join(path)),
            Entry::Remove(path) => {
                let (path, removed) = (self.container.dir.join(path), format!("removed-{number}"));
                self.files().remove_into(&path, entered, &removed).map(drop)
            }
            Entry::Array(oid, step) => self.array(*oid).apply(step, &commit),
        }
    }

    /// Moves a staged file or mark to its place, unless that was done before.
    fn place(&self, staged: &Path, path: &Path) -> Result<()> {
        for _ in 0..MAKE_TRIES {
            if self.files().move_to(staged, path)? || is_missing(staged) {
                return Ok(());
            }
            // A punch outside transactions has removed the directory.
            self.make_parent(path)?;
        }
        Err(files::directory_removed_error(path))
    }

    /// Moves the marks that a commit has staged to their place.
    fn place_marks(&self, entered: &Path, record: &Record) -> Result<()> {
        let names: BTreeSet<_> = record.oids.iter().map(|oid| mark_name(*oid)).collect();
        let marks = self.container.dir.join(MARKS);
        names
            .iter()
            .try_for_each(|name| self.place(&entered.join(staged_mark(name)), &marks.join(name)))
    }

    /// Takes a commit that is applied out of the journal. A reader that does not find it there any more finds its
    /// marks. A server may execute the rename twice if its first reply was lost, so the commit may be at its new path
    /// already.
    fn leave(&self, entered: &Path, record: &Record) -> Result<()> {
        self.place_marks(entered, record)?;
        for _ in 0..MAKE_TRIES {
            let done = self.files().fresh_path();
            if self.files().move_to(entered, &done)? || !is_missing(&done) {
                self.files().sync_parent(entered)?;
                discard(&done);
            } else if !is_missing(entered) {
                self.files().make_session()?;
                continue;
            }
            // Fails if there are other commits.
            let _ = fs::remove_dir(self.path());
            return Ok(());
        }
        Err(files::directory_removed_error(&self.path()))
    }

    /// Completes a commit whose process has died, or whose locks have expired.
    fn complete(&self, entered: &Path) -> Result<()> {
        let locks = &self.directory.journal_locks;
        let Some(lock) = Locks::take_one(locks, self.files(), self.path())? else {
            return Err(gone());
        };
        let Some((taken, record)) = self.take_over(entered)? else { return Ok(()) };
        self.fence(&taken, &record, &lock)?;
        self.apply_all(&taken, &record, || lock.renew())
    }

    /// Gives a commit another name. The process that has applied it so far finds nothing under the old one, so it
    /// repeats no step while this process repeats all, and does not take the commit out of the journal. `None` if the
    /// commit is not there any more.
    fn take_over(&self, entered: &Path) -> Result<Option<(PathBuf, Record)>> {
        let taken = self.path().join(esker_os::random_uuid()?.to_string());
        // A server may execute a rename twice if its first reply was lost.
        if !self.files().move_to(entered, &taken)? && is_missing(&taken) {
            return Ok(None);
        }
        let record = read_record(&taken)?;
        if let Some(record) = &record {
            // The marks may have been placed before: a reader must notice that steps on Arrays are repeated.
            stage_marks(&record.oids, &taken)?;
        }
        Ok(record.map(|record| (taken, record)))
    }

    /// The process and the objects of a commit; `None` if it has left the journal. They are read once per process,
    /// because a record may be large, and every read of an object looks at all commits.
    fn heading(&self, entered: &Path) -> Result<Option<Arc<Heading>>> {
        if let Some(heading) = self.container.headings.lock().get(entered) {
            return Ok(Some(Arc::clone(heading)));
        }
        let Some(record) = read_record(entered)? else { return Ok(None) };
        let heading = Arc::new(Heading { owner: record.owner, oids: record.oids });
        let mut headings = self.container.headings.lock();
        if headings.len() >= HEADINGS_MAX {
            headings.clear();
        }
        headings.insert(entered.to_owned(), Arc::clone(&heading));
        Ok(Some(heading))
    }

    /// Completes the commits that concern `oids`. The caller has the locks of these objects, so that their processes
    /// have died.
    pub(super) fn complete_left(&self, oids: &BTreeSet<ObjectId>) -> Result<()> {
        let (begun, mut pause) = (Instant::now(), PAUSES.0);
        while begun.elapsed() < WAIT_MAX {
            let mut is_settled = true;
            for entered in self.entered()? {
                match self.heading(&entered)? {
                    // It has left the journal, or another process has taken it over.
                    None => is_settled = false,
                    Some(heading) if heading.oids.is_disjoint(oids) => {}
                    Some(_) => {
                        self.complete(&entered)?;
                        is_settled = false;
                    }
                }
            }
            if is_settled {
                return Ok(());
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSES.1);
        }
        Err(locked_error(&self.path()))
    }

    /// Completes the commits of dead processes, and waits for commits of other processes that are in the journal at
    /// this time.
    pub(super) fn wait_for_all(&self) -> Result<()> {
        for entered in self.entered()? {
            if let Some(heading) = self.heading(&entered)? {
                self.wait_for(&entered, &heading)?;
            }
        }
        Ok(())
    }

    /// Waits until no commit in the journal concerns an object. Fails after [`WAIT_MAX`].
    pub(super) fn settle(&self, oid: ObjectId) -> Result<()> {
        let (begun, mut pause) = (Instant::now(), PAUSES.0);
        while !self.is_settled(oid)? {
            if begun.elapsed() > WAIT_MAX {
                return Err(locked_error(&self.path()));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSES.1);
        }
        Ok(())
    }

    /// Paths of the commits in the journal.
    fn entered(&self) -> Result<Vec<PathBuf>> {
        commits_in(&self.path())
    }

    /// True if no commit in the journal concerns an object. Otherwise waits until those are applied; what was read of
    /// the object before may show a part of them.
    pub(super) fn is_settled(&self, oid: ObjectId) -> Result<bool> {
        let mut settled = true;
        for entered in self.entered()? {
            match self.heading(&entered)? {
                None => settled = false,
                Some(heading) if heading.oids.contains(&oid) => {
                    self.wait_for(&entered, &heading)?;
                    settled = false;
                }
                Some(_) => {}
            }
        }
        Ok(settled)
    }

    /// Waits until a commit has left the journal. Completes it if its process has died, or does not finish.
    fn wait_for(&self, entered: &Path, heading: &Heading) -> Result<()> {
        let (begun, mut pause) = (Instant::now(), PAUSES.0);
        while begun.elapsed() < WAIT_MAX {
            if files::info(&entered.join(RECORD))?.is_none() {
                return Ok(());
            }
            if owner::has_ended(&heading.owner) || begun.elapsed() > LEASE {
                return self.complete(entered);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSES.1);
        }
        Err(locked_error(entered))
    }
}

/// Returns the paths of the commits in a journal.
fn commits_in(journal: &Path) -> Result<Vec<PathBuf>> {
    Ok(files::names_in(journal)?.into_iter().map(|name| journal.join(name)).collect())
}

/// The record of a commit; `None` if it has left the journal.
fn read_record(entered: &Path) -> Result<Option<Record>> {
    let path = entered.join(RECORD);
    let Some(bytes) = files::read(&path)? else { return check_left(entered).map(|()| None) };
    let record = Record::from_bytes(&bytes);
    record.map(Some).ok_or_else(|| damaged(&path, "a commit in the journal is damaged"))
}

/// Fails if a commit whose record is missing is still in the journal. It enters and leaves the journal with its record.
fn check_left(entered: &Path) -> Result<()> {
    // The client of a network file system may have cached the directory.
    look_up_again(entered);
    match is_missing(entered) || files::info(&entered.join(RECORD))?.is_some() {
        true => Ok(()),
        false => Err(damaged(entered, "a commit in the journal has no record")),
    }
}

/// Checks the commits in the journal of the container in a directory.
///
/// # Errors
/// `Corrupt`; errors of the file system.
pub(super) fn check_journal(container: &Path) -> Result<()> {
    let mut commits = commits_in(&container.join(JOURNAL))?.into_iter();
    commits.try_for_each(|entered| read_record(&entered).map(drop))
}

/// Creates new marks for objects in the directory of a commit. Keeps marks that already exist there.
fn stage_marks(oids: &BTreeSet<ObjectId>, staged: &Path) -> Result<()> {
    let commit = esker_os::random_uuid()?.to_string();
    for name in oids.iter().map(|oid| mark_name(*oid)).collect::<BTreeSet<_>>() {
        let path = staged.join(staged_mark(&name));
        match symlink(&commit, &path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(io_error("making", &path, &error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Name of a mark in the directory of its commit.
fn staged_mark(name: &str) -> String {
    format!("mark-{name}")
}

/// The error of a commit that is decided and not yet applied.
#[cold]
fn not_applied_error(cause: &Error) -> Error {
    let message = format!(
        "the change is committed, but not yet visible, because its files could not be replaced: the next process that uses its \
         objects completes it: read them before you repeat the change ({cause})"
    );
    Error::new(ErrorKind::TxUncertain, message)
}

pub(super) mod takeover;
#[cfg(test)]
mod tests;
