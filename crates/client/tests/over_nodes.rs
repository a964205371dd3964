//! The conformance suite on pools over three nodes, whose engines run in this process: with no node of their own, and
//! as on one of the nodes.
mod decisions;
mod leases;
mod served;

use esker::types::info::{ContainerRef, OpenMode, Part};
use esker::types::limits::ABANDONED_CONTAINERS_MAX;
use esker::types::ops::{
    Change, Commit, CommitId, Cond, Preparation, Sink, Source, Update, Value, Write, WriteOp,
};
use esker::types::{
    ArrayAttributes, Epoch, Error, ErrorKind, Extent, ObjectClass, ObjectId, ObjectType, Uuid,
};
use esker::{Access, Array, Container, Kv, Native, Wait, names};
use esker_backend::{NewContainer, OpenContainer, Placement, Pool, Reply};
use esker_conformance::between::{Interceptor, PoolBetween};
use esker_conformance::{Outcome, model, place, run_all, suite};
use esker_nodes::{Map, Node, ShardedPool, Timeouts};
use served::Folder;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| served::runtime(4));

const NODES: u32 = 3;

/// An engine that can be stopped: its connections then end, as if its process were killed.
struct Stoppable(Runtime);

impl Stoppable {
    /// Serves the pool of a node at `address`, and returns the address with the port that was used.
    fn start(address: &str, node: &Node) -> (Self, String) {
        let runtime = served::runtime(1);
        let pool = Native::open(&node.directory, OpenMode::ReadWrite).expect("the part");
        let address = served::serve(address, Arc::new(pool), node.uuid, &runtime);
        (Self(runtime), address)
    }

    fn stop(self) {
        self.0.shutdown_timeout(Duration::from_secs(60));
    }
}

/// The map of a new pool over nodes, all of whose engines run.
fn map(folder: &Path) -> Map {
    served::map(folder, &[&*RUNTIME; NODES as usize])
}

/// A pool over nodes, none of which is this one.
fn away(folder: &Path) -> Arc<dyn Pool> {
    let map = map(folder);
    Arc::new(ShardedPool::open(&map, &Map::path(folder, &map.label), Vec::new()).expect("the pool"))
}

/// A pool over nodes, the second of which is this one.
fn own(folder: &Path) -> Arc<dyn Pool> {
    let map = map(folder);
    let part: Arc<dyn Pool> =
        Arc::new(Native::open(&map.nodes[1].directory, OpenMode::ReadWrite).expect("the part"));
    let path = Map::path(folder, &map.label);
    Arc::new(ShardedPool::open(&map, &path, vec![(1, part)]).expect("the pool"))
}

/// Pools that are opened with their engines in this process.
fn pools(open: fn(&Path) -> Arc<dyn Pool>) -> impl Fn() -> Arc<dyn Pool> {
    let folder = Folder::new();
    move || open(&folder.0)
}

suite!(away, pools(away));
suite!(own, pools(own));

/// The pool that the environment names, emptied.
fn named_pool(url: &str) -> Arc<dyn Pool> {
    Arc::clone(place::empty(url).backend())
}

/// All topics, one after the other: they share the pool.
#[test]
fn the_pool_of_the_environment() {
    let Some(url) = place::nodes() else {
        return esker_testing::skip(format_args!(
            "{} names no pool over nodes",
            place::NODES_VARIABLE
        ));
    };
    let outcomes = run_all(&|| named_pool(url));
    let is_skipped = |outcome| matches!(outcome, Outcome::Skipped { .. });
    let skipped = outcomes.into_iter().filter(|(_, outcome)| is_skipped(*outcome));
    assert_eq!(skipped.map(|(name, _)| name).collect::<Vec<_>>(), ["change_ids"]);
    println!("{}={}", esker_testing::SEED_VARIABLE, esker_testing::seed());
    model::run(esker_testing::seed(), esker_testing::rounds(1500), &|| named_pool(url));
}

#[test]
fn a_pool_over_nodes_agrees_with_the_model() {
    let folder = Folder::new();
    println!("{}={}", esker_testing::SEED_VARIABLE, esker_testing::seed());
    model::run(esker_testing::seed(), esker_testing::rounds(1500), &|| away(&folder.0));
}

#[test]
fn a_pool_over_nodes_is_opened_by_its_map_only() {
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
    assert!(refused.message().contains("open the pool over nodes by its map"), "{refused}");
}

const NO_TIMEOUTS: Timeouts = Timeouts { reconnect: Duration::ZERO, undecided: Duration::ZERO };

