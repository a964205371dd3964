//! The process of `esker bench growth`: cost of operations as a store grows from size to size.
//!
//! Entries are small values under keys of a Key-Value, or Arrays of one piece. Their keys and ids are spread over the
//! whole range, so an index has no favourable order. The limit is a file of the same values, which grows with the
//! store.
use crate::buffer::Buffer;
use crate::errors::Doing;
use crate::job::{Job, Slot};
use crate::limit::nameless_file;
use crate::load::{self, Load, missing_store};
use crate::measure::{Measured, Until, measure};
use crate::payload::Payload;
use crate::worker::Work;
use esker_types::Result;
use fastrand::Rng;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Job of the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GrowthJob {
    /// The store, its values, and the folder of the file.
    pub job: Job,
    /// Writes to the file wait for the medium.
    pub durable: bool,
}

/// A phase of the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GrowthStep {
    /// Open the pool and read one of this number of entries, as a program does after a restart.
    Open(u64),
    /// Append the values of these entries to the file.
    Append(Range<u64>),
    /// Store these entries.
    Put(Range<u64>),
    /// Read values at random offsets of the file: their number, then that of those read.
    Pread(u64, u64),
    /// Read entries at random, and compare them with what was stored.
    Get(u64, u64),
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
    /// A file without a name, which disappears with this process.
    file: File,
    durable: bool,
    random: Rng,
    value: Buffer,
}

impl Work for Worker {
    type Job = GrowthJob;
    type Step = GrowthStep;
    type Done = Measured;

    fn begin(GrowthJob { job, durable }: GrowthJob) -> Result<Self> {
        Ok(Self {
            load: None,
            payload: Payload::new(job.member.seed, job.size_bytes)?,
            file: nameless_file(&job.folder)?,
            durable,
            random: Rng::with_seed(job.member.seed),
            value: Buffer::new(job.size_bytes)?,
            job,
        })
    }

    fn take(&mut self, step: GrowthStep) -> Result<Measured> {
        // The store is opened by `Open` within the measurement, for the others before it.
        if matches!(step, GrowthStep::Put(_) | GrowthStep::Get(..)) {
            self.load()?;
        }
        let ops = match &step {
            GrowthStep::Open(_) => 1,
            GrowthStep::Append(entries) | GrowthStep::Put(entries) => entries.end - entries.start,
            GrowthStep::Pread(_, ops) | GrowthStep::Get(_, ops) => *ops,
        };
        measure(Until::ops(ops), self.job.size_bytes, |op| match &step {
            GrowthStep::Append(entries) => self.append(entries.start + op),
            GrowthStep::Put(entries) => self.put(entries.start + op),
            GrowthStep::Pread(entries, _) => self.pread(*entries),
            GrowthStep::Open(entries) | GrowthStep::Get(entries, _) => self.get(*entries),
        })
    }
}

impl Worker {
    /// The store, which is opened at its first use.
    fn load(&mut self) -> Result<&mut Box<dyn Load>> {
        let opened = match self.load.take() {
            Some(opened) => opened,
            None => load::open(&self.job, self.job.store.as_ref().ok_or_else(missing_store)?)?,
        };
        Ok(self.load.insert(opened))
    }

    fn put(&mut self, entry: u64) -> Result<()> {
        let slot = slot(entry);
        self.load.as_mut().ok_or_else(missing_store)?.write(slot, self.payload.block(slot))
    }

    /// Reads any of the entries.
    fn get(&mut self, entries: u64) -> Result<()> {
        let slot = slot(self.random.u64(..entries.max(1)));
        self.load()?;
        self.load.as_mut().ok_or_else(missing_store)?.read(slot, &mut self.value)?;
        self.payload.check(slot, &self.value)
    }

    fn append(&mut self, entry: u64) -> Result<()> {
        let written = self.file.write_all_at(&self.value, entry * self.job.size_bytes);
        let synced =
            written.and_then(|()| if self.durable { self.file.sync_data() } else { Ok(()) });
        synced.doing(|| "pwrite of the file that measures the medium's limit")
    }

    /// Reads any of the values.
    fn pread(&mut self, entries: u64) -> Result<()> {
        let entry = self.random.u64(..entries.max(1));
        let read = self.file.read_exact_at(&mut self.value, entry * self.job.size_bytes);
        read.doing(|| "pread of the file that measures the medium's limit")
    }
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
