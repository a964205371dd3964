//! The wait of a caller for its reply.
use crate::connection::Received;
use crate::connection::receiving::Receiving;
use crate::connection::sending::AT_ONCE;
use crate::connection::waiting::{ReplyLimits, Waiting};
use esker_os::executor::is_waiting_here;
use esker_types::Result;
use esker_wire::frame::{Destination, SHORT_PART};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::sync::oneshot::{Receiver, error::RecvError};

/// A reply that a caller waits for. The caller receives it on its own thread if it can. Otherwise, the task of the
/// connection does. If the caller drops this, nobody waits for the reply any more.
pub(super) struct AwaitedReply<'c, 'd> {
    /// Number of the call.
    number: u64,
    /// Receives the reply once it is complete.
    reply: Receiver<Result<Received>>,
    /// All calls of the connection that wait for a reply.
    waiting: &'c Waiting,
    /// The side of the connection that receives.
    receiving: &'c Arc<Receiving>,
    /// Memory of the caller for the data of the reply.
    into: &'c mut Destination<'d>,
    /// The data is long enough to be received into `into`.
    has_long_data: bool,
    /// The caller's thread receives the reply. Of a long reply, the task receives the rest while the caller copies the
    /// beginning.
    is_short: bool,
}

impl<'c, 'd> AwaitedReply<'c, 'd> {
    /// Starts to wait for the reply to the call `number`.
    ///
    /// # Errors
    /// The error of the connection, if it has ended.
    pub(super) fn new(
        (number, limits): (u64, ReplyLimits),
        waiting: &'c Waiting,
        receiving: &'c Arc<Receiving>,
        into: &'c mut Destination<'d>,
    ) -> Result<Self> {
        let reply = waiting.add(number, limits)?;
        let has_long_data = into.len() > SHORT_PART && receiving.is_pollable();
        let is_short = limits.room <= AT_ONCE as u64 || waiting.count() == 1;
        Ok(Self { number, reply, waiting, receiving, into, has_long_data, is_short })
    }

    /// Polls for the reply; the outer error means that the connection is over without one.
    fn poll_reply(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<std::result::Result<Result<Received>, RecvError>> {
        Pin::new(&mut self.reply).poll(context)
    }

    /// Has this caller woken by `waker` when data of its reply arrives; without a waker, it is not woken. True if data
    /// has arrived that it must receive now.
    fn has_data(&self, waker: Option<&Waker>) -> bool {
        self.has_long_data && self.waiting.expect_data(self.number, waker) && waker.is_some()
    }
}

impl Future for AwaitedReply<'_, '_> {
    /// An error if the connection has ended without a reply.
    type Output = std::result::Result<Result<Received>, RecvError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let mut polled = this.poll_reply(context);
        if polled.is_ready() {
            return polled;
        }
        let receives_data = this.has_long_data && is_waiting_here();
        if this.has_data(receives_data.then(|| context.waker())) {
            this.receiving.poll_for((this.number, this.into));
            polled = this.poll_reply(context);
        }
        if polled.is_pending() {
            this.receiving.expect(this.is_short || receives_data);
        }
        polled
    }
}

impl Drop for AwaitedReply<'_, '_> {
    fn drop(&mut self) {
        self.waiting.take(self.number);
    }
}
