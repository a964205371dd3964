//! `esker bench paper`: the figures of papers on object stores, on a small scale.
use clap::Args;
use esker::types::Result;
use esker_bench::paper::{PaperPlan, PaperReport, SPACE_MIN_BYTES};
use esker_bench::plan::{memory_or_temporary, parse_size};
use esker_bench::plots::paper::{PaperStep, page};
use esker_bench::plots::results::Results;
use esker_cli::output::{Answer, Bar};
use esker_cli::units::Bytes;
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
    /// Directory on the medium [default: /dev/shm, or the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Space that a benchmark may need on the medium, at least 1GiB [default: half of what is free, 6GiB at most]
    #[arg(long, value_name = "SIZE", value_parser = parse_space)]
    size: Option<u64>,
    /// HTML page to write
    #[arg(short, long, value_name = "FILE", default_value = "papers.html")]
    output: PathBuf,
    /// Write each plot to a file in this directory too
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Measure only few operations, to check within two minutes that everything works; judge nothing
    #[arg(long)]
    quick: bool,
}

fn parse_space(text: &str) -> std::result::Result<u64, String> {
    let bytes = parse_size(text)?;
    match bytes >= SPACE_MIN_BYTES {
        true => Ok(bytes),
        false => Err(format!("the benchmarks need at least {}", Bytes(SPACE_MIN_BYTES))),
    }
}

impl PaperCommand {
    pub(crate) fn run(self) -> Result<Answer> {
        whole::check(&self.output)?;
        let folder = self.dir.unwrap_or_else(memory_or_temporary);
        let plan = PaperPlan { folder, space_bytes: self.size, quick: self.quick };
        let bar = Bar::steps("");
        let measured = plan.run(&bar)?;
        drop(bar);
        let steps = measured.reports.iter().map(step).collect::<Result<Vec<_>>>()?;
        let papers = page(&steps, self.quick)?;
        drop(measured);
        super::report::write(&papers.page, &self.output, self.svg.as_deref())?;
        let [reproduced, not_reproduced, not_measured] =
            [0, 1, 2].map(|index| papers.verdicts.map(|counts| counts[index]));
        let response = json!({
            "report": self.output.display().to_string(),
            "figures": papers.page.figures().count(),
            "quick": self.quick,
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

/// The measurements of a command. Pools of files are named with their medium.
fn step(report: &PaperReport) -> Result<PaperStep> {
    let mut results = Results { name: report.command.clone(), ..Results::read(&report.path)? };
    if let Some(store) = &report.store {
        let runs = results.runs.iter_mut().filter(|run| !run.is_limit());
        runs.for_each(|run| run.store.clone_from(store));
    }
    Ok(PaperStep { name: report.name.to_owned(), command: report.command.clone(), results })
}
