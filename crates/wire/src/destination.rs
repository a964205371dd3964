//! Memory of a caller, which receives the data of a reply without a copy.

/// The caller's buffers, in order.
#[derive(Debug, Default)]
pub struct Destination<'d> {
    pieces: Vec<&'d mut [u8]>,
    len: usize,
}

impl<'d> Destination<'d> {
    /// The memory that consists of `pieces`.
    #[must_use]
    pub fn new(pieces: Vec<&'d mut [u8]>) -> Self {
        let len = pieces.iter().map(|piece| piece.len()).sum();
        Self { pieces, len }
    }

    /// Bytes of all buffers together.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if no byte fits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The buffer that holds byte `at`, from that byte on; empty if no buffer holds it.
    pub(crate) fn room(&mut self, mut at: usize) -> &mut [u8] {
        for piece in &mut self.pieces {
            if at < piece.len() {
                return &mut piece[at..];
            }
            at -= piece.len();
        }
        &mut []
    }
}
