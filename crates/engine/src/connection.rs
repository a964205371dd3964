//! One connection of an engine: receives requests, serves them, and sends the replies as they finish. Requests that
//! need not wait are served within the connection's task; the others run concurrently. Requests that would block their
//! thread run on other threads.
use crate::answer::Answered;
use crate::kinds::RequestKind;
use crate::life::Phase;
use crate::memory::Share;
use crate::replies::{Answer, Replies};
use crate::session::Session;
use crate::threads;
use crate::{RECEIVE_TIMEOUT, REQUESTS_MAX, Shared, UNSENT_MAX};
use bytes::Bytes;
use esker_backend::Pool;
use esker_os::executor::{block_on, without_waiting};
use esker_types::info::{Durability, Medium};
use esker_types::{Error, ErrorKind, Result};
use esker_wire::frame::{Announced, Frame, Kind, Limits, Receiver, Sender};
use esker_wire::message::{Request, decode};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet};

/// Replies of this many bytes are sent before more requests are served.
const SEND_AT: usize = 64 << 10;

/// How long an engine that ends a connection waits for the client to receive everything and to close it, too.
pub(crate) const LINGER: Duration = Duration::from_secs(2);

/// Data of a request that takes longer to store than it takes to wake another thread, in bytes.
const LONG_BULK: usize = 256 << 10;

/// Serves requests until the client closes the connection or the engine drains. Then the session's containers and
/// leases are closed. The beginning of the `first` request may have been received already.
pub(crate) async fn serve<R, W>(
    engine: &Shared,
    first: Option<Announced>,
    mut from: Receiver<R>,
    to: Sender<W>,
) -> Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let connection = Connection::new(engine, to).await;
    let received = tokio::select! {
        biased;
        received = connection.receive(first, &mut from) => received,
        // No client receives the replies any more.
        lost = connection.send_until_lost() => Err(lost),
        () = engine.life.reached(Phase::Draining) => Ok(()),
    };
    let finished = tokio::select! {
        biased;
        finished = connection.finish() => finished,
        () = engine.life.reached(Phase::Ended) => {
            Err(Error::new(ErrorKind::Canceled, "the engine did not wait for requests any longer"))
        }
    };
    connection.state().served.abort_all();
    if connection.session.end().await && engine.life.phase() != Phase::Ready {
        engine.has_lost_leases.store(true, Ordering::Relaxed);
    }
    if finished.is_ok() && engine.life.phase() == Phase::Draining {
        let ended = async {
            connection.close().await;
            from.discard().await;
        };
        linger(engine, ended).await;
    }
    received.and(finished)
}

/// Waits for the end of a connection on which nothing more is sent, but at most [`LINGER`], and not after the end of the
/// engine. `ended` discards what the client still sends: if the socket was closed while requests are unread, the kernel
/// would discard replies that the client has not received yet.
pub(crate) async fn linger(engine: &Shared, ended: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        () = ended => {}
        () = tokio::time::sleep(LINGER) => {}
        () = engine.life.reached(Phase::Ended) => {}
    }
}

/// The connection of one client, in its task.
struct Connection<'e, W> {
    engine: &'e Shared,
    session: Arc<Session>,
    /// Requests that wait for the medium of this pool.
    slow: Slow,
    /// Only the task of the connection locks it, so the lock is always free.
    state: Mutex<State<W>>,
    /// Notified when fewer requests are in progress.
    room: Notify,
}

/// Only the task of the connection uses it.
struct State<W> {
    replies: Replies<W>,
    /// Requests that could not be answered at once.
    served: JoinSet<Answer>,
}

impl<W: AsyncWrite + Unpin> State<W> {
    /// True if the client must receive replies before more of its requests are received.
    fn is_full(&self) -> bool {
        self.served.len() + self.replies.count() >= REQUESTS_MAX || self.replies.len() >= UNSENT_MAX
    }
}

