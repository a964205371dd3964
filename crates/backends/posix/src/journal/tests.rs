//! Tests of the journal.
use super::*;
use crate::chunk::Chunk;
use crate::commit::ReadExtent;
use crate::form::Form;
use crate::lock::ThreadLocks;
use crate::open::{Opened, Posix};
use crate::pool::{PosixPool, PosixUrl};
use crate::proof::Watched;
use esker_backend::{NewContainer, OpenContainer, Pool};
use esker_types::info::{ContainerRef, OpenMode};
use esker_types::ops::{
    AkeyRef, Anchor, Change, Cond, DkeyFetch, Fetch, ReadAt, ReadTokens, Sink, Source, Update,
    Value, Write, WriteOp,
};
use esker_types::{FLAT_AKEY, ObjectClass, ObjectType};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
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

    /// The pool, opened as another process opens it.
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

    /// True if the container has neither a lock nor a journal.
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

/// An object of one shard with this number and type.
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
    let (text, extents, chunk) = ([number], [esker_types::Extent::new(0, 1)], 1u64.to_ne_bytes());
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

/// Sets all objects to a number in one commit: see [`with_writes`].
fn write(opened: &Opened, number: u8) {
    with_writes(number, |writes| opened.write(Change::from_writes(writes)).wait()).unwrap();
}

/// Fetches `akey` of a dkey, and returns the size of a value or of a record in bytes: 0 if there is none.
fn fetch(opened: &Opened, oid: ObjectId, dkey: &[u8], mut akey: Fetch<'_>) -> u64 {
    let akeys = std::slice::from_mut(&mut akey);
    let mut dkeys = [DkeyFetch { dkey, cond: Cond::NONE, akeys }];
    opened.fetch(oid, &mut dkeys, ReadAt::LATEST).wait().unwrap();
    akey.reply.size
}

/// The number in each object, and true if the dkey `gone` exists.
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

