//! The life of an engine: clients that connect without a handshake, or begin requests without an end, do not exhaust
//! it. It counts its work and drains in good order. Time is simulated.
use bytes::Bytes;
use esker::backend::memory::Memory;
use esker_backend::{Metadata, NewContainer, Pool};
use esker_engine::{CLIENTS_MAX, Engine, HANDSHAKES_MAX, Phase, SEND_TIMEOUT, UNSENT_MAX};
use esker_nodes::{Connection, Endpoint};
use esker_types::info::{ContainerRef, OpenMode};
use esker_types::ops::Cond;
use esker_types::{ErrorKind, ObjectClass, ObjectId, ObjectType, Result, Uuid};
use esker_wire::frame::{Frame, Kind, Limits, PREFIX_LEN, Receiver, Sender};
use esker_wire::handshake::{self, Secret};
use esker_wire::message::{
    ChangeRequest, ContainerRequest, MetadataRequest, PoolRequest, Reply, Request, Response,
    ValueRequest, WriteRequest, decode, encode,
};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::task::{JoinHandle, yield_now};

const POOL: Uuid = Uuid([6; 16]);

/// Bytes that a stream holds before its writer waits.
const STREAM: usize = 200;

/// Bytes that the stream of a client with long replies holds.
const LONG_STREAM: usize = 4 << 20;

/// Scheduler steps for other tasks. Each needs a few.
const STEPS: usize = 100;

fn secret(byte: u8) -> Secret {
    Secret::new([byte; 32])
}

fn engine() -> Engine {
    Engine::new(Arc::new(Memory::new(4)), POOL, secret(1))
}

/// Runs on one thread, with a clock that advances only when all tasks wait.
fn run<F: Future>(work: F) -> F::Output {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().expect("a runtime").block_on(work)
}

/// Lets all tasks that can run do so.
async fn run_other_tasks() {
    for _ in 0..STEPS {
        yield_now().await;
    }
}

/// A new stream to the engine, and how the engine ends it.
fn stream(engine: &Engine) -> (DuplexStream, JoinHandle<Result<()>>) {
    stream_of(engine, STREAM)
}

/// A stream that holds this number of bytes.
fn stream_of(engine: &Engine, bytes: usize) -> (DuplexStream, JoinHandle<Result<()>>) {
    let (client, server) = duplex(bytes);
    let engine = engine.clone();
    let served = tokio::spawn(async move {
        let (from, to) = split(server);
        engine.serve(from, to).await
    });
    (client, served)
}

/// A client that sends and receives arbitrary frames after its handshake.
struct Client {
    from: Receiver<ReadHalf<DuplexStream>>,
    to: Sender<WriteHalf<DuplexStream>>,
    served: JoinHandle<Result<()>>,
}

impl Client {
    /// A client with a stream of its own.
    async fn connect(engine: &Engine) -> Result<Self> {
        Self::shake(stream(engine)).await
    }

    /// Performs the handshake of a client on a stream.
    async fn shake((stream, served): (DuplexStream, JoinHandle<Result<()>>)) -> Result<Self> {
        let (from, to) = split(stream);
        let (mut from, mut to) = (Receiver::new(from), Sender::new(to));
        handshake::connect(&mut from, &mut to, &secret(1), POOL, 1, [3; 32]).await?;
        Ok(Self { from, to, served })
    }

    /// Sends one frame.
    async fn send(&mut self, kind: Kind, call: u64, message: &[u8]) {
        self.send_with_data(kind, call, message, b"").await;
    }

    /// Sends one frame with data.
    async fn send_with_data(&mut self, kind: Kind, call: u64, message: &[u8], data: &[u8]) {
        let (message, bulk) = (Bytes::copy_from_slice(message), Bytes::copy_from_slice(data));
        let frame = Frame { kind, call, room: 0, message, bulk };
        self.to.send(&frame).await.expect("sending");
        self.to.flush().await.expect("sending");
    }

    /// Sends a request with data, and returns the reply.
    async fn ask(&mut self, request: &Request<'_>, data: &[u8]) -> Reply {
        let message = encode(request).expect("a request");
        self.send_with_data(Kind::Request, 1, &message, data).await;
        let frame = self.receive().await.expect("a reply");
        let response: Response = decode(&frame.message).expect("a response");
        response.reply
    }

