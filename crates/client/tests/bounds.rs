//! Operations that must end, and operations for which there must always be room.
use esker::types::info::OpenMode;
use esker::types::ops::{Cond, Sink, Source};
use esker::types::{Epoch, ErrorKind, Extent, ObjectClass, ObjectType, Result};
use esker::{Access, ArrayAttributes, Container, Kv, Pool, Wait};
use esker_store::PoolSpec;
use esker_testing::Random;
use std::path::PathBuf;
use std::sync::Barrier;
use std::time::Instant;

/// A pool in memory for one test, removed when the test ends.
struct Tank {
    folder: PathBuf,
    pool: Pool,
    container: Container,
}

impl Tank {
    /// A pool whose specification `shape` changes, with a container.
    fn new(name: &str, shape: impl FnOnce(&mut PoolSpec)) -> Self {
        let folder = PathBuf::from(format!("/dev/shm/esker-bounds-{}-{name}", std::process::id()));
        let mut spec = PoolSpec::new("tank", 64 << 20);
        spec.targets = Some(2);
        shape(&mut spec);
        esker_store::Pool::create(&folder, &spec, &mut |_, _| {}).unwrap();
        let url = format!("esker:{}/tank", folder.display());
        let pool = Pool::connect(&url, OpenMode::ReadWrite).unwrap();
        let new = esker_backend::NewContainer::named("c");
        pool.create_container(&new).wait().unwrap();
        let container = pool.open_container("c", OpenMode::ReadWrite).wait().unwrap();
        Self { folder, pool, container }
    }

    /// A Key-Value of this class.
    fn kv(&self, class: ObjectClass) -> Kv {
        let oid = self.container.generate_oid(0, 1, ObjectType::KvHashed, Some(class), 0).unwrap();
        self.container.kv(oid).unwrap()
    }

    /// Writes a byte array of one chunk on one target.
    fn write_array(&self, number: u64, bytes: &[u8]) -> Result<()> {
        let class = Some(ObjectClass::S1);
        let oid = self.container.generate_oid(1, number, ObjectType::ArrayByte, class, 0)?;
        let shape = ArrayAttributes { cell_size: 1, chunk_size: 8 << 20 };
        let array = self.container.open_array_with_attributes(oid, shape)?;
        let range = [Extent::new(0, bytes.len() as u64)];
        array.write(&range, Source::One(bytes), Access::Latest).wait()
    }

    /// Bytes of the indexes in use, over all targets.
    fn index_used(&self) -> u64 {
        let info = self.pool.info().wait().unwrap();
        info.targets.iter().map(|space| space.index_total - space.index_free).sum()
    }

    fn path(&self) -> PathBuf {
        self.folder.join("tank")
    }
}

impl Drop for Tank {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Puts until the pool is full; returns the number of puts that succeeded.
fn fill(kv: &Kv) -> u64 {
    for number in 0.. {
        match kv.put(&u64::to_be_bytes(number), &[7; 200], Cond::NONE, Access::Latest).wait() {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
                return number;
            }
        }
    }
    unreachable!("the pool never got full")
}

/// All data is live, so that compaction frees nothing, and must end nevertheless.
#[test]
fn compaction_without_gain_ends() {
    let tank = Tank::new("compact", |spec| {
        spec.size_bytes = 220 << 20;
        spec.segment_bytes = Some(8 << 20);
    });
    for number in 0..40 {
        tank.write_array(number, &vec![1; 2 << 20]).unwrap();
    }
    let began = Instant::now();
    esker_store::Pool::open(&tank.path())
        .unwrap()
        .opened()
        .unwrap()
        .compact(&mut |_, _| {})
        .unwrap();
    println!("compacted in {:?}", began.elapsed());
}

#[test]
fn a_full_index_is_emptied_by_one_punch() {
    let tank = Tank::new("punch", |spec| spec.size_bytes = 40 << 20);
    let kv = tank.kv(ObjectClass::SX);
    for _ in 0..3 {
        let keys = fill(&kv);
        assert!(keys > 1000, "only {keys} keys fitted");
        kv.destroy(Access::Latest).wait().unwrap();
    }
}

/// Removing keys that a snapshot shows frees nothing, and may need space; destroying the snapshot never does.
#[test]
fn a_full_index_with_a_snapshot_is_emptied() {
    // More fit the first time, when all pages that the index borrows are adjacent.
    expect_emptied("kept", false, 7);
    // How full pages of the index are depends on which puts are committed together.
    expect_emptied("kept-log", true, 6);
}

