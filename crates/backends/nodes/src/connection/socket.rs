//! The reading and the writing side of a TCP connection, which children made by fork do not keep open.
//!
//! The runtime watches the socket only while a task waits for it. Otherwise each reply would wake the runtime's thread,
//! although the calling thread polls for it.
#![allow(unsafe_code)]
use esker_os::ClosedInChildren;
use esker_types::{Error, Result};
use rustix::io::retry_on_intr;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, sendmsg, shutdown};
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Wake, Waker, ready};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// Waker of polls that do not wait. It must be unique: comparing those of [`Waker::noop`] is unreliable.
pub(crate) static POLLING: LazyLock<Waker> = LazyLock::new(|| Waker::from(Arc::new(NoWake)));

/// Does nothing when it is woken.
struct NoWake;

impl Wake for NoWake {
    fn wake(self: Arc<Self>) {}
}

/// Reads from a connection. A poll with [`POLLING`] does not register a waker: it cancels the wait of a task, which
/// must poll again.
pub(crate) struct Reading {
    /// The socket, while a task waits for it.
    registered: Option<AsyncFd<Arc<OwnedFd>>>,
    /// The last read had room left: the next one will hardly find more.
    was_drained: bool,
    /// Dropped before the socket is closed.
    _closed: ClosedInChildren,
    socket: Arc<OwnedFd>,
}

/// Writes to a connection. Polls with [`POLLING`] are like those of [`Reading`].
pub(crate) struct Writing {
    /// The socket, while a task waits for it.
    registered: Option<AsyncFd<Arc<OwnedFd>>>,
    /// Dropped before the socket is closed.
    _closed: ClosedInChildren,
    socket: Arc<OwnedFd>,
}

/// Splits a connection into its two directions. Both are closed in children made by fork, which would otherwise keep
/// the connection open.
///
/// # Errors
/// `Io` if there are too many open files.
pub(crate) fn split(stream: TcpStream) -> Result<(Reading, Writing)> {
    let split = || {
        let to = OwnedFd::from(stream.into_std()?);
        let (from, from_closed) = closed_in_children(to.try_clone()?);
        let (to, to_closed) = closed_in_children(to);
        let reading = Reading {
            registered: None,
            was_drained: false,
            _closed: from_closed,
            socket: Arc::new(from),
        };
        Ok((reading, Writing { registered: None, _closed: to_closed, socket: Arc::new(to) }))
    };
    split().map_err(|error| Error::io("opening a connection", &error))
}

/// Registers a socket with the runtime.
fn watched<S: AsFd + AsRawFd>(socket: S, interest: Interest) -> io::Result<AsyncFd<S>> {
    // SAFETY: the descriptor is owned, and its owner never replaces it: it stays open and the same while it is
    // registered.
    let watched = unsafe { AsyncFd::register_with_interest(socket, interest) };
    watched.map_err(|error| error.into_parts().1)
}

/// Receives the bytes that have arrived, as far as there is room.
fn receive_arrived(socket: BorrowedFd<'_>, buffer: &mut ReadBuf<'_>) -> io::Result<()> {
    // SAFETY: only `recv` uses the memory, and only to write to it.
    let room = unsafe { buffer.unfilled_mut() };
    let received = retry_on_intr(|| {
        recv(socket, &mut *room, RecvFlags::DONTWAIT).map(|((received, _), _)| received.len())
    })?;
    // SAFETY: `recv` has written that many bytes.
    unsafe { buffer.assume_init(received) };
    buffer.advance(received);
    Ok(())
}

/// Adds the guard that closes the socket in children made by fork.
fn closed_in_children(socket: OwnedFd) -> (OwnedFd, ClosedInChildren) {
    let closed = ClosedInChildren::new(socket.as_fd());
    (socket, closed)
}

impl Reading {
    /// Returns the socket at which replies arrive.
    pub(crate) fn socket(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.socket)
    }

    fn registered(&mut self) -> io::Result<&AsyncFd<Arc<OwnedFd>>> {
        registered(&mut self.registered, &self.socket, Interest::READABLE)
    }
}

