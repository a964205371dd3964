//! Timeouts for clients that stop sending or receiving.
use std::future::Future;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// Timeout of a client, which starts again at each activity.
pub(crate) struct Patience {
    limit: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, waiting: None }
    }

    /// Returns the result of a poll, `done`. If that is pending for longer than the limit, returns an error instead.
    pub(crate) fn watch<T>(
        &mut self,
        done: Poll<T>,
        context: &mut Context<'_>,
    ) -> Poll<std::result::Result<T, Error>> {
        if let Poll::Ready(done) = done {
            self.waiting = None;
            return Poll::Ready(Ok(done));
        }
        let limit = self.limit;
        let waiting =
            self.waiting.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + limit)));
        waiting.as_mut().poll(context).map(|()| Err(stopped(limit)))
    }
}

#[cold]
fn stopped(limit: Duration) -> Error {
    let seconds = limit.as_secs_f64();
    Error::new(ErrorKind::TimedOut, format!("the client did nothing for {seconds} seconds"))
}

/// A connection that ends in an error if the client stops receiving.
pub(crate) struct Timed<S> {
    stream: S,
    patience: Patience,
}

impl<S> Timed<S> {
    pub(crate) fn new(stream: S, limit: Duration) -> Self {
        Self { stream, patience: Patience::new(limit) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let this = &mut *self;
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.patience.watch(written, context).map(|written| written?)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let this = &mut *self;
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, bytes);
        this.patience.watch(written, context).map(|written| written?)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let this = &mut *self;
        let flushed = Pin::new(&mut this.stream).poll_flush(context);
        this.patience.watch(flushed, context).map(|flushed| flushed?)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let this = &mut *self;
        let shut = Pin::new(&mut this.stream).poll_shutdown(context);
        this.patience.watch(shut, context).map(|shut| shut?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test(start_paused = true)]
    async fn write_fails_once_the_client_stops_receiving() {
        let (ours, mut theirs) = duplex(16);
        let mut ours = Timed::new(ours, Duration::from_secs(60));
        // It is slow, but takes a little each time.
        let taken = tokio::spawn(async move {
            let mut count = 0;
            while count < 64 {
                tokio::time::advance(Duration::from_secs(59)).await;
                count += theirs.read(&mut [0; 16]).await.unwrap();
            }
            theirs
        });
        ours.write_all(&[0; 64]).await.unwrap();
        let _theirs = taken.await.unwrap();
        let begin = Instant::now();
        let error = ours.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(begin.elapsed().as_secs(), 60);
    }
}
