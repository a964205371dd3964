//! Fuzz test of an engine: an authenticated client sends it arbitrary requests.
use super::draw::Draw;
use bytes::Bytes;
use esker::Native;
use esker::backend::memory::Memory;
use esker_backend::Pool;
use esker_engine::Engine;
use esker_testing::{Random, fuzz, seed};
use esker_types::info::{ContainerRef, OpenMode, Part};
use esker_types::{Checksum, Uuid};
use esker_wire::frame::{Frame, Kind, Limits, Receiver, Sender};
use esker_wire::handshake::{self, Secret};
use esker_wire::message::{
    ContainerRequest, PoolRequest, Reply, Request, Response, ValueRequest, WriteRequest, decode,
    encode,
};
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::runtime::Runtime;

const POOL: Uuid = Uuid([6; 16]);

/// Well-formed requests that are fed as they are, and then changed.
const REQUESTS: u64 = 20_000;

/// Requests to one pool in memory; the next ones go to a new one, so that listings stay short.
const REQUESTS_PER_POOL: u64 = 500;

/// Requests to one native pool; creating a new one takes longer.
const REQUESTS_PER_PART: u64 = 5000;

/// Bytes that a reply may have.
const ROOM: u32 = 10_000;

/// The data of changes, of which each gets as much as its values take.
const BULK: &[u8] = &[5; 30];

/// The data of a request, which may be malformed.
fn data_of(message: &[u8]) -> &'static [u8] {
    let change = match decode(message) {
        Ok(Request::Container(_, ContainerRequest::Write(change))) => change,
        Ok(Request::Container(_, ContainerRequest::WriteProved(change))) => change,
        Ok(Request::Container(_, ContainerRequest::PrepareChange(_, change))) => change,
        _ => return &[],
    };
    let len_of = |value: &ValueRequest| match value {
        ValueRequest::Single(len) | ValueRequest::Array(_, _, len) => *len,
        ValueRequest::PunchExtents(_) => 0,
    };
    let lens = change.writes.iter().flat_map(|(_, write)| match write {
        WriteRequest::Update(_, _, akeys) => {
            akeys.iter().map(|(_, _, value)| len_of(value)).collect()
        }
        _ => Vec::new(),
    });
    let len = lens.fold(0, u64::saturating_add).min(BULK.len() as u64);
    &BULK[..len as usize]
}

/// A client that knows the secret.
pub(crate) struct Client {
    from: Receiver<ReadHalf<DuplexStream>>,
    to: Sender<WriteHalf<DuplexStream>>,
}

impl Client {
    /// Connects to an engine in this process.
    async fn connect(engine: &Engine) -> Self {
        let (client, server) = duplex(1 << 16);
        let engine = engine.clone();
        tokio::spawn(async move {
            let (from, to) = split(server);
            engine.serve(from, to).await
        });
        let (from, to) = split(client);
        let (mut from, mut to) = (Receiver::new(from), Sender::new(to));
        let secret = Secret::new([1; 32]);
        let shaken = handshake::connect(&mut from, &mut to, &secret, POOL, 1, [3; 32]).await;
        shaken.expect("the handshake");
        Self { from, to }
    }

    /// Sends a request, which may be malformed, and returns the response.
    async fn ask(&mut self, message: &[u8]) -> Response {
        let (message, bulk) =
            (Bytes::copy_from_slice(message), Bytes::from_static(data_of(message)));
        let frame = Frame { kind: Kind::Request, call: 1, room: ROOM, message, bulk };
        self.to.send(&frame).await.expect("sending");
        self.to.flush().await.expect("sending");
        // The simulated clock advances only if no task can run.
        let reply =
            tokio::time::timeout(Duration::from_secs(1), self.from.receive(Limits::AUTHENTICATED));
        let frame = reply.await.expect("a reply in time").expect("receiving").expect("a reply");
        assert!(frame.bulk.len() <= ROOM as usize, "{} bytes of data", frame.bulk.len());
        decode(&frame.message).expect("a response")
    }
}

/// An engine on a pool, and a client that has a container open.
pub(crate) struct Served {
    runtime: Runtime,
    engine: Engine,
    client: Client,
    left: u64,
}

impl Served {
    /// Serves a pool for a number of requests. Creates the container with this UUID, and opens it.
    pub(crate) fn new(pool: Arc<dyn Pool>, uuid: Uuid, requests: u64) -> Self {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().expect("a runtime");
        let engine = Engine::new(pool, POOL, Secret::new([1; 32]));
        let mut client = runtime.block_on(Client::connect(&engine));
        let create = PoolRequest::Create {
            label: None,
            uuid,
            checksum: Checksum::Crc32c,
            metadata: Vec::new(),
            first_oid: 1,
        };
        let open = PoolRequest::Open(ContainerRef::Uuid(uuid), OpenMode::ReadWrite);
        for request in [create, open] {
            let message = encode(&Request::Pool(request)).expect("a request");
            let response = runtime.block_on(client.ask(&message));
            assert!(matches!(response.reply, Reply::Container(_) | Reply::Opened(..)));
        }
        Self { runtime, engine, client, left: requests }
    }

