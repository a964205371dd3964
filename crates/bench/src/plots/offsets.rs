//! How I/O is distributed over a phase: the papers' offsets as shares of its wall-clock time.
use crate::plots::chart::{Axis, Chart, Palette, Panel, Point, Series};
use crate::plots::results::Results;
use crate::plots::words::short;
use crate::plots::{Figure, Figures, distinct, ticks_of};
use crate::report::Run;
use esker_types::Result;

/// Most runs in one chart.
const RUNS_MAX: usize = 12;

type Offset = (&'static str, fn(&Run) -> Option<f64>);

const OFFSETS: [Offset; 4] = [
    ("off_0: last first start - first start", |run| Some(run.parallel.as_ref()?.off_0)),
    ("off_f: last end - first last end", |run| Some(run.parallel.as_ref()?.off_f)),
    ("po_0: between starts of the phases", |run| run.parallel.as_ref()?.po_0),
    ("po_f: between ends of the phases", |run| run.parallel.as_ref()?.po_f),
];

impl Figures {
    /// One chart for all runs that have offsets; none if no run has them.
    ///
    /// # Errors
    /// If the chart cannot be drawn.
    pub fn offsets(&mut self, files: &[Results]) -> Result<Option<Figure>> {
        let runs = files.iter().flat_map(|file| &file.runs);
        let runs: Vec<_> =
            runs.filter(|run| run.parallel.is_some() && run.wall_clock_s() > 0.0).collect();
        let mut labels = distinct(runs.iter().map(|run| run.label()));
        labels.truncate(RUNS_MAX);
        if labels.is_empty() {
            return Ok(None);
        }
        self.palette = Palette::default();
        let chart = Chart {
            title: "I/O offsets as shares of the total parallel I/O wall-clock time".to_owned(),
            x_label: "run".to_owned(),
            y_label: "share of the phase (%)".to_owned(),
            axis: Axis::Categories,
            ticks: ticks_of((1..=labels.len()).map(|number| number.to_string())),
            panels: ["write", "read"]
                .map(|phase| self.offset_panel(phase, &labels, &runs))
                .to_vec(),
        };
        let numbered =
            labels.iter().enumerate().map(|(index, label)| format!("{} {label}", index + 1));
        let sentence =
            format!("{} Runs: {}.", widest(&chart), numbered.collect::<Vec<_>>().join("; "));
        self.figure("offsets", chart, sentence).map(Some)
    }

    fn offset_panel(&mut self, phase: &str, labels: &[String], runs: &[&Run]) -> Panel {
        let series = OFFSETS.iter().filter_map(|(name, of)| {
            let point = |(index, label): (usize, &String)| {
                let run = runs.iter().find(|run| run.phase == phase && run.label() == *label)?;
                Some(Point::single(index as f64, of(run)? / run.wall_clock_s() * 100.0))
            };
            let points: Vec<_> = labels.iter().enumerate().filter_map(point).collect();
            let style = self.palette.style(name);
            (!points.is_empty()).then(|| Series { label: (*name).to_owned(), style, points })
        });
        Panel { title: phase.to_owned(), series: series.collect() }
    }
}

fn widest(chart: &Chart) -> String {
    let of = |name: &str| {
        let series = chart.series().filter(|series| series.label.starts_with(name));
        short(series.flat_map(|series| &series.points).map(|point| point.y).fold(0.0, f64::max))
    };
    let (start, end) = (of("off_0"), of("off_f"));
    format!(
        "Processes began within {start}% of the phase (off_0) and ended within {end}% (off_f) at most."
    )
}
