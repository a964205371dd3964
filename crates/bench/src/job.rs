//! Messages to a worker process: one job, then steps.
use crate::pin;
use esker_types::Result;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The warm-up round, which is not measured. Measured rounds count from 1.
pub const WARM_UP: u32 = 0;

/// One of the processes of a benchmark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its number, from 0.
    pub rank: u32,
    /// Number of processes.
    pub procs: u32,
    /// The processor to run on; any if not given.
    pub cpu: Option<u32>,
    /// Seed of the data.
    pub seed: u64,
}

impl Member {
    /// The processes of a benchmark, which run on `cpus` in turn.
    pub fn all(procs: u32, seed: u64, cpus: &[u32]) -> impl Iterator<Item = Self> {
        (0..procs).map(move |rank| Self { rank, procs, cpu: pin::cpu_of(cpus, rank), seed })
    }

    /// Pins this process to its processor.
    pub fn pin(&self) -> Result<()> {
        self.cpu.map_or(Ok(()), pin::to)
    }

    /// Rank of the process that follows this one by `distance`. The first process follows the last.
    pub fn next(&self, distance: u64) -> u32 {
        ((u64::from(self.rank) + distance) % u64::from(self.procs.max(1))) as u32
    }

    /// The process whose data this process reads: the next one.
    pub fn neighbour(&self) -> u32 {
        self.next(1)
    }
}

/// The job of one process of a benchmark.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The process.
    pub member: Member,
    /// Bytes moved by one operation.
    pub size_bytes: u64,
    /// Operations per phase, and blocks in the file on which the limit is measured.
    pub ops: u64,
    /// Directory on the medium, for the file on which the limit is measured.
    pub folder: PathBuf,
    /// Duration of a phase of the limit; `ops` operations if not set.
    pub seconds: Option<f64>,
    /// The store; none if only the limit is measured.
    pub store: Option<StoreJob>,
}

/// The store of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoreJob {
    /// Pool by name, UUID or URL.
    pub pool: String,
    /// Container in it.
    pub container: String,
    /// Name of the object class.
    pub class: String,
    /// The kind of data.
    pub workload: Workload,
}

/// A kind of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum Kind {
    /// Keys of one Key-Value.
    Kv,
    /// Arrays.
    Array,
}

/// The kind of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Workload {
    /// One Array for each operation.
    Array(Index),
    /// One key of a Key-Value for each operation.
    Kv,
}

impl Workload {
    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Array(Index::None) => "array",
            Self::Array(Index::Own) => "array+index",
            Self::Array(Index::Shared) => "array+shared-index",
            Self::Kv => "kv",
        }
    }
}

/// The index that records the ids of Arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Index {
    /// No index: readers know the ids.
    None,
    /// One Key-Value per process (low contention).
    Own,
    /// One Key-Value for all processes (high contention).
    Shared,
}

/// One phase. A worker begins as soon as it reads the message, so all workers begin together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoadStep {
    /// pwrite of blocks to an existing file.
    Pwrite,
    /// pwrite of blocks, each followed by fdatasync.
    PwriteSync,
    /// pread of blocks.
    Pread,
    /// memcpy of blocks.
    Memcpy,
    /// Stores the data of a round.
    Write(u32),
    /// Reads the data that the next process stored in a round.
    Read(u32),
    /// Reads and compares that data; not measured.
    Verify(u32),
    /// Removes the data that this process stored in a round.
    Remove(u32),
}

impl LoadStep {
    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pwrite => "pwrite",
            Self::PwriteSync => "pwrite+sync",
            Self::Pread => "pread",
            Self::Memcpy => "memcpy",
            Self::Write(_) => "write",
            Self::Read(_) => "read",
            Self::Verify(_) => "verify",
            Self::Remove(_) => "remove",
        }
    }
}

/// Identifies one operation: process, round and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Number of the process.
    pub rank: u32,
    /// The round.
    pub round: u32,
    /// Number of the operation, from 0.
    pub op: u64,
}

impl Slot {
    /// All three in one number: 16 bits of rank, 8 of round, 40 of operation.
    pub fn number(self) -> u64 {
        u64::from(self.rank) << 48 | u64::from(self.round & 0xff) << 40 | self.op & 0xff_ffff_ffff
    }

    /// The key of the slot: that number as 16 hexadecimal digits.
    pub fn key(self) -> [u8; 16] {
        let number = self.number();
        std::array::from_fn(|digit| b"0123456789abcdef"[(number >> (60 - 4 * digit)) as usize & 15])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Job {
        /// A job on the container `bench` of a pool that is open.
        pub(crate) fn for_test(member: Member, workload: Workload) -> Self {
            let store = StoreJob {
                pool: "unused".to_owned(),
                container: "bench".to_owned(),
                class: "S1".to_owned(),
                workload,
            };
            let folder = std::env::temp_dir();
            Self { member, size_bytes: 2000, ops: 20, folder, seconds: None, store: Some(store) }
        }
    }

    #[test]
    fn each_slot_has_a_distinct_key() {
        let slot = Slot { rank: 2, round: 1, op: 0xabc };
        assert_eq!(&slot.key(), b"0002010000000abc");
        assert_eq!(slot.number(), 0x0002_0100_0000_0abc);
    }
}
