//! One process of `tx`.
use super::counters::Counters;
use super::{Kind, TxDone, TxJob, TxStep};
use crate::job::Slot;
use crate::load;
use crate::measure::MixedMeter;
use crate::worker::{self, Work, missing_store};
use esker::Pool;
use esker::types::info::OpenMode;
use esker_types::{Error, Result};
use fastrand::Rng;

/// The state of a process.
pub struct Worker {
    job: TxJob,
    /// Puts, gets and limits.
    keys: worker::Worker,
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
            TxStep::Reset => named("reset", self.counters.reset(self.job.job.rank)),
            TxStep::Mix(round) => named("mix", self.mix(round)),
            TxStep::Sum { increments } => named("sum", self.counters.check_sum(increments)),
        }
    }
}

fn named<T: Into<TxDone>>(step: &str, result: Result<T>) -> Result<TxDone> {
    result.map(Into::into).map_err(|error| Error::new(error.kind(), format!("{step}: {error}")))
}

impl From<()> for TxDone {
    fn from((): ()) -> Self {
        Self::default()
    }
}

impl Worker {
    fn in_pool(pool: &Pool, job: TxJob) -> Result<Self> {
        let store = job.job.store.as_ref().ok_or_else(missing_store)?;
        let load = load::load_in(pool, &job.job, store)?;
        let counters = Counters::new(pool, store, &job)?;
        let keys = worker::Worker::with_load(job.job.clone(), Some(load))?;
        let random = Rng::with_seed(job.job.seed.wrapping_add(job.job.rank.into()));
        Ok(Self { job, keys, counters, random })
    }

    /// Puts and gets alternate; one operation in `every` is a transaction.
    fn mix(&mut self, round: u32) -> Result<TxDone> {
        let (size, rank) = (self.job.job.size_bytes, u64::from(self.job.job.rank));
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
        let slot = |op| Slot { rank: self.job.job.rank, round, op };
        if number.is_multiple_of(2) {
            self.keys.write_slot(slot(number / 2)).map(|()| Kind::Put)
        } else {
            self.keys.read_slot(slot(self.random.u64(..=number / 2))).map(|()| Kind::Get)
        }
    }
}

#[cfg(test)]
mod tests;
