//! Sending: a range of a file goes to the client, piece by piece.
use crate::fault::Outcome;
use crate::limits::{PIECE_BYTES, PIECES_IN_PLACE};
use crate::metrics::Metrics;
use crate::workers::Workers;
use bytes::Bytes;
use dfs::File;
use esker::types::{Error, ErrorKind};
use futures_core::Stream;
use s3s::StdError;
use s3s::stream::{ByteStream, RemainingLength};
use std::collections::VecDeque;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::task::JoinHandle;

/// A range of a file, as a client takes it. While it takes some pieces, the next are read.
pub(crate) struct Reading {
    file: Option<Arc<File>>,
    rest: Range<u64>,
    /// What is read already.
    ready: VecDeque<Bytes>,
    next: Option<JoinHandle<Outcome<VecDeque<Bytes>>>>,
    /// Bytes that the client has not got.
    missing: u64,
    workers: Workers,
    metrics: Arc<Metrics>,
}

/// The beginning of a range, and the open file.
pub(crate) struct Begun {
    file: File,
    range: Range<u64>,
    first: VecDeque<Bytes>,
}

impl Begun {
    /// Reads the first pieces of a range, which the file has.
    pub(crate) fn new(file: File, range: Range<u64>) -> Outcome<Self> {
        let first = read(&file, &range)?;
        Ok(Self { file, range, first })
    }

    /// All of it, as a stream.
    pub(crate) fn stream(self, workers: &Workers, metrics: &Arc<Metrics>) -> Reading {
        let missing = self.range.end - self.range.start;
        let mut reading = Reading {
            file: Some(Arc::new(self.file)),
            rest: self.range.start + len(&self.first)..self.range.end,
            ready: self.first,
            next: None,
            missing,
            workers: workers.clone(),
            metrics: Arc::clone(metrics),
        };
        reading.read_ahead();
        reading
    }
}

fn len(pieces: &VecDeque<Bytes>) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}

/// The next pieces of a range: one that is copied, or several that are used in place, which take no memory.
fn read(file: &File, range: &Range<u64>) -> Outcome<VecDeque<Bytes>> {
    let (mut pieces, mut at) = (VecDeque::new(), range.start);
    while at < range.end && pieces.len() < PIECES_IN_PLACE {
        let piece = piece(at, range.end);
        match file.view_at(at, piece)? {
            Some(view) => pieces.push_back(view.into_bytes()),
            None if pieces.is_empty() => return Ok([copied(file, at, piece)?].into()),
            None => break,
        }
        at += piece;
    }
    Ok(pieces)
}

/// Bytes of the piece at `at`. Pieces end where those of the whole file do: what is stored in one piece is read as one.
fn piece(at: u64, end: u64) -> u64 {
    let whole = PIECE_BYTES as u64;
    (whole - at % whole).min(end - at)
}

fn copied(file: &File, at: u64, len: u64) -> Outcome<Bytes> {
    let mut bytes = vec![0; len as usize];
    match file.read_at(at, &mut bytes)? as u64 == len {
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
        let work = async move { workers.run(move || read(&file, &range)).await };
        self.next = Some(tokio::spawn(work));
    }
}

impl Stream for Reading {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.ready.is_empty() {
            let Some(next) = &mut this.next else { return Poll::Ready(None) };
            let read = ready!(Pin::new(next).poll(context));
            this.next = None;
            match read.map_err(StdError::from) {
                Ok(Ok(pieces)) => this.ready = pieces,
                Ok(Err(fault)) => return Poll::Ready(Some(Err(s3s::S3Error::from(fault).into()))),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
            this.rest.start += len(&this.ready);
            this.read_ahead();
        }
        let piece = this.ready.pop_front();
        let bytes = piece.as_ref().map_or(0, |piece| piece.len() as u64);
        this.missing = this.missing.saturating_sub(bytes);
        this.metrics.sent_bytes.add(bytes);
        Poll::Ready(piece.map(Ok))
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
