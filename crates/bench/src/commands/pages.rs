//! Commands that draw pages: `esker bench report` and `paper`, and the benchmarks `tensors` and `posix`.
use super::{JsonFile, measure};
use clap::Args;
use esker::types::{Error, Result};
use esker_bench::paper::PaperPlan;
use esker_bench::plan::posix::TablePlan;
use esker_bench::plan::{Benchmark, TensorsPlan};
use esker_bench::plots::page::Page;
use esker_bench::plots::results::Results;
use esker_bench::plots::{Figure, files, paper};
use esker_cli::count;
use esker_cli::output::{Answer, Bar};
use esker_os::whole;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

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
        files::page(report)
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
        check(self.output.as_deref(), self.svg.as_deref())?;
        let found = measure(&self.plan, &self.json)?;
        let page = self.output.as_ref().map(|_| P::page(&found.report));
        let answer = self.json.answer(found.report, found.text)?;
        if let (Some(output), Some(page)) = (&self.output, page) {
            write(&page?, output, self.svg.as_deref())?;
        }
        Ok(answer)
    }
}

/// Draw the results of benchmarks on an HTML page
#[derive(Args)]
#[command(after_long_help = include_str!("../help/report.txt").trim_end())]
pub(crate) struct ReportCommand {
    /// Files written by `esker bench ... --json FILE`
    #[arg(value_name = "RESULTS", required = true)]
    results: Vec<PathBuf>,
    /// HTML page to write
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// Title of the page
    #[arg(long, value_name = "TEXT", default_value = "Benchmark results of Esker")]
    title: String,
    /// Write each plot to a file in this directory too
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

impl ReportCommand {
    pub(crate) fn run(&self) -> Result<Answer> {
        let files = self.results.iter().map(|path| Results::read(path));
        let page = Page::from_results(&self.title, &files.collect::<Result<Vec<_>>>()?)?;
        write(&page, &self.output, self.svg.as_deref())
    }
}

/// Reproduce figures of five papers on DAOS, arrays and GekkoFS on a small scale, and compare the findings
#[derive(Args)]
#[command(after_long_help = include_str!("../help/paper.txt").trim_end())]
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
        check(Some(&self.output), self.svg.as_deref())?;
        let papers = self.plan.run(&Bar::steps(""))?;
        write(&papers.page, &self.output, self.svg.as_deref())?;
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

/// Checks that a page can be written to `output`, and its plots to the directory `svg`, before anything is measured.
pub(super) fn check(output: Option<&Path>, svg: Option<&Path>) -> Result<()> {
    output.map_or(Ok(()), whole::check)?;
    svg.map_or(Ok(()), create_folder)
}

fn create_folder(folder: &Path) -> Result<()> {
    let made = std::fs::create_dir_all(folder);
    made.map_err(|error| Error::io(format!("creating {}", folder.display()), &error))
}

/// Writes a page to `output`, and its plots to the directory `svg` if given. Each file replaces an existing one
/// atomically. Returns the answer of the command.
pub(super) fn write(page: &Page, output: &Path, svg: Option<&Path>) -> Result<Answer> {
    let plots = svg.map(|folder| write_plots(page, folder)).transpose()?.unwrap_or_default();
    whole::write(output, page.html()?.as_bytes())?;
    let figures = page.figures().count();
    let response = json!({
        "report": output.display().to_string(),
        "figures": figures,
        "plots": plots,
    });
    Ok(Answer::new(
        response,
        format!("wrote {} with {}", output.display(), count(figures, "figure")),
    ))
}

/// Writes the figures of a page into `folder`, a file for each. Returns the paths of the files.
fn write_plots(page: &Page, folder: &Path) -> Result<Vec<String>> {
    create_folder(folder)?;
    let write = |figure: &Figure| {
        let path = folder.join(format!("{}.svg", figure.id));
        whole::write(&path, figure.svg.as_bytes())?;
        Ok(path.display().to_string())
    };
    page.figures().map(write).collect()
}
