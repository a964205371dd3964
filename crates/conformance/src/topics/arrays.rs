//! Arrays under an akey: overlapping, unaligned, sparse and overwriting extents, exact to the byte.
use super::extents::{Twin, UNTOUCHED};
use super::store::{Store, akeys, checks, dkeys, refused, run, single};
use super::{Make, Outcome};
use esker::{Access, ArrayAttributes, Wait};
use esker_testing::Random;
use esker_types::limits::{EXTENT_BYTES_MAX, RECORD_SIZE_MAX};
use esker_types::ops::{Cond, Sink, Source, Update, Value};
use esker_types::{ErrorKind, Extent, ObjectType, Result};

/// Checks arrays.
///
/// # Panics
/// If the backend violates a requirement.
pub fn arrays(make: Make<'_>) -> Outcome {
    run(
        "arrays",
        &make(),
        checks![
            reads_of_a_missing_object_find_nothing,
            an_extent_round_trips,
            later_writes_cover_earlier_ones,
            one_update_takes_several_extents,
            one_fetch_takes_several_extents,
            any_overlap_is_exact,
            large_extents_are_exact,
            many_small_extents,
            punched_records_are_gone,
            an_array_without_records_does_not_exist,
            punches_see_earlier_writes,
            the_record_size_is_fixed,
            sizes_must_fit,
            lengths_must_match,
            far_records,
            unwritten_cells_are_holes_or_zeros,
            data_and_holes_are_found,
        ],
    )
}

fn extent(start: u64, count: u64) -> Extent {
    Extent::new(start, count)
}

/// Compares an object that was never written with an empty model.
fn reads_of_a_missing_object_find_nothing(store: &Store) -> Result<()> {
    Twin::new(store, 4)?.compare()
}

fn an_extent_round_trips(store: &Store) -> Result<()> {
    for (record_size, records) in [(1, 1), (1, 1000), (8, 129), (3, 5000), (1000, 40), (4096, 3)] {
        let mut twin = Twin::new(store, record_size)?;
        twin.write(
            &[extent(5, records)],
            &Random::new(1, 0).bytes((records * record_size) as usize),
        )?;
        twin.compare()?;
        twin.compare_part(&[extent(0, 3)])?;
        twin.compare_part(&[extent(4, 2)])?;
        twin.compare_part(&[extent(5 + records / 2, records)])?;
    }
    Ok(())
}

fn later_writes_cover_earlier_ones(store: &Store) -> Result<()> {
    let cases = [(10, 10), (5, 10), (15, 10), (12, 4), (5, 30), (10, 3), (17, 3), (0, 10), (20, 5)];
    for (start, count) in cases {
        let mut twin = Twin::new(store, 2)?;
        twin.write(&[extent(10, 10)], &Random::new(1, 0).bytes(20))?;
        twin.write(&[extent(start, count)], &Random::new(2, 0).bytes((2 * count) as usize))?;
        twin.compare()?;
    }
    Ok(())
}

fn one_update_takes_several_extents(store: &Store) -> Result<()> {
    let mut twin = Twin::new(store, 3)?;
    let extents = [extent(100, 7), extent(0, 2), extent(50, 0), extent(2, 3), extent(60, 1)];
    twin.write(&extents, &Random::new(1, 0).bytes(13 * 3))?;
    twin.compare()
}

fn one_fetch_takes_several_extents(store: &Store) -> Result<()> {
    let mut twin = Twin::new(store, 1)?;
    twin.write(&[extent(10, 90), extent(200, 3000)], &Random::new(1, 0).bytes(3090))?;
    twin.compare_part(&[extent(95, 10), extent(5, 10), extent(7, 0), extent(199, 2)])?;
    twin.compare_part(&[extent(3199, 5), extent(200, 100), extent(0, 11)])
}

