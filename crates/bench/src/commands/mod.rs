//! `esker bench`: measuring this machine and the store on it.
mod pages;
mod parallel;
mod start;

use clap::{Args, Subcommand};
use esker::types::Result;
use esker_bench::plan::posix::{Ior, Mdtest, TablePlan};
use esker_bench::plan::{
    ArrayPlan, Benchmark, Comparison, EnginePlan, FieldsPlan, GrowthPlan, KvPlan, LimitPlan,
    Measurement, RadosPlan, S3Plan, TensorsPlan, TxPlan, ZarrPlan,
};
use esker_bench::processes::WorkerKind;
use esker_bench::{interrupt, processes, worker};
use esker_cli::output::{Answer, with_spinner};
use esker_cli::shell::{Completions, Man};
use esker_os::whole;
use pages::{Draw, PaperCommand, ReportCommand};
use parallel::{FieldIo, Segments};
use serde_json::{Value, json};
use start::Start;
use std::path::{Path, PathBuf};

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
    Tensors(Draw<TensorsPlan>),
    Zarr(Measure<ZarrPlan>),
    Segments(Segments),
    Mdtest(Box<Measure<Mdtest>>),
    Ior(Box<Measure<Ior>>),
    Posix(Draw<TablePlan>),
    Rados(Measure<RadosPlan>),
    S3(Measure<S3Plan>),
    Start(Start),
    Compare(Box<Measure<Comparison>>),
    Paper(PaperCommand),
    Report(ReportCommand),
    /// Serve as one process of a benchmark
    #[command(hide = true)]
    Worker {
        /// The benchmark
        kind: WorkerKind,
    },
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
        let Measurement { report, text } = measure(&self.plan, &self.json)?;
        self.json.answer(report, text)
    }
}

/// Runs a benchmark. Fails before the run if its report could not be written to `json`.
fn measure<P: Benchmark>(plan: &P, json: &JsonFile) -> Result<Measurement> {
    json.check()?;
    with_spinner(|note| plan.run(note))
}

// The file of the JSON report. No documentation comment: the help would show it in place of that of a benchmark.
#[derive(Args)]
pub(super) struct JsonFile {
    /// Write the report to this file; - prints it in place of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl BenchCommand {
    pub(crate) fn run(self) -> Result<Answer> {
        // Workers and janitors do not catch signals: the benchmark that started them does, and ends them.
        let is_served = matches!(self, Self::Worker { .. } | Self::Janitor { .. });
        let cleans_up = !matches!(self, Self::Report(_) | Self::Completions(_) | Self::Man(_));
        if !is_served && cleans_up {
            interrupt::listen()?;
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
            Self::Start(start) => start.run(),
            Self::Limit(limit) => limit.run(),
            Self::Array(array) => array.run(),
            Self::Engine(engine) => engine.run(),
            Self::Kv(kv) => kv.run(),
            Self::Tx(tx) => tx.run(),
            Self::Growth(growth) => growth.run(),
            Self::Compare(compare) => compare.run(),
            Self::Paper(paper) => paper.run(),
            Self::Report(report) => report.run(),
            Self::Completions(completions) => Ok(completions.print(crate::whole_command())),
            Self::Man(man) => man.write(crate::whole_command()),
            Self::Worker { kind } => {
                worker::serve(kind)?;
                Ok(Answer::new(json!(null), ""))
            }
            Self::Janitor { folder } => {
                processes::serve_janitor(std::io::stdin().lock(), &folder);
                Ok(Answer::new(json!(null), ""))
            }
        }
    }
}

impl JsonFile {
    /// Checks that the report can be written, before anything is measured.
    pub(super) fn check(&self) -> Result<()> {
        let path = self.json.as_deref().filter(|path| *path != Path::new("-"));
        path.map_or(Ok(()), whole::check)
    }

    /// The answer of a command: the report as JSON and, for people, `text`. Also writes the report to the file of
    /// `--json`; for `-`, the report takes the place of the text.
    pub(super) fn answer(&self, report: Value, text: String) -> Result<Answer> {
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
