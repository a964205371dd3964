//! The caller's buffers as one stream of bytes.
use crate::Result;
use std::borrow::Cow;

/// Source of an update's bytes: the caller's buffers, in order.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// One buffer.
    One(&'a [u8]),
    /// Several, read one after the other.
    Many(&'a [&'a [u8]]),
}

impl<'a> Source<'a> {
    /// Bytes of all buffers together.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::One(buffer) => buffer.len() as u64,
            Self::Many(buffers) => buffers.iter().map(|buffer| buffer.len() as u64).sum(),
        }
    }

    /// True if it holds no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The `len` bytes from `offset` on in one piece; copied only if they come from several buffers.
    /// Bytes past the end are left out.
    #[must_use]
    pub fn part(&self, offset: u64, len: u64) -> Cow<'a, [u8]> {
        match self {
            Self::One(buffer) => {
                let range = overlap(0, buffer.len(), offset, offset.saturating_add(len));
                Cow::Borrowed(range.map_or(&[], |(from, to)| &buffer[from..to]))
            }
            Self::Many(_) => {
                let mut bytes = Vec::with_capacity(len as usize);
                self.visit(offset, len, |piece| bytes.extend_from_slice(piece));
                Cow::Owned(bytes)
            }
        }
    }

    /// Passes the `len` bytes from `offset` on to `visit`, piece by piece. Bytes past the end are left out.
    pub fn visit(&self, offset: u64, len: u64, mut visit: impl FnMut(&[u8])) {
        let end = offset.saturating_add(len);
        let mut at = 0;
        let mut piece = |buffer: &[u8]| {
            if let Some((from, to)) = overlap(at, buffer.len(), offset, end) {
                visit(&buffer[from..to]);
            }
            at += buffer.len() as u64;
        };
        match self {
            Self::One(buffer) => piece(buffer),
            Self::Many(buffers) => buffers.iter().for_each(|buffer| piece(buffer)),
        }
    }
}

/// Destination of a fetch's bytes: the caller's buffers, in order.
#[derive(Debug, Default)]
pub enum Sink<'a> {
    /// Nowhere: only sizes are wanted.
    #[default]
    None,
    /// One buffer.
    One(&'a mut [u8]),
    /// Several, filled one after the other.
    Many(Vec<&'a mut [u8]>),
}

impl Sink<'_> {
    /// Bytes of all buffers together.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::One(buffer) => buffer.len() as u64,
            Self::Many(buffers) => buffers.iter().map(|buffer| buffer.len() as u64).sum(),
        }
    }

    /// True if no byte fits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Passes the space for the `len` bytes from `offset` on to `fill`, piece by piece. Bytes that do not fit are left
    /// out.
    ///
    /// # Errors
    /// The first error of `fill`.
    pub fn visit(
        &mut self,
        offset: u64,
        len: u64,
        mut fill: impl FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let end = offset.saturating_add(len);
        let mut at = 0;
        let mut piece = |buffer: &mut [u8]| {
            let range = overlap(at, buffer.len(), offset, end);
            at += buffer.len() as u64;
            range.map_or(Ok(()), |(from, to)| fill(&mut buffer[from..to]))
        };
        match self {
            Self::None => Ok(()),
            Self::One(buffer) => piece(buffer),
            Self::Many(buffers) => buffers.iter_mut().try_for_each(|buffer| piece(buffer)),
        }
    }

    /// Copies `bytes` to the buffers, from their byte `offset` on. Bytes that do not fit are left out.
    pub fn put(&mut self, offset: u64, bytes: &[u8]) {
        let mut rest = bytes;
        // A copy does not fail.
        let _ = self.visit(offset, bytes.len() as u64, |place| {
            let (head, tail) = rest.split_at(place.len());
            place.copy_from_slice(head);
            rest = tail;
            Ok(())
        });
    }
}

/// Range within a buffer that holds the stream's bytes `offset..end`; `None` if it holds none of them. The buffer has
/// `len` bytes and begins at stream offset `at`.
fn overlap(at: u64, len: usize, offset: u64, end: u64) -> Option<(usize, usize)> {
    let from = offset.clamp(at, at + len as u64) - at;
    let to = end.clamp(at, at + len as u64) - at;
    (from < to).then_some((from as usize, to as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_and_sinks_cut_at_buffer_edges() {
        let source = Source::Many(&[b"abc", b"", b"defg"]);
        let mut seen = Vec::new();
        source.visit(2, 3, |piece| seen.push(piece.to_vec()));
        assert_eq!(seen, [b"c".to_vec(), b"de".to_vec()]);
        let (mut a, mut b) = ([0; 3], [0; 4]);
        let mut sink = Sink::Many(vec![&mut a, &mut b]);
        sink.put(2, b"xyz");
        assert_eq!(sink.len(), 7);
        assert_eq!((a, b), ([0, 0, b'x'], [b'y', b'z', 0, 0]));
    }
}
