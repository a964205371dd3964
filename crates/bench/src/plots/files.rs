//! Work on files: the page of `esker bench posix`, and parts of that of `esker bench paper`.
use crate::plan::posix::{ABOUT, Row, cells};
use crate::plots::chart::{Axis, Chart, Point};
use crate::plots::page::{Page, Section, Table};
use crate::plots::paper::PaperStep;
use crate::plots::results::Results;
use crate::plots::style::LIMIT;
use crate::plots::words::short;
use crate::plots::{Figure, Figures, distinct};
use crate::report::Run;
use esker_cli::count;
use esker_cli::units::per_second;
use esker_types::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::Value;

/// The file system in a container, as reports name it.
const STORE: &str = "DFS";

/// A step that works on files, and its name in charts.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct FileStep(pub(crate) String, pub(crate) String);

/// A measured phase in the file system of a container.
#[derive(Clone, Debug)]
pub(crate) struct Phase<'s> {
    pub(crate) step: &'s str,
    /// The work of the step and the phase.
    work: String,
    /// The work, with the number of nodes if the pool is over nodes.
    pub(crate) name: String,
    /// Its measurements.
    pub(crate) run: &'s Run,
}

impl FileStep {
    /// All phases that were measured, but for the single directory that the files are in.
    pub(crate) fn phases<'s>(&self, steps: &'s [PaperStep]) -> Vec<Phase<'s>> {
        let steps = steps.iter().filter(|step| step.name == self.0);
        let runs = steps.flat_map(|step| step.results.runs.iter().map(|run| (&*step.name, run)));
        let own = runs.filter(|(_, run)| run.store == STORE && !run.phase.starts_with("tree-"));
        own.map(|(step, run)| self.phase(step, run)).collect()
    }

    /// Describes a phase by names that all benchmarks of files share.
    fn phase<'s>(&self, step: &'s str, run: &'s Run) -> Phase<'s> {
        let phase = match run.phase.as_str() {
            "file-creation" => "create",
            "file-stat" => "stat",
            "file-read" => "read",
            "file-removal" => "remove",
            other => other,
        };
        let work = format!("{} {phase}", self.1);
        let nodes = run.server_nodes().map(|nodes| format!(", {}", count(nodes, "node")));
        Phase { step, name: work.clone() + &nodes.unwrap_or_default(), work, run }
    }
}

impl Phase<'_> {
    /// The smallest ratio to another file system in this phase, and the name of that file system, which is the fastest
    /// one.
    pub(crate) fn harder_ratio(&self) -> Option<(&str, f64)> {
        let ratios = self.run.repeated.as_ref()?.ratio_to.iter();
        let ratios = ratios.map(|(name, ratio)| (name.as_str(), *ratio));
        ratios.min_by(|one, other| one.1.total_cmp(&other.1))
    }

    /// Time of all processes over all operations.
    pub(crate) fn mean_latency_us(&self) -> f64 {
        let run = self.run;
        per_second(run.seconds * f64::from(run.procs) * 1e6, run.ops as f64)
    }

    /// The median rate, with its unit.
    pub(crate) fn rate(&self) -> Option<String> {
        let unit = if self.run.workload == "ior" { "MiB/s" } else { "/s" };
        Some(format!("{} {} {unit}", self.name, short(self.run.rate()?.median)))
    }
}

