//! `esker bench`: measuring this machine and the store on it.
mod compare;
mod ior;
mod mdtest;
mod paper;
mod parallel;
mod placement;
mod posix;
mod report;
mod scaling;
mod shared_options;
mod start;
mod tensors;

use clap::{Args, Subcommand};
use compare::CompareCommand;
use esker::types::{Error, Result};
use esker_bench::plan::{
    ArrayPlan, Benchmark, EnginePlan, FieldsPlan, GrowthPlan, KvPlan, LimitPlan, Measurement,
    RadosPlan, S3Plan, TxPlan, ZarrPlan,
};
use esker_bench::processes::{Launcher, esker_program};
use esker_bench::report::Report;
use esker_bench::{field_io, interrupt, processes, worker};
use esker_cli::output::{Answer, with_spinner};
use esker_cli::shell::{Completions, Man};
use esker_os::whole;
use ior::Ior;
use mdtest::Mdtest;
use paper::PaperCommand;
use parallel::{FieldIo, Segments};
use placement::Placement;
use posix::Posix;
use report::ReportCommand;
use serde_json::{Value, json};
use start::Start;
use std::path::{Path, PathBuf};
use tensors::Tensors;

/// Measure this machine and the store on it
#[derive(Subcommand)]
pub(crate) enum BenchCommand {
    Limit(Measure<LimitPlan>),
    Array(Measure<ArrayPlan>),
    Kv(Measure<KvPlan>),
    Tx(Measure<TxPlan>),
    Growth(Measure<GrowthPlan>),
    Engine(Measure<EnginePlan>),
    FieldIo(Box<FieldIo>),
    Fields(Box<Measure<FieldsPlan>>),
    Tensors(Tensors),
    Zarr(Measure<ZarrPlan>),
    Segments(Segments),
    Mdtest(Mdtest),
    Ior(Ior),
    Posix(Posix),
    Rados(Measure<RadosPlan>),
    S3(Measure<S3Plan>),
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

// A benchmark with the file of its report. No documentation comment: the help would show it in place of that of `P`.
#[derive(Args)]
pub(crate) struct Measure<P: Args> {
    #[command(flatten)]
    plan: P,
    #[command(flatten)]
    json: JsonFile,
}

impl<P: Args + Benchmark> Measure<P> {
    fn run(self) -> Result<Answer> {
        let Measurement { report, text } = measure(self.plan, &self.json)?;
        self.json.answer_with(report, text)
    }
}

/// Runs a benchmark whose report `json` can take.
fn measure<P: Benchmark>(plan: P, json: &JsonFile) -> Result<Measurement> {
    json.check()?;
    let launcher = launcher(P::WORKER)?;
    with_spinner(|note| plan.run_with(launcher, note))
}

/// The file of the JSON report.
#[derive(Args)]
pub(super) struct JsonFile {
    /// Write the report to this file; - prints it in place of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
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
            Self::Array(array) => array.run(),
            Self::Engine(engine) => engine.run(),
            Self::EngineWorker => serve::<esker_bench::engine::Worker>(),
            Self::S3Worker => serve::<esker_bench::s3::Worker>(),
            Self::Kv(kv) => kv.run(),
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
