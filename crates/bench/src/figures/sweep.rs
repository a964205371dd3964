//! Charts of bandwidth over one thing that was varied.
use super::dims::{BOTH, Dim, Sample};
use super::{Figure, Figures};
use crate::plot::{Axis, Chart, LIMIT, Mark, Palette, Panel, Point, Series, short};

/// What a chart is over, and how its runs are told apart.
#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    /// Name for ids.
    pub stem: &'static str,
    /// What the title begins with.
    pub title: &'static str,
    /// What the horizontal axis is.
    pub x_label: &'static str,
    /// What is varied.
    pub over: Dim,
    /// One of these must differ, else there is nothing to see.
    pub needs: &'static [Dim],
    /// Runs that differ in one of these are in charts of their own.
    pub apart: &'static [Dim],
    /// Runs that differ in one of these are in series of their own.
    pub series: &'static [Dim],
    /// With the sum of phases that run at the same time.
    pub with_sums: bool,
}

/// All charts there are, in the order of the papers.
pub const SWEEPS: [Sweep; 6] = [
    Sweep {
        stem: "stores",
        title: "Stores side by side",
        x_label: "workload",
        over: Dim::Case,
        needs: &[Dim::Store],
        apart: &[Dim::Size, Dim::ClassArray, Dim::ClassKv, Dim::Nodes, Dim::Procs],
        series: &[Dim::Store],
        with_sums: false,
    },
    Sweep {
        stem: "modes",
        title: "Bandwidth by mode, pattern and contention",
        x_label: "pattern and contention",
        over: Dim::Access,
        needs: &[Dim::Mode, Dim::Access],
        apart: &[
            Dim::Workload,
            Dim::Store,
            Dim::Size,
            Dim::ClassArray,
            Dim::ClassKv,
            Dim::Nodes,
            Dim::Procs,
        ],
        series: &[Dim::Mode],
        with_sums: false,
    },
    Sweep {
        stem: "processes",
        title: "Bandwidth against processes",
        x_label: "processes",
        over: Dim::Procs,
        needs: &[Dim::Procs],
        apart: &[
            Dim::Workload,
            Dim::Pattern,
            Dim::Contention,
            Dim::Size,
            Dim::ClassArray,
            Dim::ClassKv,
            Dim::Nodes,
        ],
        series: &[Dim::Store, Dim::Mode],
        with_sums: true,
    },
    Sweep {
        stem: "nodes",
        title: "Bandwidth against nodes",
        x_label: "nodes",
        over: Dim::Nodes,
        needs: &[Dim::Nodes],
        apart: &[
            Dim::Workload,
            Dim::Pattern,
            Dim::Contention,
            Dim::Size,
            Dim::ClassArray,
            Dim::ClassKv,
            Dim::ProcsPerNode,
        ],
        series: &[Dim::Store, Dim::Mode],
        with_sums: true,
    },
    Sweep {
        stem: "size",
        title: "Bandwidth against object size",
        x_label: "object size",
        over: Dim::Size,
        needs: &[Dim::Size],
        apart: &[Dim::Workload, Dim::Pattern, Dim::Contention, Dim::Nodes, Dim::Procs],
        series: &[Dim::Store, Dim::Mode, Dim::ClassArray, Dim::ClassKv],
        with_sums: true,
    },
    Sweep {
        stem: "class",
        title: "Bandwidth by object class",
        x_label: "class of the Arrays",
        over: Dim::ClassArray,
        needs: &[Dim::ClassArray],
        apart: &[
            Dim::Workload,
            Dim::Store,
            Dim::Mode,
            Dim::Pattern,
            Dim::Contention,
            Dim::Nodes,
            Dim::Procs,
        ],
        series: &[Dim::Size, Dim::ClassKv],
        with_sums: false,
    },
];

/// For files in which nothing was varied.
pub(super) const OVERVIEW: Sweep = Sweep {
    stem: "overview",
    title: "Bandwidth of each run",
    x_label: "run",
    over: Dim::All,
    needs: &[],
    apart: &[],
    series: &[Dim::Nodes, Dim::Procs],
    with_sums: false,
};

/// Values smaller than this are told in operations per second: few bytes move however fast it is.
const SMALL_BYTES: f64 = 4096.0;

/// What is on the vertical axis.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    /// Its label.
    pub(super) label: &'static str,
    /// Its name behind a number.
    pub(super) name: &'static str,
    factor: f64,
    rate: bool,
}

