//! The reading half of a connection, which children made by fork do not keep open.
use esker_os::ClosedInChildren;
use esker_types::Result;
use esker_wire::tls::{self, Binding};
use std::io;
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, ReadBuf, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// Reads from a connection.
pub(crate) struct Reading<H> {
    /// Dropped before the half, and so before the socket is closed.
    _closed: ClosedInChildren,
    half: H,
}

/// A connection with TLS.
type Secured = tls::Stream<TcpStream>;

/// The two halves of a connection.
pub(crate) fn split(stream: TcpStream) -> (Reading<OwnedReadHalf>, OwnedWriteHalf) {
    let _closed = ClosedInChildren::new(stream.as_fd());
    let (half, to) = stream.into_split();
    (Reading { _closed, half }, to)
}

/// Begins TLS. Returns the two halves, and what binds the handshake to them.
///
/// # Errors
/// Those of [`tls::connect`].
pub(crate) async fn secure(
    stream: TcpStream,
) -> Result<(Reading<ReadHalf<Secured>>, WriteHalf<Secured>, Binding)> {
    let _closed = ClosedInChildren::new(stream.as_fd());
    let (stream, binding) = tls::connect(stream).await?;
    let (half, to) = tokio::io::split(stream);
    Ok((Reading { _closed, half }, to, binding))
}

impl<H: AsyncRead + Unpin> AsyncRead for Reading<H> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.half).poll_read(context, buffer)
    }
}
