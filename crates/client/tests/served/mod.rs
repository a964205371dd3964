//! A pool over nodes, whose engines run in the process of the test.
use esker::Native;
use esker::types::Uuid;
use esker::types::info::{OpenMode, Part};
use esker_backend::Pool;
use esker_engine::Engine;
use esker_nodes::{Map, Node};
use esker_store::PoolSpec;
use esker_wire::handshake::Secret;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

/// A runtime with this number of threads.
pub(crate) fn runtime(threads: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(threads).enable_all().build().expect("a runtime")
}

/// A directory for pools, removed when the test ends.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(PathBuf::from(format!("/dev/shm/esker-nodes-{}-{number}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn secret() -> Secret {
    Secret::new([3; 32])
}

/// A new pool whose nodes are served each in one of the runtimes.
pub(crate) fn map(folder: &Path, runtimes: &[&Runtime]) -> Map {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let label = format!("pool{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let nodes = runtimes.len() as u32;
    let start =
        |(node, runtime): (u32, &&Runtime)| start(folder, &label, Part { node, nodes }, runtime);
    let started = (0..).zip(runtimes).map(start).collect();
    Map::new(&label, Uuid::from_random([nodes as u8; 16]), secret(), 2, started)
}

/// Creates the pool of a node, and serves it.
pub(crate) fn start(folder: &Path, label: &str, part: Part, runtime: &Runtime) -> Node {
    let node = part.node;
    let mut spec = PoolSpec::new(&format!("{label}.{node}"), 100 << 20);
    spec.targets = Some(2);
    spec.segment_bytes = Some(8 << 20);
    spec.part = part;
    let part = esker_store::Pool::create(folder, &spec, &mut |_, _| {}).expect("a part");
    let directory = folder.join(&spec.label);
    let pool = Native::open(&directory, OpenMode::ReadWrite).expect("the part");
    let (uuid, name) = (part.uuid, format!("n{node}"));
    Node { name, address: serve("127.0.0.1:0", Arc::new(pool), uuid, runtime), uuid, directory }
}

/// Serves `pool` at `address`, for as long as the runtime exists. Returns its address.
pub(crate) fn serve(address: &str, pool: Arc<dyn Pool>, uuid: Uuid, runtime: &Runtime) -> String {
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await.expect("a port");
        let address = listener.local_addr().expect("its address").to_string();
        let engine = Engine::new(pool, uuid, secret());
        tokio::spawn(async move { engine.listen(listener).await });
        address
    })
}
