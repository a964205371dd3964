//! One connection: receives requests, serves them side by side, sends the replies as they come.
use crate::memory::{Memory, Share};
use crate::session::Session;
use crate::{REQUESTS_MAX, SEND_TIMEOUT};
use esker_backend::Pool;
use esker_types::{Error, ErrorKind, Result};
use esker_wire::frame::{Frame, Kind, Limits, Receiver, Sender};
use esker_wire::message::encode;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// A reply, and the memory that it gives back once it is sent.
type Outgoing = (Frame, Share);

/// Serves requests until the client closes the connection. Then what it had open is ended.
pub(crate) async fn serve<R, W>(
    pool: &Arc<dyn Pool>,
    memory: &Memory,
    from: Receiver<R>,
    to: Sender<W>,
) -> Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let session = Arc::new(Session::new(Arc::clone(pool)));
    let (replies, outbox) = mpsc::channel(REQUESTS_MAX);
    let writer = tokio::spawn(send_replies(to, outbox));
    let mut served = JoinSet::new();
    let received = receive(&session, memory, from, &replies, &mut served).await;
    // What was begun is finished, so that no change takes effect after the leases have ended.
    while served.join_next().await.is_some() {}
    drop(replies);
    let sent = writer.await.unwrap_or_else(|error| {
        Err(Error::new(ErrorKind::Io, format!("the task that sends replies ended: {error}")))
    });
    session.end().await;
    received.and(sent)
}

async fn receive<R: AsyncRead + Unpin>(
    session: &Arc<Session>,
    memory: &Memory,
    mut from: Receiver<R>,
    replies: &mpsc::Sender<Outgoing>,
    served: &mut JoinSet<()>,
) -> Result<()> {
    while let Some(announced) = from.announced(Limits::KNOWN).await? {
        // What is not received yet stays in the network, and the client waits.
        while served.len() >= REQUESTS_MAX {
            served.join_next().await;
        }
        let share = memory.take(announced.memory()).await;
        let request = from.rest(announced).await?;
        match request.kind {
            Kind::Request => {
                served.spawn(answer(Arc::clone(session), request, share, replies.clone()))
            }
            Kind::Goodbye => return Ok(()),
            Kind::Handshake | Kind::Reply => return Err(out_of_turn(request.kind)),
        };
        while served.try_join_next().is_some() {}
    }
    Ok(())
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
    if let Ok(message) = encode(&response) {
        let (message, bulk) = (message.into(), data.into());
        let reply = Frame { kind: Kind::Reply, call, room: 0, message, bulk };
        // A connection that is lost has nobody to hear of it.
        let _ = replies.send((reply, share)).await;
    }
}

/// Sends replies; those that are ready together leave together.
async fn send_replies<W: AsyncWrite + Unpin>(
    mut to: Sender<W>,
    mut outbox: mpsc::Receiver<Outgoing>,
) -> Result<()> {
    while let Some(first) = outbox.recv().await {
        let sending = send_together(&mut to, first, &mut outbox);
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
) -> Result<()> {
    let mut next = Some(first);
    let mut shares = Vec::new();
    while let Some((reply, share)) = next {
        to.send(&reply).await?;
        shares.push(share);
        next = outbox.try_recv().ok();
    }
    to.flush().await
}
