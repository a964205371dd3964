//! The conformance suite on a pool over two nodes, over the fabric with a provider that every machine with libfabric
//! has. Skipped without libfabric.
mod served;

use esker::types::ObjectClass;
use esker::types::info::OpenMode;
use esker::types::ops::Cond;
use esker::{Access, Wait};
use esker_backend::{NewContainer, Pool};
use esker_conformance::{model, suite};
use esker_nodes::{Fabric, Map, ShardedPool, Timeouts, Transport};
use esker_types::ObjectType;
use served::Folder;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| served::runtime(2));

/// A pool over two nodes, the second of which is served in the runtime `last`.
fn map(folder: &Path, last: &Runtime) -> Map {
    Map { transport: Transport::Fabric, ..served::map(folder, &[&RUNTIME, last]) }
}

/// The pool of a map, whose nodes are reached over `provider`.
fn open(map: &Map, provider: &str) -> esker_types::Result<Arc<dyn Pool>> {
    let dial = Arc::new(Fabric { provider: Some(provider.to_owned()) });
    let timeouts = Timeouts { reconnect: Duration::ZERO, ..Timeouts::default() };
    let pool =
        ShardedPool::open_by(map, Path::new("none.map"), Vec::new(), timeouts, dial).wait()?;
    Ok(Arc::new(pool))
}

/// Pools that are reached by this provider, or the reason why there are none.
fn pools(provider: &str) -> Result<impl Fn() -> Arc<dyn Pool>, String> {
    let folder = Folder::new();
    match open(&map(&folder.0, &RUNTIME), provider) {
        Err(error) if error.message().contains("cannot be loaded") => {
            Err(format!("{provider}: {}", error.message()))
        }
        _ => Ok(move || open(&map(&folder.0, &RUNTIME), provider).expect("the pool")),
    }
}

const TCP: &str = "tcp;ofi_rxm";

suite!(over_tcp, pools(TCP));

#[test]
fn a_pool_over_the_fabric_agrees_with_the_model() {
    match pools(TCP) {
        Ok(new) => model::run(esker_testing::seed(), esker_testing::rounds(500), &new),
        Err(reason) => esker_testing::skip(reason),
    }
}

#[test]
fn error_names_the_lost_node() {
    match pools(TCP) {
        Ok(_) => lose_a_node(TCP),
        Err(reason) => esker_testing::skip(reason),
    }
}

/// The second node's engine ends as if its process were killed.
fn lose_a_node(provider: &str) {
    let (folder, last) = (Folder::new(), served::runtime(2));
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
