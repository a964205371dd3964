//! Commits over several nodes: the topic of the conformance suite, on all backends that can be the pool of one node,
//! and through engines.
use esker::backend::memory::Memory;
use esker::{Native, Posix, PosixPool, PosixUrl};
use esker_backend::Pool;
use esker_conformance::topics::{commits, takes_no_part};
use esker_engine::Engine;
use esker_nodes::{Connection, Endpoint, RemotePool};
use esker_store::PoolSpec;
use esker_types::Uuid;
use esker_types::info::{Durability, OpenMode, Part};
use esker_wire::handshake::Secret;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use tokio::runtime::Runtime;

/// A directory for pools, removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(base: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(Path::new(base).join(format!("esker-commits-{}-{number}", std::process::id())))
    }

    /// A native pool.
    fn pool(&self, part: Part, durability: Durability) -> Arc<dyn Pool> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let label = format!("pool{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut spec = PoolSpec::new(&label, 48 << 20);
        spec.targets = Some(2);
        spec.segment_bytes = Some(1 << 20);
        spec.durability = Some(durability);
        spec.part = part;
        esker_store::Pool::create(&self.0, &spec, &mut |_, _| {}).expect("creating a pool");
        Arc::new(Native::open(&self.0.join(label), OpenMode::ReadWrite).expect("opening the pool"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime")
});

/// `pool` through an engine in this process.
fn through_engine(pool: Arc<dyn Pool>) -> Arc<dyn Pool> {
    let (uuid, secret) = (Uuid([7; 16]), || Secret::new([1; 32]));
    let (client, server) = tokio::io::duplex(10_000);
    RUNTIME.block_on(async {
        let engine = Engine::new(pool, uuid, secret());
        tokio::spawn(async move {
            let (from, to) = tokio::io::split(server);
            engine.serve(from, to).await
        });
        let (from, to) = tokio::io::split(client);
        let link = Connection::open(
            Endpoint { name: "n1", address: "", secret: &secret(), pool: uuid, session: 1 },
            from,
            to,
        )
        .await
        .expect("a connection");
        Arc::new(RemotePool::open(link).await.expect("the pool"))
    })
}

#[test]
fn pools_in_memory_commit_together() {
    commits(&|part| Arc::new(Memory::part(2, part)));
}

#[test]
fn native_pools_commit_together() {
    let folder = Folder::new("/dev/shm");
    commits(&|part| folder.pool(part, Durability::Process));
}

#[test]
fn durable_pools_commit_together() {
    let folder = Folder::new(env!("CARGO_TARGET_TMPDIR"));
    commits(&|part| folder.pool(part, Durability::Commit));
}

#[test]
fn pools_behind_engines_commit_together() {
    let folder = Folder::new("/dev/shm");
    commits(&|part| through_engine(folder.pool(part, Durability::Process)));
    commits(&|part| through_engine(Arc::new(Memory::part(2, part))));
}

#[test]
fn single_node_pools_refuse_distributed_commits() {
    let folder = Folder::new("/dev/shm");
    takes_no_part(Arc::new(Memory::new(2)));
    takes_no_part(folder.pool(Part::WHOLE, Durability::Process));
    takes_no_part(through_engine(Arc::new(Memory::new(2))));
    let path = folder.0.join("files");
    PosixPool::create(&path, false).expect("creating a pool");
    let files = Posix::open(&PosixUrl { path, fsync: None }, OpenMode::ReadWrite);
    takes_no_part(Arc::new(files.expect("opening the pool")));
}
