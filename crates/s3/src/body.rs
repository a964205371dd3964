//! Receives the body of a request, and writes it to a file piece by piece.
use crate::bucket::{Bucket, Hidden};
use crate::fault::{Fault, Outcome};
use crate::framing::Framing;
use crate::limits::{PIECE_BYTES, PUT_BYTES_MAX, SMALL_BYTES_MAX};
use crate::metered::Held;
use crate::metrics::Metrics;
use crate::sums::{Expected, Summed, Sums};
use bytes::Bytes;
use futures_core::Stream;
use hyper::{HeaderMap, StatusCode};
use s3s::dto::StreamingBlob;
use s3s::{S3Error, S3ErrorCode};
use std::future::poll_fn;
use std::pin::Pin;

/// The header with the size of content that is sent in chunks.
const DECODED_LENGTH: &str = "x-amz-decoded-content-length";

/// Size and checksums of a received body.
pub(crate) struct Received {
    pub(crate) size: u64,
    pub(crate) summed: Summed,
}

/// The body of a request.
pub(crate) struct Incoming {
    body: Option<StreamingBlob>,
    /// Bytes received after the last complete piece.
    rest: Bytes,
    expected: Expected,
    /// Checksums of the bytes received so far.
    sums: Sums,
    size: u64,
    /// Bytes that the request announces.
    announced: Option<u64>,
    held: Held,
}

impl Incoming {
    /// The body of a request. Its `announced` size is checked before any of it arrives. `held` is released with the
    /// first bytes.
    pub(crate) fn new(
        body: Option<StreamingBlob>,
        expected: Expected,
        announced: Option<i64>,
        held: Option<Held>,
    ) -> Outcome<Self> {
        let announced = announced.and_then(|bytes| u64::try_from(bytes).ok());
        check_size(announced.unwrap_or(0))?;
        let held = held.unwrap_or_default();
        let sums = expected.sums();
        Ok(Self { body, rest: Bytes::new(), expected, sums, size: 0, announced, held })
    }

    /// Stores the body in a hidden file, which it creates after the first piece has arrived. A small body stays in
    /// memory, so that one transaction stores and publishes it.
    pub(crate) async fn store(
        mut self,
        metrics: &Metrics,
        bucket: &Bucket,
    ) -> Outcome<(Hidden, Received)> {
        let mut piece = self.piece(metrics).await?;
        // A piece that is not complete is the last one.
        if self.size <= SMALL_BYTES_MAX {
            return Ok((Hidden::small_file(piece), self.received()?));
        }
        let (hidden, file) = Hidden::file(bucket)?;
        let mut at = 0;
        while !piece.is_empty() {
            let parts: Vec<&[u8]> = piece.iter().map(|part| &part[..]).collect();
            at += file.write_vectored_at(at, &parts)? as u64;
            piece = self.piece(metrics).await?;
        }
        file.close()?;
        Ok((hidden, self.received()?))
    }

    /// Size and checksums of the body, if they are those that the client announced.
    fn received(self) -> Outcome<Received> {
        if self.announced.is_some_and(|bytes| bytes != self.size) {
            return Err(Fault::new(
                S3ErrorCode::IncompleteBody,
                "the body is not as long as announced",
            ));
        }
        let received = Received { size: self.size, summed: self.sums.finish() };
        self.expected.check(&received.summed)?;
        Ok(received)
    }

    /// Receives a body that should have no bytes, and verifies what its client announced. Returns false if it has bytes.
    ///
    /// # Errors
    /// The errors of [`Self::received`], if it has none.
    pub(crate) async fn receive_empty(mut self, metrics: &Metrics) -> Outcome<bool> {
        match self.piece(metrics).await?.is_empty() {
            true => self.received().map(|_| true),
            false => Ok(false),
        }
    }

    /// Receives the next [`PIECE_BYTES`], or fewer at the end. Empty after the last piece.
    async fn piece(&mut self, metrics: &Metrics) -> Outcome<Vec<Bytes>> {
        let (mut piece, mut missing) = (Vec::new(), PIECE_BYTES);
        while missing > 0 {
            if self.rest.is_empty() {
                let Some(next) = self.receive().await? else { break };
                metrics.received_bytes.add(next.len() as u64);
                self.size += next.len() as u64;
                check_size(self.size)?;
                // Summed up here, while the bytes are in the cache of this processor.
                self.sums.update(&next);
                self.rest = next;
            }
            let part = self.rest.split_to(missing.min(self.rest.len()));
            missing -= part.len();
            piece.push(part);
        }
        Ok(piece)
    }

