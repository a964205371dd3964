//! Segments that another process owns, takes over, or is about to free.
mod fill;
mod mapped;
mod reserve;

use super::compact::{Headers, pieces};
use super::{Append, Writer};
use crate::data::table::SegmentState;
use crate::format::keys::{Key, SINGLE, Table};
use crate::pool::ContainerSpec;
use crate::shard::container::Container;
use crate::shard::open_pool::OpenPool as Pool;
use crate::shard::{Target, walk};
use crate::shared::control::ProcessSlot;
use crate::tests::Scratch;
use esker_testing::pause;
use esker_types::info::{ContainerRef, Durability, OpenMode};
use esker_types::ops::{AkeyRef, Cond, ReadAt, Source, Update, Value, Wanted, Write, WriteOp};
use esker_types::{Checksum, ErrorKind, ObjectClass, ObjectId, ObjectType, Result};
use std::sync::atomic::Ordering;

/// A pool of one target with 24 segments of 256 KiB.
fn pool() -> Scratch {
    Scratch::new(8 << 20, |spec| {
        spec.targets = Some(1);
        spec.segment_bytes = Some(256 << 10);
        spec.index_percent = Some(25);
    })
}

fn container(pool: &Pool) -> Container {
    let spec = ContainerSpec { label: Some("c"), ..ContainerSpec::default() };
    pool.create_container(&spec).unwrap();
    pool.open_container(ContainerRef::Label("c"), OpenMode::ReadWrite).unwrap()
}

fn write(pool: &Pool, container: &Container, op: WriteOp<'_>) -> Result<()> {
    let oid = ObjectId::generate(0, 1, ObjectType::MultiHashed, ObjectClass::S1);
    pool.write(container, 0, &[Write { oid, op }], &[], None).map(drop)
}

/// Stores a single value of `len` bytes under a dkey that is a number.
fn put(pool: &Pool, container: &Container, number: u64, len: usize) -> Result<()> {
    let (dkey, value) = (number.to_be_bytes(), vec![number as u8; len]);
    let value = Value::Single(Source::One(&value));
    let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
    write(pool, container, WriteOp::Update { dkey: &dkey, cond: Cond::NONE, updates: &updates })
}

fn remove(pool: &Pool, container: &Container, number: u64) -> Result<()> {
    let dkey = number.to_be_bytes();
    write(pool, container, WriteOp::PunchDkey { dkey: &dkey, cond: Cond::NONE })
}

/// Numbers of the segments in a wanted state.
fn in_state(target: &Target, wanted: impl Fn(SegmentState) -> bool) -> Vec<u32> {
    let atomics = target.shared();
    (0..target.segment_count()).filter(|&number| wanted(atomics.segment(number).load())).collect()
}

fn other_process(target: &Target) -> ProcessSlot {
    ProcessSlot((target.process().0 + 1) % 4096)
}

/// Makes every segment full. Its only 1000 bytes of data are dead.
fn make_all_dead(target: &Target) {
    for number in 0..target.segment_count() {
        let atomics = target.shared();
        let atomics = atomics.segment(number);
        atomics.tail.store(target.segment_bytes(), Ordering::Release);
        atomics.published.store(1000, Ordering::Release);
        atomics.store(SegmentState::Sealed);
    }
    let count = |number: u32| Key::table(Table::Segment).push(&number.to_be_bytes());
    let mut segments = 0..target.segment_count();
    target
        .change(|change| segments.try_for_each(|n| change.put(&count(n), &1000_u64.to_le_bytes())))
        .unwrap();
}

/// Each of the readers may still read the dead segments, so none is freed before the last one ends.
#[test]
fn claim_waits_for_old_readers_if_all_segments_are_dead() {
    let pool = pool();
    let state = pool.opened();
    let target = &*state.targets[0];
    let one_more = |number: u64| {
        let reader = target.index.read().unwrap();
        target.change(|change| change.put(b"Tkey", &number.to_le_bytes())).unwrap();
        reader
    };
    let readers: Vec<_> = (0..12).map(one_more).collect();
    make_all_dead(target);
    std::thread::scope(|scope| {
        let claim = scope.spawn(|| target.append_slots.enter().claim(target, 1000, 0));
        for reader in readers {
            pause(10_000);
            drop(reader);
        }
        claim.join().unwrap().unwrap();
    });
}

