//! Leases of clients, and operations that wait, if the connection to an engine is lost at an inconvenient moment.
use super::served::{Folder, serve};
use super::{NO_TIMEOUTS, RUNTIME, Stoppable, map, one_on_each, open_new};
use esker::types::info::{ContainerRef, OpenMode};
use esker::types::ops::ReadAt;
use esker::types::{ErrorKind, ObjectId, Result};
use esker::{Access, Container, Native, Wait};
use esker_backend::{NewContainer, OpenContainer, Pool, Reply};
use esker_conformance::between::{Interceptor, PoolBetween};
use esker_nodes::{Connection, Dial, Map, Node, ShardedPool, Tcp, Timeouts};
use esker_os::executor::{Task, task};
use esker_testing::wait_for;
use esker_wire::handshake::Secret;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

static TCP: Tcp = Tcp { tls: false };

/// Connects over TCP. Counts attempts, and tasks that have not ended.
#[derive(Default)]
struct Counting {
    dialed: AtomicU64,
    tasks: Arc<()>,
}

impl Dial for Counting {
    fn dial<'a>(
        &'a self,
        node: &'a Node,
        secret: &'a Secret,
        session: u64,
    ) -> Task<'a, Result<Connection>> {
        self.dialed.fetch_add(1, Ordering::Relaxed);
        TCP.dial(node, secret, session)
    }

    fn pause(&self, duration: Duration) -> Task<'_, Result<()>> {
        TCP.pause(duration)
    }

    fn spawn(&self, work: Task<'static, ()>) {
        let counted = Arc::clone(&self.tasks);
        TCP.spawn(task(async move {
            work.await;
            drop(counted);
        }));
    }
}

/// A pool over nodes whose first engine can be stopped, and a client.
struct Site {
    engine: Option<Stoppable>,
    map: Map,
    dial: Arc<Counting>,
    backend: Arc<ShardedPool>,
    container: Container,
    /// An object on the first node.
    oid: ObjectId,
    _folder: Folder,
}

impl Site {
    fn new() -> Self {
        let folder = Folder::new();
        let mut map = map(&folder.0);
        let (engine, address) = Stoppable::start("127.0.0.1:0", &map.nodes[0]);
        map.nodes[0].address = address;
        let (dial, path) = (Arc::new(Counting::default()), Path::new("none.map"));
        let opening = ShardedPool::open_by(
            &map,
            path,
            Vec::new(),
            Timeouts::default(),
            Arc::clone(&dial) as _,
        );
        let backend = Arc::new(RUNTIME.block_on(opening).expect("the pool"));
        let pool = esker::Pool::from_backend(Arc::clone(&backend) as _, OpenMode::ReadWrite);
        pool.create_container(&NewContainer::named("c")).wait().expect("a container");
        let container = pool.open_container("c", OpenMode::ReadWrite).wait().expect("a container");
        let oid = one_on_each(&container)[0].oid();
        Self { engine: Some(engine), map, dial, backend, container, oid, _folder: folder }
    }

    /// The container, by its UUID.
    fn name(&self) -> ContainerRef<'static> {
        ContainerRef::Uuid(self.container.info().uuid)
    }

    /// The container, opened once more by the client.
    fn opened(&self) -> Box<dyn OpenContainer> {
        self.backend.open_container(self.name(), OpenMode::ReadWrite).wait().expect("open")
    }

    /// The container, as a process on the first node has it.
    fn own(&self) -> Box<dyn OpenContainer> {
        let directory = &self.map.nodes[0].directory;
        let part = Native::open(directory, OpenMode::ReadWrite).expect("the part");
        part.open_container(self.name(), OpenMode::ReadWrite).wait().expect("open")
    }

    /// Stops the engine. It is in this process: its leases on the object are ended in its place.
    fn stop(&mut self, own: &dyn OpenContainer) {
        self.engine.take().expect("an engine").stop();
        while is_leased(own, self.oid) {
            own.release(self.oid).wait().expect("released");
        }
    }

    /// Starts the engine again, at the same address.
    fn start(&mut self) {
        let node = &self.map.nodes[0];
        self.engine = Some(Stoppable::start(&node.address, node).0);
    }

    /// Number of attempts to connect so far.
    fn dialed(&self) -> u64 {
        self.dial.dialed.load(Ordering::Relaxed)
    }

    /// Reads something of the first node.
    fn read(&self) {
        let kv = self.container.kv(self.oid).expect("a Key-Value");
        kv.get(b"key", Access::Latest).wait().expect("a get");
    }
}

/// True if the object has a lease. Asking also leaves its removal to the last one.
fn is_leased(own: &dyn OpenContainer, oid: ObjectId) -> bool {
    own.unlink_on_last_close(oid).wait().expect("an answer")
}

