//! The work of `esker bench tx`: transactions mixed with puts and gets, by several processes on one pool.
//!
//! Each process puts values under new keys of a Key-Value of its own and gets some of them, as in `kv`. Between them,
//! it runs transactions on counters that all processes share: each reads two counters and increments both.
mod counters;
pub mod limits;

use crate::job::{Job, LoadStep, Slot};
use crate::load::{self, missing_store};
use crate::measure::{Measured, MixedMeter};
use crate::worker::Work;
use counters::Counters;
use esker::Pool;
use esker::types::info::OpenMode;
use esker_types::Result;
use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// Kinds of operations in a mixture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A put of a value under a new key.
    Put,
    /// A get of a value that the process has put.
    Get,
    /// A transaction that increments two counters.
    Transaction,
}

/// Number of kinds.
pub const KINDS: usize = 3;

/// The job of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TxJob {
    /// Puts and gets: the store, the values, and `ops` of each in a round.
    pub job: Job,
    /// One operation in this number is a transaction.
    pub every: u64,
    /// Number of counters.
    pub counters: u64,
    /// Targets of the pool, by which the two counters of a transaction are on different ones; 1 if that is not known.
    pub targets: u32,
}

/// A phase of all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TxStep {
    /// A step of `kv`: a limit, or unmeasured work on the keys of a round.
    Load(LoadStep),
    /// Set the counters to zero; not measured.
    Reset,
    /// Puts, gets and transactions of a round.
    Mix(u32),
    /// Check all counters and their sum; not measured.
    Sum {
        /// Increments since the reset.
        increments: u64,
    },
}

impl TxStep {
    /// Name in errors.
    fn name(self) -> &'static str {
        match self {
            Self::Load(step) => step.name(),
            Self::Reset => "reset",
            Self::Mix(_) => "mix",
            Self::Sum { .. } => "sum",
        }
    }
}

/// The reply to a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TxDone {
    /// All operations.
    pub all: Measured,
    /// Operations by [`Kind`].
    pub kinds: [Measured; KINDS],
    /// Commits that conflicts refused and that were repeated.
    pub conflicts: u64,
}

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
