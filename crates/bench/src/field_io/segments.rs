//! IOR in segments mode (section V-A): each process transfers all its data parts in one operation.
//!
//! The block size and transfer size of IOR (`-b`, `-t`) are the size of a part. The segment count (`-s`)
//! is the number of parts of a process. With an object for each process (`-F`) the parts follow each other;
//! in one object of all, part `p` of process `r` of `n` is stored at part `p * n + r`.
use super::Field;
use super::session::{Session, missing_key_error};
use esker_types::{Extent, ObjectId, Result};
use serde::{Deserialize, Serialize};

/// Upper user bits of objects of this benchmark.
const SEGMENTS_HI: u64 = 1;

/// Assignment of the data of processes to objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum Objects {
    /// An object for each process and iteration.
    Own,
    /// One object of all processes for each iteration.
    Shared,
}

/// Layout of the data that operations transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segments {
    /// Assignment of data to objects.
    pub objects: Objects,
    /// Parts of a process.
    pub count: u32,
    /// Bytes of a part.
    pub part_bytes: u64,
    /// Processes that write.
    pub procs: u32,
}

impl Segments {
    /// The ranges of the shared or own array that a process writes.
    fn ranges(self, process: u32) -> Vec<Extent> {
        let part = self.part_bytes;
        match self.objects {
            Objects::Own => vec![Extent::new(0, part * u64::from(self.count))],
            Objects::Shared => (0..u64::from(self.count))
                .map(|index| index * u64::from(self.procs) + u64::from(process))
                .map(|index| Extent::new(index * part, part))
                .collect(),
        }
    }

    /// User bits of the id of the array that has a field. The owner 0 is that of shared arrays.
    fn bits(self, of: Field) -> ObjectId {
        let owner = match self.objects {
            Objects::Own => u64::from(of.process) + 1,
            Objects::Shared => 0,
        };
        ObjectId { hi: SEGMENTS_HI, lo: owner << 32 | u64::from(of.index) }
    }
}

impl Session {
    /// Writes the parts of a process in one operation; `of` gives the process and the iteration.
    pub fn write_segments(&mut self, segments: Segments, of: Field, data: &[u8]) -> Result<()> {
        self.write_named(segments.bits(of), &segments.ranges(of.process), data)
    }

    /// Reads the parts of a process in one operation; `of` gives the process and the iteration.
    pub fn read_segments(
        &mut self,
        segments: Segments,
        of: Field,
        buffer: &mut [u8],
    ) -> Result<()> {
        match self.read_named(segments.bits(of), &segments.ranges(of.process), buffer)? {
            0 => Ok(()),
            _ => Err(missing_key_error(&self.key(of), "object with segments")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_in_shared_object_are_interleaved() {
        let own = Segments { objects: Objects::Own, count: 3, part_bytes: 10, procs: 2 };
        assert_eq!(own.ranges(1), [Extent::new(0, 30)]);
        let shared = Segments { objects: Objects::Shared, ..own };
        assert_eq!(shared.ranges(1), [10, 30, 50].map(|at| Extent::new(at, 10)));
        let bits = |segments: Segments, process| segments.bits(Field { process, index: 4 });
        assert_ne!(bits(own, 0), bits(own, 1));
        assert_eq!(bits(shared, 0), bits(shared, 1));
    }
}
