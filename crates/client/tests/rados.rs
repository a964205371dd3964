//! The conformance suite on Ceph pools, on the cluster that an environment variable names.
#![cfg(feature = "rados")]
use esker::types::info::{ContainerRef, OpenMode};
use esker::types::limits::{
    AKEYS_PER_OP_MAX, RADOS_INLINE_MAX, RADOS_PAGE, RADOS_PIECE_INLINE_MAX, RADOS_PIECES_MAX,
    RADOS_TX_BYTES_MAX,
};
use esker::types::ops::{
    Anchor, Cond, Fetch, ListLimit, Sink, Source, Update, Value, Write, WriteOp,
};
use esker::types::{Checksum, ErrorKind, Extent, FLAT_AKEY, ObjectClass, ObjectType, Uuid};
use esker::{Access, Array, ArrayAttributes, Container, Pool, Rados, RadosUrl, Wait};
use esker_backend::NewContainer;
use esker_backend::encoding::{begin, finish, put_u32};
use esker_conformance::{model, suite};
use esker_rados::librados::{self, IoContext, Plain};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The URL of a Ceph pool for tests, such as `rados:esker?conf=/path/ceph.conf`; tests are skipped if it is not set.
const VARIABLE: &str = "ESKER_TEST_RADOS";

/// A Ceph pool, and the Esker pools that a test created in it. Their containers are removed if the test succeeds.
struct Cluster {
    url: String,
    made: Mutex<Vec<Arc<dyn esker_backend::Pool>>>,
}

/// The Ceph pool for tests, or the reason why there is none.
fn found() -> Result<Cluster, String> {
    let url = std::env::var(VARIABLE)
        .map_err(|_| format!("{VARIABLE} names no Ceph pool (make ceph-up prints one)"))?;
    Ok(Cluster { url, made: Mutex::default() })
}

/// The Ceph pool for tests; `None` if there is none, which is reported.
fn cluster() -> Option<Cluster> {
    found().inspect_err(|reason| esker_testing::skip(reason)).ok()
}

impl Cluster {
    /// A new pool in a namespace of its own.
    fn pool(&self) -> Arc<dyn esker_backend::Pool> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let nanos = std::time::UNIX_EPOCH.elapsed().expect("the time").as_nanos();
        let namespace = format!("test-{}-{nanos}-{number}", std::process::id());
        let join = if self.url.contains('?') { '&' } else { '?' };
        let url = RadosUrl::parse(&format!("{}{join}namespace={namespace}", self.url));
        let url = url.expect("a URL").expect("a rados URL");
        let pool = Rados::open(&url, OpenMode::ReadWrite).expect("opening the pool");
        let pool: Arc<dyn esker_backend::Pool> = Arc::new(pool);
        self.made.lock().expect("the pools").push(Arc::clone(&pool));
        pool
    }
}

/// The access to the RADOS objects of a pool, or of one of its containers.
fn rados(pool: &Pool, container: Option<Uuid>) -> IoContext {
    let url = pool.info().wait().expect("the pool").url;
    let url = RadosUrl::parse(&url).expect("a URL").expect("a rados URL");
    let cluster = librados::Cluster::connect(&url.settings).expect("connecting");
    let own = container.map(|uuid| format!(".{uuid}")).unwrap_or_default();
    let namespace = format!("{}{own}", url.namespace);
    cluster.io_context(&url.pool, &namespace).expect("an I/O context")
}

/// The names of the RADOS objects of a container.
fn rados_objects(pool: &Pool, container: Uuid) -> Vec<String> {
    let objects = rados(pool, Some(container)).objects().expect("listing");
    objects.collect::<Result<_, _>>().expect("names")
}

/// A new container, open for writing, and its UUID and pool.
fn opened(cluster: &Cluster) -> (Uuid, Pool, Container) {
    let pool = Pool::from_backend(cluster.pool(), OpenMode::ReadWrite);
    let new = NewContainer::named("test");
    let uuid = pool.create_container(&new).wait().expect("a container").uuid;
    let container = pool.open_container("test", OpenMode::ReadWrite).wait().expect("opening");
    (uuid, pool, container)
}

/// The names of the RADOS objects of a container that begin with `prefix`.
fn rados_objects_with(pool: &Pool, container: Uuid, prefix: &str) -> BTreeSet<String> {
    let all = rados_objects(pool, container).into_iter();
    all.filter(|name| name.starts_with(prefix)).collect()
}