/// Polls a reply once. True if it is there.
fn poll<T>(reply: &mut Reply<'_, T>) -> bool {
    Pin::new(reply).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn lease_that_ends_during_a_restart_leaves_the_others_on_its_object() {
    let mut site = Site::new();
    let own = site.own();
    let object = site.container.object(site.oid);
    let [kept, ended] = [(); 2].map(|()| object.lease().wait().expect("a lease"));
    site.stop(&*own);
    std::thread::scope(|scope| {
        // The lease ends without an engine, and the next engine does not know it.
        let end = scope.spawn(|| ended.release().wait());
        site.start();
        assert!(!end.join().expect("no panic").expect("released"), "the object is in use");
    });
    site.read();
    assert!(is_leased(&*own, site.oid));
    assert!(kept.release().wait().expect("released"), "it is to be removed");
}

/// A node that fails to end the first lease.
#[derive(Default)]
struct FailsOnce(AtomicBool);

impl Interceptor for FailsOnce {
    fn release<'a>(&'a self, from: &'a dyn OpenContainer, oid: ObjectId) -> Reply<'a, bool> {
        match self.0.swap(true, Ordering::Relaxed) {
            false => Reply::Ready(Err(ErrorKind::Io.into())),
            true => from.release(oid),
        }
    }
}

/// The client does not know which leases the engine still has.
#[test]
fn lease_that_a_node_fails_to_end_ends_with_the_connection() {
    let folder = Folder::new();
    let mut map = map(&folder.0);
    let (directory, uuid) = (map.nodes[0].directory.clone(), map.nodes[0].uuid);
    let part = Native::open(&directory, OpenMode::ReadWrite).expect("the part");
    let pool =
        PoolBetween::before(Arc::new(part) as Arc<dyn Pool>, &Arc::new(FailsOnce::default()));
    map.nodes[0].address = serve("127.0.0.1:0", Arc::new(pool), uuid, &RUNTIME);
    let (_pool, container) = open_new(&map, NO_TIMEOUTS);
    let oid = one_on_each(&container)[0].oid();
    let part = Native::open(&directory, OpenMode::ReadWrite).expect("the part");
    let name = ContainerRef::Uuid(container.info().uuid);
    let own = part.open_container(name, OpenMode::ReadWrite).wait().expect("open");
    let object = container.object(oid);
    let [kept, ended] = [(); 2].map(|()| object.lease().wait().expect("a lease"));
    assert!(ended.release().wait().is_err());
    kept.release().wait().expect("released");
    wait_for("no lease is left", || !is_leased(&*own, oid));
}

/// The reply was sent, but its caller has not seen it yet when the engine is restarted and another operation connects again.
#[test]
fn lease_that_is_taken_during_a_restart_is_kept() {
    let mut site = Site::new();
    let (own, opened) = (site.own(), site.opened());
    let mut lease = opened.lease(site.oid);
    assert!(!poll(&mut lease));
    wait_for("the engine has taken the lease", || is_leased(&*own, site.oid));
    site.stop(&*own);
    site.start();
    opened.last_epoch(site.oid, None, ReadAt::LATEST).wait().expect("connected again");
    lease.wait().expect("a lease");
    assert!(is_leased(&*own, site.oid));
    assert!(opened.release(site.oid).wait().expect("released"), "it is to be removed");
}

#[test]
fn leases_end_if_those_on_another_node_cannot_be_taken() {
    let folder = Folder::new();
    let mut map = map(&folder.0);
    let (engine, address) = Stoppable::start("127.0.0.1:0", &map.nodes[2]);
    map.nodes[2].address = address;
    let (_pool, container) = open_new(&map, NO_TIMEOUTS);
    let oids: Vec<ObjectId> = one_on_each(&container).iter().map(|kv| kv.oid()).collect();
    let part = Native::open(&map.nodes[0].directory, OpenMode::ReadWrite).expect("the part");
    let name = ContainerRef::Uuid(container.info().uuid);
    let own = part.open_container(name, OpenMode::ReadWrite).wait().expect("open");
    engine.stop();
    assert!(container.lease_each(&oids).wait().is_err(), "a node is lost");
    assert!(!is_leased(&*own, oids[0]));
    let leases = container.lease_each(&oids[..2]).wait().expect("leases");
    assert!(is_leased(&*own, oids[0]));
    drop(leases);
}

#[test]
fn containers_with_leases_leave_no_tasks() {
    let site = Site::new();
    for _ in 0..5 {
        let opened = site.opened();
        opened.lease(site.oid).wait().expect("a lease");
        opened.release(site.oid).wait().expect("released");
        opened.close().wait().expect("closed");
    }
    wait_for("all tasks end", || Arc::strong_count(&site.dial.tasks) == 1);
}

/// The engine is away. The first operation is dropped while it connects.
#[test]
fn operation_waits_for_a_restart_although_another_gave_up() {
    let mut site = Site::new();
    let (own, opened) = (site.own(), site.opened());
    site.stop(&*own);
    let oid = site.oid;
    let begin_and_connect = || {
        let (before, mut reply) = (site.dialed(), opened.last_epoch(oid, None, ReadAt::LATEST));
        wait_for("it tries to connect twice", || {
            assert!(!poll(&mut reply), "it did not wait");
            site.dialed() > before + 1
        });
        reply
    };
    drop(begin_and_connect());
    let second = begin_and_connect();
    site.start();
    second.wait().expect("connected");
}
