//! TLS between clients and engines: an attacker in between can neither read nor change messages, and no client or
//! engine works without TLS if the map of the pool requires it.
use esker::backend::memory::Memory;
use esker_backend::{NewContainer, Pool};
use esker_engine::Engine;
use esker_nodes::{Connection, Endpoint, Map, Node, RemotePool, ShardedPool};
use esker_testing::wait_for;
use esker_types::info::{ContainerRef, OpenMode};
use esker_types::ops::{
    Change, Cond, DkeyFetch, Fetch, ReadAt, Sink, Source, Update, Value, Write, WriteOp,
};
use esker_types::{ErrorKind, ObjectClass, ObjectId, ObjectType, Result, Uuid};
use esker_wire::handshake::Secret;
use esker_wire::tls::{self, Acceptor};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional, duplex, split,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

const POOL: Uuid = Uuid([9; 16]);

/// Stored data: easily found among other bytes, and longer than a record of TLS.
const TEXT: &[u8] = b"a forecast that is nobody's business ";
const TEXTS: usize = 40_000;

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime")
}

fn secret() -> Secret {
    Secret::new([1; 32])
}

/// An engine on loopback, and its address.
async fn serve(with_tls: bool) -> (Engine, String) {
    let engine = Engine::new(Arc::new(Memory::new(4)), POOL, secret());
    if with_tls {
        engine.require_tls().expect("TLS");
    }
    let (listener, address) = listen().await;
    let serving = engine.clone();
    tokio::spawn(async move { serving.listen(listener).await });
    (engine, address)
}

/// A listener on a free port, and its address.
async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    (listener, address)
}

/// Connects to an engine, with TLS or without.
async fn connect(address: &str, with_tls: bool) -> Result<Connection> {
    let secret = secret();
    let to = Endpoint { name: "n7", address, secret: &secret, pool: POOL, session: 1 };
    match with_tls {
        true => Connection::connect_tls(to).await,
        false => Connection::connect(to).await,
    }
}

/// The error of a client that is not served.
async fn refused(address: &str, with_tls: bool) -> esker_types::Error {
    connect(address, with_tls).await.map(drop).expect_err("a refusal")
}

/// The value of a metric.
fn metric(engine: &Engine, name: &str) -> u64 {
    let text = engine.metrics();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().expect("a number")
}

/// Stores a long text by a connection, and reads it again.
async fn work(link: Connection) -> Result<()> {
    let text = TEXT.repeat(TEXTS);
    let pool = RemotePool::open(link).await?;
    pool.create_container(&NewContainer::named("c")).await?;
    let container = pool.open_container(ContainerRef::Label("c"), OpenMode::ReadWrite).await?;
    let oid = ObjectId::generate(0, 5, ObjectType::MultiHashed, ObjectClass::S1);
    let value = Value::Single(Source::One(&text));
    let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
    let op = WriteOp::Update { dkey: b"d", cond: Cond::NONE, updates: &updates };
    container.write(Change::from_writes(&[Write { oid, op }])).await?;
    let mut read = vec![0; text.len()];
    let mut akeys = [Fetch::single(b"a", Sink::One(&mut read))];
    let mut dkeys = [DkeyFetch { dkey: b"d", cond: Cond::NONE, akeys: &mut akeys }];
    container.fetch(oid, &mut dkeys, ReadAt::LATEST).await?;
    assert_eq!(read, text);
    Ok(())
}

/// All bytes that an eavesdropper has seen.
type Seen = Arc<Mutex<Vec<u8>>>;

/// Passes bytes on in one direction, and records them in `seen`.
async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, seen: Seen) {
    let mut piece = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        seen.lock().expect("the bytes seen").extend_from_slice(&piece[..count]);
        if to.write_all(&piece[..count]).await.is_err() {
            return;
        }
    }
}

/// An eavesdropper between client and engine. Returns its address for clients.
async fn listen_in(engine: String) -> (String, Seen) {
    let (listener, address) = listen().await;
    let seen = Seen::default();
    let all = Arc::clone(&seen);
    tokio::spawn(async move {
        let (client, _) = listener.accept().await.expect("a client");
        let engine = TcpStream::connect(engine).await.expect("the engine");
        let ((from_client, to_client), (from_engine, to_engine)) = (split(client), split(engine));
        tokio::spawn(pass(from_client, to_engine, Arc::clone(&all)));
        pass(from_engine, to_client, all).await;
    });
    (address, seen)
}

