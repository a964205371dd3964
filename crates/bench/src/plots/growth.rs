//! Charts of `esker bench growth`: what an operation costs at each number of entries.
use crate::plots::chart::{Axis, Chart, Point, Series};
use crate::plots::results::Results;
use crate::plots::style::LIMIT;
use crate::plots::words::{capital, short};
use crate::plots::{Figure, Figures};
use crate::report::Run;
use esker_types::Result;

/// A chart of latencies.
struct Costs {
    title: &'static str,
    unit: &'static str,
    /// Length of the unit in microseconds.
    unit_us: f64,
    /// Phases, and the panels that they are in.
    phases: &'static [(&'static str, &'static str)],
}

const COSTS: [Costs; 2] = [
    Costs {
        title: "Cost of an operation against entries",
        unit: "microseconds",
        unit_us: 1.0,
        phases: &[("put", "put"), ("pwrite", "put"), ("get", "get"), ("pread", "get")],
    },
    Costs {
        title: "Opening a pool against entries",
        unit: "milliseconds",
        unit_us: 1e3,
        phases: &[("open", "open and get one entry")],
    },
];

impl Figures {
    /// Two charts for each kind of entries of a file: operations, and opening the pool. None if it has other measurements.
    pub(crate) fn growth(&mut self, file: &Results) -> Result<Vec<Figure>> {
        let grown: Vec<_> = file.runs.iter().filter(|run| run.entries.is_some()).collect();
        let kinds = grown.chunk_by(|one, next| one.workload == next.workload);
        let figures =
            kinds.flat_map(|runs| COSTS.map(|costs| self.costs(&costs, runs).transpose()));
        figures.flatten().collect()
    }

    /// Draws costs over the number of entries.
    fn costs(&mut self, costs: &Costs, runs: &[&Run]) -> Result<Option<Figure>> {
        let title = format!("{}: {}", costs.title, runs[0].workload);
        let mut chart = Chart::new(&title, ("entries", Axis::Log), costs.unit);
        for (phase, panel) in costs.phases {
            for run in runs.iter().filter(|run| run.phase == *phase) {
                let entries = run.entries.unwrap_or_default() as f64;
                let point = |us: f64| Point::single(entries, us / costs.unit_us);
                let median = point(run.latency_us.p50);
                if run.is_limit() {
                    let label = "median of pwrite and pread of a file as large";
                    chart.add_styled(panel, label, LIMIT, median);
                } else {
                    chart.add(panel, "median", median);
                    chart.add(panel, "99th percentile", point(run.latency_us.p99));
                }
            }
        }
        let medians = chart.series.iter().filter(|series| series.label == "median");
        let rises: Vec<_> = medians.filter_map(|series| rise(series, costs.unit)).collect();
        self.figure("growth", chart, rises.join(" "))
    }
}

/// Sentence about the growth of the median.
fn rise(median: &Series, unit: &str) -> Option<String> {
    let (first, last) = (median.points.first()?, median.points.last()?);
    Some(format!(
        "{}: the median goes from {} to {} {unit} as entries go from {} to {}.",
        capital(&median.panel),
        short(first.y),
        short(last.y),
        short(first.x),
        short(last.x)
    ))
}
