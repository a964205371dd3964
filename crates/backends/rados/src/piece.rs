//! The bytes of values, in memory or stored.
use esker_backend::object::records::Payload;
use esker_types::limits::CHECKSUM_CHUNK;
use esker_types::ops::Source;
use esker_types::{Checksum, Error, ErrorKind, Result};
use std::sync::Arc;

/// Location of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Location {
    /// In memory: not written yet, or in the record itself.
    Inline(Vec<u8>),
    /// In the data of the RADOS object that has the record, at this offset.
    ObjectData(u64),
    /// In a RADOS object of their own.
    Blob([u8; 16]),
}

/// Bytes that were written at once, with their checksums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Body {
    pub(super) location: Location,
    pub(super) len: u64,
    /// One checksum for every [`CHECKSUM_CHUNK`] bytes; none for bytes in memory.
    pub(super) sums: Vec<u8>,
}

impl Body {
    /// A body in memory.
    fn here(bytes: Vec<u8>) -> Self {
        Self { len: bytes.len() as u64, location: Location::Inline(bytes), sums: Vec::new() }
    }
}

/// Part of a body.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) body: Arc<Body>,
    /// First byte of the part.
    pub(super) from: u64,
    pub(super) len: u64,
}

impl Payload for Piece {
    fn take(source: Source<'_>, offset: u64, len: u64) -> Self {
        let mut bytes = Vec::with_capacity(len as usize);
        source.visit(offset, len, |piece| bytes.extend_from_slice(piece));
        Self::here(bytes)
    }

    fn part(&self, from: u64, len: u64) -> Self {
        Self { body: Arc::clone(&self.body), from: self.from + from, len }
    }
}

impl Piece {
    /// A piece of all bytes of a body.
    pub(super) fn whole(body: Body) -> Self {
        let len = body.len;
        Self { body: Arc::new(body), from: 0, len }
    }

    /// A piece in memory.
    pub(super) fn here(bytes: Vec<u8>) -> Self {
        Self::whole(Body::here(bytes))
    }

    /// Returns the bytes of the piece if they are in memory. None if they are in a RADOS object.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        match &self.body.location {
            Location::Inline(bytes) => {
                bytes.get(self.from as usize..(self.from + self.len) as usize)
            }
            _ => None,
        }
    }

    /// The part of the body needed to verify the `len` bytes of this piece from `from` on: offset and length in the
    /// body.
    pub(super) fn window(&self, from: u64, len: u64) -> (u64, u64) {
        let chunk = CHECKSUM_CHUNK as u64;
        let (first, last) = (self.from + from, self.from + from + len);
        let begin = first / chunk * chunk;
        (begin, last.next_multiple_of(chunk).min(self.body.len) - begin)
    }

    /// Verifies the checksums of what was read of the body from `offset` on.
    pub(super) fn verify(&self, checksum: Checksum, offset: u64, data: &[u8]) -> Result<()> {
        let first = (offset / CHECKSUM_CHUNK as u64) as usize;
        for (index, chunk) in data.chunks(CHECKSUM_CHUNK).enumerate() {
            if !checksum.matches(chunk, &self.body.sums, first + index) {
                return Err(damaged_pool_error("bytes do not match their checksum"));
            }
        }
        Ok(())
    }
}

/// The piece for `bytes` that the caller stores at `location`. It refers to them there, and has their checksums.
pub(super) fn stored_piece(location: Location, bytes: &[u8], checksum: Checksum) -> Piece {
    let mut sums = Vec::new();
    checksum.push_all(bytes, &mut sums);
    Piece::whole(Body { location, len: bytes.len() as u64, sums })
}

#[cold]
pub(super) fn damaged_pool_error(what: &str) -> Error {
    Error::new(
        ErrorKind::Checksum,
        format!("a rados pool is damaged: {what}: see `ceph health detail`, and restore the data"),
    )
}
