//! Arrays: one test for each documented rule.
use esker::backend::memory::Memory;
use esker::types::info::OpenMode;
use esker::types::ops::{
    AkeyRef, Anchor, Change, Cond, DkeyFetch, Fetch, ListLimit, ReadAt, Sink, Source, Update,
    Value, Write, WriteOp,
};
use esker::types::{ErrorKind, Extent, FLAT_AKEY, ObjectId, ObjectType, Result};
use esker::{Access, Array, ArrayAttributes, ArrayRead, Container, Pool, Wait};
use esker_backend::{NewContainer, OpenContainer, Reply};
use esker_conformance::between::{Interceptor, PoolBetween};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const SHAPE: ArrayAttributes = ArrayAttributes { cell_size: 2, chunk_size: 10 };

/// A container in a pool in memory.
fn container() -> Container {
    let backend: Arc<dyn esker_backend::Pool> = Arc::new(Memory::new(4));
    let pool = Pool::from_backend(backend, OpenMode::ReadWrite);
    let new = NewContainer::named("test");
    pool.create_container(&new).wait().unwrap();
    pool.open_container("test", OpenMode::ReadWrite).wait().unwrap()
}

/// The id of an object of this type, the same for each type.
fn oid(container: &Container, otype: ObjectType) -> ObjectId {
    container.generate_oid(0, 1, otype, None, 0).unwrap()
}

/// A new array of type `Array`, with the attributes [`SHAPE`].
fn array(container: &Container) -> Array {
    let oid = oid(container, ObjectType::Array);
    container.create_array(oid, SHAPE, Access::Latest).wait().unwrap()
}

/// An array of type `ArrayByte` with 10 cells per chunk.
fn byte_array(container: &Container) -> Array {
    let shape = ArrayAttributes { cell_size: 1, chunk_size: 10 };
    let oid = oid(container, ObjectType::ArrayByte);
    container.open_array_with_attributes(oid, shape).unwrap()
}

/// Writes cells with this data, from the cell `start` on.
fn write(array: &Array, start: u64, data: &[u8]) {
    let count = data.len() as u64 / array.attributes().cell_size;
    let ranges = [Extent::new(start, count)];
    array.write(&ranges, Source::One(data), Access::Latest).wait().unwrap();
}

/// Fills the buffer with cells from `start` on.
fn read_into(array: &Array, start: u64, buffer: &mut [u8]) -> ArrayRead {
    let ranges = [Extent::new(start, buffer.len() as u64 / array.attributes().cell_size)];
    array.read(&ranges, Sink::One(buffer), Access::Latest).wait().unwrap()
}

fn size(array: &Array) -> u64 {
    array.size(Access::Latest).wait().unwrap()
}

fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

#[test]
fn all_array_types_can_be_created_but_only_one_opened() {
    let container = container();
    for code in 0..=14 {
        let otype = ObjectType::from_code(code).unwrap();
        let oid = container.generate_oid(0, u64::from(code) + 1, otype, None, 0).unwrap();
        let created = kind(container.create_array(oid, SHAPE, Access::Latest).wait());
        let opened = kind(container.open_array(oid, Access::Latest).wait());
        let shaped = kind(container.open_array_with_attributes(oid, SHAPE));
        let bad = Some(ErrorKind::Invalid);
        // Code 11 is `Array`, 12 `ArrayAttr`, 13 `ArrayByte`.
        assert_eq!(created, if otype.is_array() { None } else { bad }, "create {otype:?}");
        assert_eq!(opened, if code == 11 { None } else { bad }, "open {otype:?}");
        assert_eq!(shaped, if code == 12 || code == 13 { None } else { bad }, "shape {otype:?}");
    }
}

#[test]
fn creating_an_existing_array_fails() {
    let container = container();
    let oid = oid(&container, ObjectType::Array);
    assert_eq!(kind(container.open_array(oid, Access::Latest).wait()), Some(ErrorKind::NotFound));
    let created = array(&container);
    let again = container.create_array(oid, SHAPE, Access::Latest).wait();
    assert_eq!(kind(again), Some(ErrorKind::Exists));
    let opened = container.open_array(oid, Access::Latest).wait().unwrap();
    assert_eq!(opened.attributes(), SHAPE);
    created.destroy(Access::Latest).wait().unwrap();
    assert_eq!(kind(container.open_array(oid, Access::Latest).wait()), Some(ErrorKind::NotFound));
}

