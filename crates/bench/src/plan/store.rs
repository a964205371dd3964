//! `esker bench array` and `esker bench kv`: compares the store with the limit of its medium.
use super::location::Location;
use super::scratch::OwnPool;
use super::{Benchmark, LoadProcesses, Measurement, Note, Tallies};
use super::{check, check_rounds, parse_size, start_processes};
use crate::job::{Index, Job, LoadStep, Member, WARM_UP, Workload};
use crate::report::{Report, Run, RunName};
use clap::Args;
use esker_cli::DurabilityArg;
use esker_types::Result;
use serde_json::{Value, json};

/// The pool that a benchmark uses.
#[derive(Clone, Debug, Args)]
pub struct BenchPool {
    /// Existing pool to measure, in temporary containers [default: a temporary pool]
    #[arg(long, value_name = "POOL", conflicts_with_all = ["path", "targets", "durability", "huge_pages", "no_write_buffer"])]
    pub pool: Option<String>,
    /// Durability of the temporary pool [default: process in memory, commit on block media]
    #[arg(long, value_name = "LEVEL")]
    pub durability: Option<DurabilityArg>,
    /// The temporary pool.
    #[command(flatten)]
    pub own: OwnPool,
}

impl BenchPool {
    /// Opens or creates the pool; `needs` are the bytes of payload and the index entries of a temporary one.
    pub(super) fn open_or_create(
        &self,
        needs: impl FnOnce() -> (u64, u64),
        note: Note<'_>,
    ) -> Result<Location> {
        match &self.pool {
            Some(name) => Location::named(name),
            None => {
                let durability = self.durability.map(Into::into);
                OwnPool { durability, ..self.own.clone() }.open(needs(), note)
            }
        }
    }
}

/// Options that `esker bench array`, `kv` and `tx` share.
#[derive(Clone, Debug, Args)]
pub struct Plan {
    /// The kind of data.
    #[arg(skip = Workload::Kv)]
    pub workload: Workload,
    /// Bytes of an operation, one set of runs for each.
    #[arg(skip)]
    pub sizes: Vec<u64>,
    /// The pool.
    #[command(flatten)]
    pub pool: BenchPool,
    /// Number of processes, or several numbers, separated by commas
    #[arg(long, value_name = "N", default_value = "1", value_delimiter = ',')]
    pub procs: Vec<u32>,
    /// Operations of each process in each phase [default: 512 MiB, 64 to 200000 operations]
    #[arg(long, value_name = "N")]
    pub ops: Option<u64>,
    /// Number of rounds of writing and reading; figures are over all rounds
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub rounds: u32,
    /// Start new processes for each round, which map the pool again, as short jobs do
    #[arg(long)]
    pub fresh: bool,
    /// Object class: S1 (one target), S2, SX (all targets) ...
    #[arg(long, value_name = "CLASS", default_value = "S1")]
    pub class: String,
    /// Compare what is read with what was written, in an unmeasured phase
    #[arg(long)]
    pub verify: bool,
    /// Seed of the data
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Measure Arrays: write each, and optionally index it in a Key-Value; then find and read it
#[derive(Clone, Debug, Args)]
#[command(after_long_help = include_str!("../help/array-kv.txt").trim_end())]
pub struct ArrayPlan {
    /// Size of an Array, or several sizes, separated by commas
    #[arg(long = "size", value_name = "SIZE", default_value = "1MiB", value_delimiter = ',')]
    #[arg(value_parser = parse_size)]
    pub sizes: Vec<u64>,
    /// Index each Array in a Key-Value of its process, and look it up there before reading it
    #[arg(long)]
    pub indexed: bool,
    /// Index all Arrays in one Key-Value that all processes share
    #[arg(long)]
    pub shared_index: bool,
    /// The other options.
    #[command(flatten)]
    pub plan: Plan,
}

/// Measure Key-Values: put values under keys, then get them
#[derive(Clone, Debug, Args)]
#[command(after_long_help = include_str!("../help/array-kv.txt").trim_end())]
pub struct KvPlan {
    /// Size of a value, or several sizes, separated by commas
    #[arg(long = "value", value_name = "SIZE", default_value = "64", value_delimiter = ',')]
    #[arg(value_parser = parse_size)]
    pub sizes: Vec<u64>,
    /// The other options.
    #[command(flatten)]
    pub plan: Plan,
}

impl Benchmark for ArrayPlan {
    fn run(&self, note: Note<'_>) -> Result<Measurement> {
        let workload = Workload::Array(match (self.indexed, self.shared_index) {
            (_, true) => Index::Shared,
            (true, false) => Index::Own,
            (false, false) => Index::None,
        });
        let plan = Plan { workload, sizes: self.sizes.clone(), ..self.plan.clone() };
        plan.run(note).map(Measurement::from)
    }
}

impl Benchmark for KvPlan {
    fn run(&self, note: Note<'_>) -> Result<Measurement> {
        let plan = Plan { sizes: self.sizes.clone(), ..self.plan.clone() };
        plan.run(note).map(Measurement::from)
    }
}

/// Payload of one process in one phase if the number of operations is not given.
const DEFAULT_BYTES: u64 = 512 << 20;
const DEFAULT_OPS_MIN: u64 = 64;
const DEFAULT_OPS_MAX: u64 = 200_000;
/// Maximum if every operation waits for the medium.
const DEFAULT_OPS_DURABLE: u64 = 1000;

/// One combination of settings.
#[derive(Clone, Copy)]
pub(super) struct Case {
    pub(super) procs: u32,
    pub(super) size: u64,
    ops: u64,
}

impl Plan {
    fn run(&self, note: Note<'_>) -> Result<Report> {
        self.check()?;
        let location = self.pool.open_or_create(|| self.needs(), note)?;
        let mut runs = Vec::new();
        for case in self.cases(location.durable) {
            let measured = location.in_container(|container| {
                self.rounds(&self.job(&location, case, container), location.durable, note)
            })?;
            runs.extend(self.runs(case, &location, &measured));
        }
        location.report(self.seed, self.options(), runs)
    }

