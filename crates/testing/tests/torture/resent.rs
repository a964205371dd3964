//! A client sends its changes again: after a process died before the reply arrived, and over two connections at the
//! same time. Each change is applied once.
use crate::common::{self, Folder, PoolKind, Shape, Watchdog, Worker};
use crate::simple;
use esker::backend::OpenContainer;
use esker::{Access, Pool, Wait};
use esker_testing::{Random, pause, scaled, seed};
use esker_types::info::{ContainerRef, OpenMode};
use esker_types::ops::{
    Change, ChangeId, Cond, Fetch, Sink, Source, Update, Value, Write, WriteOp,
};
use esker_types::{ErrorKind, ObjectClass, ObjectId, ObjectType, Result};
use std::path::Path;

const LEN: usize = 3000;
const OBJECTS: u64 = 6;

/// The container of the test, as the backend returns it.
fn container(pool: &Pool) -> Box<dyn OpenContainer> {
    let (made, _) = simple::kv(pool, "c").expect("a container");
    let name = ContainerRef::Uuid(made.info().uuid);
    pool.backend().open_container(name, OpenMode::ReadWrite).wait().expect("opening")
}

fn object(number: u64) -> ObjectId {
    ObjectId::generate(9, number % OBJECTS, ObjectType::MultiHashed, ObjectClass::S1)
}

/// Change `number` of the client: it inserts a key into one object or, every third time, into all objects, which are
/// on several targets. Applying it twice is an error.
fn send(container: &dyn OpenContainer, number: u64) -> Result<()> {
    let (dkey, value) = (number.to_be_bytes(), simple::value(number, LEN));
    let value = Value::Single(Source::One(&value));
    let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
    let op = WriteOp::Update { dkey: &dkey, cond: Cond::DKEY_INSERT, updates: &updates };
    let count = if number.is_multiple_of(3) { OBJECTS } else { 1 };
    let writes: Vec<_> = (0..count).map(|at| Write { oid: object(number + at), op }).collect();
    let id = ChangeId { session: 1, slot: 0, sequence: number };
    container.write(Change { id: Some(id), ..Change::from_writes(&writes) }).wait().map(drop)
}

/// Body of a worker that sends all changes in order, beginning with the last answered one. Arguments: pool, file with
/// the number of the last answered change, number of changes.
pub(crate) fn run() {
    let arguments = common::arguments();
    let [path, answered, count] = &arguments[..] else { panic!("three arguments") };
    let count: u64 = count.parse().expect("a number");
    let pool = common::open(Path::new(path));
    let container = container(&pool);
    // The last answered change is sent again too.
    for number in last_answered(Path::new(answered)).max(1)..=count {
        match send(&*container, number) {
            // The other connection has already sent later changes.
            Err(error) if error.kind() == ErrorKind::Invalid => {}
            sent => sent.unwrap_or_else(|error| panic!("change {number}: {error}")),
        }
        let next = format!("{answered}-{}", std::process::id());
        std::fs::write(&next, number.to_string()).expect("noting");
        std::fs::rename(&next, answered).expect("noting");
    }
    container.close().wait().expect("closing");
}

fn last_answered(file: &Path) -> u64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.parse().unwrap_or_default()
}

/// Every change was applied: its keys exist with its value.
fn expect_all(path: &Path, count: u64) {
    let pool = common::open(path);
    let (container, _) = simple::kv(&pool, "c").expect("opening");
    for number in 1..=count {
        let objects = if number.is_multiple_of(3) { OBJECTS } else { 1 };
        for at in 0..objects {
            let mut value = vec![0; LEN];
            let mut fetch = [Fetch::single(b"a", Sink::One(&mut value))];
            let found = container.object(object(number + at));
            let dkey = number.to_be_bytes();
            found.fetch(&dkey, Cond::DKEY_FETCH, &mut fetch, Access::Latest).wait().expect("a key");
            assert!(value == simple::value(number, LEN), "change {number} has another value");
        }
    }
}

/// Starts a worker to replace another, which is killed if it still runs.
fn replace(worker: &mut Worker, start: &dyn Fn() -> Worker) {
    match worker.0.try_wait().expect("polling a worker") {
        None => worker.kill(),
        Some(status) => assert!(status.success(), "a worker failed: {status}"),
    }
    *worker = start();
}

/// Lets two workers send the same changes, and kills and replaces them until all are answered. Each change must be
/// applied once.
fn once(pool_kind: PoolKind, count: u64) {
    let mut random = Random::new(seed(), pool_kind as u64);
    let folder = Folder::new(pool_kind);
    let _watchdog = Watchdog::new(format!("changes sent again on {pool_kind:?}"));
    let path = common::make(&folder, "pool", pool_kind, Shape::SMALL);
    container(&common::open(&path)).close().wait().expect("closing");
    let answered = folder.path().join("answered");
    let arguments = format!("{} {} {count}", path.display(), answered.display());
    let start = || Worker::start("resent", &arguments);
    let mut workers = [start(), start()];
    while last_answered(&answered) < count {
        pause(random.below(80_000));
        replace(&mut workers[random.below(2) as usize], &start);
    }
    workers.iter_mut().for_each(Worker::finish_soon);
    expect_all(&path, count);
    common::expect_sound(&path, false);
    common::expect_clean(&path);
}

#[test]
fn changes_resent_after_kills_are_applied_once() {
    once(PoolKind::Memory, scaled(1500));
    once(PoolKind::Guarded, scaled(500));
}

#[test]
fn changes_resent_to_a_durable_pool_are_applied_once() {
    once(PoolKind::Durable, scaled(100));
}
