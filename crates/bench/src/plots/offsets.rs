//! How I/O is distributed over a phase: the papers' offsets as shares of its wall-clock time.
use crate::plots::chart::{Axis, Chart, Point};
use crate::plots::results::Results;
use crate::plots::words::short;
use crate::plots::{Figure, Figures};
use esker_types::Result;
use std::collections::BTreeSet;

/// Maximum number of runs in one chart.
const RUNS_MAX: usize = 12;

impl Figures {
    /// One chart for all runs that have offsets; none if no run has them.
    pub(crate) fn offsets(&mut self, files: &[Results]) -> Result<Option<Figure>> {
        let title = "I/O offsets as shares of the total parallel I/O wall-clock time";
        let mut chart = Chart::new(title, ("run", Axis::Categories), "share of the phase (%)");
        let mut drawn = BTreeSet::new();
        for run in files.iter().flat_map(|file| &file.runs).filter(|run| run.wall_clock_s() > 0.0) {
            let Some(parallel) = &run.parallel else { continue };
            if !drawn.insert((run.label(), &run.phase)) {
                continue;
            }
            let x = chart.category(&run.label());
            if chart.ticks.len() > RUNS_MAX {
                chart.ticks.truncate(RUNS_MAX);
                break;
            }
            for (name, offset_s) in [
                ("off_0: last first start - first start", Some(parallel.off_0)),
                ("off_f: last end - first last end", Some(parallel.off_f)),
                ("po_0: between starts of the phases", parallel.po_0),
                ("po_f: between ends of the phases", parallel.po_f),
            ] {
                let share = |offset_s: f64| offset_s / run.wall_clock_s() * 100.0;
                if let Some(percent) = offset_s.map(share) {
                    chart.add(&run.phase, name, Point::single(x, percent));
                }
            }
        }
        let sentence = longest(&chart) + &chart.number_names();
        self.figure("offsets", chart, sentence)
    }
}

fn longest(chart: &Chart) -> String {
    let of = |name: &str| {
        let series = chart.series.iter().filter(|series| series.label.starts_with(name));
        short(series.flat_map(|series| &series.points).map(|point| point.y).fold(0.0, f64::max))
    };
    let (start, end) = (of("off_0"), of("off_f"));
    format!(
        "Processes began within {start}% of the phase (off_0) and ended within {end}% (off_f) at most."
    )
}