    /// The next frame; `None` if the engine has ended the connection.
    async fn receive(&mut self) -> Option<Frame> {
        self.from.receive(Limits::AUTHENTICATED).await.expect("receiving")
    }
}

/// An encoded request for the state of the pool.
fn info() -> Vec<u8> {
    encode(&Request::Pool(PoolRequest::Info)).expect("a request")
}

/// The value of a metric.
fn metric(engine: &Engine, name: &str) -> u64 {
    let text = engine.metrics();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().expect("a number")
}

/// Number of handshakes that the engine has refused for this reason.
fn refused(engine: &Engine, reason: &str) -> u64 {
    metric(engine, &format!("esker_engine_handshakes_refused_total{{reason=\"{reason}\"}}"))
}

#[test]
fn silent_connections_do_not_keep_clients_out() {
    run(async {
        let engine = engine();
        let silent: Vec<_> = (0..HANDSHAKES_MAX + 10).map(|_| stream(&engine)).collect();
        run_other_tasks().await;
        assert_eq!(engine.health().unauthenticated, HANDSHAKES_MAX as u64);
        let client = Client::connect(&engine).await.expect("a client that speaks");
        assert_eq!(engine.health().connections, 1);
        assert!(refused(&engine, "crowded") >= 1);
        // The others are disconnected in time, too.
        for (_stream, served) in silent {
            let ended = served.await.expect("a task").expect_err("a silent client");
            assert!(matches!(ended.kind(), ErrorKind::Busy | ErrorKind::TimedOut), "{ended}");
        }
        assert_eq!(engine.health().unauthenticated, 0);
        let all = refused(&engine, "crowded") + refused(&engine, "timeout");
        assert_eq!(all, HANDSHAKES_MAX as u64 + 10);
        drop(client);
    });
}

#[test]
fn refusals_are_counted_by_their_reason() {
    run(async {
        let engine = engine();
        for (key, pool, kind) in [
            (secret(2), POOL, ErrorKind::NoPermission),
            (secret(1), Uuid([5; 16]), ErrorKind::BadPath),
        ] {
            let (client, served) = stream(&engine);
            let (from, to) = split(client);
            let error = Connection::open(
                Endpoint { name: "n1", address: "", secret: &key, pool, session: 1 },
                from,
                to,
            )
            .await
            .map(drop);
            assert_eq!(error.expect_err("an unauthenticated client").kind(), kind);
            served.await.expect("a task").expect_err("an unauthenticated client");
        }
        // A client with another secret disconnects before it sends a proof.
        assert_eq!((refused(&engine, "lost"), refused(&engine, "pool")), (1, 1));
        let (mut noise, served) = stream(&engine);
        noise.write_all(&[7; PREFIX_LEN]).await.expect("sending");
        served.await.expect("a task").expect_err("noise");
        assert_eq!(refused(&engine, "malformed"), 1);
        assert_eq!(metric(&engine, "esker_engine_connections_total"), 0);
    });
}

#[test]
fn a_client_that_breaks_the_protocol_is_disconnected_and_counted() {
    run(async {
        let engine = engine();
        for kind in [Kind::Reply, Kind::Handshake] {
            let mut client = Client::connect(&engine).await.expect("a client");
            client.send(kind, 1, b"").await;
            let ended = client.served.await.expect("a task").expect_err("a reply from a client");
            assert_eq!(ended.kind(), ErrorKind::Corrupt);
        }
        assert_eq!(metric(&engine, "esker_engine_malformed_total"), 2);
        // A request that cannot be decoded is answered, and the connection continues.
        let mut client = Client::connect(&engine).await.expect("a client");
        client.send(Kind::Request, 7, &[0xff; 20]).await;
        client.send(Kind::Request, 8, &info()).await;
        for _ in 0..2 {
            let frame = client.receive().await.expect("a reply");
            let response: Response = decode(&frame.message).expect("a response");
            match frame.call {
                7 => assert_eq!(response.reply.failure(), Some(ErrorKind::Corrupt)),
                _ => assert!(matches!(response.reply, Reply::Pool(_))),
            }
        }
        let count = "esker_engine_request_seconds_count";
        assert_eq!(metric(&engine, &format!("{count}{{request=\"malformed\"}}")), 1);
        assert_eq!(metric(&engine, &format!("{count}{{request=\"pool\"}}")), 1);
        assert_eq!(metric(&engine, "esker_engine_errors_total{error=\"Corrupt\"}"), 1);
        assert_eq!(metric(&engine, "esker_engine_connections"), 1);
    });
}

