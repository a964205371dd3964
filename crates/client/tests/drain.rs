//! Draining containers while they are being written.
mod content;

use content::{Folder, all, container, fill, oid};
use esker::backend::memory::Memory;
use esker::backend::{NewContainer, OpenContainer, Reply};
use esker::copy::{Drain, Options, Progress};
use esker::types::info::OpenMode;
use esker::types::ops::{Cond, Source};
use esker::types::{Epoch, ErrorKind, Extent, ObjectType};
use esker::{Access, ArrayAttributes, Container, Pool, Wait};
use esker_conformance::between::{Interceptor, PoolBetween};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Options with a short stride, so that a drain records its progress often.
fn options() -> Options {
    Options { stride: 200 << 10, workers: 3, ..Options::default() }
}

/// Calls `work` with a drain of `from` into the container `to`.
fn with<T>(from: &Container, to: &Pool, keep: bool, work: impl FnOnce(&mut Drain<'_>) -> T) -> T {
    let (options, progress) = (options(), Progress::default());
    work(&mut Drain::begin(from, to, "to", keep, &options, &progress).unwrap())
}

fn open(pool: &Pool) -> Container {
    pool.open_container("to", OpenMode::ReadWrite).wait().unwrap()
}

/// Drains in rounds until one finds nothing to do.
fn drain_all(from: &Container, to: &Pool) {
    with(from, to, false, |drain| while !drain.round().unwrap().is_idle() {});
}

/// Sets a key of the Key-Value with this number.
fn put(container: &Container, number: u64, key: &str, value: &[u8]) {
    let kv = container.kv(oid(container, number, ObjectType::KvHashed)).unwrap();
    kv.put(key.as_bytes(), value, Cond::NONE, Access::Latest).wait().unwrap();
}

#[test]
fn unmodified_objects_are_removed_and_modified_ones_stay() {
    let mut pairs = vec![("native", "posix"), ("memory", "native")];
    if std::env::var(content::RADOS).is_ok() {
        pairs.push(("native", "rados"));
    }
    for (first, second) in pairs {
        move_objects(first, second);
    }
}

/// Both tests one after the other, since there is one pool.
#[test]
fn drains_work_to_and_from_daos() {
    if std::env::var_os(content::DAOS).is_none() {
        return esker_testing::skip("ESKER_TEST_DAOS names no DAOS pool (scripts/daos.sh)");
    }
    for (first, second) in [("native", "daos"), ("daos", "native")] {
        move_objects(first, second);
        lose_no_writes(first, second);
    }
}

/// Drains a container between pools of two kinds, and checks the counts of each round.
fn move_objects(first: &str, second: &str) {
    let folder = Folder::new();
    let (here, there) = (folder.pool(first), folder.pool(second));
    let from = container(&here, "from");
    fill(&from);
    let before = all(&from);
    with(&from, &there, false, |drain| {
        let round = drain.round().unwrap();
        assert_eq!((round.copied, round.removed, round.left), (42, 0, 42));
        assert!(all(&from) == before && all(&open(&there)) == before);
        put(&from, 1, "key 3", b"new");
        let round = drain.round().unwrap();
        assert_eq!((round.copied, round.removed, round.left), (1, 41, 1));
        assert_eq!(drain.round().unwrap().removed, 1);
        assert!(drain.round().unwrap().is_idle());
    });
    assert!(all(&from).is_empty() && from.snapshots().wait().unwrap().is_empty());
    put(&from, 2000, "key", b"later");
    drain_all(&from, &there);
    let to = open(&there);
    assert!(all(&to).len() == before.len() + 1 && all(&from).is_empty());
    let kv = to.kv(oid(&to, 1, ObjectType::KvHashed)).unwrap();
    assert_eq!(kv.get(b"key 3", Access::Latest).wait().unwrap().unwrap(), b"new");
    assert!(to.next_oid().wait().unwrap() >= from.next_oid().wait().unwrap());
}

#[test]
fn keep_removes_nothing() {
    let folder = Folder::new();
    let (here, there) = (folder.pool("memory"), folder.pool("memory"));
    let from = container(&here, "from");
    fill(&from);
    with(&from, &there, true, |drain| {
        assert_eq!(drain.round().unwrap().copied, 42);
        assert!(drain.round().unwrap().is_idle());
    });
    assert!(all(&from) == all(&open(&there)));
}

#[test]
fn a_restarted_drain_does_not_copy_again() {
    let folder = Folder::new();
    let (here, there) = (folder.pool("native"), folder.pool("memory"));
    let from = container(&here, "from");
    fill(&from);
    with(&from, &there, false, |drain| drain.round().unwrap());
    let (uuid, pool) = (open(&there).info().uuid, there.info().wait().unwrap().uuid);
    let left = from.create_snapshot(&format!("copy to {uuid} in {pool}")).wait();
    with(&from, &there, false, |drain| {
        let round = drain.round().unwrap();
        assert_eq!((round.copied, round.removed), (0, 42));
        assert!(drain.summary().resumed);
    });
    assert!(
        from.at(left.unwrap()).wait().is_err(),
        "the snapshot of a killed drain was not destroyed"
    );
}

#[test]
fn unsupported_drains_are_rejected() {
    let folder = Folder::new();
    let (here, there) = (folder.pool("memory"), folder.pool("memory"));
    let (options, progress) = (options(), Progress::default());
    let kind = |from: &Container, to: &Pool| {
        Drain::begin(from, to, "to", false, &options, &progress).err().map(|error| error.kind())
    };
    let files = container(&folder.pool("posix"), "from");
    assert_eq!(kind(&files, &there), Some(ErrorKind::NotSupported));
    let (from, other) = (container(&here, "from"), container(&here, "other"));
    assert_eq!(kind(&from, &there), None);
    assert_eq!(kind(&other, &there), Some(ErrorKind::Exists));
    container(&here, "to");
    assert_eq!(kind(&from, &here), Some(ErrorKind::Exists));
    let of_snapshot = Options { snapshot: Some(Epoch(1)), ..options.clone() };
    let refused = Drain::begin(&from, &there, "new", false, &of_snapshot, &progress).err();
    assert_eq!(refused.map(|error| error.kind()), Some(ErrorKind::Invalid));
}

/// Every acknowledged write ends up in the target, whenever the rounds take place. The drain is restarted after every
/// few rounds, as if it had been killed.
#[test]
fn concurrent_writes_are_not_lost() {
    for (first, second) in [("native", "posix"), ("native", "memory")] {
        lose_no_writes(first, second);
    }
}

/// Drains a container while two threads write to it. Checks that the destination has the last value of each key.
fn lose_no_writes(first: &str, second: &str) {
    let folder = Folder::new();
    let (here, there) = (folder.pool(first), folder.pool(second));
    let from = container(&here, "from");
    let done = AtomicBool::new(false);
    let expected = std::thread::scope(|scope| {
        let writers: Vec<Writer<'_>> = (0..2)
            .map(|writer| {
                scope.spawn({
                    let (from, done) = (&from, &done);
                    move || write(from, writer, done)
                })
            })
            .collect();
        let mut removed = 0;
        for _ in 0..5 {
            with(&from, &there, false, |drain| {
                for _ in 0..4 {
                    removed += drain.round().unwrap().removed;
                }
            });
        }
        done.store(true, Ordering::Relaxed);
        println!("{removed} objects were removed during the writes");
        let ended = writers.into_iter().map(|writer| writer.join().unwrap());
        ended.flatten().collect::<BTreeMap<_, _>>()
    });
    drain_all(&from, &there);
    assert!(all(&from).is_empty());
    let to = open(&there);
    for ((number, key), value) in &expected {
        let kv = to.kv(oid(&to, *number, ObjectType::KvHashed)).unwrap();
        let found = kv.get(key.as_bytes(), Access::Latest).wait().unwrap();
        assert_eq!(found.as_deref(), Some(&value[..]), "{number} {key}");
        let shape = ArrayAttributes { cell_size: 1, chunk_size: 1000 };
        let array = oid(&to, 1 << 20 | number, ObjectType::ArrayByte);
        let array = to.open_array_with_attributes(array, shape).unwrap();
        assert!(array.size(Access::Latest).wait().unwrap() > 0, "{number}");
    }
}

type Written = BTreeMap<(u64, String), Vec<u8>>;
type Writer<'scope> = std::thread::ScopedJoinHandle<'scope, Written>;

/// Writes new objects and overwrites old ones; returns the last acknowledged value of each key.
fn write(from: &Container, writer: u64, done: &AtomicBool) -> Written {
    let mut written = BTreeMap::new();
    let mut random = esker_testing::Random::new(7 + writer, 0);
    // Few enough for the index of a small pool, even if a long round keeps all overwritten records.
    for step in 0..2000u64 {
        esker_testing::pause(2000);
        let number = 1000 * (writer + 1) + random.below(40 + step / 10) % 900;
        let (key, value) = (format!("key {}", random.below(5)), step.to_le_bytes());
        put(from, number, &key, &value);
        written.insert((number, key), value.to_vec());
        let shape = ArrayAttributes { cell_size: 1, chunk_size: 1000 };
        let array = oid(from, 1 << 20 | number, ObjectType::ArrayByte);
        let array = from.open_array_with_attributes(array, shape).unwrap();
        let range = [Extent::new(random.below(5000), 1500)];
        array.write(&range, Source::One(&[7; 1500]), Access::Latest).wait().unwrap();
        if done.load(Ordering::Relaxed) {
            break;
        }
    }
    written
}

/// DAOS accepts the layout of a container only when it is created.
#[test]
fn destination_is_created_with_the_layout_of_its_source() {
    let folder = Folder::new();
    let (from, to) = (folder.pool("memory"), folder.pool("posix"));
    let layout: [(&str, &[u8]); 2] = [("prop:layout_type", b"POSIX"), ("prop:roots", b"roots")];
    from.create_container(&NewContainer::named("files").with_metadata(&layout)).wait().unwrap();
    let from = from.open_container("files", OpenMode::ReadWrite).wait().unwrap();
    with(&from, &to, false, |drain| {
        let properties = drain.destination().properties();
        assert_eq!(properties.get("layout_type").wait().unwrap().unwrap(), b"POSIX");
        assert_eq!(properties.get("roots").wait().unwrap().unwrap(), b"roots");
    });
}

/// A second drain might remove from the source what the first then replaces in the destination by older data.
#[test]
fn a_container_has_one_drain_at_a_time() {
    let folder = Folder::new();
    for second in ["memory", "posix"] {
        let (here, there) = (folder.pool("native"), folder.pool(second));
        let from = container(&here, "from");
        put(&from, 1, "key", b"value");
        let again = folder.open_again(&here);
        let other = again.open_container("from", OpenMode::ReadWrite).wait().unwrap();
        let (options, progress) = (options(), Progress::default());
        let begin = |from| Drain::begin(from, &there, "to", false, &options, &progress);
        let first = begin(&from).unwrap();
        for from in [&from, &other] {
            assert_eq!(begin(from).err().unwrap().kind(), ErrorKind::Busy);
        }
        drop(first);
        assert_eq!(begin(&other).unwrap().round().unwrap().copied, 1);
        assert_eq!(here.containers().wait().unwrap().len(), 1);
    }
}

/// A drain that was killed leaves the container of its lock.
#[test]
fn container_of_a_killed_drain_is_used_again() {
    let folder = Folder::new();
    let (here, there) = (folder.pool("native"), folder.pool("memory"));
    let from = container(&here, "from");
    let label = format!("draining-{}", from.info().uuid);
    here.create_container(&NewContainer::named(&label)).wait().unwrap();
    drain_all(&from, &there);
    assert_eq!(here.containers().wait().unwrap().len(), 1);
}

/// Counts how often a destination is synced.
#[derive(Default)]
struct Syncs(AtomicU32);

impl Interceptor for Syncs {
    fn sync<'a>(&'a self, of: &'a dyn OpenContainer) -> Reply<'a, ()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        of.sync()
    }
}

