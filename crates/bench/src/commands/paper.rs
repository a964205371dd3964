//! `esker bench paper`: the figures of papers on object stores, on a small scale.
use clap::Args;
use esker::types::Result;
use esker_bench::paper::PaperPlan;
use esker_cli::output::{Answer, Bar};
use esker_os::whole;
use serde_json::json;
use std::path::PathBuf;

const METHOD: &str = "\
Runs `esker bench segments` and `esker bench field-io` on a pool of this machine and on pools of plain files in memory and on a disk, \
`esker bench tensors` beside parallel HDF5 (if it is installed), and `esker bench ior` and `esker bench mdtest` beside tmpfs and the file \
system of a disk. It draws the figures. Beside each stands what the papers found and whether it is reproduced here; the rule for that is \
printed with its numbers. docs/paper.md lists figures, commands and scales. The command takes tens of minutes, and leaves nothing but \
the page.

Example:
  esker bench paper --dir /dev/shm -o papers.html";

/// Reproduce figures of five papers on DAOS, arrays and GekkoFS on a small scale, and compare the findings
#[derive(Args)]
#[command(after_long_help = METHOD)]
pub(crate) struct PaperCommand {
    #[command(flatten)]
    plan: PaperPlan,
    /// HTML page to write
    #[arg(short, long, value_name = "FILE", default_value = "papers.html")]
    output: PathBuf,
    /// Write each plot to a file in this directory too
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

impl PaperCommand {
    pub(crate) fn run(self) -> Result<Answer> {
        whole::check(&self.output)?;
        let papers = self.plan.run(&Bar::steps(""))?;
        super::report::write(&papers.page, &self.output, self.svg.as_deref())?;
        let [reproduced, not_reproduced, not_measured] =
            [0, 1, 2].map(|index| papers.verdicts.map(|counts| counts[index]));
        let response = json!({
            "report": self.output.display().to_string(),
            "figures": papers.page.figures().count(),
            "quick": self.plan.quick,
            "reproduced": reproduced,
            "not_reproduced": not_reproduced,
            "not_measured": not_measured,
        });
        let output = self.output.display();
        let text = match papers.verdicts {
            None => format!("wrote {output}: a quick run, whose figures mean nothing"),
            Some([yes, no, none]) => format!(
                "wrote {output}: {yes} findings of the papers are reproduced, {no} are not, {none} are not measured"
            ),
        };
        Ok(Answer::new(response, text))
    }
}