#[test]
fn data_that_no_value_takes_is_refused() {
    run(async {
        let pool = Memory::new(4);
        pool.create_container(&NewContainer::named("c")).wait().expect("a container");
        let engine = Engine::new(Arc::new(pool), POOL, secret(1));
        let mut client = Client::connect(&engine).await.expect("a client");
        let refused = client.ask(&Request::Pool(PoolRequest::Info), b"x").await;
        assert_eq!(refused.failure(), Some(ErrorKind::Corrupt));
        let open = PoolRequest::Open(ContainerRef::Label("c"), OpenMode::ReadWrite);
        let reply = client.ask(&Request::Pool(open), b"").await;
        let Reply::Opened(handle, _) = reply else { panic!("{reply:?}") };
        let oid = ObjectId::generate(0, 5, ObjectType::MultiHashed, ObjectClass::S1);
        let akeys = vec![(&b"a"[..], Cond::NONE, ValueRequest::Single(3))];
        let writes = vec![(oid, WriteRequest::Update(b"d", Cond::NONE, akeys))];
        let change = ContainerRequest::Write(ChangeRequest { id: None, tokens: None, writes });
        let change = Request::Container(handle, change);
        for data in [&b"12"[..], b"1234"] {
            let refused = client.ask(&change, data).await;
            assert_eq!(refused.failure(), Some(ErrorKind::Corrupt));
        }
        assert!(matches!(client.ask(&change, b"123").await, Reply::Epoch(_)));
    });
}

/// The bytes of the third frame that a client sends: its first request.
async fn first_request(message: &'static [u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let message = Bytes::from_static(message);
    let frame = Frame { kind: Kind::Request, call: 1, room: 0, message, bulk: Bytes::new() };
    let mut sender = Sender::new(&mut bytes);
    for _ in 0..3 {
        sender.send(&frame).await.expect("encoding");
    }
    sender.flush().await.expect("encoding");
    drop(sender);
    bytes.split_off(bytes.len() / 3 * 2)
}

#[test]
fn memory_of_an_unfinished_request_is_returned() {
    run(async {
        let engine = engine();
        let (client, served) = stream(&engine);
        let (mut from, mut to) = split(client);
        let (receiver, sender) = (&mut Receiver::new(&mut from), &mut Sender::new(&mut to));
        let shaken = handshake::connect(receiver, sender, &secret(1), POOL, 1, [3; 32]).await;
        shaken.expect("a client");
        let request = first_request(&[0; 10_000]).await;
        to.write_all(&request[..PREFIX_LEN + 100]).await.expect("sending");
        run_other_tasks().await;
        assert!(metric(&engine, "esker_engine_memory_bytes") >= 10_000);
        let ended = served.await.expect("a task").expect_err("half a request");
        assert_eq!(ended.kind(), ErrorKind::TimedOut);
        assert_eq!(metric(&engine, "esker_engine_memory_bytes"), 0);
    });
}

/// The replies are names of pool attributes, for which no request reserves memory.
#[test]
fn replies_that_a_client_does_not_receive_are_limited() {
    const LONG: usize = 8 << 20;
    const COUNT: u64 = 20;
    run(async {
        let pool = Memory::new(4);
        let name = "n".repeat(LONG);
        pool.set_metadata(&[(&name, Some(b""))]).wait().expect("an attribute");
        let engine = Engine::new(Arc::new(pool), POOL, secret(1));
        let mut client = Client::shake(stream_of(&engine, LONG_STREAM)).await.expect("a client");
        let list = encode(&Request::Pool(PoolRequest::Metadata(MetadataRequest::List(""))));
        let (list, mut to) = (list.expect("a request"), client.to);
        tokio::spawn(async move {
            for call in 0..COUNT {
                let (message, bulk) = (list.clone().into(), Bytes::new());
                let frame = Frame { kind: Kind::Request, call, room: 0, message, bulk };
                to.send(&frame).await.expect("sending");
                to.flush().await.expect("sending");
            }
        });
        for _ in 0..COUNT {
            run_other_tasks().await;
        }
        let served = metric(&engine, "esker_engine_request_seconds_count{request=\"metadata\"}");
        assert!((1..=1 + (UNSENT_MAX / LONG) as u64).contains(&served), "{served} replies");
        for call in 0..COUNT {
            let frame = client.from.receive(Limits::AUTHENTICATED).await.expect("receiving");
            let frame = frame.expect("a reply");
            assert_eq!((frame.call, frame.message.len() > LONG), (call, true));
        }
    });
}