impl Unit {
    fn of(samples: &[&Sample]) -> Self {
        let is_small =
            |sample: &&Sample| sample.number(Dim::Size).is_some_and(|size| size < SMALL_BYTES);
        let greatest = samples.iter().map(|sample| sample.mib_s).fold(0.0, f64::max);
        match (samples.iter().all(is_small), greatest >= 1024.0) {
            (true, _) => {
                Self { label: "thousand operations/s", name: "k/s", factor: 1e-3, rate: true }
            }
            (_, true) => Self {
                label: "bandwidth (GiB/s)",
                name: "GiB/s",
                factor: 1.0 / 1024.0,
                rate: false,
            },
            _ => Self { label: "bandwidth (MiB/s)", name: "MiB/s", factor: 1.0, rate: false },
        }
    }

    fn point(self, sample: &Sample, x: f64) -> Point {
        let value = if self.rate { sample.ops_per_s } else { sample.mib_s };
        let share = if sample.mib_s > 0.0 { value / sample.mib_s * self.factor } else { 0.0 };
        let (low, high) = sample.range_mib_s;
        Point { x, y: value * self.factor, low: low * share, high: high * share }
    }

    /// A rate has no limit: what a system call costs is no bandwidth.
    fn limit(self, sample: &Sample, x: f64) -> Option<Point> {
        let y = sample.limit_mib_s.filter(|_| !self.rate)? * self.factor;
        Some(Point { x, y, low: y, high: y })
    }
}

impl Figures {
    /// The charts of a sweep; none where nothing was varied.
    pub fn sweep(&mut self, sweep: &Sweep, samples: &[Sample]) -> Vec<Figure> {
        let wanted = samples.iter().filter(|sample| {
            sample.text(sweep.over).is_some() && (sweep.with_sums || sample.phase != BOTH)
        });
        let groups = grouped(wanted, sweep.apart);
        let charts = groups.into_iter().filter_map(|group| self.chart(sweep, &group));
        charts.collect()
    }

    fn chart(&mut self, sweep: &Sweep, samples: &[&Sample]) -> Option<Figure> {
        let axis = Ticks::of(sweep, samples);
        let is_varied =
            sweep.needs.is_empty() || sweep.needs.iter().any(|&dim| varies(samples, dim));
        if samples.is_empty() || !is_varied {
            return None;
        }
        let unit = Unit::of(samples);
        let phases = distinct(samples.iter().map(|sample| sample.phase.clone()));
        let panels = phases.iter().map(|phase| {
            let of_phase: Vec<_> =
                samples.iter().copied().filter(|sample| sample.phase == *phase).collect();
            panel(sweep, &axis, unit, phase, &of_phase, samples, &mut self.palette)
        });
        let chart = Chart {
            panels: panels.collect(),
            title: title(sweep, samples),
            x_label: sweep.x_label.to_owned(),
            y_label: unit.label.to_owned(),
            mark: if axis.is_numeric { Mark::Lines } else { Mark::Bars },
            id: self.next_id(sweep.stem),
            x: axis.axis(),
        };
        let sentence = super::sentence::of(&chart, unit, &axis.phrases);
        Some(Figure { svg: chart.svg(), title: chart.title, id: chart.id, sentence })
    }
}

fn title(sweep: &Sweep, samples: &[&Sample]) -> String {
    let fixed = sweep.apart.iter().filter(|dim| !matches!(dim, Dim::Nodes));
    let phrases: Vec<_> =
        fixed.filter_map(|&dim| samples.first().and_then(|sample| sample.phrase(dim))).collect();
    match phrases.is_empty() {
        true => sweep.title.to_owned(),
        false => format!("{}: {}", sweep.title, phrases.join(", ")),
    }
}

fn panel(
    sweep: &Sweep,
    axis: &Ticks,
    unit: Unit,
    phase: &str,
    of_phase: &[&Sample],
    all: &[&Sample],
    palette: &mut Palette,
) -> Panel {
    let varied: Vec<_> = sweep.series.iter().copied().filter(|&dim| varies(all, dim)).collect();
    let mut series: Vec<_> = grouped(of_phase.iter().copied(), sweep.series)
        .into_iter()
        .map(|group| {
            let label = label(&group, &varied, sweep);
            let points =
                group.iter().filter_map(|sample| Some(unit.point(sample, axis.x(sample)?)));
            Series { style: palette.style(&label), label, points: merged(points.collect()) }
        })
        .collect();
    let limits = of_phase.iter().filter_map(|sample| unit.limit(sample, axis.x(sample)?));
    let limits = merged(limits.collect());
    if !limits.is_empty() {
        series.push(Series {
            label: "limit of the medium".to_owned(),
            style: LIMIT,
            points: limits,
        });
    }
    Panel { title: phase.to_owned(), series }
}

