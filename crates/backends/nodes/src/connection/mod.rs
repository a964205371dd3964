//! A connection to an engine: many requests in progress at a time, each with a deadline.
mod awaited;
mod receiving;
mod replies;
mod sending;
mod socket;
mod waiting;

pub(crate) use sending::Data;
pub(crate) use waiting::ReplyLimits;

use awaited::AwaitedReply;
use bytes::Bytes;
use esker_types::{Error, ErrorKind, Result, Uuid};
use esker_wire::fabric::EndpointOptions;
use esker_wire::frame::{BULK_MAX, Bulk, Destination, Frame, Kind, Receiver, Sender};
use esker_wire::handshake::{self, Secret};
use esker_wire::message::{Failure, Request, Response, decode};
use esker_wire::spare::Spare;
use esker_wire::tls;
use receiving::Receiving;
use replies::Replies;
use sending::Sending;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, join};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use waiting::Waiting;

/// Requests in progress on one connection; others wait.
pub const REQUESTS_MAX: usize = 256;

/// Time after which a request fails with `TimedOut`.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the machine of an engine may be unreachable before the connection to it is lost. More than
/// [`REQUEST_TIMEOUT`]: the kernel also counts the time for which a busy engine leaves requests in the network.
pub const ENGINE_LOST_TIMEOUT: Duration = Duration::from_secs(40);

/// Timeout of connecting to a node, and then of the handshake.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause between checks of deadlines.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A connection to an engine.
pub struct Connection {
    /// Name of the node, for errors.
    name: String,
    sending: Arc<Sending>,
    receiving: Arc<Receiving>,
    spare: Spare,
    /// True if data is copied before it is sent.
    copies_data: AtomicBool,
    /// Permits for requests in progress.
    turns: Semaphore,
    /// Calls that wait for their reply.
    waiting: Arc<Waiting>,
    /// Number of the next call.
    last_call: AtomicU64,
}

/// A reply, and the number of first bytes of its data that are in the memory of the caller. The frame has the others.
struct Received {
    frame: Frame,
    in_place: usize,
}

/// Data of a reply.
pub(crate) struct Found {
    /// Number of first bytes that are in the destination.
    pub(crate) in_place: usize,
    /// The other bytes.
    pub(crate) rest: Bytes,
}

/// An engine to connect to, and the identity of the client.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint<'e> {
    /// Name of the node.
    pub name: &'e str,
    /// Address of the engine, as `host:port`.
    pub address: &'e str,
    /// The secret of the pool.
    pub secret: &'e Secret,
    /// UUID of the node's pool.
    pub pool: Uuid,
    /// Session of the client in the ids of its changes.
    pub session: u64,
}

impl Connection {
    /// Connects to an engine, within a tokio runtime that continues to run.
    ///
    /// # Errors
    /// `Io` or `TimedOut` if the node cannot be reached, and those of [`handshake::connect`].
    pub async fn connect(to: Endpoint<'_>) -> Result<Self> {
        Self::connect_by(None, to).await
    }

    /// Connects to an engine, and continues over the `fabric` if that is given, on the network interface that reaches
    /// the node.
    ///
    /// # Errors
    /// The errors of [`Connection::connect`] and [`esker_wire::fabric::connect`].
    pub async fn connect_by(fabric: Option<EndpointOptions>, to: Endpoint<'_>) -> Result<Self> {
        let stream = to.reach().await?;
        let local = stream.local_addr().ok().map(|local| local.ip());
        to.in_time(async {
            let (reading, writing) = crate::connection::socket::split(stream)?;
            let socket = reading.socket();
            let authenticated = to.authenticate(reading, writing, to.secret).await?;
            match fabric {
                None => Ok(Self::begin(to.name, authenticated, Some(socket))),
                Some(options) => {
                    let Authenticated { from, to: sender, spare } = authenticated;
                    let options = EndpointOptions { local, ..options };
                    let (from, sender) = esker_wire::fabric::connect(from, sender, options).await?;
                    Ok(Self::begin(to.name, Authenticated { from, to: sender, spare }, None))
                }
            }
        })
        .await
    }

    /// Connects to an engine over TLS. An engine without it is refused.
    ///
    /// # Errors
    /// The errors of [`Connection::connect`]; `Corrupt` if the engine does not speak TLS, or `Io` if it closes the
    /// connection.
    pub async fn connect_tls(to: Endpoint<'_>) -> Result<Self> {
        let stream = to.reach().await?;
        to.in_time(async {
            let (reading, writing) = crate::connection::socket::split(stream)?;
            let socket = reading.socket();
            let secured = tls::connect(join(reading, writing)).await;
            let (stream, binding) = secured.map_err(|error| with_node_name(to.name, &error))?;
            let (from, sender) = tokio::io::split(stream);
            let authenticated =
                to.authenticate(from, sender, &to.secret.bound_to(&binding)?).await?;
            Ok(Self::begin(to.name, authenticated, Some(socket)))
        })
        .await
    }

