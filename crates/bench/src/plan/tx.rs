//! `esker bench tx`: compares transactions mixed with puts and gets with the limit of the medium.
use super::location::Location;
use super::store::{Case, Plan, write_limit};
use super::{Benchmark, Measurement, Note, Tallies, parse_size};
use crate::errors::{ensure, ensure_valid};
use crate::job::{Job, LoadStep, Member, WARM_UP};
use crate::measure::{Measured, Tally};
use crate::processes::{Processes, WorkerKind};
use crate::report::{Report, Run, RunName};
use crate::tx::limits::{COUNT_BYTES, COUNTERS_MAX};
use crate::tx::{Kind, TxDone, TxJob, TxStep};
use clap::Args;
use esker_types::{ErrorKind, Result};
use serde_json::json;

/// Name of the workload in reports.
const WORKLOAD: &str = "tx";

/// Measure transactions mixed with puts and gets of Key-Values
#[derive(Clone, Debug, Args)]
#[command(after_long_help = include_str!("../help/tx.txt").trim_end())]
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

    fn job(&self, location: &Location, case: Case, container: &str) -> Result<TxJob> {
        let targets = if location.store() == "esker" { location.targets()? } else { None };
        Ok(TxJob {
            job: self.plan.job(location, case, container),
            every: self.every,
            counters: self.counters,
            targets: targets.map_or(1, |targets| targets as u32),
        })
    }

    /// Store and limit alternate, so that other load on the machine affects both.
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
            self.round(&mut processes, round, &mut mixture)?;
        }
        Ok(mixture)
    }

    fn round(&self, processes: &mut TxProcesses, round: u32, mixture: &mut Mixture) -> Result<()> {
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

fn check_transactions(location: &Location) -> Result<()> {
    let has = location.pool()?.capabilities().transactions;
    ensure(has, ErrorKind::NotSupported, || {
        format!("{} has no transactions: name a pool that has, or leave out --pool", location.url)
    })
}

/// The processes of a case.
type TxProcesses = Processes<TxStep, TxDone>;

fn start(job: &TxJob) -> Result<TxProcesses> {
    let members = Member::all(job.job.member.procs, job.job.member.seed, &[]);
    let jobs = members.map(|member| TxJob { job: Job { member, ..job.job.clone() }, ..*job });
    TxProcesses::launch(WorkerKind::Tx, jobs)
}

/// Takes a step of `kv`.
fn load(processes: &mut TxProcesses, step: LoadStep) -> Result<Vec<Measured>> {
    let done = processes.all(TxStep::Load(step))?;
    Ok(done.into_iter().map(|done| done.all).collect())
}

impl Mixture {
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

    /// A transaction is compared with the write of two blocks.
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
