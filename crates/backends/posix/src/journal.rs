//! Changes of several files that take effect together: a redo journal (docs/format.md, "The journal").
//!
//! A commit stages the new files and a record of all its steps in a directory of its own. Then it renames that directory
//! into the journal of the container: this is the commit. Then it moves the staged files to their places, and takes its
//! directory out of the journal. A reader that finds a directory of its object in the journal waits until it is gone, and
//! reads again. If the process has died, the next process that finds the directory completes it. Each staged file can be moved only
//! once, and a removed file is moved into the directory. So a process that was stopped in between changes nothing later.
use super::array::ArrayFiles;
use super::array_plan::ArrayStep;
use super::container::{Container, PoolDirectory, destroyed};
use super::files::{self, Files, damaged, discard};
use super::form::Object;
use super::lock::{LEASE, Locks, PAUSES, WAIT_MAX, busy};
use super::owner;
use super::plan::{Plan, Step};
use esker_backend::encoding::{Parts, begin, finish, put_bytes, put_oid, put_u32};
use esker_backend::handles::gone;
use esker_types::{ObjectId, Result};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::time::Instant;

const MAGIC: &[u8; 8] = b"ESKRJRNL";
/// The journal of a container.
const JOURNAL: &str = "journal";
/// The file with the steps, among the staged files.
const RECORD: &str = "record";
/// Attempts to make the journal's directory, which other commits remove when they are done.
const MAKE_TRIES: u32 = 1000;

const PLACE: u32 = 0;
const REMOVE: u32 = 1;
const ARRAY: u32 = 2;

/// A commit in the journal.
#[derive(Debug, PartialEq, Eq)]
struct Record {
    /// The line of its process, as in lock files.
    owner: String,
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
    Array(ObjectId, ArrayStep),
}

