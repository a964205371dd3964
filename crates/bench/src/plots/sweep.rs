//! Charts of bandwidth against the members in which runs differ.
use crate::plots::chart::{Axis, Chart, LIMIT, Palette, Panel, Point, Series};
use crate::plots::results::Results;
use crate::plots::words::{capital, short};
use crate::plots::{Figure, Figures};
use crate::report::Run;
use esker_cli::units::Bytes;
use esker_types::Result;
use std::collections::BTreeMap;

/// A kind of chart: its horizontal axis, and how runs are grouped. `over`, `needs`, `apart` and `series` are names of
/// [`Sample::texts`], separated by spaces.
#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    /// Name for ids.
    pub stem: &'static str,
    title: &'static str,
    x_label: &'static str,
    over: &'static str,
    /// One of these must differ, else the chart would show nothing.
    needs: &'static str,
    /// Runs that differ in one of these go to separate charts.
    apart: &'static str,
    /// Runs that differ in one of these go to separate series.
    series: &'static str,
    /// Includes the sum of phases that run at the same time.
    with_sums: bool,
    /// At each place the best value counts, as the papers count the best number of processes. There is no limit: that of
    /// one medium does not bound several nodes.
    best: bool,
}

/// All kinds of charts, in the order of the papers.
pub const SWEEPS: [Sweep; 8] = [
    Sweep {
        stem: "stores",
        title: "Stores side by side",
        x_label: "workload",
        over: "case",
        needs: "store",
        apart: "size class_array class_kv nodes server_nodes procs",
        series: "store",
        with_sums: false,
        best: false,
    },
    Sweep {
        stem: "modes",
        title: "Bandwidth by mode, pattern and contention",
        x_label: "pattern and contention",
        over: "access",
        needs: "mode access",
        apart: "workload store size class_array class_kv nodes server_nodes procs",
        series: "mode",
        with_sums: false,
        best: false,
    },
    Sweep {
        stem: "processes",
        title: "Bandwidth against processes",
        x_label: "processes",
        over: "procs",
        needs: "procs",
        apart: "workload pattern contention size class_array class_kv nodes server_nodes",
        series: "store mode",
        with_sums: true,
        best: false,
    },
    Sweep {
        stem: "nodes",
        title: "Bandwidth against nodes",
        x_label: "nodes",
        over: "nodes",
        needs: "nodes",
        apart: "workload pattern contention size class_array class_kv procs_per_node server_nodes",
        series: "store mode",
        with_sums: true,
        best: false,
    },
    Sweep {
        stem: "size",
        title: "Bandwidth against object size",
        x_label: "object size",
        over: "size",
        needs: "size",
        apart: "workload pattern contention nodes server_nodes procs",
        series: "store mode class_array class_kv",
        with_sums: true,
        best: false,
    },
    Sweep {
        stem: "class",
        title: "Bandwidth by object class",
        x_label: "class of the Arrays",
        over: "class_array",
        needs: "class_array",
        apart: "workload store mode pattern contention nodes server_nodes procs",
        series: "size class_kv",
        with_sums: false,
        best: false,
    },
    Sweep {
        stem: FILES,
        title: "Work on files against nodes of the pool",
        x_label: "nodes of the pool",
        over: "server_nodes",
        needs: "server_nodes",
        apart: "workload",
        series: "size",
        with_sums: false,
        best: true,
    },
    Sweep {
        stem: SCALING,
        title: "Bandwidth against nodes of the pool",
        x_label: "nodes of the pool",
        over: "server_nodes",
        needs: "server_nodes",
        apart: "workload pattern contention size class_array class_kv nodes",
        series: "store mode",
        with_sums: true,
        best: true,
    },
];

/// The chart of pools over more and more nodes.
pub(crate) const SCALING: &str = "scaling";
/// The chart of file systems in such pools.
pub(crate) const FILES: &str = "files";

/// The chart of files in which nothing varies.
pub const OVERVIEW: Sweep = Sweep {
    stem: "overview",
    title: "Bandwidth of each run",
    x_label: "run",
    over: "all",
    needs: "",
    apart: "",
    series: "nodes server_nodes procs",
    with_sums: false,
    best: false,
};