#[test]
fn invalid_cell_and_chunk_sizes_are_refused() {
    let container = container();
    for (cell_size, chunk_size) in [(0, 1), (1, 0), (1 << 40, 1)] {
        let shape = ArrayAttributes { cell_size, chunk_size };
        let array = oid(&container, ObjectType::Array);
        let created = container.create_array(array, shape, Access::Latest).wait();
        assert_eq!(kind(created), Some(ErrorKind::Invalid));
        let bytes = oid(&container, ObjectType::ArrayByte);
        let shaped = container.open_array_with_attributes(bytes, shape);
        assert_eq!(kind(shaped), Some(ErrorKind::Invalid));
    }
}

#[test]
fn attributes_are_stored_as_in_daos() {
    let container = container();
    let array = array(&container);
    let mut stored = [0; 24];
    let mut fetch = [Fetch::single(b"0", Sink::One(&mut stored))];
    let dkey = 0u64.to_ne_bytes();
    array.object().fetch(&dkey, Cond::NONE, &mut fetch, Access::Latest).wait().unwrap();
    assert_eq!(fetch[0].reply.size, 24);
    let words = stored.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    // Magic number, cell size and chunk size.
    assert_eq!(words.collect::<Vec<_>>(), [0xdaca_55a9_daca_55a9, 2, 10]);
}

#[test]
fn other_content_is_not_mistaken_for_attributes() {
    let container = container();
    let oid = oid(&container, ObjectType::Array);
    let object = container.object(oid);
    let zero_cell = [0xdaca_55a9_daca_55a9u64, 0, 10].map(u64::to_le_bytes).concat();
    for stored in [vec![7; 24], vec![7; 5], vec![7; 30], zero_cell] {
        let value = Value::Single(Source::One(&stored));
        let update = Update { akey: b"0", value, cond: Cond::NONE };
        let dkey = 0u64.to_ne_bytes();
        object.update(&dkey, Cond::NONE, &[update], Access::Latest).wait().unwrap();
        let opened = container.open_array(oid, Access::Latest).wait();
        assert_eq!(kind(opened), Some(ErrorKind::NoPermission), "{stored:?}");
    }
}

/// Chunk `n` has the dkey `n + 1`. Dkey 0 has the attributes.
#[test]
fn cells_are_stored_where_daos_stores_them() {
    let container = container();
    let array = array(&container);
    write(&array, 18, b"aabbccdd");
    let mut anchor = Anchor::Start;
    let limit = ListLimit::entries(10);
    let batch = array.object().list_dkeys(&mut anchor, limit, Access::Latest).wait().unwrap();
    let mut dkeys: Vec<_> =
        batch.iter().map(|key| u64::from_ne_bytes(key.try_into().unwrap())).collect();
    dkeys.sort_unstable();
    assert_eq!(dkeys, [0, 2, 3]);
    let extents = |dkey: u64| {
        let key = AkeyRef { dkey: &dkey.to_ne_bytes(), akey: b"0" };
        let list = array.object().list_extents(key, &mut Anchor::Start, 9, Access::Latest).wait();
        list.unwrap().iter().map(|stored| stored.extent).collect::<Vec<_>>()
    };
    assert_eq!(extents(2), [Extent::new(8, 2)]);
    assert_eq!(extents(3), [Extent::new(0, 2)]);
}

#[test]
fn ranges_and_buffers_may_be_split_arbitrarily() {
    let container = container();
    let array = array(&container);
    let data: Vec<u8> = (0..100).collect();
    let ranges = [Extent::new(35, 20), Extent::new(7, 0), Extent::new(3, 30)];
    let (head, tail) = data.split_at(33);
    array.write(&ranges, Source::Many(&[head, tail]), Access::Latest).wait().unwrap();
    let (mut first, mut second) = ([0; 61], [0; 39]);
    let sink = Sink::Many(vec![&mut first, &mut second]);
    let read = array.read(&ranges, sink, Access::Latest).wait().unwrap();
    assert_eq!(read, ArrayRead { bytes: 100, short_bytes: 0 });
    assert_eq!([&first[..], &second[..]].concat(), data);
    let mut middle = [0; 10];
    read_into(&array, 38, &mut middle);
    assert_eq!(middle, data[6..16]);
}

