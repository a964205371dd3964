//! Location of cells: cell `i` is record `i % chunk_size` under dkey `i / chunk_size + 1`.
use super::ArrayAttributes;
use esker_types::ops::{KeyFound, Source};
use esker_types::{Error, ErrorKind, Extent, Result, key_to_u64};

/// Ranges of at most this many cells count as short.
const SHORT_RANGE_CELLS: u64 = 16;
/// Limit of short ranges per operation (DAOS: `DAOS_ARRAY_LIST_IO_LIMIT`).
const SHORT_RANGES_MAX: usize = 16384;

/// Cell and chunk size, both at least 1.
#[derive(Clone, Copy)]
pub(super) struct Layout(pub(super) ArrayAttributes);

/// The part of a range that is in one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The chunk's dkey.
    pub(super) dkey: u64,
    /// Records under that dkey.
    pub(super) extent: Extent,
    /// Start of the piece in the buffers of the operation, in cells.
    pub(super) offset: u64,
}

/// Consecutive pieces in the same chunk.
pub(super) struct Chunk {
    pub(super) dkey: [u8; 8],
    pub(super) extents: Vec<Extent>,
    /// Start of the chunk in the buffers of the operation, in cells.
    pub(super) offset: u64,
    /// Total number of cells.
    pub(super) cells: u64,
}

impl Chunk {
    /// Returns the cells of `pieces` as one chunk. All pieces must have the same dkey.
    pub(super) fn new(pieces: &[Piece]) -> Self {
        let extents: Vec<_> = pieces.iter().map(|piece| piece.extent).collect();
        Self {
            dkey: pieces.first().map_or(0, |piece| piece.dkey).to_ne_bytes(),
            offset: pieces.first().map_or(0, |piece| piece.offset),
            cells: extents.iter().map(|extent| extent.count).sum(),
            extents,
        }
    }
}

/// Groups consecutive pieces that are in the same chunk, as long as they have at most `cells_max` cells together.
pub(super) fn chunks(pieces: &[Piece], cells_max: u64) -> impl Iterator<Item = &[Piece]> {
    let mut cells = 0_u64;
    pieces.chunk_by(move |a, b| {
        cells = cells.saturating_add(a.extent.count);
        let fits = a.dkey == b.dkey && cells.saturating_add(b.extent.count) <= cells_max;
        if !fits {
            cells = 0;
        }
        fits
    })
}

impl Layout {
    pub(super) fn cell_size(self) -> u64 {
        self.0.cell_size
    }

    /// Returns where a cell is stored: the number of its dkey, and the index of its record there.
    pub(super) fn locate(self, cell: u64) -> (u64, u64) {
        (cell / self.0.chunk_size + 1, cell % self.0.chunk_size)
    }

    /// Index of the cell that is record `record` under `dkey`; `dkey` is at least 1.
    pub(super) fn cell_at(self, dkey: u64, record: u64) -> u64 {
        (dkey - 1).saturating_mul(self.0.chunk_size).saturating_add(record)
    }

    /// The piece for `ranges` if they are a single range inside one chunk, which is the common case; `None` otherwise,
    /// and if the range has more than `cells_max` cells.
    pub(super) fn only_piece(self, ranges: &[Extent], cells_max: u64) -> Option<Piece> {
        let [range] = ranges else { return None };
        let (dkey, record) = self.locate(range.start);
        let fits = (1..=cells_max).contains(&range.count)
            && record.checked_add(range.count)? <= self.0.chunk_size;
        fits.then_some(Piece { dkey, extent: Extent::new(record, range.count), offset: 0 })
    }

    /// Splits ranges of cells into pieces, each within one chunk and of at most `cells_max` cells, in the order of the
    /// caller's buffers.
    pub(super) fn pieces(self, ranges: &[Extent], cells_max: u64) -> Result<Vec<Piece>> {
        let mut pieces = Vec::with_capacity(ranges.len());
        let mut offset = 0;
        for range in ranges {
            range.check()?;
            offset = self.split(*range, cells_max, offset, &mut pieces);
        }
        Ok(pieces)
    }

    /// Number of chunks that the ranges name, whether they exist or not. Saturates.
    pub(super) fn count_chunks(self, ranges: &[Extent]) -> u64 {
        let chunks_of = |range: &Extent| match range.count {
            0 => 0,
            _ => self.locate(range.end() - 1).0 - self.locate(range.start).0 + 1,
        };
        ranges.iter().map(chunks_of).fold(0, u64::saturating_add)
    }

