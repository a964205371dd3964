//! Copies of containers between all kinds of pools.
mod content;

use content::{Folder, all, container, fill, holey, oid};
use esker::backend::memory::Memory;
use esker::backend::{Capabilities, OpenContainer, Reply};
use esker::copy::{Options, Progress, Summary, copy};
use esker::types::info::OpenMode;
use esker::types::ops::{
    Change, Cond, DkeyFetch, ReadAt, Sink, Source, Update, Value, Write, WriteOp,
};
use esker::types::{Epoch, ErrorKind, ObjectClass, ObjectId, ObjectType, Result};
use esker::{Access, Container, Pool, Wait};
use esker_conformance::between::{Interceptor, PoolBetween};
use esker_conformance::faulty::{Fault, Faulty};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Small strides, so that there are many of them.
fn options() -> Options {
    Options { stride: 200 << 10, workers: 3, ..Options::default() }
}

/// Copies a container into the pool `to`.
fn run(from: &Container, to: &Pool, label: &str) -> Result<Summary> {
    copy(from, to, label, &options(), &Progress::default())
}

fn open(pool: &Pool, label: &str) -> Container {
    pool.open_container(label, OpenMode::ReadWrite).wait().unwrap()
}

/// Copies a filled container from a pool of the kind `first` to one of the kind `second`, and back. Compares all three.
fn copies_back_and_forth(first: &str, second: &str) {
    let folder = Folder::new();
    let (here, there) = (folder.pool(first), folder.pool(second));
    let from = container(&here, "from");
    fill(&from);
    let summary = run(&from, &there, "to").unwrap();
    assert_eq!((summary.verified, summary.resumed), (summary.bytes, false));
    let to = open(&there, "to");
    run(&to, &here, "back").unwrap();
    let back = open(&here, "back");
    let (original, copied) = (all(&from), all(&to));
    assert!(original.keys().eq(copied.keys()), "other keys");
    assert!(original == copied && original == all(&back));
    for copied in [to, back] {
        let info = copied.info();
        assert_eq!(info.checksum, from.info().checksum);
        assert_ne!(info.uuid, from.info().uuid);
        assert!(copied.next_oid().wait().unwrap() >= from.next_oid().wait().unwrap());
        assert_eq!(copied.attributes().get("owner").wait().unwrap().unwrap(), b"me");
        assert_eq!(copied.properties().list().wait().unwrap(), ["layout"]);
        assert!(copied.snapshots().wait().unwrap().is_empty());
    }
}

/// Copies between a native pool and one of plain files are equal.
#[test]
fn native_and_files() {
    copies_back_and_forth("native", "posix");
}

/// Copies between a native pool and the reference backend are equal.
#[test]
fn native_and_memory() {
    copies_back_and_forth("native", "memory");
}

/// Copies between a pool of plain files and the reference backend are equal.
#[test]
fn files_and_memory() {
    copies_back_and_forth("posix", "memory");
}

#[test]
fn copies_between_native_pools_and_ceph_are_equal() {
    match std::env::var(content::RADOS) {
        Ok(_) => copies_back_and_forth("native", "rados"),
        Err(_) => esker_testing::skip(format_args!(
            "{} names no Ceph pool (make ceph-up prints one)",
            content::RADOS
        )),
    }
}

/// A copy does not fill the holes of an array, if the destination supports holes.
#[test]
fn holes_stay_holes() {
    let folder = Folder::new();
    let (here, there) = (folder.pool("memory"), folder.pool("native"));
    let from = container(&here, "from");
    holey(&from, ObjectType::Array);
    run(&from, &there, "to").unwrap();
    assert_eq!(all(&from), all(&open(&there, "to")));
}

/// Stores a value under an akey of an object.
fn put(container: &Container, oid: ObjectId, akey: &[u8]) {
    let value = Value::Single(Source::One(b"value"));
    let updates = [Update { akey, value, cond: Cond::NONE }];
    container.object(oid).update(b"dkey", Cond::NONE, &updates, Access::Latest).wait().unwrap();
}

/// Checks that a copy is refused, and leaves no trace on either side.
fn is_refused(from: &Container, to: &Pool) {
    let error = run(from, to, "to").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    assert!(error.message().contains("nothing was copied"), "{error}");
    assert!(to.containers().wait().unwrap().is_empty());
    assert!(from.snapshots().wait().unwrap().is_empty());
}