/// Another process uses all free segments for a compaction. A claim here cannot compact without one, and waits until
/// they are released.
#[test]
fn compaction_without_space_waits_for_its_owner() {
    let pool = pool();
    let state = pool.opened();
    let (target, container) = (&*state.targets[0], container(&state));
    let count = (0..).find(|&number| put(&state, &container, number, 8000).is_err()).unwrap();
    let gone = (0..count).filter(|number| number % 8 != 0);
    gone.for_each(|number| remove(&state, &container, number).unwrap());
    target.collect().unwrap();
    for number in in_state(target, |state| matches!(state, SegmentState::Open(_))) {
        target.shared().segment(number).store(SegmentState::Sealed);
    }
    // Simulates another process that uses the free segments for compaction.
    let taken = in_state(target, |state| state == SegmentState::Free);
    taken
        .iter()
        .for_each(|&n| target.shared().segment(n).store(SegmentState::Busy(target.process())));
    std::thread::scope(|scope| {
        let claim = scope.spawn(|| target.append_slots.enter().claim(target, 1000, 0));
        pause(50_000);
        taken.iter().for_each(|&number| target.shared().segment(number).store(SegmentState::Free));
        claim.join().unwrap().unwrap();
    });
    put(&state, &container, 0, 8000).unwrap();
}

/// The free space is at the ends of segments, where compaction gains nothing.
#[test]
fn operation_does_not_wait_for_its_own_segments() {
    let pool = pool();
    let state = pool.opened();
    let (target, container) = (&*state.targets[0], container(&state));
    let count = (0..).find(|&number| put(&state, &container, number, 150_000).is_err()).unwrap();
    assert!(count > 10 && target.free_data_bytes().unwrap() > 150_000, "free at the ends");
    let mut writer = Writer::new(target);
    append(target, &mut writer);
    let (key, checksum) = (b"key".as_slice(), Checksum::Crc32c);
    let source = Source::One(&[7; 150_000]);
    let large = Append { key, count: 1, source, offset: 0, len: 150_000, checksum };
    let before = crate::sync::SLEEPS.get();
    assert_eq!(writer.append(&large).err().unwrap().kind(), ErrorKind::NoSpace);
    assert!(crate::sync::SLEEPS.get() - before < 20, "it waited for itself");
}

/// Appends 5000 bytes; returns their segment.
fn append(target: &Target, writer: &mut Writer<'_>) -> u32 {
    let before = in_state(target, |state| state == SegmentState::Busy(target.process()));
    let source = Source::One(&[7; 5000]);
    let (key, checksum) = (b"key".as_slice(), Checksum::Crc32c);
    writer.append(&Append { key, count: 1, source, offset: 0, len: 5000, checksum }).unwrap();
    let busy = in_state(target, |state| state == SegmentState::Busy(target.process()));
    busy.into_iter().find(|number| !before.contains(number)).unwrap()
}

/// Another process takes over the segment to which this one appends.
#[test]
fn lost_segment_is_not_changed_by_old_owner() {
    let pool = pool();
    let state = pool.opened();
    let target = &*state.targets[0];
    for publish in [false, true] {
        let mut writer = Writer::new(target);
        let segment = append(target, &mut writer);
        writer.check_held().unwrap();
        let atomics = target.shared();
        let atomics = atomics.segment(segment);
        atomics.store(SegmentState::Busy(other_process(target)));
        assert_eq!(writer.check_held().unwrap_err().kind(), ErrorKind::Again);
        // The new owner counts the segment and continues.
        atomics.published.store(111, Ordering::Release);
        atomics.tail.store(100_000, Ordering::Release);
        if publish {
            writer.publish()
        } else {
            drop(writer)
        }
        assert_eq!(atomics.load(), SegmentState::Busy(other_process(target)));
        assert_eq!(atomics.published.load(Ordering::Acquire), 111);
        assert_eq!(atomics.tail.load(Ordering::Acquire), 100_000);
        let mut writer = Writer::new(target);
        assert_ne!(append(target, &mut writer), segment, "appended to what is another's");
    }
}