/// The pool of a map, as a process on none of its nodes has it, and a new container.
fn open_new(map: &Map, timeouts: Timeouts) -> (esker::Pool, Container) {
    let backend = ShardedPool::open_with(map, Path::new("none.map"), Vec::new(), timeouts);
    let backend = Arc::new(backend.expect("the pool"));
    let pool = esker::Pool::from_backend(backend, OpenMode::ReadWrite);
    pool.create_container(&NewContainer::named("c")).wait().expect("a container");
    let container = pool.open_container("c", OpenMode::ReadWrite).wait().expect("a container");
    (pool, container)
}

/// A Key-Value on the first target of each node.
fn one_on_each(container: &Container) -> Vec<Kv> {
    let placement = Placement::new(2, Part { node: 0, nodes: NODES });
    let on = |node: u32| {
        let ids = (1..).map(|number| {
            let oid = container.new_oid(ObjectType::KvHashed).class(ObjectClass::S1);
            oid.generate(number).expect("an id")
        });
        let lies_there = |oid: &ObjectId| {
            let place = placement.locate(placement.first(*oid));
            (place.node, place.target) == (node, 0)
        };
        let oid = ids.into_iter().find(lies_there).expect("an object on the node");
        container.kv(oid).expect("a Key-Value")
    };
    (0..NODES).map(on).collect()
}

#[test]
fn error_names_the_lost_node_and_the_others_work() {
    let folder = Folder::new();
    let mut map = map(&folder.0);
    let (engine, address) = Stoppable::start("127.0.0.1:0", &map.nodes[2]);
    map.nodes[2].address = address.clone();
    let (pool, container) = open_new(&map, NO_TIMEOUTS);
    let kvs = one_on_each(&container);
    let put = |kv: &Kv, value: &[u8]| kv.put(b"key", value, Cond::NONE, Access::Latest).wait();
    kvs.iter().for_each(|kv| put(kv, b"before").expect("a put"));

    engine.stop();
    for kv in &kvs[..2] {
        put(kv, b"meanwhile").expect("a put on a node that is there");
    }
    let error = put(&kvs[2], b"lost").expect_err("the node is not there");
    assert!(error.kind() == ErrorKind::Io && error.message().contains("node n2"), "{error:?}");

    let (engine, _) = Stoppable::start(&address, &map.nodes[2]);
    let back = || put(&kvs[2], b"after").is_ok();
    esker_testing::wait_for("node n2 is back", back);
    let get = |kv: &Kv| kv.get(b"key", Access::Latest).wait().expect("a get");
    assert_eq!(get(&kvs[2]).as_deref(), Some(&b"after"[..]));
    assert_eq!(get(&kvs[0]).as_deref(), Some(&b"meanwhile"[..]));
    drop((kvs, container, pool));
    engine.stop();
}

#[test]
fn a_pool_with_another_uuid_than_in_the_map_is_refused() {
    let (folder, elsewhere) = (Folder::new(), Folder::new());
    let mut map = map(&folder.0);
    let part = Part { node: 2, nodes: NODES };
    map.nodes[2].address = served::start(&elsewhere.0, &map.label, part, &RUNTIME).address;
    let path = Map::path(&folder.0, &map.label);
    let backend = ShardedPool::open(&map, &path, Vec::new()).expect("the pool");
    let refused = backend.create_container(&NewContainer::named("c")).wait().expect_err("refused");
    let message = refused.message();
    assert!(message.contains("node n2") && message.contains("another pool"), "{refused:?}");
    assert!(backend.list_containers().wait().expect("the first node answers").is_empty());
}

#[test]
fn error_names_the_node_without_the_container() {
    let folder = Folder::new();
    let map = map(&folder.0);
    let (_pool, container) = open_new(&map, NO_TIMEOUTS);
    let kvs = one_on_each(&container);
    let part = Native::open(&map.nodes[1].directory, OpenMode::ReadWrite).expect("the part");
    let name = ContainerRef::Uuid(container.info().uuid);
    part.destroy_container(name, true).wait().expect("destroyed on one node");
    let get = |kv: &Kv| kv.get(b"key", Access::Latest).wait();
    let error = get(&kvs[1]).expect_err("the node does not have it");
    assert!(error.message().contains("node n1 does not have container"), "{error:?}");
    assert_eq!([get(&kvs[0]), get(&kvs[2])].map(Result::ok), [Some(None), Some(None)]);
}

