//! Reads of a selection of a tensor. Long runs are read directly into the caller's memory, short runs through a buffer.
use super::pieces::{Band, Piece, Selection};
use super::threads::share;
use crate::strided::Sides;
use esker::{Access, Array, Wait, side_by_side, task};
use esker_types::ops::Sink;
use esker_types::{Extent, Result, memory};
use std::ops::Range;

/// Shortest run, in bytes, that is read directly into the caller's memory.
pub(super) const LONG_RUN: u64 = 2048;

/// Most runs of a chunk that are read directly, however short they are.
const FEW_RUNS: u64 = 64;

/// Chunks that one thread reads or writes concurrently.
pub(super) const SIDE_BY_SIDE: usize = 16;
/// Once the buffers of a group of chunks have this many bytes, a thread reads or writes the group.
pub(super) const BUFFERS: u64 = 16 << 20;

/// Fills `buffer` with a selection, in C order.
pub(super) fn read(
    array: &Array,
    selection: &Selection<'_>,
    buffer: &mut [u8],
    access: Access<'static>,
) -> Result<()> {
    let (bytes, mut rest) = (buffer.len() as u64, buffer);
    let mut jobs = Vec::new();
    for band in selection.bands() {
        let (own, others) = rest.split_at_mut(band.bytes as usize);
        jobs.push((band, own));
        rest = others;
    }
    share(jobs, bytes, |(band, target)| read_band(array, selection, &band, target, access))
}

/// Reads one band of the selection into `target`, several pieces side by side.
fn read_band(
    array: &Array,
    selection: &Selection<'_>,
    band: &Band,
    target: &mut [u8],
    access: Access<'static>,
) -> Result<()> {
    let mut pieces = selection.pieces(band, true).map(Load::new).peekable();
    while pieces.peek().is_some() {
        let (mut group, mut buffers) = (Vec::new(), 0);
        while group.len() < SIDE_BY_SIDE && buffers < BUFFERS {
            let Some(load) = pieces.next().transpose()? else { break };
            buffers += load.buffer.len() as u64;
            group.push(load);
        }
        read_group(array, &mut group, target, access)?;
        // Pieces without ranges were read into a buffer.
        for load in group.iter().filter(|load| load.ranges.is_empty()) {
            load.sides.scatter(&load.buffer, target);
        }
    }
    Ok(())
}

/// Read of the elements of one chunk.
struct Load {
    /// Bytes of the Array to read.
    extents: Vec<Extent>,
    /// Ranges of the caller's memory that are read directly; empty if the bytes go through the buffer.
    ranges: Vec<Range<usize>>,
    buffer: Vec<u8>,
    /// Layout of the elements in the buffer and in the caller's memory.
    sides: Sides,
}

impl Load {
    /// Chooses how the piece is read: directly into its place, or through a buffer if its runs are short and many.
    fn new(piece: Piece) -> Result<Self> {
        let merged = piece.sides.merged(true);
        if merged.run < LONG_RUN && merged.runs() > FEW_RUNS {
            return Self::through_buffer(piece);
        }
        let (mut extents, mut ranges) = (Vec::new(), Vec::new());
        for [own, start] in merged.offsets() {
            append(&mut extents, piece.start + own.cast_unsigned(), merged.run);
            let start = start as usize;
            ranges.push(start..start + merged.run as usize);
        }
        Ok(Self { extents, ranges, buffer: Vec::new(), sides: merged })
    }

    /// Reads all bytes from the first to the last element into the buffer.
    fn through_buffer(piece: Piece) -> Result<Self> {
        let Piece { start, mut sides, .. } = piece;
        let first = sides.first[0].cast_unsigned();
        let bytes = hull(&sides);
        sides.first[0] = 0;
        let extents = vec![Extent::new(start + first, bytes)];
        Ok(Self { extents, ranges: Vec::new(), buffer: memory::zeros(bytes as usize)?, sides })
    }
}

/// Bytes from the first element to the last on the first side.
pub(super) fn hull(sides: &Sides) -> u64 {
    let reach = sides.counts.iter().zip(&sides.strides[0]);
    let last: u64 = reach.map(|(count, stride)| (count - 1) * stride.cast_unsigned()).sum();
    last + sides.run
}

/// Appends bytes to extents. If they follow the last extent, that grows.
pub(super) fn append(extents: &mut Vec<Extent>, start: u64, bytes: u64) {
    match extents.last_mut() {
        Some(last) if last.end() == start => last.count += bytes,
        _ => extents.push(Extent::new(start, bytes)),
    }
}

/// Reads the elements of a group of chunks, several chunks at a time. A chunk with ranges is read directly into these
/// ranges of `target`, the caller's memory; another one is read into its buffer.
fn read_group(
    array: &Array,
    group: &mut [Load],
    target: &mut [u8],
    access: Access<'static>,
) -> Result<()> {
    let sinks = sinks(group, target);
    let loads = group.iter_mut().zip(sinks);
    let tasks = loads.map(|(load, ranges)| {
        let Load { extents, buffer, .. } = load;
        let sink = if ranges.is_empty() { Sink::One(buffer) } else { Sink::Many(ranges) };
        task(async move { array.read_or_zero(extents, sink, access).await })
    });
    let read = side_by_side(tasks.collect(), SIDE_BY_SIDE).wait();
    read.into_iter().collect()
}

/// Divides `rest`, the caller's memory, among the chunks of a group: for each chunk the slices of its ranges. Ranges do
/// not overlap; they are cut off in ascending order.
fn sinks<'a>(group: &[Load], mut rest: &'a mut [u8]) -> Vec<Vec<&'a mut [u8]>> {
    let numbered = group.iter().enumerate();
    let mut ranges: Vec<(Range<usize>, usize)> = numbered
        .flat_map(|(number, load)| load.ranges.iter().cloned().map(move |range| (range, number)))
        .collect();
    ranges.sort_unstable_by_key(|(range, _)| range.start);
    let mut sinks: Vec<Vec<&'a mut [u8]>> = group.iter().map(|_| Vec::new()).collect();
    let mut at = 0;
    for (range, number) in ranges {
        let (_, after) = rest.split_at_mut(range.start - at);
        let (own, after) = after.split_at_mut(range.len());
        (rest, at) = (after, range.end);
        sinks[number].push(own);
    }
    sinks
}
