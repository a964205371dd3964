//! Sending: a range of a file goes to the client, piece by piece.
use crate::fault::Outcome;
use crate::limits::PIECE_BYTES;
use crate::metrics::Metrics;
use crate::workers::Workers;
use bytes::Bytes;
use dfs::File;
use esker::types::{Error, ErrorKind};
use futures_core::Stream;
use s3s::StdError;
use s3s::stream::{ByteStream, RemainingLength};
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::task::JoinHandle;

/// A range of a file, as a client takes it. While it takes one piece, the next is read.
pub(crate) struct Reading {
    file: Option<Arc<File>>,
    rest: Range<u64>,
    /// What is read already.
    first: Option<Bytes>,
    next: Option<JoinHandle<Outcome<Bytes>>>,
    /// Bytes that the client has not got.
    missing: u64,
    workers: Workers,
    metrics: Arc<Metrics>,
}

/// The beginning of a range, and the open file.
pub(crate) struct Begun {
    file: File,
    range: Range<u64>,
    first: Bytes,
}

impl Begun {
    /// Reads the first piece of a range, which the file has.
    pub(crate) fn new(file: File, range: Range<u64>) -> Outcome<Self> {
        let first = read(&file, &range)?;
        Ok(Self { file, range, first })
    }

    /// All of it, as a stream.
    pub(crate) fn stream(self, workers: &Workers, metrics: &Arc<Metrics>) -> Reading {
        let missing = self.range.end - self.range.start;
        let rest = self.range.start + self.first.len() as u64..self.range.end;
        let mut reading = Reading {
            file: Some(Arc::new(self.file)),
            rest,
            first: Some(self.first).filter(|first| !first.is_empty()),
            next: None,
            missing,
            workers: workers.clone(),
            metrics: Arc::clone(metrics),
        };
        reading.read_ahead();
        reading
    }
}

/// The next piece of a range.
fn read(file: &File, range: &Range<u64>) -> Outcome<Bytes> {
    let len = (range.end - range.start).min(PIECE_BYTES as u64) as usize;
    let mut bytes = vec![0; len];
    match file.read_at(range.start, &mut bytes)? == len {
        true => Ok(bytes.into()),
        false => Err(Error::new(ErrorKind::PastEnd, "the file was cut while it was read").into()),
    }
}

impl Reading {
    fn read_ahead(&mut self) {
        let Some(file) = self.file.clone().filter(|_| !self.rest.is_empty()) else {
            // Its end may block.
            Workers::drop_later(self.file.take());
            return;
        };
        let (workers, range) = (self.workers.clone(), self.rest.clone());
        self.rest.start += (range.end - range.start).min(PIECE_BYTES as u64);
        let work = async move { workers.run(move || read(&file, &range)).await };
        self.next = Some(tokio::spawn(work));
    }
}

impl Stream for Reading {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let read = match (this.first.take(), &mut this.next) {
            (Some(first), _) => Ok(first),
            (None, Some(next)) => {
                let read = ready!(Pin::new(next).poll(context));
                this.next = None;
                let read = read.map_err(StdError::from);
                let read =
                    read.and_then(|read| read.map_err(|fault| s3s::S3Error::from(fault).into()));
                this.read_ahead();
                read
            }
            (None, None) => return Poll::Ready(None),
        };
        let bytes = read.as_ref().map_or(0, |read| read.len() as u64);
        this.missing = this.missing.saturating_sub(bytes);
        this.metrics.sent_bytes.add(bytes);
        Poll::Ready(Some(read))
    }
}

impl ByteStream for Reading {
    fn remaining_length(&self) -> RemainingLength {
        RemainingLength::new_exact(usize::try_from(self.missing).unwrap_or(usize::MAX))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(next) = self.next.take() {
            next.abort();
        }
        Workers::drop_later(self.file.take());
    }
}
