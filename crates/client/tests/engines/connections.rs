//! Guarantees of a connection to an engine, apart from the operations: leases end with it, failures name the node,
//! unauthenticated clients get no service, and oversized requests are refused.

use bytes::Bytes;
use esker::backend::memory::Memory;
use esker_backend::{NewContainer, OpenContainer, Pool, Reply};
use esker_conformance::between::{Interceptor, PoolBetween};
use esker_conformance::faulty::{Fault, Faulty};
use esker_engine::Engine;
use esker_nodes::{Connection, Endpoint, RemotePool};
use esker_os::executor::{block_on, must_not_wait, side_by_side, task};
use esker_testing::wait_for;
use esker_types::info::{ContainerRef, OpenMode};
use esker_types::ops::{
    Change, Cond, DkeyFetch, Fetch, ReadAt, Sink, Source, Update, Value, View, Write, WriteOp,
};
use esker_types::{Error, ErrorKind, ObjectClass, ObjectId, ObjectType, Result, Uuid};
use esker_wire::frame::{BULK_MAX, Frame, Kind, Limits, Receiver, Sender};
use esker_wire::handshake::{self, Secret};
use esker_wire::message::{
    AkeyRequest, At, ContainerRequest, DkeyRequest, PoolRequest, Reply as Answer, Request,
    Response, decode, encode,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::Runtime;

const POOL: Uuid = Uuid([9; 16]);

/// An engine on loopback, and the parameters of its clients. It stops when it is dropped.
struct Node {
    runtime: Runtime,
    engine: Engine,
    address: String,
    pool: Arc<dyn Pool>,
}

fn secret(byte: u8) -> Secret {
    Secret::new([byte; 32])
}

impl Node {
    fn start() -> Self {
        Self::serving(Arc::new(Memory::new(4)))
    }

    /// An engine that serves `pool`.
    fn serving(pool: Arc<dyn Pool>) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build().expect("a runtime");
        let engine = Engine::new(Arc::clone(&pool), POOL, secret(1));
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let serving = engine.clone();
        runtime.spawn(async move { serving.listen(listener).await });
        Self { runtime, engine, address, pool }
    }
}

fn run<T>(runtime: &Runtime, work: impl Future<Output = T>) -> T {
    runtime.block_on(work)
}

/// The runtime of a client.
fn client() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().expect("a runtime")
}

/// Connects to the engine with this secret.
async fn connect(node: &Node, secret: &Secret) -> Result<RemotePool> {
    let address = &node.address;
    RemotePool::open(
        Connection::connect(Endpoint { name: "n7", address, secret, pool: POOL, session: 1 })
            .await?,
    )
    .await
}

/// The container `c`, which is created if it is missing.
async fn opened(pool: &dyn Pool) -> Result<Box<dyn OpenContainer>> {
    match pool.create_container(&NewContainer::named("c")).await {
        Err(error) if error.kind() != ErrorKind::Exists => return Err(error),
        _ => {}
    }
    pool.open_container(ContainerRef::Label("c"), OpenMode::ReadWrite).await
}

fn oid() -> ObjectId {
    ObjectId::generate(0, 5, ObjectType::MultiHashed, ObjectClass::S1)
}

/// Sets the value of the only akey that these tests use.
async fn put(container: &dyn OpenContainer, value: &[u8]) -> Result<()> {
    let value = Value::Single(Source::One(value));
    let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
    let op = WriteOp::Update { dkey: b"d", cond: Cond::NONE, updates: &updates };
    container.write(Change::from_writes(&[Write { oid: oid(), op }])).await.map(drop)
}

/// Fetches that value into a buffer of `room` bytes. Returns its length.
async fn get(container: &dyn OpenContainer, room: usize) -> Result<u64> {
    let mut buffer = vec![0; room];
    let mut akeys = [Fetch::single(b"a", Sink::One(&mut buffer))];
    let mut dkeys = [DkeyFetch { dkey: b"d", cond: Cond::NONE, akeys: &mut akeys }];
    container.fetch(oid(), &mut dkeys, ReadAt::LATEST).await?;
    Ok(akeys[0].reply.size)
}

/// Asks for the length of that value only.
async fn size(container: &dyn OpenContainer) -> Result<u64> {
    let mut akeys = [Fetch::single(b"a", Sink::None)];
    let mut dkeys = [DkeyFetch { dkey: b"d", cond: Cond::NONE, akeys: &mut akeys }];
    container.fetch(oid(), &mut dkeys, ReadAt::LATEST).await?;
    Ok(akeys[0].reply.size)
}

