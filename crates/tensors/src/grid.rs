//! The chunks of a tensor, and the parts of chunks that a selection touches.
use crate::limits::{CHUNK_BYTES_MAX, DIMENSIONS_MAX, TENSOR_BYTES_MAX};
use crate::slab::Slab;
use crate::strided::row_major;
use esker_types::{Error, ErrorKind, Result};

/// Bytes of a chunk, unless its shape is given. A chunk is stored on one target and written by one commit.
const CHUNK_BYTES: u64 = 4 << 20;

/// The shapes of a tensor and of its chunks, and the size of an element.
///
/// Chunks are numbered in C order. Each occupies the same number of bytes in the tensor's Array, also at the edges:
/// the element at index `i` of chunk `c` is at byte `c * chunk_bytes + (position of i in C order) * item`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    shape: Vec<u64>,
    chunks: Vec<u64>,
    item: u64,
}

/// The indexes of one dimension that are in one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Number of the chunk in this dimension.
    pub(crate) chunk: u64,
    /// Position of the first index in the chunk.
    pub(crate) local: u64,
    /// Number of indexes of the selection before them.
    pub(crate) before: u64,
    /// Number of its indexes.
    pub(crate) count: u64,
}

impl Grid {
    /// Divides `shape`, with elements of `item` bytes, into chunks of the shape `chunks`. Without `chunks`, each chunk
    /// has complete rows of up to 4 MiB, so that it is contiguous in the tensor.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if shapes do not match or a limit is exceeded, which the message names.
    pub fn new(shape: &[u64], chunks: Option<&[u64]>, item: u64) -> Result<Self> {
        let chunks = chunks.map_or_else(|| choose(shape, item), <[u64]>::to_vec);
        let grid = Self::with_any_chunks(shape, &chunks, item)?;
        grid.check_chunks()?;
        Ok(grid)
    }

    /// A grid for chunks outside the store, which may be larger than its chunks.
    pub(crate) fn with_any_chunks(shape: &[u64], chunks: &[u64], item: u64) -> Result<Self> {
        let grid = Self { shape: shape.to_vec(), chunks: chunks.to_vec(), item };
        grid.check()?;
        Ok(grid)
    }

    /// Checks the number of dimensions, the shape of the chunks, and the size of the tensor in complete chunks.
    fn check(&self) -> Result<()> {
        let (shape, chunks) = (&self.shape, &self.chunks);
        let refuse = |text: String| Err(Error::new(ErrorKind::Invalid, text));
        if shape.len() > DIMENSIONS_MAX {
            let count = shape.len();
            return refuse(format!(
                "{count} dimensions are more than {DIMENSIONS_MAX} (DIMENSIONS_MAX)"
            ));
        }
        if chunks.len() != shape.len() || chunks.contains(&0) {
            return refuse(format!(
                "chunks of the shape {chunks:?} do not suit the shape {shape:?}: give a length of at least 1 for each \
                 dimension"
            ));
        }
        let whole: Vec<u64> =
            self.counts().zip(chunks).map(|(n, c)| n.saturating_mul(*c)).collect();
        // A dimension of length 0 counts as 1, so that the product of the others is limited, too.
        let nonzero: Vec<u64> = whole.iter().map(|count| (*count).max(1)).collect();
        if self.product(&nonzero).is_none_or(|bytes| bytes > TENSOR_BYTES_MAX) {
            return refuse(format!(
                "the shape {shape:?} with elements of {} bytes is larger than {TENSOR_BYTES_MAX} bytes \
                 (TENSOR_BYTES_MAX)",
                self.item
            ));
        }
        Ok(())
    }

    /// Fails if a chunk is larger than `CHUNK_BYTES_MAX`.
    fn check_chunks(&self) -> Result<()> {
        let chunks = &self.chunks;
        if self.product(chunks).is_some_and(|bytes| bytes <= CHUNK_BYTES_MAX) {
            return Ok(());
        }
        let text = format!(
            "chunks of the shape {chunks:?} and elements of {} bytes are larger than {CHUNK_BYTES_MAX} bytes \
             (CHUNK_BYTES_MAX): make them smaller",
            self.item
        );
        Err(Error::new(ErrorKind::Invalid, text))
    }

