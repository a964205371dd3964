//! Micro-benchmarks of frequent operations: `cargo bench -p esker-bench`.
//!
//! The pool is in /dev/shm if the machine has it, else in the directory for temporary files.
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use esker::backend::NewContainer;
use esker::types::info::OpenMode;
use esker::types::ops::{Cond, Sink, Source};
use esker::types::{Checksum, Extent, ObjectClass, ObjectId, ObjectType};
use esker::{Access, Array, ArrayAttributes, Container, Kv, Pool, Wait};
use esker_store::PoolSpec;
use std::hint::black_box;
use std::path::{Path, PathBuf};

/// Keys, and Arrays of each size, that the benchmarks write and read repeatedly.
const SLOTS: u64 = 256;

/// A pool with a container. Dropping this value removes the pool.
struct TestPool {
    folder: PathBuf,
    container: Container,
}

impl TestPool {
    fn new(name: &str) -> Self {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = place.join(format!("esker-bench-{}", std::process::id())).join(name);
        let spec = PoolSpec { targets: Some(2), ..PoolSpec::new("hot", 2 << 30) };
        esker_store::Pool::create(&folder, &spec, &mut |_, _| {}).expect("room for the pool");
        let url = format!("esker:{}", folder.join("hot").display());
        let pool = Pool::connect(&url, OpenMode::ReadWrite).expect("a pool");
        let new = NewContainer::named("hot");
        pool.create_container(&new).wait().expect("a container");
        let container =
            pool.open_container("hot", OpenMode::ReadWrite).wait().expect("the container");
        Self { folder, container }
    }

    fn oid(&self, otype: ObjectType, lo: u64) -> ObjectId {
        self.container.generate_oid(0, lo, otype, Some(ObjectClass::S1), 0).expect("S1 fits")
    }

    fn kv(&self) -> Kv {
        self.container.kv(self.oid(ObjectType::KvHashed, 0)).expect("a Key-Value")
    }

    fn arrays(&self, chunk_size: u64) -> Vec<Array> {
        let attributes = ArrayAttributes { cell_size: 1, chunk_size };
        let open = |lo| {
            let oid = self.oid(ObjectType::ArrayByte, lo);
            self.container.open_array_with_attributes(oid, attributes).expect("an Array")
        };
        (0..SLOTS).map(open).collect()
    }
}

impl Drop for TestPool {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
        let _ = self.folder.parent().map(std::fs::remove_dir);
    }
}

/// Numbers of slots, in an endless cycle.
fn slots() -> impl FnMut() -> usize {
    let mut all = (0..SLOTS as usize).cycle();
    move || all.next().unwrap_or_default()
}

fn key_values(criterion: &mut Criterion) {
    let pool = TestPool::new("kv");
    let kv = pool.kv();
    let keys: Vec<String> = (0..SLOTS).map(|slot| format!("key-{slot:012}")).collect();
    let mut buffer = [0; 64];
    let put = |key: &str| kv.put(key.as_bytes(), &[7; 64], Cond::NONE, Access::Latest).wait();
    keys.iter().for_each(|key| put(key).expect("a put"));
    let mut group = criterion.benchmark_group("kv of 64 B");
    let mut slot = slots();
    group.bench_function("put", |bencher| bencher.iter(|| put(&keys[slot()])));
    group.bench_function("get", |bencher| {
        bencher.iter(|| {
            let key = keys[slot()].as_bytes();
            kv.read(key, Sink::One(&mut buffer), Access::Latest).wait()
        });
    });
    group.finish();
}

fn arrays(criterion: &mut Criterion) {
    for (name, bytes) in [("array of 8 KiB", 8 << 10), ("array of 1 MiB", 1 << 20)] {
        let pool = TestPool::new("array");
        let arrays = pool.arrays(bytes);
        let (ranges, data) = ([Extent::new(0, bytes)], vec![7; bytes as usize]);
        let mut buffer = data.clone();
        let write = |array: &Array| array.write(&ranges, Source::One(&data), Access::Latest).wait();
        arrays
            .iter()
            .cycle()
            .take(3 * arrays.len())
            .for_each(|array| write(array).expect("a write"));
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Bytes(bytes));
        let mut slot = slots();
        group.bench_function("write", |bencher| bencher.iter(|| write(&arrays[slot()])));
        group.bench_function("read", |bencher| {
            bencher.iter(|| {
                arrays[slot()].read(&ranges, Sink::One(&mut buffer), Access::Latest).wait()
            });
        });
        group.finish();
    }
}

fn checksums(criterion: &mut Criterion) {
    let data = vec![7; 1 << 20];
    let mut group = criterion.benchmark_group("checksums of 1 MiB");
    group.throughput(Throughput::Bytes(data.len() as u64));
    for (name, checksum) in [("crc32c", Checksum::Crc32c), ("crc64", Checksum::Crc64)] {
        group.bench_function(name, |bencher| {
            let mut table = Vec::new();
            bencher.iter(|| {
                table.clear();
                checksum.push_all(black_box(&data), &mut table);
            });
        });
    }
    group.finish();
}

criterion_group!(hot_paths, key_values, arrays, checksums);
criterion_main!(hot_paths);