impl Figures {
    /// Bars of the ratios to each of the kernel's file systems; none if nothing was measured.
    pub(crate) fn ratios(&mut self, title: &str, phases: &[Phase<'_>]) -> Result<Option<Figure>> {
        let mut chart = Chart::new(title, ("phase", Axis::Categories), "times as fast");
        for phase in phases {
            let x = chart.category(&phase.name);
            for (other, ratio) in phase.run.repeated.iter().flat_map(|one| &one.ratio_to) {
                chart.add("", &format!("times {other}"), Point::single(x, *ratio));
            }
        }
        for (x, _) in chart.ticks.clone() {
            chart.add_styled("", "equally fast", LIMIT, Point::single(x, 1.0));
        }
        let numbers = chart.number_long_names();
        let rates: Vec<_> = phases.iter().filter_map(Phase::rate).collect();
        let sentence = format!(
            "How many times as fast the file system in a container is; medians of the ratios of the iterations.{numbers} Rates: {}.",
            rates.join(", ")
        );
        self.figure("applications", chart, sentence)
    }

    /// Bars of the rates on pools over nodes; none if nothing was measured.
    pub(crate) fn rates(&mut self, title: &str, phases: &[Phase<'_>]) -> Result<Option<Figure>> {
        let mut chart = Chart::new(title, ("phase", Axis::Categories), "MiB/s");
        for phase in phases {
            let x = chart.category(&phase.work);
            let nodes = phase.run.server_nodes();
            let label = nodes.map_or_else(|| STORE.to_owned(), |nodes| count(nodes, "node"));
            let style = chart.style(STORE, &label);
            if let Some(rate) = phase.run.rate() {
                chart.add_styled("", &label, style, Point::median(x, &rate));
            }
        }
        let numbers = chart.number_long_names();
        let sentence = format!("Medians of the iterations; whiskers show the range.{numbers}");
        self.figure("rates", chart, sentence)
    }
}

/// Name of the report on the page.
const NAME: &str = "esker bench posix";

impl Row {
    /// True for a ratio to the rate of tmpfs.
    fn is_rate(&self) -> bool {
        !self.below && self.unit != "ratio"
    }
}

/// The page: a chart of the ratios beside the goals, the table, the machine.
///
/// # Errors
/// If this is not a report of `esker bench posix`, or the chart cannot be drawn.
pub fn page(report: &Value) -> Result<Page> {
    let rows: Vec<Row> = serde_json::from_value(report["table"].clone()).map_err(|error| {
        Error::new(
            ErrorKind::Invalid,
            format!("the report has no table of `{NAME}` ({error}): measure again"),
        )
    })?;
    let systems = rows.iter().flat_map(|row| row.systems.keys().map(String::as_str));
    let systems = distinct(systems);
    let (headings, cells) = cells(&rows, &systems);
    let processes = report["settings"]["procs"].as_u64().unwrap_or(0);
    let figures = figure(&rows, processes)?.into_iter().collect();
    let section = Section { figures, ..Section::default() };
    let mut page = Page::new("Files on this machine", vec![ABOUT.to_owned()], vec![section]);
    page.summary.push(Table::new("All work beside tmpfs", &headings, &cells));
    Ok(page.with_machines(&[Results::from_json(NAME, report.clone())?]))
}

/// Draws rates as multiples of tmpfs, with the goals of DFS.
fn figure(rows: &[Row], processes: u64) -> Result<Option<Figure>> {
    let title = "Work on files as a multiple of tmpfs";
    let mut chart = Chart::new(title, ("work", Axis::Categories), "times tmpfs");
    for row in rows.iter().filter(|row| row.is_rate()) {
        let x = chart.category(&short_name(&row.work));
        for (system, ratio) in &row.systems {
            chart.add("", system, Point::single(x, *ratio));
        }
        if let Some(goal) = row.goals.get("DFS") {
            chart.add_styled("", "goal of DFS", LIMIT, Point::single(x, *goal));
        }
    }
    let sentence =
        format!("{processes} processes at once; each bar is the median of the iterations.");
    Figures::default().figure("files", chart, sentence)
}

/// Name of a kind of work, shortened to fit below the axis.
fn short_name(work: &str) -> String {
    let name = work.replace(" write, shared file", " shared").replace(", own file", "");
    name.replace(", one directory", "").replace(" file", "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::results::tests::document;
    use serde_json::json;

    fn report() -> Value {
        let mut report = document(&[json!({})]);
        report["settings"]["procs"] = json!(2);
        report["table"] = json!([
            {"work": "stat", "unit": "/s", "base": 1000.0, "sites": {"DFS": 0.4, "ext4": 1.0},
             "goals": {"DFS": 0.5}, "below": false},
            {"work": "stat, 1 process", "unit": "us", "base": 1.5, "sites": {"DFS": 2.0}, "goals": {"DFS": 10.0},
             "below": true},
        ]);
        report
    }

    #[test]
    fn goals_that_are_missed_are_marked_and_rates_are_drawn() {
        let page = page(&report()).unwrap();
        let html = page.html().unwrap();
        for text in [
            "<td class=\"n\">0.40!</td>",
            "<td class=\"n\">2.00</td>",
            "goal of DFS",
            "2 processes at once",
        ] {
            assert!(html.contains(text), "{text}");
        }
        assert!(page.figures().all(|figure| !figure.svg.contains("1 process")));
    }
}
