//! Division of a selection of a tensor into bands that follow each other in the caller's memory, and of bands into
//! pieces of chunks.
use crate::grid::{Cut, Grid};
use crate::slab::Slab;
use crate::strided::{Sides, row_major};

/// A selection of a tensor, and the layout of its elements in the caller's memory.
pub(super) struct Selection<'a> {
    pub(super) grid: &'a Grid,
    /// The slab of each dimension, divided at the boundaries of chunks.
    cuts: Vec<Vec<Cut>>,
    shape: Vec<u64>,
    /// Strides of the caller's memory in bytes.
    strides: Vec<i64>,
    /// Offset of the first element in the caller's memory.
    first: i64,
    /// Distance between selected indexes in each dimension.
    steps: Vec<i64>,
    /// Number of leading dimensions that bands divide.
    split: usize,
}

/// A part of a selection that is one range of memory, if the memory is in C order. It has one cut in each of the
/// leading dimensions, and all of the other dimensions.
#[derive(Clone, Debug)]
pub(super) struct Band {
    /// Numbers of the cuts in the leading dimensions.
    cuts: Vec<usize>,
    /// Bytes of its elements.
    pub(super) bytes: u64,
}

/// The elements of a selection in one chunk. The first side is the chunk in the tensor's Array, the second the caller's
/// memory.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// Offset of the chunk in the Array.
    pub(super) start: u64,
    pub(super) sides: Sides,
    /// True if the piece has all elements of the chunk.
    pub(super) whole: bool,
}

impl<'a> Selection<'a> {
    /// A selection whose elements are in C order in memory.
    pub(super) fn new(grid: &'a Grid, slabs: &[Slab]) -> Self {
        let shape: Vec<u64> = slabs.iter().map(|slab| slab.count).collect();
        let strides = row_major(&shape, grid.item());
        Self::strided(grid, slabs, strides, 0)
    }

    /// A selection whose elements are in memory with `strides`, in bytes. The first element is at the offset `first`.
    pub(super) fn strided(grid: &'a Grid, slabs: &[Slab], strides: Vec<i64>, first: i64) -> Self {
        let is_empty = grid.item() == 0 || slabs.iter().any(|slab| slab.count == 0);
        // A selection without elements may be very long in other dimensions.
        let cuts = if is_empty { vec![Vec::new(); slabs.len()] } else { grid.cuts(slabs) };
        // Bands divide the dimensions in which chunks have one index, and the next one: the rest of a chunk is
        // contiguous.
        let long = grid.chunks().iter().position(|chunk| *chunk > 1);
        let split = long.map_or(slabs.len(), |dimension| dimension + 1);
        let shape = slabs.iter().map(|slab| slab.count).collect();
        let steps = slabs.iter().map(|slab| slab.step.cast_signed()).collect();
        Self { grid, cuts, shape, strides, first, steps, split }
    }

    /// All bands, in the order of the memory.
    pub(super) fn bands(&self) -> Vec<Band> {
        if self.cuts.iter().any(Vec::is_empty) || self.grid.item() == 0 {
            return Vec::new();
        }
        let rest: u64 = self.shape[self.split..].iter().product::<u64>() * self.grid.item();
        let counts: Vec<usize> = self.cuts[..self.split].iter().map(Vec::len).collect();
        let band = |cuts: Vec<usize>| {
            let own = cuts.iter().zip(&self.cuts).map(|(cut, all)| all[*cut].count);
            let bytes = own.product::<u64>() * rest;
            Band { cuts, bytes }
        };
        combinations(&counts).map(band).collect()
    }

    /// The pieces of a band. With `relative`, offsets in memory are relative to the first element of the band.
    pub(super) fn pieces(&self, band: &Band, relative: bool) -> impl Iterator<Item = Piece> {
        let counts: Vec<usize> = self.cuts[self.split..].iter().map(Vec::len).collect();
        let band = band.clone();
        combinations(&counts).map(move |rest| {
            let numbers = band.cuts.iter().chain(&rest).zip(&self.cuts);
            let cuts: Vec<Cut> = numbers.map(|(number, all)| all[*number]).collect();
            self.piece(&cuts, if relative { self.split } else { 0 })
        })
    }

    /// The piece of a chunk. The first `skipped` dimensions do not add to its offset in memory.
    fn piece(&self, cuts: &[Cut], skipped: usize) -> Piece {
        let (grid, item) = (self.grid, self.grid.item());
        let own = row_major(grid.chunks(), item);
        let chunk_strides = grid.chunk_strides();
        let number =
            cuts.iter().zip(&chunk_strides).map(|(cut, stride)| cut.chunk * stride.cast_unsigned());
        let start = number.sum::<u64>() * grid.chunk_bytes();
        let local = cuts.iter().zip(&own).map(|(cut, stride)| cut.local.cast_signed() * stride);
        let placed = cuts.iter().zip(&self.strides).skip(skipped);
        let offset = placed.map(|(cut, stride)| cut.before.cast_signed() * stride).sum::<i64>();
        let stepped =
            own.iter().zip(&self.steps).map(|(own, step)| own.wrapping_mul(*step)).collect();
        let sides = Sides {
            counts: cuts.iter().map(|cut| cut.count).collect(),
            first: [local.sum(), self.first + offset],
            strides: [stepped, self.strides.clone()],
            run: item,
        };
        let whole = (0..cuts.len()).all(|dimension| grid.is_whole(dimension, cuts[dimension]));
        Piece { start, sides, whole }
    }
}

/// All combinations of numbers below `counts`, the last of which varies fastest.
fn combinations(counts: &[usize]) -> impl Iterator<Item = Vec<usize>> + use<> {
    let counts = counts.to_vec();
    let all: usize = counts.iter().product();
    let mut next = vec![0; counts.len()];
    (0..all).map(move |_| {
        let now = next.clone();
        for (digit, count) in next.iter_mut().zip(&counts).rev() {
            *digit += 1;
            if *digit < *count {
                break;
            }
            *digit = 0;
        }
        now
    })
}