/// Two clients that opened the same pool.
fn two_clients(cluster: &Cluster) -> [Pool; 2] {
    let url = cluster.pool().info().wait().expect("the pool").url;
    [(); 2].map(|()| Pool::connect(&url, OpenMode::ReadWrite).expect("connecting"))
}

/// An Array of bytes.
fn byte_array(container: &Container, chunk_size: u64) -> Array {
    let oid = container.generate_oid(0, 1, ObjectType::ArrayByte, None, 0).expect("an id");
    let attributes = ArrayAttributes { cell_size: 1, chunk_size };
    container.open_array_with_attributes(oid, attributes).expect("an Array")
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for pool in self.made.get_mut().expect("the pools") {
            for container in pool.list_containers().wait().expect("listing") {
                let name = ContainerRef::Uuid(container.uuid);
                pool.destroy_container(name, true).wait().expect("cleaning up");
            }
        }
    }
}

suite!(topics, found().map(|cluster| move || cluster.pool()));

/// Compares a pool with the model by random operations.
fn compare(seed: u64, steps: u64) {
    if let Some(cluster) = cluster() {
        println!("{}={seed}", esker_testing::SEED_VARIABLE);
        model::run(seed, steps, &|| cluster.pool());
    }
}

#[test]
fn ceph_agrees_with_the_model() {
    compare(esker_testing::seed(), 1000);
}

#[test]
fn fixed_seeds() {
    for seed in 1..=3 {
        compare(seed, 700);
    }
}

/// Transactions lock the first object of an array briefly; that object also records the array's other chunks.
#[test]
fn an_array_with_many_writers_lists_all_its_chunks() {
    const WRITERS: u64 = 6;
    let Some(cluster) = cluster() else { return };
    let pool = Pool::from_backend(cluster.pool(), OpenMode::ReadWrite);
    let new = NewContainer::named("c");
    pool.create_container(&new).wait().unwrap();
    let container = pool.open_container("c", OpenMode::ReadWrite).wait().unwrap();
    let shape = ArrayAttributes { cell_size: 1, chunk_size: 4096 };
    for round in 0..15 {
        let class = Some(ObjectClass::SX);
        let oid = container.generate_oid(0, round, ObjectType::ArrayByte, class, 0).unwrap();
        let array = container.open_array_with_attributes(oid, shape).unwrap();
        // A range over two chunks is a transaction; often one of them is the first.
        let write = |first: u64, chunks: u64| {
            let range = [Extent::new(first * 4096, chunks * 4096)];
            let bytes = vec![7; (chunks * 4096) as usize];
            array.write(&range, Source::One(&bytes), Access::Latest).wait().unwrap();
        };
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let write = &write;
                scope.spawn(move || {
                    for turn in 0..4 {
                        write(0, 2);
                        write(2 + writer * 8 + turn * 2, 1);
                        write(3 + writer * 8 + turn * 2, 1);
                    }
                });
            }
        });
        let (object, mut anchor, mut chunks) = (array.object(), Anchor::Start, 0);
        while !anchor.is_end() {
            let limit = ListLimit::entries(100);
            chunks += object.list_dkeys(&mut anchor, limit, Access::Latest).wait().unwrap().len();
        }
        assert_eq!(chunks as u64, 2 + WRITERS * 8, "round {round}");
    }
}

/// The first object of an array records a new chunk before the chunk is created. Another change to that object in the
/// same transaction must not be lost.
#[test]
fn chunk_created_together_with_a_punch_of_the_first_is_readable() {
    let Some(cluster) = cluster() else { return };
    let pool = Pool::from_backend(cluster.pool(), OpenMode::ReadWrite);
    let new = NewContainer::named("test");
    pool.create_container(&new).wait().expect("a container");
    let container = pool.open_container("test", OpenMode::ReadWrite).wait().expect("opening");
    let oid = container.generate_oid(0, 1, ObjectType::ArrayByte, None, 0).expect("an id");
    let extents = [Extent::new(0, 5)];
    let value = Value::Array { record_size: 1, extents: &extents, data: Source::One(b"bytes") };
    let updates = [Update { akey: b"0", cond: Cond::NONE, value }];
    let (first, last) = (1u64.to_ne_bytes(), 7u64.to_ne_bytes());
    let put =
        |dkey| Write { oid, op: WriteOp::Update { dkey, cond: Cond::NONE, updates: &updates } };
    container.write(&[put(&first)], Access::Latest).wait().expect("writing");
    let punch = Write { oid, op: WriteOp::PunchDkey { dkey: &first, cond: Cond::NONE } };
    container.write(&[punch, put(&last)], Access::Latest).wait().expect("both");
    let attributes = ArrayAttributes { cell_size: 1, chunk_size: 10 };
    let array = container.open_array_with_attributes(oid, attributes).expect("an array");
    let (mut found, whole) = ([1; 65], [Extent::new(0, 65)]);
    array.read_or_zero(&whole, Sink::One(&mut found), Access::Latest).wait().expect("reading");
    assert!(found[..60] == [0; 60] && found[60..] == *b"bytes");
}

