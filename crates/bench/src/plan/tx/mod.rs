//! `esker bench tx`: compares transactions mixed with puts and gets with the limit of the medium.
//!
//! Each process puts values under new keys of a Key-Value of its own and gets some of them, as in `kv`. Between them,
//! it runs transactions on counters that all processes share: each reads two counters and increments both.
mod counters;
pub mod limits;

use super::location::Location;
use super::store::{Case, Plan, write_limit};
use super::{Benchmark, Measurement, Note, Tallies, parse_size};
use crate::errors::{ensure, ensure_valid};
use crate::job::{Job, LoadStep, Member, Slot, WARM_UP};
use crate::load::{self, missing_store};
use crate::measure::{Measured, MixedMeter, Tally};
use crate::processes::{Processes, WorkerKind};
use crate::report::{Report, Run, RunName};
use crate::worker::Work;
use clap::Args;
use counters::Counters;
use esker::Pool;
use esker::types::info::OpenMode;
use esker_types::{ErrorKind, Result};
use fastrand::Rng;
use limits::{COUNT_BYTES, COUNTERS_MAX};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Name of the workload in reports.
const WORKLOAD: &str = "tx";

/// Measure transactions mixed with puts and gets of Key-Values
#[derive(Clone, Debug, Args)]
#[command(after_long_help = include_str!("../../help/tx.txt").trim_end())]
pub struct TxPlan {
    /// Size of a value, or several sizes, separated by commas
    #[arg(long = "value", value_name = "SIZE", default_value = "64", value_delimiter = ',')]
    #[arg(value_parser = parse_size)]
    pub sizes: Vec<u64>,
    /// One operation in N is a transaction
    #[arg(long = "tx-every", value_name = "N", default_value_t = 10)]
    pub every: u64,
    /// Number of counters that the transactions of all processes share: conflicts are rarer with more
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub counters: u64,
    /// Puts and gets: [`Plan::ops`] of each by each process in a round.
    #[command(flatten)]
    pub plan: Plan,
}

impl Benchmark for TxPlan {
    fn run(&self, note: Note<'_>) -> Result<Measurement> {
        let plan = Plan { sizes: self.sizes.clone(), ..self.plan.clone() };
        Self { plan, ..self.clone() }.measure_all(note).map(Measurement::from)
    }
}

/// The phases of a case.
#[derive(Default)]
struct Mixture {
    /// Puts and gets, with their limits.
    keys: Tallies,
    transactions: Tally,
    all: Tally,
    conflicts: u64,
}

impl TxPlan {
    /// Measures all cases one after another.
    fn measure_all(&self, note: Note<'_>) -> Result<Report> {
        self.check()?;
        let location = self.plan.pool.open_or_create(|| self.needs(), note)?;
        check_transactions(&location)?;
        let mut runs = Vec::new();
        for case in self.plan.cases(location.durable) {
            let measured = location.in_container(|container| {
                self.rounds(&self.job(&location, case, container)?, &location, note)
            })?;
            runs.extend(measured.runs(case, &location));
        }
        let mut options = self.plan.options();
        options["tx_every"] = json!(self.every);
        options["counters"] = json!(self.counters);
        location.report(self.plan.seed, options, runs)
    }

    /// Fails if an option of the plan is invalid, if values are too short for a count, or if the number of counters or
    /// the share of transactions is out of range.
    fn check(&self) -> Result<()> {
        self.plan.check()?;
        let fits = self.plan.sizes.iter().all(|&size| size >= COUNT_BYTES as u64);
        ensure_valid(fits, || {
            format!("--value must be at least {COUNT_BYTES}: a counter begins with its count")
        })?;
        ensure_valid(self.every >= 2, || "--tx-every must be at least 2: one in 2 operations")?;
        ensure_valid((2..=COUNTERS_MAX).contains(&self.counters), || {
            format!("--counters must be 2 to {COUNTERS_MAX}")
        })
    }

    /// Payload and index entries of the largest case. Transactions write no more than puts.
    fn needs(&self) -> (u64, u64) {
        let (bytes, entries) = self.plan.needs();
        let size = self.plan.sizes.iter().copied().max().unwrap_or(0);
        (2 * bytes + self.counters * size, entries + self.counters)
    }

    /// Job of the processes of a case.
    fn job(&self, location: &Location, case: Case, container: &str) -> Result<TxJob> {
        let targets = if location.store() == "esker" { location.targets()? } else { None };
        Ok(TxJob {
            job: self.plan.job(location, case, container),
            every: self.every,
            counters: self.counters,
            targets: targets.map_or(1, |targets| targets as u32),
        })
    }

