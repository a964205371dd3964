//! The conformance suite on a pool over two nodes that are reached over the fabric, by a provider that every machine
//! with libfabric has. Skipped without it.
use esker::types::info::{OpenMode, Part};
use esker::types::ops::Cond;
use esker::types::{ErrorKind, ObjectClass};
use esker::{Access, Native, Wait};
use esker_backend::{NewContainer, Pool};
use esker_engine::Engine;
use esker_nodes::{Fabric, MAP_VERSION, Map, Node, Nodes, Patience, Transport};
use esker_store::PoolSpec;
use esker_testkit::{conformance, model};
use esker_types::{ObjectType, Uuid};
use esker_wire::handshake::Secret;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

const NODES: u32 = 2;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(runtime);

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// A directory for pools, removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(PathBuf::from(format!("/dev/shm/esker-fabric-{}-{number}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Creates the part of a node, and serves it in `runtime`.
fn start(folder: &Path, label: &str, node: u32, runtime: &Runtime) -> Node {
    let mut spec = PoolSpec::new(&format!("{label}.{node}"), 100 << 20);
    spec.targets = Some(2);
    spec.segment_bytes = Some(8 << 20);
    spec.part = Part { node, nodes: NODES };
    let part = esker_store::Pool::create(folder, &spec, &mut |_, _| {}).expect("a part");
    let directory = folder.join(&spec.label);
    let pool = Native::open(&directory, OpenMode::ReadWrite).expect("the part");
    let engine = Engine::new(Arc::new(pool), part.uuid, Secret::new([3; 32]));
    let address = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address").to_string();
        tokio::spawn(async move { engine.listen(listener).await });
        address
    });
    Node { name: format!("n{node}"), address, uuid: part.uuid, directory }
}

fn map(folder: &Path, last: &Runtime) -> Map {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let label = format!("pool{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let nodes = (0..NODES)
        .map(|node| start(folder, &label, node, if node + 1 < NODES { &RUNTIME } else { last }))
        .collect();
    let (uuid, secret) = (Uuid::from_random([NODES as u8; 16]), Secret::new([3; 32]));
    let transport = Transport::Fabric;
    Map { version: MAP_VERSION, label, uuid, secret, tls: false, targets: 2, transport, nodes }
}

/// The pool of a map, whose nodes are reached by `provider`.
fn open(map: &Map, provider: &str) -> esker_types::Result<Arc<dyn Pool>> {
    let dial = Arc::new(Fabric { provider: Some(provider.to_owned()) });
    let patience = Patience { reconnect: Duration::ZERO, ..Patience::default() };
    let pool = Nodes::open_by(map, Path::new("none.map"), Vec::new(), patience, dial).wait()?;
    Ok(Arc::new(pool))
}

fn is_missing(provider: &str) -> bool {
    let folder = Folder::new();
    match open(&map(&folder.0, &RUNTIME), provider) {
        Err(error) if error.kind() == ErrorKind::NotSupported => {
            esker_testing::skip(format_args!("{provider}: {}", error.message()));
            true
        }
        _ => false,
    }
}

/// One test per topic.
macro_rules! conformance {
    ($name:ident, $provider:literal) => {
        conformance!(@ $name, $provider, containers metadata single_values arrays conditions
            punch listing long_keys query snapshots transactions oids leases replies threads);
    };
    (@ $name:ident, $provider:literal, $($topic:ident)+) => {
        mod $name {
            use super::*;
            $(#[test]
            fn $topic() {
                if is_missing($provider) {
                    return;
                }
                let folder = Folder::new();
                let new = || open(&map(&folder.0, &RUNTIME), $provider).expect("the pool");
                conformance::$topic(&new);
            })+

            #[test]
            fn it_agrees_with_the_model() {
                if is_missing($provider) {
                    return;
                }
                let folder = Folder::new();
                let new = || open(&map(&folder.0, &RUNTIME), $provider).expect("the pool");
                model::run(esker_testing::seed(), esker_testing::rounds(500), &new);
            }

            #[test]
            fn a_lost_node_is_named() {
                if !is_missing($provider) {
                    lose_a_node($provider);
                }
            }
        }
    };
}

conformance!(over_tcp, "tcp;ofi_rxm");

/// The second node's engine ends as if its process were killed.
fn lose_a_node(provider: &str) {
    let (folder, last) = (Folder::new(), runtime());
    let backend = open(&map(&folder.0, &last), provider).expect("the pool");
    let pool = esker::Pool::from_backend(backend, OpenMode::ReadWrite);
    pool.create_container(&NewContainer::named("c")).wait().expect("a container");
    let container = pool.open_container("c", OpenMode::ReadWrite).wait().expect("a container");
    let oid = container.new_oid(ObjectType::KvHashed).class(ObjectClass::SX).generate(1);
    let kv = container.kv(oid.expect("an id")).expect("a Key-Value");
    let put =
        |key: u32| kv.put(&key.to_le_bytes(), &[7; 100_000], Cond::NONE, Access::Latest).wait();
    (0..20).for_each(|key| put(key).expect("a put"));

    last.shutdown_timeout(Duration::from_secs(60));
    let failed: Vec<_> = (0..20).filter_map(|key| put(key).err()).collect();
    assert!((1..20).contains(&failed.len()), "{} of 20 keys lie on the lost node", failed.len());
    for error in failed {
        assert!(error.message().contains("node n1"), "{error:?}");
    }
}
