//! `esker bench growth`: compares a store as it grows with a file of the same values.
use super::location::Location;
use super::scratch::targets_or_most;
use super::store::BenchPool;
use super::{Benchmark, Measurement, Note, parse_size};
use crate::growth::GrowthStep;
use crate::growth::worker::{ENTRIES_MAX, GrowthJob};
use crate::host::Host;
use crate::job::{Index, Job, StoreJob, Workload};
use crate::measure::{Measured, Tally};
use crate::processes::{Launcher, Processes, WorkerKind};
use crate::report::{Report, Run, RunName, Settings};
use clap::Args;
use esker_types::{Error, ErrorKind, Result};
use serde_json::json;

const METHOD: &str = "\
One process stores small values and measures the last puts before each size is reached, then gets of entries at random, each of \
which is compared with what was stored. Then five new processes, one after another, open the pool and get one entry, as a \
program does after a restart: that is the phase `open`. Keys and ids are spread over the whole range, so the index has no \
favourable order. The limit is a file of the same values on the same medium that grows along: pwrite at its end, pread at \
random.

A temporary pool is as large as the last size needs, at least 300 bytes for an entry of the kind `kv`. On a disk, --durability \
process saves most of the time.

Examples:
  esker bench growth --json growth.json && esker bench report growth.json -o growth.html
  esker bench growth --kind kv --entries 10000,100000,1000000,10000000";

/// Measure what an operation costs while a store grows, and how long it takes to open then
#[derive(Clone, Debug, Args)]
#[command(after_long_help = METHOD)]
pub struct GrowthPlan {
    /// The pool.
    #[command(flatten)]
    pub pool: BenchPool,
    /// Kind of entries, or both, separated by a comma
    #[arg(long = "kind", value_name = "KIND", default_value = "kv,array", value_delimiter = ',')]
    pub kinds: Vec<Kind>,
    /// Numbers of entries at which to measure, separated by commas
    #[arg(
        long,
        value_name = "N",
        default_value = "10000,30000,100000,300000,1000000",
        value_delimiter = ','
    )]
    pub entries: Vec<u64>,
    /// Size of a value
    #[arg(long = "value", value_name = "SIZE", default_value = "64")]
    #[arg(value_parser = parse_size)]
    pub value_bytes: u64,
    /// Operations of each phase at each size
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub ops: u64,
    /// Object class: S1 (one target), S2, SX (all targets) ...
    #[arg(long, value_name = "CLASS", default_value = "SX")]
    pub class: String,
    /// Seed of the values and of the choice of entries
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

impl Benchmark for GrowthPlan {
    fn run(&self, note: Note<'_>) -> Result<Measurement> {
        self.check()?;
        let location = self.pool.open_or_create(|| self.needs(), note)?;
        let host = Host::for_folder(&location.folder)?;
        let mut runs = Vec::new();
        for &kind in &self.kinds {
            location.in_container(|container| {
                self.grow(&location, kind, container, note, &mut runs)?;
                note("removing what was stored");
                Ok(())
            })?;
        }
        Ok(Report::new(host, self.settings(&location)?, runs).into())
    }
}

/// The kind of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Keys of one Key-Value.
    Kv,
    /// Arrays, each an object of its own.
    Array,
}

/// How often the store is opened at each size, each time by a new process.
const OPENINGS: u32 = 5;
/// Index entries of an Array, at most.
const ENTRIES_PER_ARRAY: u64 = 4;

impl Kind {
    fn workload(self) -> Workload {
        match self {
            Self::Kv => Workload::Kv,
            Self::Array => Workload::Array(Index::None),
        }
    }
}

