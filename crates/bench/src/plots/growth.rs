//! Charts of `esker bench growth`: what an operation costs at each number of entries.
use crate::plots::chart::{Axis, Chart, LIMIT, Panel, Point, Series};
use crate::plots::results::Results;
use crate::plots::words::short;
use crate::plots::{Figure, Figures};
use crate::report::Run;
use esker_types::Result;

/// The median, or the 99th percentile, in microseconds.
type Cost = fn(&Run) -> f64;

const COSTS: [(&str, Cost); 2] =
    [("median", |run| run.latency_us.p50), ("99th percentile", |run| run.latency_us.p99)];

impl Figures {
    /// Two charts for each kind of entries of a file: operations, and opening the pool. None if it has other measurements.
    ///
    /// # Errors
    /// If a chart cannot be drawn.
    pub(crate) fn growth(&mut self, file: &Results) -> Result<Vec<Figure>> {
        let grown: Vec<_> = file.runs.iter().filter(|run| run.entries.is_some()).collect();
        let kinds = grown.chunk_by(|one, next| one.workload == next.workload);
        kinds.flat_map(|runs| [self.operations(runs), self.opening(runs)]).collect()
    }

    fn operations(&mut self, runs: &[&Run]) -> Result<Figure> {
        let panels = [("put", "pwrite"), ("get", "pread")].map(|(phase, limit)| {
            let mut series = self.lines(&runs_of_phase(runs, phase), 1.0);
            let label = "median of pwrite and pread of a file as large".to_owned();
            let points = points(&runs_of_phase(runs, limit), COSTS[0].1, 1.0);
            series.push(Series { label, style: LIMIT, points });
            Panel { title: phase.to_owned(), series }
        });
        let title = "Cost of an operation against entries";
        self.grown(runs, title, "microseconds", panels.to_vec())
    }

    fn opening(&mut self, runs: &[&Run]) -> Result<Figure> {
        let series = self.lines(&runs_of_phase(runs, "open"), 1e-3);
        let panel = Panel { title: "open and get one entry".to_owned(), series };
        self.grown(runs, "Opening a pool against entries", "milliseconds", vec![panel])
    }

    fn lines(&mut self, runs: &[&Run], scale: f64) -> Vec<Series> {
        let line = |(label, cost): (&str, Cost)| Series {
            label: label.to_owned(),
            style: self.palette.style(label),
            points: points(runs, cost, scale),
        };
        COSTS.map(line).to_vec()
    }

    fn grown(
        &mut self,
        runs: &[&Run],
        title: &str,
        unit: &str,
        panels: Vec<Panel>,
    ) -> Result<Figure> {
        let workload = runs.first().map_or("", |run| run.workload.as_str());
        let mut ticks: Vec<_> = runs.iter().filter_map(|run| run.entries).collect();
        ticks.dedup();
        let chart = Chart {
            title: format!("{title}: {workload}"),
            x_label: "entries".to_owned(),
            y_label: unit.to_owned(),
            axis: Axis::Log,
            ticks: ticks.iter().map(|&entries| (entries as f64, short(entries as f64))).collect(),
            panels,
        };
        let sentences: Vec<_> = chart.panels.iter().filter_map(|panel| rise(panel, unit)).collect();
        self.figure("growth", chart, sentences.join(" "))
    }
}

fn runs_of_phase<'r>(runs: &[&'r Run], phase: &str) -> Vec<&'r Run> {
    runs.iter().copied().filter(|run| run.phase == phase).collect()
}

fn points(runs: &[&Run], cost: Cost, scale: f64) -> Vec<Point> {
    let point = |run: &&Run| Some(Point::single(run.entries? as f64, cost(run) * scale));
    runs.iter().filter_map(point).collect()
}

/// Sentence about the growth of the median.
fn rise(panel: &Panel, unit: &str) -> Option<String> {
    let median = panel.series.first()?;
    let (first, last) = (median.points.first()?, median.points.last()?);
    Some(format!(
        "{}: the median goes from {} to {} {unit} as entries go from {} to {}.",
        crate::plots::words::capital(&panel.title),
        short(first.y),
        short(last.y),
        short(first.x),
        short(last.x)
    ))
}