#[test]
fn a_pool_over_one_node_has_snapshots_and_transactions() {
    let folder = Folder::new();
    let map = served::map(&folder.0, &[&RUNTIME]);
    let (_pool, container) = open_new(&map, NO_TIMEOUTS);
    let kv = container.new_oid(ObjectType::KvHashed).class(ObjectClass::SX).generate(1);
    let kv = container.kv(kv.expect("an id")).expect("a Key-Value");
    let keys = [b"a", b"b", b"c", b"d"];
    let transaction = container.transaction().expect("a transaction");
    for key in keys {
        kv.put(key, b"1", Cond::NONE, Access::Tx(&transaction)).wait().expect("buffered");
    }
    transaction.commit().wait().expect("committed");
    let epoch = container.create_snapshot("then").wait().expect("a snapshot");
    kv.destroy(Access::Latest).wait().expect("destroyed");
    let then = container.at(epoch).wait().expect("the snapshot");
    for key in keys {
        assert_eq!(kv.get(key, then).wait().expect("a get").as_deref(), Some(&b"1"[..]));
        assert_eq!(kv.get(key, Access::Latest).wait().expect("a get"), None);
    }
}

/// The engine waits for the leases, and must not apply half of the removal twice.
#[test]
fn a_container_is_destroyed_while_what_it_has_is_leased() {
    let folder = Folder::new();
    let map = served::map(&folder.0, &[&RUNTIME]);
    let (pool, container) = open_new(&map, NO_TIMEOUTS);
    let kv = container.new_oid(ObjectType::KvHashed).class(ObjectClass::SX).generate(1);
    let kv = container.kv(kv.expect("an id")).expect("a Key-Value");
    let transaction = container.transaction().expect("a transaction");
    kv.get(b"k", Access::Tx(&transaction)).wait().expect("a get");
    let proof = transaction.proof().expect("the proof");
    let lease = container.lease_reads(&proof).wait().expect("an answer");
    assert!(lease.is_some(), "nothing is in the way");
    let name = container.info().uuid.to_string();
    pool.destroy_container(&name, true).wait().expect("destroyed");
    assert!(pool.containers().wait().expect("a list").is_empty());
    assert_eq!(kv.get(b"k", Access::Latest).wait().unwrap_err().kind(), ErrorKind::NoHandle);
}

/// Without the first node, nobody knows whether the container exists.
#[test]
fn creating_a_container_again_without_the_first_node_destroys_nothing() {
    let folder = Folder::new();
    let mut map = map(&folder.0);
    let (engine, address) = Stoppable::start("127.0.0.1:0", &map.nodes[0]);
    map.nodes[0].address = address.clone();
    let (pool, container) = open_new(&map, NO_TIMEOUTS);
    let kvs = one_on_each(&container);
    for kv in &kvs {
        kv.put(b"key", b"1", Cond::NONE, Access::Latest).wait().expect("a put");
    }
    engine.stop();
    let new = NewContainer::named("c").with_uuid(container.info().uuid);
    let error = pool.backend().create_container(&new).wait().expect_err("the node is lost");
    assert!(error.message().contains("node n0"), "{error:?}");
    let (engine, _) = Stoppable::start(&address, &map.nodes[0]);
    let get = |kv: &Kv| kv.get(b"key", Access::Latest).wait();
    esker_testing::wait_for("node n0 is back", || get(&kvs[0]).is_ok());
    for kv in &kvs {
        assert_eq!(get(kv).expect("a get").as_deref(), Some(&b"1"[..]));
    }
    drop((kvs, container, pool));
    engine.stop();
}

/// Containers that the pools of all nodes have, in the order of the nodes.
fn containers_of_nodes(map: &Map) -> Vec<usize> {
    let count = |node: &Node| {
        let pool = Native::open(&node.directory, OpenMode::ReadOnly).expect("the node's pool");
        pool.list_containers().wait().expect("a list").len()
    };
    map.nodes.iter().map(count).collect()
}

#[test]
fn creation_without_the_first_node_leaves_nothing() {
    let folder = Folder::new();
    let mut map = map(&folder.0);
    let (engine, address) = Stoppable::start("127.0.0.1:0", &map.nodes[0]);
    map.nodes[0].address = address;
    let (pool, container) = open_new(&map, NO_TIMEOUTS);
    engine.stop();
    let error = pool.create_container(&NewContainer::named("d")).wait().expect_err("lost");
    assert!(error.message().contains("node n0"), "{error:?}");
    assert_eq!(containers_of_nodes(&map), [1; NODES as usize]);
    drop((container, pool));
}

/// The first node, which stops to answer after a number of calls.
struct Answers {
    calls: AtomicI64,
    /// The first call that is not answered is executed.
    executes: AtomicBool,
    /// Only one call is not answered.
    recovers: AtomicBool,
}

impl Answers {
    /// Answers all calls.
    fn new() -> Arc<Self> {
        let (executes, recovers) = (AtomicBool::default(), AtomicBool::default());
        Arc::new(Self { calls: AtomicI64::new(i64::MAX), executes, recovers })
    }

    /// Answers this number of calls, and then none. With `executes`, the first call without an answer takes effect.
    fn lose(&self, calls: i64, executes: bool) {
        self.executes.store(executes, Ordering::Relaxed);
        self.calls.store(calls, Ordering::Relaxed);
    }

