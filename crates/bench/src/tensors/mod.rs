//! The work of `tensors`: an array that many processes store together, and read slab by slab.
//!
//! Each process has some rows of a two-dimensional array of 32-bit integers, whose elements [`element`] computes from
//! the seed, the round and their index. [`Worker`] is one process on the tensor store, on a shared file and on the
//! medium; `parallel_hdf5.c` does the same by parallel HDF5.
mod worker;

pub use worker::{Done, Job, Phase, Step, Worker};

use crate::buffer::Buffer;
use crate::errors::ensure_intact;
use esker_types::Result;
use serde::{Deserialize, Serialize};

/// Elements of a row.
pub const COLUMNS: u64 = 1024;

/// Bytes of an element.
pub const ELEMENT_BYTES: u64 = 4;

/// Bytes of a row.
pub const ROW_BYTES: u64 = COLUMNS * ELEMENT_BYTES;

/// Most rows of a chunk: 4 MiB.
pub const CHUNK_ROWS_MAX: u64 = 1024;

/// The program that does the same by parallel HDF5, in C.
pub const PEER: &str = include_str!("parallel_hdf5.c");

/// The rows of each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Rows of each process.
    pub rows: u64,
    /// Number of processes.
    pub procs: u32,
}

impl Part {
    /// Bytes of the rows of one process.
    pub fn bytes(self) -> u64 {
        self.rows.saturating_mul(ROW_BYTES)
    }

    /// Bytes of the array.
    pub fn array_bytes(self) -> u64 {
        self.bytes().saturating_mul(u64::from(self.procs))
    }

    /// The shape of the array.
    pub fn shape(self) -> [u64; 2] {
        [self.rows.saturating_mul(u64::from(self.procs)), COLUMNS]
    }

    /// Rows of a chunk: the most that divide the rows of a process, so that no two processes write to one chunk.
    pub fn chunk_rows(self) -> u64 {
        let divides = |rows: &u64| self.rows.is_multiple_of(*rows);
        (1..=CHUNK_ROWS_MAX.min(self.rows)).rev().find(divides).unwrap_or(1)
    }

    /// The first row of a process.
    pub fn first_row(self, rank: u32) -> u64 {
        self.rows * u64::from(rank)
    }
}

/// The element at `index` of the array of a round, counted in C order. `parallel_hdf5.c` computes the same.
pub fn element(seed: u32, round: u32, index: u64) -> u32 {
    let salt = seed.wrapping_mul(0x27d4_eb2f).wrapping_add(round.wrapping_mul(0x1656_67b1));
    let mut v = (index as u32 ^ salt).wrapping_mul(0x9e37_79b1);
    v ^= v >> 15;
    v = v.wrapping_mul(0x85eb_ca77);
    v ^ v >> 13
}

/// The rows of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) part: Part,
    pub(crate) rank: u32,
    pub(crate) seed: u32,
    pub(crate) round: u32,
}

impl Rows {
    fn elements(self) -> impl Iterator<Item = [u8; ELEMENT_BYTES as usize]> {
        let first = self.part.first_row(self.rank) * COLUMNS;
        let elements = first..first + self.part.rows * COLUMNS;
        elements.map(move |index| element(self.seed, self.round, index).to_ne_bytes())
    }

    /// Fills a buffer of their size.
    pub(crate) fn fill(self, buffer: &mut Buffer) {
        let places = buffer.chunks_exact_mut(ELEMENT_BYTES as usize);
        places.zip(self.elements()).for_each(|(place, element)| place.copy_from_slice(&element));
    }

    /// Checks that a buffer has them.
    pub(crate) fn check(self, buffer: &Buffer) -> Result<()> {
        let found = buffer.chunks_exact(ELEMENT_BYTES as usize);
        let differing = found.zip(self.elements()).position(|(found, written)| found != written);
        ensure_intact(differing.is_none(), || {
            let at = differing.unwrap_or(0) as u64;
            let (row, column) = (self.part.first_row(self.rank) + at / COLUMNS, at % COLUMNS);
            format!("element [{row}, {column}]: the data read is not the data written")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_divide_the_rows_of_a_process() {
        let rows = |rows| Part { rows, procs: 3 }.chunk_rows();
        assert_eq!([1, 7, 1024, 1536, 4096, 1031].map(rows), [1, 7, 1024, 768, 1024, 1]);
        let part = Part { rows: 256, procs: 3 };
        assert_eq!(
            (part.bytes(), part.array_bytes(), part.shape()),
            (1 << 20, 3 << 20, [768, 1024])
        );
    }

    #[test]
    fn error_names_differing_element() {
        let rows = |rank, round| Rows { part: Part { rows: 2, procs: 2 }, rank, seed: 7, round };
        let mut buffer = Buffer::new(2 * ROW_BYTES).unwrap();
        rows(1, 3).fill(&mut buffer);
        rows(1, 3).check(&buffer).unwrap();
        assert!(rows(0, 3).check(&buffer).is_err() && rows(1, 2).check(&buffer).is_err());
        buffer[(ROW_BYTES + 9) as usize] ^= 1;
        assert!(rows(1, 3).check(&buffer).unwrap_err().message().starts_with("element [3, 2]"));
    }
}