/// The segment is lost between the staging of data and its commit.
#[test]
fn commit_checks_ownership_of_its_segments() {
    let pool = pool();
    let state = pool.opened();
    let (target, container) = (&*state.targets[0], container(&state));
    std::thread::scope(|scope| {
        let lock = target.begin_write().unwrap();
        let writer = scope.spawn(|| put(&state, &container, 1, 5000));
        let mine = |state| state == SegmentState::Busy(target.process());
        let staged = loop {
            let busy = in_state(target, mine);
            let tail = |number: u32| target.shared().segment(number).tail.load(Ordering::Acquire);
            match busy.first() {
                Some(&segment) if tail(segment) >= 5000 => break segment,
                _ => std::thread::yield_now(),
            }
        };
        target.shared().segment(staged).store(SegmentState::Busy(other_process(target)));
        drop(lock);
        assert_eq!(writer.join().unwrap().unwrap_err().kind(), ErrorKind::Again);
    });
    let txn = target.view_of(crate::shard::Scope::Committed).unwrap();
    let mut cursor = txn.cursor().unwrap();
    let first = cursor.seek(&Key::table(Table::Data)).unwrap();
    assert!(first.is_none_or(|(key, _)| key[0] != Table::Data as u8), "a record was made");
}

/// The segment has 15,000 live bytes, of which its dead owner has counted 10,000.
#[test]
fn segments_of_dead_processes_are_recounted() {
    let pool = pool();
    let state = pool.opened();
    let (target, container) = (&*state.targets[0], container(&state));
    (0..3).for_each(|number| put(&state, &container, number, 5000).unwrap());
    let [segment] = in_state(target, |state| matches!(state, SegmentState::Open(_)))[..] else {
        panic!("one segment is open")
    };
    let atomics = target.shared();
    let atomics = atomics.segment(segment);
    atomics.published.store(10_000, Ordering::Release);
    atomics.store(SegmentState::Busy(other_process(target)));
    target.collect().unwrap();
    assert_eq!(atomics.load(), SegmentState::Open(None));
    assert_eq!(atomics.published.load(Ordering::Acquire), 15_000);
    // A segment whose owner is alive is not recounted.
    atomics.store(SegmentState::Busy(target.process()));
    atomics.published.store(10_000, Ordering::Release);
    target.collect().unwrap();
    assert_eq!(atomics.load(), SegmentState::Busy(target.process()));
    assert_eq!(atomics.published.load(Ordering::Acquire), 10_000);
}

/// Makes the open segment that of a process that was killed between its commit and the counting of its data.
fn lose_count(target: &Target) -> u32 {
    let segment = in_state(target, |state| matches!(state, SegmentState::Open(_)))[0];
    let atomics = target.shared();
    let atomics = atomics.segment(segment);
    atomics.published.store(0, Ordering::Release);
    atomics.store(SegmentState::Busy(other_process(target)));
    segment
}

/// A process is killed between its commit and the counting of its data. The first recount fails, since all reader
/// slots are in use.
#[test]
fn segment_is_not_freed_after_failed_recount() {
    let pool = pool();
    let state = pool.opened();
    let (target, container) = (&*state.targets[0], container(&state));
    put(&state, &container, 1, 5000).unwrap();
    let segment = lose_count(target);
    let atomics = target.shared();
    let atomics = atomics.segment(segment);
    let readers: Vec<_> = std::iter::from_fn(|| target.index.read().ok()).collect();
    assert_eq!(target.collect().unwrap_err().kind(), ErrorKind::Busy);
    drop(readers);
    target.recycle().unwrap();
    assert_eq!(atomics.load(), SegmentState::Busy(ProcessSlot::NOBODY));
    target.collect().unwrap();
    assert_eq!(atomics.load(), SegmentState::Open(None));
    assert_eq!(miscounted(target), []);
}