impl<'e, W: AsyncWrite + Unpin> Connection<'e, W> {
    /// The connection of a client whose handshake is done: no requests, and no reply that waits.
    async fn new(engine: &'e Shared, to: Sender<W>) -> Self {
        let session = Arc::new(Session::new(engine));
        let slow = Slow::of_pool(&*engine.pool).await;
        let state = State { replies: Replies::new(to), served: JoinSet::new() };
        Self { engine, session, slow, state: Mutex::new(state), room: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives requests and starts a task for each, until the client closes the connection. The beginning of the
    /// `first` request may have been received already.
    async fn receive<R: AsyncRead + Unpin>(
        &self,
        first: Option<Announced>,
        from: &mut Receiver<R>,
    ) -> Result<()> {
        let Shared { memory, metrics, .. } = self.engine;
        let mut next = match first {
            Some(first) => Some((first, false)),
            None => next_request(from).await?,
        };
        while let Some((announced, has_others)) = next {
            // Bytes that are not received yet stay in the network, and the client waits.
            while self.state().is_full() {
                self.room.notified().await;
            }
            let share = memory.take(announced.memory()).await;
            let rest = tokio::time::timeout(RECEIVE_TIMEOUT, from.rest(announced)).await;
            let request = rest.map_err(|_| request_timeout_error())??;
            metrics.received(&request);
            match request.kind {
                Kind::Request => self.begin(request, share, has_others).await,
                Kind::Goodbye => return Ok(()),
                Kind::Handshake | Kind::Reply | Kind::Fabric => {
                    return Err(out_of_turn(request.kind));
                }
            }
            threads::note_requests();
            if !from.has_more() || self.state().replies.len() >= SEND_AT {
                poll_fn(|context| Poll::Ready(self.poll(context))).await.is_ready();
            }
            next = next_request(from).await?;
        }
        Ok(())
    }

    /// Answers a request, or starts a task for it. `share` is the memory that it has reserved. Another thread stores
    /// long data if the client `has_others` under way, which are received meanwhile.
    async fn begin(&self, request: Frame, share: Share, has_others: bool) {
        if self.slow.is_slow(&request) || has_others && request.bulk.len() >= LONG_BULK {
            return self.serve_apart(request, share);
        }
        let session = Arc::clone(&self.session);
        let mut answer = Box::pin(answer(session, request.clone(), share));
        let polled =
            poll_fn(|context| Poll::Ready(without_waiting(|| answer.as_mut().poll(context))));
        match polled.await {
            (Poll::Ready(answer), true) if answer.answered.may_wait() => {
                self.serve_apart(request, answer.share);
            }
            (Poll::Ready(answer), _) => self.add(&mut self.state(), answer),
            (Poll::Pending, _) => {
                self.state().served.spawn(answer);
            }
        }
    }

    /// Serves a request on a thread that may block.
    fn serve_apart(&self, request: Frame, share: Share) {
        let answer = answer(Arc::clone(&self.session), request.detached(), share);
        self.state().served.spawn_blocking(move || block_on(answer));
    }

    /// Counts an answer in the metrics, and adds it to the replies that wait to be sent.
    fn add(&self, state: &mut State<W>, answer: Answer) {
        let (metrics, Answered { kind, took, response, is_defect, .. }) =
            (&self.engine.metrics, &answer.answered);
        metrics.answered(*kind, *took, response.reply.failure());
        metrics.panics.add(u64::from(*is_defect));
        metrics.sent(state.replies.add(answer));
    }

    /// Takes the answer of a task that has ended.
    fn note(&self, state: &mut State<W>, ended: std::result::Result<Answer, JoinError>) {
        match ended {
            Ok(answer) => self.add(state, answer),
            // The connection has ended, and its tasks were aborted with it.
            Err(error) => tracing::error!(%error, "a request was not answered"),
        }
    }

    /// Collects finished answers, and sends all replies. Ready if no request is in progress, and all replies are sent
    /// or cannot be.
    fn poll(&self, context: &mut Context<'_>) -> Poll<Result<()>> {
        let state = &mut *self.state();
        let served = loop {
            match state.served.poll_join_next(context) {
                Poll::Ready(Some(ended)) => self.note(state, ended),
                other => break other.is_ready(),
            }
        };
        let sent = state.replies.poll_send(context);
        if !state.is_full() {
            self.room.notify_waiters();
        }
        match served {
            true => sent,
            false => Poll::Pending,
        }
    }

    /// Sends replies until the connection is lost.
    async fn send_until_lost(&self) -> Error {
        poll_fn(|context| match self.poll(context) {
            Poll::Ready(Err(error)) => Poll::Ready(error),
            _ => Poll::Pending,
        })
        .await
    }

    /// Finishes the requests in progress, so that no change takes effect after the leases have ended. Sends the
    /// replies.
    async fn finish(&self) -> Result<()> {
        let served = poll_fn(|context| self.poll(context)).await;
        if self.engine.life.phase() == Phase::Ready || served.is_err() {
            return served;
        }
        self.state().replies.add_frame(&goodbye(STOPPED.into()))?;
        poll_fn(|context| self.poll(context)).await
    }

    /// Tells the client that no more replies will come.
    async fn close(&self) {
        poll_fn(|context| self.state().replies.poll_close(context)).await;
    }
}

/// The beginning of the next request; `None` once the client has closed the connection. The flag is true if it had
/// arrived before the engine waited for it: the client then sends several requests at a time.
async fn next_request<R: AsyncRead + Unpin>(
    from: &mut Receiver<R>,
) -> Result<Option<(Announced, bool)>> {
    let mut announced = pin!(from.announced(Limits::AUTHENTICATED));
    let at_once = poll_fn(|context| Poll::Ready(announced.as_mut().poll(context))).await;
    let (next, had_arrived) = match at_once {
        Poll::Ready(next) => (next, true),
        Poll::Pending => (announced.await, false),
    };
    Ok(next?.map(|next| (next, had_arrived)))
}

/// Requests that wait for the medium. If they run concurrently, several changes share a sync, and several reads are
/// in progress.
#[derive(Clone, Copy)]
enum Slow {
    None,
    Changes,
    All,
}

impl Slow {
    /// Requests that wait for the medium on this pool: they run on threads that may block.
    async fn of_pool(pool: &dyn Pool) -> Self {
        match pool.info().await {
            Ok(info) if info.medium == Medium::Block => Self::All,
            Ok(info) if info.durability == Durability::Commit => Self::Changes,
            _ => Self::None,
        }
    }

    /// Whether the request may wait for a disk, so that it must not be served on the thread of the network.
    fn is_slow(self, request: &Frame) -> bool {
        match self {
            Self::None => false,
            Self::Changes => !is_read(request),
            Self::All => true,
        }
    }
}

/// Whether the request only reads. False if it cannot be decoded.
fn is_read(request: &Frame) -> bool {
    let decoded = decode(&request.message);
    decoded.is_ok_and(|request: Request<'_>| {
        matches!(
            RequestKind::of_request(&request),
            RequestKind::Fetch | RequestKind::List | RequestKind::Query
        )
    })
}

/// Reason of the goodbye that a draining engine sends.
pub(crate) const STOPPED: &str = "the engine is being stopped";

/// The last frame of a connection, with the reason of its end.
pub(crate) fn goodbye(message: Bytes) -> Frame {
    Frame { kind: Kind::Goodbye, call: 0, room: 0, message, bulk: Bytes::new() }
}

#[cold]
fn request_timeout_error() -> Error {
    Error::new(ErrorKind::TimedOut, "a client did not send the rest of a request in time")
}

#[cold]
fn out_of_turn(kind: Kind) -> Error {
    let message = format!("a client sent a frame of kind {kind:?} in place of a request");
    Error::new(ErrorKind::Corrupt, message)
}

/// Serves a request. `share` is the memory that the request has reserved.
async fn answer(session: Arc<Session>, request: Frame, share: Share) -> Answer {
    let Frame { call, room, message, bulk, .. } = request;
    let answered = session.answer(&message, bulk, room).await;
    Answer { call, answered, share }
}
