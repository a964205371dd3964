//! `esker bench paper`.
use super::bench::launcher;
use crate::output::Answer;
use crate::progress::Bar;
use clap::Args;
use esker::types::Result;
use esker_bench::paper::PaperPlan;
use esker_bench::whole;
use serde_json::json;
use std::path::{Path, PathBuf};

const METHOD: &str = "\
Runs `esker bench segments` and `esker bench field-io` on a native pool and on a pool of files, draws the \
figures, and states beside each what the papers found and whether it is seen here, by a rule that is \
printed with the numbers it rests on. docs/paper.md lists figures, commands and scales. It takes a few \
minutes and some GiB of the medium, and leaves nothing but the page.

Example:
  esker bench paper --dir /dev/shm -o papers.html";

/// Measure every figure of the two papers on a small scale, and compare findings
#[derive(Args)]
#[command(after_long_help = METHOD)]
pub(crate) struct PaperCommand {
    /// Folder on the medium to measure [default: memory where there is room, else where temporary
    /// files go]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Page to write
    #[arg(short, long, value_name = "FILE", default_value = "papers.html")]
    output: PathBuf,
    /// Write each plot into this folder too, as a file of its own
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Few operations, to see in a minute what the page looks like; its numbers mean little
    #[arg(long)]
    quick: bool,
}

impl PaperCommand {
    pub(crate) fn run(self) -> Result<Answer> {
        whole::check(&self.output)?;
        let memory = Path::new("/dev/shm");
        let folder = self.dir.unwrap_or_else(|| {
            if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
        });
        let plan = PaperPlan { launcher: launcher("worker")?, folder, quick: self.quick };
        let bar = Bar::spinner();
        let papers = plan.run(&mut |what| bar.say(what))?;
        drop(bar);
        super::report::write(&papers.page, &self.output, self.svg.as_deref())?;
        let response = json!({
            "report": self.output.display().to_string(),
            "figures": papers.page.figures.len(),
            "seen": papers.seen,
            "not_seen": papers.not_seen,
            "cannot_be_seen": papers.cannot,
        });
        let text = format!(
            "{}: of the papers' findings {} are seen here, {} are not, {} cannot be on one node",
            self.output.display(),
            papers.seen,
            papers.not_seen,
            papers.cannot
        );
        Ok(Answer::new(response, text))
    }
}
