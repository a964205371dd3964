//! `esker bench posix`: file operations beside tmpfs and a disk.
use super::{JsonFile, measure, report};
use clap::Args;
use esker::types::Result;
use esker_bench::plan::posix::TablePlan;
use esker_bench::plots::posix::page;
use esker_cli::output::Answer;
use std::path::PathBuf;

// No documentation comment: the help would show it in place of that of the plan.
#[derive(Args)]
pub(crate) struct Posix {
    #[command(flatten)]
    plan: TablePlan,
    /// HTML page with a plot to write
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    json: JsonFile,
}

impl Posix {
    pub(crate) fn run(self) -> Result<Answer> {
        let found = measure(self.plan, &self.json)?;
        if let Some(output) = &self.output {
            report::write(&page(&found.report)?, output, None)?;
        }
        self.json.answer_with(found.report, found.text)
    }
}
