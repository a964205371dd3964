//! The conformance suite on pools over three nodes, whose engines run in this process: with no node of their own, and as
//! on one of the nodes.
use esker::types::Uuid;
use esker::types::info::{OpenMode, Part};
use esker::{Native, names};
use esker_backend::Pool;
use esker_engine::Engine;
use esker_nodes::{MAP_VERSION, Map, Node, Nodes};
use esker_store::PoolSpec;
use esker_testkit::conformance;
use esker_wire::handshake::Secret;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(4).enable_all().build().expect("a runtime")
});

const NODES: u32 = 3;

/// A directory for pools, removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
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

fn secret() -> Secret {
    Secret::new([3; 32])
}

/// Creates the part of a node, and serves it.
fn start(folder: &Path, label: &str, node: u32) -> Node {
    let mut spec = PoolSpec::new(&format!("{label}.{node}"), 100 << 20);
    spec.targets = Some(2);
    spec.segment_bytes = Some(8 << 20);
    spec.part = Part { node, nodes: NODES };
    let part = esker_store::Pool::create(folder, &spec, &mut |_, _| {}).expect("a part");
    let directory = folder.join(&spec.label);
    let pool = Native::open(&directory, OpenMode::ReadWrite).expect("the part");
    let (uuid, name) = (part.uuid, format!("n{node}"));
    Node { name, address: serve(Arc::new(pool), uuid), uuid, directory }
}

/// Where an engine listens that serves `pool`.
fn serve(pool: Arc<dyn Pool>, uuid: Uuid) -> String {
    RUNTIME.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address").to_string();
        let engine = Engine::new(pool, uuid, secret());
        tokio::spawn(async move { engine.listen(listener).await });
        address
    })
}

fn map(folder: &Path) -> Map {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let label = format!("pool{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let nodes = (0..NODES).map(|node| start(folder, &label, node)).collect();
    let uuid = Uuid::from_random([NODES as u8; 16]);
    Map { version: MAP_VERSION, label, uuid, secret: secret(), targets: 2, nodes }
}

/// A pool over nodes, none of which is this one.
fn away(folder: &Path) -> Arc<dyn Pool> {
    let map = map(folder);
    Arc::new(Nodes::open(&map, &Map::path(folder, &map.label), Vec::new()).expect("the pool"))
}

/// A pool over nodes, the second of which is this one.
fn own(folder: &Path) -> Arc<dyn Pool> {
    let map = map(folder);
    let part: Arc<dyn Pool> =
        Arc::new(Native::open(&map.nodes[1].directory, OpenMode::ReadWrite).expect("the part"));
    let path = Map::path(folder, &map.label);
    Arc::new(Nodes::open(&map, &path, vec![(1, part)]).expect("the pool"))
}

/// One test per topic.
macro_rules! conformance {
    ($name:ident) => {
        conformance!(@ $name, containers metadata single_values conditions query oids replies);
    };
    (@ $name:ident, $($topic:ident)+) => {
        mod $name {
            use super::*;
            $(#[test]
            fn $topic() {
                let folder = Folder::new();
                conformance::$topic(&|| super::$name(&folder.0));
            })+
        }
    };
}

conformance!(away);
conformance!(own);

#[test]
fn a_pool_is_opened_by_its_map_and_a_part_is_not() {
    let folder = Folder::new();
    let map = map(&folder.0);
    let path = Map::path(&folder.0, &map.label);
    map.write(&path).expect("the map");
    let url = format!("nodes:{}", path.display());
    assert!(matches!(names::resolve(&url), Ok(names::Named::Nodes(found)) if found == path));
    let pool = esker::Pool::connect(&url, OpenMode::ReadWrite).expect("the pool");
    assert_eq!(pool.capabilities().targets, 2 * NODES);
    let part = format!("esker:{}", map.nodes[0].directory.display());
    let refused = esker::Pool::connect(&part, OpenMode::ReadWrite).err().expect("an error");
    assert!(refused.message().contains("open the whole pool by its map"), "{refused}");
}
