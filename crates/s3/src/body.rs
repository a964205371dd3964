//! Receiving: what a client sends goes to a file, piece by piece.
use crate::bucket::{Bucket, Hidden};
use crate::fault::{Fault, Outcome};
use crate::limits::{PIECE_BYTES, PUT_BYTES_MAX};
use crate::metered::Held;
use crate::metrics::Metrics;
use crate::sums::{Expected, Summed, Sums};
use crate::workers::{Later, Workers};
use bytes::Bytes;
use dfs::File;
use futures_core::Stream;
use s3s::S3ErrorCode;
use s3s::dto::StreamingBlob;
use std::future::poll_fn;
use std::pin::Pin;

/// All that arrived.
pub(crate) struct Received {
    pub(crate) size: u64,
    pub(crate) summed: Summed,
}

/// The body of a request.
pub(crate) struct Incoming {
    body: Option<StreamingBlob>,
    /// What arrived beyond the last piece.
    rest: Bytes,
    expected: Expected,
    /// Bytes that the request announces.
    announced: Option<u64>,
    held: Held,
}

/// A file that is being written, and the sums of what was.
struct Writing {
    hidden: Hidden,
    file: File,
    sums: Sums,
    at: u64,
}

impl Incoming {
    pub(crate) fn new(
        body: Option<StreamingBlob>,
        expected: Expected,
        announced: Option<i64>,
        held: Option<Held>,
    ) -> Outcome<Self> {
        let announced = announced.and_then(|bytes| u64::try_from(bytes).ok());
        check_size(announced.unwrap_or(0))?;
        let held = held.unwrap_or_default();
        Ok(Self { body, rest: Bytes::new(), expected, announced, held })
    }

    /// Stores all of it in a hidden file, and then does what is left to do there, where work may block.
    pub(crate) async fn store<T: Send + 'static>(
        mut self,
        (workers, metrics): (&Workers, &Metrics),
        bucket: &Bucket,
        finish: impl FnOnce(&Bucket, Hidden, Received) -> Outcome<T> + Send + 'static,
    ) -> Outcome<T> {
        let (expected, announced, bucket) = (self.expected.clone(), self.announced, bucket.clone());
        let mut piece = self.piece(metrics).await?;
        let mut writing: Later<Writing> = Later::default();
        while self.body.is_some() {
            // The next piece arrives while this one is written.
            let (bucket, before) = (bucket.clone(), writing.take());
            let sums = self.expected.sums();
            let write = workers.run(move || Writing::write(before, &bucket, sums, &piece));
            let (written, next) = tokio::join!(write, self.piece(metrics));
            (writing, piece) = (Later::new(written?), next?);
        }
        let sums = expected.sums();
        workers
            .run(move || {
                let written = Writing::write(writing.take(), &bucket, sums, &piece)?;
                let (hidden, received) = written.end()?;
                if announced.is_some_and(|bytes| bytes != received.size) {
                    return Err(Fault::new(
                        S3ErrorCode::IncompleteBody,
                        "the body is not as long as announced",
                    ));
                }
                expected.check(&received.summed)?;
                finish(&bucket, hidden, received)
            })
            .await
    }

    /// True if nothing arrives.
    pub(crate) async fn is_empty(&mut self, metrics: &Metrics) -> Outcome<bool> {
        Ok(self.piece(metrics).await?.is_empty())
    }

    /// The next [`PIECE_BYTES`], or fewer at the end.
    async fn piece(&mut self, metrics: &Metrics) -> Outcome<Vec<Bytes>> {
        let (mut piece, mut missing) = (Vec::new(), PIECE_BYTES);
        while missing > 0 {
            if self.rest.is_empty() {
                let Some(next) = self.receive().await? else { break };
                metrics.received_bytes.add(next.len() as u64);
                self.rest = next;
            }
            let part = self.rest.split_to(missing.min(self.rest.len()));
            missing -= part.len();
            piece.push(part);
        }
        Ok(piece)
    }

    /// The next bytes, as they arrive.
    async fn receive(&mut self) -> Outcome<Option<Bytes>> {
        let Some(body) = &mut self.body else { return Ok(None) };
        match poll_fn(|context| Pin::new(&mut *body).poll_next(context)).await {
            Some(Ok(bytes)) => {
                self.held.release();
                Ok(Some(bytes))
            }
            Some(Err(error)) => Err(broken(error)),
            None => {
                self.body = None;
                Ok(None)
            }
        }
    }
}

/// The body ended early, its signature is wrong, or its client stopped sending.
fn broken(error: s3s::StdError) -> Fault {
    if has_stopped(&*error) {
        return Fault::new(S3ErrorCode::RequestTimeout, error.to_string());
    }
    match error.downcast::<s3s::S3Error>() {
        Ok(error) => Fault::S3(*error),
        Err(error) => {
            Fault::new(S3ErrorCode::IncompleteBody, format!("the body did not arrive: {error}"))
        }
    }
}

fn has_stopped(error: &(dyn std::error::Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut io = causes.filter_map(|error| error.downcast_ref::<std::io::Error>());
    io.any(|error| error.kind() == std::io::ErrorKind::TimedOut)
}

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

impl Writing {
    /// Appends a piece to the file, which is made for the first one with these sums.
    fn write(before: Option<Self>, bucket: &Bucket, sums: Sums, piece: &[Bytes]) -> Outcome<Self> {
        let mut writing = match before {
            Some(writing) => writing,
            None => {
                let (hidden, file) = Hidden::file(bucket)?;
                Self { hidden, file, sums, at: 0 }
            }
        };
        let parts: Vec<&[u8]> = piece.iter().map(|part| &part[..]).collect();
        parts.iter().for_each(|part| writing.sums.update(part));
        writing.at += writing.file.write_vectored_at(writing.at, &parts)? as u64;
        check_size(writing.at)?;
        Ok(writing)
    }

    fn end(self) -> Outcome<(Hidden, Received)> {
        self.file.close()?;
        Ok((self.hidden, Received { size: self.at, summed: self.sums.finish() }))
    }
}
