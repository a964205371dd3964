//! The process of `growth`.
use super::GrowthStep;
use super::medium::Medium;
use crate::job::{Job, Slot};
use crate::load::{self, Load};
use crate::measure::{Measured, Until, measure};
use crate::payload::Payload;
use crate::worker::Work;
use esker_types::{Error, ErrorKind, Result};
use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// Job of a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GrowthJob {
    /// The store, its values, and the folder of the file.
    pub job: Job,
    /// Writes to the file wait for the medium.
    pub durable: bool,
}

/// Maximum number of distinct entries.
pub const ENTRIES_MAX: u64 = 1 << NUMBER_BITS;
/// Bits of [`Slot::number`] for the number of an operation.
const NUMBER_BITS: u32 = 40;
/// An odd number close to the golden section of that range: multiples of it are spread evenly.
const SPREAD: u64 = 0x9e_3779_b97f;

/// The slot of an entry. No two have the same.
fn slot(entry: u64) -> Slot {
    Slot { rank: 0, round: 0, op: entry.wrapping_mul(SPREAD) % ENTRIES_MAX }
}

/// One process of `growth`.
pub struct Worker {
    job: Job,
    /// None until the store is opened.
    load: Option<Box<dyn Load>>,
    payload: Payload,
    medium: Medium,
    random: Rng,
    value: Vec<u8>,
}

impl Work for Worker {
    type Job = GrowthJob;
    type Step = GrowthStep;
    type Done = Measured;

    fn begin(GrowthJob { job, durable }: GrowthJob) -> Result<Self> {
        Ok(Self {
            load: None,
            payload: Payload::new(job.seed, job.size_bytes)?,
            medium: Medium::new(&job.folder, job.size_bytes, durable)?,
            random: Rng::with_seed(job.seed),
            value: vec![0; job.size_bytes as usize],
            job,
        })
    }

    fn take(&mut self, step: GrowthStep) -> Result<Measured> {
        match step {
            // The store is opened by the first read.
            GrowthStep::Open { entries } => self.read_some(entries, 1),
            GrowthStep::Append { from, to } => self.medium.append(from, to),
            GrowthStep::Put { from, to } => self.put(from, to),
            GrowthStep::Pread { entries, ops } => {
                self.medium.pread(ops, || self.random.u64(..entries.max(1)))
            }
            GrowthStep::Get { entries, ops } => self.get(entries, ops),
        }
    }
}

impl Worker {
    fn put(&mut self, from: u64, to: u64) -> Result<Measured> {
        self.load()?;
        measure(Until::Ops(to - from), self.job.size_bytes, |op| self.write(from + op))
    }

    fn get(&mut self, entries: u64, ops: u64) -> Result<Measured> {
        self.load()?;
        self.read_some(entries, ops)
    }

    fn read_some(&mut self, entries: u64, ops: u64) -> Result<Measured> {
        measure(Until::Ops(ops), self.job.size_bytes, |_| self.read(entries))
    }

    fn write(&mut self, entry: u64) -> Result<()> {
        let slot = slot(entry);
        load_of(&mut self.load, &self.job)?.write(slot, self.payload.block(slot))
    }

    /// Reads any of the entries.
    fn read(&mut self, entries: u64) -> Result<()> {
        let slot = slot(self.random.u64(..entries.max(1)));
        load_of(&mut self.load, &self.job)?.read(slot, &mut self.value)?;
        match self.value == self.payload.block(slot) {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Corrupt,
                format!("the data read for {slot:?} is not the data written"),
            )),
        }
    }

    /// Opens the store before the measurement.
    fn load(&mut self) -> Result<()> {
        load_of(&mut self.load, &self.job).map(|_| ())
    }
}

/// The store, which is opened at its first use.
fn load_of<'l>(load: &'l mut Option<Box<dyn Load>>, job: &Job) -> Result<&'l mut dyn Load> {
    let Some(store) = &job.store else {
        return Err(Error::new(ErrorKind::Invalid, "this job has no store"));
    };
    let opened = match load.take() {
        Some(opened) => opened,
        None => load::open(job, store)?,
    };
    Ok(&mut **load.insert(opened))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn entries_are_spread_and_distinct() {
        let numbers: HashSet<_> = (0..10_000).map(|entry| slot(entry).op).collect();
        assert_eq!(numbers.len(), 10_000);
        let low = numbers.iter().filter(|number| **number < ENTRIES_MAX / 4).count();
        assert!((2400..2600).contains(&low), "{low}");
    }
}