/// A header of the segment of a dead process cannot be read.
#[test]
fn unreadable_segment_is_recounted_from_index() {
    let Some(pool) = mapped::disk_pool(Durability::Commit) else { return };
    let state = pool.opened();
    let (target, container) = (&*state.targets[0], container(&state));
    put(&state, &container, 1, 5000).unwrap();
    let segment = lose_count(target);
    let atomics = target.shared();
    let atomics = atomics.segment(segment);
    let file = std::fs::File::options().write(true).open(pool.path().join("target-0/data"));
    file.unwrap().set_len(target.segment_offset(segment)).unwrap();
    target.collect().unwrap();
    assert_eq!(atomics.load(), SegmentState::Open(None));
    assert_eq!(miscounted(target), []);
}

/// Bytes that a process appended before it died are freed, unless some were committed.
#[test]
fn uncommitted_bytes_of_dead_process_are_freed() {
    let pool = pool();
    let state = pool.opened();
    let (target, container) = (&*state.targets[0], container(&state));
    put(&state, &container, 1, 5000).unwrap();
    let segment = in_state(target, |state| matches!(state, SegmentState::Open(_)))[0];
    let atomics = target.shared();
    let atomics = atomics.segment(segment);
    let before = atomics.tail.load(Ordering::Acquire);
    let die = || {
        atomics.store(SegmentState::Busy(other_process(target)));
        target.collect().unwrap();
        assert_eq!(atomics.load(), SegmentState::Open(None));
        atomics.tail.load(Ordering::Acquire)
    };
    let oid = ObjectId::generate(0, 1, ObjectType::MultiHashed, ObjectClass::S1);
    let dkey = Key::dkey(Table::Data, container.id(), oid, b"dkey").unwrap();
    let key = dkey.akey(oid, b"a").unwrap().push(&[SINGLE]);
    let mut writer = Writer::new(target);
    let (key, source, checksum) = (&key[1..], Source::One(&[7; 5000]), Checksum::Crc32c);
    writer.append(&Append { key, count: 1, source, offset: 0, len: 5000, checksum }).unwrap();
    assert!(atomics.tail.load(Ordering::Acquire) > before);
    assert_eq!(die(), before);
    drop(writer);
    put(&state, &container, 2, 5000).unwrap();
    let after = atomics.tail.load(Ordering::Acquire);
    // Simulates a death between the commit and the counting.
    atomics.published.store(5000, Ordering::Release);
    atomics.stamp.store(before, Ordering::Release);
    assert_eq!(die(), after);
    assert_eq!(atomics.published.load(Ordering::Acquire), 10_000);
    assert_eq!(miscounted(target), []);
}

/// A process that dies in a compaction leaves its data in two segments, and none is free. The data must fit into one
/// again.
#[test]
fn interrupted_compaction_leaves_its_destination_open() {
    let pool = pool();
    let state = pool.opened();
    let (target, container) = (&*state.targets[0], container(&state));
    let size = target.segment_bytes();
    let nearly = |number: u32| target.shared().segment(number).tail.load(Ordering::Acquire);
    let segment = (0..)
        .find_map(|number| {
            put(&state, &container, number, 5000).unwrap();
            let open = in_state(target, |state| matches!(state, SegmentState::Open(_)));
            open.into_iter().find(|&number| nearly(number) > size - size / 16)
        })
        .unwrap();
    target.shared().segment(segment).store(SegmentState::Busy(other_process(target)));
    target.collect().unwrap();
    assert_eq!(target.shared().segment(segment).load(), SegmentState::Open(None));
}