fn any_overlap_is_exact(store: &Store) -> Result<()> {
    for (seed, record_size) in [(1, 1), (2, 1), (3, 7), (4, 64), (5, 1000)] {
        let mut random = Random::new(seed, 0);
        let mut twin = Twin::new(store, record_size)?;
        for step in 0..120 {
            let extent = some_extent(&mut random, 600, 90);
            match random.one_in(5) {
                true => twin.punch(&[extent])?,
                false => {
                    twin.write(&[extent], &random.bytes((extent.count * record_size) as usize))?
                }
            }
            twin.compare_part(&[
                some_extent(&mut random, 600, 300),
                some_extent(&mut random, 9, 9),
            ])?;
            if step % 20 == 19 {
                twin.compare()?;
            }
        }
    }
    Ok(())
}

/// A random extent of at most `counts` records that starts below `starts`.
fn some_extent(random: &mut Random, starts: u64, counts: u64) -> Extent {
    extent(random.below(starts), 1 + random.below(counts))
}

fn large_extents_are_exact(store: &Store) -> Result<()> {
    let piece = EXTENT_BYTES_MAX as u64;
    let mut random = Random::new(9, 0);
    let mut twin = Twin::new(store, 1)?;
    twin.write(&[extent(777, 2 * piece + 12_345)], &random.bytes((2 * piece + 12_345) as usize))?;
    twin.compare_part(&[extent(0, 2 * piece + 20_000)])?;
    for (start, count) in [(piece - 1, 3), (40_000, 70_001), (piece + 5, piece), (0, 778)] {
        twin.write(&[extent(start, count)], &random.bytes(count as usize))?;
    }
    twin.punch(&[extent(1_000_000, 40_000)])?;
    for (start, count) in [(0, 3 * piece), (piece - 5, 11), (39_999, 70_003), (999_999, 40_002)] {
        twin.compare_part(&[extent(start, count)])?;
    }
    Ok(())
}

/// One update of many extents, and a later write that covers most of them.
fn many_small_extents(store: &Store) -> Result<()> {
    let mut twin = Twin::new(store, 8)?;
    let extents: Vec<_> = (0..500).map(|index| extent(3 * index, 1)).collect();
    twin.write(&extents, &Random::new(1, 0).bytes(500 * 8))?;
    twin.compare()?;
    twin.write(&[extent(2, 1200)], &Random::new(2, 0).bytes(1200 * 8))?;
    twin.compare()
}

fn punched_records_are_gone(store: &Store) -> Result<()> {
    let mut twin = Twin::new(store, 4)?;
    twin.punch(&[extent(0, 100)])?;
    twin.compare()?;
    assert!(dkeys(&twin.object, 10, Access::Latest)?.is_empty(), "a punch makes no key");
    twin.write(&[extent(10, 100)], &Random::new(1, 0).bytes(400))?;
    twin.punch(&[extent(20, 5), extent(0, 11), extent(108, 50), extent(300, 0)])?;
    twin.compare()?;
    twin.write(&[extent(21, 2)], &Random::new(2, 0).bytes(8))?;
    twin.compare()
}

fn an_array_without_records_does_not_exist(store: &Store) -> Result<()> {
    let mut twin = Twin::new(store, 4)?;
    twin.write(&[extent(10, 10), extent(40, 2)], &Random::new(1, 0).bytes(48))?;
    twin.punch(&[extent(10, 10)])?;
    assert_eq!(dkeys(&twin.object, 10, Access::Latest)?.len(), 1);
    twin.punch(&[extent(0, 1000)])?;
    twin.compare()?;
    assert!(dkeys(&twin.object, 10, Access::Latest)?.is_empty());
    if store.pool.capabilities().lasting_kinds {
        twin.refuses(Value::Single(Source::One(b"another kind")), ErrorKind::NoPermission);
    } else {
        twin.update(Value::Single(Source::One(b"another kind")))?;
    }
    Ok(())
}