/// Fills and empties an index three times. At least `tenths` tenths of the keys must fit each time.
fn expect_emptied(name: &str, write_buffer: bool, tenths: u64) {
    let tank = Tank::new(name, |spec| {
        (spec.size_bytes, spec.write_buffer) = (40 << 20, Some(write_buffer))
    });
    let kv = tank.kv(ObjectClass::SX);
    let mut most = 0;
    for round in 0..3 {
        let early = if round == 1 { 5000 } else { 0 };
        for number in 0..early {
            let key = u64::to_be_bytes(number);
            kv.put(&key, &[7; 200], Cond::NONE, Access::Latest).wait().unwrap();
        }
        let epoch = (round == 1).then(|| tank.container.create_snapshot("kept").wait().unwrap());
        let late = fill(&kv);
        let epoch = epoch.unwrap_or_else(|| tank.container.create_snapshot("kept").wait().unwrap());
        if let Err(error) = kv.destroy(Access::Latest).wait() {
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
            assert!(error.message().contains("snapshots"), "{error}");
        }
        tank.container.destroy_snapshot(epoch).wait().unwrap();
        kv.destroy(Access::Latest).wait().unwrap();
        assert!(
            late * 10 >= most * tenths,
            "round {round}: {late} keys fitted, {most} in the first round"
        );
        most = most.max(late);
    }
}

/// Runs `work` until it has failed for lack of space `refusals` times.
fn until_full(refusals: u32, mut work: impl FnMut() -> Result<()>) {
    let mut refused = 0;
    while refused < refusals {
        if let Err(error) = work() {
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
            refused += 1;
        }
    }
}

/// Fills a pool with data, so that the index cannot grow, and the index with values that snapshots keep. Returns the
/// epochs of the snapshots.
fn filled_under_snapshots(tank: &Tank, kv: &Kv, random: &mut Random) -> Vec<Epoch> {
    let mut snapshots = Vec::new();
    let mut arrays = 0;
    until_full(1, || {
        arrays += 1;
        tank.write_array(arrays, &[1; 128 << 10])
    });
    until_full(100, || {
        let put = |random: &mut Random, access: Access<'_>| {
            let value = vec![7; random.below(900) as usize];
            kv.put(&random.below(300).to_be_bytes(), &value, Cond::NONE, access).wait()
        };
        put(random, Access::Latest)?;
        if random.one_in(50) {
            snapshots.push(tank.container.create_snapshot("s").wait()?);
        }
        if random.one_in(20) {
            let transaction = tank.container.transaction()?;
            (0..100).try_for_each(|_| put(random, Access::Tx(&transaction)))?;
            transaction.commit().wait()?;
        }
        Ok(())
    });
    snapshots
}

#[test]
fn snapshots_of_a_full_pool_can_be_destroyed() {
    for (name, targets) in [("destroy-1", 1), ("destroy-2", 2)] {
        let tank = Tank::new(name, |spec| {
            (spec.size_bytes, spec.targets) = (20 << 20, Some(targets));
        });
        let kv = tank.kv(ObjectClass::SX);
        let mut random = Random::new(esker_testing::seed(), 5);
        let mut snapshots = filled_under_snapshots(&tank, &kv, &mut random);
        assert!(snapshots.len() > 2, "only {} snapshots", snapshots.len());
        let remove =
            |number: u64| kv.remove(&number.to_be_bytes(), Cond::NONE, Access::Latest).wait();
        let _ = (0..300).try_for_each(remove);
        while let Some(epoch) = snapshots.pop() {
            if let Err(error) = tank.container.destroy_snapshot(epoch).wait() {
                panic!("{} snapshots are left: {error}", snapshots.len());
            }
            let left = tank.container.snapshots().wait().unwrap();
            assert_eq!(left.iter().map(|one| one.epoch).collect::<Vec<_>>(), snapshots);
        }
        kv.destroy(Access::Latest).wait().unwrap();
        assert!(fill(&kv) > 1000, "the space was not freed");
    }
}

/// A removal must have space in the index, even if nothing else has.
#[test]
fn array_records_can_be_punched_in_a_full_index() {
    let tank = Tank::new("extents", |spec| spec.size_bytes = 40 << 20);
    tank.write_array(1, &[1; 100]).unwrap();
    fill(&tank.kv(ObjectClass::SX));
    let class = Some(ObjectClass::S1);
    let oid = tank.container.generate_oid(1, 1, ObjectType::ArrayByte, class, 0).unwrap();
    let shape = ArrayAttributes { cell_size: 1, chunk_size: 8 << 20 };
    let array = tank.container.open_array_with_attributes(oid, shape).unwrap();
    array.punch(&[Extent::new(0, 100)], Access::Latest).wait().unwrap();
    assert_eq!(array.size(Access::Latest).wait().unwrap(), 0);
}

