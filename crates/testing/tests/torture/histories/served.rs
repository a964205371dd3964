//! A pool over nodes, whose engines run in the process of the test.
use crate::common::{self, Folder, PoolKind, Shape};
use esker::Native;
use esker_engine::Engine;
use esker_nodes::{Map, Node};
use esker_types::Uuid;
use esker_types::info::{OpenMode, Part};
use esker_wire::handshake::Secret;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

/// Number of nodes of a pool.
pub(super) const NODES: u32 = 2;

/// The engines of a pool over nodes; they end when this is dropped.
pub(super) struct Engines {
    _runtime: Runtime,
    map: PathBuf,
}

/// Name of the node on which a process runs: it works directly on the pool of that node. The last process runs on none.
pub(super) fn node_of(process: u64) -> String {
    match process < u64::from(NODES) {
        true => name(process as u32),
        false => "none".to_owned(),
    }
}

fn name(node: u32) -> String {
    format!("n{node}")
}

fn secret() -> Secret {
    Secret::new([3; 32])
}

impl Engines {
    /// Creates a pool over nodes, and serves it.
    pub(super) fn start(folder: &Folder, pool_kind: PoolKind, nodes: u32) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let start = |node| start_node(folder, pool_kind, Part { node, nodes }, &runtime);
        let started = (0..nodes).map(start).collect();
        let uuid = Uuid::from_random([nodes as u8; 16]);
        let map = Map::new("pool", uuid, secret(), Shape::SMALL.targets, started);
        let path = Map::path(folder.path(), &map.label);
        map.write(&path).expect("writing the map");
        Self { _runtime: runtime, map: path }
    }

    /// The name of the pool.
    pub(super) fn url(&self) -> String {
        format!("nodes:{}", self.map.display())
    }
}

/// Creates the pool of a node and starts an engine that serves it. Returns the node for the map.
fn start_node(folder: &Folder, pool_kind: PoolKind, part: Part, runtime: &Runtime) -> Node {
    let label = format!("part{}", part.node);
    let directory = common::make_part(folder, &label, pool_kind, Shape::SMALL, part);
    let uuid = esker_store::Superblock::read(&directory).expect("a superblock").uuid;
    let pool = Native::open(&directory, OpenMode::ReadWrite).expect("opening a part");
    let address = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address").to_string();
        let engine = Engine::new(Arc::new(pool), uuid, secret());
        tokio::spawn(async move { engine.listen(listener).await });
        address
    });
    Node { name: name(part.node), address, uuid, directory }
}