    /// Connects to an engine over a stream, within a tokio runtime that continues to run.
    ///
    /// # Errors
    /// The errors of [`handshake::connect`].
    pub async fn open<R, W>(to: Endpoint<'_>, reading: R, writing: W) -> Result<Self>
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        Ok(Self::begin(to.name, to.authenticate(reading, writing, to.secret).await?, None))
    }

    /// Serves callers over a connection to an authenticated engine. If it has a `socket` that can be read without
    /// blocking, threads may poll for their own replies.
    fn begin<R, W>(
        name: &str,
        Authenticated { from, to, spare }: Authenticated<R, W>,
        socket: Option<Arc<OwnedFd>>,
    ) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let sending = Arc::new(Sending::new(to, socket.clone()));
        let waiting = Arc::new(Waiting::default());
        let node = name.to_owned();
        let has_rest = Arc::default();
        let work = Replies::new(from, Arc::clone(&waiting), node.clone(), Arc::clone(&has_rest));
        let calls = Arc::clone(&waiting);
        let is_awaited = move || calls.count() > 0;
        let receiving = Arc::new(Receiving::new(work, socket, has_rest, is_awaited));
        tokio::spawn(send_requests(Arc::clone(&sending), Arc::clone(&waiting), node.clone()));
        let (receiver, sender) = (Arc::clone(&receiving), Arc::clone(&sending));
        tokio::spawn(async move {
            receiver.run().await;
            // An engine that has said goodbye waits for the end of this side.
            sender.close();
        });
        tokio::spawn(watch_over(Arc::downgrade(&receiving), Arc::downgrade(&waiting), node));
        let (turns, last_call) = (Semaphore::new(REQUESTS_MAX), AtomicU64::new(0));
        let copies_data = AtomicBool::new(false);
        Self {
            name: name.to_owned(),
            sending,
            receiving,
            spare,
            copies_data,
            turns,
            waiting,
            last_call,
        }
    }

    /// Sends a request and waits for its reply, which has at most `room` bytes of data.
    ///
    /// # Errors
    /// `TimedOut` or `Io`, with the node's name, if no response comes; `Overflow` if the request is too long.
    pub async fn call(
        &self,
        request: &Request<'_>,
        bulk: impl Into<Bulk>,
        room: u64,
    ) -> Result<(Response, Bytes)> {
        let mut nowhere = Destination::default();
        let data = Data::Owned(bulk.into());
        let limits = ReplyLimits::with_room(room);
        let (response, found) = self.call_with(request, data, limits, &mut nowhere).await?;
        Ok((response, found.rest))
    }

    /// Sends a request whose data may be sent without a copy, and waits for its reply. If the data of that fills `into`,
    /// it may be received there.
    pub(crate) async fn call_with(
        &self,
        request: &Request<'_>,
        data: Data<'_>,
        limits: ReplyLimits,
        into: &mut Destination<'_>,
    ) -> Result<(Response, Found)> {
        let Ok(_turn) = self.turns.acquire().await else { return Err(self.lost_error()) };
        let room = checked_room(limits.room)?;
        let number = self.last_call.fetch_add(1, Ordering::Relaxed);
        let reply = AwaitedReply::new((number, limits), &self.waiting, &self.receiving, into)?;
        self.sending.send((Kind::Request, number, room), request, data, &self.spare)?;
        let Received { frame, in_place } = reply.await.map_err(|_| self.lost_error())??;
        Ok((decode(&frame.message)?, Found { in_place, rest: frame.bulk }))
    }

    /// True if the connection has ended: no reply will come any more.
    pub(crate) fn is_over(&self) -> bool {
        self.waiting.over().is_some()
    }

    /// Waits until the connection has ended. The future does not keep the connection open.
    pub(crate) fn until_over(&self) -> impl Future<Output = ()> + Send + 'static {
        self.waiting.until_over()
    }

    /// Ends the connection: its requests fail with `why`, and the engine ends what it has for this client.
    pub(crate) fn end(&self, why: &Error) {
        self.waiting.end(why);
        self.sending.close();
        self.receiving.attend();
    }

    /// True if data must be copied before it is sent.
    pub(crate) fn copies_data(&self) -> bool {
        self.copies_data.load(Ordering::Relaxed)
    }

    /// Copies data from now on. If a program changes a buffer while it is sent, its checksum does not match, and the
    /// engine ends the connection. On the next connection that must not happen again.
    pub(crate) fn copy_data(&self) {
        self.copies_data.store(true, Ordering::Relaxed);
    }

    /// Returns the stock of memory for the data of requests.
    pub(crate) fn spare(&self) -> &Spare {
        &self.spare
    }

    /// The error of a reply that does not fit its request.
    #[cold]
    pub(crate) fn unexpected_reply_error(&self) -> Error {
        let message = format!("node {} sent a reply that does not fit its request", self.name);
        Error::new(ErrorKind::Corrupt, message)
    }

    /// Converts the failure of a request. Errors of the node get its name.
    #[cold]
    pub(crate) fn request_error(&self, failure: Failure) -> Error {
        let error = Error::from(failure);
        match error.kind() {
            ErrorKind::Io => with_node_name(&self.name, &error),
            _ => error,
        }
    }

    #[cold]
    /// The error for calls after the end of the connection.
    fn lost_error(&self) -> Error {
        self.waiting
            .over()
            .unwrap_or_else(|| unreachable_error(&self.name, &"the connection was closed"))
    }
}

