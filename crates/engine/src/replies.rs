//! Replies on their way to a client, and the memory that each returns once it is sent.
use crate::answer::Answered;
use crate::memory::Share;
use crate::{SEND_RATE_MIN, SEND_TIMEOUT};
use esker_types::{Error, ErrorKind, Result};
use esker_wire::frame::{Bulk, Frame, Kind, Sender};
use esker_wire::message::{Failure, Reply, Response};
use esker_wire::outbox::Outbox;
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::AsyncWrite;
use tokio::time::{Sleep, sleep};

/// The reply to one request.
pub(crate) struct Answer {
    /// Number of the request on its connection.
    pub(crate) call: u64,
    pub(crate) answered: Answered,
    /// Memory that the request has reserved.
    pub(crate) share: Share,
}

/// Replies that were not sent yet.
pub(crate) struct Replies<W> {
    to: W,
    outbox: Outbox,
    /// End of each reply, in bytes since the start of the connection, and the memory that its request has reserved.
    unsent: VecDeque<(u64, Share)>,
    /// Bytes of all replies so far.
    added: u64,
    /// End of the last reply that was sent.
    sent: u64,
    /// Times out if the client does not receive the first reply; `None` before the first attempt to send it.
    late: Option<Pin<Box<Sleep>>>,
    /// Reason for which nothing can be sent any more.
    lost: Option<Error>,
}

impl<W: AsyncWrite + Unpin> Replies<W> {
    /// An empty queue of replies, which are sent to the client by `to`.
    pub(crate) fn new(to: Sender<W>) -> Self {
        let (to, outbox) = to.into_parts();
        let unsent = VecDeque::new();
        Self { to, outbox, unsent, added: 0, sent: 0, late: None, lost: None }
    }

    /// Number of replies that were not sent yet.
    pub(crate) fn count(&self) -> usize {
        self.unsent.len()
    }

    /// Bytes that were not sent yet.
    pub(crate) fn len(&self) -> usize {
        self.outbox.len()
    }

    /// Adds a reply. Returns its bytes on the wire. A reply that is too long to be sent is replaced by the error.
    pub(crate) fn add(&mut self, answer: Answer) -> u64 {
        let Answer { call, answered: Answered { response, data, .. }, share } = answer;
        let head = (Kind::Reply, call, 0);
        let added = self.outbox.add_message(head, &response, data).or_else(|error| {
            // The reply is too long to be sent.
            let reply = Reply::Failed(Failure::from(&error));
            let response = Response { reply, tokens: Vec::new() };
            self.outbox.add_message(head, &response, Bulk::default())
        });
        self.note(added.unwrap_or(0), share)
    }

    /// Adds a frame that is not a reply.
    pub(crate) fn add_frame(&mut self, frame: &Frame) -> Result<u64> {
        self.outbox.add(frame).map(|len| self.note(len, None))
    }

    /// Records that `len` bytes were queued. `share` is the memory of their request, which is released once they are
    /// sent.
    fn note(&mut self, len: usize, share: Share) -> u64 {
        self.added += len as u64;
        self.unsent.push_back((self.added, share));
        len as u64
    }

    /// Sends all replies. Ready once that is done, or with the error that ends the connection, which later calls
    /// repeat.
    pub(crate) fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        if let Some(error) = &self.lost {
            return Poll::Ready(Err(error.clone()));
        }
        let sending = self.outbox.poll_send(&mut self.to, context);
        let sent = self.added - self.outbox.len() as u64;
        while let Some((end, _)) = self.unsent.front().filter(|(end, _)| *end <= sent) {
            (self.sent, self.late) = (*end, None);
            self.unsent.pop_front();
        }
        let done = match sending {
            Poll::Ready(done) => done,
            Poll::Pending => Err(ready!(self.poll_late(context))),
        };
        self.late = None;
        self.lost = done.as_ref().err().cloned();
        Poll::Ready(done)
    }

    /// Tells the client that nothing more will come. Ready once it is told, or cannot be.
    pub(crate) fn poll_close(&mut self, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.to).poll_shutdown(context).map(|_| ())
    }

    /// Ready with an error once the time is over in which the client must receive the first reply. A client that receives
    /// a byte now and then must not hold the memory of its requests for hours.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<Error> {
        let end = self.unsent.front().map_or(self.sent, |(end, _)| *end);
        let time = SEND_TIMEOUT + Duration::from_secs((end - self.sent) / SEND_RATE_MIN);
        let late = self.late.get_or_insert_with(|| Box::pin(sleep(time)));
        late.as_mut().poll(context).map(|()| {
            Error::new(ErrorKind::TimedOut, "a client did not receive its replies in time")
        })
    }
}
