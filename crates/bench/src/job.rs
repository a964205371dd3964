//! What a worker process is told: its job once, then one step after the other.
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The round that warms memory up and is not measured; measured ones follow from 1.
pub const WARM_UP: u32 = 0;

/// What one process of a benchmark works on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Number of the process, from 0.
    pub rank: u32,
    /// Processes in all.
    pub procs: u32,
    /// Bytes moved by one operation.
    pub size_bytes: u64,
    /// Operations in one phase, and blocks in the file of the limit.
    pub ops: u64,
    /// What the payload is made from.
    pub seed: u64,
    /// Folder on the medium, for the file on which the limit is measured.
    pub folder: PathBuf,
    /// Where set, phases of the limit last this long in place of `ops` operations.
    pub seconds: Option<f64>,
    /// The store to work on; none where only the limit is wanted.
    pub store: Option<StoreJob>,
}

/// The part of a job that is about the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoreJob {
    /// Pool by name, UUID or URL.
    pub pool: String,
    /// Container in it.
    pub container: String,
    /// Name of the object class.
    pub class: String,
    /// What is stored.
    pub workload: Workload,
}

/// What is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// One Array for each operation.
    Array(Index),
    /// One key of a Key-Value for each operation.
    Kv,
}

impl Workload {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Array(Index::None) => "array",
            Self::Array(Index::Own) => "array+index",
            Self::Array(Index::Shared) => "array+shared-index",
            Self::Kv => "kv",
        }
    }
}

/// Where an Array is noted, so that it can be found again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Index {
    /// Nowhere: readers know its id.
    None,
    /// In a Key-Value of each process (low contention).
    Own,
    /// In one Key-Value of all processes (high contention).
    Shared,
}

/// One phase. Each worker begins when it reads the line, so all begin together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadStep {
    /// pwrite of blocks into a file that is there already.
    Pwrite,
    /// The same with a sync of the data after each block.
    PwriteSync,
    /// pread of them.
    Pread,
    /// Copies of blocks from memory to memory.
    Memcpy,
    /// Stores the data of a round.
    Write(u32),
    /// Reads what the next process stored in a round.
    Read(u32),
    /// The same, comparing it with what was written; not measured.
    Verify(u32),
    /// Removes what this process stored in a round.
    Remove(u32),
}

impl LoadStep {
    /// Its name in reports.
    #[must_use]
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

/// The place of one operation: who did it, in which round, and the how many-th it was.
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
    /// One number for all three: 16 bits of rank, 8 of round, 40 of operation.
    #[must_use]
    pub fn number(self) -> u64 {
        u64::from(self.rank) << 48 | u64::from(self.round & 0xff) << 40 | self.op & 0xff_ffff_ffff
    }

    /// That number as 16 hexadecimal digits, the key of the slot.
    #[must_use]
    pub fn key(self) -> [u8; 16] {
        let number = self.number();
        std::array::from_fn(|digit| b"0123456789abcdef"[(number >> (60 - 4 * digit)) as usize & 15])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_have_keys_of_their_own() {
        let slot = Slot { rank: 2, round: 1, op: 0xabc };
        assert_eq!(&slot.key(), b"0002010000000abc");
        assert_eq!(slot.number(), 0x0002_0100_0000_0abc);
    }

    #[test]
    fn steps_and_jobs_travel_as_one_line() {
        assert_eq!(serde_json::to_string(&LoadStep::Read(3)).unwrap(), r#"{"read":3}"#);
        assert_eq!(
            serde_json::from_str::<LoadStep>(r#""pwrite_sync""#).unwrap(),
            LoadStep::PwriteSync
        );
        let workload = Workload::Array(Index::Shared);
        assert_eq!(serde_json::to_string(&workload).unwrap(), r#"{"array":"shared"}"#);
    }
}