/// Bytes that each segment counts as live, minus those to which the index refers.
fn miscounted(target: &Target) -> Vec<(u32, i64)> {
    let usage = walk::usage(target, &[]).unwrap();
    let off = |number: u32| {
        let dead = usage.dead.get(&number).copied().unwrap_or(0);
        let named = usage.segments.get(&number).map_or(0, |used| used.live);
        let counted = target.shared().segment(number).published.load(Ordering::Acquire) as i64;
        (number, counted - dead as i64 - named as i64)
    };
    (0..target.segment_count()).map(off).filter(|&(_, off)| off != 0).collect()
}

/// Data dies between the copying and the commit that refers to the copies.
#[test]
fn copies_of_replaced_data_count_as_dead() {
    for overwritten in [true, false] {
        let pool = pool();
        let state = pool.opened();
        let (target, container) = (&*state.targets[0], container(&state));
        put(&state, &container, 1, 5000).unwrap();
        let [segment] = in_state(target, |state| matches!(state, SegmentState::Open(_)))[..] else {
            panic!("one segment is open")
        };
        target.shared().segment(segment).store(SegmentState::Sealed);
        let (header, data_at) = Headers::for_segment(target, segment).next().unwrap().unwrap();
        let found = pieces(
            target.view_of(crate::shard::Scope::Committed).unwrap().committed(),
            &header,
            segment,
            data_at,
        )
        .unwrap();
        assert_eq!(found.len(), 1);
        match overwritten {
            true => put(&state, &container, 1, 6000).unwrap(),
            false => remove(&state, &container, 1).unwrap(),
        }
        target.move_pieces(&found).unwrap();
        assert_eq!(miscounted(target), [], "overwritten: {overwritten}");
    }
}

/// A commit over several targets that finds no space waits for old views. Reads that wait for the commit must not keep
/// views.
#[test]
fn reader_waiting_for_commit_keeps_no_view() {
    let pool = pool();
    let state = pool.opened();
    let target = &*state.targets[0];
    for _ in 0..50 {
        make_all_dead(target);
        std::thread::scope(|scope| {
            let collection = scope.spawn(|| target.recycle());
            let under_way = target.coordinating.lock().unwrap();
            while target.shared().segment(0).load() == SegmentState::Sealed {
                std::hint::spin_loop();
            }
            target.shared().in_doubt().store(1, Ordering::SeqCst);
            let mut txn = target.begin_bare().unwrap();
            txn.put(b"Tkey", b"value").unwrap();
            txn.commit().unwrap();
            let gone = target.index.wait_for_readers().unwrap();
            target.shared().in_doubt().store(0, Ordering::SeqCst);
            drop(under_way);
            collection.join().unwrap().unwrap();
            assert!(gone, "a view of the past stays as long as the commit is under way");
        });
    }
}

/// A view may outlive all processes that have the pool open, so a rebuild of the control file looks for its pin.
#[test]
fn recount_does_not_free_segment_pinned_by_view() {
    let pool = pool();
    let state = pool.opened();
    let (target, container) = (&*state.targets[0], container(&state));
    put(&state, &container, 7, 100_000).unwrap();
    let oid = ObjectId::generate(0, 1, ObjectType::MultiHashed, ObjectClass::S1);
    let place = AkeyRef { dkey: &7_u64.to_be_bytes(), akey: b"a" };
    let view = target.view(container.id(), oid, place, Wanted::Single, ReadAt::LATEST);
    let view = view.unwrap().unwrap();
    remove(&state, &container, 7).unwrap();
    // Simulates a repair that removed the record, so that nothing shows that the segment had data.
    let used = in_state(target, |state| state != SegmentState::Free)[0];
    let count = Key::table(Table::Segment).push(&used.to_be_bytes());
    target.change(|change| change.delete(&count).map(drop)).unwrap();
    crate::pool::rebuild(target, &[]).unwrap();
    assert_eq!(target.shared().segment(used).load(), SegmentState::Dead);
    assert!(view.iter().all(|&byte| byte == 7));
    drop(view);
    target.recycle().unwrap();
    assert_eq!(target.shared().segment(used).load(), SegmentState::Free);
}
