//! Work on the file system in a container as a multiple of file systems of the kernel, as a part of the page of `esker
//! bench paper`.
use crate::plots::chart::{Axis, Chart, LIMIT, Palette, Panel, Point, Series};
use crate::plots::paper::PaperStep;
use crate::plots::words::{capital, short};
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
        let step = steps.iter().filter(|one| one.name == self.0);
        let runs = step.flat_map(|one| &one.results.runs);
        let runs = runs.filter(|run| run.store == STORE && !run.phase.starts_with("tree-"));
        runs.map(|run| self.phase(run)).collect()
    }

    fn phase<'s>(&self, run: &'s Run) -> Phase<'s> {
        let phase = match run.phase.as_str() {
            "file-creation" => "create",
            "file-stat" => "stat",
            "file-read" => "read",
            "file-removal" => "remove",
            other => other,
        };
        let work = format!("{} {phase}", self.1);
        let nodes = run.server_nodes().map(|nodes| format!(", {}", words_of_nodes(nodes)));
        Phase { name: work.clone() + &nodes.unwrap_or_default(), work, run }
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
        self.palette = Palette::default();
        let series = |other: &&String| {
            let point = |(x, phase): (usize, &Phase<'_>)| {
                Some(Point::single(x as f64, phase.run.ratio_to(other)?))
            };
            let points = phases.iter().enumerate().filter_map(point).collect();
            let label = format!("times {other}");
            Series { style: self.palette.style(&label), label, points }
        };
        let mut series: Vec<_> = others.iter().map(series).collect();
        let points = (0..phases.len()).map(|x| Point::single(x as f64, 1.0)).collect();
        series.push(Series { label: "equally fast".to_owned(), style: LIMIT, points });
        let names = phases.iter().map(|phase| phase.name.clone());
        let mut chart = bars(title, "times as fast", names, series);
        let numbers = chart.number_long_names();
        let rates: Vec<_> = phases.iter().filter_map(Phase::rate).collect();
        let sentence = format!(
            "How many times as fast the file system in a container is; medians of the ratios of the iterations.{numbers} Rates: {}.",
            rates.join(", ")
        );
        self.figure("applications", chart, sentence).map(Some)
    }

    /// Bars of the rates on pools over nodes; none if nothing was measured.
    ///
    /// # Errors
    /// If the chart cannot be drawn.
    pub(crate) fn rates(&mut self, title: &str, phases: &[Phase<'_>]) -> Result<Option<Figure>> {
        let works = distinct(phases.iter().map(|phase| &phase.work));
        if works.is_empty() {
            return Ok(None);
        }
        self.palette = Palette::default();
        let series = |nodes: Option<u32>| {
            let own = phases.iter().filter(|phase| phase.run.server_nodes() == nodes);
            let point = |phase: &Phase<'_>| {
                let (x, rate) =
                    (works.iter().position(|work| **work == phase.work)?, phase.run.rate()?);
                Some(Point { x: x as f64, y: rate.median, low: rate.min, high: rate.max })
            };
            let label = nodes.map_or_else(|| STORE.to_owned(), words_of_nodes);
            let style = self.palette.style_of(STORE, &label);
            Series { style, label, points: own.filter_map(point).collect() }
        };
        let counts = distinct(phases.iter().map(|phase| phase.run.server_nodes()));
        let series = counts.into_iter().map(series).collect();
        let mut chart = bars(title, "MiB/s", works.iter().map(|work| (*work).clone()), series);
        let numbers = chart.number_long_names();
        let sentence = format!("Medians of the iterations; whiskers show the range.{numbers}");
        self.figure("rates", chart, sentence).map(Some)
    }
}

/// A chart of one panel.
fn bars(
    title: &str,
    y_label: &str,
    names: impl Iterator<Item = String>,
    series: Vec<Series>,
) -> Chart {
    Chart {
        title: capital(title),
        x_label: "phase".to_owned(),
        y_label: y_label.to_owned(),
        axis: Axis::Categories,
        ticks: ticks_of(names),
        panels: vec![Panel { title: String::new(), series }],
    }
}