/// A connection with TLS or without.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// An attacker in between, who talks to client and engine with TLS or without, and passes their messages on.
async fn intercept(engine: String, client_tls: bool, engine_tls: bool) -> String {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        let (client, _) = listener.accept().await.expect("a client");
        let engine = TcpStream::connect(engine).await.expect("the engine");
        let acceptor = Acceptor::new().expect("TLS");
        let mut client: Box<dyn Stream> = match client_tls {
            true => Box::new(acceptor.accept(client).await.expect("a client with TLS").0),
            false => Box::new(client),
        };
        let mut engine: Box<dyn Stream> = match engine_tls {
            true => Box::new(tls::connect(engine).await.expect("an engine with TLS").0),
            false => Box::new(engine),
        };
        // Both ends see the result.
        let _ = copy_bidirectional(&mut client, &mut engine).await;
    });
    address
}

/// True if the eavesdropper has seen this text.
fn contains(seen: &Seen, text: &[u8]) -> bool {
    seen.lock().expect("the bytes seen").windows(text.len()).any(|window| window == text)
}

#[test]
fn eavesdropper_cannot_read_tls_traffic() {
    runtime().block_on(async {
        for with_tls in [false, true] {
            let (_engine, address) = serve(with_tls).await;
            let (address, seen) = listen_in(address).await;
            work(connect(&address, with_tls).await.expect("a connection")).await.expect("working");
            assert!(seen.lock().expect("the bytes seen").len() > 2 * TEXT.len() * TEXTS);
            assert_eq!(contains(&seen, TEXT), !with_tls, "with TLS: {with_tls}");
        }
    });
}

/// The network accepts few bytes at a time, and the TLS layer more.
#[test]
fn buffered_ciphertext_is_sent() {
    runtime().block_on(async {
        let engine = Engine::new(Arc::new(Memory::new(4)), POOL, secret());
        engine.require_tls().expect("TLS");
        let (client, server) = duplex(200);
        tokio::spawn(async move {
            let (from, to) = split(server);
            engine.serve(from, to).await
        });
        let (stream, binding) = tls::connect(client).await.expect("TLS");
        let ((from, to), secret) = (split(stream), secret().bound_to(&binding).expect("a key"));
        let link = Connection::open(
            Endpoint { name: "n7", address: "", secret: &secret, pool: POOL, session: 1 },
            from,
            to,
        )
        .await
        .expect("a connection");
        work(link).await.expect("working");
    });
}

#[test]
fn an_engine_with_tls_refuses_plain_clients() {
    runtime().block_on(async {
        let (engine, address) = serve(true).await;
        let error = refused(&address, false).await;
        assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Io), "{error}");
        let malformed = "esker_engine_handshakes_refused_total{reason=\"malformed\"}";
        wait_for("the engine counts that", || metric(&engine, malformed) == 1);
        assert_eq!(metric(&engine, "esker_engine_connections_total"), 0);
        work(connect(&address, true).await.expect("a connection")).await.expect("working");
    });
}

#[test]
fn a_client_with_tls_refuses_plain_engines() {
    runtime().block_on(async {
        let (engine, address) = serve(false).await;
        let error = refused(&address, true).await;
        assert_eq!(error.kind(), ErrorKind::Io, "an engine that ends closes the connection, too");
        assert!(error.message().contains("n7") && error.message().contains("TLS"), "{error}");
        assert_eq!(metric(&engine, "esker_engine_connections_total"), 0);
    });
}

#[test]
fn both_sides_detect_a_tls_man_in_the_middle() {
    runtime().block_on(async {
        let (engine, address) = serve(true).await;
        let attacker = intercept(address, true, true).await;
        let error = refused(&attacker, true).await;
        assert_eq!(error.kind(), ErrorKind::NoPermission, "{error}");
        assert_eq!(metric(&engine, "esker_engine_connections_total"), 0);
    });
}

#[test]
fn tls_downgrade_of_one_side_is_detected() {
    runtime().block_on(async {
        for (client_tls, engine_tls) in [(true, false), (false, true)] {
            let (engine, address) = serve(engine_tls).await;
            let attacker = intercept(address, client_tls, engine_tls).await;
            let error = refused(&attacker, client_tls).await;
            assert_eq!(error.kind(), ErrorKind::NoPermission, "{error}");
            assert_eq!(metric(&engine, "esker_engine_connections_total"), 0);
        }
    });
}

#[test]
fn a_map_with_tls_opens_no_pool_without() {
    let runtime = runtime();
    for (with_tls, opens) in [(true, true), (false, false)] {
        let (_engine, address) = runtime.block_on(serve(with_tls));
        let directory = PathBuf::from("/none");
        let nodes = vec![Node { name: "n7".to_owned(), address, uuid: POOL, directory }];
        let map = Map { tls: true, ..Map::new("tank", POOL, secret(), 4, nodes) };
        let asked = runtime.block_on(map.query());
        assert_eq!(asked[0].is_ok(), opens, "{asked:?}");
        let opened = ShardedPool::open(&map, Path::new("/none/tank.map"), Vec::new());
        assert_eq!(opened.is_ok(), opens, "{:?}", opened.err());
    }
}