    /// The reply to a request.
    pub(crate) fn ask(&mut self, request: &Request<'_>) -> Reply {
        let message = encode(request).expect("a request");
        self.runtime.block_on(self.client.ask(&message)).reply
    }

    /// Sends one request, and checks that the engine has not panicked.
    fn feed(&mut self, message: &[u8]) {
        self.left -= 1;
        self.runtime.block_on(self.client.ask(message));
        assert!(self.engine.metrics().contains("\nesker_engine_panics_total 0\n"));
    }
}

/// Feeds an engine; `serve` begins anew when a pool has had its number of requests.
fn fuzz_requests(count: u64, serve: impl Fn() -> Served) {
    let mut random = Random::new(seed(), 0xe0);
    let requests: Vec<_> = (0..count).map(|_| Draw(&mut random).request()).collect();
    feed_all(&requests, serve);
}

/// Feeds requests as they are and then changed, each to the engine that `serve` has begun last.
fn feed_all(requests: &[Vec<u8>], serve: impl Fn() -> Served) {
    let served = RefCell::new(None);
    fuzz("wire-request", requests, |message| {
        let mut served = served.borrow_mut();
        if served.as_ref().is_some_and(|served: &Served| served.left == 0) {
            // The old pool must be dropped before there is another.
            *served = None;
        }
        served.get_or_insert_with(&serve).feed(message);
    });
}

#[test]
fn fuzz_requests_to_memory() {
    let serve = || Served::new(Arc::new(Memory::new(4)), Uuid([9; 16]), REQUESTS_PER_POOL);
    fuzz_requests(REQUESTS, serve);
}

/// A directory that is removed in the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Folder {
    fn new(of: &str) -> Self {
        Self(format!("/dev/shm/esker-test-{}-{of}", std::process::id()).into())
    }

    fn pool(&self) -> PathBuf {
        self.0.join("pool")
    }

    /// A new native pool.
    fn make(&self, bytes: u64, part: Part) -> Arc<dyn Pool> {
        let mut spec = esker_store::PoolSpec::new("pool", bytes);
        (spec.targets, spec.segment_bytes, spec.part) = (Some(4), Some(8 << 20), part);
        esker_store::Pool::create(&self.0, &spec, &mut |_, _| {}).expect("creating a pool");
        Arc::new(Native::open(&self.pool(), OpenMode::ReadWrite).expect("opening the pool"))
    }
}

/// Requests in which several are about the same commits over two nodes.
fn about_commits(count: u64) -> Vec<Vec<u8>> {
    let mut random = Random::new(seed(), 0xe2);
    (0..count).map(|_| Draw(&mut random).request_of_commits()).collect()
}

const FIRST_OF_TWO: Part = Part { node: 0, nodes: 2 };

#[test]
fn fuzz_commits_to_memory() {
    let part = || Arc::new(Memory::part(4, FIRST_OF_TWO));
    let serve = || Served::new(part(), Uuid([9; 16]), REQUESTS_PER_POOL);
    feed_all(&about_commits(REQUESTS), serve);
}

/// After any requests, a pool can abort the remaining commits, and its structures are consistent.
#[test]
fn fuzz_commits_to_a_native_pool() {
    let folder = Folder::new("commits");
    let pools: RefCell<Option<Arc<dyn Pool>>> = RefCell::default();
    let finish = || {
        let Some(pool) = pools.take() else { return };
        for commit in pool.prepared().wait().expect("prepared commits") {
            pool.abort(commit).wait().expect("aborting");
        }
        assert_eq!(pool.prepared().wait().expect("prepared commits"), []);
        drop(pool);
        let checked = esker_store::Pool::check(&folder.pool(), false, &mut |_, _| ());
        assert_eq!(checked.expect("checking").problems, [""; 0]);
        esker_store::Pool::destroy(&folder.pool(), true).expect("destroying");
    };
    feed_all(&about_commits(REQUESTS), || {
        finish();
        let pool = folder.make(150 << 20, FIRST_OF_TWO);
        *pools.borrow_mut() = Some(Arc::clone(&pool));
        Served::new(pool, Uuid([9; 16]), REQUESTS_PER_PART)
    });
    finish();
}

#[test]
fn fuzz_requests_to_a_native_pool() {
    let folder = Folder::new("fuzz");
    let pool = folder.make(200 << 20, Part::WHOLE);
    let number = std::cell::Cell::new(10_u8);
    fuzz_requests(REQUESTS, || {
        number.set(number.get().wrapping_add(1).max(10));
        Served::new(Arc::clone(&pool), Uuid([number.get(); 16]), REQUESTS_PER_POOL)
    });
}
