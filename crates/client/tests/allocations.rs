//! Local calls neither copy nor allocate, and are ready at the first poll.
#![allow(unsafe_code)]
use esker::types::info::OpenMode;
use esker::types::ops::{Cond, Sink, Source};
use esker::types::{Extent, ObjectClass, ObjectType};
use esker::{Access, ArrayAttributes, Container, Pool, Wait};
use esker_store::PoolSpec;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

thread_local! {
    static COUNTED: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting the allocations of each thread.
struct Counting;

// SAFETY: every method forwards to the system allocator.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the caller upholds the trait's contract.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNTED.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the caller upholds the trait's contract.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Repetitions of each operation. One-time allocations by the first calls (reader slots, segments) do not count.
const WARM_UP: usize = 200;
const ROUNDS: u64 = 1000;

/// Allocations of an operation over [`ROUNDS`] repetitions; each must be ready at its first poll.
fn allocations<F: Future>(mut begin: impl FnMut() -> F) -> u64 {
    let mut once = || match pin!(begin()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(_) => {}
        Poll::Pending => panic!("a local operation is not ready at the first poll"),
    };
    (0..WARM_UP).for_each(|_| once());
    let before = COUNTED.get();
    (0..ROUNDS).for_each(|_| once());
    COUNTED.get() - before
}

/// A pool in memory for one test, removed when the test ends.
struct Tank {
    folder: PathBuf,
    container: Container,
}

impl Tank {
    fn new() -> Self {
        let folder = PathBuf::from(format!("/dev/shm/esker-allocations-{}", std::process::id()));
        let mut spec = PoolSpec::new("tank", 128 << 20);
        spec.targets = Some(2);
        esker_store::Pool::create(&folder, &spec, &mut |_, _| {}).unwrap();
        let url = format!("esker:{}/tank", folder.display());
        let pool = Pool::connect(&url, OpenMode::ReadWrite).unwrap();
        let new = esker_backend::NewContainer::named("c");
        pool.create_container(&new).wait().unwrap();
        let container = pool.open_container("c", OpenMode::ReadWrite).wait().unwrap();
        Self { folder, container }
    }
}

impl Drop for Tank {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn local_calls_allocate_nothing() {
    let tank = Tank::new();
    let class = Some(ObjectClass::SX);
    let oid = tank.container.generate_oid(0, 1, ObjectType::KvHashed, class, 0).unwrap();
    let kv = tank.container.kv(oid).unwrap();
    let oid = tank.container.generate_oid(0, 2, ObjectType::Array, class, 0).unwrap();
    let shape = ArrayAttributes { cell_size: 1, chunk_size: 64 << 10 };
    let array = tank.container.create_array(oid, shape, Access::Latest).wait().unwrap();
    let (small, large, range) = ([1; 64], vec![2; 16 << 10], [Extent::new(0, 16 << 10)]);
    kv.put(b"key", &small, Cond::NONE, Access::Latest).wait().unwrap();
    array.write(&range, Source::One(&large), Access::Latest).wait().unwrap();

    let count = allocations(|| async {
        let mut buffer = [0; 64];
        kv.read(b"key", Sink::One(&mut buffer), Access::Latest).await
    });
    assert_eq!(count, 0, "{ROUNDS} gets allocated");
    let count = allocations(|| async {
        let mut cells = [0; 16 << 10];
        array.read(&range, Sink::One(&mut cells), Access::Latest).await
    });
    assert_eq!(count, 0, "{ROUNDS} reads of an array allocated");
    let count = allocations(|| kv.put(b"key", &small, Cond::NONE, Access::Latest));
    assert_eq!(count, 0, "{ROUNDS} puts allocated");
    let count = allocations(|| array.write(&range, Source::One(&large), Access::Latest));
    // Each new segment costs a few allocations.
    assert!(count < ROUNDS / 10, "{count} allocations of {ROUNDS} writes of an array");
}
