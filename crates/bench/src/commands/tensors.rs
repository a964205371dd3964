//! `esker bench tensors`: the tensor store beside parallel HDF5.
use super::{JsonFile, measure, report};
use clap::Args;
use esker::types::Result;
use esker_bench::plan::TensorsPlan;
use esker_bench::plots::tensors::page;
use esker_cli::output::Answer;
use std::path::PathBuf;

// No documentation comment: the help would show it in place of that of the plan.
#[derive(Args)]
pub(crate) struct Tensors {
    #[command(flatten)]
    plan: TensorsPlan,
    /// HTML page with plots to write
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write each plot to a file in this directory too
    #[arg(long, value_name = "DIR", requires = "output")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    json: JsonFile,
}

impl Tensors {
    pub(crate) fn run(self) -> Result<Answer> {
        let found = measure(self.plan, &self.json)?;
        if let Some(output) = &self.output {
            report::write(&page(&found.report)?, output, self.svg.as_deref())?;
        }
        self.json.answer_with(found.report, found.text)
    }
}
