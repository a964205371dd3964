//! What a process of either benchmark has.
use super::files::{self, FileSystem};
use super::worker::Job;
use crate::payload::{self, Payload};
use esker_types::{Error, ErrorKind, Result};

/// Its number, its files, and the data that belongs in them.
pub(super) struct Process {
    pub(super) files: Box<dyn FileSystem>,
    pub(super) rank: u32,
    pub(super) payload: Payload,
    pub(super) buffer: Vec<u8>,
    procs: u32,
    seed: u64,
}

impl Process {
    /// That of a job which writes and reads at most `bytes` at once.
    pub(super) fn new(job: &Job, bytes: u64) -> Result<Self> {
        let bytes = usize::try_from(bytes)
            .map_err(|_| Error::new(ErrorKind::Invalid, "the size does not fit in memory"))?;
        Ok(Self {
            files: files::open(&job.place)?,
            rank: job.rank,
            payload: Payload::new(job.seed, bytes),
            buffer: vec![0; bytes],
            procs: job.procs.max(1),
            seed: job.seed,
        })
    }

    /// How many there are.
    pub(super) fn procs(&self) -> u32 {
        self.procs
    }

    /// The process so many numbers on.
    pub(super) fn neighbour(&self, on: u64) -> u32 {
        ((u64::from(self.rank) + on) % u64::from(self.procs)) as u32
    }

    /// The numbers below `count` in an order that follows from the seed and from `who`.
    pub(super) fn shuffled(&self, count: u64, who: u32) -> Vec<u64> {
        let mut numbers: Vec<u64> = (0..count).collect();
        let mut state = self.seed ^ u64::from(who);
        for at in (1..numbers.len()).rev() {
            numbers.swap(at, (payload::next(&mut state) % (at as u64 + 1)) as usize);
        }
        numbers
    }
}
