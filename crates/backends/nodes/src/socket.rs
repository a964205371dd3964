//! The reading half of a connection, which children made by fork do not keep open.
use esker_os::ClosedInChildren;
use std::io;
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// Reads from a connection.
pub(crate) struct Reading {
    /// Dropped before the half, and so before the socket is closed.
    _closed: ClosedInChildren,
    half: OwnedReadHalf,
}

/// The two halves of a connection.
pub(crate) fn split(stream: TcpStream) -> (Reading, OwnedWriteHalf) {
    let _closed = ClosedInChildren::new(stream.as_fd());
    let (half, to) = stream.into_split();
    (Reading { _closed, half }, to)
}

impl AsyncRead for Reading {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.half).poll_read(context, buffer)
    }
}
