//! The engine: serves a pool of this node to clients on other nodes, over connections that both sides have proved.
#![forbid(unsafe_code)]

mod answer;
mod connection;
mod fetch;
mod memory;
mod session;

use esker_backend::Pool;
use esker_types::{Error, ErrorKind, Result, Uuid};
use esker_wire::frame::{Receiver, Sender};
use esker_wire::handshake::{self, Secret};
use memory::Memory;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

/// Requests of one connection that are served at a time. A client that sends more waits: its bytes stay in the network.
pub const REQUESTS_MAX: usize = 256;

/// Bytes of memory that an engine takes for requests and their replies, over all connections. What does not fit waits.
pub const MEMORY_MAX: u64 = 1 << 30;

/// How long a client may take to receive a reply before it is disconnected.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a client may take for the handshake.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long to wait before accepting again after that failed.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Serves one pool.
#[derive(Clone)]
pub struct Engine {
    pool: Arc<dyn Pool>,
    uuid: Uuid,
    secret: Secret,
    memory: Memory,
}

impl Engine {
    /// Serves `pool`, which clients know as `uuid`, to those that have the secret.
    #[must_use]
    pub fn new(pool: Arc<dyn Pool>, uuid: Uuid, secret: Secret) -> Self {
        Self { pool, uuid, secret, memory: Memory::new(MEMORY_MAX) }
    }

    /// Serves every client that connects to `listener`, each in a task of its own. Never ends.
    pub async fn listen(&self, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => self.welcome(stream),
                // A client that has gone again, or too many open files: others may still come.
                Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
            }
        }
    }

    fn welcome(&self, stream: TcpStream) {
        let engine = self.clone();
        tokio::spawn(async move {
            // Replies leave at once: what belongs together was collected before.
            let _ = stream.set_nodelay(true);
            let (from, to) = stream.into_split();
            // How a connection ended concerns its client, who knows.
            let _ = engine.serve(from, to).await;
        });
    }

    /// Serves one client, until it closes the connection or breaks the protocol. Ends what it had open: its leases and
    /// its containers.
    ///
    /// # Errors
    /// `NoPermission` and others of the handshake, `TimedOut` if that took too long; `Corrupt` if the client broke the
    /// protocol; `Io` if the connection was lost.
    pub async fn serve(
        &self,
        from: impl AsyncRead + Unpin,
        to: impl AsyncWrite + Unpin + Send + 'static,
    ) -> Result<()> {
        let (mut from, mut to) = (Receiver::new(from), Sender::new(to));
        let nonce = esker_os::random_bytes()?;
        let shaken = handshake::accept(&mut from, &mut to, &self.secret, self.uuid, nonce);
        let in_time = tokio::time::timeout(HANDSHAKE_TIMEOUT, shaken).await;
        in_time.map_err(|_| {
            Error::new(ErrorKind::TimedOut, "a client did not finish the handshake in time")
        })??;
        connection::serve(&self.pool, &self.memory, from, to).await
    }
}