#[test]
fn unsupported_content_is_rejected_before_copying() {
    let folder = Folder::new();
    let here = folder.pool("memory");
    let akeys = container(&here, "akeys");
    put(&akeys, oid(&akeys, 1, ObjectType::KvHashed), b"another");
    is_refused(&akeys, &folder.pool("posix"));
    let holes = container(&here, "holes");
    holey(&holes, ObjectType::Array);
    is_refused(&holes, &folder.pool("posix"));
    let replicas = container(&here, "replicas");
    let class = ObjectClass::from_name("RP_2G1");
    put(&replicas, replicas.generate_oid(0, 1, ObjectType::MultiHashed, class, 0).unwrap(), b"a");
    is_refused(&replicas, &folder.pool("native"));
}

#[test]
fn holes_are_filled_with_zeros_if_allowed() {
    let folder = Folder::new();
    let (here, there) = (folder.pool("memory"), folder.pool("posix"));
    let from = container(&here, "from");
    holey(&from, ObjectType::Array);
    let options = Options { zeros: true, ..options() };
    copy(&from, &there, "to", &options, &Progress::default()).unwrap();
    let array = oid(&from, 70, ObjectType::Array);
    let sizes = [from, open(&there, "to")].map(|container| {
        let array = container.open_array(array, Access::Latest).wait().unwrap();
        array.size(Access::Latest).wait().unwrap()
    });
    assert_eq!(sizes, [351, 351]);
}

#[test]
fn holes_of_byte_arrays_need_no_permission() {
    let folder = Folder::new();
    let from = container(&folder.pool("memory"), "from");
    holey(&from, ObjectType::ArrayByte);
    run(&from, &folder.pool("posix"), "to").unwrap();
}

