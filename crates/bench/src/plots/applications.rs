//! Work on the file system in a container as a multiple of file systems of the kernel, as a part of the page of `esker
//! bench paper`.
use crate::plots::chart::{Axis, Chart, Point};
use crate::plots::paper::PaperStep;
use crate::plots::style::LIMIT;
use crate::plots::words::short;
use crate::plots::{Figure, Figures};
use crate::report::Run;
use esker_cli::units::per_second;
use esker_types::Result;
use serde::Deserialize;

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
    /// The same with the number of nodes, if the pool is over nodes.
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

    fn phase<'s>(&self, step: &'s str, run: &'s Run) -> Phase<'s> {
        let phase = match run.phase.as_str() {
            "file-creation" => "create",
            "file-stat" => "stat",
            "file-read" => "read",
            "file-removal" => "remove",
            other => other,
        };
        let work = format!("{} {phase}", self.1);
        let nodes = run.server_nodes().map(|nodes| format!(", {}", words_of_nodes(nodes)));
        Phase { step, name: work.clone() + &nodes.unwrap_or_default(), work, run }
    }
}

fn words_of_nodes(nodes: u32) -> String {
    format!("{nodes} {}", if nodes == 1 { "node" } else { "nodes" })
}

impl Phase<'_> {
    /// Ratio to the file system that is fastest at this phase, and its name. It is the least of all ratios.
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
            let label = nodes.map_or_else(|| STORE.to_owned(), words_of_nodes);
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