/// Phase of the sum of a write and a read phase that ran at the same time.
const BOTH: &str = "write + read";
/// Runs of smaller values are drawn in operations per second: they move few bytes however fast they are.
const SMALL_BYTES: u64 = 4096;
/// Whiskers are mentioned where they are at least this share of a value.
const SPREAD_MIN: f64 = 0.02;

/// One measured phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    run: Run,
    phase: String,
    mib_s: f64,
    range_mib_s: (f64, f64),
    limit_mib_s: Option<f64>,
    ops_per_s: f64,
    /// The members of the run by name: `store`, `workload`, `mode`, `procs` and so on. A member that does not apply is
    /// missing.
    texts: BTreeMap<&'static str, String>,
}

/// All measurements of files, with the sums of phases that write and read at the same time.
#[must_use]
pub fn samples(files: &[Results]) -> Vec<Sample> {
    let samples: Vec<_> =
        files.iter().flat_map(|file| &file.runs).filter_map(Sample::from_run).collect();
    let sums: Vec<_> = samples.iter().filter_map(|write| write.sum(&samples)).collect();
    [samples, sums].concat()
}

impl Sample {
    /// The sample of a run. Runs of the medium count only in benchmarks that measure nothing else. Stores that grow have
    /// charts of their own.
    fn from_run(run: &Run) -> Option<Self> {
        if run.entries.is_some() || (run.is_limit() && run.workload != "limit") {
            return None;
        }
        let mib_s = run.bandwidth();
        Some(Self {
            phase: run.phase.clone(),
            mib_s,
            range_mib_s: run.spread().map_or((mib_s, mib_s), |spread| (spread.min, spread.max)),
            limit_mib_s: run.limit_mib_s,
            ops_per_s: run.ops_per_s,
            texts: texts(run),
            run: run.clone(),
        })
    }

    /// The sum of this write phase and the read phase beside it, in pattern B.
    fn sum(&self, samples: &[Self]) -> Option<Self> {
        if self.phase != "write" || self.run.pattern() != Some("B") {
            return None;
        }
        let next = self.run.number().map(|run| run + 1);
        let is_beside = |other: &&Self| {
            other.phase == "read" && other.run.number() == next && other.texts == self.texts
        };
        let read = samples.iter().find(is_beside)?;
        let (mine, other) = (self.range_mib_s, read.range_mib_s);
        Some(Self {
            phase: BOTH.to_owned(),
            mib_s: self.mib_s + read.mib_s,
            range_mib_s: (mine.0 + other.0, mine.1 + other.1),
            limit_mib_s: self.limit_mib_s.zip(read.limit_mib_s).map(|(mine, other)| mine + other),
            ops_per_s: self.ops_per_s + read.ops_per_s,
            ..self.clone()
        })
    }

    fn text(&self, name: &str) -> Option<&String> {
        self.texts.get(name)
    }

    /// The member of this name as a number, if it is one.
    fn number(&self, name: &str) -> Option<f64> {
        match name {
            "size" => Some(self.run.size_bytes as f64),
            "procs" | "nodes" | "procs_per_node" | "server_nodes" => self.text(name)?.parse().ok(),
            _ => None,
        }
    }

    /// The member of this name as text for titles and labels.
    fn phrase(&self, name: &str) -> Option<String> {
        let text = self.text(name)?;
        let count =
            |one: &str, many: &str| format!("{text} {}", if text == "1" { one } else { many });
        Some(match name {
            "pattern" => format!("pattern {text}"),
            "contention" => format!("{text} contention"),
            "class_kv" => format!("Key-Values {text}"),
            "class_array" => format!("class {text}"),
            "procs" => count("process", "processes"),
            "procs_per_node" => count("process per node", "processes per node"),
            "nodes" => count("node", "nodes"),
            "server_nodes" => count("node of the pool", "nodes of the pool"),
            "size" if self.run.size_bytes == 0 => "empty files".to_owned(),
            _ => text.clone(),
        })
    }

