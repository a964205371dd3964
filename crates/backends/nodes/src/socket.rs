//! A TCP connection in two halves, which children made by fork do not keep open.
//!
//! The runtime learns that a half can go on only while somebody waits for it: a thread that looks for replies itself
//! would otherwise wake the runtime's with each of them.
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

/// Of whoever only looks. There must be one of it: comparing those of [`Waker::noop`] is unreliable.
pub(crate) static LOOKING: LazyLock<Waker> = LazyLock::new(|| Waker::from(Arc::new(Nobody)));

struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

/// Reads from a connection. A poll with [`LOOKING`] only looks: whoever waits for the half is not told any more, and
/// must poll it again.
pub(crate) struct Reading {
    /// The socket, while somebody waits.
    waited_for: Option<AsyncFd<Arc<OwnedFd>>>,
    /// The last read had room left: the next look will hardly find more.
    was_drained: bool,
    /// Dropped before the socket is closed.
    _closed: ClosedInChildren,
    socket: Arc<OwnedFd>,
}

/// Writes to a connection.
pub(crate) struct Writing {
    _closed: ClosedInChildren,
    socket: AsyncFd<OwnedFd>,
}

/// The two halves of a connection.
///
/// # Errors
/// `Io` if there are too many open files.
pub(crate) fn split(stream: TcpStream) -> Result<(Reading, Writing)> {
    let halves = || {
        let to = OwnedFd::from(stream.into_std()?);
        let (from, from_closed) = closed_in_children(to.try_clone()?);
        let (to, to_closed) = closed_in_children(to);
        let socket = watched(to, Interest::WRITABLE)?;
        let reading = Reading {
            waited_for: None,
            was_drained: false,
            _closed: from_closed,
            socket: Arc::new(from),
        };
        Ok((reading, Writing { _closed: to_closed, socket }))
    };
    halves().map_err(|error| Error::io("opening a connection", &error))
}

/// A socket that the runtime watches.
fn watched<S: AsFd + AsRawFd>(socket: S, interest: Interest) -> io::Result<AsyncFd<S>> {
    // SAFETY: the descriptor is owned, and whoever owns it never replaces it: it stays open and the same for as long as it
    // is watched.
    let watched = unsafe { AsyncFd::register_with_interest(socket, interest) };
    watched.map_err(|error| error.into_parts().1)
}

/// Receives what has arrived, as far as there is room.
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

fn closed_in_children(socket: OwnedFd) -> (OwnedFd, ClosedInChildren) {
    let closed = ClosedInChildren::new(socket.as_fd());
    (socket, closed)
}

impl Reading {
    /// Where bytes arrive.
    pub(crate) fn socket(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.socket)
    }

    fn waited_for(&mut self) -> io::Result<&AsyncFd<Arc<OwnedFd>>> {
        let waited_for = match self.waited_for.take() {
            Some(waited_for) => waited_for,
            None => watched(Arc::clone(&self.socket), Interest::READABLE)?,
        };
        Ok(self.waited_for.insert(waited_for))
    }
}

impl AsyncRead for Reading {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let was_drained = std::mem::take(&mut self.was_drained);
        let is_looking = context.waker().will_wake(&LOOKING);
        if is_looking {
            self.waited_for = None;
        }
        if is_looking && was_drained {
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
            if is_looking {
                return Poll::Pending;
            }
            ready!(self.waited_for()?.poll_read_ready(context))?.clear_ready();
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
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut nothing = SendAncillaryBuffer::default();
            // A signal would end programs that know nothing of connections.
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            let mut send = || sendmsg(self.socket.get_ref(), pieces, &mut nothing, flags);
            match retry_on_intr(&mut send).map_err(io::Error::from) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    ready!(self.socket.poll_write_ready(context))?.clear_ready();
                }
                sent => return Poll::Ready(sent),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(shutdown(self.socket.get_ref(), Shutdown::Write)?))
    }
}

impl Drop for Writing {
    /// The engine sees the end of the connection although the other half is open.
    fn drop(&mut self) {
        let _ = shutdown(self.socket.get_ref(), Shutdown::Write);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::TcpListener;
    use tokio::runtime::Builder;

    fn read(reading: &mut Reading, waker: &Waker) -> Poll<Vec<u8>> {
        let mut bytes = [0; 16];
        let mut buffer = ReadBuf::new(&mut bytes);
        let polled = Pin::new(reading).poll_read(&mut Context::from_waker(waker), &mut buffer);
        polled.map(|read| {
            read.expect("bytes");
            buffer.filled().to_vec()
        })
    }

    #[test]
    fn a_thread_without_a_runtime_looks_and_registers_nothing() {
        let runtime = Builder::new_current_thread().enable_io().build().expect("a runtime");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let stream = runtime.block_on(TcpStream::connect(address)).expect("a connection");
        let (mut engine, _) = listener.accept().expect("a client");
        let halves = runtime.block_on(async { split(stream) });
        let (mut reading, _writing) = halves.expect("two halves");
        assert!(read(&mut reading, &LOOKING).is_pending());
        assert!(reading.waited_for.is_none());
        // A task waits, until somebody looks.
        assert!(runtime.block_on(async { read(&mut reading, Waker::noop()) }).is_pending());
        assert!(reading.waited_for.is_some());
        assert!(read(&mut reading, &LOOKING).is_pending());
        assert!(reading.waited_for.is_none());
        engine.write_all(b"a reply").expect("a write");
        let arrived = loop {
            if let Poll::Ready(arrived) = read(&mut reading, &LOOKING) {
                break arrived;
            }
        };
        assert_eq!(arrived, b"a reply");
    }
}