fn label(group: &[&Sample], varied: &[Dim], sweep: &Sweep) -> String {
    let dims = if varied.is_empty() { &sweep.series[..sweep.series.len().min(2)] } else { varied };
    let phrases = dims.iter().filter_map(|&dim| group.first()?.phrase(dim));
    let label = phrases.collect::<Vec<_>>().join(", ");
    if label.is_empty() { "measured".to_owned() } else { label }
}

/// Several measurements at one place become their mean, with the range of all.
fn merged(mut points: Vec<Point>) -> Vec<Point> {
    points.sort_by(|one, other| one.x.total_cmp(&other.x));
    let groups = points.chunk_by(|one, other| one.x == other.x);
    groups
        .map(|group| Point {
            x: group[0].x,
            y: group.iter().map(|point| point.y).sum::<f64>() / group.len() as f64,
            low: group.iter().map(|point| point.low).fold(f64::INFINITY, f64::min),
            high: group.iter().map(|point| point.high).fold(0.0, f64::max),
        })
        .collect()
}

/// Samples that agree in all of `dims`, in order of appearance.
pub(super) fn grouped<'s>(
    samples: impl Iterator<Item = &'s Sample>,
    dims: &[Dim],
) -> Vec<Vec<&'s Sample>> {
    let mut groups: Vec<(Vec<Option<String>>, Vec<&Sample>)> = Vec::new();
    for sample in samples {
        let key: Vec<_> = dims.iter().map(|&dim| sample.text(dim)).collect();
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(sample),
            None => groups.push((key, vec![sample])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

fn varies(samples: &[&Sample], dim: Dim) -> bool {
    samples.iter().any(|sample| sample.text(dim) != samples[0].text(dim))
}

fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut found = Vec::new();
    for text in texts {
        if !found.contains(&text) {
            found.push(text);
        }
    }
    found
}

/// The places of the horizontal axis.
struct Ticks {
    over: Dim,
    is_numeric: bool,
    places: Vec<(f64, String)>,
    /// How they are put in a sentence.
    phrases: Vec<(f64, String)>,
}

impl Ticks {
    fn of(sweep: &Sweep, samples: &[&Sample]) -> Self {
        let over = sweep.over;
        let is_numeric = samples.iter().all(|sample| sample.number(over).is_some());
        let texts = distinct(samples.iter().filter_map(|sample| sample.text(over)));
        let number = |text: &String| {
            let named = samples.iter().find(|sample| sample.text(over).as_ref() == Some(text));
            named.and_then(|sample| sample.number(over)).unwrap_or_default()
        };
        let numbered = texts
            .into_iter()
            .enumerate()
            .map(|(index, text)| (if is_numeric { number(&text) } else { index as f64 }, text));
        let mut places: Vec<_> = numbered.collect();
        places.sort_by(|one, other| one.0.total_cmp(&other.0));
        let phrase = |(place, text): &(f64, String)| {
            let named = samples.iter().find(|sample| sample.text(over).as_ref() == Some(text))?;
            Some((*place, named.phrase(over)?))
        };
        let phrases = places.iter().filter_map(phrase).collect();
        Self { over, is_numeric, places, phrases }
    }

    fn x(&self, sample: &Sample) -> Option<f64> {
        let text = sample.text(self.over)?;
        self.places.iter().find(|(_, name)| *name == text).map(|(place, _)| *place)
    }

    fn axis(&self) -> Axis {
        let (first, last) = (self.places.first(), self.places.last());
        let far =
            first.zip(last).is_some_and(|(first, last)| first.0 > 0.0 && last.0 / first.0 >= 6.0);
        match self.is_numeric {
            true => Axis::Values { ticks: self.places.clone(), log: far },
            false => Axis::Categories(self.places.iter().map(|(_, name)| name.clone()).collect()),
        }
    }
}

/// A value with its unit.
pub(super) fn with_unit(value: f64, unit: Unit) -> String {
    format!("{} {}", short(value), unit.name)
}