#[test]
fn existing_and_invalid_labels_are_rejected() {
    let folder = Folder::new();
    let (here, there) = (folder.pool("memory"), folder.pool("memory"));
    let from = container(&here, "from");
    container(&there, "to");
    assert_eq!(run(&from, &there, "to").unwrap_err().kind(), ErrorKind::Exists);
    assert_eq!(run(&from, &there, "no label").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(run(&from, &there, &"x".repeat(120)).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_copy_is_consistent_despite_concurrent_writes() {
    let folder = Folder::new();
    let (here, there) = (folder.pool("native"), folder.pool("memory"));
    let from = container(&here, "from");
    fill(&from);
    let kvs: Vec<_> = (0..30)
        .map(|number| from.kv(oid(&from, 100 + number, ObjectType::KvHashed)).unwrap())
        .collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for step in 0u64.. {
                let change = from.transaction().unwrap();
                for kv in &kvs {
                    let access = Access::Tx(&change);
                    kv.put(b"step", &step.to_le_bytes(), Cond::NONE, access).wait().unwrap();
                }
                change.commit().wait().unwrap();
                if done.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        for round in 0..3 {
            let label = format!("to{round}");
            run(&from, &there, &label).unwrap();
            let to = open(&there, &label);
            let step = |kv: &esker::Kv| {
                to.kv(kv.oid()).unwrap().get(b"step", Access::Latest).wait().unwrap()
            };
            assert!(kvs.iter().all(|kv| step(kv) == step(&kvs[0])), "several moments");
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_stopped_copy_continues_where_it_stopped() {
    let folder = Folder::new();
    for first in ["native", "posix"] {
        let from = container(&folder.pool(first), "from");
        fill(&from);
        let backend = Arc::new(Faulty::new(Fault::Full));
        let there = Pool::from_backend(backend, OpenMode::ReadWrite);
        let (mut objects, mut stops) = (Vec::new(), 0);
        let summary = loop {
            let progress = Progress::default();
            match copy(&from, &there, "to", &options(), &progress) {
                Ok(summary) => break summary,
                Err(error) => assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}"),
            }
            assert!(there.open_container("to", OpenMode::ReadOnly).wait().is_err());
            objects.push(progress.summary().objects);
            stops += 1;
            assert!(stops < 100, "the copy makes no progress: {objects:?}");
        };
        assert!(stops > 0 && summary.resumed && summary.objects < 60, "{stops}: {summary:?}");
        assert_eq!(all(&from), all(&open(&there, "to")));
        assert!(from.snapshots().wait().unwrap().is_empty());
        assert_eq!(open(&there, "to").properties().list().wait().unwrap(), ["layout"]);
    }
}

#[test]
fn an_unfinished_copy_is_not_continued_from_another_source() {
    let folder = Folder::new();
    let here = folder.pool("memory");
    let (from, other) = (container(&here, "from"), container(&here, "other"));
    fill(&from);
    let there = Pool::from_backend(Arc::new(Faulty::new(Fault::Full)), OpenMode::ReadWrite);
    run(&from, &there, "to").unwrap_err();
    assert_eq!(run(&other, &there, "to").unwrap_err().kind(), ErrorKind::Exists);
    let snapshot = &from.snapshots().wait().unwrap()[0];
    from.destroy_snapshot(snapshot.epoch).wait().unwrap();
    assert_eq!(run(&from, &there, "to").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn data_read_back_differently_is_detected() {
    let folder = Folder::new();
    let from = container(&folder.pool("memory"), "from");
    fill(&from);
    for fault in [Fault::LostWrite, Fault::FlippedBit] {
        let there = Pool::from_backend(Arc::new(Faulty::new(fault)), OpenMode::ReadWrite);
        let error = run(&from, &there, "to").unwrap_err();
        let expected = [ErrorKind::Checksum, ErrorKind::NotFound];
        assert!(expected.contains(&error.kind()), "{fault:?}: {error}");
    }
}

#[test]
fn concurrent_copies_to_one_target_are_rejected() {
    let folder = Folder::new();
    let from = container(&folder.pool("memory"), "from");
    let there = Pool::from_backend(Arc::new(Memory::new(2)), OpenMode::ReadWrite);
    // An open copy in progress, as another process has it.
    let other = container(&there, "to.copying");
    assert_eq!(run(&from, &there, "to").unwrap_err().kind(), ErrorKind::Busy);
    drop(other);
    run(&from, &there, "to").unwrap();
}

/// The first write of a copy, at which a second process copies to the same container until its pool is full.
struct TakenOver {
    from: Container,
    to: Pool,
    has_begun: AtomicBool,
}

impl Interceptor for TakenOver {
    fn write<'a>(&'a self, to: &'a dyn OpenContainer, change: Change<'a>) -> Reply<'a, Epoch> {
        if !self.has_begun.swap(true, Ordering::Relaxed) {
            let full = Faulty::on(Arc::clone(self.to.backend()), Fault::Full);
            let full = Pool::from_backend(Arc::new(full), OpenMode::ReadWrite);
            assert_eq!(run(&self.from, &full, "to").unwrap_err().kind(), ErrorKind::NoSpace);
        }
        to.write(change)
    }
}

/// Openings of a `posix:` pool do not exclude one another. The second copy removes objects that the first has copied.
#[test]
fn a_copy_fails_if_another_has_taken_it_over() {
    let folder = Folder::new();
    for first in ["posix", "native"] {
        let (here, there) = (folder.pool(first), folder.pool("posix"));
        let from = container(&here, "from");
        fill(&from);
        let again = folder.open_again(&there);
        let (to, has_begun) = (folder.open_again(&there), AtomicBool::new(false));
        let other = Arc::new(TakenOver { from: from.clone(), to, has_begun });
        let hooked = PoolBetween::before(Arc::clone(there.backend()), &other);
        let hooked = Pool::from_backend(Arc::new(hooked), OpenMode::ReadWrite);
        assert_eq!(run(&from, &hooked, "to").unwrap_err().kind(), ErrorKind::Busy);
        assert!(again.open_container("to", OpenMode::ReadOnly).wait().is_err());
        run(&from, &again, "to").unwrap();
        assert_eq!(all(&from), all(&open(&again, "to")));
    }
}

/// Begins a copy to `to`, and stops it when the pool is full.
fn begin_until_full(from: &Container, there: &Pool) {
    let full = Faulty::on(Arc::clone(there.backend()), Fault::Full);
    let full = Pool::from_backend(Arc::new(full), OpenMode::ReadWrite);
    assert_eq!(run(from, &full, "to").unwrap_err().kind(), ErrorKind::NoSpace);
}

/// If another run has taken over a copy, the next run ignores the progress that the first one has recorded.
#[test]
fn progress_of_a_copy_that_was_taken_over_is_not_used() {
    let folder = Folder::new();
    let (here, there) = (folder.pool("posix"), folder.pool("posix"));
    let from = container(&here, "from");
    fill(&from);
    begin_until_full(&from, &there);
    let to = open(&there, "to.copying");
    let record = to.properties().get("copy").wait().unwrap().unwrap();
    assert!(!record.ends_with(b"start"));
    to.properties().set("copy_run", b"another").wait().unwrap();
    to.close().wait().unwrap();
    let progress = Progress::default();
    copy(&from, &there, "to", &options(), &progress).unwrap();
    assert_eq!(progress.summary().objects, 42);
}

#[test]
fn content_is_checked_in_the_snapshot_that_is_copied() {
    let folder = Folder::new();
    let (here, there) = (folder.pool("native"), folder.pool("posix"));
    let from = container(&here, "from");
    fill(&from);
    begin_until_full(&from, &there);
    let copied = all(&from);
    holey(&from, ObjectType::Array);
    run(&from, &there, "to").unwrap();
    assert_eq!(copied, all(&open(&there, "to")));
}

/// A snapshot keeps everything that is removed from the source later.
#[test]
fn snapshot_of_a_copy_whose_destination_was_destroyed_is_destroyed() {
    let folder = Folder::new();
    let (here, there) = (folder.pool("native"), folder.pool("posix"));
    let from = container(&here, "from");
    fill(&from);
    let full = Faulty::on(Arc::clone(there.backend()), Fault::Full);
    let full = Pool::from_backend(Arc::new(full), OpenMode::ReadWrite);
    for label in ["other", "to"] {
        assert_eq!(run(&from, &full, label).unwrap_err().kind(), ErrorKind::NoSpace);
    }
    there.destroy_container("to.copying", false).wait().unwrap();
    run(&from, &there, "to").unwrap();
    assert_eq!(from.snapshots().wait().unwrap().len(), 1, "that of the other copy");
    run(&from, &there, "other").unwrap();
    assert!(from.snapshots().wait().unwrap().is_empty());
}

/// A pool without snapshots, in which another process makes a value longer just before its first read, and then
/// restores it.
#[derive(Default)]
struct Flickering {
    reads: AtomicU32,
}

impl Flickering {
    /// Replaces the value `v` of the object.
    fn set(container: &dyn OpenContainer, oid: ObjectId, value: &[u8]) {
        let value = Value::Single(Source::One(value));
        let updates = &[Update { akey: b"v", value, cond: Cond::NONE }];
        let op = WriteOp::Update { dkey: b"d", cond: Cond::NONE, updates };
        container.write(Change::from_writes(&[Write { oid, op }])).wait().unwrap();
    }
}

impl Interceptor for Flickering {
    fn capabilities(&self, of: Capabilities) -> Capabilities {
        Capabilities { snapshots: false, ..of }
    }

    fn fetch<'a, 'f, 'b>(
        &'a self,
        from: &'a dyn OpenContainer,
        oid: ObjectId,
        dkeys: &'a mut [DkeyFetch<'f, 'b>],
        at: ReadAt<'a>,
    ) -> Reply<'a, ()>
    where
        'b: 'f,
        'f: 'a,
    {
        let is_read = dkeys
            .iter()
            .flat_map(|dkey| dkey.akeys.iter())
            .any(|fetch| fetch.request.akey == b"v" && matches!(fetch.reply.sink, Sink::One(_)));
        let reads = self.reads.load(Ordering::Relaxed);
        if is_read || reads > 0 {
            self.reads.store(reads + 1, Ordering::Relaxed);
        }
        match reads {
            0 if is_read => Self::set(from, oid, b"a longer value"),
            1 => Self::set(from, oid, b"value"),
            _ => {}
        }
        from.fetch(oid, dkeys, at)
    }
}

#[test]
fn value_that_is_longer_for_a_moment_is_copied() {
    let pool = PoolBetween::before(Arc::new(Memory::new(2)), &Arc::new(Flickering::default()));
    let pool = Pool::from_backend(Arc::new(pool), OpenMode::ReadWrite);
    let from = container(&pool, "from");
    let value = Value::Single(Source::One(b"value"));
    let updates = [Update { akey: b"v", value, cond: Cond::NONE }];
    let object = from.object(oid(&from, 7, ObjectType::MultiHashed));
    object.update(b"d", Cond::NONE, &updates, Access::Latest).wait().unwrap();
    let folder = Folder::new();
    let to = folder.pool("memory");
    run(&from, &to, "to").unwrap();
    assert!(all(&open(&to, "to")) == all(&from), "the value was copied as zeros");
}
