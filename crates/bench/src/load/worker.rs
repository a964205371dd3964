//! One process of `array` and `kv`, which also measures the limit of the medium.
use super::{Load, load_in, open};
use crate::buffer::Buffer;
use crate::job::{Job, LoadStep, Slot, WARM_UP};
use crate::limit::Limit;
use crate::measure::{Measured, Until, measure};
use crate::payload::Payload;
use crate::worker::Work;
use esker::Pool;
use esker_types::{Error, ErrorKind, Result};

/// State of a worker between steps.
pub struct Worker {
    job: Job,
    payload: Payload,
    buffer: Buffer,
    limit: Limit,
    load: Option<Box<dyn Load>>,
}

impl Work for Worker {
    type Job = Job;
    type Step = LoadStep;
    type Done = Measured;

    fn begin(job: Job) -> Result<Self> {
        job.member.pin()?;
        let load = job.store.as_ref().map(|store| open(&job, store)).transpose()?;
        Self::with_load(job, load)
    }

    fn take(&mut self, step: LoadStep) -> Result<Measured> {
        match step {
            LoadStep::Pwrite => self.limit.pwrite(self.until()),
            LoadStep::PwriteSync => self.limit.pwrite_sync(self.until()),
            LoadStep::Pread => self.limit.pread(self.until()),
            LoadStep::Memcpy => self.limit.memcpy(self.until()),
            LoadStep::Write(round) => self.each(self.job.member.rank, round, Self::write),
            LoadStep::Read(round) => self.each(self.job.member.neighbour(), round, Self::read),
            LoadStep::Verify(round) => self.each(self.job.member.neighbour(), round, Self::verify),
            LoadStep::Remove(round) => self.each(self.job.member.rank, round, Self::remove),
        }
    }

    fn name(step: &LoadStep) -> Option<String> {
        Some(step.name().to_owned())
    }
}

impl Worker {
    /// A worker in an open pool.
    pub(crate) fn in_pool(pool: &Pool, job: Job) -> Result<Self> {
        let load = job.store.as_ref().map(|store| load_in(pool, &job, store)).transpose()?;
        Self::with_load(job, load)
    }

    /// A worker that measures `load` and, with files in the directory of the job, the limit of the medium.
    fn with_load(job: Job, load: Option<Box<dyn Load>>) -> Result<Self> {
        let limit = Limit::new(&job.folder, job.size_bytes, job.ops)?;
        let payload = Payload::new(job.member.seed, job.size_bytes)?;
        Ok(Self { payload, buffer: Buffer::new(job.size_bytes)?, limit, load, job })
    }

    fn until(&self) -> Until {
        let ops = if self.job.seconds.is_some() { u64::MAX } else { self.job.ops };
        Until::limits(ops, self.job.seconds)
    }

    /// Measures `op` on each block that process `rank` has in a round. The warm-up does an eighth more operations,
    /// because the share of each target differs from round to round.
    fn each(
        &mut self,
        rank: u32,
        round: u32,
        mut op: impl FnMut(&mut Self, Slot) -> Result<()>,
    ) -> Result<Measured> {
        let Job { ops, size_bytes, .. } = self.job;
        let ops = if round == WARM_UP { ops + ops / 8 } else { ops };
        measure(Until::ops(ops), size_bytes, |index| op(self, Slot { rank, round, op: index }))
    }

    /// Writes the block of a slot.
    pub(crate) fn write(&mut self, slot: Slot) -> Result<()> {
        self.load.as_mut().ok_or_else(missing_store)?.write(slot, self.payload.block(slot))
    }

    /// Reads the block of a slot.
    pub(crate) fn read(&mut self, slot: Slot) -> Result<()> {
        self.load.as_mut().ok_or_else(missing_store)?.read(slot, &mut self.buffer)
    }

    /// Reads a block and compares it with what was written.
    fn verify(&mut self, slot: Slot) -> Result<()> {
        self.buffer.fill(0);
        self.read(slot)?;
        self.payload.check(slot, &self.buffer)
    }

    fn remove(&mut self, slot: Slot) -> Result<()> {
        self.load.as_mut().ok_or_else(missing_store)?.remove(slot)
    }
}

#[cold]
pub(crate) fn missing_store() -> Error {
    Error::new(ErrorKind::Invalid, "this job has no store")
}

#[cfg(test)]
mod tests;