    fn phrases(&self, names: &[&str]) -> String {
        names.iter().filter_map(|name| self.phrase(name)).collect::<Vec<_>>().join(", ")
    }
}

fn texts(run: &Run) -> BTreeMap<&'static str, String> {
    let nodes = run.parallel.as_ref().map_or(1, |parallel| parallel.nodes).max(1);
    let own = |text: Option<&str>| text.map(str::to_owned);
    let known = [
        ("workload", Some(run.workload.clone())),
        ("store", Some(run.store.clone())),
        ("mode", own(run.mode())),
        ("pattern", own(run.pattern())),
        ("contention", own(run.contention())),
        ("class_array", own(run.class_array())),
        ("class_kv", own(run.class_kv())),
        ("size", Some(Bytes(run.size_bytes).to_string())),
        ("procs", Some(run.procs.to_string())),
        ("nodes", Some(nodes.to_string())),
        ("procs_per_node", Some((run.procs / nodes).to_string())),
        ("server_nodes", run.server_nodes().map(|nodes| nodes.to_string())),
    ];
    let mut texts: BTreeMap<_, _> =
        known.into_iter().filter_map(|(name, text)| Some((name, text?))).collect();
    let joins = [
        ("access", "pattern contention"),
        ("case", if run.parallel.is_some() { "mode access" } else { "workload" }),
        ("all", "workload store mode access class_array class_kv size"),
    ];
    for (name, parts) in joins {
        let joined: Vec<_> = parts.split(' ').filter_map(|part| texts.get(part).cloned()).collect();
        if !joined.is_empty() {
            texts.insert(name, joined.join(" "));
        }
    }
    texts
}

/// The quantity on the vertical axis.
#[derive(Clone, Copy)]
struct Unit {
    label: &'static str,
    name: &'static str,
    factor: f64,
    is_rate: bool,
}

impl Unit {
    fn for_samples(samples: &[&Sample]) -> Self {
        let greatest = samples.iter().map(|sample| sample.mib_s).fold(0.0, f64::max);
        let (label, name, factor, is_rate) =
            match samples.iter().all(|sample| sample.run.size_bytes < SMALL_BYTES) {
                true => ("thousand operations/s", "k/s", 1e-3, true),
                false if greatest >= 1024.0 => ("bandwidth (GiB/s)", "GiB/s", 1.0 / 1024.0, false),
                false => ("bandwidth (MiB/s)", "MiB/s", 1.0, false),
            };
        Self { label, name, factor, is_rate }
    }

    fn point(self, sample: &Sample, x: f64) -> Point {
        let value = if self.is_rate { sample.ops_per_s } else { sample.mib_s };
        let scale = if sample.mib_s > 0.0 { value / sample.mib_s * self.factor } else { 0.0 };
        let (low, high) = sample.range_mib_s;
        Point { x, y: value * self.factor, low: low * scale, high: high * scale }
    }

    /// Rates have no limit: the bandwidth of the medium does not bound the cost of a system call.
    fn limit(self, sample: &Sample, x: f64) -> Option<Point> {
        Some(Point::single(x, sample.limit_mib_s.filter(|_| !self.is_rate)? * self.factor))
    }
}

impl Figures {
    /// The charts of a kind; none if nothing that it shows varies.
    ///
    /// # Errors
    /// If a chart cannot be drawn.
    pub fn sweep(&mut self, sweep: &Sweep, samples: &[Sample]) -> Result<Vec<Figure>> {
        let wanted = samples
            .iter()
            .filter(|one| one.text(sweep.over).is_some() && (sweep.with_sums || one.phase != BOTH));
        let groups = grouped(wanted, &names(sweep.apart));
        groups.iter().filter_map(|group| self.chart(sweep, group).transpose()).collect()
    }

