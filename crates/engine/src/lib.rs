//! The engine: serves a pool of this node to clients on other nodes, over connections that both sides have proved.
#![forbid(unsafe_code)]

mod admission;
mod answer;
mod connection;
mod fetch;
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
mod strangers;
mod threads;

pub use health::Health;
pub use host::Host;
pub use life::Phase;
pub use limits::{
    CLIENTS_MAX, FETCHES_MAX, HANDLES_MAX, LEASE_TOKENS_MAX, LEASED_EACH_MAX, LEASES_MAX,
    LIST_BYTES_MAX, LIST_ENTRIES_MAX, QUERIES_MAX,
};
pub use strangers::{STRANGER_GRACE, STRANGERS_MAX};
pub use threads::Threads;

use admission::Ends;
use esker_backend::Pool;
use esker_types::{Error, ErrorKind, Result, Uuid};
use esker_wire::handshake::Secret;
use esker_wire::spare::Spare;
use esker_wire::tls::Acceptor;
use life::Life;
use memory::Memory;
use metrics::Metrics;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use strangers::{Place, Strangers};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

/// Requests of one connection that are served at a time. A client that sends more waits: its bytes stay in the network.
pub const REQUESTS_MAX: usize = 256;

/// Bytes of memory that an engine takes for requests and their replies, over all connections. What does not fit waits.
pub const MEMORY_MAX: u64 = 1 << 30;

/// How long a client may take to receive a reply before it is disconnected.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a client may take to send the rest of a request that has begun, for which the engine keeps memory.
pub const RECEIVE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a client may take for the handshake.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an engine that drains gives what is under way.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);

/// How long to wait before accepting again after that failed.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Serves one pool.
#[derive(Clone)]
pub struct Engine(Arc<Shared>);

/// What the connections of an engine share.
struct Shared {
    pool: Arc<dyn Pool>,
    uuid: Uuid,
    secret: Secret,
    memory: Memory,
    spare: Spare,
    metrics: Arc<Metrics>,
    strangers: Strangers,
    life: Life,
    host: OnceLock<Arc<dyn Host>>,
    /// Clients that may be connected at a time.
    clients_max: AtomicU64,
    /// Of an engine that serves nobody without TLS.
    tls: OnceLock<Acceptor>,
    threads: OnceLock<Arc<Threads>>,
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
            strangers: Strangers::new(),
            life: Life::default(),
            host: OnceLock::new(),
            clients_max: AtomicU64::new(CLIENTS_MAX),
            tls: OnceLock::new(),
            threads: OnceLock::new(),
        }))
    }

    /// Lets clients end the process that the engine is in. Only the first host counts.
    pub fn set_host(&self, host: Arc<dyn Host>) {
        let _ = self.0.host.set(host);
    }

    /// Serves at most so many clients at a time from now on, and never more than [`CLIENTS_MAX`]. Those that are
    /// connected stay.
    pub fn limit_clients(&self, most: u64) {
        self.0.clients_max.store(most.min(CLIENTS_MAX), Ordering::Relaxed);
    }

    /// Serves only clients that speak TLS from now on.
    ///
    /// # Errors
    /// Those of [`Acceptor::new`].
    pub fn require_tls(&self) -> Result<()> {
        let acceptor = Acceptor::new()?;
        self.0.tls.get_or_init(|| acceptor);
        Ok(())
    }

    /// Serves clients that connect from now on on these threads, and not on those that listen. Only the first threads count.
    pub fn serve_on(&self, threads: Arc<Threads>) {
        let _ = self.0.threads.set(threads);
    }

    /// How it is.
    #[must_use]
    pub fn health(&self) -> Health {
        let Shared { life, strangers, .. } = &*self.0;
        let (connections, strangers) = (life.connections(), strangers.count() as u64);
        Health { phase: life.phase(), connections, strangers }
    }

    /// What it has done, in the text format of Prometheus.
    #[must_use]
    pub fn metrics(&self) -> String {
        let Health { phase, connections, strangers } = self.health();
        let gauges = prometheus::Gauges {
            connections,
            connections_max: self.0.clients_max.load(Ordering::Relaxed),
            strangers,
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

    async fn accept(&self, listener: &TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => self.welcome(stream).await,
                // A client that has gone again, or too many open files: others may still come.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            }
        }
    }

    async fn welcome(&self, stream: TcpStream) {
        let place = self.0.strangers.enter().await;
        let engine = self.clone();
        match self.0.threads.get() {
            Some(threads) => threads.spawn(stream, |stream| engine.serve_stream(place, stream)),
            None => drop(tokio::spawn(engine.serve_stream(place, stream))),
        }
    }

    async fn serve_stream(self, place: Place, stream: TcpStream) {
        // Replies leave at once: what belongs together was collected before.
        let _ = stream.set_nodelay(true);
        let address = stream.peer_addr().map_or_else(|_| "?".into(), |peer| peer.to_string());
        let local = stream.local_addr().ok().map(|local| local.ip());
        let (from, to) = stream.into_split();
        // How a connection ended concerns its client, who knows, and the log.
        let _ = self.serve_in(place, Ends { address: &address, local }, from, to).await;
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
        let place = self.0.strangers.enter().await;
        self.serve_in(place, Ends { address: "a stream", local: None }, from, to).await
    }

    /// Ends in good order: accepts nothing more, finishes the requests that were received, sends their replies, and says
    /// goodbye to every client. What clients had open is closed. Nobody is served any more afterwards.
    ///
    /// # Errors
    /// `TimedOut` if that took longer than [`DRAIN_TIMEOUT`]; the connections that were left are closed then.
    pub async fn drain(&self) -> Result<()> {
        let life = &self.0.life;
        life.enter(Phase::Draining);
        tracing::info!(connections = life.connections(), "draining");
        let drained = tokio::time::timeout(DRAIN_TIMEOUT, life.alone()).await;
        let left = life.connections();
        life.enter(Phase::Ended);
        if drained.is_ok() {
            tracing::info!("drained");
            return Ok(());
        }
        tracing::warn!(connections = left, "did not drain in time");
        life.alone().await;
        let message = format!(
            "{left} clients had requests under way that did not end within {} s: their connections were closed",
            DRAIN_TIMEOUT.as_secs()
        );
        Err(Error::new(ErrorKind::TimedOut, message))
    }
}