    /// Answers all calls but the one after this number.
    fn lose_one(&self, calls: i64) {
        self.recovers.store(true, Ordering::Relaxed);
        self.lose(calls, false);
    }
}

impl Interceptor for Answers {
    fn pass<'a, T: Send + Unpin + 'a>(
        &'a self,
        call: impl FnOnce() -> Reply<'a, T> + Send + 'a,
    ) -> Reply<'a, T> {
        let calls = self.calls.fetch_sub(1, Ordering::Relaxed);
        if calls > 0 || calls < 0 && self.recovers.load(Ordering::Relaxed) {
            return call();
        }
        if calls == 0 && self.executes.load(Ordering::Relaxed) {
            drop(call().wait());
        }
        Reply::Ready(Err(Error::new(ErrorKind::Io, "node n0 is lost")))
    }
}

/// A pool whose first node answers as the value says.
fn pool_with_answers(map: &Map) -> (ShardedPool, Arc<Answers>) {
    let first = Native::open(&map.nodes[0].directory, OpenMode::ReadWrite).expect("the part");
    let answers = Answers::new();
    let first: Arc<dyn Pool> = Arc::new(PoolBetween::before(Arc::new(first), &answers));
    let pool = ShardedPool::open(map, Path::new("none.map"), vec![(0, first)]).expect("the pool");
    (pool, answers)
}

#[test]
fn failed_creations_are_refused_before_they_leave_too_many_parts() {
    let folder = Folder::new();
    let map = map(&folder.0);
    let (pool, answers) = pool_with_answers(&map);
    let create = || {
        let created = pool.create_container(&NewContainer::named("c")).wait();
        created.map(drop).map_err(|error| error.message().to_owned())
    };
    for _ in 0..ABANDONED_CONTAINERS_MAX {
        // It answers before the creation on the others.
        answers.lose(1, false);
        assert_eq!(create().unwrap_err(), "node n0 is lost");
    }
    let parts = [0, ABANDONED_CONTAINERS_MAX, ABANDONED_CONTAINERS_MAX];
    assert_eq!(containers_of_nodes(&map), parts);
    answers.lose(1, false);
    let refused = create().unwrap_err();
    assert!(refused.contains("ABANDONED_CONTAINERS_MAX"), "{refused}");
    assert_eq!(containers_of_nodes(&map), parts);
    answers.lose(i64::MAX, false);
    create().expect("a container");
    assert_eq!(containers_of_nodes(&map), [1; 3]);
}

#[test]
fn parts_of_a_failed_creation_are_removed_once_the_first_node_answers() {
    let folder = Folder::new();
    let map = map(&folder.0);
    let (pool, answers) = pool_with_answers(&map);
    let create = |label| pool.create_container(&NewContainer::named(label)).wait();
    create("kept").expect("a container");
    // It answers before the creation on the others, and is lost when it is to create the container itself.
    answers.lose(1, false);
    create("failed").expect_err("the first node is lost");
    assert_eq!(containers_of_nodes(&map), [1, 2, 2]);
    answers.lose(i64::MAX, false);
    create("next").expect("a container");
    assert_eq!(containers_of_nodes(&map), [2; 3]);
    // It creates the container, and only its reply is lost.
    answers.lose(1, true);
    create("created").expect_err("the first node is lost");
    answers.lose(i64::MAX, false);
    create("last").expect("a container");
    assert_eq!(containers_of_nodes(&map), [4; 3]);
}

/// The first node removes the container, and only its reply is lost. It answers at once again, or after a while.
#[test]
fn removal_whose_reply_is_lost_leaves_nothing_on_other_nodes() {
    let folder = Folder::new();
    let map = map(&folder.0);
    let (pool, answers) = pool_with_answers(&map);
    let create = |label| pool.create_container(&NewContainer::named(label)).wait().map(drop);
    let destroy = |label| pool.destroy_container(ContainerRef::Label(label), false).wait();
    create("a").and_then(|()| create("b")).expect("containers");
    // It answers when it is to find the container.
    answers.lose(1, true);
    destroy("a").expect_err("the first node is lost");
    assert_eq!(containers_of_nodes(&map), [1, 2, 2]);
    answers.lose(i64::MAX, false);
    let missing = destroy("a").expect_err("it is destroyed");
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert_eq!(containers_of_nodes(&map), [1; 3]);
    answers.recovers.store(true, Ordering::Relaxed);
    answers.lose(1, true);
    destroy("b").expect("destroyed");
    assert_eq!(containers_of_nodes(&map), [0; 3]);
}