    /// Bytes of elements of this shape, at least one each; `None` on overflow.
    fn product(&self, lengths: &[u64]) -> Option<u64> {
        lengths.iter().try_fold(self.item.max(1), |all, one| all.checked_mul(*one))
    }

    /// The shape of the tensor.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The shape of a chunk.
    #[must_use]
    pub fn chunks(&self) -> &[u64] {
        &self.chunks
    }

    /// Bytes of an element.
    #[must_use]
    pub fn item(&self) -> u64 {
        self.item
    }

    /// Bytes of the elements.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shape.iter().product::<u64>() * self.item
    }

    /// Bytes that a chunk occupies in the Array.
    #[must_use]
    pub fn chunk_bytes(&self) -> u64 {
        self.chunks.iter().product::<u64>() * self.item
    }

    /// Chunks in each dimension.
    fn counts(&self) -> impl Iterator<Item = u64> {
        self.shape.iter().zip(&self.chunks).map(|(length, chunk)| length.div_ceil(*chunk))
    }

    /// Number of chunks.
    #[must_use]
    pub fn chunk_count(&self) -> u64 {
        if self.item == 0 { 0 } else { self.counts().product() }
    }

    /// True if the chunks, one after another, are the elements in C order without gaps.
    pub(crate) fn is_flat(&self) -> bool {
        let (shape, chunks) = (&self.shape, &self.chunks);
        let Some(first) = chunks.iter().position(|chunk| *chunk > 1) else { return true };
        let is_even = shape[first].is_multiple_of(chunks[first]);
        let has_rows = chunks[first + 1..] == shape[first + 1..];
        // A gap after the last of all chunks does not count.
        let is_only = shape[..first].iter().all(|length| *length == 1);
        self.bytes() == 0 || (has_rows && (is_even || is_only))
    }

    /// For each dimension, the difference between the numbers of chunks that are neighbours in it.
    pub(crate) fn chunk_strides(&self) -> Vec<i64> {
        row_major(&self.counts().collect::<Vec<_>>(), 1)
    }

    /// Divides the slab of each dimension at the boundaries of chunks.
    pub(crate) fn cuts(&self, slabs: &[Slab]) -> Vec<Vec<Cut>> {
        slabs.iter().zip(&self.chunks).map(|(slab, chunk)| cuts(*slab, *chunk)).collect()
    }

    /// The elements of chunk number `chunk`: a slab for each dimension.
    pub(crate) fn chunk_slabs(&self, chunk: u64) -> Vec<Slab> {
        let (mut rest, mut slabs) = (chunk, Vec::new());
        let counts: Vec<u64> = self.counts().collect();
        for (dimension, count) in counts.iter().enumerate().rev() {
            let (length, start) = (self.chunks[dimension], rest % count * self.chunks[dimension]);
            slabs.push(Slab::new(start, length.min(self.shape[dimension] - start)));
            rest /= count;
        }
        slabs.reverse();
        slabs
    }

    /// True if a cut has all elements of its chunk in this dimension.
    pub(crate) fn is_whole(&self, dimension: usize, cut: Cut) -> bool {
        let chunk = self.chunks[dimension];
        let left = self.shape[dimension] - cut.chunk * chunk;
        cut.local == 0 && cut.count == left.min(chunk)
    }
}

/// Divides a slab of one dimension at the boundaries of chunks.
fn cuts(slab: Slab, chunk: u64) -> Vec<Cut> {
    let (mut found, mut before) = (Vec::new(), 0);
    while before < slab.count {
        let at = slab.start + before * slab.step;
        let local = at % chunk;
        // Number of the slab's indexes from `at` to the end of the chunk.
        let count = ((chunk - 1 - local) / slab.step + 1).min(slab.count - before);
        found.push(Cut { chunk: at / chunk, local, before, count });
        before += count;
    }
    found
}

