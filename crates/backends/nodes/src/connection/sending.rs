//! Sending side of a connection to an engine. Callers add requests to a queue; those that are queued together are sent
//! together.
use crate::connection::socket::POLLING;
use bytes::Bytes;
use esker_os::executor::{Deferred, defer, is_waiting_here};
use esker_types::Result;
use esker_wire::frame::{Bulk, Frame, Kind, Sender};
use esker_wire::outbox::{Borrowed, Outbox};
use esker_wire::spare::Spare;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;
use tokio::sync::Notify;

/// Data of a request.
pub(crate) enum Data<'d> {
    /// Data that the request owns.
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
    /// Requests that callers have added.
    queue: Mutex<Queue>,
    /// The connection, for the thread or task that sends.
    writer: Mutex<Writer>,
    /// The socket at which a thread with long data waits for room, if there is one.
    socket: Option<Arc<OwnedFd>>,
    /// Longest wait of that thread.
    room_timeout: Timespec,
    /// A thread has the writer, perhaps for long. It wakes the task at the end.
    has_long: AtomicBool,
    /// Notified when the task has something to do.
    wake: Notify,
}

/// If more bytes are queued, the connection's task sends them at once, while the caller prepares the next request.
pub(crate) const AT_ONCE: usize = 256 << 10;

/// Time that a thread with long data waits for an engine that receives nothing. Then the task sends a copy.
const ROOM_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Requests that the writer has not got yet.
struct Queue {
    outbox: Outbox,
    /// True once the connection is to end.
    closed: bool,
}

/// The connection, and the requests on their way to it.
struct Writer {
    to: Box<dyn AsyncWrite + Send + Unpin>,
    /// Requests that were taken from the queue.
    outbox: Outbox,
    /// The task waits until it can send more. No thread may send meanwhile: the connection wakes only the last one that
    /// tried.
    is_busy: bool,
}

/// How much of a message was sent.
#[derive(PartialEq, Eq)]
enum Sent {
    /// The writer was busy.
    Nothing,
    /// The task sends the rest.
    Part,
    All,
}

/// True if everything was sent, without an error.
fn is_sent(polled: Poll<Result<()>>) -> bool {
    matches!(polled, Poll::Ready(Ok(())))
}

