//! `esker bench`: measuring this machine and the store on it.
mod compare;
mod engine;
mod fields;
mod growth;
mod ior;
mod mdtest;
mod paper;
mod parallel;
mod placement;
mod posix;
mod rados;
mod report;
mod s3;
mod scaling;
mod shared_options;
mod start;
mod tensors;
mod tx;
mod zarr;

use clap::{Args, Subcommand};
use compare::CompareCommand;
use engine::EngineArgs;
use esker::types::{Error, Result};
use esker_bench::job::{Index, Workload};
use esker_bench::plan::{BenchPool, LimitPlan, OwnPool, Plan};
use esker_bench::processes::{Launcher, esker_program};
use esker_bench::report::Report;
use esker_bench::{field_io, interrupt, processes, worker};
use esker_cli::DurabilityArg;
use esker_cli::output::{Answer, with_spinner};
use esker_cli::shell::{Completions, Man};
use esker_cli::units::Bytes;
use esker_os::whole;
use fields::Fields;
use growth::Growth;
use ior::Ior;
use mdtest::Mdtest;
use paper::PaperCommand;
use parallel::{FieldIo, Segments};
use placement::Placement;
use posix::Posix;
use rados::Rados;
use report::ReportCommand;
use s3::S3;
use serde_json::{Value, json};
use start::Start;
use std::path::{Path, PathBuf};
use tensors::Tensors;
use tx::Tx;
use zarr::Zarr;

const METHOD: &str = "\
The first use of fresh memory is ten times slower than its reuse. An unmeasured pass therefore warms up the segments \
of the pool, and the file of the limit is written once before it is measured.

The workers are processes, not threads. All start a phase at the same moment; its time runs from the first start to \
the last end. Each process reads what another process wrote. The limit is pwrite and pread of the same blocks into a \
file on the same medium, by the same processes, alternating with the store.

Examples:
  esker bench array --size 8KiB,1MiB --procs 1,2 --json array.json
  esker bench kv --value 64 --pool tank
  esker bench report array.json -o report.html";

/// Measure this machine and the store on it
#[derive(Subcommand)]
pub(crate) enum BenchCommand {
    Limit(Limit),
    Array(Array),
    Kv(Kv),
    Tx(Tx),
    Growth(Growth),
    Engine(EngineArgs),
    FieldIo(Box<FieldIo>),
    Fields(Fields),
    Tensors(Tensors),
    Zarr(Zarr),
    Segments(Segments),
    Mdtest(Mdtest),
    Ior(Ior),
    Posix(Posix),
    Rados(Rados),
    S3(S3),
    Placement(Placement),
    Start(Start),
    Compare(CompareCommand),
    Paper(PaperCommand),
    Report(ReportCommand),
    /// Serve as one process of a benchmark
    #[command(hide = true)]
    Worker,
    /// Serve as one process of field-io or segments
    #[command(hide = true)]
    FieldWorker,
    /// Serve as one process of tx
    #[command(hide = true)]
    TxWorker,
    /// Serve as the process of growth
    #[command(hide = true)]
    GrowthWorker,
    /// Serve as one process of fields
    #[command(hide = true)]
    FieldsWorker,
    /// Serve as one process of tensors
    #[command(hide = true)]
    TensorsWorker,
    /// Serve as one process of engine
    #[command(hide = true)]
    EngineWorker,
    /// Serve as one process of s3
    #[command(hide = true)]
    S3Worker,
    /// Serve as one process of mdtest or ior
    #[command(hide = true)]
    PosixWorker,
    #[command(hide = true)]
    Completions(Completions),
    #[command(hide = true)]
    Man(Man),
    /// Remove what a benchmark leaves behind
    #[command(hide = true)]
    Janitor {
        /// Directory to remove
        folder: PathBuf,
    },
}

/// Measure the limits of the medium: pwrite, pread and memcpy
///
/// Blocks are written to a file that was allocated and touched before; on block media, also with a sync after each.
#[derive(Args)]
#[command(after_long_help = "Example:
  esker bench limit --path /dev/shm --size 8KiB,1MiB --procs 1,2")]
pub(crate) struct Limit {
    #[command(flatten)]
    path: PathArg,
    /// Block size, or several, separated by commas
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_delimiter = ',')]
    size: Vec<Bytes>,
    /// Number of processes, or several numbers, separated by commas
    #[arg(long, value_name = "N", default_value = "1", value_delimiter = ',')]
    procs: Vec<u32>,
    /// Total size of the files of all processes
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    total: Bytes,
    /// Duration of each phase in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1")]
    seconds: f64,
    #[command(flatten)]
    json: JsonFile,
}