impl Writing {
    fn registered(&mut self) -> io::Result<&AsyncFd<Arc<OwnedFd>>> {
        registered(&mut self.registered, &self.socket, Interest::WRITABLE)
    }
}

/// Returns the registration of the socket with the runtime. Registers it at the first call.
fn registered<'r>(
    present: &'r mut Option<AsyncFd<Arc<OwnedFd>>>,
    socket: &Arc<OwnedFd>,
    interest: Interest,
) -> io::Result<&'r AsyncFd<Arc<OwnedFd>>> {
    let registered = match present.take() {
        Some(registered) => registered,
        None => watched(Arc::clone(socket), interest)?,
    };
    Ok(present.insert(registered))
}

impl AsyncRead for Reading {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let was_drained = std::mem::take(&mut self.was_drained);
        let is_polling = context.waker().will_wake(&POLLING);
        if is_polling {
            self.registered = None;
        }
        if is_polling && was_drained {
            return Poll::Pending;
        }
        loop {
            match receive_arrived(self.socket.as_fd(), buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                received => {
                    self.was_drained = buffer.remaining() > 0;
                    return Poll::Ready(received);
                }
            }
            if is_polling {
                return Poll::Pending;
            }
            ready!(self.registered()?.poll_read_ready(context))?.clear_ready();
        }
    }
}

impl AsyncWrite for Writing {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let is_polling = context.waker().will_wake(&POLLING);
        if is_polling {
            self.registered = None;
        }
        loop {
            let mut nothing = SendAncillaryBuffer::default();
            // SIGPIPE would end programs that do not know of connections.
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            let mut send = || sendmsg(&self.socket, pieces, &mut nothing, flags);
            match retry_on_intr(&mut send).map_err(io::Error::from) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
            if is_polling {
                return Poll::Pending;
            }
            ready!(self.registered()?.poll_write_ready(context))?.clear_ready();
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(shutdown(&self.socket, Shutdown::Write)?))
    }
}

impl Drop for Writing {
    /// The engine sees the end of the connection although the reading side is open.
    fn drop(&mut self) {
        let _ = shutdown(&self.socket, Shutdown::Write);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::TcpListener;
    use tokio::runtime::Builder;

    /// Reads at most 16 bytes, once. Pending if none have arrived.
    fn read(reading: &mut Reading, waker: &Waker) -> Poll<Vec<u8>> {
        let mut bytes = [0; 16];
        let mut buffer = ReadBuf::new(&mut bytes);
        let polled = Pin::new(reading).poll_read(&mut Context::from_waker(waker), &mut buffer);
        polled.map(|read| {
            read.expect("bytes");
            buffer.filled().to_vec()
        })
    }

    /// Only a task registers the socket at its runtime. A poll of a thread ends the registration.
    #[test]
    fn thread_without_a_runtime_polls_without_registering() {
        let runtime = Builder::new_current_thread().enable_io().build().expect("a runtime");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let stream = runtime.block_on(TcpStream::connect(address)).expect("a connection");
        let (mut engine, _) = listener.accept().expect("a client");
        let sides = runtime.block_on(async { split(stream) });
        let (mut reading, _writing) = sides.expect("two sides");
        assert!(read(&mut reading, &POLLING).is_pending());
        assert!(reading.registered.is_none());
        // A task waits, until a thread polls.
        assert!(runtime.block_on(async { read(&mut reading, Waker::noop()) }).is_pending());
        assert!(reading.registered.is_some());
        assert!(read(&mut reading, &POLLING).is_pending());
        assert!(reading.registered.is_none());
        engine.write_all(b"a reply").expect("a write");
        let arrived = loop {
            if let Poll::Ready(arrived) = read(&mut reading, &POLLING) {
                break arrived;
            }
        };
        assert_eq!(arrived, b"a reply");
    }
}
