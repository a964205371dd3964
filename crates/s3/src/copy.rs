//! Copying objects within the server.
use crate::body::Received;
use crate::bucket::{Bucket, Hidden};
use crate::condition::Condition;
use crate::fault::Outcome;
use crate::find::{Found, find, tags};
use crate::limits::{PIECE_BYTES, RETRIES_MAX};
use crate::record::Tags;
use crate::sums::Sums;
use dfs::{File, Kind, Open};
use esker::types::{Error, ErrorKind};
use std::ops::Range;

/// The open source of a copy.
pub(crate) struct Source {
    pub(crate) found: Found,
    /// `None` for a directory, which has no content.
    file: Option<File>,
}

impl Source {
    /// Opens the object that is to be copied, if `condition` holds for it.
    pub(crate) fn open(bucket: &Bucket, key: &str, condition: &Condition) -> Outcome<Self> {
        let found = opened(bucket, key, |found| match found.attr.kind {
            Kind::File => Ok(Some(found.node.open(Open::READ)?)),
            _ => Ok(None),
        })?;
        condition.check_source(&found.0.etag(), found.0.attr.mtime)?;
        Ok(Self { found: found.0, file: found.1 })
    }

    /// The tags of the source.
    pub(crate) fn tags(&self) -> Outcome<Tags> {
        tags(&self.found)
    }

    /// Copies a byte range of the source object to a new hidden file in bucket `to`. Returns the file, and the size and
    /// checksums of the bytes; `sums` computes them.
    pub(crate) fn copy(
        &self,
        to: &Bucket,
        range: Range<u64>,
        mut sums: Sums,
    ) -> Outcome<(Hidden, Received)> {
        let (hidden, file) = Hidden::file(to)?;
        let size = range.end - range.start;
        if let Some(source) = &self.file {
            copy_range(source, range, &file, 0, |piece| sums.update(piece))?;
        }
        file.close()?;
        Ok((hidden, Received { size, summed: sums.finish() }))
    }
}

/// Copies a range of one file to offset `at` in another, which no other writer uses. Passes each piece to `seen`.
pub(crate) fn copy_range(
    from: &File,
    range: Range<u64>,
    to: &File,
    at: u64,
    mut seen: impl FnMut(&[u8]),
) -> Outcome<()> {
    let mut buffer = vec![0; PIECE_BYTES.min((range.end - range.start) as usize)];
    let (mut next, mut at) = (range.start, at);
    while next < range.end {
        let piece = &mut buffer[..PIECE_BYTES.min((range.end - next) as usize)];
        if from.read_at(next, piece)? < piece.len() {
            return Err(
                Error::new(ErrorKind::PastEnd, "the file was cut while it was copied").into()
            );
        }
        seen(piece);
        to.write_at(at, piece)?;
        (next, at) = (next + piece.len() as u64, at + piece.len() as u64);
    }
    Ok(())
}

/// Finds an object and opens it with `open`, or reads its attributes. If the object is replaced in between, `open` does
/// not find it: then tries again with the new one.
pub(crate) fn opened<T>(
    bucket: &Bucket,
    key: &str,
    open: impl Fn(&Found) -> Outcome<T>,
) -> Outcome<(Found, T)> {
    for _ in 1..RETRIES_MAX {
        let found = find(bucket, key)?;
        match open(&found) {
            Err(fault) if fault.is_missing() => {}
            opened => return Ok((found, opened?)),
        }
    }
    let found = find(bucket, key)?;
    let opened = open(&found)?;
    Ok((found, opened))
}
