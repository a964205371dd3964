//! Segments on a disk whose pages are in memory: they are written and read through a mapping.
use super::*;
use crate::io::page_cache::CachedMap;
use esker_types::info::Durability;
use esker_types::ops::{Fetch, Sink};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes of a large value, of which two fit into a segment.
const LARGE: usize = 700 << 10;
/// Most bytes that the file system takes for the map of the file.
const MAP_BYTES: u64 = 64 << 10;

/// A pool of one target with segments of 1.5 MiB, which share chunks of the mapping, on a disk. `None` if the file
/// system there cannot be written through a mapping.
pub(super) fn disk_pool(durability: Durability) -> Option<Scratch> {
    let place = Path::new("/var/tmp");
    if !CachedMap::can_write(&std::fs::File::open(place).unwrap()) {
        esker_testing::skip("/var/tmp is not on ext4 or XFS");
        return None;
    }
    Some(Scratch::on(place, 40 << 20, |spec| {
        spec.targets = Some(1);
        spec.durability = Some(durability);
        spec.segment_bytes = Some(3 << 19);
    }))
}

/// Expects that a value is what `put` stored.
#[track_caller]
fn expect(target: &Target, container: &Container, number: u64, len: usize) {
    let oid = ObjectId::generate(0, 1, ObjectType::MultiHashed, ObjectClass::S1);
    let mut value = vec![!0; len];
    let mut fetches = [Fetch::single(b"a", Sink::One(&mut value))];
    let dkey = number.to_be_bytes();
    target.fetch(container.id(), oid, &dkey, Cond::NONE, &mut fetches, ReadAt::LATEST).unwrap();
    assert_eq!(fetches[0].reply.size, len as u64);
    assert!(value.iter().all(|&byte| byte == number as u8), "value {number}");
}

fn blocks(pool: &Scratch) -> u64 {
    std::fs::metadata(pool.path().join("target-0/data")).unwrap().blocks() * 512
}

/// Each round replaces values by others of another length, until segments are reused.
#[test]
fn reused_segments_on_disk_have_new_values() {
    for durability in [Durability::Process, Durability::Commit] {
        let Some(pool) = disk_pool(durability) else { return };
        let state = pool.opened();
        let (target, container) = (&*state.targets[0], container(&state));
        let reserved = blocks(&pool);
        for round in 0..6 {
            let len =
                |number: u64| if number.is_multiple_of(3) { LARGE } else { 5000 + 100 * round };
            let numbers = || (round as u64..).take(12);
            numbers().for_each(|number| put(&state, &container, number, len(number)).unwrap());
            numbers().for_each(|number| expect(target, &container, number, len(number)));
        }
        let is_mapped = target.data.has_cached_chunks();
        assert!(is_mapped, "{durability:?}: no chunk was found in memory");
        assert!(blocks(&pool) <= reserved + MAP_BYTES, "{durability:?}");
    }
}

#[test]
fn segments_of_the_index_stay_holes_while_others_are_mapped() {
    let Some(pool) = disk_pool(Durability::Process) else { return };
    let state = pool.opened();
    let (target, container) = (&*state.targets[0], container(&state));
    let reserved = blocks(&pool);
    // Every segment is mapped once.
    let count =
        (0..).find(|&number| put(&state, &container, number, LARGE - 100).is_err()).unwrap();
    (0..count).for_each(|number| remove(&state, &container, number).unwrap());
    target.collect().unwrap();
    assert!(target.grow_index(4, false).unwrap());
    let lent = u64::from(target.index_segment_count()) * target.segment_bytes();
    assert!(lent > 0);
    for round in 0..3 {
        (0..4).for_each(|number| put(&state, &container, round + number, LARGE).unwrap());
        (0..4).for_each(|number| expect(target, &container, round + number, LARGE));
    }
    assert!(blocks(&pool) <= reserved + MAP_BYTES - lent, "the index and data have the same space");
}

/// A byte of each segment is overwritten through the file, which also changes the mapped pages.
#[test]
fn damaged_pages_in_memory_are_detected() {
    let Some(pool) = disk_pool(Durability::Process) else { return };
    let state = pool.opened();
    let (target, container) = (&*state.targets[0], container(&state));
    (0..4).for_each(|number| put(&state, &container, number, LARGE).unwrap());
    (0..4).for_each(|number| expect(target, &container, number, LARGE));
    let path = pool.path().join("target-0/data");
    let data = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let segments = in_state(target, |state| state != SegmentState::Free);
    for segment in segments {
        let middle = target.segment_offset(segment) + 500_000;
        std::os::unix::fs::FileExt::write_all_at(&data, &[0xee], middle).unwrap();
    }
    let oid = ObjectId::generate(0, 1, ObjectType::MultiHashed, ObjectClass::S1);
    let mut value = vec![0; LARGE];
    let mut fetches = [Fetch::single(b"a", Sink::One(&mut value))];
    let dkey = 0_u64.to_be_bytes();
    let read = target.fetch(container.id(), oid, &dkey, Cond::NONE, &mut fetches, ReadAt::LATEST);
    assert_eq!(read.unwrap_err().kind(), ErrorKind::Checksum);
}
