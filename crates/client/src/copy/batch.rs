//! A part of an object in memory, on its way from one container to another.
use super::BUFFER_BYTES;
use esker_types::Extent;
use std::ops::Range;

/// Limit of pieces per batch. A batch is written by one commit if the destination has transactions.
pub(super) const PIECES_MAX: usize = 256;

/// The content of an akey, or a part of it.
pub(super) struct Piece {
    pub(super) akey: Vec<u8>,
    pub(super) kind: Kind,
    /// The range of its bytes in [`Batch::bytes`].
    pub(super) range: Range<usize>,
}

/// Kind of the value of an akey.
pub(super) enum Kind {
    Single,
    Array { record_size: u64, extents: Vec<Extent> },
}

/// Pieces, grouped by dkey.
#[derive(Default)]
pub(super) struct Batch {
    /// The values of all pieces, one after the other.
    pub(super) bytes: Vec<u8>,
    /// Each dkey with its pieces.
    pub(super) dkeys: Vec<(Vec<u8>, Vec<Piece>)>,
    pieces: usize,
}

impl Batch {
    /// True if the batch is to be written before more is added.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= BUFFER_BYTES || self.pieces >= PIECES_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces == 0
    }

    /// Empties the batch after it was written, and keeps its memory for the next one.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.dkeys.clear();
        self.pieces = 0;
    }

    /// Reserves `len` bytes at the end of the buffer, and returns their range. [`Batch::add`] or [`Batch::release`]
    /// must follow.
    pub(super) fn room(&mut self, len: usize) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.resize(start + len, 0);
        start..start + len
    }

    /// Removes the bytes from position `start` on from the buffer.
    pub(super) fn release(&mut self, start: usize) {
        self.bytes.truncate(start);
    }

    /// Adds a piece to the batch. Returns true if it begins a new dkey, and so counts as one more key copied.
    pub(super) fn add(&mut self, dkey: &[u8], piece: Piece) -> bool {
        self.pieces += 1;
        match self.dkeys.last_mut() {
            Some((last, pieces)) if last == dkey => {
                pieces.push(piece);
                false
            }
            _ => {
                self.dkeys.push((dkey.to_vec(), vec![piece]));
                true
            }
        }
    }
}