    fn chart(&mut self, sweep: &Sweep, samples: &[&Sample]) -> Result<Option<Figure>> {
        let needs = names(sweep.needs);
        let Some(first) = samples
            .first()
            .filter(|_| needs.is_empty() || needs.iter().any(|name| varies(samples, name)))
        else {
            return Ok(None);
        };
        let (ticks, unit) = (Ticks::for_samples(sweep.over, samples), Unit::for_samples(samples));
        self.palette = Palette::default();
        let phases = grouped_by(samples.iter().copied(), |sample| sample.phase.clone());
        let panels = phases.iter().map(|(phase, of_phase)| Panel {
            title: phase.clone(),
            series: self.series(sweep, &ticks, unit, (of_phase, samples)),
        });
        let fixed: Vec<_> =
            names(sweep.apart).into_iter().filter(|name| *name != "nodes").collect();
        let title = [sweep.title.to_owned(), first.phrases(&fixed)];
        let mut chart = Chart {
            panels: panels.collect(),
            title: title.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": "),
            x_label: sweep.x_label.to_owned(),
            y_label: unit.label.to_owned(),
            axis: ticks.axis(),
            ticks: ticks.places.clone(),
        };
        let numbers = chart.number_long_names();
        let sentence = sentence(&chart, unit, &ticks.phrases) + &numbers;
        self.figure(sweep.stem, chart, sentence).map(Some)
    }

    /// The series of one phase. All phases label series by what varies among `all`.
    fn series(
        &mut self,
        sweep: &Sweep,
        ticks: &Ticks,
        unit: Unit,
        (of_phase, all): (&[&Sample], &[&Sample]),
    ) -> Vec<Series> {
        let apart = names(sweep.series);
        let mut varied: Vec<_> = apart.iter().copied().filter(|name| varies(all, name)).collect();
        if varied.is_empty() {
            varied = apart.iter().copied().take(2).collect();
        }
        let points = |group: &[&Sample], point: &dyn Fn(&Sample, f64) -> Option<Point>| {
            let points = group.iter().filter_map(|sample| point(sample, ticks.place(sample)?));
            merged(points.collect(), sweep.best)
        };
        let one = |group: &Vec<&Sample>| {
            let label = group.first().map_or(String::new(), |first| first.phrases(&varied));
            let label = if label.is_empty() { "measured".to_owned() } else { label };
            let points = points(group, &|sample, x| Some(unit.point(sample, x)));
            let system = group.first().map_or("", |first| &first.run.store);
            Series { style: self.palette.style_of(system, &label), label, points }
        };
        let mut series: Vec<_> =
            grouped(of_phase.iter().copied(), &apart).iter().map(one).collect();
        let limits = points(of_phase, &|sample, x| unit.limit(sample, x));
        if !limits.is_empty() && !sweep.best {
            series.push(Series {
                label: "limit of the medium".to_owned(),
                style: LIMIT,
                points: limits,
            });
        }
        series
    }
}

fn names(text: &'static str) -> Vec<&'static str> {
    text.split_whitespace().collect()
}

fn varies(samples: &[&Sample], name: &str) -> bool {
    samples.iter().any(|sample| sample.text(name) != samples[0].text(name))
}

/// Samples that agree in all of these names, in order of appearance.
fn grouped<'s>(samples: impl Iterator<Item = &'s Sample>, names: &[&str]) -> Vec<Vec<&'s Sample>> {
    let key =
        |sample: &Sample| names.iter().map(|name| sample.text(name).cloned()).collect::<Vec<_>>();
    grouped_by(samples, key).into_iter().map(|(_, group)| group).collect()
}