/// UUIDs of the containers of one node's pool.
fn containers_of(node: &Node) -> Vec<Uuid> {
    let pool = Native::open(&node.directory, OpenMode::ReadOnly).expect("the node's pool");
    pool.list_containers().wait().expect("a list").iter().map(|info| info.uuid).collect()
}

/// The first node creates the container after the client has stopped to wait for it.
#[test]
fn parts_stay_while_the_outcome_of_a_creation_is_unknown() {
    let folder = Folder::new();
    let map = map(&folder.0);
    let first = Native::open(&map.nodes[0].directory, OpenMode::ReadWrite).expect("the part");
    let (first, answers): (Arc<dyn Pool>, _) = (Arc::new(first), Answers::new());
    let own: Arc<dyn Pool> = Arc::new(PoolBetween::before(Arc::clone(&first), &answers));
    let pool = ShardedPool::open(&map, Path::new("none.map"), vec![(0, own)]).expect("the pool");
    let create = |label| pool.create_container(&NewContainer::named(label)).wait();
    answers.lose_one(1);
    create("late").expect_err("no answer");
    assert_eq!(containers_of_nodes(&map), [0, 1, 1]);
    let uuid = containers_of(&map.nodes[1])[0];
    let late = NewContainer::named("late").with_uuid(uuid);
    first.create_container(&late).wait().expect("created late");
    create("next").expect("a container");
    assert_eq!(containers_of_nodes(&map), [2; 3]);
    assert!(containers_of(&map.nodes[2]).contains(&uuid));
}

/// Another client may create a container with this UUID at the same time.
#[test]
fn failed_creation_with_a_given_uuid_removes_nothing() {
    let folder = Folder::new();
    let map = map(&folder.0);
    let path = Path::new("none.map");
    let pool = ShardedPool::open(&map, path, Vec::new()).expect("the pool");
    let uuid = Uuid::from_random([5; 16]);
    let part = Native::open(&map.nodes[1].directory, OpenMode::ReadWrite).expect("the part");
    let of_other = NewContainer::nameless().with_uuid(uuid);
    part.create_container(&of_other).wait().expect("a part of another creation");
    let new = NewContainer::named("c/d").with_uuid(uuid);
    let error = pool.create_container(&new).wait().expect_err("not a label");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(containers_of(&map.nodes[1]).contains(&uuid));
}

#[test]
fn removal_from_an_engine_of_another_pool_is_an_error() {
    let (folder, elsewhere) = (Folder::new(), Folder::new());
    let mut map = map(&folder.0);
    let path = Map::path(&folder.0, &map.label);
    let open = |map: &Map| ShardedPool::open(map, &path, Vec::new()).expect("the pool");
    open(&map).create_container(&NewContainer::named("c")).wait().expect("a container");
    let part = Part { node: 2, nodes: NODES };
    map.nodes[2].address = served::start(&elsewhere.0, &map.label, part, &RUNTIME).address;
    let removed = open(&map).destroy_container(ContainerRef::Label("c"), true).wait();
    let error = removed.expect_err("another pool");
    let message = error.message();
    assert!(message.contains("node n2 still has its data"), "{message}");
    assert!(message.contains("serves another pool"), "{message}");
}

#[test]
fn operations_wait_for_a_restarting_node() {
    let folder = Folder::new();
    let mut map = map(&folder.0);
    let (engine, address) = Stoppable::start("127.0.0.1:0", &map.nodes[0]);
    map.nodes[0].address = address.clone();
    let (pool, container) = open_new(&map, Timeouts::default());
    let kvs = one_on_each(&container);
    kvs[0].put(b"key", b"1", Cond::NONE, Access::Latest).wait().expect("a put");
    engine.stop();
    // The put begins without an engine, and the next one serves it.
    let engine = std::thread::scope(|scope| {
        let put = scope.spawn(|| kvs[0].put(b"key", b"2", Cond::NONE, Access::Latest).wait());
        let (engine, _) = Stoppable::start(&address, &map.nodes[0]);
        put.join().expect("no panic").expect("a put");
        engine
    });
    assert_eq!(
        kvs[0].get(b"key", Access::Latest).wait().ok().flatten().as_deref(),
        Some(&b"2"[..])
    );
    drop((kvs, container, pool));
    engine.stop();
}

/// An array of bytes in chunks of this size, all on one target.
fn array(container: &Container, chunk_size: u64) -> Array {
    let oid = container.new_oid(ObjectType::ArrayByte).class(ObjectClass::S1).generate(chunk_size);
    let attributes = ArrayAttributes { cell_size: 1, chunk_size };
    container.open_array_with_attributes(oid.expect("an id"), attributes).expect("an array")
}