/// A transaction over both targets stores its steps first, and frees them after it is complete.
#[test]
fn intents_of_large_transactions_are_freed() {
    let tank = Tank::new("intents", |spec| spec.size_bytes = 40 << 20);
    let kv = tank.kv(ObjectClass::SX);
    let free = || -> u64 {
        let info = tank.pool.info().wait().unwrap();
        info.targets.iter().map(|space| space.index_free).sum()
    };
    let round = || {
        let transaction = tank.container.transaction().unwrap();
        for number in 0..2000u64 {
            let access = Access::Tx(&transaction);
            kv.put(&number.to_be_bytes(), &[7; 100], Cond::NONE, access).wait().unwrap();
        }
        transaction.commit().wait().unwrap();
    };
    round();
    let after_one = free();
    (0..20).for_each(|_| round());
    assert!(free() + (1 << 20) > after_one, "{} bytes of {after_one} are left", free());
}

/// An insert that fails because the key exists must not be ahead of the reads: they find the key.
#[test]
fn key_that_another_thread_has_inserted_is_readable() {
    let tank = Tank::new("group", |spec| {
        spec.durability = Some(esker::types::info::Durability::Commit);
    });
    let kv = tank.kv(ObjectClass::S1);
    let start = Barrier::new(4);
    let insert_all = || {
        start.wait();
        for number in 0..200u64 {
            let key = number.to_be_bytes();
            match kv.put(&key, b"value", Kv::INSERT, Access::Latest).wait() {
                Ok(()) => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::Exists, "{error}"),
            }
            let found = kv.get(&key, Access::Latest).wait().unwrap();
            assert_eq!(found.as_deref(), Some(&b"value"[..]), "key {number}");
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(insert_all))));
}

/// A byte array, and its expected content.
struct Bytes {
    array: esker::Array,
    expected: Vec<u8>,
}

impl Bytes {
    /// An array of `len` bytes, all zero at first.
    fn new(tank: &Tank, number: u64, len: usize) -> Self {
        let class = Some(ObjectClass::S1);
        let oid = tank.container.generate_oid(1, number, ObjectType::ArrayByte, class, 0).unwrap();
        let shape = ArrayAttributes { cell_size: 1, chunk_size: 8 << 20 };
        let array = tank.container.open_array_with_attributes(oid, shape).unwrap();
        Self { array, expected: vec![0; len] }
    }

    /// Writes one byte, and expects it from then on.
    fn put(&mut self, at: usize, byte: u8) {
        self.expected[at] = byte;
        let range = [Extent::new(at as u64, 1)];
        self.array.write(&range, Source::One(&[byte]), Access::Latest).wait().unwrap();
    }

    /// Checks that the array has the expected bytes.
    #[track_caller]
    fn check(&self, access: Access<'_>) {
        let mut found = vec![0; self.expected.len()];
        let range = [Extent::new(0, found.len() as u64)];
        self.array.read(&range, Sink::One(&mut found), access).wait().unwrap();
        assert_eq!(found.iter().zip(&self.expected).position(|(one, other)| one != other), None);
    }
}

/// Single bytes that are written next to each other in any order take little more of the index than the same bytes
/// written at once.
#[test]
fn single_bytes_side_by_side_share_records() {
    const BYTES: usize = 20_000;
    let tank = Tank::new("joined", |_| ());
    let orders: [&dyn Fn(usize) -> usize; 5] = [
        &|at| at,
        &|at| BYTES - 1 - at,
        &|at| (2 * at) % BYTES + usize::from(2 * at >= BYTES),
        &|at| at / 10 * 10 + [5, 3, 8, 0, 9, 1, 7, 2, 6, 4][at % 10],
        &|at| at % 1000,
    ];
    for (number, order) in orders.iter().enumerate() {
        let before = tank.index_used();
        let mut bytes = Bytes::new(&tank, number as u64, BYTES);
        (0..BYTES).for_each(|at| bytes.put(order(at), (at % 251) as u8 + 1));
        bytes.check(Access::Latest);
        let taken = tank.index_used() - before;
        assert!(taken < 5 * BYTES as u64, "order {number} took {taken} bytes of the index");
    }
}

#[test]
fn records_of_a_snapshot_are_not_merged_with_later_ones() {
    let tank = Tank::new("apart", |_| ());
    let mut bytes = Bytes::new(&tank, 1, 300);
    (0..100).for_each(|at| bytes.put(at, 1));
    let epoch = tank.container.create_snapshot("then").wait().unwrap();
    let then = bytes.expected.clone();
    (50..200).for_each(|at| bytes.put(at, 2));
    bytes.check(Access::Latest);
    let now = std::mem::replace(&mut bytes.expected, then);
    bytes.check(Access::Snapshot(epoch));
    tank.container.destroy_snapshot(epoch).wait().unwrap();
    bytes.expected = now;
    (150..250).for_each(|at| bytes.put(at, 3));
    bytes.check(Access::Latest);
}
