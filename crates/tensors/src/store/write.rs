//! Writes of a part of a tensor. Long runs are written directly from the caller's memory, short runs through a buffer.
use super::pieces::{Band, Piece, Selection};
use super::read::{BUFFERS, LONG_RUN, SIDE_BY_SIDE, append, hull};
use super::threads::share;
use crate::strided::row_major;
use esker::{Access, Array, Wait, side_by_side, task};
use esker_types::ops::Source;
use esker_types::{Extent, Result, memory};

/// Extents of a chunk that are written at a time.
const EXTENTS: usize = 8192;

/// Writes `bytes`, the elements of a selection in C order, to the Array of a tensor. Threads share the bands of the
/// selection.
pub(super) fn write(array: &Array, selection: &Selection<'_>, bytes: &[u8]) -> Result<()> {
    let bands = selection.bands();
    let total = bands.iter().map(|band| band.bytes).sum();
    share(bands, total, |band| write_band(array, selection, &band, bytes))
}

/// Writes one band of the selection, several pieces side by side.
fn write_band(array: &Array, selection: &Selection<'_>, band: &Band, bytes: &[u8]) -> Result<()> {
    let mut drafts = selection.pieces(band, false).map(|piece| Draft::new(piece, bytes)).peekable();
    while drafts.peek().is_some() {
        let (mut group, mut buffers) = (Vec::new(), 0);
        while group.len() < SIDE_BY_SIDE && buffers < BUFFERS {
            let Some(draft) = drafts.next().transpose()? else { break };
            buffers += draft.buffer.len() as u64;
            group.push(draft);
        }
        let tasks = group.iter().map(|draft| task(draft.write(array))).collect();
        side_by_side(tasks, SIDE_BY_SIDE).wait().into_iter().collect::<Result<()>>()?;
    }
    Ok(())
}

/// Write to one chunk.
struct Draft<'a> {
    extents: Vec<Extent>,
    /// The bytes in the caller's memory; empty if they are in the buffer.
    slices: Vec<&'a [u8]>,
    buffer: Vec<u8>,
}

impl<'a> Draft<'a> {
    /// Chooses how the piece is written: directly from its place, or through a buffer if its runs are scattered at both
    /// ends.
    fn new(piece: Piece, bytes: &'a [u8]) -> Result<Self> {
        // Runs that are contiguous in the chunk, and those that are so in the caller's memory too.
        let (own, both) = (piece.sides.merged(false), piece.sides.merged(true));
        if both.runs() > 1 && own.runs() > 1 && piece.whole {
            return Self::padded(piece, bytes);
        }
        let mut extents = Vec::new();
        for [offset, _] in own.offsets() {
            append(&mut extents, piece.start + offset.cast_unsigned(), own.run);
        }
        if both.runs() == 1 || (both.run == own.run && both.run >= LONG_RUN) {
            let slice = |[_, at]: [i64; 2]| &bytes[at as usize..at as usize + both.run as usize];
            let slices = both.offsets().map(slice).collect();
            return Ok(Self { extents, slices, buffer: Vec::new() });
        }
        let mut packed = piece.sides;
        packed.first[0] = 0;
        packed.strides[0] = row_major(&packed.counts, packed.run);
        let mut buffer = memory::zeros((packed.runs() * packed.run) as usize)?;
        packed.gather(&mut buffer, bytes);
        Ok(Self { extents, slices: Vec::new(), buffer })
    }

    /// Writes a complete chunk at an edge, with zeros between its rows: one extent is written and read faster than
    /// many.
    fn padded(piece: Piece, bytes: &[u8]) -> Result<Self> {
        let length = hull(&piece.sides);
        let mut buffer = memory::zeros(length as usize)?;
        piece.sides.gather(&mut buffer, bytes);
        Ok(Self { extents: vec![Extent::new(piece.start, length)], slices: Vec::new(), buffer })
    }

    /// Writes the collected extents: from the caller's memory, or from the buffer in several operations.
    async fn write(&self, array: &Array) -> Result<()> {
        if !self.slices.is_empty() {
            return array.write(&self.extents, Source::Many(&self.slices), Access::Latest).await;
        }
        let mut rest = &self.buffer[..];
        for extents in self.extents.chunks(EXTENTS) {
            let bytes: u64 = extents.iter().map(|extent| extent.count).sum();
            let (own, others) = rest.split_at(bytes as usize);
            array.write(extents, Source::One(own), Access::Latest).await?;
            rest = others;
        }
        Ok(())
    }
}