/// Threads that wait for replies receive them themselves; tasks rely on the connection's.
#[test]
fn threads_and_tasks_that_share_a_connection_all_get_their_replies() {
    const LONG: usize = 1 << 20;
    let (node, client) = (Node::start(), client());
    let remote = run(&client, connect(&node, &secret(1))).expect("connecting");
    let container: Arc<dyn OpenContainer> =
        run(&client, opened(&remote)).expect("a container").into();
    block_on(put(&*container, &[7; LONG])).expect("writing");
    let alone = |round: usize| {
        block_on(async {
            match round % 16 {
                0 => get(&*container, LONG).await,
                _ => size(&*container).await,
            }
        })
    };
    let several = |round: usize| {
        let calls = (0..8).map(|at| {
            let container = &container;
            task(async move {
                match (at + round).is_multiple_of(5) {
                    true => get(&**container, LONG).await,
                    false => size(&**container).await,
                }
            })
        });
        block_on(side_by_side(calls.collect(), 8)).into_iter().all(|found| found == Ok(LONG as u64))
    };
    let tasks = (0..3).map(|_| {
        let container = Arc::clone(&container);
        client.spawn(async move {
            for round in 0..400 {
                assert_eq!(size(&*container).await, Ok(LONG as u64));
                if round % 50 == 0 {
                    assert_eq!(get(&*container, LONG).await, Ok(LONG as u64));
                }
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..300).for_each(|round| assert_eq!(alone(round), Ok(LONG as u64))));
        }
        scope.spawn(|| (0..60).for_each(|round| assert!(several(round))));
    });
    for task in tasks {
        run(&client, task).expect("a task");
    }
}

#[test]
fn leases_end_with_the_connection_of_their_client() {
    let (node, client) = (Node::start(), client());
    let here = run(&node.runtime, opened(&*node.pool)).expect("a container");
    run(&client, async {
        let remote = connect(&node, &secret(1)).await.expect("connecting");
        let container = opened(&remote).await.expect("a container");
        put(&*container, b"value").await.expect("writing");
        container.lease(oid()).await.expect("a lease");
        assert!(here.unlink_on_last_close(oid()).await.expect("asking"), "the client has a lease");
        assert_eq!(get(&*here, 10).await.expect("reading"), 5, "it is in use");
    });
    // The client dies: its runtime ends, and with it its connection.
    drop(client);
    wait_for("all leases have ended", || {
        !run(&node.runtime, here.unlink_on_last_close(oid())).expect("asking")
    });
    assert_eq!(run(&node.runtime, get(&*here, 10)).expect("reading"), 5, "it may still be in use");
    wait_for("the container of the client is closed", || {
        let all = run(&node.runtime, node.pool.list_containers()).expect("listing");
        all[0].handles == 1
    });
}

#[test]
fn error_names_the_engine_that_is_gone() {
    let (node, client) = (Node::start(), client());
    let error = run(&client, async {
        let remote = connect(&node, &secret(1)).await.expect("connecting");
        let container = opened(&remote).await.expect("a container");
        put(&*container, b"value").await.expect("writing");
        tokio::task::block_in_place(|| drop(node));
        let error = put(&*container, b"value").await.expect_err("a dead engine");
        let again = get(&*container, 10).await.expect_err("a dead engine");
        assert_eq!(again.kind(), ErrorKind::Io);
        error
    });
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.message().contains("n7"), "{error}");
}

#[test]
fn error_names_the_unreachable_node() {
    let node = Node::start();
    let address = node.address.clone();
    drop(node);
    let secret = secret(1);
    let link = Connection::connect(Endpoint {
        name: "n7",
        address: &address,
        secret: &secret,
        pool: POOL,
        session: 1,
    });
    let error = run(&client(), link).map(drop).expect_err("no engine");
    assert!(error.message().contains("n7") && error.message().contains(&address), "{error}");
}

#[test]
fn client_without_the_secret_gets_no_service() {
    let node = Node::start();
    let refused = run(&client(), connect(&node, &secret(2)))
        .map(drop)
        .expect_err("an unauthenticated client");
    assert_eq!(refused.kind(), ErrorKind::NoPermission);
    assert!(refused.message().contains("secret"), "{refused}");
}

#[test]
fn request_longer_than_a_frame_is_refused_and_the_connection_continues() {
    let (node, client) = (Node::start(), client());
    run(&client, async {
        let remote = connect(&node, &secret(1)).await.expect("connecting");
        let container = opened(&remote).await.expect("a container");
        let refused = get(&*container, BULK_MAX + 1).await.expect_err("too long");
        assert_eq!(refused.kind(), ErrorKind::Overflow);
        put(&*container, b"value").await.expect("writing");
        assert_eq!(get(&*container, 10).await.expect("reading"), 5);
    });
}

