//! The engine: serves a node's pool to clients on other nodes, over mutually authenticated connections.
#![forbid(unsafe_code)]

mod admission;
mod answer;
mod connection;
mod fetch;
mod handshakes;
mod health;
mod host;
mod kinds;
mod life;
mod limits;
mod memory;
mod metrics;
mod prometheus;
mod replies;
mod session;
mod threads;

pub use handshakes::{HANDSHAKE_GRACE, HANDSHAKES_MAX};
pub use health::Health;
pub use host::Host;
pub use life::Phase;
pub use limits::{
    CLIENTS_MAX, FETCHES_MAX, HANDLES_MAX, LEASE_TOKENS_MAX, LEASED_EACH_MAX, LEASES_MAX,
    LIST_BYTES_MAX, LIST_ENTRIES_MAX, QUERIES_MAX,
};
pub use threads::Threads;

use admission::Ends;
use esker_backend::Pool;
use esker_types::{Error, ErrorKind, Result, Uuid};
use esker_wire::handshake::Secret;
use esker_wire::spare::Spare;
use esker_wire::tls::Acceptor;
use handshakes::{Handshakes, Slot};
use life::Life;
use memory::Memory;
use metrics::Metrics;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

/// Requests of one connection that are served at a time. Further requests of the client wait in the network.
pub const REQUESTS_MAX: usize = 256;

/// Bytes of replies that wait to be sent to one client before further requests of it wait in the network. Those of
/// listings are not among the memory that requests reserve.
pub const UNSENT_MAX: usize = 64 << 20;

/// Bytes of memory that an engine takes for requests and their replies, over all connections. Requests that do not fit
/// wait.
pub const MEMORY_MAX: u64 = 1 << 30;

/// How long a client may take to receive a reply before it is disconnected. Long replies may take longer, by
/// [`SEND_RATE_MIN`].
pub const SEND_TIMEOUT: Duration = Duration::from_secs(60);

/// Bytes of a reply for which a client gets one second in addition to [`SEND_TIMEOUT`].
pub const SEND_RATE_MIN: u64 = 4 << 20;

/// How long the machine of a client may be unreachable before the client is disconnected.
pub const CLIENT_LOST_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a client may take to send the rest of a request, for which the engine reserves memory.
pub const RECEIVE_TIMEOUT: Duration = Duration::from_secs(60);

/// Handshake timeout of a client.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an engine that drains waits for the requests in progress.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);

/// Pause before the engine accepts connections again after an error.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Serves one pool.
#[derive(Clone)]
pub struct Engine(Arc<Shared>);

/// State that the connections of an engine share.
struct Shared {
    pool: Arc<dyn Pool>,
    /// UUID by which clients know the pool.
    uuid: Uuid,
    secret: Secret,
    memory: Memory,
    /// Buffers for replies, which are used again.
    spare: Spare,
    metrics: Arc<Metrics>,
    handshakes: Handshakes,
    life: Life,
    /// The process that clients may end or maintain, if it allows that.
    host: OnceLock<Arc<dyn Host>>,
    /// Clients that may be connected at a time.
    clients_max: AtomicU64,
    /// TLS acceptor, if the engine requires TLS.
    tls: OnceLock<Acceptor>,
    /// Threads that serve connections; without them, the threads that accept connections serve them.
    threads: OnceLock<Arc<Threads>>,
    /// True if clients had leases when the engine ended their connections.
    has_lost_leases: AtomicBool,
}

impl Engine {
    /// Serves `pool`, which clients know as `uuid`, to those that have the secret.
    #[must_use]
    pub fn new(pool: Arc<dyn Pool>, uuid: Uuid, secret: Secret) -> Self {
        Self(Arc::new(Shared {
            pool,
            uuid,
            secret,
            memory: Memory::new(MEMORY_MAX),
            spare: Spare::default(),
            metrics: Arc::default(),
            handshakes: Handshakes::new(),
            life: Life::default(),
            host: OnceLock::new(),
            clients_max: AtomicU64::new(CLIENTS_MAX),
            tls: OnceLock::new(),
            threads: OnceLock::new(),
            has_lost_leases: AtomicBool::new(false),
        }))
    }

    /// Sets the process that clients may end or maintain. Only the first host counts.
    pub fn set_host(&self, host: Arc<dyn Host>) {
        let _ = self.0.host.set(host);
    }

    /// Limits the number of clients that are served at a time, to at most [`CLIENTS_MAX`]. Clients that are connected
    /// already stay.
    pub fn limit_clients(&self, most: u64) {
        self.0.clients_max.store(most.min(CLIENTS_MAX), Ordering::Relaxed);
    }

    /// True if clients had leases when the engine ended their connections. They take them again from the next engine.
    #[must_use]
    pub fn has_lost_leases(&self) -> bool {
        self.0.has_lost_leases.load(Ordering::Relaxed)
    }

