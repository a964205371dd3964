//! The distribution of I/O: the papers' offsets as shares of the time of a phase.
use super::{Figure, Figures};
use crate::plot::{Axis, Chart, Mark, Panel, Point, Series, short};
use crate::results::{Measurement, Results};
use crate::units::Bytes;

/// Most runs in one chart; more would not be legible.
const RUNS_MAX: usize = 12;

type Offset = (&'static str, fn(&Measurement) -> Option<f64>);

const OFFSETS: [Offset; 4] = [
    ("off_0: last first start - first start", |run| run.off_0),
    ("off_f: last end - first last end", |run| run.off_f),
    ("po_0: between starts of the phases", |run| run.po_0),
    ("po_f: between ends of the phases", |run| run.po_f),
];

impl Figures {
    /// One chart for all runs that have offsets, or none.
    pub(crate) fn offsets(&mut self, files: &[Results]) -> Option<Figure> {
        let runs = files.iter().flat_map(|file| &file.runs);
        let with: Vec<_> =
            runs.filter(|run| run.off_0.is_some() && wall_clock(run) > 0.0).collect();
        let labels = labels(&with);
        if labels.is_empty() {
            return None;
        }
        let panels = ["write", "read"].map(|phase| self.offset_panel(phase, &labels, &with));
        let chart = Chart {
            id: self.next_id("offsets"),
            title: "I/O offsets as shares of the total parallel I/O wall-clock time".to_owned(),
            x_label: "run".to_owned(),
            y_label: "share of the phase (%)".to_owned(),
            x: Axis::Categories((1..=labels.len()).map(|number| number.to_string()).collect()),
            mark: Mark::Bars,
            panels: panels.to_vec(),
        };
        let sentence = format!("{} Runs: {}.", widest(&chart), numbered(&labels));
        Some(Figure { svg: chart.svg(), title: chart.title, id: chart.id, sentence })
    }

    fn offset_panel(&mut self, phase: &str, labels: &[String], runs: &[&Measurement]) -> Panel {
        let series = OFFSETS.iter().filter_map(|(name, of)| {
            let points: Vec<_> = labels
                .iter()
                .enumerate()
                .filter_map(|(index, wanted)| {
                    let mut same =
                        runs.iter().filter(|run| run.phase == phase && label(run) == *wanted);
                    let run = same.next()?;
                    let y = of(run)? / wall_clock(run) * 100.0;
                    Some(Point { x: index as f64, y, low: y, high: y })
                })
                .collect();
            let style = self.palette.style(name);
            (!points.is_empty()).then(|| Series { label: (*name).to_owned(), style, points })
        });
        Panel { title: phase.to_owned(), series: series.collect() }
    }
}

fn wall_clock(run: &Measurement) -> f64 {
    run.total_wall_clock_s.unwrap_or(run.seconds)
}

fn labels(runs: &[&Measurement]) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for run in runs {
        let label = label(run);
        if !labels.contains(&label) && labels.len() < RUNS_MAX {
            labels.push(label);
        }
    }
    labels
}

/// What a run is called beside others.
pub(crate) fn label(run: &Measurement) -> String {
    let access =
        [&run.mode, &run.pattern, &run.contention].map(|part| part.clone().unwrap_or_default());
    let [mode, pattern, contention] = access;
    let words = [
        run.store.clone(),
        run.workload.clone(),
        mode,
        pattern,
        contention,
        run.class_array.clone().unwrap_or_default(),
        Bytes(run.size_bytes).to_string(),
        format!("x {}", run.procs),
    ];
    words.iter().filter(|word| !word.is_empty()).cloned().collect::<Vec<_>>().join(" ")
}

fn numbered(labels: &[String]) -> String {
    let numbered = labels.iter().enumerate().map(|(index, label)| format!("{} {label}", index + 1));
    numbered.collect::<Vec<_>>().join("; ")
}

fn widest(chart: &Chart) -> String {
    let of = |name: &str| {
        let series = chart.panels.iter().flat_map(|panel| &panel.series);
        let points =
            series.filter(|series| series.label.starts_with(name)).flat_map(|one| &one.points);
        points.map(|point| point.y).fold(0.0, f64::max)
    };
    format!(
        "Processes began within {}% of the phase (off_0) and ended within {}% (off_f) at most.",
        short(of("off_0")),
        short(of("off_f"))
    )
}
