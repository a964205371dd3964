//! Reading and writing a connection as asynchronous streams.
use crate::fabric::flow::Flow;
use esker_types::Error;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

/// State that the reader, the writer and the driver of a connection share.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Notified when the driver has something to do.
    pub(crate) wake: Notify,
    /// The peer must be told of every piece.
    pub(crate) rings: bool,
}

/// State under the lock.
pub(crate) struct State {
    pub(crate) flow: Flow,
    /// Wakes the task that waits to read.
    reader: Option<Waker>,
    /// Wakes the task that waits to write.
    writer: Option<Waker>,
}

impl Shared {
    pub(crate) fn new(flow: Flow, rings: bool) -> Arc<Self> {
        let state = Mutex::new(State { flow, reader: None, writer: None });
        Arc::new(Self { state, wake: Notify::new(), rings })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the driver task if it has work: it must ring for a piece that was sent, offer a piece to the provider
    /// again, or end.
    fn note(&self, flow: &Flow) {
        if self.rings || flow.is_refused() || flow.over().is_some() {
            self.wake.notify_one();
        }
    }
}

impl State {
    /// Makes progress, and wakes the reader and the writer. True if there was progress.
    pub(crate) fn progress(&mut self) -> bool {
        let has_worked = self.flow.progress();
        if has_worked {
            self.wake_all();
        }
        has_worked
    }

    /// Wakes the reader and the writer.
    pub(crate) fn wake_all(&mut self) {
        let waiting = [self.reader.take(), self.writer.take()];
        waiting.into_iter().flatten().for_each(Waker::wake);
    }
}

/// Reads from a connection.
pub struct Reading(pub(crate) Arc<Shared>);

/// Writes to a connection.
pub struct Writing(pub(crate) Arc<Shared>);

impl Reading {
    /// Reads what has arrived, and returns credits for the slots that it has freed. If nothing had arrived, it reads
    /// again after the fabric has made progress. At the end of the stream, it reads nothing.
    fn poll(&self, context: &Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let state = &mut *self.0.state();
        let mut put = |bytes: &[u8]| {
            let count = bytes.len().min(buffer.remaining());
            buffer.put_slice(&bytes[..count]);
            count
        };
        let mut read = state.flow.read(&mut put);
        // Reading has freed slots, and the peer needs credits for them.
        state.progress();
        if read.is_none() {
            read = state.flow.read(&mut put);
        }
        self.0.note(&state.flow);
        if read.is_some() || state.flow.has_ended() {
            return Poll::Ready(Ok(()));
        }
        match state.flow.over() {
            Some(None) => Poll::Ready(Ok(())),
            Some(Some(error)) => Poll::Ready(Err(io_error(error))),
            None => {
                state.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl AsyncRead for Reading {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match buffer.remaining() {
            0 => Poll::Ready(Ok(())),
            _ => self.poll(context, buffer),
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.state().flow.stop_reading();
        self.0.wake.notify_one();
    }
}

impl Writing {
    /// Writes as far as there are credits and free slots. Returns the number of bytes. If there are none, it tries
    /// again after the fabric has made progress.
    fn poll(&self, context: &Context<'_>, data: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let state = &mut *self.0.state();
        if let Some(over) = state.flow.over() {
            let closed = || io::ErrorKind::BrokenPipe.into();
            return Poll::Ready(Err(over.as_ref().map_or_else(closed, io_error)));
        }
        let mut written = state.flow.write(data);
        if let Ok(None) = written {
            state.progress();
            written = state.flow.write(data);
        }
        if let Err(error) = &written {
            state.flow.end(Some(error.clone()));
        }
        self.0.note(&state.flow);
        match written {
            Ok(Some(count)) => Poll::Ready(Ok(count)),
            Err(error) => Poll::Ready(Err(io_error(&error))),
            Ok(None) => {
                state.writer = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl AsyncWrite for Writing {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(data)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match data.iter().all(|slice| slice.is_empty()) {
            true => Poll::Ready(Ok(0)),
            false => self.poll(context, data),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing, because each write has passed its data to the fabric already.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.state().flow.stop_writing();
        self.0.wake.notify_one();
        Poll::Ready(Ok(()))
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.state().flow.stop_writing();
        self.0.wake.notify_one();
    }
}

fn io_error(error: &Error) -> io::Error {
    io::Error::other(error.message().to_owned())
}
