//! The conformance suite on posix pools.
use esker::types::info::OpenMode;
use esker::{Posix, PosixPool, PosixUrl};
use esker_backend::Pool;
use esker_conformance::{model, suite};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory for pools, removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let base = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        Self(base.join(format!("esker-posix-{}-{number}", std::process::id())))
    }

    /// A new pool in the directory.
    fn pool(&self, fsync: bool) -> Arc<dyn Pool> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let path = self.0.join(format!("pool{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
        PosixPool::create(&path, fsync).expect("creating a pool");
        let url = PosixUrl { path, fsync: None };
        Arc::new(Posix::open(&url, OpenMode::ReadWrite).expect("opening the pool"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Makes pools in one directory, which sync each write if `fsync`.
fn pools(fsync: bool) -> impl Fn() -> Arc<dyn Pool> {
    let folder = Folder::new();
    move || folder.pool(fsync)
}

suite!(plain, pools(false));
suite!(synced, pools(true), [containers metadata conditions punch query oids]);

/// Compares a pool with the model by random operations.
fn compare(seed: u64, steps: u64) {
    let folder = Folder::new();
    println!("{}={seed}", esker_testing::SEED_VARIABLE);
    model::run(seed, steps, &|| folder.pool(false));
}

#[test]
fn posix_agrees_with_the_model() {
    compare(esker_testing::seed(), 2000);
}

#[test]
fn fixed_seeds() {
    for seed in 1..=3 {
        compare(seed, 1500);
    }
}
