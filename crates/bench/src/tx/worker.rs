//! One process of `tx`.
use super::counters::Counters;
use super::{Kind, TxDone, TxJob, TxStep};
use crate::job::Slot;
use crate::load::{self, missing_store};
use crate::measure::MixedMeter;
use crate::worker::Work;
use esker::Pool;
use esker::types::info::OpenMode;
use esker_types::Result;
use fastrand::Rng;

/// The state of a process.
pub struct Worker {
    job: TxJob,
    /// Puts, gets and limits.
    keys: load::Worker,
    counters: Counters,
    random: Rng,
}

impl Work for Worker {
    type Job = TxJob;
    type Step = TxStep;
    type Done = TxDone;

    fn begin(job: TxJob) -> Result<Self> {
        let store = job.job.store.as_ref().ok_or_else(missing_store)?;
        let pool = Pool::connect(&store.pool, OpenMode::ReadWrite)?;
        Self::in_pool(&pool, job)
    }

    fn take(&mut self, step: TxStep) -> Result<TxDone> {
        match step {
            TxStep::Load(step) => {
                self.keys.take(step).map(|all| TxDone { all, ..TxDone::default() })
            }
            TxStep::Mix(round) => self.mix(round),
            TxStep::Reset => {
                self.counters.reset(self.job.job.member.rank).map(|()| TxDone::default())
            }
            TxStep::Sum { increments } => {
                self.counters.check_sum(increments).map(|()| TxDone::default())
            }
        }
    }

    fn name(step: &TxStep) -> Option<String> {
        Some(step.name().to_owned())
    }
}

impl Worker {
    fn in_pool(pool: &Pool, job: TxJob) -> Result<Self> {
        let counters = Counters::new(pool, &job)?;
        let keys = load::Worker::in_pool(pool, job.job.clone())?;
        let random = Rng::with_seed(job.job.member.seed.wrapping_add(job.job.member.rank.into()));
        Ok(Self { job, keys, counters, random })
    }

    /// Puts and gets alternate; one operation in `every` is a transaction.
    fn mix(&mut self, round: u32) -> Result<TxDone> {
        let (size, rank) = (self.job.job.size_bytes, u64::from(self.job.job.member.rank));
        let between = self.job.every.max(2) - 1;
        let mut meter = MixedMeter::start();
        let mut conflicts = 0;
        for number in 0..2 * self.job.job.ops {
            let kind = self.put_or_get(round, number)?;
            meter.tick(kind as usize, size)?;
            // Processes begin at different points of the sequence.
            if (number + rank) % between == between - 1 {
                let pair = self.counters.draw(&mut self.random);
                conflicts += self.counters.increment(pair)?;
                meter.tick(Kind::Transaction as usize, 2 * size)?;
            }
        }
        let (all, kinds) = meter.finish();
        Ok(TxDone { all, kinds, conflicts })
    }

    /// Alternately puts a value under a new key and gets a random value of the round.
    fn put_or_get(&mut self, round: u32, number: u64) -> Result<Kind> {
        let slot = |op| Slot { rank: self.job.job.member.rank, round, op };
        if number.is_multiple_of(2) {
            self.keys.write(slot(number / 2)).map(|()| Kind::Put)
        } else {
            self.keys.read(slot(self.random.u64(..=number / 2))).map(|()| Kind::Get)
        }
    }
}

#[cfg(test)]
mod tests;