/// A byte now and then is not enough: the reply must arrive as a whole.
#[test]
fn client_that_receives_too_slowly_is_disconnected() {
    run(async {
        let pool = Memory::new(4);
        let name = "n".repeat(8 << 20);
        pool.set_metadata(&[(&name, Some(b""))]).wait().expect("an attribute");
        let engine = Engine::new(Arc::new(pool), POOL, secret(1));
        let (stream, served) = stream(&engine);
        let (mut from, mut to) = split(stream);
        let (receiver, sender) = (&mut Receiver::new(&mut from), &mut Sender::new(&mut to));
        let shaken = handshake::connect(receiver, sender, &secret(1), POOL, 1, [3; 32]).await;
        shaken.expect("a client");
        let list = encode(&Request::Pool(PoolRequest::Metadata(MetadataRequest::List(""))));
        let (message, bulk) = (list.expect("a request").into(), Bytes::new());
        let frame = Frame { kind: Kind::Request, call: 1, room: 0, message, bulk };
        sender.send(&frame).await.expect("sending");
        sender.flush().await.expect("sending");
        for _ in 0..20 {
            tokio::time::advance(SEND_TIMEOUT / 2).await;
            run_other_tasks().await;
            let _ = from.read(&mut [0; STREAM]).await.expect("receiving");
        }
        assert!(served.is_finished());
        let ended = served.await.expect("a task").expect_err("a client that is too slow");
        assert_eq!(ended.kind(), ErrorKind::TimedOut);
        assert_eq!(engine.health().connections, 0);
    });
}

/// Every line of the metrics is a comment or a name, labels and a number; every family says what it is.
#[test]
fn metrics_are_in_the_format_of_prometheus() {
    let text = engine().metrics();
    let mut family = "";
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.split(' ');
            let (word, name) = (words.next(), words.next().expect("a name"));
            assert!(word == Some("HELP") || (word == Some("TYPE") && name == family), "{line}");
            family = name;
            continue;
        }
        let (name, value) = line.rsplit_once(' ').expect("a value");
        value.parse::<f64>().expect("a number");
        assert!(name.starts_with(family), "{line} is not of {family}");
        let labels = name.split_once('{').map_or("", |(_, labels)| labels);
        assert!(labels.is_empty() || labels.ends_with("\"}"), "{line}");
    }
    assert!(text.ends_with('\n') && family == "esker_engine_draining");
}

#[test]
fn an_engine_that_drains_finishes_what_is_under_way_and_says_goodbye() {
    run(async {
        let engine = engine();
        let mut client = Client::connect(&engine).await.expect("a client");
        let (silent, unauthenticated) = stream(&engine);
        for call in 0..20 {
            client.send(Kind::Request, call, &info()).await;
        }
        // The client has not received its replies yet; they are longer than the stream's buffer.
        run_other_tasks().await;
        let drain = tokio::spawn({
            let engine = engine.clone();
            async move { engine.drain().await }
        });
        run_other_tasks().await;
        let health = engine.health();
        assert_eq!((health.phase, health.connections), (Phase::Draining, 1));
        assert!(!health.is_ready());
        // New clients are not served.
        assert!(Client::connect(&engine).await.is_err(), "a new client");
        assert_eq!(
            unauthenticated.await.expect("a task").map_err(|error| error.kind()),
            Err(ErrorKind::Canceled)
        );
        let mut calls = Vec::new();
        loop {
            let frame = client.receive().await.expect("a frame");
            if frame.kind == Kind::Goodbye {
                break;
            }
            calls.push(frame.call);
        }
        calls.sort_unstable();
        assert_eq!(calls, (0..20).collect::<Vec<_>>());
        assert!(client.receive().await.is_none(), "the connection ends");
        drain.await.expect("a task").expect("draining");
        assert_eq!(engine.health().phase, Phase::Ended);
        assert_eq!(metric(&engine, "esker_engine_draining"), 1);
        drop(silent);
    });
}