/// The record of a transaction has no data, so another client that completes it could not write the bytes of an Array.
/// A Key-Value without keys still has a RADOS object. To remove it together with a change of an Array is a transaction.
#[test]
fn bytes_of_a_transaction_are_stored_before_its_commit_decision() {
    let Some(cluster) = cluster() else { return };
    let pool = Pool::from_backend(cluster.pool(), OpenMode::ReadWrite);
    let new = NewContainer::named("test");
    let uuid = pool.create_container(&new).wait().expect("a container").uuid;
    let container = pool.open_container("test", OpenMode::ReadWrite).wait().expect("opening");
    let id = |lo, otype| container.generate_oid(0, lo, otype, None, 0).expect("an id");
    let (kv, array) = (id(1, ObjectType::KvHashed), id(2, ObjectType::ArrayByte));
    let put = |oid, dkey, updates| {
        let op = WriteOp::Update { dkey, cond: Cond::NONE, updates };
        Write { oid, op }
    };
    let value = Value::Single(Source::One(b"v"));
    let single = [Update { akey: FLAT_AKEY, cond: Cond::NONE, value }];
    container.write(&[put(kv, b"k", &single)], Access::Latest).wait().expect("a key");
    let punch = Write { oid: kv, op: WriteOp::PunchDkey { dkey: b"k", cond: Cond::NONE } };
    container.write(&[punch], Access::Latest).wait().expect("removing the key");
    let (bytes, extents) =
        (vec![7; RADOS_PIECE_INLINE_MAX + 1], [Extent::new(0, RADOS_PIECE_INLINE_MAX as u64 + 1)]);
    let value = Value::Array { record_size: 1, extents: &extents, data: Source::One(&bytes) };
    let records = [Update { akey: FLAT_AKEY, cond: Cond::NONE, value }];
    let punch = Write { oid: kv, op: WriteOp::PunchObject { cond: Cond::NONE } };
    let chunk = 1u64.to_ne_bytes();
    container.write(&[punch, put(array, &chunk, &records)], Access::Latest).wait().expect("both");
    let blobs = rados_objects(&pool, uuid).into_iter().filter(|name| name.starts_with("b."));
    assert_eq!(blobs.count(), 1);
}

