//! Sending side of a connection to an engine. Callers add requests to a queue; those that are queued together are sent
//! together.
use bytes::Bytes;
use esker_os::executor::{Deferred, defer};
use esker_types::Result;
use esker_wire::frame::{Bulk, Frame, Kind, Sender};
use esker_wire::outbox::{Borrowed, Outbox};
use esker_wire::spare::Spare;
use serde::Serialize;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker};
use tokio::io::AsyncWrite;
use tokio::sync::Notify;

/// Data of a request.
pub(crate) enum Data<'d> {
    Owned(Bulk),
    /// The caller's data, with its checksum.
    Borrowed(Borrowed<'d>, u32),
}

impl Default for Data<'_> {
    fn default() -> Self {
        Self::Owned(Bulk::default())
    }
}

/// The sending side of a connection, for many callers.
pub(crate) struct Sending {
    queue: Mutex<Queue>,
    writer: Mutex<Writer>,
    /// Notified when the task has something to do.
    wake: Notify,
}

/// If more bytes are queued, the connection's task sends them at once, while the caller prepares the next request.
pub(crate) const AT_ONCE: usize = 256 << 10;

/// Requests that the writer has not got yet.
struct Queue {
    outbox: Outbox,
    closed: bool,
}

struct Writer {
    to: Box<dyn AsyncWrite + Send + Unpin>,
    outbox: Outbox,
    /// The task waits until it can send more. No thread may send meanwhile: the connection wakes only the last one that
    /// tried.
    is_busy: bool,
}

fn is_sent(polled: Poll<Result<()>>) -> bool {
    matches!(polled, Poll::Ready(Ok(())))
}

fn copied(data: &Borrowed<'_>, spare: &Spare) -> Bytes {
    let mut copy = spare.empty(data.len());
    data.pieces().for_each(|piece| copy.extend_from_slice(piece));
    spare.keep(copy)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sending {
    pub(crate) fn new<W: AsyncWrite + Send + Unpin + 'static>(to: Sender<W>) -> Self {
        let (to, outbox) = to.into_parts();
        let writer = Writer { to: Box::new(to), outbox: Outbox::default(), is_busy: false };
        let queue = Queue { outbox, closed: false };
        Self { queue: Mutex::new(queue), writer: Mutex::new(writer), wake: Notify::new() }
    }

    /// Sends a message. A thread that only waits for replies sends its messages before it sleeps; for others, the task
    /// of the connection does.
    ///
    /// # Errors
    /// `Overflow` if it is too long.
    pub(crate) fn send(
        self: &Arc<Self>,
        head: (Kind, u64, u32),
        message: &impl Serialize,
        data: Data<'_>,
        spare: &Spare,
    ) -> Result<()> {
        let bulk = match data {
            Data::Owned(bulk) => bulk,
            Data::Borrowed(mut data, sum) => {
                if self.send_directly(head, message, (&mut data, sum), spare)? {
                    return Ok(());
                }
                Bulk::with_sum(copied(&data, spare), sum)
            }
        };
        let waiting = {
            let outbox = &mut locked(&self.queue).outbox;
            outbox.add_message(head, message, bulk)?;
            outbox.len()
        };
        if waiting > AT_ONCE || !defer(self) {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Sends a message and its data on the calling thread, as far as the network accepts it. The rest is copied, and
    /// the task sends it. False if another thread is sending; then nothing was sent.
    fn send_directly(
        &self,
        head: (Kind, u64, u32),
        message: &impl Serialize,
        (data, sum): (&mut Borrowed<'_>, u32),
        spare: &Spare,
    ) -> Result<bool> {
        let mut context = Context::from_waker(Waker::noop());
        let Ok(mut writer) = self.writer.try_lock() else { return Ok(false) };
        if writer.is_busy || !is_sent(self.poll(&mut writer, &mut context)) {
            return Ok(false);
        }
        {
            let outbox = &mut locked(&self.queue).outbox;
            outbox.add_before(head, message, (data, sum))?;
            outbox.move_to(&mut writer.outbox);
        }
        let Writer { to, outbox, .. } = &mut *writer;
        if !is_sent(outbox.poll_send_with(to, &mut context, data)) {
            outbox.add_rest(copied(data, spare));
            self.wake.notify_one();
        }
        Ok(true)
    }

    /// Ends the connection once everything was sent.
    pub(crate) fn close(&self) {
        locked(&self.queue).closed = true;
        self.wake.notify_one();
    }

    /// Sends the messages that callers left to the task, until the connection is closed or lost.
    pub(crate) async fn run(&self) -> Result<()> {
        loop {
            self.send_all().await?;
            if locked(&self.queue).closed {
                return self.say_goodbye().await;
            }
            self.wake.notified().await;
        }
    }

    /// Sends a goodbye. If that fails, the engine sees the end of the stream.
    async fn say_goodbye(&self) -> Result<()> {
        let (message, bulk) = Default::default();
        let goodbye = Frame { kind: Kind::Goodbye, call: 0, room: 0, message, bulk };
        locked(&self.queue).outbox.add(&goodbye)?;
        let _ = self.send_all().await;
        Ok(())
    }

    async fn send_all(&self) -> Result<()> {
        poll_fn(|context| {
            let mut writer = locked(&self.writer);
            let sent = self.poll(&mut writer, context);
            writer.is_busy = sent.is_pending();
            sent
        })
        .await
    }

    /// Sends all queued requests.
    fn poll(&self, writer: &mut Writer, context: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            if writer.outbox.is_empty() {
                locked(&self.queue).outbox.move_to(&mut writer.outbox);
            }
            let is_last = writer.outbox.is_empty();
            // Also with an empty outbox: bytes may still be in a buffer of the connection.
            match writer.outbox.poll_send(&mut writer.to, context) {
                Poll::Ready(Ok(())) if !is_last => {}
                other => return other,
            }
        }
    }
}

impl Deferred for Sending {
    /// Sends on the calling thread. The task sends the rest and handles errors.
    fn run(&self) {
        let mut context = Context::from_waker(Waker::noop());
        let done = match self.writer.try_lock() {
            // The task sends the queue, too.
            Ok(writer) if writer.is_busy => true,
            Ok(mut writer) => is_sent(self.poll(&mut writer, &mut context)),
            Err(TryLockError::Poisoned(_) | TryLockError::WouldBlock) => false,
        };
        if !done {
            self.wake.notify_one();
        }
    }
}
