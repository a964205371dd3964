//! The conformance suite and the model test on native pools: in memory, on disk, and on disk with every commit
//! synced.
use esker::types::info::{Durability, OpenMode};
use esker::types::limits::KEY_WHOLE_MAX;
use esker::types::ops::Cond;
use esker::types::{ErrorKind, ObjectType};
use esker::{Access, Native, Wait};
use esker_backend::NewContainer;
use esker_conformance::{model, suite};
use esker_store::{Pool, PoolSpec};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The kind of pool that a test runs on.
#[derive(Clone, Copy)]
enum Sort {
    Memory,
    /// In memory, without write buffers.
    Unbuffered,
    Disk(Durability),
}

/// A directory for pools, removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(sort: Sort) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let base = match sort {
            Sort::Memory | Sort::Unbuffered => PathBuf::from("/dev/shm"),
            Sort::Disk(_) => PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
        };
        Self(base.join(format!("esker-test-{}-{number}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A native pool that is removed with its directory.
fn pool(folder: &Folder, sort: Sort, targets: u32) -> Arc<dyn esker_backend::Pool> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let label = format!("pool{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let mut spec = PoolSpec::new(&label, 200 << 20);
    spec.targets = Some(targets);
    spec.segment_bytes = Some(8 << 20);
    spec.write_buffer = Some(matches!(sort, Sort::Memory));
    if let Sort::Disk(durability) = sort {
        spec.durability = Some(durability);
    }
    Pool::create(&folder.0, &spec, &mut |_, _| {}).expect("creating a pool");
    Arc::new(Native::open(&folder.0.join(label), OpenMode::ReadWrite).expect("opening the pool"))
}

/// Makes pools of a kind, in one directory.
fn pools(sort: Sort, targets: u32) -> impl Fn() -> Arc<dyn esker_backend::Pool> {
    let folder = Folder::new(sort);
    move || pool(&folder, sort, targets)
}

suite!(memory, pools(Sort::Memory, 3));
suite!(memory_of_one_target, pools(Sort::Memory, 1));
suite!(unbuffered, pools(Sort::Unbuffered, 2));
suite!(disk, pools(Sort::Disk(Durability::Process), 2));
suite!(durable, pools(Sort::Disk(Durability::Commit), 2));

/// Compares a pool with the model by random operations.
fn compare(seed: u64, steps: u64, sort: Sort, targets: u32) {
    let folder = Folder::new(sort);
    println!("{}={seed}", esker_testing::SEED_VARIABLE);
    model::run(seed, steps, &|| pool(&folder, sort, targets));
}

#[test]
fn memory_agrees_with_the_model() {
    compare(esker_testing::seed(), 6000, Sort::Memory, 3);
}

#[test]
fn memory_without_write_buffers_agrees_with_the_model() {
    compare(esker_testing::seed(), 6000, Sort::Unbuffered, 2);
}

#[test]
fn disk_agrees_with_the_model() {
    compare(esker_testing::seed(), 2000, Sort::Disk(Durability::Process), 2);
}

#[test]
fn fixed_seeds() {
    for seed in 1..=4 {
        compare(seed, 3000, Sort::Memory, seed as u32);
    }
}

#[test]
fn a_pool_of_the_previous_format_rejects_long_keys() {
    let folder = Folder::new(Sort::Memory);
    let mut spec = PoolSpec::new("old", 16 << 20);
    (spec.targets, spec.segment_bytes, spec.index_percent) = (Some(1), Some(1 << 20), Some(50));
    let made = Pool::create(&folder.0, &spec, &mut |_, _| {}).unwrap();
    // In that format, the whole index file is reserved.
    let index_bytes = made.index_bytes + u64::from(made.blocks) * made.block_bytes;
    let superblock = folder.0.join("old/pool");
    let text = std::fs::read_to_string(&superblock).unwrap();
    let sizes = ["index_bytes", "format"].map(|name| format!("{name} = "));
    let others = text.lines().filter(|line| !sizes.iter().any(|size| line.starts_with(size)));
    let old = format!("format = 1\nindex_bytes = {index_bytes}\n");
    std::fs::write(&superblock, old + &others.map(|line| format!("{line}\n")).collect::<String>())
        .unwrap();
    let pool = Arc::new(Native::open(&folder.0.join("old"), OpenMode::ReadWrite).unwrap());
    let pool = esker::Pool::from_backend(pool, OpenMode::ReadWrite);
    let info = pool.create_container(&NewContainer::default()).wait().unwrap();
    let name = info.uuid.to_string();
    let container = pool.open_container(&name, OpenMode::ReadWrite).wait().unwrap();
    let oid = container.generate_oid(0, 1, ObjectType::KvHashed, None, 0).unwrap();
    let kv = container.kv(oid).unwrap();
    let put = |len| kv.put(&vec![b'k'; len], b"v", Cond::NONE, Access::Latest).wait();
    put(KEY_WHOLE_MAX).unwrap();
    let refused = put(KEY_WHOLE_MAX + 1).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::KeyTooBig);
    assert!(refused.message().contains("an older release"), "{refused}");
}

#[test]
fn a_pool_in_use_is_destroyed_only_by_force() {
    for sort in [Sort::Memory, Sort::Unbuffered] {
        let folder = Folder::new(sort);
        let created = pool(&folder, sort, 2);
        let path = std::fs::read_dir(&folder.0).unwrap().next().unwrap().unwrap().path();
        created.create_container(&NewContainer::named("c")).wait().unwrap();
        drop(created);
        let url = format!("esker:{}", path.display());
        let open = esker::Pool::connect(&url, OpenMode::ReadWrite).unwrap();
        let container = open.open_container("c", OpenMode::ReadWrite).wait().unwrap();
        let oid = container.generate_oid(0, 1, ObjectType::KvHashed, None, 0).unwrap();
        let kv = container.kv(oid).unwrap();
        let put = |value| kv.put(b"key", value, Cond::NONE, Access::Latest).wait();
        let get = || kv.get(b"key", Access::Latest).wait();
        put(b"value").unwrap();
        assert_eq!(Pool::destroy(&path, false).unwrap_err().kind(), ErrorKind::Busy);
        assert_eq!(get().unwrap(), Some(b"value".to_vec()));
        Pool::destroy(&path, true).unwrap();
        let failed = [
            put(b"other").err(),
            get().err(),
            container.allocate_oids(1).wait().err(),
            open.containers().wait().err(),
            open.open_container("c", OpenMode::ReadWrite).wait().err(),
            open.create_container(&NewContainer::named("d")).wait().err(),
        ];
        for error in failed {
            let error = error.expect("an operation on a pool that was destroyed");
            assert_eq!(error.kind(), ErrorKind::NoHandle, "{error}");
        }
    }
}