/// The attributes of an Array and its first chunk are in one RADOS object, whose data belongs to the chunk.
#[test]
fn long_records_of_dkeys_zero_and_one_do_not_overwrite_each_other() {
    let Some(cluster) = cluster() else { return };
    let pool = Pool::from_backend(cluster.pool(), OpenMode::ReadWrite);
    pool.create_container(&NewContainer::named("test")).wait().expect("a container");
    let container = pool.open_container("test", OpenMode::ReadWrite).wait().expect("opening");
    let (len, orders) = (4 * RADOS_PIECE_INLINE_MAX, [[0u64, 1], [1, 0]]);
    let extents = [Extent::new(0, len as u64)];
    for (number, together) in [(0, false), (1, false), (2, true), (3, true)] {
        let oid = container.generate_oid(0, number, ObjectType::ArrayByte, None, 0).expect("an id");
        let dkeys = orders[number as usize % 2].map(u64::to_ne_bytes);
        let bytes = dkeys.map(|dkey| vec![7 + u64::from_ne_bytes(dkey) as u8; len]);
        let records = |bytes| {
            let value =
                Value::Array { record_size: 1, extents: &extents, data: Source::One(bytes) };
            [Update { akey: FLAT_AKEY, cond: Cond::NONE, value }]
        };
        let updates = [records(&bytes[0]), records(&bytes[1])];
        let op = |at: usize| {
            let (dkey, updates) = (&dkeys[at][..], &updates[at][..]);
            Write { oid, op: WriteOp::Update { dkey, cond: Cond::NONE, updates } }
        };
        let write = |writes: &[Write<'_>]| container.write(writes, Access::Latest).wait();
        match together {
            true => write(&[op(0), op(1)]).expect("writing both"),
            false => [0, 1].into_iter().for_each(|at| write(&[op(at)]).expect("writing one")),
        }
        for (dkey, bytes) in dkeys.iter().zip(&bytes) {
            let mut found = vec![0; len];
            let mut fetches = [Fetch::array(FLAT_AKEY, 1, &extents, Sink::One(&mut found))];
            let object = container.object(oid);
            object.fetch(dkey, Cond::NONE, &mut fetches, Access::Latest).wait().expect("reading");
            assert!(found == *bytes, "dkey {dkey:?}");
        }
    }
}

/// Long values are stored before the change that refers to them. An OSD refuses requests of more than 90 MiB
/// (`osd_max_write_size`), and a transaction has at most [`RADOS_TX_BYTES_MAX`] bytes of small values.
#[test]
fn a_failed_change_leaves_no_long_values() {
    const REQUEST_MAX: usize = 90 << 20;
    let Some(cluster) = cluster() else { return };
    let (uuid, pool, container) = opened(&cluster);
    let id = |lo| container.generate_oid(0, lo, ObjectType::KvHashed, None, 0).expect("an id");
    let long = vec![7; RADOS_INLINE_MAX + 1];
    let put = |akey, bytes| {
        let value = Value::Single(Source::One(bytes));
        Update { akey, cond: Cond::NONE, value }
    };
    let keys: Vec<[u8; 4]> =
        (0..=(REQUEST_MAX / RADOS_INLINE_MAX) as u32).map(u32::to_be_bytes).collect();
    let small: Vec<_> = keys.iter().map(|key| put(key, &long[..RADOS_INLINE_MAX])).collect();
    let long = [put(FLAT_AKEY, &long)];
    let write = |oid, updates| {
        let op = WriteOp::Update { dkey: b"dkey", cond: Cond::NONE, updates };
        Write { oid, op }
    };
    let (first, rest) = small.split_at(small.len() / 2);
    let few = &rest[..=RADOS_TX_BYTES_MAX / RADOS_INLINE_MAX - first.len()];
    for (writes, kind) in [
        (
            vec![write(id(1), &long[..]), write(id(1), first), write(id(1), rest)],
            ErrorKind::RecordTooBig,
        ),
        (vec![write(id(1), &long), write(id(2), first), write(id(2), few)], ErrorKind::Overflow),
    ] {
        let refused = container.write(&writes, Access::Latest).wait().expect_err("too large");
        assert_eq!(refused.kind(), kind);
        let left = rados_objects(&pool, uuid).into_iter().filter(|name| name.starts_with("b."));
        assert_eq!(left.count(), 0);
    }
}

/// If a chunk has too many runs, a change of it reads their bytes and joins them. A change of several RADOS objects
/// writes the joined bytes as blobs, but some of the bytes that it reads are in the data of the chunk's object.
#[test]
fn a_chunk_of_many_runs_is_joined_by_a_change_of_two_chunks() {
    const CHUNK: u64 = 1 << 20;
    let Some(cluster) = cluster() else { return };
    let (_, _pool, container) = opened(&cluster);
    let array = byte_array(&container, CHUNK);
    let len = RADOS_PIECE_INLINE_MAX as u64 + 1;
    let runs = |first: u64| (first..RADOS_PIECES_MAX as u64).step_by(2);
    let extents = [0, 1].map(|first| runs(first).map(|run| Extent::new(run * len, len)).collect());
    let bytes = vec![7; RADOS_PIECES_MAX * len as usize];
    extents.iter().for_each(|extents: &Vec<_>| {
        let half = Source::One(&bytes[..bytes.len() / 2]);
        array.write(extents, half, Access::Latest).wait().expect("the runs");
    });
    let over = [Extent::new(CHUNK - 5, 10)];
    array.write(&over, Source::One(&[8; 10]), Access::Latest).wait().expect("over the boundary");
    let mut found = vec![0; bytes.len()];
    let all = [Extent::new(0, bytes.len() as u64)];
    array.read(&all, Sink::One(&mut found), Access::Latest).wait().expect("reading");
    assert!(found == bytes);
}

/// The error is not that of contention, which would ask the caller to try again.
#[test]
fn a_lost_long_value_is_reported_as_damage() {
    let Some(cluster) = cluster() else { return };
    let (uuid, pool, container) = opened(&cluster);
    let oid = container.generate_oid(0, 1, ObjectType::KvHashed, None, 0).expect("an id");
    let kv = container.kv(oid).expect("a Key-Value");
    kv.put(b"k", &vec![7; RADOS_INLINE_MAX + 1], Cond::NONE, Access::Latest).wait().expect("put");
    let objects = rados_objects(&pool, uuid);
    let blob = objects.iter().find(|name| name.starts_with("b.")).expect("a blob");
    Plain::from_context(&rados(&pool, Some(uuid))).remove(blob).expect("removing the blob");
    let refused = kv.get(b"k", Access::Latest).wait().expect_err("the value is lost");
    assert_eq!(refused.kind(), ErrorKind::Checksum);
}

/// The bytes of an Array are in RADOS objects that also have its records. They must not outlive the records.
#[test]
fn an_emptied_array_leaves_no_bytes() {
    const CHUNK: usize = 1 << 16;
    let Some(cluster) = cluster() else { return };
    let (uuid, pool, container) = opened(&cluster);
    let array = byte_array(&container, CHUNK as u64);
    let used = || {
        let plain = Plain::from_context(&rados(&pool, Some(uuid)));
        let all = rados_objects(&pool, uuid).into_iter();
        let data = all.filter(|name| name.starts_with("o.") || name.starts_with("c."));
        let len = |name: String| plain.read(&name, &mut vec![0; 2 * CHUNK]).expect("reading");
        data.map(len).sum::<usize>()
    };
    // A write of several chunks would store blobs.
    let write = |chunk: usize| {
        let range = [Extent::new((chunk * CHUNK) as u64, CHUNK as u64)];
        array.write(&range, Source::One(&[7; CHUNK]), Access::Latest).wait().expect("writing");
    };
    write(0);
    assert_eq!(used(), CHUNK);
    array.set_size(0, Access::Latest).wait().expect("emptying");
    assert_eq!(used(), 0, "one chunk");
    (0..3).for_each(write);
    assert_eq!(used(), 3 * CHUNK);
    array.set_size(CHUNK as u64, Access::Latest).wait().expect("truncating");
    assert_eq!(used(), CHUNK, "the chunks behind the first");
    let first = [Extent::new(0, CHUNK as u64)];
    array.punch(&first, Access::Latest).wait().expect("punching");
    assert_eq!(used(), 0, "a punched chunk");
}

/// An OSD refuses requests of more than 90 MiB and RADOS objects of more than 128 MiB.
#[test]
fn a_chunk_may_be_larger_than_a_rados_object() {
    const CHUNK: u64 = 128 << 20;
    let Some(cluster) = cluster() else { return };
    let (_, _pool, container) = opened(&cluster);
    let array = byte_array(&container, CHUNK);
    let mut expected = vec![0; CHUNK as usize];
    for (value, (start, mib)) in (1..).zip([(0, 100), (30, 60), (60, 60), (90, 38), (0, 128)]) {
        let range = [Extent::new(start << 20, mib << 20)];
        let bytes = vec![value; (mib << 20) as usize];
        array.write(&range, Source::One(&bytes), Access::Latest).wait().expect("writing");
        expected[(start << 20) as usize..][..bytes.len()].copy_from_slice(&bytes);
        let mut found = vec![0; expected.len()];
        let whole = [Extent::new(0, CHUNK)];
        array.read_or_zero(&whole, Sink::One(&mut found), Access::Latest).wait().expect("reading");
        assert!(found == expected, "write {value}");
    }
}

/// The first object of an Array still records chunks that were removed, more than one page of them here.
#[test]
fn the_size_of_an_array_does_not_depend_on_removed_chunks() {
    let Some(cluster) = cluster() else { return };
    let (_, _pool, container) = opened(&cluster);
    let array = byte_array(&container, 1);
    let bytes = vec![7; RADOS_PAGE as usize + 100];
    let range = [Extent::new(0, bytes.len() as u64)];
    array.write(&range, Source::One(&bytes), Access::Latest).wait().expect("writing");
    for size in [bytes.len() as u64, 100, 2, 1, 0] {
        array.set_size(size, Access::Latest).wait().expect("truncating");
        assert_eq!(array.size(Access::Latest).wait().expect("the size"), size);
    }
}

/// The condition on the dkey depends on akeys that were not read.
#[test]
fn a_transaction_that_found_a_dkey_depends_on_it() {
    let Some(cluster) = cluster() else { return };
    let (_, _pool, container) = opened(&cluster);
    let id = |lo, otype| container.generate_oid(0, lo, otype, None, 0).expect("an id");
    let object = container.object(id(1, ObjectType::MultiHashed));
    let value = Value::Single(Source::One(b"v"));
    let other = [Update { akey: b"other", cond: Cond::NONE, value }];
    object.update(b"dkey", Cond::NONE, &other, Access::Latest).wait().expect("writing");
    let transaction = container.transaction().expect("a transaction");
    let mut fetches = [Fetch::single(b"missing", Sink::None)];
    let access = Access::Tx(&transaction);
    object.fetch(b"dkey", Cond::DKEY_FETCH, &mut fetches, access).wait().expect("the dkey exists");
    let kv = container.kv(id(2, ObjectType::KvHashed)).expect("a Key-Value");
    kv.put(b"k", b"v", Cond::NONE, access).wait().expect("writing");
    object.punch_dkey(b"dkey", Cond::NONE, Access::Latest).wait().expect("removing the dkey");
    let refused = transaction.commit().wait().expect_err("the dkey is gone");
    assert_eq!(refused.kind(), ErrorKind::TxRestart);
}

/// The error of the lookup tells what is wrong: only a missing entry means that the container was destroyed.
#[test]
fn a_rename_reports_why_the_entry_of_its_container_cannot_be_read() {
    let Some(cluster) = cluster() else { return };
    let pool = Pool::from_backend(cluster.pool(), OpenMode::ReadWrite);
    let uuid = pool.create_container(&NewContainer::named("test")).wait().expect("creating").uuid;
    let container = pool.open_container("test", OpenMode::ReadWrite).wait().expect("opening");
    let (registry, key) = (Plain::from_context(&rados(&pool, None)), format!("u{uuid}"));
    let entry = registry.get("pool", key.as_bytes()).expect("reading").expect("an entry");
    registry.set("pool", key.as_bytes(), b"damaged").expect("damaging the entry");
    let refused = container.rename(Some("new")).wait().expect_err("an error");
    assert_eq!(refused.kind(), ErrorKind::Incompatible);
    registry.set("pool", key.as_bytes(), &entry).expect("repairing the entry");
    container.rename(Some("new")).wait().expect("renaming");
}

/// A container is listed only with its metadata. An OSD refuses requests of more than 90 MiB (`osd_max_write_size`).
#[test]
fn a_failed_creation_leaves_no_container() {
    let Some(cluster) = cluster() else { return };
    let (pool, large) = (cluster.pool(), vec![7; 91 << 20]);
    let metadata = [("large", large.as_slice())];
    let uuid = Uuid::parse("0e2f0f6e-8c0e-4b8e-9d0a-2a8f3c1d5b77").expect("a UUID");
    for uuid in [None, Some(uuid)] {
        let new = NewContainer::named("test").with_uuid(uuid);
        let failed = pool.create_container(&new.clone().with_metadata(&metadata)).wait();
        failed.map(drop).expect_err("the metadata is too large");
        assert_eq!(pool.list_containers().wait().expect("listing"), []);
        pool.create_container(&new).wait().expect("creating it without metadata");
        pool.destroy_container(ContainerRef::Label("test"), false).wait().expect("destroying");
    }
}

/// Another client destroys a container while this one writes. The writes fail soon, and so do listings.
#[test]
fn writes_to_a_container_destroyed_elsewhere_fail_soon() {
    let Some(cluster) = cluster() else { return };
    let backend = cluster.pool();
    let url = backend.info().wait().expect("the pool").url;
    let connect = || Pool::connect(&url, OpenMode::ReadWrite).expect("connecting");
    let (pool, other) = (connect(), connect());
    for name in ["listed", "written"] {
        pool.create_container(&NewContainer::named(name)).wait().expect("creating");
    }
    let open = |name| pool.open_container(name, OpenMode::ReadWrite).wait().expect("opening");
    let (listed, written) = (open("listed"), open("written"));
    let oid = written.generate_oid(0, 1, ObjectType::KvHashed, None, 0).expect("an id");
    let put = || {
        let kv = written.kv(oid).expect("a Key-Value");
        kv.put(b"k", b"v", Cond::NONE, Access::Latest).wait()
    };
    put().expect("writing");
    for name in ["listed", "written"] {
        other.destroy_container(name, false).wait().expect("destroying");
    }
    let listing = listed.list_objects(&mut Anchor::Start, 10, Access::Latest).wait();
    assert_eq!(listing.expect_err("no container").kind(), ErrorKind::NoHandle);
    let begun = Instant::now();
    let refused = loop {
        match put() {
            Ok(()) => assert!(begun.elapsed() < Duration::from_secs(60), "writes still succeed"),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), ErrorKind::NoHandle);
}

/// One client lists a container. Another client destroys it, and creates one with the same UUID and label, but with
/// another type of checksums.
#[test]
fn container_created_again_elsewhere_is_opened_with_its_new_state() {
    let Some(cluster) = cluster() else { return };
    let [pool, other] = two_clients(&cluster);
    let uuid = Uuid::parse("5f0d3c0e-8a0e-4b8e-9d0a-2a8f3c1d5b01").expect("a UUID");
    let create = |pool: &Pool, checksum| {
        let new = NewContainer::named("test").with_uuid(uuid).with_checksum(checksum);
        pool.create_container(&new).wait().expect("creating");
        pool.open_container("test", OpenMode::ReadWrite).wait().expect("opening")
    };
    let _known = create(&pool, Checksum::Crc32c);
    other.destroy_container("test", false).wait().expect("destroying");
    let created = create(&other, Checksum::Crc64);
    let oid = created.generate_oid(0, 1, ObjectType::KvHashed, None, 0).expect("an id");
    let value = vec![7; RADOS_INLINE_MAX + 1];
    let kv = created.kv(oid).expect("a Key-Value");
    kv.put(b"k", &value, Cond::NONE, Access::Latest).wait().expect("writing");
    let opened = pool.open_container("test", OpenMode::ReadWrite).wait().expect("opening again");
    let kv = opened.kv(oid).expect("a Key-Value");
    assert_eq!(kv.get(b"k", Access::Latest).wait().expect("reading"), Some(value));
    assert_eq!(opened.info().checksum, Checksum::Crc64);
}

#[test]
fn rename_of_a_destroyed_container_changes_no_other() {
    let Some(cluster) = cluster() else { return };
    let [pool, other] = two_clients(&cluster);
    let uuid = Uuid::parse("5f0d3c0e-8a0e-4b8e-9d0a-2a8f3c1d5b02").expect("a UUID");
    let new = NewContainer::named("test").with_uuid(uuid);
    pool.create_container(&new).wait().expect("creating");
    let container = pool.open_container("test", OpenMode::ReadWrite).wait().expect("opening");
    other.destroy_container("test", false).wait().expect("destroying");
    other.create_container(&new).wait().expect("creating it again");
    let refused = container.rename(Some("renamed")).wait().expect_err("it was destroyed");
    assert_eq!(refused.kind(), ErrorKind::NoHandle);
    assert_eq!(other.containers().wait().expect("listing")[0].label, "test");
}

/// The entry of the container changes after it was read and before it is removed.
#[test]
fn container_that_is_renamed_meanwhile_is_destroyed() {
    let Some(cluster) = cluster() else { return };
    let [pool, other] = two_clients(&cluster);
    for _ in 0..20 {
        let new = NewContainer::named("first");
        let uuid = pool.create_container(&new).wait().expect("creating").uuid.to_string();
        let container = other.open_container(&uuid, OpenMode::ReadWrite).wait().expect("opening");
        container.rename(Some("second")).wait().expect("renaming");
        std::thread::scope(|scope| {
            let mut labels = ["first", "second"].into_iter().cycle();
            let (sender, renamed) = std::sync::mpsc::channel();
            scope.spawn(move || {
                while container.rename(labels.next()).wait().is_ok() {
                    let _ = sender.send(());
                }
            });
            renamed.recv().expect("a first rename");
            pool.destroy_container(&uuid, true).wait().expect("destroying");
        });
        assert_eq!(pool.containers().wait().expect("listing"), []);
    }
}

/// The transaction is that of a client which has locked an object and has not yet decided.
#[test]
fn listing_returns_the_state_before_a_pending_transaction() {
    let Some(cluster) = cluster() else { return };
    let (uuid, pool, container) = opened(&cluster);
    let oid = container.generate_oid(0, 1, ObjectType::KvHashed, None, 0).expect("an id");
    let kv = container.kv(oid).expect("a Key-Value");
    kv.put(b"k", b"v", Cond::NONE, Access::Latest).wait().expect("writing");
    let plain = Plain::from_context(&rados(&pool, Some(uuid)));
    let shard = rados_objects_with(&pool, uuid, "o.").pop_first().expect("a shard");
    let (id, record) = ([7; 16], format!("t.{:032x}", u128::from_be_bytes([7; 16])));
    let mut changes = begin(b"ESKRRTXN");
    put_u32(&mut changes, 0);
    plain.write_full(&record, &finish(changes)).expect("the record");
    plain.set(&record, b"s", b"p").expect("its state");
    plain.set(&shard, b"t", &id).expect("the lock");
    let list = || {
        let (object, limit) = (container.object(oid), ListLimit::entries(10));
        object.list_dkeys(&mut Anchor::Start, limit, Access::Latest).wait().expect("listing").len()
    };
    assert_eq!(list(), 1);
    assert_eq!(plain.get(&record, b"s").expect("the state").as_deref(), Some(&b"p"[..]));
    assert_eq!(plain.get(&shard, b"t").expect("the lock").as_deref(), Some(&id[..]));
    plain.set(&record, b"s", b"a").expect("aborting the transaction");
    assert_eq!(list(), 1);
    assert_eq!(plain.get(&shard, b"t").expect("the lock"), None);
}

/// Pieces that are not adjacent cannot be joined, however many they are.
#[test]
fn pieces_with_gaps_are_not_written_again() {
    let Some(cluster) = cluster() else { return };
    let (uuid, pool, container) = opened(&cluster);
    let oid = container.generate_oid(0, 1, ObjectType::MultiHashed, None, 0).expect("an id");
    let object = container.object(oid);
    let (len, step) = (RADOS_PIECE_INLINE_MAX as u64 + 1, RADOS_PIECE_INLINE_MAX as u64 + 2);
    let write = |pieces: std::ops::Range<u64>| {
        let extents: Vec<_> = pieces.map(|piece| Extent::new(piece * step, len)).collect();
        let bytes = vec![7; extents.len() * len as usize];
        let value = Value::Array { record_size: 1, extents: &extents, data: Source::One(&bytes) };
        let updates = [Update { akey: b"akey", cond: Cond::NONE, value }];
        object.update(b"dkey", Cond::NONE, &updates, Access::Latest).wait().expect("writing");
    };
    write(0..600);
    let before = rados_objects_with(&pool, uuid, "b.");
    write(600..601);
    let after = rados_objects_with(&pool, uuid, "b.");
    assert_eq!((before.len(), after.len(), after.difference(&before).count()), (600, 601, 1));
}

/// An operation of Ceph has at most 65,535 parts, and each condition is one.
#[test]
fn a_write_of_many_akeys_is_one_operation() {
    const UPDATES: usize = 17;
    let Some(cluster) = cluster() else { return };
    let (_, _pool, container) = opened(&cluster);
    let oid = container.generate_oid(0, 1, ObjectType::MultiHashed, None, 0).expect("an id");
    let akeys: Vec<_> = (0..(UPDATES * AKEYS_PER_OP_MAX) as u32).map(u32::to_be_bytes).collect();
    let update = |akey| {
        let value = Value::Single(Source::One(b"v"));
        Update { akey, cond: Cond::NONE, value }
    };
    let updates: Vec<_> = akeys.iter().map(|akey| update(akey.as_slice())).collect();
    let write = |updates| {
        let op = WriteOp::Update { dkey: b"dkey", cond: Cond::NONE, updates };
        Write { oid, op }
    };
    let writes: Vec<_> = updates.chunks(AKEYS_PER_OP_MAX).map(write).collect();
    container.write(&writes, Access::Latest).wait().expect("writing");
    let mut anchor = Anchor::Start;
    let mut found = 0;
    while !anchor.is_end() {
        let (object, limit) = (container.object(oid), ListLimit::entries(AKEYS_PER_OP_MAX));
        let page = object.list_akeys(b"dkey", &mut anchor, limit, Access::Latest);
        found += page.wait().expect("listing").len();
    }
    assert_eq!(found, akeys.len());
}

/// The commit verifies that they are still missing.
#[test]
fn reads_of_missing_objects_leave_no_rados_objects() {
    let Some(cluster) = cluster() else { return };
    let (uuid, pool, container) = opened(&cluster);
    let id = |lo| container.generate_oid(0, lo, ObjectType::KvHashed, None, 0).expect("an id");
    let kv = |lo| container.kv(id(lo)).expect("a Key-Value");
    let count = || rados_objects_with(&pool, uuid, "o.").len();
    let (missing, written) = (kv(1), kv(2));
    let read = |transaction: &esker::Transaction| {
        let access = Access::Tx(transaction);
        assert_eq!(missing.get(b"k", access).wait().expect("reading"), None);
    };
    let transaction = container.transaction().expect("a transaction");
    read(&transaction);
    transaction.commit().wait().expect("a transaction that only reads");
    assert_eq!(count(), 0);
    let transaction = container.transaction().expect("a transaction");
    read(&transaction);
    written.put(b"k", b"v", Cond::NONE, Access::Tx(&transaction)).wait().expect("writing");
    transaction.commit().wait().expect("a transaction that reads and writes");
    assert_eq!(count(), 1);
    let transaction = container.transaction().expect("a transaction");
    read(&transaction);
    missing.put(b"k", b"v", Cond::NONE, Access::Latest).wait().expect("writing");
    let refused = transaction.commit().wait().expect_err("the object exists now");
    assert_eq!(refused.kind(), ErrorKind::TxRestart);
}
