//! Bounds the unverified bytes of a request's body, and the wait for its next bytes.
//!
//! A client may sign each chunk of a body, of a size that it chooses, and `s3s` holds a chunk until its signature is
//! verified. This module counts the bytes that went into `s3s` since bytes last came out.
use crate::document::Document;
use crate::framing::Framing;
use crate::limits::CHUNK_BYTES_MAX;
use crate::timed::Patience;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use s3s::{S3ErrorCode, StdError};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

/// Number of bytes of a body that went into `s3s` since bytes last came out. Clones share the number.
#[derive(Clone, Default)]
pub(crate) struct Held(Arc<AtomicUsize>);

impl Held {
    /// Resets the count: bytes came out, so all before them are verified.
    pub(crate) fn release(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Counts bytes that go into `s3s`. Fails above `CHUNK_BYTES_MAX`: the chunk that they belong to is too long.
    fn add(&self, bytes: usize) -> Result<(), StdError> {
        match self.0.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) {
            0..=CHUNK_BYTES_MAX => Ok(()),
            _ => Err(format!(
                "a chunk of the body has more than {CHUNK_BYTES_MAX} bytes (CHUNK_BYTES_MAX): send smaller ones"
            )
            .into()),
        }
    }
}

/// True once the reading of the body has begun. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Begun(Arc<AtomicBool>);

impl Begun {
    /// True once the first bytes were requested. The server then asks a client with `Expect: 100-continue` to send the
    /// body.
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A body that ends in an error if too much of it is held, or if its client stops sending.
pub(crate) struct Metered {
    pub(crate) body: Incoming,
    pub(crate) held: Held,
    pub(crate) patience: Patience,
    pub(crate) framing: Framing,
    pub(crate) document: Document,
    pub(crate) begun: Begun,
}

impl Metered {
    /// Checks the next bytes of the body: their number, framing and checksums. At the end, also the whole body.
    fn pass(&mut self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, StdError> {
        let bytes = frame.data_ref().map_or(&[][..], |bytes| bytes);
        self.held.add(bytes.len())?;
        self.framing.advance(bytes)?;
        self.document.add(bytes)?;
        if self.body.is_end_stream() {
            self.end()?;
        }
        Ok(frame)
    }

    /// Checks that the body is complete, after its last byte.
    fn end(&self) -> Result<(), StdError> {
        self.framing.check_end()?;
        self.document.finish()
    }
}

impl Body for Metered {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let this = &mut *self;
        this.begun.0.store(true, Ordering::Relaxed);
        let frame = Pin::new(&mut this.body).poll_frame(context);
        Poll::Ready(match ready!(this.patience.watch(frame, context)) {
            Err(stopped) => {
                this.document.fail(S3ErrorCode::RequestTimeout, &stopped.to_string());
                Some(Err(stopped.into()))
            }
            Ok(None) => this.end().err().map(Err),
            Ok(Some(frame)) => {
                Some(frame.map_err(StdError::from).and_then(|frame| this.pass(frame)))
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream() && self.framing.check_end().is_ok()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_memory_is_bounded() {
        let held = Held::default();
        for _ in 0..3 {
            assert!(held.add(CHUNK_BYTES_MAX).is_ok());
            assert!(held.add(1).is_err());
            held.release();
        }
        assert!(held.add(usize::MAX).is_err());
    }
}