/// An engine accepts 65,536 writes or akeys in one request.
#[test]
fn an_array_may_have_more_chunks_on_a_node_than_a_request() {
    const CHUNKS: usize = (1 << 16) + 1;
    let folder = Folder::new();
    let map = served::map(&folder.0, &[&RUNTIME]);
    let (_pool, container) = open_new(&map, NO_TIMEOUTS);
    let array = array(&container, 1);
    let data: Vec<u8> = (0..CHUNKS).map(|at| (at % 251) as u8).collect();
    let range = [Extent::new(0, CHUNKS as u64)];
    array.write(&range, Source::One(&data), Access::Latest).wait().expect("a write");
    let mut found = vec![0; CHUNKS];
    array.read(&range, Sink::One(&mut found), Access::Latest).wait().expect("a read");
    assert!(found == data);
    array.punch(&[Extent::new(1, 1 << 40)], Access::Latest).wait().expect("a punch");
    assert_eq!(array.size(Access::Latest).wait().expect("a size"), 1);
}

/// One reply has at most 256 MiB of data.
#[test]
fn a_read_of_one_chunk_may_be_longer_than_a_reply() {
    const LEN: usize = (256 << 20) + 1;
    let folder = Folder::new();
    let map = served::map(&folder.0, &[&RUNTIME]);
    let (_pool, container) = open_new(&map, NO_TIMEOUTS);
    let array = array(&container, 1 << 30);
    for at in [0, LEN as u64 - 1] {
        let cell = [Extent::new(at, 1)];
        array.write(&cell, Source::One(b"x"), Access::Latest).wait().expect("a write");
    }
    let (range, mut found) = ([Extent::new(0, LEN as u64)], vec![1; LEN]);
    array.read(&range, Sink::One(&mut found), Access::Latest).wait().expect("a read");
    assert!(found[0] == b'x' && found[LEN - 1] == b'x');
    assert!(found[1..LEN - 1].iter().all(|byte| *byte == 0));
}

/// Passes bytes between clients and an engine. It can lose a reply, and the connection with it.
struct Relay {
    address: String,
    /// Replies before the one that it loses; negative if it loses none.
    before: Arc<AtomicI64>,
}

impl Relay {
    fn start(engine: &str) -> Self {
        let (engine, before) = (engine.to_owned(), Arc::new(AtomicI64::new(-1)));
        let counted = Arc::clone(&before);
        let address = RUNTIME.block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("its address").to_string();
            tokio::spawn(async move {
                while let Ok((client, _)) = listener.accept().await {
                    let engine = TcpStream::connect(&engine).await.expect("the engine");
                    tokio::spawn(pass_on(client, engine, Arc::clone(&counted)));
                }
            });
            address
        });
        Self { address, before }
    }

    /// Passes this number of replies on, and loses the next one.
    fn lose(&self, before: i64) {
        self.before.store(before, Ordering::Relaxed);
    }

    /// True if it has lost what it was to lose.
    fn has_lost(&self) -> bool {
        self.before.load(Ordering::Relaxed) < 0
    }
}

/// Passes bytes in both directions until a reply is to be lost.
async fn pass_on(mut client: TcpStream, mut engine: TcpStream, before: Arc<AtomicI64>) {
    let ((mut from_client, mut to_client), (mut from_engine, mut to_engine)) =
        (client.split(), engine.split());
    let replies = async {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from_engine.read(&mut bytes).await {
            let is_lost = before.fetch_sub(1, Ordering::Relaxed) == 0;
            if is_lost || to_client.write_all(&bytes[..count]).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = replies => {}
        _ = tokio::io::copy(&mut from_client, &mut to_engine) => {}
    }
}

#[test]
fn snapshot_whose_reply_is_lost_is_taken_once() {
    let folder = Folder::new();
    let mut map = served::map(&folder.0, &[&RUNTIME]);
    let relay = Relay::start(&map.nodes[0].address);
    map.nodes[0].address.clone_from(&relay.address);
    let (_pool, container) = open_new(&map, Timeouts::default());
    // The first reply is that to the list of snapshots.
    relay.lose(1);
    let epoch = container.create_snapshot("then").wait().expect("a snapshot");
    assert!(relay.has_lost());
    let epochs = container.snapshots().wait().expect("a list");
    assert_eq!(epochs.iter().map(|snapshot| snapshot.epoch).collect::<Vec<_>>(), [epoch]);
}

#[test]
fn close_succeeds_if_the_connection_ends_meanwhile() {
    let folder = Folder::new();
    let mut map = served::map(&folder.0, &[&RUNTIME]);
    let relay = Relay::start(&map.nodes[0].address);
    map.nodes[0].address.clone_from(&relay.address);
    let (_pool, container) = open_new(&map, Timeouts::default());
    relay.lose(0);
    container.close().wait().expect("closed");
    assert!(relay.has_lost());
}

/// An engine that refuses leases, and counts how often it was asked.
#[derive(Default)]
struct Refusing {
    grants: AtomicBool,
    asked: AtomicU64,
}

impl Interceptor for Refusing {
    fn lease<'a>(&'a self, from: &'a dyn OpenContainer, oid: ObjectId) -> Reply<'a, ()> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match self.grants.load(Ordering::Relaxed) {
            true => from.lease(oid),
            false => Reply::Ready(Err(ErrorKind::NoSpace.into())),
        }
    }
}

