//! Reading a selection of a tensor: into the caller's memory where runs are long, through a buffer where they are not.
use super::pieces::{Band, Piece, Selection};
use super::threads::share;
use crate::strided::Sides;
use esker::{Access, Array, Wait, side_by_side, task};
use esker_types::ops::Sink;
use esker_types::{Extent, Result, memory};
use std::ops::Range;

/// Bytes of a run from which it is read to its place directly.
pub(super) const LONG_RUN: u64 = 2048;

/// Runs of a chunk up to which they are read to their places directly, however short they are.
const FEW_RUNS: u64 = 64;

/// Chunks that one thread reads or writes side by side, and bytes of buffers from which it takes no more.
pub(super) const SIDE_BY_SIDE: usize = 16;
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
    share(jobs, bytes, |(band, place)| read_band(array, selection, &band, place, access))
}

fn read_band(
    array: &Array,
    selection: &Selection<'_>,
    band: &Band,
    place: &mut [u8],
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
        read_group(array, &mut group, place, access)?;
        for load in group.iter().filter(|load| load.places.is_empty()) {
            load.sides.scatter(&load.buffer, place);
        }
    }
    Ok(())
}

/// How the elements of one chunk are read.
struct Load {
    extents: Vec<Extent>,
    /// Where the bytes go directly; none if they go through the buffer.
    places: Vec<Range<usize>>,
    buffer: Vec<u8>,
    /// From the buffer to the caller's memory.
    sides: Sides,
}

impl Load {
    fn new(piece: Piece) -> Result<Self> {
        let merged = piece.sides.merged(true);
        if merged.run < LONG_RUN && merged.runs() > FEW_RUNS {
            return Self::through_buffer(piece);
        }
        let (mut extents, mut places) = (Vec::new(), Vec::new());
        for [own, place] in merged.places() {
            append(&mut extents, piece.start + own.cast_unsigned(), merged.run);
            let place = place as usize;
            places.push(place..place + merged.run as usize);
        }
        Ok(Self { extents, places, buffer: Vec::new(), sides: merged })
    }

    /// All bytes from the first to the last.
    fn through_buffer(piece: Piece) -> Result<Self> {
        let Piece { start, mut sides, .. } = piece;
        let first = sides.first[0].cast_unsigned();
        let bytes = hull(&sides);
        sides.first[0] = 0;
        let extents = vec![Extent::new(start + first, bytes)];
        Ok(Self { extents, places: Vec::new(), buffer: memory::zeros(bytes as usize)?, sides })
    }
}

/// Bytes from the first element to the last on the first side.
pub(super) fn hull(sides: &Sides) -> u64 {
    let reach = sides.counts.iter().zip(&sides.strides[0]);
    let last: u64 = reach.map(|(count, stride)| (count - 1) * stride.cast_unsigned()).sum();
    last + sides.run
}

/// Appends bytes to extents, the last of which grows if they follow it.
pub(super) fn append(extents: &mut Vec<Extent>, start: u64, bytes: u64) {
    match extents.last_mut() {
        Some(last) if last.end() == start => last.count += bytes,
        _ => extents.push(Extent::new(start, bytes)),
    }
}

fn read_group(
    array: &Array,
    group: &mut [Load],
    place: &mut [u8],
    access: Access<'static>,
) -> Result<()> {
    let sinks = sinks(group, place);
    let loads = group.iter_mut().zip(sinks);
    let tasks = loads.map(|(load, places)| {
        let Load { extents, buffer, .. } = load;
        let sink = if places.is_empty() { Sink::One(buffer) } else { Sink::Many(places) };
        task(async move { array.read_or_zero(extents, sink, access).await })
    });
    let read = side_by_side(tasks.collect(), SIDE_BY_SIDE).wait();
    read.into_iter().collect()
}

/// The places of each of a group in the caller's memory.
fn sinks<'a>(group: &[Load], mut rest: &'a mut [u8]) -> Vec<Vec<&'a mut [u8]>> {
    let numbered = group.iter().enumerate();
    let mut places: Vec<(Range<usize>, usize)> = numbered
        .flat_map(|(number, load)| load.places.iter().cloned().map(move |place| (place, number)))
        .collect();
    places.sort_unstable_by_key(|(place, _)| place.start);
    let mut sinks: Vec<Vec<&'a mut [u8]>> = group.iter().map(|_| Vec::new()).collect();
    let mut at = 0;
    for (place, number) in places {
        let (_, after) = rest.split_at_mut(place.start - at);
        let (own, after) = after.split_at_mut(place.len());
        (rest, at) = (after, place.end);
        sinks[number].push(own);
    }
    sinks
}