/// Stages writes as a process that dies soon. Returns the directory with the staged files, and the record of the
/// commit.
fn stage(opened: &Opened, writes: &[Write<'_>]) -> (PathBuf, Record) {
    stage_as(opened, writes, &owner::ended())
}

/// Stages writes as the process that the line `owner` names.
fn stage_as(opened: &Opened, writes: &[Write<'_>], owner: &str) -> (PathBuf, Record) {
    let journal = opened.journal();
    let plan = plan_of(opened, writes);
    let mut record = journal.record_of(&plan).unwrap();
    owner.clone_into(&mut record.owner);
    let permissions = journal.permissions().unwrap();
    let staged = journal.files().temporary_directory(permissions).unwrap();
    journal.stage(&plan, &record, &staged, permissions, || ()).unwrap();
    (staged, record)
}

/// Moves the staged directory into the journal, which is the commit. Returns its path there.
fn enter(opened: &Opened, staged: &Path) -> PathBuf {
    let journal = opened.journal();
    journal.enter(staged, journal.permissions().unwrap()).unwrap().unwrap()
}

/// Commits number 1 as a process that dies after `steps` steps: staging, the commit, each application, the marks.
///
/// Returns true if there are more steps, the directory of the commit, and its record.
fn die_after(opened: &Opened, steps: usize) -> (bool, PathBuf, Record) {
    let (staged, record) = with_writes(1, |writes| stage(opened, writes));
    if steps == 0 {
        return (true, staged, record);
    }
    let (journal, entered) = (opened.journal(), enter(opened, &staged));
    let applied = (steps - 1).min(record.steps.len());
    (0..applied).for_each(|number| journal.apply(&entered, &record, number).unwrap());
    if applied + 1 < steps {
        journal.place_marks(&entered, &record).unwrap();
    }
    (applied + 2 > steps, entered, record)
}

/// A commit is interrupted after each of its steps, and another process reads or writes next. It sees all of the commit
/// or nothing.
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
    let journal = stopped.journal();
    for number in 0..record.steps.len() {
        journal.apply(&entered, &record, number).unwrap();
    }
    journal.leave(&entered, &record).unwrap();
    assert_eq!(read(&site.opened()), ([2; 3], true));
}

/// A record with a path that leads out of the container, or to more than a key of an object, is refused.
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

/// Damaged records are decoded or refused, and never end the process. The checksum is made anew, so that it fits.
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

/// Writes of a commit that removes the Array, and writes a Key-Value.
fn with_punch<T>(work: impl FnOnce(&[Write<'_>]) -> T) -> T {
    let [_, kv, array] = oids();
    let value = Value::Single(Source::One(b"1"));
    let updates = [Update { akey: FLAT_AKEY, value, cond: Cond::NONE }];
    let update = WriteOp::Update { dkey: b"d", cond: Cond::NONE, updates: &updates };
    let punch = WriteOp::PunchObject { cond: Cond::NONE };
    work(&[Write { oid: kv, op: update }, Write { oid: array, op: punch }])
}

/// A process is stopped just before it removes the file of an Array. Another one completes its commit, and creates the
/// Array again.
#[test]
fn stopped_process_removes_no_newer_array() {
    let site = Site::new("newer");
    write(&site.opened(), 0);
    let stopped = site.opened();
    let (staged, record) = with_punch(|writes| stage(&stopped, writes));
    let entered = enter(&stopped, &staged);
    assert_eq!(read(&site.opened()).0, [0, b'1', 0]);
    assert!(!site.opened().container.object(oids()[2]).exists());
    write(&site.opened(), 2);
    for (number, step) in record.steps.iter().enumerate() {
        if let Entry::Array(oid, step) = step {
            let commit = CommitStep { entered: &entered, number };
            stopped.journal().array(*oid).apply(step, &commit).unwrap();
        }
    }
    assert_eq!(read(&site.opened()), ([2; 3], true));
    assert!(site.is_clean());
}

/// Writes of a commit that empties the only chunk of the Array, and writes it again.
fn with_rewrite<T>(work: impl FnOnce(&[Write<'_>]) -> T) -> T {
    let array = oids()[2];
    let (text, extents, dkey) = ([1], [esker_types::Extent::new(0, 1)], 1u64.to_ne_bytes());
    let value = Value::Array { record_size: 1, extents: &extents, data: Source::One(&text) };
    let updates = [Update { akey: FLAT_AKEY, value, cond: Cond::NONE }];
    let (dkey, cond) = (&dkey[..], Cond::NONE);
    let punch = WriteOp::PunchDkey { dkey, cond };
    let update = WriteOp::Update { dkey, cond, updates: &updates };
    work(&[Write { oid: array, op: punch }, Write { oid: array, op: update }])
}

/// A process has applied all steps of a commit, and is stopped before it takes the commit out of the journal. It
/// continues while another one repeats the steps.
#[test]
fn stopped_process_does_not_interrupt_another_that_completes_its_commit() {
    let site = Site::new("interrupt");
    write(&site.opened(), 0);
    let (stopped, other) = (site.opened(), site.opened());
    let (staged, record) = with_rewrite(|writes| stage(&stopped, writes));
    assert_eq!(record.steps.len(), 2);
    let entered = enter(&stopped, &staged);
    let journal = stopped.journal();
    (0..2).for_each(|number| journal.apply(&entered, &record, number).unwrap());
    let (taken, record) = other.journal().take_over(&entered).unwrap().unwrap();
    other.journal().apply(&taken, &record, 0).unwrap();
    journal.leave(&entered, &record).unwrap();
    other.journal().apply(&taken, &record, 1).unwrap();
    other.journal().leave(&taken, &record).unwrap();
    assert_eq!(read(&site.opened()).0, [0, 0, 1]);
    assert!(site.is_clean());
}

/// Writes of a commit that fills a chunk of the Array, empties it, and fills it with larger records.
fn with_larger_records<T>(punch: &WriteOp<'_>, work: impl FnOnce(&[Write<'_>]) -> T) -> T {
    let (array, extents) = (oids()[2], [esker_types::Extent::new(0, 1)]);
    let [short, long] = [&[1][..], &[1, 2]].map(|text| {
        let (record_size, data) = (text.len() as u64, Source::One(text));
        let value = Value::Array { record_size, extents: &extents, data };
        [Update { akey: FLAT_AKEY, value, cond: Cond::NONE }]
    });
    let (dkey, cond) = (&1u64.to_ne_bytes()[..], Cond::NONE);
    let update = |updates| Write { oid: array, op: WriteOp::Update { dkey, cond, updates } };
    work(&[update(&short), Write { oid: array, op: *punch }, update(&long)])
}

/// A process dies at each step of a commit that changes the size of an Array's records after it wrote some. Another one
/// can repeat the steps.
#[test]
fn steps_can_be_repeated_after_the_record_size_changed() {
    let (dkey, cond) = (1u64.to_ne_bytes(), Cond::NONE);
    let punches = [WriteOp::PunchDkey { dkey: &dkey, cond }, WriteOp::PunchObject { cond }];
    for (number, punch) in punches.iter().enumerate() {
        for applied in 0..=3 {
            let site = Site::new(&format!("size-{number}-{applied}"));
            write(&site.opened(), 0);
            let opened = site.opened();
            let (staged, record) = with_larger_records(punch, |writes| stage(&opened, writes));
            let (journal, entered) = (opened.journal(), enter(&opened, &staged));
            let applied = applied.min(record.steps.len());
            (0..applied).for_each(|step| journal.apply(&entered, &record, step).unwrap());
            let (extents, mut bytes) = ([esker_types::Extent::new(0, 1)], [0; 2]);
            let records = Fetch::array(FLAT_AKEY, 2, &extents, Sink::One(&mut bytes));
            assert_eq!(fetch(&site.opened(), oids()[2], &dkey, records), 2, "{applied} steps");
            assert_eq!(bytes, [1, 2]);
            assert!(site.is_clean());
        }
    }
}

/// A process dies after it has placed the marks of its commit. Another process then repeats the steps while a reader
/// reads. The reader notices this, and reads again.
#[test]
fn reader_notices_that_steps_are_repeated() {
    let site = Site::new("repeated");
    write(&site.opened(), 0);
    let (reader, other, array) = (site.opened(), site.opened(), oids()[2]);
    let (staged, record) = with_rewrite(|writes| stage(&other, writes));
    let entered = enter(&other, &staged);
    let journal = other.journal();
    (0..2).for_each(|number| journal.apply(&entered, &record, number).unwrap());
    journal.place_marks(&entered, &record).unwrap();
    let mut sizes = Vec::new();
    let read = reader.read(array, ReadAt::LATEST, ReadExtent::Several, None, |form| {
        let taken = journal.take_over(&entered).unwrap();
        if let Some((taken, record)) = &taken {
            journal.apply(taken, record, 0).unwrap();
        }
        let extents = [esker_types::Extent::new(0, 1)];
        let mut fetch = [Fetch::array(FLAT_AKEY, 1, &extents, Sink::None)];
        form.fetch(&1u64.to_ne_bytes(), Cond::NONE, &mut fetch)?;
        sizes.push(fetch[0].reply.size);
        if let Some((taken, record)) = &taken {
            journal.apply_all(taken, record, || ()).unwrap();
        }
        Ok(fetch[0].reply.size)
    });
    assert_eq!((read.unwrap(), sizes), (1, vec![0, 1]));
    assert!(site.is_clean());
}

/// Objects that a commit of a dead process creates are listed.
#[test]
fn listing_of_objects_completes_commits_of_dead_processes() {
    let site = Site::new("listing");
    drop(die_after(&site.opened(), 1));
    let listed = site.opened().objects(&mut esker_types::ops::Anchor::Start, 10).unwrap();
    assert_eq!(BTreeSet::from_iter(listed), BTreeSet::from(oids()));
    assert!(site.is_clean());
}

/// An Array is removed from its end on, so that a part of it never looks like an Array with a hole.
#[test]
fn array_is_removed_from_its_end_on() {
    let site = Site::new("order");
    let opened = site.opened();
    let (text, extents) = ([1], [esker_types::Extent::new(0, 1)]);
    let value = Value::Array { record_size: 1, extents: &extents, data: Source::One(&text) };
    let updates = [Update { akey: FLAT_AKEY, value, cond: Cond::NONE }];
    let array = oids()[2];
    for dkey in 1..=9u64 {
        let dkey = dkey.to_ne_bytes();
        let op = WriteOp::Update { dkey: &dkey, cond: Cond::NONE, updates: &updates };
        opened.write(Change::from_writes(&[Write { oid: array, op }])).wait().unwrap();
    }
    // A chunk that cannot be removed stands for a process that is stopped there.
    let stuck = opened.journal().array(array).path_of(5);
    fs::rename(&stuck, site.0.join("5")).unwrap();
    fs::create_dir(&stuck).unwrap();
    let punch = WriteOp::PunchObject { cond: Cond::NONE };
    opened.write(Change::from_writes(&[Write { oid: array, op: punch }])).wait().unwrap_err();
    fs::remove_dir(&stuck).unwrap();
    fs::rename(site.0.join("5"), &stuck).unwrap();
    assert_eq!(opened.journal().array(array).dkeys().unwrap(), [1, 2, 3, 4, 5]);
    opened.write(Change::from_writes(&[Write { oid: array, op: punch }])).wait().unwrap();
    assert_eq!(opened.journal().array(array).dkeys().unwrap(), []);
}

/// A read that meets a write outside transactions, which shortens an Array, is repeated.
#[test]
fn read_during_a_cut_is_repeated() {
    let site = Site::new("cut");
    let (opened, mut attempts) = (site.opened(), 0);
    let read = opened.read(oids()[2], ReadAt::LATEST, ReadExtent::Several, None, |_| {
        attempts += 1;
        match attempts {
            1..=3 => Err(Error::new(ErrorKind::Again, "cut")),
            _ => Ok(attempts),
        }
    });
    assert_eq!(read.unwrap(), 4);
}

/// A commit in the journal that only waits for its completion is not reported, one with a damaged record is.
#[test]
fn damaged_commits_are_found_by_a_check() {
    let site = Site::new("damaged");
    let (_, entered, _) = die_after(&site.opened(), 1);
    assert_eq!(PosixPool::check(&site.0).unwrap().problems, Vec::<String>::new());
    fs::write(entered.join(RECORD), b"cut").unwrap();
    let problems = PosixPool::check(&site.0).unwrap().problems;
    assert!(problems.len() == 1 && problems[0].contains("journal"), "{problems:?}");
}

/// A directory in the journal without a record would make every read of its container wait.
#[test]
fn commit_without_a_record_is_reported_at_once() {
    let site = Site::new("recordless");
    let opened = site.opened();
    write(&opened, 0);
    let (_, entered, _) = die_after(&opened, 1);
    fs::remove_file(entered.join(RECORD)).unwrap();
    let mut dkeys = [DkeyFetch { dkey: b"d", cond: Cond::NONE, akeys: &mut [] }];
    let read = site.opened().fetch(oids()[0], &mut dkeys, ReadAt::LATEST).wait();
    assert_eq!(read.unwrap_err().kind(), ErrorKind::Corrupt);
    let problems = PosixPool::check(&site.0).unwrap().problems;
    assert!(problems.len() == 1 && problems[0].contains("journal"), "{problems:?}");
}

/// Reads of other objects read the record of a commit only once, because it may be large.
#[test]
fn record_of_a_commit_is_read_once() {
    let site = Site::new("once");
    let (opened, other) = (site.opened(), oid(8, ObjectType::KvHashed));
    let (_, entered, _) = die_after(&opened, 1);
    let read = || fetch(&opened, other, b"d", Fetch::single(FLAT_AKEY, Sink::None));
    assert_eq!(read(), 0);
    fs::write(entered.join(RECORD), b"cut").unwrap();
    assert_eq!(read(), 0);
}

/// A write outside transactions has created the Array since the commit was planned, with records of another size.
#[test]
fn decided_commit_replaces_records_of_another_size() {
    let site = Site::new("other-size");
    let opened = site.opened();
    let (staged, _) = with_writes(1, |writes| stage(&opened, writes));
    enter(&opened, &staged);
    let (extents, dkey) = ([esker_types::Extent::new(0, 1)], 1u64.to_ne_bytes());
    let value = Value::Array { record_size: 8, extents: &extents, data: Source::One(&[7; 8]) };
    let updates = [Update { akey: FLAT_AKEY, value, cond: Cond::NONE }];
    let op = WriteOp::Update { dkey: &dkey, cond: Cond::NONE, updates: &updates };
    opened.journal().array(oids()[2]).write(&op).unwrap();
    assert_eq!(read(&site.opened()), ([1; 3], false));
    assert!(site.is_clean());
}

/// The time of the last change of a chunk is part of a read that returns it.
#[test]
fn read_of_the_epoch_of_a_chunk_notices_an_overwrite() {
    let site = Site::new("epoch");
    let (opened, array, dkey) = (site.opened(), oids()[2], 1u64.to_ne_bytes());
    let set_time = |seconds| {
        let file = File::open(opened.journal().array(array).path_of(1)).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        file.set_modified(time).unwrap();
    };
    let (of_epoch, of_extents) = (ReadTokens::default(), ReadTokens::default());
    let at = |tokens| ReadAt { tokens: Some(tokens), ..ReadAt::LATEST };
    let commit = |tokens| {
        let change = Change { tokens: Some(tokens), ..Change::from_writes(&[]) };
        opened.write(change).wait().map_err(|error| error.kind())
    };
    write(&opened, 0);
    set_time(2_000_000_000);
    opened.last_epoch(array, Some(&dkey), at(&of_epoch)).wait().unwrap();
    let (key, mut anchor) = (AkeyRef { dkey: &dkey, akey: FLAT_AKEY }, Anchor::Start);
    opened.list_extents(array, key, &mut anchor, 10, at(&of_extents)).wait().unwrap();
    for tokens in [&of_epoch, &of_extents] {
        commit(tokens).unwrap();
    }
    write(&opened, 2);
    set_time(2_000_000_001);
    for tokens in [&of_epoch, &of_extents] {
        assert_eq!(commit(tokens).unwrap_err(), ErrorKind::TxRestart);
    }
}

/// Another process changes data before a transaction reads it, and restores it before the commit. Then the digest is the
/// same as before the change, but not that of the data that the transaction has read.
#[test]
fn read_of_data_that_is_restored_is_repeated() {
    let site = Site::new("restored");
    let (reader, writer, [general, kv, array]) = (site.opened(), site.opened(), oids());
    let (dkey, extents) = (1u64.to_ne_bytes().to_vec(), vec![esker_types::Extent::new(0, 1)]);
    let of_array = Watched::Dkey { dkey, extents, with_epoch: false };
    // Number 1 removes the dkey `gone` of the general object.
    for (oid, watched) in [
        (general, Watched::dkey(b"gone")),
        (general, Watched::Dkeys),
        (kv, Watched::dkey(b"d")),
        (array, of_array),
    ] {
        write(&writer, 0);
        let (tokens, mut reads) = (ReadTokens::default(), 0);
        let at = ReadAt { tokens: Some(&tokens), ..ReadAt::LATEST };
        let read = reader.read(oid, at, ReadExtent::OneFile, Some(watched.clone()), |_| {
            reads += 1;
            if reads == 1 {
                write(&writer, 1);
            }
            Ok(reads)
        });
        assert_eq!(read.unwrap(), 2, "{watched:?}");
        write(&writer, 0);
        let change = Change { tokens: Some(&tokens), ..Change::from_writes(&[]) };
        let refused = reader.write(change).wait().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TxRestart, "{watched:?}");
    }
}

/// A commit that begins and ends while an object is read is seen completely.
#[test]
fn commit_during_a_read_is_seen_completely() {
    let site = Site::new("during");
    let (reader, writer, general) = (site.opened(), site.opened(), oids()[0]);
    write(&writer, 0);
    // After 16 attempts that a commit interrupted, the reader locks the object.
    for commits in [0, 1, 2, 16] {
        write(&writer, 0);
        let mut attempts = 0;
        let size = |form: &dyn Form, dkey: &[u8]| {
            let mut fetch = [Fetch::single(b"a", Sink::None)];
            form.fetch(dkey, Cond::NONE, &mut fetch).unwrap();
            fetch[0].reply.size
        };
        let read = reader.read(general, ReadAt::LATEST, ReadExtent::Several, None, |form| {
            let gone = size(form, b"gone") > 0;
            attempts += 1;
            if attempts <= commits {
                write(&writer, attempts);
            }
            let mut number = [0];
            let mut fetch = [Fetch::single(b"a", Sink::One(&mut number))];
            form.fetch(b"d", Cond::NONE, &mut fetch)?;
            Ok((gone, number))
        });
        assert_eq!(read.unwrap(), (commits % 2 == 0, [commits]), "{commits} commits");
        assert_eq!(attempts, commits + 1);
    }
    assert!(site.is_clean());
}

/// Writes of a commit that writes 1 MiB to two chunks of the Array.
fn with_large_writes<T>(work: impl FnOnce(&[Write<'_>]) -> T) -> T {
    let (data, all) = (vec![7; LARGE as usize], [esker_types::Extent::new(0, LARGE)]);
    let value = Value::Array { record_size: 1, extents: &all, data: Source::One(&data) };
    let updates = [Update { akey: FLAT_AKEY, value, cond: Cond::NONE }];
    let [first, second] = [1u64, 2].map(u64::to_ne_bytes);
    let update = |dkey| WriteOp::Update { dkey, cond: Cond::NONE, updates: &updates };
    work(&[&first, &second].map(|dkey| Write { oid: oids()[2], op: update(dkey) }))
}

const LARGE: u64 = 1 << 20;

/// Bytes that are allocated for a file.
fn allocated(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |info| info.blocks() * 512)
}

/// Space for the records of Arrays is allocated before the commit, in the existing file and in one for the new chunk.
#[test]
fn space_for_a_commit_is_reserved_before_it() {
    let site = Site::new("reserved");
    let opened = site.opened();
    write(&opened, 0);
    let probe = site.0.join("probe");
    esker_os::reserve(&File::create_new(&probe).unwrap(), 0, LARGE).unwrap();
    if allocated(&probe) < LARGE {
        esker_testing::skip("the file system cannot reserve space");
        return;
    }
    let array = opened.container.object(oids()[2]);
    let len = fs::metadata(&array).unwrap().len();
    let (staged, record) = with_large_writes(|writes| stage(&opened, writes));
    assert_eq!(record.steps.len(), 2);
    assert!(allocated(&array) >= LARGE && allocated(&staged.join("1")) >= LARGE);
    assert_eq!(fs::metadata(&array).unwrap().len(), len, "the Array changed before the commit");
    enter(&opened, &staged);
    let other = site.opened();
    for dkey in [1u64, 2] {
        let (mut cells, all) = (vec![0; LARGE as usize], [esker_types::Extent::new(0, LARGE)]);
        let records = Fetch::array(FLAT_AKEY, 1, &all, Sink::One(&mut cells));
        fetch(&other, oids()[2], &dkey.to_ne_bytes(), records);
        assert!(cells.iter().all(|cell| *cell == 7), "dkey {dkey}");
    }
    assert!(site.is_clean());
}

/// Puts a file in the place of a Key-Value's directory, so that its keys cannot be replaced. Returns the path of the
/// file. The directory is kept under the same name with the extension `hidden`.
fn obstruct(opened: &Opened) -> PathBuf {
    let path = opened.container.object(oids()[1]);
    fs::rename(&path, path.with_extension("hidden")).unwrap();
    fs::write(&path, b"in the way").unwrap();
    path
}

/// A commit is refused before it enters the journal if its first check finds that it cannot be applied.
#[test]
fn commit_that_cannot_be_applied_is_refused_before_it() {
    let site = Site::new("refused");
    let opened = site.opened();
    write(&opened, 0);
    let path = obstruct(&opened);
    let refused = with_writes(1, |writes| opened.write(Change::from_writes(writes)).wait());
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NoPermission);
    assert!(site.is_clean(), "the refused commit is in the journal");
    fs::remove_file(&path).unwrap();
    fs::rename(path.with_extension("hidden"), &path).unwrap();
    assert_eq!(read(&site.opened()), ([0; 3], true));
}

/// A commit in the journal cannot be applied at first. Its process reports an uncertain outcome, and the next reader
/// completes the commit.
#[test]
fn commit_that_fails_after_the_decision_is_completed_later() {
    let site = Site::new("completed");
    let opened = site.opened();
    write(&opened, 0);
    let (_, entered, record) = die_after(&opened, 1);
    let path = obstruct(&opened);
    let journal = opened.journal();
    let locks = opened.lock(&BTreeSet::from(oids())).unwrap();
    let failed = journal.apply_all(&entered, &record, || ());
    assert_eq!(not_applied_error(&failed.unwrap_err()).kind(), ErrorKind::TxUncertain);
    drop(locks);
    fs::remove_file(&path).unwrap();
    fs::rename(path.with_extension("hidden"), &path).unwrap();
    assert_eq!(read(&site.opened()), ([1; 3], false));
    assert!(site.is_clean());
}

/// All users who may change the container may complete a commit, whatever the umask of its process.
#[test]
fn commits_have_the_permissions_of_their_container() {
    let site = Site::new("modes");
    let opened = site.opened();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    fs::set_permissions(&opened.container.dir, fs::Permissions::from_mode(0o777)).unwrap();
    write(&opened, 0);
    let (_, entered, _) = die_after(&opened, 1);
    let marks = opened.container.dir.join(MARKS);
    for path in [&entered, &opened.journal().path(), &marks] {
        assert_eq!(mode(path), 0o777, "{}", path.display());
    }
    assert_eq!(mode(&entered.join(RECORD)), 0o666);
    let locks = opened.lock(&BTreeSet::from(oids())).unwrap();
    let names = files::names_in(&opened.container.dir).unwrap();
    let held: Vec<_> = names.iter().filter(|name| name.ends_with("%lock")).collect();
    assert_eq!(held.len(), 3);
    assert!(held.iter().all(|name| mode(&opened.container.dir.join(name)) == 0o777));
    drop(locks);
}

/// A process is stopped in a write of an Array, after it has checked its commit. Another one completes the commit and
/// has no sign that the first one has ended. A third one changes the Array.
#[test]
fn stopped_process_writes_into_no_newer_array() {
    let site = Site::new("write");
    write(&site.opened(), 0);
    let (stopped, array) = (site.opened(), oids()[2]);
    let journal = stopped.journal();
    let (staged, record) = with_writes(1, |writes| stage_as(&stopped, writes, owner::own()));
    let entered = enter(&stopped, &staged);
    let chunk = Chunk::open(&journal.array(array).path_of(1), true).unwrap().unwrap();
    journal.complete(&entered).unwrap();
    assert_eq!(read(&site.opened()), ([1; 3], false));
    write(&site.opened(), 2);
    let extents = [esker_types::Extent::new(0, 1)];
    chunk.write(journal.files(), 1, &extents, Source::One(&[1])).unwrap();
    journal.apply_all(&entered, &record, || ()).unwrap();
    assert_eq!(read(&site.opened()), ([2; 3], true));
    assert!(site.is_clean());
}

/// The Array does not exist before the commit, whose process has begun to create it.
#[test]
fn stopped_process_writes_into_no_array_that_its_commit_created() {
    let site = Site::new("created");
    let (stopped, array) = (site.opened(), oids()[2]);
    let journal = stopped.journal();
    let (staged, record) = with_writes(1, |writes| stage_as(&stopped, writes, owner::own()));
    let entered = enter(&stopped, &staged);
    (0..record.steps.len()).for_each(|number| journal.apply(&entered, &record, number).unwrap());
    let chunk = Chunk::open(&journal.array(array).path_of(1), true).unwrap().unwrap();
    journal.complete(&entered).unwrap();
    write(&site.opened(), 2);
    let extents = [esker_types::Extent::new(0, 1)];
    chunk.write(journal.files(), 1, &extents, Source::One(&[1])).unwrap();
    assert_eq!(read(&site.opened()).0, [2; 3]);
}

/// Files are not copied if all processes that have applied the commit are known to have ended.
#[test]
fn commit_of_a_dead_process_is_completed_without_copies() {
    let site = Site::new("copies");
    write(&site.opened(), 0);
    let inode = || {
        let path = site.opened().journal().array(oids()[2]).path_of(1);
        fs::metadata(path).unwrap().ino()
    };
    let (before, opened) = (inode(), site.opened());
    let (_, entered, _) = die_after(&opened, 1);
    opened.journal().complete(&entered).unwrap();
    assert_eq!(inode(), before);
    // This process has taken the commit over, and may be stopped in it.
    let (_, entered, record) = die_after(&opened, 1);
    let (taken, _) = opened.journal().take_over(&entered).unwrap().unwrap();
    let locks = ThreadLocks::new();
    let lock = Locks::take_one(&locks, opened.journal().files(), opened.journal().path());
    opened.journal().fence(&taken, &record, &lock.unwrap().unwrap()).unwrap();
    assert_eq!(inode(), before);
    opened.journal().complete(&taken).unwrap();
    assert_ne!(inode(), before);
    assert_eq!(read(&site.opened()), ([1; 3], false));
}

/// A write outside transactions takes long. The Array has it, or the write is repeated.
#[test]
fn slow_write_verifies_that_the_array_has_it() {
    let site = Site::new("slow");
    write(&site.opened(), 0);
    let opened = site.opened();
    let journal = opened.journal();
    let array = journal.array(oids()[2]);
    let (extents, dkey) = ([esker_types::Extent::new(0, 1)], 1u64.to_ne_bytes());
    let with_op = |data: &[u8], work: &dyn Fn(&WriteOp<'_>)| {
        let value = Value::Array { record_size: 1, extents: &extents, data: Source::One(data) };
        let updates = [Update { akey: FLAT_AKEY, value, cond: Cond::AKEY_INSERT }];
        work(&WriteOp::Update { dkey: &dkey, cond: Cond::NONE, updates: &updates });
    };
    with_op(&[0], &|op| assert!(array.has_written(op).unwrap()));
    with_op(&[7], &|op| {
        assert!(!array.has_written(op).unwrap());
        array.write_again(op).unwrap();
        assert!(array.has_written(op).unwrap());
    });
    let punch = WriteOp::PunchDkey { dkey: &dkey, cond: Cond::PUNCH };
    assert!(!array.has_written(&punch).unwrap());
    array.write_again(&punch).unwrap();
    array.write_again(&punch).unwrap();
    assert!(array.has_written(&punch).unwrap());
    assert!(array.has_written(&WriteOp::PunchObject { cond: Cond::NONE }).unwrap());
}

/// Conditions on a dkey are checked even if the update has no values.
#[test]
fn conditions_count_without_updates() {
    let site = Site::new("conditions");
    let opened = site.opened();
    let [general, kv, array] = oids();
    let check = |oid, dkey: &[u8], cond| {
        let writes = [Write { oid, op: WriteOp::Update { dkey, cond, updates: &[] } }];
        opened.write(Change::from_writes(&writes)).wait().err().map(|error| error.kind())
    };
    let all: [(_, &[u8]); 3] = [(general, b"d"), (kv, b"d"), (array, &1u64.to_ne_bytes())];
    for (oid, dkey) in all {
        assert_eq!(check(oid, dkey, Cond::DKEY_UPDATE), Some(ErrorKind::NotFound), "{oid}");
        assert_eq!(check(oid, dkey, Cond::DKEY_INSERT), None, "{oid}");
    }
    write(&opened, 0);
    for (oid, dkey) in all {
        assert_eq!(check(oid, dkey, Cond::DKEY_INSERT), Some(ErrorKind::Exists), "{oid}");
        assert_eq!(check(oid, dkey, Cond::DKEY_UPDATE), None, "{oid}");
    }
}

/// The steps by which a commit of these writes changes the container.
fn plan_of(opened: &Opened, writes: &[Write<'_>]) -> Plan {
    Plan::compute(&opened.pool.directory, &opened.container, writes).unwrap()
}

/// Makes all locks of a container look expired.
fn make_locks_old(opened: &Opened) {
    let long_ago = std::time::SystemTime::now() - LEASE * 3;
    for name in files::names_in(&opened.container.dir).unwrap() {
        let lock = opened.container.dir.join(name);
        if lock.display().to_string().ends_with("%lock") {
            let entry = files::names_in(&lock).unwrap().remove(0);
            File::open(lock.join(entry)).unwrap().set_modified(long_ago).unwrap();
        }
    }
}

/// A reader that has locked the object after 16 attempts is stopped. Another process takes the lock over, and commits
/// for the 17th time. The 18th attempt succeeds.
#[test]
fn reader_whose_lock_was_taken_over_reads_again() {
    let site = Site::new("reader");
    let (reader, writer, general) = (site.opened(), site.opened(), oids()[0]);
    write(&writer, 0);
    let mut attempts = 0;
    let read = reader.read(general, ReadAt::LATEST, ReadExtent::Several, None, |form| {
        let mut fetch = [Fetch::single(b"a", Sink::None)];
        form.fetch(b"gone", Cond::NONE, &mut fetch)?;
        attempts += 1;
        if attempts <= 17 {
            make_locks_old(&reader);
            write(&writer, attempts);
        }
        let (gone, mut number) = (fetch[0].reply.size > 0, [0]);
        let mut fetch = [Fetch::single(b"a", Sink::One(&mut number))];
        form.fetch(b"d", Cond::NONE, &mut fetch)?;
        Ok((gone, number))
    });
    assert_eq!((read.unwrap(), attempts), ((false, [17]), 18));
    assert!(site.is_clean());
}

/// A process is stopped between the check of its locks and the rename that commits. Others take its locks over, and
/// commit.
#[test]
fn stopped_process_commits_nothing_after_its_locks_were_taken_over() {
    let site = Site::new("late");
    write(&site.opened(), 0);
    let (stopped, oids) = (site.opened(), BTreeSet::from(oids()));
    let locks = stopped.lock(&oids).unwrap();
    let journal = stopped.journal();
    let permissions = journal.permissions().unwrap();
    let plan = with_writes(1, |writes| plan_of(&stopped, writes));
    let record = journal.record_of(&plan).unwrap();
    journal.stage(&plan, &record, locks.staging(), permissions, || ()).unwrap();
    locks.check().unwrap();
    let nothing = Plan { steps: Vec::new(), ..with_punch(|writes| plan_of(&stopped, writes)) };
    journal.carry_out(&locks, nothing).unwrap();
    make_locks_old(&stopped);
    write(&site.opened(), 2);
    let nothing = Plan { steps: Vec::new(), ..with_punch(|writes| plan_of(&stopped, writes)) };
    assert_eq!(journal.carry_out(&locks, nothing).unwrap_err().kind(), ErrorKind::Again);
    assert_eq!(journal.enter(locks.staging(), permissions).unwrap(), None);
    drop(locks);
    assert_eq!(read(&site.opened()), ([2; 3], true));
    assert!(site.is_clean());
}