/// Copies data into memory that returns to `spare` once it was sent.
fn copied(data: &Borrowed<'_>, spare: &Spare) -> Bytes {
    let mut copy = spare.empty(data.len());
    data.pieces().for_each(|piece| copy.extend_from_slice(piece));
    spare.keep(copy)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sending {
    /// Sends to `to`, whose `socket` threads may wait for.
    pub(crate) fn new<W: AsyncWrite + Send + Unpin + 'static>(
        to: Sender<W>,
        socket: Option<Arc<OwnedFd>>,
    ) -> Self {
        let (to, outbox) = to.into_parts();
        let writer = Writer { to: Box::new(to), outbox: Outbox::default(), is_busy: false };
        let (queue, writer) = (Mutex::new(Queue { outbox, closed: false }), Mutex::new(writer));
        let (has_long, wake) = (AtomicBool::new(false), Notify::new());
        Self { queue, writer, socket, room_timeout: ROOM_TIMEOUT, has_long, wake }
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

    /// Sends a message and its data on the calling thread. If the network accepts no more, and the thread must not
    /// wait, copies the unsent bytes, and the sending task sends them. False if another thread is sending: nothing was
    /// sent.
    fn send_directly(
        &self,
        head: (Kind, u64, u32),
        message: &impl Serialize,
        (data, sum): (&mut Borrowed<'_>, u32),
        spare: &Spare,
    ) -> Result<bool> {
        let Ok(mut writer) = self.writer.try_lock() else { return Ok(false) };
        // The task would block its thread if it waited for the writer.
        self.has_long.store(true, Ordering::Release);
        let sent = self.send_by(&mut writer, head, message, (data, sum), spare);
        // The task may have the writer next: it must not leave it to this thread any more.
        self.has_long.store(false, Ordering::Release);
        drop(writer);
        // Others may have left their messages to the task meanwhile, which left them to this thread.
        if !matches!(sent, Ok(Sent::All)) || !locked(&self.queue).outbox.is_empty() {
            self.wake.notify_one();
        }
        Ok(sent? != Sent::Nothing)
    }

    /// Sends a message and its data by a writer. Bytes that the network does not accept now are copied.
    fn send_by(
        &self,
        writer: &mut Writer,
        head: (Kind, u64, u32),
        message: &impl Serialize,
        (data, sum): (&mut Borrowed<'_>, u32),
        spare: &Spare,
    ) -> Result<Sent> {
        let mut context = Context::from_waker(&POLLING);
        if writer.is_busy || !is_sent(self.poll(writer, &mut context)) {
            return Ok(Sent::Nothing);
        }
        {
            let outbox = &mut locked(&self.queue).outbox;
            outbox.add_before(head, message, (data, sum))?;
            outbox.move_to(&mut writer.outbox);
        }
        if self.send_long(writer, data) {
            return Ok(Sent::All);
        }
        writer.outbox.add_rest(copied(data, spare));
        Ok(Sent::Part)
    }

    /// Sends the outbox and the data behind it, and waits for the engine to receive them. False if something is left.
    fn send_long(&self, writer: &mut Writer, data: &mut Borrowed<'_>) -> bool {
        let mut context = Context::from_waker(&POLLING);
        let Writer { to, outbox, .. } = writer;
        loop {
            match outbox.poll_send_with(to, &mut context, data) {
                Poll::Ready(sent) => return sent.is_ok(),
                Poll::Pending if !self.wait_for_room() => return false,
                Poll::Pending => {}
            }
        }
    }

    /// Waits until the socket accepts more bytes. False after a time limit, or at once if this thread must not wait.
    fn wait_for_room(&self) -> bool {
        let Some(socket) = self.socket.as_ref().filter(|_| is_waiting_here()) else { return false };
        let mut room = [PollFd::new(socket, PollFlags::OUT)];
        matches!(poll(&mut room, Some(&self.room_timeout)), Ok(1..))
    }

    /// Requests the end of the connection, after all queued messages are sent.
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

    /// Sends a goodbye, and ends the stream to the engine. If a thread still sends long data, the stream ends with the
    /// connection.
    async fn say_goodbye(&self) -> Result<()> {
        let (message, bulk) = Default::default();
        let goodbye = Frame { kind: Kind::Goodbye, call: 0, room: 0, message, bulk };
        locked(&self.queue).outbox.add(&goodbye)?;
        let _ = self.send_all().await;
        poll_fn(|context| match self.writer.try_lock() {
            Ok(mut writer) => Pin::new(&mut writer.to).poll_shutdown(context).map(|_| ()),
            Err(_) => Poll::Ready(()),
        })
        .await;
        Ok(())
    }

    /// Sends what is queued. Returns at once while a thread sends a long request: that thread wakes the task at its
    /// end.
    async fn send_all(&self) -> Result<()> {
        poll_fn(|context| {
            if self.has_long.load(Ordering::Acquire) {
                return Poll::Ready(Ok(()));
            }
            let mut writer = locked(&self.writer);
            let sent = self.poll(&mut writer, context);
            writer.is_busy = sent.is_pending();
            sent
        })
        .await
    }

    /// Sends requests until the queue and all buffers are empty, or the connection takes no more.
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
    /// Sends queued messages on the calling thread. If the network does not accept all of them, or another thread is
    /// sending, wakes the sending task, which also handles errors.
    fn run(&self) {
        let mut context = Context::from_waker(&POLLING);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::socket::{self, Reading};
    use esker_os::executor::block_on;
    use esker_wire::frame::PREFIX_LEN;
    use std::io::{self, Read as _};
    use std::net::TcpListener;
    use std::sync::{OnceLock, Weak};
    use tokio::net::TcpStream;
    use tokio::runtime::{Builder, Runtime};

    /// More than the network takes at once.
    const LONG: usize = 64 << 20;

    /// Both ends of a connection. The runtime of the client does nothing until a test uses it.
    struct Ends {
        runtime: Runtime,
        sending: Arc<Sending>,
        engine: std::net::TcpStream,
        _reading: Reading,
    }

    impl Ends {
        /// A connection whose thread waits up to `room_timeout` for room in the network.
        fn new(room_timeout: Timespec) -> Self {
            let runtime = Builder::new_current_thread().enable_io().build().expect("a runtime");
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let address = listener.local_addr().expect("an address");
            let stream = runtime.block_on(TcpStream::connect(address)).expect("a connection");
            let (engine, _) = listener.accept().expect("a client");
            let (reading, writing) = runtime.block_on(async { socket::split(stream) }).unwrap();
            let socket = Some(reading.socket());
            let sending = Sending { room_timeout, ..Sending::new(Sender::new(writing), socket) };
            Self { runtime, sending: Arc::new(sending), engine, _reading: reading }
        }

        /// Sends a request with this data, borrowed.
        fn send(&self, data: &[u8]) {
            let (data, spare) = (Borrowed::new(vec![data]), Spare::default());
            let (head, data) = ((Kind::Request, 1, 0), Data::Borrowed(data, 0));
            block_on(async { self.sending.send(head, &"long", data, &spare) }).expect("a request");
        }

        /// True if nothing is left for the task.
        fn is_sent(&self) -> bool {
            locked(&self.sending.writer).outbox.is_empty()
        }
    }

    /// Starts a thread that returns all bytes which arrive at the engine until the connection is closed.
    fn receive(mut engine: std::net::TcpStream) -> std::thread::JoinHandle<Vec<u8>> {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            engine.read_to_end(&mut bytes).expect("bytes");
            bytes
        })
    }

    #[test]
    fn waiting_thread_sends_long_data_without_a_copy() {
        let ends = Ends::new(Timespec { tv_sec: 600, tv_nsec: 0 });
        let data: Vec<u8> = (0..LONG).map(|at| (at % 251) as u8).collect();
        let received = receive(ends.engine.try_clone().expect("a socket"));
        ends.send(&data);
        assert!(ends.is_sent());
        ends.sending.close();
        ends.runtime.block_on(ends.sending.run()).expect("a goodbye");
        drop(ends);
        let received = received.join().expect("a thread");
        let end = received.len() - PREFIX_LEN;
        assert!(received[end - LONG..end] == data, "the data is before the goodbye");
    }

    /// A connection that checks, at each write, whether the task of `sending` would wait for the thread that writes.
    struct Checking {
        sending: Arc<OnceLock<Weak<Sending>>>,
        task_waits: Arc<AtomicBool>,
    }

    impl AsyncWrite for Checking {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let sending = self.sending.get().and_then(Weak::upgrade).expect("the connection");
            if !sending.has_long.load(Ordering::Acquire) {
                self.task_waits.store(true, Ordering::Relaxed);
            }
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// A thread that sends long data marks this in `has_long`. The task therefore does not wait for the lock of the
    /// writer.
    #[test]
    fn task_does_not_wait_for_a_thread_that_sends_long_data() {
        let (known, task_waits) = (Arc::new(OnceLock::new()), Arc::new(AtomicBool::new(false)));
        let to = Checking { sending: Arc::clone(&known), task_waits: Arc::clone(&task_waits) };
        let sending = Arc::new(Sending::new(Sender::new(to), None));
        known.set(Arc::downgrade(&sending)).expect("once");
        let (data, spare) = (vec![7; 1 << 20], Spare::default());
        let (head, data) = ((Kind::Request, 1, 0), Data::Borrowed(Borrowed::new(vec![&data]), 0));
        block_on(async { sending.send(head, &"long", data, &spare) }).expect("a request");
        assert!(!task_waits.load(Ordering::Relaxed));
        assert!(!sending.has_long.load(Ordering::Relaxed));
    }

    /// A thread gives up waiting for the engine after [`ROOM_TIMEOUT`]. The rest is copied for the task, so the caller
    /// may change its data at once.
    #[test]
    fn engine_that_receives_nothing_leaves_the_data_to_the_task() {
        let ends = Ends::new(ROOM_TIMEOUT);
        let mut data = vec![7; LONG];
        ends.send(&data);
        assert!(!ends.is_sent());
        data.fill(0);
        let received = receive(ends.engine.try_clone().expect("a socket"));
        ends.sending.close();
        ends.runtime.block_on(ends.sending.run()).expect("a goodbye");
        drop(ends);
        let received = received.join().expect("a thread");
        let end = received.len() - PREFIX_LEN;
        assert!(received[end - LONG..end].iter().all(|byte| *byte == 7));
    }
}