/// More requests than are served at a time, and more data than the engine has memory for.
#[test]
fn requests_beyond_the_limits_wait_their_turn() {
    let (node, client) = (Node::start(), client());
    run(&client, async {
        let remote = Arc::new(connect(&node, &secret(1)).await.expect("connecting"));
        let container: Arc<dyn OpenContainer> = opened(&*remote).await.expect("a container").into();
        put(&*container, b"value").await.expect("writing");
        let reads = (0..2000).map(|number| {
            let container = Arc::clone(&container);
            // Every tenth announces 16 MiB: 3.2 GB together.
            let room = if number % 10 == 0 { 16 << 20 } else { 10 };
            tokio::spawn(async move { get(&*container, room).await })
        });
        for read in reads.collect::<Vec<_>>() {
            assert_eq!(read.await.expect("a task").expect("reading"), 5);
        }
    });
}

/// More writes wait than the engine has threads, all of one client.
#[test]
fn waiting_requests_do_not_block_others() {
    let pool = Faulty::new(Fault::Waits);
    let (node, client) = (Node::serving(Arc::new(pool.clone())), client());
    run(&client, async {
        let remote = connect(&node, &secret(1)).await.expect("connecting");
        let container: Arc<dyn OpenContainer> = opened(&remote).await.expect("a container").into();
        let write = |_| {
            let container = Arc::clone(&container);
            tokio::spawn(async move { put(&*container, b"value").await })
        };
        let writes: Vec<_> = (0..5).map(write).collect();
        wait_for("all writes wait", || pool.waiting() == 5);
        assert_eq!(get(&*container, 10).await.expect("reading"), 0);
        pool.let_go();
        for write in writes {
            write.await.expect("a task").expect("writing");
        }
        assert_eq!(get(&*container, 10).await.expect("reading"), 5);
    });
}

/// Counts calls on threads that must not wait.
#[derive(Default)]
struct Urgent(AtomicU64);

impl Interceptor for Urgent {
    fn pass<'a, T: Send + Unpin + 'a>(
        &'a self,
        call: impl FnOnce() -> Reply<'a, T> + Send + 'a,
    ) -> Reply<'a, T> {
        self.0.fetch_add(u64::from(must_not_wait()), Ordering::Relaxed);
        call()
    }
}

/// It purges the history of the snapshot, which may take long.
#[test]
fn snapshot_is_destroyed_on_a_thread_that_may_wait() {
    let urgent = Arc::new(Urgent::default());
    let pool = PoolBetween::before(Arc::new(Memory::new(4)) as Arc<dyn Pool>, &urgent);
    let (node, client) = (Node::serving(Arc::new(pool)), client());
    run(&client, async {
        let remote = connect(&node, &secret(1)).await.expect("connecting");
        let container = opened(&remote).await.expect("a container");
        let epoch = container.create_snapshot("s").await.expect("a snapshot");
        let before = urgent.0.load(Ordering::Relaxed);
        container.destroy_snapshot(epoch).await.expect("destroyed");
        assert_eq!(urgent.0.load(Ordering::Relaxed), before);
    });
}

/// A pool whose data cannot be read.
struct Unreadable;

impl Interceptor for Unreadable {
    fn fetch<'a, 'f, 'b>(
        &'a self,
        _: &'a dyn OpenContainer,
        _: ObjectId,
        _: &'a mut [DkeyFetch<'f, 'b>],
        _: ReadAt<'a>,
    ) -> Reply<'a, ()>
    where
        'b: 'f,
        'f: 'a,
    {
        Reply::Ready(Err(Error::new(ErrorKind::Io, "a block cannot be read")))
    }
}

#[test]
fn fetch_that_fails_on_a_node_names_it() {
    let pool: Arc<dyn Pool> = Arc::new(Memory::new(4));
    let pool = PoolBetween::before(pool, &Arc::new(Unreadable));
    let (node, client) = (Node::serving(Arc::new(pool)), client());
    run(&client, async {
        let remote = connect(&node, &secret(1)).await.expect("connecting");
        let container = opened(&remote).await.expect("a container");
        let error = get(&*container, 10).await.expect_err("an unreadable value");
        assert_eq!(error.kind(), ErrorKind::Io);
        for part in ["node n7", "a block cannot be read"] {
            assert!(error.message().contains(part), "no {part} in {error}");
        }
    });
}

#[test]
fn a_request_that_panics_is_answered() {
    for fault in [Fault::Panics, Fault::PanicsLater, Fault::PanicsApart] {
        let (node, client) = (Node::serving(Arc::new(Faulty::new(fault))), client());
        run(&client, async {
            let remote = connect(&node, &secret(1)).await.expect("connecting");
            let container = opened(&remote).await.expect("a container");
            for count in 1..3 {
                let error = put(&*container, b"value").await.expect_err("a defect");
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                for part in ["node n7", "write", "a planned panic"] {
                    assert!(error.message().contains(part), "no {part} in {error}");
                }
                let told = format!("esker_engine_panics_total {count}\n");
                assert!(node.engine.metrics().contains(&told), "{fault:?}");
            }
            // The connection continues.
            assert_eq!(get(&*container, 10).await.expect("reading"), 0);
        });
    }
}

