//! Work on the file system in a container as a multiple of file systems of the kernel, as a part of the page of `esker
//! bench paper`.
use crate::plots::chart::{Axis, Chart, Panel, Point, Series};
use crate::plots::paper::PaperStep;
use crate::plots::words::short;
use crate::plots::{Figure, Figures, distinct, ticks_of};
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
    /// Name in charts.
    pub(crate) name: String,
    /// Its measurements.
    pub(crate) run: &'s Run,
}

impl FileStep {
    /// All phases that were measured, but for the single directory that the files are in.
    pub(crate) fn phases<'s>(&self, steps: &'s [PaperStep]) -> Vec<Phase<'s>> {
        let step = steps.iter().filter(|one| one.name == self.0);
        let runs = step.flat_map(|one| &one.results.runs);
        let runs = runs.filter(|run| run.store == STORE && !run.phase.starts_with("tree-"));
        runs.map(|run| Phase { name: self.name_of(run), run }).collect()
    }

    fn name_of(&self, run: &Run) -> String {
        let phase = match run.phase.as_str() {
            "file-creation" => "create",
            "file-stat" => "stat",
            "file-read" => "read",
            "file-removal" => "remove",
            other => other,
        };
        let nodes = run.server_nodes().map_or(String::new(), |nodes| match nodes {
            1 => ", 1 node".to_owned(),
            nodes => format!(", {nodes} nodes"),
        });
        format!("{} {phase}{nodes}", self.1).trim_start().to_owned()
    }
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
    ///
    /// # Errors
    /// If the chart cannot be drawn.
    pub(crate) fn ratios(&mut self, title: &str, phases: &[Phase<'_>]) -> Result<Option<Figure>> {
        let measured = phases.iter().filter_map(|phase| phase.run.repeated.as_ref());
        let mut others = distinct(measured.flat_map(|repeated| repeated.ratio_to.keys()));
        others.sort_unstable();
        if others.is_empty() {
            return Ok(None);
        }
        let series = |other: &&String| {
            let point = |(x, phase): (usize, &Phase<'_>)| {
                Some(Point::single(x as f64, phase.run.ratio_to(other)?))
            };
            let points = phases.iter().enumerate().filter_map(point).collect();
            let label = format!("times {other}");
            Series { style: self.palette.style(&label), label, points }
        };
        let series = others.iter().map(series).collect();
        let names = phases.iter().map(|phase| phase.name.clone());
        let mut chart = Chart {
            title: title.to_owned(),
            x_label: "phase".to_owned(),
            y_label: "times as fast".to_owned(),
            axis: Axis::Categories,
            ticks: ticks_of(names),
            panels: vec![Panel { title: String::new(), series }],
        };
        let numbers = chart.number_long_names();
        let rates: Vec<_> = phases.iter().filter_map(Phase::rate).collect();
        let sentence = format!(
            "How many times as fast the file system in a container is; medians of the ratios of the iterations.{numbers} Rates: {}.",
            rates.join(", ")
        );
        self.figure("applications", chart, sentence).map(Some)
    }
}