    /// Fails if a size, a number of processes, rounds or operations is out of range, or if the object class is unknown.
    pub(super) fn check(&self) -> Result<()> {
        check(&self.sizes, &self.procs)?;
        esker_cli::class_of(&self.class)?;
        check_rounds(self.rounds, self.ops)
    }

    /// Every number of processes combined with every size, each a case to measure.
    pub(super) fn cases(&self, durable: bool) -> impl Iterator<Item = Case> {
        let case = move |procs, size| Case { procs, size, ops: self.ops_of(size, durable) };
        self.procs
            .iter()
            .flat_map(move |&procs| self.sizes.iter().map(move |&size| case(procs, size)))
    }

    fn ops_of(&self, size: u64, durable: bool) -> u64 {
        let most = if durable { DEFAULT_OPS_DURABLE } else { DEFAULT_OPS_MAX };
        self.ops.unwrap_or((DEFAULT_BYTES / size).clamp(DEFAULT_OPS_MIN, most))
    }

    /// Payload and index entries of the largest case.
    pub(super) fn needs(&self) -> (u64, u64) {
        let ops = |case: &Case| u64::from(case.procs) * case.ops;
        let bytes = self.cases(false).map(|case| ops(&case) * case.size).max();
        let entries = self.cases(false).map(|case| ops(&case) * 2).max();
        (bytes.unwrap_or(0), entries.unwrap_or(0))
    }

    /// Job of the processes of a case.
    pub(super) fn job(&self, location: &Location, case: Case, container: &str) -> Job {
        Job {
            member: Member { procs: case.procs, seed: self.seed, ..Member::default() },
            size_bytes: case.size,
            ops: case.ops,
            ..location.job(container, &self.class, self.workload)
        }
    }

    /// Measures the rounds of a case. Store and limit alternate, so that other load on the machine affects both.
    fn rounds(&self, job: &Job, durable: bool, note: Note<'_>) -> Result<Tallies> {
        let mut tallies = Tallies::default();
        let mut processes = start_processes(job, &[])?;
        note("warming up");
        processes.all(LoadStep::Write(WARM_UP))?;
        processes.all(LoadStep::Remove(WARM_UP))?;
        for round in 1..=self.rounds {
            note(&format!("round {round} of {}", self.rounds));
            tallies.write_limit.add_round(&processes.all(write_limit(durable))?);
            self.refresh(&mut processes, job)?;
            tallies.write.add_round(&processes.all(LoadStep::Write(round))?);
            tallies.read_limit.add_round(&processes.all(LoadStep::Pread)?);
            self.refresh(&mut processes, job)?;
            tallies.read.add_round(&processes.all(LoadStep::Read(round))?);
            if self.verify {
                processes.all(LoadStep::Verify(round))?;
            }
            processes.all(LoadStep::Remove(round))?;
        }
        Ok(tallies)
    }

    /// With `--fresh`, replaces the processes by new ones, so that their first operations are measured as well.
    fn refresh(&self, processes: &mut LoadProcesses, job: &Job) -> Result<()> {
        if self.fresh {
            *processes = start_processes(job, &[])?;
        }
        Ok(())
    }

    /// Runs of the report: writes and reads of the store and of the medium.
    fn runs(&self, case: Case, location: &Location, tallies: &Tallies) -> [Run; 4] {
        let name = RunName {
            store: location.store(),
            workload: self.workload.name(),
            phase: "",
            procs: case.procs,
            size_bytes: case.size,
        };
        let limit = write_limit(location.durable).name();
        tallies.runs(name, [limit, "write", LoadStep::Pread.name(), "read"])
    }

    /// The options as a JSON object, for the report.
    pub(super) fn options(&self) -> Value {
        json!({
            "rounds": self.rounds,
            "ops": self.ops,
            "class": self.class,
            "indexed": matches!(self.workload, Workload::Array(Index::Own | Index::Shared)),
            "verified": self.verify,
            "fresh": self.fresh,
        })
    }
}

/// The limit for writes of the same durability.
pub(super) fn write_limit(durable: bool) -> LoadStep {
    if durable { LoadStep::PwriteSync } else { LoadStep::Pwrite }
}
