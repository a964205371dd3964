//! The conformance suite on posix pools.
use esker::types::info::OpenMode;
use esker::{Posix, PosixPool, PosixUrl};
use esker_backend::Pool;
use esker_testkit::{conformance, model};
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

/// One test per topic.
macro_rules! conformance {
    ($name:ident, $fsync:expr, $($topic:ident)+) => {
        mod $name {
            use super::*;
            $(#[test]
            fn $topic() {
                let folder = Folder::new();
                conformance::$topic(&|| folder.pool($fsync));
            })+
        }
    };
}

conformance!(plain, false, containers metadata single_values arrays conditions punch listing long_keys query
    snapshots transactions oids leases replies threads);
conformance!(synced, true, containers metadata conditions punch query oids);

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