/// Items with the same key, in order of appearance.
pub(crate) fn grouped_by<'s, T, K: PartialEq>(
    items: impl IntoIterator<Item = &'s T>,
    key: impl Fn(&T) -> K,
) -> Vec<(K, Vec<&'s T>)> {
    let mut groups: Vec<(K, Vec<&T>)> = Vec::new();
    for item in items {
        let key = key(item);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

/// Several measurements at one place become their mean, with the range of all, or the best of them.
fn merged(mut points: Vec<Point>, best: bool) -> Vec<Point> {
    points.sort_by(|one, other| one.x.total_cmp(&other.x).then(one.y.total_cmp(&other.y)));
    let groups = points.chunk_by(|one, other| one.x == other.x);
    if best {
        return groups.filter_map(|group| group.last().copied()).collect();
    }
    let mean = |group: &[Point]| Point {
        x: group[0].x,
        y: group.iter().map(|point| point.y).sum::<f64>() / group.len() as f64,
        low: group.iter().map(|point| point.low).fold(f64::INFINITY, f64::min),
        high: group.iter().map(|point| point.high).fold(0.0, f64::max),
    };
    groups.map(mean).collect()
}

/// Places on the horizontal axis.
struct Ticks {
    over: &'static str,
    is_numeric: bool,
    /// Places and their labels, in rising order.
    places: Vec<(f64, String)>,
    /// Phrase for each tick in a sentence.
    phrases: Vec<String>,
}

impl Ticks {
    fn for_samples(over: &'static str, samples: &[&Sample]) -> Self {
        let is_numeric = samples.iter().all(|sample| sample.number(over).is_some());
        let groups = grouped(samples.iter().copied(), &[over]);
        let mut ticks: Vec<_> = groups
            .iter()
            .enumerate()
            .map(|(index, group)| {
                let place = group[0].number(over).filter(|_| is_numeric).unwrap_or(index as f64);
                let text = |text: Option<String>| text.unwrap_or_default();
                (place, text(group[0].text(over).cloned()), text(group[0].phrase(over)))
            })
            .collect();
        ticks.sort_by(|one, other| one.0.total_cmp(&other.0));
        let places = ticks.iter().map(|(place, name, _)| (*place, name.clone())).collect();
        Self {
            over,
            is_numeric,
            places,
            phrases: ticks.into_iter().map(|(_, _, phrase)| phrase).collect(),
        }
    }

    fn place(&self, sample: &Sample) -> Option<f64> {
        let text = sample.text(self.over)?;
        self.places.iter().find(|(_, name)| name == text).map(|(place, _)| *place)
    }

    fn axis(&self) -> Axis {
        let (first, last) = (self.places.first(), self.places.last());
        let is_far =
            first.zip(last).is_some_and(|(first, last)| first.0 > 0.0 && last.0 / first.0 >= 6.0);
        match (self.is_numeric, is_far) {
            (false, _) => Axis::Categories,
            (true, true) => Axis::Log,
            (true, false) => Axis::Linear,
        }
    }
}

/// Sentences about the maximum of each panel, the line that has it, and how to read the chart. `places` names the
/// chart's ticks.
fn sentence(chart: &Chart, unit: Unit, places: &[String]) -> String {
    let mut sentences: Vec<_> =
        chart.panels.iter().filter_map(|panel| highest(chart, panel, unit, places)).collect();
    let has_spread = |point: &Point| point.high - point.low > SPREAD_MIN * point.y;
    if chart.series().any(|series| series.style != LIMIT && series.points.iter().any(has_spread)) {
        sentences.push("Values are means; whiskers show the range.".to_owned());
    }
    if chart.series().any(|series| series.style == LIMIT) {
        sentences.push(
            "The dashed grey line is the limit of the medium for the same processes.".to_owned(),
        );
    }
    sentences.join(" ")
}

fn highest(chart: &Chart, panel: &Panel, unit: Unit, places: &[String]) -> Option<String> {
    let measured = panel.series.iter().filter(|series| series.style != LIMIT);
    let points = measured.flat_map(|series| series.points.iter().map(move |point| (series, point)));
    let (series, best) = points.max_by(|one, other| one.1.y.total_cmp(&other.1.y))?;
    let name = |point: &Point| {
        let index = chart.ticks.iter().position(|(place, _)| *place == point.x);
        index.and_then(|index| places.get(index)).map_or("", String::as_str)
    };
    let (value, title) = (short(best.y), capital(&panel.title));
    let at = format!("{title}: highest {value} {} ({}, {})", unit.name, series.label, name(best));
    let (first, last) = (series.points.first()?, series.points.last()?);
    if chart.axis == Axis::Categories || first.x == last.x || first.y <= 0.0 {
        return Some(format!("{at}."));
    }
    let times = last.y / first.y;
    Some(format!("{at}; {times:.2} times as much at {} as at {}.", name(last), name(first)))
}