/// A connection to an authenticated engine, and memory for received data.
struct Authenticated<R, W> {
    from: Receiver<R>,
    to: Sender<W>,
    spare: Spare,
}

impl Endpoint<'_> {
    /// Connects to the engine over TCP, without waiting longer than `CONNECT_TIMEOUT`.
    async fn reach(self) -> Result<TcpStream> {
        let connecting = TcpStream::connect(self.address);
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
        let connected = connected.map_err(|_| timeout_error(self.name, CONNECT_TIMEOUT))?;
        let stream = connected.map_err(|error| {
            unreachable_error(self.name, &Error::io(self.address, &error).message())
        })?;
        // Requests leave at once: the outbox has collected those that belong together.
        let _ = stream.set_nodelay(true);
        // Without this, an idle client would never notice that the machine of the engine lost its power.
        let _ = esker_os::detect_lost_peer(&stream, ENGINE_LOST_TIMEOUT);
        Ok(stream)
    }

    /// Fails the opening of a connection if it takes too long.
    async fn in_time(
        self,
        opening: impl Future<Output = Result<Connection>>,
    ) -> Result<Connection> {
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, opening).await;
        opened.unwrap_or_else(|_| Err(timeout_error(self.name, CONNECT_TIMEOUT)))
    }

    /// Authenticates both peers. Both sides of the connection then share `spare`.
    async fn authenticate<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
        self,
        from: R,
        to: W,
        secret: &Secret,
    ) -> Result<Authenticated<R, W>> {
        let spare = Spare::default();
        let (mut from, mut to) = (Receiver::with_spare(from, spare.clone()), Sender::new(to));
        let nonce = esker_os::random_bytes()?;
        handshake::connect(&mut from, &mut to, secret, self.pool, self.session, nonce).await?;
        Ok(Authenticated { from, to, spare })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.sending.close();
        // The task sees the end of the connection.
        self.receiving.attend();
    }
}

/// Checks that `room` bytes, the most that a reply may have, fit a frame.
fn checked_room(room: u64) -> Result<u32> {
    u32::try_from(room).ok().filter(|room| *room as usize <= BULK_MAX).ok_or_else(|| {
        let message = format!(
            "a fetch of {room} bytes exceeds the {BULK_MAX} of one request: fetch less at a time"
        );
        Error::new(ErrorKind::Overflow, message)
    })
}

#[cold]
fn timeout_error(name: &str, timeout: Duration) -> Error {
    let seconds = timeout.as_secs();
    let message =
        format!("node {name} did not reply within {seconds} s: it hangs or cannot be reached");
    Error::new(ErrorKind::TimedOut, message)
}

/// Adds the name of the node to an error.
#[cold]
fn with_node_name(name: &str, error: &Error) -> Error {
    Error::new(error.kind(), format!("node {name}: {}", error.message()))
}

#[cold]
fn unreachable_error(name: &str, why: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Io, format!("node {name} cannot be reached: {why}"))
}

/// Sends requests until the connection ends. Then all calls that wait get the error.
async fn send_requests(sending: Arc<Sending>, waiting: Arc<Waiting>, name: String) {
    if let Err(error) = sending.run().await {
        waiting.end(&unreachable_error(&name, &error));
    }
}

/// Checks deadlines at intervals, and lets the task notice if the engine closes an idle connection. Ends with the
/// connection.
async fn watch_over(receiving: Weak<Receiving>, waiting: Weak<Waiting>, name: String) {
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let (Some(receiving), Some(waiting)) = (receiving.upgrade(), waiting.upgrade()) else {
            return;
        };
        waiting.expire(&name);
        receiving.poll_once();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sockopt;

    /// The kernel ends the connection only after a request that an engine may still answer.
    #[test]
    fn kernel_looks_for_a_lost_engine() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let (address, secret) =
                (listener.local_addr().unwrap().to_string(), Secret::new([1; 32]));
            let (address, pool) = (&*address, Uuid([1; 16]));
            let to = Endpoint { name: "n1", address, secret: &secret, pool, session: 1 };
            let stream = to.reach().await.unwrap();
            assert!(sockopt::socket_keepalive(&stream).unwrap());
            let lost = sockopt::tcp_user_timeout(&stream).unwrap();
            assert!(Duration::from_millis(lost.into()) > REQUEST_TIMEOUT);
        });
    }
}