impl Record {
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = begin(MAGIC);
        put_bytes(&mut out, self.owner.as_bytes());
        put_u32(&mut out, self.oids.len() as u32);
        self.oids.iter().for_each(|oid| put_oid(&mut out, *oid));
        put_u32(&mut out, self.steps.len() as u32);
        self.steps.iter().for_each(|step| step.put(&mut out));
        finish(out)
    }

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

    /// Carries out a plan under the locks of its objects: completely, or, if it fails before the commit, not at all.
    ///
    /// # Errors
    /// `Again` if the locks have expired; errors of the file system.
    pub(super) fn carry_out(&self, locks: &Locks<'_>, plan: Plan) -> Result<()> {
        match plan.steps.as_slice() {
            [] => Ok(()),
            [Step::Place { path, content }] => self.place_one(locks, path, content),
            [Step::Remove { path }] => {
                locks.check()?;
                self.files().remove(path).map(drop)
            }
            _ => {
                let (record, staged) = (self.record_of(&plan)?, self.files().fresh_path());
                let entered = self
                    .stage(&plan, &record, &staged)
                    .and_then(|()| locks.check())
                    .and_then(|()| self.enter(&staged));
                let entered = entered.inspect_err(|_| discard(&staged))?;
                self.apply_own(locks, &entered, &record)
            }
        }
    }

    /// Replaces one file, which needs no journal.
    fn place_one(&self, locks: &Locks<'_>, path: &Path, content: &[u8]) -> Result<()> {
        let file = self.files().temporary(|file| files::write_parts(file, &[content]))?;
        locks.check()?;
        if self.files().replace(&file, path)? {
            return Ok(());
        }
        self.make_parent(path)?;
        match self.files().replace(&file, path)? {
            true => Ok(()),
            false => Err(gone()),
        }
    }

    fn make_parent(&self, path: &Path) -> Result<()> {
        let parent = path.parent().unwrap_or(path);
        self.files().make_directory(parent).map_err(destroyed)
    }

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
        Ok(Record { owner: owner::own(), oids: plan.written.clone(), steps })
    }

    /// Writes the new files and the record to a new directory outside the journal.
    fn stage(&self, plan: &Plan, record: &Record, staged: &Path) -> Result<()> {
        let (files, path) = (self.files(), staged.join(RECORD));
        files.make_session()?;
        files.make_directory(staged)?;
        for (number, step) in plan.steps.iter().enumerate() {
            if let Step::Place { content, .. } = step {
                files.write_new(&staged.join(number.to_string()), content)?;
            }
        }
        files.write_new(&path, &record.to_bytes())?;
        files.sync_parent(&path)
    }

    /// Commits: moves the staged directory into the journal. Returns its new path.
    fn enter(&self, staged: &Path) -> Result<PathBuf> {
        let path = self.path().join(esker_os::random_uuid()?.to_string());
        for _ in 0..MAKE_TRIES {
            if self.files().move_to(staged, &path)? {
                return Ok(path);
            }
            self.files().make_directory(&self.path()).map_err(destroyed)?;
        }
        Err(busy(&self.path()))
    }

    /// Applies the steps of a commit of this process. If the locks expire meanwhile, another process may do the same.
    fn apply_own(&self, locks: &Locks<'_>, entered: &Path, record: &Record) -> Result<()> {
        for number in 0..record.steps.len() {
            if locks.check().is_err() {
                return self.complete(entered);
            }
            self.apply(entered, record, number)?;
        }
        self.leave(entered)
    }

    /// Applies a step, unless it was applied before.
    fn apply(&self, entered: &Path, record: &Record, number: usize) -> Result<()> {
        let files = self.files();
        match &record.steps[number] {
            Entry::Place(path) => {
                let (staged, path) =
                    (entered.join(number.to_string()), self.container.dir.join(path));
                if !files.move_to(&staged, &path)? && files::info(&staged)?.is_some() {
                    self.make_parent(&path)?;
                    files.move_to(&staged, &path)?;
                }
                Ok(())
            }
            Entry::Remove(path) => {
                let path = self.container.dir.join(path);
                let removed = files.move_to(&path, &entered.join(format!("removed-{number}")))?;
                if removed { files.sync_parent(&path) } else { Ok(()) }
            }
            Entry::Array(oid, step) => {
                ArrayFiles(Object::new(self.directory, self.container, *oid)).apply(step)
            }
        }
    }

    /// Takes a commit that is applied out of the journal.
    fn leave(&self, entered: &Path) -> Result<()> {
        let done = self.files().fresh_path();
        self.files().make_session()?;
        if self.files().move_to(entered, &done)? {
            self.files().sync_parent(entered)?;
            discard(&done);
        }
        // Fails if there are other commits.
        let _ = std::fs::remove_dir(self.path());
        Ok(())
    }

    /// The record of a commit; `None` if it has left the journal.
    fn record(&self, entered: &Path) -> Result<Option<Record>> {
        let path = entered.join(RECORD);
        let Some(bytes) = files::read(&path)? else { return Ok(None) };
        let record = Record::from_bytes(&bytes);
        record.map(Some).ok_or_else(|| damaged(&path, "a commit in the journal is damaged"))
    }

    /// Completes a commit whose process has died, or whose locks have expired.
    fn complete(&self, entered: &Path) -> Result<()> {
        let locks = &self.directory.journal_locks;
        let Some(_lock) = Locks::take_one(locks, self.files(), self.path())? else {
            return Err(gone());
        };
        let Some(record) = self.record(entered)? else { return Ok(()) };
        (0..record.steps.len()).try_for_each(|number| self.apply(entered, &record, number))?;
        self.leave(entered)
    }

    /// Completes the commits that concern `oids`. The caller has the locks of these objects, so that their processes have
    /// died.
    pub(super) fn complete_left(&self, oids: &BTreeSet<ObjectId>) -> Result<()> {
        for entered in self.entered()? {
            let record = self.record(&entered)?;
            if record.is_some_and(|record| !record.oids.is_disjoint(oids)) {
                self.complete(&entered)?;
            }
        }
        Ok(())
    }

    fn entered(&self) -> Result<Vec<PathBuf>> {
        let path = self.path();
        Ok(files::names_in(&path)?.into_iter().map(|name| path.join(name)).collect())
    }

    /// True if no commit in the journal concerns an object. Otherwise waits until those are applied; what was read of the
    /// object before may show a part of them.
    pub(super) fn is_settled(&self, oid: ObjectId) -> Result<bool> {
        let mut settled = true;
        for entered in self.entered()? {
            match self.record(&entered)? {
                None => settled = false,
                Some(record) if record.oids.contains(&oid) => {
                    self.wait_for(&entered, &record)?;
                    settled = false;
                }
                Some(_) => {}
            }
        }
        Ok(settled)
    }

    /// Waits until a commit has left the journal. Completes it if its process has died, or does not finish.
    fn wait_for(&self, entered: &Path, record: &Record) -> Result<()> {
        let (begun, mut pause) = (Instant::now(), PAUSES.0);
        while begun.elapsed() < WAIT_MAX {
            if files::info(&entered.join(RECORD))?.is_none() {
                return Ok(());
            }
            if owner::has_ended(&record.owner) || begun.elapsed() > LEASE {
                return self.complete(entered);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSES.1);
        }
        Err(busy(entered))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::{Opened, Posix};
    use crate::pool::{PosixPool, PosixUrl};
    use esker_backend::{NewContainer, OpenContainer, Pool};
    use esker_types::info::{ContainerRef, OpenMode};
    use esker_types::ops::{
        Change, Cond, DkeyFetch, Fetch, ReadAt, Sink, Source, Update, Value, Write, WriteOp,
    };
    use esker_types::{FLAT_AKEY, ObjectClass, ObjectType};
    use std::sync::Arc;

    /// A pool with a container, removed when the test ends.
    struct Site(PathBuf);

    impl Site {
        fn new(name: &str) -> Self {
            let name = format!("esker-journal-{name}-{}", std::process::id());
            let site = Self(std::env::temp_dir().join(name));
            PosixPool::create(&site.0, false).unwrap();
            site.pool().create_container(&NewContainer::named("c")).wait().unwrap();
            site
        }

        fn pool(&self) -> Posix {
            let url = PosixUrl { path: self.0.clone(), fsync: None };
            Posix::open(&url, OpenMode::ReadWrite).unwrap()
        }

        /// An opening of the container, like that of another process.
        fn opened(&self) -> Opened {
            let pool = self.pool().0;
            let meta = pool.directory.find(ContainerRef::Label("c")).unwrap();
            let container = pool.note(&meta);
            let info = container.info(&meta);
            Opened { pool: Arc::clone(&pool), container, info }
        }

        fn is_clean(&self) -> bool {
            let opened = self.opened();
            let names = files::names_in(&opened.container.dir).unwrap();
            !names.iter().any(|name| name == JOURNAL || name.ends_with("%lock"))
        }
    }

    impl Drop for Site {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn oid(number: u64, otype: ObjectType) -> ObjectId {
        ObjectId::generate(0, number, otype, ObjectClass::S1)
    }

    /// A general object, whose dkeys `d` and `gone` change, a Key-Value and an Array.
    fn oids() -> [ObjectId; 3] {
        let types = [ObjectType::MultiHashed, ObjectType::KvHashed, ObjectType::ArrayByte];
        types.map(|otype| oid(7, otype))
    }

    /// Calls `work` with writes that set all objects to a number. They remove `gone` if the number is odd.
    fn with_writes<T>(number: u8, work: impl FnOnce(&[Write<'_>]) -> T) -> T {
        let [general, kv, array] = oids();
        let (text, extents, chunk) =
            ([number], [esker_types::Extent::new(0, 1)], 1u64.to_ne_bytes());
        let single = Value::Single(Source::One(&text));
        let records = Value::Array { record_size: 1, extents: &extents, data: Source::One(&text) };
        let update = |akey, value| [Update { akey, value, cond: Cond::NONE }];
        let (in_general, in_kv) = (update(b"a", single), update(FLAT_AKEY, single));
        let in_array = update(FLAT_AKEY, records);
        let cond = Cond::NONE;
        let gone = match number % 2 {
            0 => WriteOp::Update { dkey: b"gone", cond, updates: &in_general },
            _ => WriteOp::PunchDkey { dkey: b"gone", cond },
        };
        work(&[
            Write { oid: general, op: WriteOp::Update { dkey: b"d", cond, updates: &in_general } },
            Write { oid: general, op: gone },
            Write { oid: kv, op: WriteOp::Update { dkey: b"d", cond, updates: &in_kv } },
            Write { oid: array, op: WriteOp::Update { dkey: &chunk, cond, updates: &in_array } },
        ])
    }

    fn write(opened: &Opened, number: u8) {
        with_writes(number, |writes| opened.write(Change::from_writes(writes)).wait()).unwrap();
    }

    fn fetch(opened: &Opened, oid: ObjectId, dkey: &[u8], mut akey: Fetch<'_>) -> u64 {
        let akeys = std::slice::from_mut(&mut akey);
        let mut dkeys = [DkeyFetch { dkey, cond: Cond::NONE, akeys }];
        opened.fetch(oid, &mut dkeys, ReadAt::LATEST).wait().unwrap();
        akey.reply.size
    }

    /// The number in each object, and whether `gone` exists.
    fn read(opened: &Opened) -> ([u8; 3], bool) {
        let [general, kv, array] = oids();
        let mut numbers = [[0]; 3];
        let [in_general, in_kv, in_array] = &mut numbers;
        fetch(opened, general, b"d", Fetch::single(b"a", Sink::One(in_general)));
        fetch(opened, kv, b"d", Fetch::single(FLAT_AKEY, Sink::One(in_kv)));
        let extents = [esker_types::Extent::new(0, 1)];
        let records = Fetch::array(FLAT_AKEY, 1, &extents, Sink::One(in_array));
        fetch(opened, array, &1u64.to_ne_bytes(), records);
        let gone = fetch(opened, general, b"gone", Fetch::single(b"a", Sink::None));
        (numbers.map(|[number]| number), gone > 0)
    }

    /// Commits number 1 as a process that dies after `steps` steps: staging, the commit, each application. True if there
    /// are more steps.
    fn die_after(opened: &Opened, steps: usize) -> (bool, PathBuf, Record) {
        let journal = Journal { directory: &opened.pool.directory, container: &opened.container };
        let plan = with_writes(1, |writes| {
            Plan::compute(&opened.pool.directory, &opened.container, writes).unwrap()
        });
        let mut record = journal.record_of(&plan).unwrap();
        record.owner = owner::ended();
        let staged = journal.files().fresh_path();
        journal.stage(&plan, &record, &staged).unwrap();
        if steps == 0 {
            return (true, staged, record);
        }
        let entered = journal.enter(&staged).unwrap();
        let applied = (steps - 1).min(record.steps.len());
        (0..applied).for_each(|number| journal.apply(&entered, &record, number).unwrap());
        (applied + 1 == steps, entered, record)
    }

    #[test]
    fn crash_at_any_step_of_a_commit_leaves_old_or_new() {
        let (old, new) = (([0; 3], true), ([1; 3], false));
        for next in ["a reader", "a writer"] {
            for steps in 0.. {
                let site = Site::new(&format!("crash-{}-{steps}", next.len()));
                write(&site.opened(), 0);
                let (more, ..) = die_after(&site.opened(), steps);
                let other = site.opened();
                if next == "a writer" {
                    write(&other, 2);
                    assert_eq!(read(&other), ([2; 3], true), "{steps} steps");
                } else {
                    let expected = if steps == 0 { old } else { new };
                    assert_eq!(read(&other), expected, "{steps} steps");
                }
                assert!(site.is_clean(), "{next} after {steps} steps");
                if !more {
                    break;
                }
            }
        }
    }

    /// A process that was stopped in a commit, which others have completed, moves and removes no newer files.
    #[test]
    fn stopped_process_undoes_nothing_when_it_continues() {
        let site = Site::new("stopped");
        write(&site.opened(), 0);
        let stopped = site.opened();
        let (_, entered, record) = die_after(&stopped, 1);
        assert_eq!(read(&site.opened()), ([1; 3], false));
        write(&site.opened(), 2);
        let journal = Journal { directory: &stopped.pool.directory, container: &stopped.container };
        for number in 0..record.steps.len() {
            if !matches!(record.steps[number], Entry::Array(..)) {
                journal.apply(&entered, &record, number).unwrap();
            }
        }
        journal.leave(&entered).unwrap();
        assert_eq!(read(&site.opened()), ([2; 3], true));
    }

    #[test]
    fn records_round_trip_and_stay_inside_their_container() {
        let [general, kv, array] = oids();
        let record = Record {
            owner: "node 1 2".to_owned(),
            oids: BTreeSet::from([general, kv, array]),
            steps: vec![
                Entry::Place("object/key".to_owned()),
                Entry::Remove("object/other".to_owned()),
                Entry::Array(array, ArrayStep::Cut { dkey: 1, records: 2 }),
            ],
        };
        assert_eq!(Record::from_bytes(&record.to_bytes()).as_ref(), Some(&record));
        for path in ["key", "/object/key", "../key", "object/..", "object/key/more", ""] {
            let bad = Record {
                steps: vec![Entry::Place(path.to_owned())],
                ..Record::from_bytes(&record.to_bytes()).unwrap()
            };
            assert_eq!(Record::from_bytes(&bad.to_bytes()), None, "{path}");
        }
    }

    #[test]
    fn fuzz_journal() {
        let step = ArrayStep::Write { dkey: 1, record_size: 1, extents: Vec::new(), data: vec![1] };
        let steps = vec![Entry::Place("a/b".to_owned()), Entry::Array(oids()[2], step)];
        let record = Record { owner: "o".to_owned(), oids: BTreeSet::from(oids()), steps };
        let mut bytes = record.to_bytes();
        bytes.truncate(bytes.len() - 4);
        esker_testing::fuzz("journal", &[bytes], |body| {
            let _ = Record::from_bytes(&finish(body.to_vec()));
        });
    }
}