#[test]
fn clients_beyond_the_limit_are_turned_away() {
    run(async {
        let engine = engine();
        engine.limit_clients(CLIENTS_MAX + 1);
        assert_eq!(metric(&engine, "esker_engine_connections_max"), CLIENTS_MAX);
        engine.limit_clients(2);
        let clients = [Client::connect(&engine).await, Client::connect(&engine).await];
        let (stream, served) = stream(&engine);
        let (from, to) = split(stream);
        let link = Connection::open(
            Endpoint { name: "n1", address: "", secret: &secret(1), pool: POOL, session: 1 },
            from,
            to,
        )
        .await
        .expect("a handshake");
        run_other_tasks().await;
        let request = Request::Pool(PoolRequest::Info);
        let error = link.call(&request, Bytes::new(), 0).await.map(drop).expect_err("no room");
        assert!(error.message().contains("n1") && error.message().contains("2 clients"), "{error}");
        let ended = served.await.expect("a task").expect_err("a client too many");
        assert_eq!((ended.kind(), refused(&engine, "full")), (ErrorKind::Overflow, 1));
        assert_eq!((engine.health().connections, engine.health().unauthenticated), (2, 0));
        // A client that disconnects makes room for another.
        drop(clients);
        run_other_tasks().await;
        let mut client = Client::connect(&engine).await.expect("a client");
        client.send(Kind::Request, 7, &info()).await;
        assert_eq!(client.receive().await.expect("a reply").call, 7);
    });
}

#[test]
fn an_engine_that_drains_does_not_wait_for_ever() {
    run(async {
        let engine = engine();
        let mut client = Client::connect(&engine).await.expect("a client");
        for call in 0..20 {
            client.send(Kind::Request, call, &info()).await;
        }
        run_other_tasks().await;
        // The client never receives its replies.
        let refused = engine.drain().await.expect_err("a client that hangs");
        assert_eq!(refused.kind(), ErrorKind::TimedOut);
        assert_eq!(engine.health().connections, 0);
        assert_eq!(metric(&engine, "esker_engine_memory_bytes"), 0);
        client.served.await.expect("a task").expect_err("it was cut");
    });
}

#[test]
fn client_is_told_that_its_engine_is_being_stopped() {
    run(async {
        let engine = engine();
        let (client, served) = stream(&engine);
        let (from, to) = split(client);
        let link = Connection::open(
            Endpoint { name: "n1", address: "", secret: &secret(1), pool: POOL, session: 1 },
            from,
            to,
        )
        .await
        .expect("a connection");
        let request = Request::Pool(PoolRequest::Info);
        link.call(&request, Bytes::new(), 0).await.expect("a reply");
        engine.drain().await.expect("draining");
        served.await.expect("a task").expect("a connection that ended in good order");
        run_other_tasks().await;
        let error = link.call(&request, Bytes::new(), 0).await.map(drop).expect_err("no engine");
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.message().contains("n1") && error.message().contains("stopped"), "{error}");
    });
}

/// Name and type of each metric of an engine.
fn families(engine: &Engine) -> Vec<(String, String)> {
    let text = engine.metrics();
    let lines = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    lines.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect()
}

#[test]
fn the_page_on_metrics_names_all_of_them_and_no_others() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let engine = engine();
    let rows = |prefix: &str| page.lines().filter(|line| line.starts_with(prefix)).count();
    for (name, kind) in families(&engine) {
        assert_eq!(rows(&format!("| `{name}` | {kind} |")), 1, "{name}");
    }
    assert_eq!(rows("| `esker_engine_"), families(&engine).len());
    let text = engine.metrics();
    let labels = |label: &str| -> Vec<String> {
        let mark = format!("{label}=\"");
        let marks = text.split(&mark).skip(1);
        marks.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
    };
    for reason in labels("reason") {
        assert_eq!(rows(&format!("| `{reason}` |")), 1, "{reason}");
    }
    for request in labels("request") {
        assert!(page.contains(&format!("`{request}`")), "{request}");
    }
}