    /// Serves only clients that speak TLS from now on.
    ///
    /// # Errors
    /// The errors of [`Acceptor::new`].
    pub fn require_tls(&self) -> Result<()> {
        let acceptor = Acceptor::new()?;
        self.0.tls.get_or_init(|| acceptor);
        Ok(())
    }

    /// Serves new connections on `threads`, not on the threads that listen. Only the first call counts.
    pub fn serve_on(&self, threads: Arc<Threads>) {
        let _ = self.0.threads.set(threads);
    }

    /// State of the engine.
    #[must_use]
    pub fn health(&self) -> Health {
        let Shared { life, handshakes, .. } = &*self.0;
        let (connections, unauthenticated) = (life.connections(), handshakes.count() as u64);
        Health { phase: life.phase(), connections, unauthenticated }
    }

    /// Metrics of the engine, in the text format of Prometheus.
    #[must_use]
    pub fn metrics(&self) -> String {
        let Health { phase, connections, unauthenticated } = self.health();
        let gauges = prometheus::Gauges {
            connections,
            connections_max: self.0.clients_max.load(Ordering::Relaxed),
            unauthenticated,
            memory_bytes: self.0.memory.in_use(),
            memory_max_bytes: MEMORY_MAX,
            draining: phase != Phase::Ready,
        };
        prometheus::render(&self.0.metrics, &gauges)
    }

    /// Serves every client that connects to `listener`, each in a task of its own, until [`Engine::drain`] is called.
    pub async fn listen(&self, listener: TcpListener) {
        tokio::select! {
            biased;
            () = self.0.life.reached(Phase::Draining) => {}
            () = self.accept(&listener) => {}
        }
    }

    /// Accepts clients without end. Errors are logged, and accepting is tried again after a pause.
    async fn accept(&self, listener: &TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => self.spawn_connection(stream).await,
                // The client has gone again, or too many files are open: later clients may still be served.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            }
        }
    }

    /// Serves a new connection on one of the engine's threads, once a slot for its handshake is free.
    async fn spawn_connection(&self, stream: TcpStream) {
        let slot = self.0.handshakes.enter().await;
        let engine = self.clone();
        match self.0.threads.get() {
            Some(threads) => threads.spawn(stream, |stream| engine.serve_stream(slot, stream)),
            None => drop(tokio::spawn(engine.serve_stream(slot, stream))),
        }
    }

    /// Serves one connection over TCP to its end. The connection keeps `slot` until the client has authenticated.
    async fn serve_stream(self, slot: Slot, stream: TcpStream) {
        // Replies leave at once: the outbox has collected those that belong together.
        let _ = stream.set_nodelay(true);
        // Without this, the client of a machine that lost its power would keep its leases for ever.
        let _ = esker_os::detect_lost_peer(&stream, CLIENT_LOST_TIMEOUT);
        let address = stream.peer_addr().map_or_else(|_| "?".into(), |peer| peer.to_string());
        let local = stream.local_addr().ok().map(|local| local.ip());
        let (from, to) = stream.into_split();
        // The log has the reason of the end, and the client knows it.
        let _ = self.serve_in(slot, Ends { address: &address, local }, from, to).await;
    }

    /// Serves one client, until it closes the connection or breaks the protocol. Ends what it had open: its leases and
    /// its containers.
    ///
    /// # Errors
    /// `NoPermission` and others of the handshake, `TimedOut` if that took too long; `Busy` if it made room for other
    /// clients; `Canceled` if the engine drains; `Corrupt` if the client broke the protocol; `Io` if the connection was
    /// lost.
    pub async fn serve(
        &self,
        from: impl AsyncRead + Unpin + Send + 'static,
        to: impl AsyncWrite + Unpin + Send + 'static,
    ) -> Result<()> {
        let slot = self.0.handshakes.enter().await;
        self.serve_in(slot, Ends { address: "a stream", local: None }, from, to).await
    }

    /// Drains the engine: accepts no more clients, finishes the requests that were received, sends their replies, and
    /// says goodbye to every client. The clients' containers and leases are closed. Afterwards no client is served.
    ///
    /// # Errors
    /// `TimedOut` if that took longer than [`DRAIN_TIMEOUT`]; the remaining connections are closed then.
    pub async fn drain(&self) -> Result<()> {
        let life = &self.0.life;
        life.enter(Phase::Draining);
        tracing::info!(connections = life.connections(), "draining");
        let drained = tokio::time::timeout(DRAIN_TIMEOUT, life.no_clients()).await;
        let left = life.connections();
        life.enter(Phase::Ended);
        if drained.is_ok() {
            tracing::info!("drained");
            return Ok(());
        }
        tracing::warn!(connections = left, "did not drain in time");
        life.no_clients().await;
        let message = format!(
            "{left} clients had requests under way that did not end within {} s: their connections were closed",
            DRAIN_TIMEOUT.as_secs()
        );
        Err(Error::new(ErrorKind::TimedOut, message))
    }
}