/// A client over TCP that sends frames of its own.
struct RawClient {
    from: Receiver<OwnedReadHalf>,
    to: Sender<OwnedWriteHalf>,
}

impl RawClient {
    /// Connects to the engine. The kernel of the client receives few bytes that the client has not read.
    async fn connect(node: &Node) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4 << 10).expect("a small buffer");
        let address = node.address.parse().expect("an address");
        let (from, to) = socket.connect(address).await.expect("connecting").into_split();
        let (mut from, mut to) = (Receiver::new(from), Sender::new(to));
        let shaken = handshake::connect(&mut from, &mut to, &secret(1), POOL, 1, [3; 32]).await;
        shaken.expect("a handshake");
        Self { from, to }
    }

    /// Sends a request with this number, whose reply may have `room` bytes of data.
    async fn send(&mut self, call: u64, request: &Request<'_>, room: usize) {
        let message = encode(request).expect("a request").into();
        let (room, bulk) = (room as u32, Bytes::new());
        let frame = Frame { kind: Kind::Request, call, room, message, bulk };
        self.to.send(&frame).await.expect("sending");
        self.to.flush().await.expect("sending");
    }

    /// The next frame; `None` if the engine has closed the connection.
    async fn receive(&mut self) -> Option<Frame> {
        self.from.receive(Limits::AUTHENTICATED).await.expect("receiving")
    }
}

/// Number of requests about the pool that the engine has served.
fn served(node: &Node) -> u64 {
    let (text, name) =
        (node.engine.metrics(), "esker_engine_request_seconds_count{request=\"pool\"} ");
    let count = text.lines().find_map(|line| line.strip_prefix(name));
    count.and_then(|count| count.parse().ok()).expect("a metric")
}

/// A client has sent more requests than the engine receives at a time, and receives slowly. The kernel of the engine
/// must not discard replies because requests are unread.
#[test]
fn client_of_a_stopped_engine_gets_all_replies_and_a_goodbye() {
    const LONG: usize = 1 << 20;
    const FETCHES: u64 = 8;
    const REQUESTS: u64 = 20_000;
    let node = Node::start();
    let container = block_on(opened(&*node.pool)).expect("a container");
    block_on(put(&*container, &[7; LONG])).expect("writing");
    run(&client(), async {
        let mut client = RawClient::connect(&node).await;
        let open = PoolRequest::Open(ContainerRef::Label("c"), OpenMode::ReadOnly);
        client.send(0, &Request::Pool(open), 0).await;
        let reply = client.receive().await.expect("a reply");
        let response: Response = decode(&reply.message).expect("a response");
        let Answer::Opened(handle, _) = response.reply else { panic!("{:?}", response.reply) };
        let room = Some(LONG as u64);
        let akey =
            AkeyRequest { akey: b"a", extents: None, record_size: 0, cond: Cond::NONE, room };
        let dkey = DkeyRequest { dkey: b"d", cond: Cond::NONE, akeys: vec![akey] };
        let fetch =
            ContainerRequest::Fetch(oid(), vec![dkey], At { view: View::Latest, tokens: false });
        let fetch = Request::Container(handle, fetch);
        for call in 1..=FETCHES {
            client.send(call, &fetch, LONG).await;
        }
        let RawClient { mut from, mut to } = client;
        let sending = tokio::spawn(async move {
            let info = encode(&Request::Pool(PoolRequest::Info)).expect("a request");
            for call in FETCHES + 1..REQUESTS {
                let (message, bulk) = (info.clone().into(), Bytes::new());
                let frame = Frame { kind: Kind::Request, call, room: 0, message, bulk };
                if to.send(&frame).await.is_err() {
                    break;
                }
            }
            let _ = to.flush().await;
        });
        wait_for("requests", || served(&node) >= 200);
        let drain = node.runtime.spawn({
            let engine = node.engine.clone();
            async move { engine.drain().await }
        });
        wait_for("draining", || !node.engine.health().is_ready());
        let mut calls = Vec::new();
        loop {
            let frame = from.receive(Limits::AUTHENTICATED).await.expect("receiving");
            let frame = frame.expect("a goodbye before the end");
            if frame.kind == Kind::Goodbye {
                break;
            }
            assert_eq!(frame.bulk.len(), if frame.call <= FETCHES { LONG } else { 0 });
            calls.push(frame.call);
        }
        calls.sort_unstable();
        assert!(calls.len() > 200);
        assert_eq!(calls, (1..=calls.len() as u64).collect::<Vec<_>>());
        let end = from.receive(Limits::AUTHENTICATED).await.expect("the end in good order");
        assert!(end.is_none());
        sending.await.expect("a task");
        drop(from);
        drain.await.expect("a task").expect("draining");
    });
}
