//! Sending: a range of an object goes to the client, piece by piece.
use crate::bucket::Bucket;
use crate::fault::Outcome;
use crate::limits::{PIECE_BYTES, PIECES_IN_PLACE};
use crate::metrics::Metrics;
use crate::plain::Cells;
use bytes::Bytes;
use dfs::File;
use esker::types::{Error, ErrorKind};
use futures_core::Stream;
use s3s::StdError;
use s3s::stream::{ByteStream, RemainingLength};
use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The content of an object.
pub(crate) enum Content {
    File {
        file: File,
        /// Counts as in use while this value exists.
        _bucket: Bucket,
    },
    Cells(Cells),
    Bytes(Bytes),
}

/// A range of the content of an object, read as the client takes it.
pub(crate) struct Reading {
    content: Content,
    /// Bytes that are not read yet.
    rest: Range<u64>,
    /// Pieces that were already read.
    ready: VecDeque<Bytes>,
    metrics: Arc<Metrics>,
}

/// Number of bytes of these pieces.
fn len(pieces: &VecDeque<Bytes>) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}

/// Reads the next pieces of `range`, at least one unless it is empty.
fn read(content: &Content, range: &Range<u64>) -> Outcome<VecDeque<Bytes>> {
    match content {
        _ if range.is_empty() => Ok(VecDeque::new()),
        Content::File { file, .. } => read_file(file, range),
        Content::Cells(cells) => {
            Ok([cells.bytes(range.start, piece(range.start, range.end))?].into())
        }
        Content::Bytes(bytes) => Ok([bytes.slice(range.start as usize..range.end as usize)].into()),
    }
}

/// Reads one piece of a file by a copy, or up to [`PIECES_IN_PLACE`] in place, which take no memory.
fn read_file(file: &File, range: &Range<u64>) -> Outcome<VecDeque<Bytes>> {
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

/// Length of the piece at offset `at` of a range that ends at `end`. Pieces end at multiples of [`PIECE_BYTES`], at
/// which the pieces of a written file end, too. So each is read as one.
fn piece(at: u64, end: u64) -> u64 {
    let whole = PIECE_BYTES as u64;
    (whole - at % whole).min(end - at)
}

/// Reads `len` bytes of a file at offset `at` into memory. Fails if the file has become shorter.
fn copied(file: &File, at: u64, len: u64) -> Outcome<Bytes> {
    let mut bytes = vec![0; len as usize];
    match file.read_at(at, &mut bytes)? as u64 == len {
        true => Ok(bytes.into()),
        false => Err(Error::new(ErrorKind::PastEnd, "the file was cut while it was read").into()),
    }
}

impl Reading {
    /// A reading of `range`, which must be within the content. Reads the first pieces already, so that an error still
    /// gives an error reply.
    pub(crate) fn new(
        content: Content,
        range: Range<u64>,
        metrics: &Arc<Metrics>,
    ) -> Outcome<Self> {
        let metrics = Arc::clone(metrics);
        let mut reading = Self { content, rest: range, ready: VecDeque::new(), metrics };
        reading.read()?;
        Ok(reading)
    }

    /// Reads the next pieces; none at the end.
    fn read(&mut self) -> Outcome<()> {
        self.ready = read(&self.content, &self.rest)?;
        self.rest.start += len(&self.ready);
        Ok(())
    }

    /// The next piece; `None` at the end.
    fn next(&mut self) -> Outcome<Option<Bytes>> {
        if self.ready.is_empty() {
            self.read()?;
        }
        let piece = self.ready.pop_front();
        self.metrics.sent_bytes.add(piece.as_ref().map_or(0, |piece| piece.len() as u64));
        Ok(piece)
    }
}

impl Stream for Reading {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.next().map_err(|fault| s3s::S3Error::from(fault).into()).transpose())
    }
}

impl ByteStream for Reading {
    fn remaining_length(&self) -> RemainingLength {
        let missing = self.rest.end - self.rest.start + len(&self.ready);
        RemainingLength::new_exact(usize::try_from(missing).unwrap_or(usize::MAX))
    }
}
