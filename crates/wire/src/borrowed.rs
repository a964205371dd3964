//! Data that is sent from where it is.

/// Data that stays with the caller while it is sent, in pieces.
#[derive(Debug, Default)]
pub struct Borrowed<'d> {
    /// What was not sent yet, the last piece first.
    pieces: Vec<&'d [u8]>,
    left: usize,
}

impl<'d> Borrowed<'d> {
    /// Data in these pieces.
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

    /// What was not sent yet, piece by piece.
    pub fn pieces(&self) -> impl Iterator<Item = &'d [u8]> {
        self.pieces.iter().rev().copied()
    }

    /// Notes that the next `count` bytes were sent.
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