    /// Receives the next bytes of the body; `None` at its end.
    async fn receive(&mut self) -> Outcome<Option<Bytes>> {
        let Some(body) = &mut self.body else { return Ok(None) };
        match poll_fn(|context| Pin::new(&mut *body).poll_next(context)).await {
            Some(Ok(bytes)) => {
                self.held.release();
                Ok(Some(bytes))
            }
            Some(Err(error)) => Err(body_fault(error)),
            None => {
                self.body = None;
                Ok(None)
            }
        }
    }
}

/// The size of the content that a request announces. If the request has `Content-Length`, `s3s` gives the size as
/// `length`. Otherwise the body is in chunks, and `x-amz-decoded-content-length` has the size of its content.
pub(crate) fn announced_size(length: Option<i64>, headers: &HeaderMap) -> Option<i64> {
    length.or_else(|| {
        let is_chunked = Framing::new(headers) != Framing::None;
        headers.get(DECODED_LENGTH).filter(|_| is_chunked)?.to_str().ok()?.parse().ok()
    })
}

/// The S3 error for a body that ended early, whose signature is wrong, or whose client stopped sending.
fn body_fault(error: s3s::StdError) -> Fault {
    if has_stopped(&*error) {
        return Fault::new(S3ErrorCode::RequestTimeout, error.to_string());
    }
    match error.downcast::<s3s::S3Error>() {
        Ok(error) => Fault::S3(*error),
        Err(error) => verification_fault(&error.to_string()).unwrap_or_else(|| {
            Fault::new(S3ErrorCode::IncompleteBody, format!("the body did not arrive: {error}"))
        }),
    }
}

/// The S3 error for a body that arrived but is not the one that was signed; `None` for other errors. The types of `s3s`
/// for such errors are private, so their text is examined.
pub(crate) fn verification_fault(error: &str) -> Option<Fault> {
    if error.contains("Sha256Mismatch") {
        let code = S3ErrorCode::Custom("XAmzContentSHA256Mismatch".into());
        let why = "the SHA-256 of the body is not the one in x-amz-content-sha256: send it again";
        let mut error = S3Error::with_message(code, why);
        error.set_status_code(StatusCode::BAD_REQUEST);
        return Some(error.into());
    }
    let why = "the signature of a chunk of the body does not match: check the secret of the access key, and sign \
               what is sent";
    let is_wrong = error.contains("SignatureMismatch");
    is_wrong.then(|| Fault::new(S3ErrorCode::SignatureDoesNotMatch, why))
}

/// True if the client sent nothing for too long: a timeout is among the causes of `error`.
fn has_stopped(error: &(dyn std::error::Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut io = causes.filter_map(|error| error.downcast_ref::<std::io::Error>());
    io.any(|error| error.kind() == std::io::ErrorKind::TimedOut)
}

/// Refuses a body larger than a PUT may be.
fn check_size(bytes: u64) -> Outcome<()> {
    match bytes <= PUT_BYTES_MAX {
        true => Ok(()),
        false => {
            let why = format!(
                "at most {PUT_BYTES_MAX} bytes are put at a time (PUT_BYTES_MAX): upload parts"
            );
            Err(Fault::new(S3ErrorCode::EntityTooLarge, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sums::Etags;

    /// A body without content, from a request with this size and `Content-MD5`.
    fn nothing(announced: i64, md5: &str) -> Incoming {
        let headers = Default::default();
        let expected = Expected::new(Etags::default(), Some(md5.to_owned()), &headers, None);
        Incoming::new(None, expected, Some(announced), None).unwrap()
    }

    #[tokio::test]
    async fn body_without_content_is_verified() {
        let (metrics, md5) = (Metrics::default(), "1B2M2Y8AsgTpgAmY7PhCfg==");
        assert!(nothing(0, md5).receive_empty(&metrics).await.unwrap());
        let cut = nothing(1, md5).receive_empty(&metrics).await;
        assert!(cut.is_err_and(|fault| fault.is_code("IncompleteBody")));
        let wrong = nothing(0, "AAAAAAAAAAAAAAAAAAAAAA==").receive_empty(&metrics).await;
        assert!(wrong.is_err_and(|fault| fault.is_code("BadDigest")));
    }
}