/// The buffers of a read or write must have exactly the bytes of its ranges.
#[test]
fn lengths_must_match() {
    let container = container();
    let array = array(&container);
    let ranges = [Extent::new(0, 3)];
    for len in [5, 7] {
        let data = vec![0; len];
        let written = array.write(&ranges, Source::One(&data), Access::Latest).wait();
        assert_eq!(kind(written), Some(ErrorKind::Invalid));
        let mut buffer = vec![0; len];
        let read = array.read(&ranges, Sink::One(&mut buffer), Access::Latest).wait();
        assert_eq!(kind(read), Some(ErrorKind::Invalid));
    }
    array.write(&[], Source::One(&[]), Access::Latest).wait().unwrap();
    array.read(&[Extent::new(9, 0)], Sink::One(&mut []), Access::Latest).wait().unwrap();
    assert_eq!(size(&array), 0);
}

#[test]
fn too_many_short_ranges_are_not_supported() {
    let container = container();
    let array = array(&container);
    let ranges: Vec<_> = (0..16_385).map(|index| Extent::new(2 * index, 1)).collect();
    let data = vec![7; 2 * 16_385];
    let written = array.write(&ranges, Source::One(&data), Access::Latest).wait();
    assert_eq!(kind(written), Some(ErrorKind::NotSupported));
    array.write(&ranges[1..], Source::One(&data[2..]), Access::Latest).wait().unwrap();
}

#[test]
fn holes_of_an_array_leave_the_buffer_unchanged() {
    let container = container();
    let array = array(&container);
    write(&array, 5, b"aabb");
    let mut buffer = [b'.'; 20];
    let read = read_into(&array, 0, &mut buffer);
    assert_eq!(&buffer, b"..........aabb......");
    assert_eq!(read, ArrayRead { bytes: 20, short_bytes: 0 });
}

#[test]
fn holes_of_a_byte_array_read_as_zeros_up_to_its_size() {
    let container = container();
    let array = byte_array(&container);
    let mut nothing = [b'.'; 4];
    assert_eq!(read_into(&array, 0, &mut nothing), ArrayRead { bytes: 0, short_bytes: 4 });
    assert_eq!(&nothing, b"....");
    write(&array, 5, b"ab");
    write(&array, 23, b"cd");
    let mut buffer = [b'.'; 30];
    assert_eq!(read_into(&array, 0, &mut buffer), ArrayRead { bytes: 25, short_bytes: 5 });
    assert_eq!(&buffer, b"\0\0\0\0\0ab\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0cd.....");
    let mut inside = [b'.'; 2];
    assert_eq!(read_into(&array, 23, &mut inside), ArrayRead { bytes: 2, short_bytes: 0 });
    let mut past = [b'.'; 2];
    assert_eq!(read_into(&array, 25, &mut past), ArrayRead { bytes: 0, short_bytes: 2 });
    assert_eq!(&past, b"..");
}

/// Such reads ask for huge pages.
#[test]
fn long_reads_fill_fresh_memory_up_to_the_end() {
    let container = container();
    let shape = ArrayAttributes { cell_size: 1, chunk_size: 1 << 20 };
    let oid = oid(&container, ObjectType::ArrayByte);
    let array = container.open_array_with_attributes(oid, shape).unwrap();
    let data: Vec<u8> = (0..9_u32 << 20).map(|n| (n / 3) as u8).collect();
    write(&array, 0, &data);
    let mut one = vec![0; 24 << 20];
    let read = read_into(&array, 1, &mut one);
    assert_eq!((read.bytes, read.short_bytes), ((9 << 20) - 1, (15 << 20) + 1));
    assert!(
        one[..(9 << 20) - 1] == data[1..] && one[(9 << 20) - 1..].iter().all(|&byte| byte == 0)
    );
    let (mut first, mut second) = (vec![0; 5 << 20], vec![0; 6 << 20]);
    let sink = Sink::Many(vec![&mut first, &mut second]);
    let range = [Extent::new(0, 11 << 20)];
    assert_eq!(array.read(&range, sink, Access::Latest).wait().unwrap().bytes, 9 << 20);
    assert!(first == data[..5 << 20] && second[..4 << 20] == data[5 << 20..]);
}