    /// Adds the pieces of `ranges`, which are sorted and do not overlap, that are in the chunk under `dkey`. Their
    /// offsets are 0.
    pub(super) fn add_pieces(self, dkey: u64, ranges: &[Extent], pieces: &mut Vec<Piece>) {
        // This dkey holds the attributes.
        if dkey == 0 {
            return;
        }
        let chunk = Extent::new(self.cell_at(dkey, 0), self.0.chunk_size);
        let first = ranges.partition_point(|range| range.end() <= chunk.start);
        let inside = ranges[first..].iter().map_while(|range| range.intersect(chunk));
        pieces.extend(inside.map(|cells| {
            let extent = Extent::new(cells.start - chunk.start, cells.count);
            Piece { dkey, extent, offset: 0 }
        }));
    }

    /// Splits `range` at chunk boundaries, and into pieces of at most `cells_max` cells. `offset` is its start in the
    /// buffers of the operation, in cells; returns the offset after it.
    fn split(self, range: Extent, cells_max: u64, mut offset: u64, pieces: &mut Vec<Piece>) -> u64 {
        let mut at = range.start;
        while at < range.end() {
            let (dkey, record) = self.locate(at);
            let count = (self.0.chunk_size - record).min(range.end() - at).min(cells_max);
            pieces.push(Piece { dkey, extent: Extent::new(record, count), offset });
            at += count;
            offset += count;
        }
        offset
    }

    /// Rejects ranges that do not match a buffer of `bytes`, and too many short ranges.
    pub(super) fn check(self, ranges: &[Extent], bytes: u64) -> Result<()> {
        esker_types::ops::check_array_len(self.cell_size(), ranges, bytes)?;
        let is_short = |range: &&Extent| (1..=SHORT_RANGE_CELLS).contains(&range.count);
        if ranges.len() > SHORT_RANGES_MAX
            && ranges.iter().filter(is_short).count() > SHORT_RANGES_MAX
        {
            return Err(Error::new(
                ErrorKind::NotSupported,
                format!(
                    "more than {SHORT_RANGES_MAX} ranges of at most {SHORT_RANGE_CELLS} cells in \
                     one operation"
                ),
            ));
        }
        Ok(())
    }

    /// Size of the array in cells, from the last extent of its last chunk; 0 if there is none.
    pub(super) fn size_from(self, found: &KeyFound) -> Result<u64> {
        match (key_to_u64(&found.dkey)?, found.extent) {
            // Dkey 0 holds the attributes.
            (dkey @ 1.., Some(extent)) => Ok(self.cell_at(dkey, extent.end())),
            _ => Ok(0),
        }
    }
}

/// A part of a source: the buffers that hold its bytes.
pub(super) enum Part<'a> {
    One(&'a [u8]),
    Many(Vec<&'a [u8]>),
}

impl<'a> Part<'a> {
    /// The `len` bytes of `source` that start at `offset`.
    pub(super) fn from_source(source: Source<'a>, offset: u64, len: u64) -> Self {
        match source {
            Source::One(buffer) => Self::One(slice(buffer, offset, len)),
            Source::Many(buffers) => Self::Many(slices(buffers, offset, len)),
        }
    }

    /// The bytes of this part in the form that the backend trait takes.
    pub(super) fn source(&self) -> Source<'_> {
        match self {
            Self::One(buffer) => Source::One(buffer),
            Self::Many(buffers) => Source::Many(buffers),
        }
    }
}

/// The `len` bytes of `buffer` from `offset` on, as far as the buffer has them.
fn slice(buffer: &[u8], offset: u64, len: u64) -> &[u8] {
    let end = usize::try_from(offset + len).unwrap_or(usize::MAX).min(buffer.len());
    buffer.get(offset as usize..end).unwrap_or_default()
}

/// The parts of `buffers` that hold the bytes from `offset` to `offset + len`.
fn slices<'a>(buffers: &[&'a [u8]], offset: u64, len: u64) -> Vec<&'a [u8]> {
    let mut at = 0;
    let mut parts = Vec::new();
    for buffer in buffers {
        let from = offset.max(at);
        let to = (offset + len).min(at + buffer.len() as u64);
        if from < to {
            parts.push(slice(buffer, from - at, to - from));
        }
        at += buffer.len() as u64;
    }
    parts
}