/// Measure Arrays: write each, and optionally index it in a Key-Value; then find and read it
#[derive(Args)]
#[command(after_long_help = METHOD)]
pub(crate) struct Array {
    /// Size of an Array, or several sizes, separated by commas
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_delimiter = ',')]
    size: Vec<Bytes>,
    /// Index each Array in a Key-Value of its process, and look it up there before reading it
    #[arg(long)]
    indexed: bool,
    /// Index all Arrays in one Key-Value that all processes share
    #[arg(long)]
    shared_index: bool,
    #[command(flatten)]
    common: Common,
}

/// Measure Key-Values: put values under keys, then get them
#[derive(Args)]
#[command(after_long_help = METHOD)]
pub(crate) struct Kv {
    /// Size of a value, or several sizes, separated by commas
    #[arg(long, value_name = "SIZE", default_value = "64", value_delimiter = ',')]
    value: Vec<Bytes>,
    #[command(flatten)]
    common: Common,
}

/// The medium to measure.
#[derive(Args)]
pub(super) struct PathArg {
    /// Directory on the medium [default: /dev/shm, or the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
}

/// The file of the JSON report.
#[derive(Args)]
pub(super) struct JsonFile {
    /// Write the report to this file; - prints it in place of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// An existing pool, or how one is created.
#[derive(Args)]
pub(super) struct PoolChoice {
    /// Existing pool to measure, in temporary containers [default: a temporary pool]
    #[arg(long, value_name = "POOL", conflicts_with_all = ["path", "targets", "durability", "huge_pages", "no_write_buffer"])]
    pool: Option<String>,
    /// Durability of the temporary pool [default: process in memory, commit on block media]
    #[arg(long, value_name = "LEVEL")]
    durability: Option<DurabilityArg>,
    #[command(flatten)]
    own: OwnArgs,
}

/// Options of the temporary pool.
#[derive(Args)]
pub(super) struct OwnArgs {
    #[command(flatten)]
    path: PathArg,
    /// Number of targets of the temporary pool [default: one per core, 2 to 8]
    #[arg(long, value_name = "T")]
    targets: Option<u32>,
    /// Keep the data of the temporary pool in huge pages
    #[arg(long)]
    huge_pages: bool,
    /// Create the temporary pool without a write buffer, which stores small puts and new extents first
    #[arg(long)]
    no_write_buffer: bool,
}

impl PoolChoice {
    fn bench_pool(&self) -> BenchPool {
        let durability = self.durability.map(Into::into);
        self.pool.clone().map_or_else(
            || BenchPool::Own(OwnPool { durability, ..self.own.pool() }),
            BenchPool::Pool,
        )
    }
}

impl OwnArgs {
    fn pool(&self) -> OwnPool {
        OwnPool {
            folder: self.path.folder(),
            targets: self.targets,
            durability: None,
            huge_pages: self.huge_pages,
            no_write_buffer: self.no_write_buffer,
        }
    }
}

/// Options that `array`, `kv` and `tx` share.
#[derive(Args)]
struct Common {
    #[command(flatten)]
    pool: PoolChoice,
    /// Number of processes, or several numbers, separated by commas
    #[arg(long, value_name = "N", default_value = "1", value_delimiter = ',')]
    procs: Vec<u32>,
    /// Operations of each process in each phase [default: 512 MiB, 64 to 200000 operations]
    #[arg(long, value_name = "N")]
    ops: Option<u64>,
    /// Number of rounds of writing and reading; figures are over all rounds
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
    /// Start new processes for each round, which map the pool again, as short jobs do
    #[arg(long)]
    fresh: bool,
    /// Object class: S1 (one target), S2, SX (all targets) ...
    #[arg(long, value_name = "CLASS", default_value = "S1")]
    class: String,
    /// Compare what is read with what was written, in an unmeasured phase
    #[arg(long)]
    verify: bool,
    /// Seed of the data
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    json: JsonFile,
}

impl BenchCommand {
    pub(crate) fn run(self) -> Result<Answer> {
        match &self {
            Self::Janitor { .. } | Self::Completions(_) | Self::Man(_) => {}
            Self::Worker
            | Self::EngineWorker
            | Self::S3Worker
            | Self::TxWorker
            | Self::FieldWorker
            | Self::GrowthWorker
            | Self::FieldsWorker
            | Self::TensorsWorker
            | Self::PosixWorker => {
                worker::end_with_parent()?;
            }
            _ => interrupt::listen()?,
        }
        match self {
            Self::FieldIo(field_io) => field_io.run(),
            Self::Fields(fields) => fields.run(),
            Self::Tensors(tensors) => tensors.run(),
            Self::Zarr(zarr) => zarr.run(),
            Self::Segments(segments) => segments.run(),
            Self::Mdtest(mdtest) => mdtest.run(),
            Self::Ior(ior) => ior.run(),
            Self::Posix(posix) => posix.run(),
            Self::Rados(rados) => rados.run(),
            Self::S3(s3) => s3.run(),
            Self::Placement(placement) => placement.run(),
            Self::Start(start) => start.run(),
            Self::Limit(limit) => limit.run(),
            Self::Array(array) => array.common.run(&array.size, array.workload()),
            Self::Engine(engine) => engine.run(),
            Self::EngineWorker => serve::<esker_bench::engine::worker::Worker>(),
            Self::S3Worker => serve::<esker_bench::s3::worker::Worker>(),
            Self::Kv(kv) => kv.common.run(&kv.value, Workload::Kv),
            Self::Tx(tx) => tx.run(),
            Self::TxWorker => serve::<esker_bench::tx::worker::Worker>(),
            Self::Growth(growth) => growth.run(),
            Self::GrowthWorker => serve::<esker_bench::growth::worker::Worker>(),
            Self::Compare(compare) => compare.run(),
            Self::Paper(paper) => paper.run(),
            Self::Report(report) => report.run(),
            Self::Completions(completions) => Ok(completions.print(crate::whole_command())),
            Self::Man(man) => man.write(crate::whole_command()),
            Self::Worker => {
                worker::serve(std::io::stdin().lock(), std::io::stdout())?;
                Ok(Answer::new(json!(null), ""))
            }
            Self::FieldWorker => serve::<field_io::worker::Worker>(),
            Self::FieldsWorker => serve::<esker_bench::fields::worker::Worker>(),
            Self::TensorsWorker => serve::<esker_bench::tensors::worker::Worker>(),
            Self::PosixWorker => serve::<esker_bench::posix::worker::Worker>(),
            Self::Janitor { folder } => {
                processes::serve_janitor(std::io::stdin().lock(), &folder);
                Ok(Answer::new(json!(null), ""))
            }
        }
    }
}

/// Serves as one process of a benchmark, which gets its jobs on standard input.
fn serve<W: worker::Work>() -> Result<Answer> {
    worker::serve_work::<W>(std::io::stdin().lock(), std::io::stdout())?;
    Ok(Answer::new(json!(null), ""))
}

impl Limit {
    fn run(self) -> Result<Answer> {
        self.json.check()?;
        let plan = LimitPlan {
            launcher: launcher("worker")?,
            folder: self.path.folder(),
            sizes: self.size.iter().map(|size| size.0).collect(),
            procs: self.procs,
            total_bytes: self.total.0,
            seconds: self.seconds,
        };
        let report = with_spinner(|note| plan.run(note))?;
        self.json.answer(&report)
    }
}

impl Array {
    fn workload(&self) -> Workload {
        Workload::Array(match (self.indexed, self.shared_index) {
            (_, true) => Index::Shared,
            (true, false) => Index::Own,
            (false, false) => Index::None,
        })
    }
}

impl Common {
    fn run(&self, sizes: &[Bytes], workload: Workload) -> Result<Answer> {
        self.json.check()?;
        let plan = self.plan(launcher("worker")?, sizes, workload);
        let report = with_spinner(|note| plan.run(note))?;
        self.json.answer(&report)
    }