/// The client takes its leases again and again, each time with a new handle.
#[test]
fn refused_leases_leave_no_open_containers() {
    let folder = Folder::new();
    let mut map = served::map(&folder.0, &[&RUNTIME]);
    let (engine, address) = Stoppable::start("127.0.0.1:0", &map.nodes[0]);
    map.nodes[0].address = address.clone();
    let (pool, container) = open_new(&map, Timeouts::default());
    let oid = container.new_oid(ObjectType::KvHashed).generate(1).expect("an id");
    let lease = container.object(oid).lease().wait().expect("a lease");
    engine.stop();
    let part = Native::open(&map.nodes[0].directory, OpenMode::ReadWrite).expect("the part");
    let (part, refusing): (Arc<dyn Pool>, _) = (Arc::new(part), Arc::new(Refusing::default()));
    let between = Arc::new(PoolBetween::before(Arc::clone(&part), &refusing));
    let handles = || part.list_containers().wait().expect("a list")[0].handles;
    // The first engine was in this process, and has not closed its container.
    let before = handles();
    let runtime = served::runtime(1);
    served::serve(&address, between, map.nodes[0].uuid, &runtime);
    // The engine repeats a request that has failed on another thread, so that each attempt asks twice.
    esker_testing::wait_for("the client asks again", || refusing.asked.load(Ordering::Relaxed) > 4);
    refusing.grants.store(true, Ordering::Relaxed);
    container.object(oid).lease().wait().expect("a lease").release().wait().expect("released");
    assert_eq!(handles(), before + 1);
    lease.release().wait().expect("released");
    drop((container, pool));
    runtime.shutdown_timeout(Duration::from_secs(60));
}

/// The client sends no request that would make it connect again.
#[test]
fn idle_client_takes_its_leases_again_after_restart_of_engine() {
    let folder = Folder::new();
    let mut map = map(&folder.0);
    let (engine, address) = Stoppable::start("127.0.0.1:0", &map.nodes[0]);
    map.nodes[0].address = address.clone();
    let (pool, container) = open_new(&map, Timeouts::default());
    let oid = one_on_each(&container)[0].oid();
    let lease = container.object(oid).lease().wait().expect("a lease");
    let part = Native::open(&map.nodes[0].directory, OpenMode::ReadWrite).expect("the part");
    let name = ContainerRef::Uuid(container.info().uuid);
    let opened = part.open_container(name, OpenMode::ReadWrite).wait().expect("open");
    let is_leased = || opened.unlink_on_last_close(oid).wait().expect("an answer");
    assert!(is_leased() && container.lease_losses(oid) == 0);
    engine.stop();
    // The engine was in this process, which ends the lease in its place.
    opened.release(oid).wait().expect("released");
    assert!(!is_leased());
    let (engine, _) = Stoppable::start(&address, &map.nodes[0]);
    esker_testing::wait_for("the client has its lease again", is_leased);
    assert!(container.lease_losses(oid) > 0);
    assert!(lease.release().wait().expect("released"), "it is to be removed");
    drop((container, pool));
    engine.stop();
}

/// The part of a commit over the first two nodes before its client dies: it prepares a put of `value` on both and, if
/// `decided`, commits on the first.
fn die_in_a_commit(map: &Map, container: Uuid, kvs: &[Kv], value: &[u8], decided: bool) {
    let id = CommitId::new(Epoch(0), Uuid([value[0]; 16]));
    let commit = Commit { id, coordinator: 0 };
    let mut clock = Epoch(0);
    let parts: Vec<Native> = map.nodes[..2]
        .iter()
        .map(|node| Native::open(&node.directory, OpenMode::ReadWrite).expect("the part"))
        .collect();
    for (part, kv) in parts.iter().zip(kvs) {
        let name = ContainerRef::Uuid(container);
        let opened = part.open_container(name, OpenMode::ReadWrite).wait().expect("open");
        let updates =
            [Update { akey: b"0", value: Value::Single(Source::One(value)), cond: Cond::NONE }];
        let op = WriteOp::Update { dkey: b"key", cond: Cond::NONE, updates: &updates };
        let writes = [Write { oid: kv.oid(), op }];
        let what = Preparation::Change(Change::from_writes(&writes));
        clock = clock.max(opened.prepare(commit, what).wait().expect("prepared"));
        opened.close().wait().expect("closed");
    }
    if decided {
        parts[0].commit(commit, clock).wait().expect("decided");
    }
}