/// The records of `wanted` that are not in `filled`, in ascending order.
pub(super) fn holes(wanted: Extent, filled: &[Extent]) -> Vec<Extent> {
    let mut present: Vec<_> = filled.iter().filter_map(|f| f.intersect(wanted)).collect();
    present.sort_unstable();
    let mut missing = Vec::new();
    let mut at = wanted.start;
    for extent in present {
        if at < extent.start {
            missing.push(Extent::new(at, extent.start - at));
        }
        at = at.max(extent.end());
    }
    if at < wanted.end() {
        missing.push(Extent::new(at, wanted.end() - at));
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout(ArrayAttributes { cell_size: 1, chunk_size: 10 });

    #[test]
    fn ranges_are_split_at_chunk_boundaries() {
        let pieces =
            LAYOUT.pieces(&[Extent::new(8, 14), Extent::new(3, 0), Extent::new(22, 1)], 10);
        let of = |dkey, start, count, offset| {
            let extent = Extent::new(start, count);
            Piece { dkey, extent, offset }
        };
        let expected = [of(1, 8, 2, 0), of(2, 0, 10, 2), of(3, 0, 2, 12), of(3, 2, 1, 14)];
        assert_eq!(pieces.unwrap(), expected);
        assert_eq!(chunks(&expected, 10).count(), 3);
    }

    #[test]
    fn requests_to_one_chunk_have_a_limited_size() {
        let ranges = [Extent::new(0, 7), Extent::new(7, 1), Extent::new(8, 1), Extent::new(9, 2)];
        let pieces = LAYOUT.pieces(&ranges, 3).unwrap();
        let grouped: Vec<_> = chunks(&pieces, 3).map(Chunk::new).collect();
        let shown = |chunk: &Chunk| (u64::from_ne_bytes(chunk.dkey), chunk.offset, chunk.cells);
        let shown: Vec<_> = grouped.iter().map(shown).collect();
        assert_eq!(shown, [(1, 0, 3), (1, 3, 3), (1, 6, 3), (1, 9, 1), (2, 10, 1)]);
    }

    #[test]
    fn pieces_of_a_chunk_are_those_of_all_chunks_under_its_dkey() {
        let ranges = [Extent::new(8, 14), Extent::new(25, 2), Extent::new(28, 1)];
        let all = LAYOUT.pieces(&ranges, 10).unwrap();
        assert_eq!(LAYOUT.count_chunks(&ranges), 3 + 2);
        for dkey in 0..6 {
            let mut pieces = Vec::new();
            LAYOUT.add_pieces(dkey, &ranges, &mut pieces);
            let expected: Vec<_> = all.iter().filter(|piece| piece.dkey == dkey).collect();
            let extents = |piece: &Piece| piece.extent;
            let expected: Vec<_> = expected.into_iter().map(extents).collect();
            assert_eq!(pieces.iter().map(extents).collect::<Vec<_>>(), expected, "dkey {dkey}");
        }
    }

    #[test]
    fn chunks_of_the_longest_ranges_are_counted() {
        let all = Extent::new(0, u64::MAX);
        let one = Layout(ArrayAttributes { cell_size: 1, chunk_size: 1 });
        assert_eq!(one.count_chunks(&[all]), u64::MAX);
        assert_eq!(one.count_chunks(&[all, all, Extent::new(0, 0)]), u64::MAX);
        let mut pieces = Vec::new();
        one.add_pieces(u64::MAX, &[all], &mut pieces);
        LAYOUT.add_pieces(u64::MAX, &[all], &mut pieces);
        let extent = Extent::new(0, 1);
        assert_eq!(pieces, [Piece { dkey: u64::MAX, extent, offset: 0 }]);
    }

    #[test]
    fn one_range_in_one_chunk_is_one_piece() {
        assert_eq!(LAYOUT.only_piece(&[Extent::new(8, 3)], 10), None);
        assert_eq!(LAYOUT.only_piece(&[Extent::new(8, 0)], 10), None);
        let piece = LAYOUT.only_piece(&[Extent::new(18, 2)], 2).unwrap();
        assert_eq!((piece.dkey, piece.extent), (2, Extent::new(8, 2)));
        assert_eq!(LAYOUT.only_piece(&[Extent::new(18, 2)], 1), None);
        assert!(LAYOUT.pieces(&[Extent::new(u64::MAX, 2)], 10).is_err());
    }

    #[test]
    fn holes_are_the_records_that_are_not_filled() {
        let filled = [Extent::new(4, 2), Extent::new(0, 3), Extent::new(5, 3)];
        let expected = [Extent::new(3, 1), Extent::new(8, 2)];
        assert_eq!(holes(Extent::new(1, 9), &filled), expected);
        assert_eq!(holes(Extent::new(4, 3), &filled), []);
    }

    #[test]
    fn parts_span_buffers() {
        let buffers: [&[u8]; 3] = [b"abc", b"de", b"fgh"];
        let part = Part::from_source(Source::Many(&buffers), 2, 4);
        let mut seen = Vec::new();
        part.source().visit(0, 10, |piece| seen.extend_from_slice(piece));
        assert_eq!(seen, b"cdef");
    }
}