impl GrowthPlan {
    fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::new(ErrorKind::Invalid, message));
        esker_cli::class_of(&self.class)?;
        if self.value_bytes == 0 || self.ops == 0 || self.kinds.is_empty() {
            return refuse("sizes of values and operations must be at least 1".to_owned());
        }
        if self.entries.is_empty() || !self.entries.is_sorted_by(|one, next| one < next) {
            return refuse("numbers of entries must increase".to_owned());
        }
        if !self.entries.iter().all(|entries| (1..=ENTRIES_MAX).contains(entries)) {
            return refuse(format!("a number of entries must be 1 to {ENTRIES_MAX}"));
        }
        Ok(())
    }

    /// Payload, and index entries of one target: entries are spread over all targets, so none needs space for all of
    /// them.
    fn needs(&self) -> (u64, u64) {
        let most = self.entries.last().copied().unwrap_or(0);
        let shards = targets_or_most(self.pool.own.targets);
        let indexed = most.saturating_mul(ENTRIES_PER_ARRAY).div_ceil(shards);
        (most.saturating_mul(self.value_bytes), indexed)
    }

    fn grow(
        &self,
        location: &Location,
        kind: Kind,
        container: &str,
        note: Note<'_>,
        runs: &mut Vec<Run>,
    ) -> Result<()> {
        let job = self.job(location, kind, container);
        let mut process = Process::start(&job)?;
        let mut stored = 0;
        for &entries in &self.entries {
            note(&format!("growing to {entries} entries"));
            let from = entries - self.ops.min((entries - stored).div_ceil(2));
            process.take(GrowthStep::Append { from: stored, to: from })?;
            process.take(GrowthStep::Put { from: stored, to: from })?;
            note(&format!("measuring {entries} entries"));
            let found = self.measure(&mut process, &job, from, entries)?;
            runs.extend(found.runs(&self.name(location, kind), entries));
            stored = entries;
        }
        Ok(())
    }

    /// Puts entries from `from` on, so that there are `entries`, then reads and opens.
    fn measure(
        &self,
        process: &mut Process,
        job: &GrowthJob,
        from: u64,
        entries: u64,
    ) -> Result<Found> {
        let ops = self.ops;
        let append = process.take(GrowthStep::Append { from, to: entries })?;
        let put = process.take(GrowthStep::Put { from, to: entries })?;
        let pread = process.take(GrowthStep::Pread { entries, ops })?;
        let get = process.take(GrowthStep::Get { entries, ops })?;
        let mut open = Tally::default();
        for _ in 0..OPENINGS {
            let mut fresh = Process::start(job)?;
            open.add_round(&[fresh.take(GrowthStep::Open { entries })?]);
        }
        let [append, put, pread, get] = [append, put, pread, get].map(tally);
        Ok(Found { append, put, pread, get, open })
    }

    fn name<'a>(&self, location: &'a Location, kind: Kind) -> RunName<'a> {
        let workload = kind.workload().name();
        RunName {
            store: location.store(),
            workload,
            phase: "",
            procs: 1,
            size_bytes: self.value_bytes,
        }
    }

    fn job(&self, location: &Location, kind: Kind, container: &str) -> GrowthJob {
        let store = StoreJob {
            pool: location.url.clone(),
            container: container.to_owned(),
            class: self.class.clone(),
            workload: kind.workload(),
        };
        let job = Job {
            procs: 1,
            size_bytes: self.value_bytes,
            ops: self.ops,
            seed: self.seed,
            folder: location.folder.clone(),
            store: Some(store),
            ..Job::default()
        };
        GrowthJob { job, durable: location.durable }
    }

    fn settings(&self, location: &Location) -> Result<Settings> {
        let options = json!({
            "ops": self.ops,
            "class": self.class,
        });
        location.settings(self.seed, options)
    }
}

/// The only process on the store.
struct Process(Processes);

impl Process {
    fn start(job: &GrowthJob) -> Result<Self> {
        let launcher = Launcher::for_kind(WorkerKind::Growth)?;
        Processes::start(&launcher, std::slice::from_ref(job)).map(Self)
    }

    fn take(&mut self, step: GrowthStep) -> Result<Measured> {
        let mut done: Vec<Measured> = self.0.ask(&[step])?;
        Ok(done.pop().unwrap_or_default())
    }
}

fn tally(measured: Measured) -> Tally {
    let mut tally = Tally::default();
    tally.add_round(&[measured]);
    tally
}

/// Measurements at one number of entries.
struct Found {
    append: Tally,
    put: Tally,
    pread: Tally,
    get: Tally,
    open: Tally,
}

impl Found {
    fn runs(&self, name: &RunName<'_>, entries: u64) -> [Run; 5] {
        let medium = |phase, tally| (RunName { store: "medium", phase, ..*name }, tally, None);
        let store = |phase, tally, limit| (RunName { phase, ..*name }, tally, limit);
        let runs = [
            medium("pwrite", &self.append),
            store("put", &self.put, Some(&self.append)),
            medium("pread", &self.pread),
            store("get", &self.get, Some(&self.pread)),
            store("open", &self.open, None),
        ];
        runs.map(|(name, tally, limit)| {
            let entries = Some(entries);
            Run { entries, ..Run::new(&name, tally, limit) }
        })
    }
}