/// Nodes prepare in order if another commit blocks their concurrent preparation.
#[test]
fn commits_over_all_nodes_pass_an_abandoned_commit() {
    let folder = Folder::new();
    let map = map(&folder.0);
    let (_pool, container) = open_new(&map, NO_TIMEOUTS);
    let kvs = one_on_each(&container);
    let spread = container.new_oid(ObjectType::KvHashed).class(ObjectClass::SX).generate(1);
    let spread = container.kv(spread.expect("an id")).expect("a Key-Value");
    let keys: Vec<_> = (0..32).map(|number| [number]).collect();
    for key in &keys {
        spread.put(key, b"0", Cond::NONE, Access::Latest).wait().expect("a put");
    }
    let uuid = container.info().uuid;
    die_in_a_commit(&map, uuid, &kvs, b"1", true);
    let epoch = container.create_snapshot("then").wait().expect("a snapshot");
    let then = container.at(epoch).wait().expect("the snapshot");
    die_in_a_commit(&map, uuid, &kvs, b"2", false);
    spread.destroy(Access::Latest).wait().expect("destroyed");
    let get = |kv: &Kv, key: &[u8], at| kv.get(key, at).wait().expect("a get");
    let found = [&kvs[0], &kvs[1]].map(|kv| get(kv, b"key", then));
    assert_eq!(found, [Some(b"1".to_vec()), Some(b"1".to_vec())]);
    for key in &keys {
        assert_eq!(get(&spread, key, then), Some(b"0".to_vec()));
        assert_eq!(get(&spread, key, Access::Latest), None);
    }
    assert_eq!(get(&kvs[0], b"key", Access::Latest), Some(b"1".to_vec()));
}

/// A process on the second node opens, creates and destroys containers there itself. The first target of that node, which
/// lists them, is in doubt.
#[test]
fn containers_of_a_node_are_reached_despite_an_abandoned_commit() {
    let folder = Folder::new();
    let map = map(&folder.0);
    let (_pool, container) = open_new(&map, NO_TIMEOUTS);
    let (kvs, uuid) = (one_on_each(&container), container.info().uuid);
    let part = Native::open(&map.nodes[1].directory, OpenMode::ReadWrite).expect("the part");
    let own: Vec<(u32, Arc<dyn Pool>)> = vec![(1, Arc::new(part))];
    let backend = ShardedPool::open_with(&map, Path::new("none.map"), own, NO_TIMEOUTS);
    let backend = Arc::new(backend.expect("the pool"));
    let pool = esker::Pool::from_backend(Arc::clone(&backend) as _, OpenMode::ReadWrite);
    die_in_a_commit(&map, uuid, &kvs, b"1", false);
    pool.open_container("c", OpenMode::ReadWrite).wait().expect("opened");
    die_in_a_commit(&map, uuid, &kvs, b"2", false);
    pool.create_container(&NewContainer::named("d")).wait().expect("created");
    die_in_a_commit(&map, uuid, &kvs, b"3", false);
    pool.destroy_container("d", false).wait().expect("destroyed");
    die_in_a_commit(&map, uuid, &kvs, b"4", false);
    let settled = RUNTIME.block_on(backend.resolve_commits());
    assert!(settled.iter().all(Result::is_ok), "{settled:?}");
    let survey = RUNTIME.block_on(map.survey()).expect("a survey");
    assert!(survey.nodes_without(uuid).is_empty());
}

#[test]
fn abandoned_commit_is_aborted_or_completed() {
    let folder = Folder::new();
    let map = map(&folder.0);
    let (_pool, container) = open_new(&map, NO_TIMEOUTS);
    let kvs = one_on_each(&container);
    let get = |kv: &Kv| kv.get(b"key", Access::Latest).wait().expect("a get");
    for kv in &kvs {
        kv.put(b"key", b"0", Cond::NONE, Access::Latest).wait().expect("a put");
    }
    let uuid = container.info().uuid;
    for (decided, value, seen) in [(false, b"1", b"0"), (true, b"2", b"2"), (false, b"3", b"2")] {
        die_in_a_commit(&map, uuid, &kvs, value, decided);
        // The second node is asked first: it must ask the coordinator.
        let found = [&kvs[1], &kvs[0], &kvs[2]].map(get);
        let both = Some(seen.to_vec());
        assert_eq!(found, [both.clone(), both, Some(b"0".to_vec())], "{decided}");
    }
    kvs[1].put(b"key", b"4", Cond::NONE, Access::Latest).wait().expect("a put");
}