    /// Measures the rounds of a case. Store and limit alternate, so that other load on the machine affects both.
    fn rounds(&self, job: &TxJob, location: &Location, note: Note<'_>) -> Result<Mixture> {
        let mut mixture = Mixture::default();
        let mut processes = start(job)?;
        note("warming up");
        load(&mut processes, LoadStep::Write(WARM_UP))?;
        load(&mut processes, LoadStep::Remove(WARM_UP))?;
        for round in 1..=self.plan.rounds {
            note(&format!("round {round} of {}", self.plan.rounds));
            let limit = write_limit(location.durable);
            mixture.keys.write_limit.add_round(&load(&mut processes, limit)?);
            mixture.keys.read_limit.add_round(&load(&mut processes, LoadStep::Pread)?);
            if self.plan.fresh {
                processes = start(job)?;
            }
            self.measure_round(&mut processes, round, &mut mixture)?;
        }
        Ok(mixture)
    }

    /// Measures a round, then verifies the values and the sum of all counters.
    fn measure_round(
        &self,
        processes: &mut TxProcesses,
        round: u32,
        mixture: &mut Mixture,
    ) -> Result<()> {
        processes.all(TxStep::Reset)?;
        let done = processes.all(TxStep::Mix(round))?;
        mixture.add(&done);
        if self.plan.verify {
            load(processes, LoadStep::Verify(round))?;
            let transactions = |done: &TxDone| done.kinds[Kind::Transaction as usize].ops;
            let increments = 2 * done.iter().map(transactions).sum::<u64>();
            processes.all(TxStep::Sum { increments })?;
        }
        load(processes, LoadStep::Remove(round)).map(drop)
    }
}

/// Fails if the pool has no transactions.
fn check_transactions(location: &Location) -> Result<()> {
    let has = location.pool()?.capabilities().transactions;
    ensure(has, ErrorKind::NotSupported, || {
        format!("{} has no transactions: name a pool that has, or leave out --pool", location.url)
    })
}

/// The processes of a case.
type TxProcesses = Processes<TxStep, TxDone>;

/// Starts the processes.
fn start(job: &TxJob) -> Result<TxProcesses> {
    let members = Member::all(job.job.member.procs, job.job.member.seed, &[]);
    let jobs = members.map(|member| TxJob { job: Job { member, ..job.job.clone() }, ..*job });
    TxProcesses::launch(WorkerKind::Tx, jobs)
}

/// Runs a step of the benchmark `kv` in all processes, and returns the measurement of each.
fn load(processes: &mut TxProcesses, step: LoadStep) -> Result<Vec<Measured>> {
    let done = processes.all(TxStep::Load(step))?;
    Ok(done.into_iter().map(|done| done.all).collect())
}

impl Mixture {
    /// Adds the figures of a round.
    fn add(&mut self, done: &[TxDone]) {
        let kinds = [
            (Kind::Put, &mut self.keys.write),
            (Kind::Get, &mut self.keys.read),
            (Kind::Transaction, &mut self.transactions),
        ];
        for (kind, tally) in kinds {
            tally.add_round(
                &done.iter().map(|one| one.kinds[kind as usize].clone()).collect::<Vec<_>>(),
            );
        }
        self.all.add_round(&done.iter().map(|one| one.all.clone()).collect::<Vec<_>>());
        self.conflicts += done.iter().map(|one| one.conflicts).sum::<u64>();
    }

    /// The runs of the report. A transaction is compared with the write of two blocks.
    fn runs(&self, Case { procs, size: size_bytes, .. }: Case, location: &Location) -> [Run; 6] {
        let store = location.store();
        let name = RunName { store, workload: WORKLOAD, phase: "mixed", procs, size_bytes };
        let limit = write_limit(location.durable).name();
        let [write_limit, put, read_limit, get] =
            self.keys.runs(name, [limit, "put", LoadStep::Pread.name(), "get"]);
        let pair = RunName { phase: "tx", size_bytes: 2 * size_bytes, ..name };
        let transaction = Run::new(&pair, &self.transactions, Some(&self.keys.write_limit));
        let transaction = Run { conflicts: Some(self.conflicts), ..transaction };
        [write_limit, put, transaction, read_limit, get, Run::new(&name, &self.all, None)]
    }
}

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
    /// Name of the step in messages of errors.
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
    /// Opens the counters and keys of a worker in a pool.
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
