//! Benchmarks that also draw a page: `esker bench tensors` and `posix`.
use super::{JsonFile, measure, report};
use clap::Args;
use esker::types::Result;
use esker_bench::plan::posix::TablePlan;
use esker_bench::plan::{Benchmark, TensorsPlan};
use esker_bench::plots::page::Page;
use esker_bench::plots::{paper, posix};
use esker_cli::output::Answer;
use serde_json::Value;
use std::path::PathBuf;

/// A benchmark whose report has a page.
pub(crate) trait Drawn: Benchmark {
    /// The page of a report.
    fn page(report: &Value) -> Result<Page>;
}

impl Drawn for TensorsPlan {
    fn page(report: &Value) -> Result<Page> {
        paper::tensors_page(report)
    }
}

impl Drawn for TablePlan {
    fn page(report: &Value) -> Result<Page> {
        posix::page(report)
    }
}

// No documentation comment: the help would show it in place of that of the plan.
#[derive(Args)]
pub(crate) struct Draw<P: Args> {
    #[command(flatten)]
    plan: P,
    /// HTML page with plots to write
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write each plot to a file in this directory too
    #[arg(long, value_name = "DIR", requires = "output")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    json: JsonFile,
}

impl<P: Args + Drawn> Draw<P> {
    pub(crate) fn run(self) -> Result<Answer> {
        let found = measure(&self.plan, &self.json)?;
        if let Some(output) = &self.output {
            report::write(&P::page(&found.report)?, output, self.svg.as_deref())?;
        }
        self.json.answer(found.report, found.text)
    }
}