/// A punch of records depends on the earlier writes of its transaction.
fn punches_see_earlier_writes(store: &Store) -> Result<()> {
    if !store.pool.capabilities().transactions {
        return Ok(());
    }
    let object = store.object()?;
    let (extents, rest) = ([extent(0, 10)], [extent(5, 100)]);
    let write = Value::Array { record_size: 1, extents: &extents, data: Source::One(&[7; 10]) };
    let set = |akey, value: Value<'_>, access: Access<'_>| {
        let update = Update { akey, value, cond: Cond::NONE };
        object.update(b"d", Cond::NONE, &[update], access).wait()
    };
    object.update(b"d", Cond::NONE, &[single(b"kept", b"v")], Access::Latest).wait()?;
    for akey in [b"emptied".as_slice(), b"again"] {
        set(akey, write, Access::Latest)?;
    }
    let transaction = store.container.transaction()?;
    let access = Access::Tx(&transaction);
    for akey in [b"partly".as_slice(), b"emptied", b"again", b"never"] {
        set(akey, write, access)?;
        set(akey, Value::PunchExtents(&rest), access)?;
    }
    set(b"again", Value::PunchExtents(&[extent(0, 5)]), access)?;
    set(b"again", write, access)?;
    set(b"emptied", Value::PunchExtents(&[extent(0, 5)]), access)?;
    set(b"never", Value::PunchExtents(&[extent(0, 50)]), access)?;
    transaction.commit().wait()?;
    let mut left = akeys(&object, b"d", 10)?;
    left.sort();
    assert_eq!(left, [b"again".as_slice(), b"kept", b"partly"]);
    Ok(())
}

/// An array refuses records of another size than its first ones.
fn the_record_size_is_fixed(store: &Store) -> Result<()> {
    let mut twin = Twin::new(store, 4)?;
    twin.write(&[extent(0, 2)], b"abcdefgh")?;
    let extents = [extent(5, 1)];
    let other = |record_size, data| Value::Array {
        record_size,
        extents: &extents,
        data: Source::One(data),
    };
    twin.refuses(other(2, b"ab"), ErrorKind::Invalid);
    twin.refuses(other(8, b"abcdefgh"), ErrorKind::Invalid);
    twin.compare()
}

/// A fetch fails if its sink is too short for a record, or if it expects another record size.
fn sizes_must_fit(store: &Store) -> Result<()> {
    let mut twin = Twin::new(store, 4)?;
    twin.write(&[extent(0, 2)], b"abcdefgh")?;
    for (size, len) in [(2, 2), (0, 3)] {
        let (result, stored) = twin.fetch_sized(size, len);
        refused(result, ErrorKind::RecordTooBig);
        assert_eq!(stored, 4, "the fetch returns the record size");
    }
    refused(twin.fetch_sized(8, 8).0, ErrorKind::Invalid);
    assert_eq!(twin.fetch_sized(4, 4), (Ok(()), 4));
    assert_eq!(twin.fetch_sized(0, 4), (Ok(()), 4));
    Ok(())
}

/// An update fails if its data do not have the length of its extents, or if its record size or an extent is invalid.
fn lengths_must_match(store: &Store) -> Result<()> {
    let twin = Twin::new(store, 4)?;
    let extents = [extent(0, 2)];
    let array =
        |record_size, extents, data| Value::Array { record_size, extents, data: Source::One(data) };
    twin.refuses(array(4, &extents, b"abcdefg"), ErrorKind::Invalid);
    twin.refuses(array(4, &extents, b"abcdefghi"), ErrorKind::Invalid);
    twin.refuses(array(0, &extents, b""), ErrorKind::Invalid);
    twin.refuses(array(RECORD_SIZE_MAX + 1, &extents, b""), ErrorKind::RecordTooBig);
    let past_the_end = [extent(u64::MAX, 2)];
    twin.refuses(array(4, &past_the_end, b"abcdefgh"), ErrorKind::Invalid);
    twin.refuses(Value::PunchExtents(&past_the_end), ErrorKind::Invalid);
    twin.compare()
}

