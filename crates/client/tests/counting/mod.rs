//! Counting what operations allocate, on a pool in memory.
#![allow(unsafe_code)]
use esker::types::info::OpenMode;
use esker::{Container, Pool, Wait};
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
pub(crate) const ROUNDS: u64 = 1000;

/// Allocations of an operation over [`ROUNDS`] repetitions; each must be ready at its first poll.
pub(crate) fn allocations<F: Future>(mut begin: impl FnMut() -> F) -> u64 {
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
pub(crate) struct Tank {
    folder: PathBuf,
    pub(crate) container: Container,
}

impl Tank {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// A pool whose specification `shape` changes.
    pub(crate) fn with(shape: impl FnOnce(&mut PoolSpec)) -> Self {
        let folder = PathBuf::from(format!("/dev/shm/esker-allocations-{}", std::process::id()));
        let mut spec = PoolSpec::new("tank", 128 << 20);
        spec.targets = Some(2);
        shape(&mut spec);
        esker_store::Pool::create(&folder, &spec, &mut |_, _| {}).unwrap();
        let url = format!("esker:{}/tank", folder.display());
        let pool = Pool::connect(&url, OpenMode::ReadWrite).unwrap();
        let new = esker::backend::NewContainer::named("c");
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