/// A job may set an attribute after its last object was copied, or have no objects.
#[test]
fn attributes_without_changed_objects_are_copied() {
    let folder = Folder::new();
    let from = container(&folder.pool("native"), "from");
    let there = folder.pool("posix");
    let value = |name: &str| {
        let to = there.open_container("to", OpenMode::ReadOnly).wait().unwrap();
        to.attributes().get(name).wait().unwrap()
    };
    from.attributes().set("early", b"yes").wait().unwrap();
    drain_all(&from, &there);
    assert_eq!(value("early").as_deref(), Some(&b"yes"[..]));
    put(&from, 1, "key", b"value");
    drain_all(&from, &there);
    from.attributes().set("status", b"done").wait().unwrap();
    drain_all(&from, &there);
    assert_eq!(value("status").as_deref(), Some(&b"done"[..]));
}

/// Power loss must not take copies whose originals were on a disk.
#[test]
fn copies_are_synced_before_originals_are_removed() {
    let folder = Folder::new();
    let from = container(&folder.pool("native"), "from");
    put(&from, 1, "key", b"value");
    let syncs = Arc::new(Syncs::default());
    let there = PoolBetween::before(Arc::new(Memory::new(2)), &syncs);
    let there = Pool::from_backend(Arc::new(there), OpenMode::ReadWrite);
    with(&from, &there, false, |drain| {
        assert_eq!(drain.round().unwrap().copied, 1);
        assert_eq!(syncs.0.load(Ordering::Relaxed), 1);
        assert_eq!(drain.round().unwrap().removed, 1);
        assert_eq!(syncs.0.load(Ordering::Relaxed), 1);
    });
}
