//! `esker bench paper`: the figures of papers on object stores, on a small scale.
use clap::Args;
use esker::types::Result;
use esker_bench::paper::PaperPlan;
use esker_bench::plan::memory_or_temporary;
use esker_bench::plots::paper::{PaperStep, page};
use esker_bench::plots::results::Results;
use esker_cli::output::{Answer, with_spinner};
use esker_os::whole;
use serde_json::json;
use std::path::PathBuf;

const METHOD: &str = "\
Runs `esker bench segments` and `esker bench field-io` on a pool of this machine and on a pool of plain files, and \
`esker bench tensors` beside parallel HDF5 (if it is installed), `esker bench ior` and `esker bench mdtest` beside tmpfs and the file \
system of a disk, and draws the figures. Beside each stands what the papers found and whether it is reproduced here; the rule for that is \
printed with its numbers. docs/paper.md lists figures, commands and scales. The command takes a few minutes and some \
GiB of the medium, and leaves nothing but the page.

Example:
  esker bench paper --dir /dev/shm -o papers.html";

/// Reproduce the figures of three papers on DAOS and one on arrays on a small scale, and compare the findings
#[derive(Args)]
#[command(after_long_help = METHOD)]
pub(crate) struct PaperCommand {
    /// Directory on the medium [default: /dev/shm, or the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// HTML page to write
    #[arg(short, long, value_name = "FILE", default_value = "papers.html")]
    output: PathBuf,
    /// Write each plot to a file in this directory too
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Measure only few operations, for a preview within a minute; the numbers mean little
    #[arg(long)]
    quick: bool,
}

impl PaperCommand {
    pub(crate) fn run(self) -> Result<Answer> {
        whole::check(&self.output)?;
        let folder = self.dir.unwrap_or_else(memory_or_temporary);
        let plan = PaperPlan { folder, quick: self.quick };
        let measured = with_spinner(|note| plan.run(note))?;
        let steps = measured.reports.iter().map(|report| {
            let results = Results { name: report.command.clone(), ..Results::read(&report.path)? };
            Ok(PaperStep { name: report.name.to_owned(), command: report.command.clone(), results })
        });
        let papers = page(&steps.collect::<Result<Vec<_>>>()?)?;
        drop(measured);
        super::report::write(&papers.page, &self.output, self.svg.as_deref())?;
        let response = json!({
            "report": self.output.display().to_string(),
            "figures": papers.page.figures().count(),
            "seen": papers.seen,
            "not_seen": papers.not_seen,
            "cannot_be_seen": papers.cannot,
        });
        let text = format!(
            "wrote {}: {} findings of the papers are reproduced, {} are not, {} cannot be on one node",
            self.output.display(),
            papers.seen,
            papers.not_seen,
            papers.cannot
        );
        Ok(Answer::new(response, text))
    }
}
