//! `esker bench report`: pages of figures.
use clap::Args;
use esker::types::{Error, Result};
use esker_bench::plots::Figure;
use esker_bench::plots::page::Page;
use esker_bench::plots::results::Results;
use esker_cli::count;
use esker_cli::output::Answer;
use esker_os::whole;
use serde_json::json;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
The page has a figure for whatever varies in the files: bandwidth by number of processes and nodes, and by object \
size, for each mode, pattern and object class, and side by side for several stores. Timelines are drawn from the \
traces beside a file (FILE.traces.csv beside FILE.json). The page works offline; each plot can be saved as SVG or PNG.

Example:
  esker bench array --procs 1,2 --size 8KiB,1MiB --json here.json
  esker bench report here.json -o report.html";

/// Draw the results of benchmarks on an HTML page
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
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

/// Writes a page, and its plots if a directory is given. Each file replaces an existing one atomically.
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

fn write_plots(page: &Page, folder: &Path) -> Result<Vec<String>> {
    let made = std::fs::create_dir_all(folder);
    made.map_err(|error| Error::io(format!("creating {}", folder.display()), &error))?;
    let write = |figure: &Figure| {
        let path = folder.join(format!("{}.svg", figure.id));
        whole::write(&path, figure.svg.as_bytes())?;
        Ok(path.display().to_string())
    };
    page.figures().map(write).collect()
}