#[test]
fn short_reads_count_every_range() {
    let container = container();
    let array = byte_array(&container);
    write(&array, 0, b"0123456789abcde");
    let ranges = [Extent::new(13, 4), Extent::new(2, 3), Extent::new(100, 2), Extent::new(9, 2)];
    let mut buffer = [b'.'; 11];
    let read = array.read(&ranges, Sink::One(&mut buffer), Access::Latest).wait().unwrap();
    assert_eq!(read, ArrayRead { bytes: 7, short_bytes: 4 });
    assert_eq!(&buffer, b"de..234..9a");
}

#[test]
fn the_size_is_the_end_of_the_last_cell() {
    let container = container();
    let array = array(&container);
    assert_eq!(size(&array), 0);
    write(&array, 34, b"aa");
    assert_eq!(size(&array), 35);
    write(&array, 2, b"aa");
    assert_eq!(size(&array), 35);
    array.punch(&[Extent::new(30, 10)], Access::Latest).wait().unwrap();
    assert_eq!(size(&array), 3);
    let stat = array.stat(Access::Latest).wait().unwrap();
    assert_eq!(stat.size, 3);
    assert!(stat.epoch.0 > 0);
}

/// Cells that exist below `end`, as SEEK_DATA and SEEK_HOLE report them.
fn stored(array: &Array, end: u64) -> Vec<u64> {
    let mut cells = Vec::new();
    let mut at = 0;
    while let Some(start) = array.next_data(at, Access::Latest).wait().unwrap() {
        at = array.next_hole(start, Access::Latest).wait().unwrap();
        cells.extend(start..at);
    }
    cells.retain(|cell| *cell < end);
    cells
}

#[test]
fn time_and_memory_of_a_punch_follow_what_is_stored() {
    let container = container();
    for array in [byte_array(&container), array(&container)] {
        let cell = array.attributes().cell_size as usize;
        for start in [3, 95, 1 << 41, (1 << 42) + 7] {
            write(&array, start, &vec![7; 10 * cell]);
        }
        let range = Extent::new(5, (1 << 42) + 5);
        array.punch(&[range], Access::Latest).wait().unwrap();
        let kept: Vec<_> = [3, 4].into_iter().chain((1 << 42) + 10..(1 << 42) + 17).collect();
        assert_eq!(stored(&array, u64::MAX), kept);
        let all = [Extent::new(0, u64::MAX), Extent::new(4, u64::MAX - 4)];
        array.punch(&all, Access::Latest).wait().unwrap();
        assert_eq!(size(&array), 0);
    }
    let array = container.open_array(oid(&container, ObjectType::Array), Access::Latest);
    let array = array.wait().unwrap();
    let past = [Extent::new(2, u64::MAX - 1)];
    assert_eq!(kind(array.punch(&past, Access::Latest).wait()), Some(ErrorKind::Invalid));
}

#[test]
fn a_long_punch_removes_what_its_transaction_has_written() {
    let container = container();
    let array = byte_array(&container);
    write(&array, 100, b"0123456789");
    let transaction = container.transaction().unwrap();
    let access = Access::Tx(&transaction);
    for start in [102, 5000, 1 << 40] {
        let range = [Extent::new(start, 4)];
        array.write(&range, Source::One(b"abcd"), access).wait().unwrap();
    }
    array.punch(&[Extent::new(101, 1 << 41)], access).wait().unwrap();
    array.write(&[Extent::new(7, 1)], Source::One(b"e"), access).wait().unwrap();
    transaction.commit().wait().unwrap();
    assert_eq!(stored(&array, u64::MAX), [7, 100]);
}

#[test]
fn a_long_punch_in_a_transaction_conflicts_with_a_new_chunk() {
    let container = container();
    let array = byte_array(&container);
    write(&array, 0, b"a");
    let transaction = container.transaction().unwrap();
    let range = [Extent::new(0, 1 << 41)];
    array.punch(&range, Access::Tx(&transaction)).wait().unwrap();
    write(&array, 1 << 20, b"b");
    assert_eq!(kind(transaction.commit().wait()), Some(ErrorKind::TxRestart));
    assert_eq!(stored(&array, u64::MAX), [0, 1 << 20]);
}

#[test]
fn long_punches_succeed_while_another_thread_adds_chunks() {
    let container = container();
    let array = byte_array(&container);
    let all = [Extent::new(0, u64::MAX)];
    std::thread::scope(|scope| {
        scope.spawn(|| (0..500).for_each(|chunk| write(&byte_array(&container), 10 * chunk, b"a")));
        (0..50).for_each(|_| array.punch(&all, Access::Latest).wait().unwrap());
    });
    array.punch(&all, Access::Latest).wait().unwrap();
    assert_eq!(size(&array), 0);
}

