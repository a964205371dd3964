//! One connection: receives requests, serves them side by side, sends the replies as they come.
use crate::life::{Life, Phase};
use crate::memory::Share;
use crate::metrics::Metrics;
use crate::session::Session;
use crate::{RECEIVE_TIMEOUT, REQUESTS_MAX, SEND_TIMEOUT, Shared};
use bytes::Bytes;
use esker_types::{Error, ErrorKind, Result};
use esker_wire::frame::{BULK_MAX, Frame, Kind, Limits, MESSAGE_MAX, Receiver, Sender};
use esker_wire::message::{Failure, Reply, Response, encode};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle, JoinSet};

/// A reply, and the memory that it gives back once it is sent.
type Outgoing = (Frame, Share);

/// Serves requests until the client closes the connection or the engine drains. Then what the client had open is ended.
pub(crate) async fn serve<R, W>(engine: &Shared, from: Receiver<R>, to: Sender<W>) -> Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let Shared { pool, metrics, life, host, .. } = engine;
    let session =
        Arc::new(Session::new(Arc::clone(pool), Arc::clone(metrics), host.get().cloned()));
    let (replies, outbox) = mpsc::channel(REQUESTS_MAX);
    let mut writer = tokio::spawn(send_replies(to, outbox, Arc::clone(metrics)));
    let mut served = JoinSet::new();
    let received = tokio::select! {
            biased;
        received = receive(&session, engine, from, &replies, &mut served) => received,
        () = life.reached(Phase::Draining) => Ok(()),
        // Nobody takes the replies any more; the writer says why.
        () = replies.closed() => Ok(()),
    };
    let finished = tokio::select! {
            biased;
        finished = finish(served, replies, &mut writer, life, metrics) => finished,
        () = life.reached(Phase::Ended) => {
            writer.abort();
            Err(Error::new(ErrorKind::Canceled, "the engine did not wait for requests any longer"))
        }
    };
    session.end().await;
    received.and(finished)
}

/// Finishes what was begun, so that no change takes effect after the leases have ended. Sends the replies.
async fn finish(
    mut served: JoinSet<()>,
    replies: mpsc::Sender<Outgoing>,
    writer: &mut JoinHandle<Result<()>>,
    life: &Life,
    metrics: &Metrics,
) -> Result<()> {
    while let Some(ended) = served.join_next().await {
        note(&ended, metrics);
    }
    if life.phase() != Phase::Ready {
        // A client that is gone has nobody to hear of it.
        let _ = replies.send((goodbye(), None)).await;
    }
    drop(replies);
    writer.await.unwrap_or_else(|error| {
        Err(Error::new(ErrorKind::Io, format!("the task that sends replies ended: {error}")))
    })
}

/// What clients hear of an engine that drains.
fn goodbye() -> Frame {
    let message = Bytes::from_static(b"the engine is being stopped");
    Frame { kind: Kind::Goodbye, call: 0, room: 0, message, bulk: Bytes::new() }
}

/// Counts a request that was not answered because of a defect.
fn note(ended: &std::result::Result<(), JoinError>, metrics: &Metrics) {
    if let Err(error) = ended {
        metrics.panics.add(1);
        tracing::error!(%error, "a request was not answered");
    }
}

async fn receive<R: AsyncRead + Unpin>(
    session: &Arc<Session>,
    Shared { memory, metrics, .. }: &Shared,
    mut from: Receiver<R>,
    replies: &mpsc::Sender<Outgoing>,
    served: &mut JoinSet<()>,
) -> Result<()> {
    while let Some(announced) = from.announced(Limits::KNOWN).await? {
        // What is not received yet stays in the network, and the client waits.
        while served.len() >= REQUESTS_MAX {
            served.join_next().await.iter().for_each(|ended| note(ended, metrics));
        }
        let share = memory.take(announced.memory()).await;
        let rest = tokio::time::timeout(RECEIVE_TIMEOUT, from.rest(announced)).await;
        let request = rest.map_err(|_| late())??;
        metrics.received(&request);
        match request.kind {
            Kind::Request => {
                served.spawn(answer(Arc::clone(session), request, share, replies.clone()))
            }
            Kind::Goodbye => return Ok(()),
            Kind::Handshake | Kind::Reply => return Err(out_of_turn(request.kind)),
        };
        while let Some(ended) = served.try_join_next() {
            note(&ended, metrics);
        }
    }
    Ok(())
}

#[cold]
fn late() -> Error {
    Error::new(ErrorKind::TimedOut, "a client did not send the rest of a request in time")
}

#[cold]
fn out_of_turn(kind: Kind) -> Error {
    let message = format!("a client sent a frame of kind {kind:?} in place of a request");
    Error::new(ErrorKind::Corrupt, message)
}

async fn answer(
    session: Arc<Session>,
    request: Frame,
    share: Share,
    replies: mpsc::Sender<Outgoing>,
) {
    let Frame { call, room, message, bulk, .. } = request;
    let (response, data) = session.answer(&message, bulk, room).await;
    let encoded = encode(&response).and_then(|message| checked(message, &data));
    let (message, bulk) = match encoded {
        Ok(message) => (message.into(), data.into()),
        Err(error) => (failed(&error), Bytes::new()),
    };
    let reply = Frame { kind: Kind::Reply, call, room: 0, message, bulk };
    // A connection that is lost has nobody to hear of it.
    let _ = replies.send((reply, share)).await;
}

/// Refuses a reply that no frame holds.
fn checked(message: Vec<u8>, data: &[u8]) -> Result<Vec<u8>> {
    if message.len() <= MESSAGE_MAX && data.len() <= BULK_MAX {
        return Ok(message);
    }
    let len = message.len() + data.len();
    let why = format!("the reply has {len} bytes, more than fit one: ask for less at a time");
    Err(Error::new(ErrorKind::Overflow, why))
}

/// The message of a reply that says why there is no other.
fn failed(error: &Error) -> Bytes {
    let reply = Reply::Failed(Failure::from(error));
    let response = Response { reply, tokens: Vec::new() };
    // It holds a text and two numbers, which can always be encoded.
    encode(&response).unwrap_or_default().into()
}

/// Sends replies; those that are ready together leave together.
async fn send_replies<W: AsyncWrite + Unpin>(
    mut to: Sender<W>,
    mut outbox: mpsc::Receiver<Outgoing>,
    metrics: Arc<Metrics>,
) -> Result<()> {
    while let Some(first) = outbox.recv().await {
        let sending = send_together(&mut to, first, &mut outbox, &metrics);
        tokio::time::timeout(SEND_TIMEOUT, sending).await.map_err(|_| {
            Error::new(ErrorKind::TimedOut, "a client did not receive its replies in time")
        })??;
    }
    Ok(())
}

async fn send_together<W: AsyncWrite + Unpin>(
    to: &mut Sender<W>,
    first: Outgoing,
    outbox: &mut mpsc::Receiver<Outgoing>,
    metrics: &Metrics,
) -> Result<()> {
    let mut next = Some(first);
    let mut shares = Vec::new();
    while let Some((reply, share)) = next {
        to.send(&reply).await?;
        metrics.sent(&reply);
        shares.push(share);
        next = outbox.try_recv().ok();
    }
    to.flush().await
}
