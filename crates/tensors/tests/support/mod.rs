//! Stores for the tests: in memory or in the pool over nodes that the environment names, in a native pool, in a pool of
//! files, and in a pool of a DAOS system if the environment names one.
#![allow(dead_code, reason = "each test uses a part of it")]

use esker::{Pool, PosixPool, Wait};
use esker_conformance::place::{Place, nodes};
use esker_tensors::TensorStore;
use esker_types::info::OpenMode;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// The kind of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// In the memory of the process, or over nodes.
    Usual,
    Native,
    Posix,
    Daos,
}

/// The URL of a pool of a DAOS system, if there is one (`scripts/daos.sh`).
pub(crate) fn daos() -> Option<String> {
    let url = std::env::var("ESKER_TEST_DAOS").ok();
    if url.is_none() {
        esker_testing::skip("ESKER_TEST_DAOS names no DAOS pool (scripts/daos.sh)");
    }
    url
}

/// Destroys a container that another run may have left.
pub(crate) fn make_room(pool: &Pool, label: &str) {
    let _ = pool.destroy_container(label, true).wait();
}

/// A directory that is removed after the test.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let memory = PathBuf::from("/dev/shm");
        let base = if memory.is_dir() { memory } else { env!("CARGO_TARGET_TMPDIR").into() };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = base.join(format!("esker-tensors-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        Self(directory)
    }

    /// URL of a new native pool of three targets.
    pub(crate) fn native(&self, bytes: u64) -> String {
        let mut spec = esker_store::PoolSpec::new("tank", bytes);
        spec.targets = Some(3);
        esker_store::Pool::create(&self.0, &spec, &mut |_, _| {}).unwrap();
        format!("esker:{}", self.0.join("tank").display())
    }

    /// URL of a new pool of files.
    pub(crate) fn posix(&self) -> String {
        let path = self.0.join("files");
        PosixPool::create(&path, false).unwrap();
        format!("posix:{}", path.display())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn pool(url: &str) -> Pool {
    Pool::connect(url, OpenMode::ReadWrite).unwrap()
}

/// Runs a test on a store of each kind.
pub(crate) fn each_kind(name: &str, test: impl Fn(&TensorStore, Kind)) {
    let place = Place::new(name);
    test(&TensorStore::create(&place.pool(), &place.label).unwrap(), Kind::Usual);
    if nodes().is_some() {
        return;
    }
    let directory = Directory::new();
    for (kind, url) in
        [(Kind::Native, directory.native(128 << 20)), (Kind::Posix, directory.posix())]
    {
        println!("{kind:?}");
        test(&TensorStore::create(&pool(&url), name).unwrap(), kind);
    }
    if let Some(url) = daos() {
        println!("{:?}", Kind::Daos);
        let (pool, label) = (pool(&url), format!("tensors-{name}"));
        make_room(&pool, &label);
        test(&TensorStore::create(&pool, &label).unwrap(), Kind::Daos);
        make_room(&pool, &label);
    }
}