#[test]
fn long_and_short_punches_remove_the_same_cells() {
    let seed = esker_testing::seed();
    println!("{}={seed}", esker_testing::SEED_VARIABLE);
    let mut random = esker_testing::Random::new(seed, 0);
    for _ in 0..20 {
        let arrays = [byte_array(&container()), byte_array(&container())];
        let end = 200;
        for _ in 0..20 {
            let start = random.below(end);
            arrays.iter().for_each(|array| write(array, start, &[1; 7]));
        }
        let range = |start, end| Extent::new(start, end - start);
        let ranges: Vec<_> = (0..1 + random.below(4))
            .map(|_| range(random.below(end / 2), end / 2 + random.below(end)))
            .collect();
        arrays[0].punch(&ranges, Access::Latest).wait().unwrap();
        let far = Extent::new(1 << 30, 1 << 40);
        let long: Vec<_> = std::iter::once(far).chain(ranges.iter().copied()).collect();
        arrays[1].punch(&long, Access::Latest).wait().unwrap();
        assert_eq!(stored(&arrays[0], 1 << 30), stored(&arrays[1], 1 << 30), "{ranges:?}");
    }
}

#[test]
fn resized_array_keeps_cells_below_its_size_and_grows_with_zeros() {
    for (old, new) in [(35, 35), (35, 34), (35, 31), (35, 30), (35, 12), (35, 1), (5, 40), (0, 7)] {
        let container = container();
        let array = byte_array(&container);
        let data = vec![b'x'; old];
        write(&array, 0, &data);
        array.set_size(new, Access::Latest).wait().unwrap();
        assert_eq!(size(&array), new, "from {old} to {new}");
        let mut buffer = vec![b'.'; 50];
        let read = read_into(&array, 0, &mut buffer);
        assert_eq!(read.bytes, new);
        let kept = old.min(new as usize);
        assert!(buffer[..kept].iter().all(|byte| *byte == b'x'), "from {old} to {new}");
        assert!(buffer[kept..new as usize].iter().all(|byte| *byte == 0));
        assert!(buffer[new as usize..].iter().all(|byte| *byte == b'.'));
    }
}

#[test]
fn array_resized_to_zero_can_be_opened() {
    let container = container();
    let array = array(&container);
    write(&array, 0, &[7; 200]);
    array.set_size(0, Access::Latest).wait().unwrap();
    assert_eq!(size(&array), 0);
    container.open_array(array.oid(), Access::Latest).wait().unwrap();
}

#[test]
fn the_last_cell_exists_after_a_resize() {
    let container = container();
    let array = array(&container);
    write(&array, 0, b"aa");
    write(&array, 25, b"bb");
    array.set_size(12, Access::Latest).wait().unwrap();
    let mut buffer = [b'.'; 26];
    read_into(&array, 0, &mut buffer);
    assert_eq!(&buffer, b"aa....................\0\0..");
}

#[test]
fn a_read_only_array_refuses_writes() {
    let container = container();
    let array = array(&container).read_only();
    let denied = Some(ErrorKind::NoPermission);
    let ranges = [Extent::new(0, 1)];
    assert_eq!(kind(array.write(&ranges, Source::One(b"aa"), Access::Latest).wait()), denied);
    assert_eq!(kind(array.punch(&ranges, Access::Latest).wait()), denied);
    assert_eq!(kind(array.set_size(1, Access::Latest).wait()), denied);
    assert_eq!(kind(array.destroy(Access::Latest).wait()), denied);
}

#[test]
fn arrays_work_in_transactions_and_snapshots() {
    let container = container();
    let array = array(&container);
    write(&array, 0, b"aabbcc");
    let then = Access::Snapshot(container.create_snapshot("").wait().unwrap());
    let transaction = container.transaction().unwrap();
    let ranges = [Extent::new(0, 30)];
    let in_tx = Access::Tx(&transaction);
    array.write(&ranges, Source::One(&[b'x'; 60]), in_tx).wait().unwrap();
    array.set_size(2, in_tx).wait().unwrap();
    assert_eq!(size(&array), 3);
    transaction.commit().wait().unwrap();
    assert_eq!(size(&array), 2, "chunks that the transaction has written are removed");
    assert_eq!(array.size(then).wait(), Ok(3));
    let mut buffer = [b'.'; 6];
    array.read(&[Extent::new(0, 3)], Sink::One(&mut buffer), then).wait().unwrap();
    assert_eq!(&buffer, b"aabbcc");
}