/// Chooses complete rows of the last dimensions, as many as fit. The dimension that does not fit is divided evenly.
fn choose(shape: &[u64], item: u64) -> Vec<u64> {
    let (mut chunks, mut bytes) = (vec![1; shape.len()], item.max(1));
    for (chunk, length) in chunks.iter_mut().zip(shape).rev() {
        let length = (*length).max(1);
        let parts = length.div_ceil((CHUNK_BYTES / bytes).max(1));
        *chunk = length.div_ceil(parts);
        if parts > 1 {
            break;
        }
        bytes *= length;
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(shape: &[u64], item: u64) -> Vec<u64> {
        Grid::new(shape, None, item).unwrap().chunks().to_vec()
    }

    #[test]
    fn chunks_are_rows_of_about_4_mib() {
        assert_eq!(chosen(&[1000, 1000, 1000], 8), [1, 500, 1000]);
        assert_eq!(chosen(&[100, 100], 4), [100, 100]);
        assert_eq!(chosen(&[], 8), [] as [u64; 0]);
        assert_eq!(chosen(&[3, 0], 8), [3, 1]);
        assert_eq!(chosen(&[2, 3], 5 << 20), [1, 1]);
        assert_eq!(chosen(&[1 << 20], 8), [1 << 19]);
    }

    #[test]
    fn limits_are_named() {
        let refused = |shape: &[u64], chunks: Option<&[u64]>, item| {
            Grid::new(shape, chunks, item).unwrap_err().message().to_owned()
        };
        assert!(refused(&[1; 33], None, 8).contains("DIMENSIONS_MAX"));
        assert!(refused(&[u64::MAX, 2], None, 8).contains("TENSOR_BYTES_MAX"));
        assert!(refused(&[u64::MAX, 0], Some(&[1, 1]), 8).contains("TENSOR_BYTES_MAX"));
        assert!(refused(&[u64::MAX, 2], None, 0).contains("TENSOR_BYTES_MAX"));
        assert!(refused(&[0], Some(&[u64::MAX]), 0).contains("CHUNK_BYTES_MAX"));
        assert!(refused(&[1 << 40], Some(&[1 << 40]), 8).contains("CHUNK_BYTES_MAX"));
        assert!(refused(&[4], Some(&[0]), 8).contains("at least 1"));
        assert!(refused(&[4], Some(&[1, 1]), 8).contains("each"));
    }

    #[test]
    fn flat_chunks_are_the_elements_in_order() {
        let is_flat =
            |shape: &[u64], chunks: &[u64]| Grid::new(shape, Some(chunks), 8).unwrap().is_flat();
        for (shape, chunks) in [
            (&[][..], &[][..]),
            (&[7], &[2]),
            (&[4, 6], &[3, 6]),
            (&[4, 6], &[1, 3]),
            (&[1, 5, 6], &[1, 2, 6]),
            (&[3, 0], &[2, 2]),
            (&[3, 3], &[1, 1]),
        ] {
            assert!(is_flat(shape, chunks), "{shape:?} in {chunks:?}");
        }
        for (shape, chunks) in [
            (&[4, 6][..], &[2, 3][..]),
            (&[2, 5, 6], &[1, 2, 6]),
            (&[4, 6], &[1, 4]),
            (&[2, 2], &[3, 3]),
        ] {
            assert!(!is_flat(shape, chunks), "{shape:?} in {chunks:?}");
        }
    }

    #[test]
    fn chunk_numbers_select_their_elements() {
        let grid = Grid::new(&[5, 7], Some(&[2, 3]), 8).unwrap();
        assert_eq!(grid.chunk_slabs(0), [Slab::new(0, 2), Slab::new(0, 3)]);
        assert_eq!(grid.chunk_slabs(5), [Slab::new(2, 2), Slab::new(6, 1)]);
        assert_eq!(grid.chunk_slabs(8), [Slab::new(4, 1), Slab::new(6, 1)]);
    }

    #[test]
    fn cuts_have_every_index_once() {
        for (start, step, count, chunk) in [(0, 1, 10, 3), (2, 3, 5, 4), (1, 7, 4, 3), (5, 2, 0, 3)]
        {
            let slab = Slab { start, step, count };
            let indexes = cuts(slab, chunk).into_iter().flat_map(|cut| {
                (0..cut.count)
                    .map(move |n| (cut.before + n, cut.chunk * chunk + cut.local + n * step))
            });
            assert!(indexes.eq((0..count).map(|n| (n, start + n * step))));
        }
    }
}