    fn plan(&self, launcher: Launcher, sizes: &[Bytes], workload: Workload) -> Plan {
        Plan {
            launcher,
            pool: self.pool.bench_pool(),
            workload,
            sizes: sizes.iter().map(|size| size.0).collect(),
            procs: self.procs.clone(),
            ops: self.ops,
            rounds: self.rounds,
            fresh: self.fresh,
            class: self.class.clone(),
            verify: self.verify,
            seed: self.seed,
        }
    }
}

impl PathArg {
    /// The directory on the medium.
    pub(super) fn folder(&self) -> PathBuf {
        self.path.clone().unwrap_or_else(|| {
            let memory = Path::new("/dev/shm");
            if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
        })
    }
}

impl JsonFile {
    /// Checks that the report can be written, before anything is measured.
    pub(super) fn check(&self) -> Result<()> {
        let path = self.json.as_deref().filter(|path| *path != Path::new("-"));
        path.map_or(Ok(()), whole::check)
    }

    /// The answer with this report, which is also written to the file.
    fn answer(&self, report: &Report) -> Result<Answer> {
        self.answer_with(json!(report), report.to_string())
    }

    /// The answer with any report, and its text for people.
    pub(super) fn answer_with(&self, report: Value, text: String) -> Result<Answer> {
        let document = format!("{report:#}\n");
        match self.json.as_deref() {
            Some(path) if path == Path::new("-") => Ok(Answer::new(report, document)),
            Some(path) => {
                whole::write(path, document.as_bytes())?;
                Ok(Answer::new(report, text))
            }
            None => Ok(Answer::new(report, text)),
        }
    }
}

/// Starts this program again as a worker or janitor.
pub(super) fn launcher(worker: &str) -> Result<Launcher> {
    let program = std::env::current_exe();
    let program = program.map_err(|error| Error::io("finding this program", &error))?;
    Ok(Launcher {
        program,
        esker: esker_program()?,
        worker: vec![worker.into()],
        janitor: vec!["janitor".into()],
        variables: Vec::new(),
    })
}
