//! The conformance suite through an engine: over a stream in memory, and over TCP on loopback.
use esker::backend::memory::Memory;
use esker_backend::Pool;
use esker_conformance::suite;
use esker_engine::Engine;
use esker_nodes::{Connection, Endpoint, RemotePool};
use esker_types::Uuid;
use esker_wire::handshake::Secret;
use std::sync::{Arc, LazyLock};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime")
});

/// Bytes that a stream in memory holds before its writer waits: fewer than a frame, so that frames are cut.
const STREAM: usize = 10_000;

const POOL: Uuid = Uuid([7; 16]);

fn secret() -> Secret {
    Secret::new([1; 32])
}

fn engine(pool: Arc<dyn Pool>) -> Engine {
    Engine::new(pool, POOL, secret())
}

fn endpoint<'e>(address: &'e str, secret: &'e Secret) -> Endpoint<'e> {
    Endpoint { name: "n1", address, secret, pool: POOL, session: 1 }
}

/// `pool` through an engine in this process.
fn in_memory(pool: Arc<dyn Pool>) -> Arc<dyn Pool> {
    let (client, server) = tokio::io::duplex(STREAM);
    RUNTIME.block_on(async {
        let engine = engine(pool);
        tokio::spawn(async move {
            let (from, to) = tokio::io::split(server);
            engine.serve(from, to).await
        });
        let (from, to) = tokio::io::split(client);
        let link = Connection::open(endpoint("", &secret()), from, to).await.expect("a connection");
        Arc::new(RemotePool::open(link).await.expect("the pool"))
    })
}

/// `pool` through an engine that listens on loopback.
fn over_tcp(pool: Arc<dyn Pool>) -> Arc<dyn Pool> {
    RUNTIME.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let engine = engine(pool);
        tokio::spawn(async move { engine.listen(listener).await });
        let address = address.to_string();
        let link = Connection::connect(endpoint(&address, &secret())).await.expect("a connection");
        Arc::new(RemotePool::open(link).await.expect("the pool"))
    })
}

/// Pools in memory behind an engine, which `connect` reaches.
fn pools(connect: fn(Arc<dyn Pool>) -> Arc<dyn Pool>) -> impl Fn() -> Arc<dyn Pool> {
    move || connect(Arc::new(Memory::new(4)))
}

suite!(stream, pools(in_memory));
suite!(tcp, pools(over_tcp));
