//! Compaction while the reserved segment is in use: other writers do not take the space that it needs.
use super::{append, container, in_state, pool, put, remove};
use crate::data::table::SegmentState;
use crate::format::keys::{Key, Table};
use crate::format::record::Body;
use crate::shard::container::Container;
use crate::shard::open_pool::OpenPool as Pool;
use crate::shard::segment::Writer;
use crate::shard::segment::compact::Headers;
use crate::shard::{Target, walk};
use esker_types::{ErrorKind, Result};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

const LEN: usize = 8000;

/// Fills one segment after the other.
fn fill(pool: &Pool, container: &Container) {
    let full = (0..).find_map(|number| put(pool, container, number, LEN).err()).unwrap();
    assert_eq!(full.kind(), ErrorKind::NoSpace, "{full}");
}

/// Segment of each value.
fn places(target: &Target) -> BTreeMap<u64, u32> {
    let mut found = BTreeMap::new();
    let note = |_: &[u8], entry: crate::format::record::Found<'_>| {
        let (key, record) = entry?;
        if let Body::Segment(place) = record.body {
            let number = <[u8; 8]>::try_from(&key.dkey(record.left_out)?[..]).unwrap();
            found.insert(u64::from_be_bytes(number), place.segment);
        }
        Ok(())
    };
    walk::records(&target.view_of(crate::shard::Scope::Committed).unwrap(), note).unwrap();
    found
}

/// Values in a segment, in the order in which they were appended.
fn values_in(target: &Target, segment: u32) -> Vec<u64> {
    let places = places(target).into_iter();
    places.filter(|&(_, place)| place == segment).map(|(number, _)| number).collect()
}

/// Removes the last `room` values of a segment, as if they had never been written, and gives the segment a state.
fn open(pool: &Pool, container: &Container, segment: u32, room: usize, state: SegmentState) {
    let target = &*pool.targets[0];
    let values = values_in(target, segment);
    let kept = values.len() - room;
    values[kept..].iter().for_each(|&number| remove(pool, container, number).unwrap());
    let headers: Vec<_> = Headers::for_segment(target, segment).collect::<Result<_>>().unwrap();
    let tail = headers[..kept].iter().map(|(header, _)| header.footprint()).sum();
    let atomics = target.shared();
    let atomics = atomics.segment(segment);
    atomics.tail.store(tail, Ordering::Release);
    atomics.stamp.store(tail, Ordering::Release);
    atomics.published.store((kept * LEN) as u64, Ordering::Release);
    atomics.store(state);
    let dead = Key::table(Table::Segment).push(&segment.to_be_bytes());
    target.change(|change| change.delete(&dead).map(drop)).unwrap();
}

/// Simulates another process that uses the free segments for compaction.
fn take_free(target: &Target) {
    let free = in_state(target, |state| state == SegmentState::Free);
    free.iter()
        .for_each(|&n| target.shared().segment(n).store(SegmentState::Busy(target.process())));
}

/// If the data were moved to several segments, a crash in between could leave more data than fits into any of them.
#[test]
fn without_reserve_a_segment_is_moved_to_one_destination() {
    let pool = pool();
    let state = pool.opened();
    let (target, container) = (&*state.targets[0], container(&state));
    fill(&state, &container);
    let [small, large, victim] = [0, 1, 2].map(|number| places(target)[&(40 * number)]);
    let mine = SegmentState::Open(Some(target.process()));
    open(&state, &container, small, 2, SegmentState::Open(None));
    open(&state, &container, large, 6, mine);
    let values = values_in(target, victim);
    values[5..].iter().for_each(|&number| remove(&state, &container, number).unwrap());
    target.shared().segment(victim).store(mine);
    take_free(target);
    target.make_room(100_000).unwrap();
    let places = places(target);
    let moved: Vec<_> = values[..5].iter().map(|number| places[number]).collect();
    assert_eq!(moved, [large; 5]);
    // The previous owner cannot continue to write to it.
    assert_eq!(target.shared().segment(victim).load(), SegmentState::Free);
}

/// An append slot remembers its segment, which may have been filled, emptied and taken by compaction since.
#[test]
fn append_slot_does_not_use_segment_of_compaction() {
    let pool = pool();
    let state = pool.opened();
    let (target, container) = (&*state.targets[0], container(&state));
    put(&state, &container, 0, LEN).unwrap();
    let mine = in_state(target, |state| matches!(state, SegmentState::Open(_)))[0];
    take_free(target);
    target.set_free(mine);
    let mut writer = Writer::for_compaction(target);
    assert_eq!(append(target, &mut writer), mine);
    writer.publish();
    assert_eq!(target.append_slots.enter().take(&target.table()), None, "it is not used");
    assert_eq!(append(target, &mut Writer::for_compaction(target)), mine);
}

/// A wrong tail inside an extent: the next extents may begin inside it, where compaction does not find them.
#[test]
fn segment_whose_last_extent_ends_behind_the_tail_is_not_freed() {
    let pool = pool();
    let state = pool.opened();
    let (target, container) = (&*state.targets[0], container(&state));
    fill(&state, &container);
    let victim = places(target)[&40];
    let values = values_in(target, victim);
    values[1..].iter().for_each(|&number| remove(&state, &container, number).unwrap());
    let shared = target.shared();
    let tail = &shared.segment(victim).tail;
    let whole = tail.load(Ordering::Acquire);
    tail.store(whole - 64, Ordering::Release);
    target.compact_all().unwrap();
    assert_eq!(places(target)[&values[0]], victim);
    let last = Headers::for_segment(target, victim).last().unwrap().unwrap_err();
    assert_eq!(last.kind(), ErrorKind::Checksum, "{last}");
    tail.store(whole, Ordering::Release);
    target.compact_all().unwrap();
    assert_ne!(places(target)[&values[0]], victim);
}