/// A transaction does not read its own writes, but a resize respects them.
#[test]
fn a_resize_respects_earlier_writes_of_its_transaction() {
    let container = container();
    let array = array(&container);
    let resize = |change: &dyn Fn(Access<'_>)| {
        let transaction = container.transaction().unwrap();
        change(Access::Tx(&transaction));
        array.set_size(10, Access::Tx(&transaction)).wait().unwrap();
        transaction.commit().wait().unwrap();
        let mut buffer = [b'.'; 4];
        read_into(&array, 9, &mut buffer);
        (size(&array), buffer)
    };
    let all = [Extent::new(0, 15)];
    let write =
        |access: Access<'_>| array.write(&all, Source::One(&[b'x'; 30]), access).wait().unwrap();
    assert_eq!(resize(&write), (10, *b"xx.."), "a new cell");
    let punch = |access: Access<'_>| array.punch(&[Extent::new(9, 1)], access).wait().unwrap();
    assert_eq!(resize(&punch), (10, *b"\0\0.."), "a stored cell that is removed");
    let empty = |access: Access<'_>| array.set_size(0, access).wait().unwrap();
    assert_eq!(resize(&empty), (10, *b"\0\0.."), "a chunk that is removed");
}

#[test]
fn a_range_at_a_high_index_is_written_or_rejected() {
    let container = container();
    let array = byte_array(&container);
    let past = [Extent::new(u64::MAX, 2)];
    let written = array.write(&past, Source::One(b"ab"), Access::Latest).wait();
    assert_eq!(kind(written), Some(ErrorKind::Invalid));
    write(&array, u64::MAX - 2, b"ab");
    assert_eq!(size(&array), u64::MAX);
}

/// A range whose two copies have more than 2^64 cells together.
#[test]
fn ranges_of_a_punch_may_overlap() {
    let container = container();
    let shape = ArrayAttributes { cell_size: 1, chunk_size: 1 << 60 };
    let oid = oid(&container, ObjectType::ArrayByte);
    let array = container.open_array_with_attributes(oid, shape).unwrap();
    write(&array, 5, b"abc");
    let ranges = [Extent::new(0, 1 << 63), Extent::new(0, 1 << 63), Extent::new(1 << 63, 7)];
    array.punch(&ranges, Access::Latest).wait().unwrap();
    assert_eq!(size(&array), 0);
}

/// Another process that writes a cell just after its first read.
#[derive(Default)]
struct Overtaking {
    has_written: AtomicBool,
}

impl Interceptor for Overtaking {
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
        let dkey = dkeys[0].dkey.to_vec();
        let fetched = from.fetch(oid, dkeys, at).wait();
        if dkey == 3u64.to_ne_bytes() && !self.has_written.swap(true, Ordering::Relaxed) {
            let extents = [Extent::new(4, 1)];
            let value =
                Value::Array { record_size: 2, extents: &extents, data: Source::One(b"ab") };
            let updates = &[Update { akey: FLAT_AKEY, value, cond: Cond::NONE }];
            let op = WriteOp::Update { dkey: &dkey, cond: Cond::NONE, updates };
            from.write(Change::from_writes(&[Write { oid, op }])).wait().unwrap();
        }
        Reply::Ready(fetched)
    }
}

#[test]
fn resize_keeps_a_last_cell_that_is_written_meanwhile() {
    let backend = PoolBetween::before(Arc::new(Memory::new(4)), &Arc::new(Overtaking::default()));
    let pool = Pool::from_backend(Arc::new(backend), OpenMode::ReadWrite);
    pool.create_container(&NewContainer::named("test")).wait().unwrap();
    let container = pool.open_container("test", OpenMode::ReadWrite).wait().unwrap();
    let array = array(&container);
    array.set_size(25, Access::Latest).wait().unwrap();
    let mut cell = [0; 2];
    read_into(&array, 24, &mut cell);
    assert_eq!((&cell, size(&array)), (b"ab", 25));
}