/// Records near the largest index that the backend supports.
fn far_records(store: &Store) -> Result<()> {
    let twin = Twin::new(store, 4)?;
    let half = store.pool.capabilities().half_range;
    let end = if half { 1 << 63 } else { u64::MAX };
    let extents = [extent(end - 3, 2), extent(1 << 40, 1)];
    let data = Source::One(b"abcdefghijkl");
    twin.update(Value::Array { record_size: 4, extents: &extents, data })?;
    if half {
        let past = [extent(end - 1, 2), extent(0, 1)];
        twin.refuses(Value::Array { record_size: 4, extents: &past, data }, ErrorKind::Invalid);
    }
    twin.update(Value::PunchExtents(&[extent(1 << 39, u64::MAX - (1 << 39))]))?;
    twin.compare()
}

/// A read leaves cells that were never written, before the last cell of a chunk, unchanged and does not count them;
/// on backends that declare not to support holes, they are zeros and count.
fn unwritten_cells_are_holes_or_zeros(store: &Store) -> Result<()> {
    let attributes = ArrayAttributes { cell_size: 2, chunk_size: 8 };
    let oid = store.oid(ObjectType::Array)?;
    let array = store.container.create_array(oid, attributes, Access::Latest).wait()?;
    for cell in [3, 5, 20] {
        array.write(&[extent(cell, 1)], Source::One(b"ab"), Access::Latest).wait()?;
    }
    assert_eq!(array.size(Access::Latest).wait()?, 21);
    array.punch(&[extent(5, 1)], Access::Latest).wait()?;
    array.punch(&[extent(20, 9)], Access::Latest).wait()?;
    let holes = store.pool.capabilities().holes;
    assert_eq!(array.size(Access::Latest).wait()?, if holes { 4 } else { 20 });
    let mut cells = [UNTOUCHED; 12];
    array.read(&[extent(0, 6)], Sink::One(&mut cells), Access::Latest).wait()?;
    let (hole, end) = (if holes { UNTOUCHED } else { 0 }, UNTOUCHED);
    assert_eq!(cells, [hole, hole, hole, hole, hole, hole, b'a', b'b', hole, hole, end, end]);
    Ok(())
}

/// From every cell, finds the next existing and the next missing one. Chunk 7 and those far away are empty.
fn data_and_holes_are_found(store: &Store) -> Result<()> {
    const CHUNK: u64 = 8;
    let attributes = ArrayAttributes { cell_size: 1, chunk_size: CHUNK };
    let array =
        store.container.create_array(store.oid(ObjectType::Array)?, attributes, Access::Latest);
    let array = array.wait()?;
    let written =
        [(3, 1), (5, 2), (7, 4), (16, 16), (40, 8), (49, 1), (51, 1), (64, 3), (900, 2), (7001, 1)];
    let mut cells = vec![false; 7002];
    for (start, count) in written {
        let data = vec![1; count as usize];
        array.write(&[extent(start, count)], Source::One(&data), Access::Latest).wait()?;
        let begin = match store.pool.capabilities().holes {
            true => start,
            false => start - start % CHUNK,
        };
        cells[begin as usize..(start + count) as usize].fill(true);
    }
    for from in (0..1000).chain(6980..7010).chain([u64::MAX - 1, u64::MAX]) {
        let rest = cells.get(from as usize..).unwrap_or_default();
        let data = rest.iter().position(|cell| *cell).map(|cells| from + cells as u64);
        assert_eq!(array.next_data(from, Access::Latest).wait()?, data, "data from {from} on");
        let len = rest.iter().position(|cell| !cell).unwrap_or(rest.len());
        let hole = array.next_hole(from, Access::Latest).wait()?;
        assert_eq!(hole, from + len as u64, "a hole from {from} on");
    }
    Ok(())
}
