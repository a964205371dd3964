//! Data that is sent without a copy.

/// Data in pieces that the caller keeps while it is sent.
#[derive(Debug, Default)]
pub struct Borrowed<'d> {
    /// Pieces that were not sent yet, the last one first.
    pieces: Vec<&'d [u8]>,
    /// Bytes of these pieces.
    left: usize,
}

impl<'d> Borrowed<'d> {
    /// Borrows data that consists of `pieces`.
    #[must_use]
    pub fn new(mut pieces: Vec<&'d [u8]>) -> Self {
        pieces.retain(|piece| !piece.is_empty());
        pieces.reverse();
        let left = pieces.iter().map(|piece| piece.len()).sum();
        Self { pieces, left }
    }

    /// Bytes that were not sent yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.left
    }

    /// True if everything was sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Pieces that were not sent yet.
    pub fn pieces(&self) -> impl Iterator<Item = &'d [u8]> {
        self.pieces.iter().rev().copied()
    }

    /// Records that the next `count` bytes were sent.
    pub(crate) fn advance(&mut self, mut count: usize) {
        self.left -= count;
        while let Some(piece) = self.pieces.last_mut().filter(|_| count > 0) {
            let part = count.min(piece.len());
            *piece = &piece[part..];
            count -= part;
            if piece.is_empty() {
                self.pieces.pop();
            }
        }
    }
}
