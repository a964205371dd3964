//! Charts of bandwidth against the members in which runs differ.
use crate::plots::chart::{Axis, Chart, Point, Series};
use crate::plots::results::Results;
use crate::plots::style::LIMIT;
use crate::plots::{Figure, Figures, grouped_by};
use crate::report::Run;
use esker_cli::units::Bytes;
use esker_types::{Error, ErrorKind, Result};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A kind of chart: its horizontal axis, and how runs are grouped. `over`, `needs`, `apart` and `series` are names of
/// [`Sample::texts`], separated by spaces. `sweeps.json` has all kinds.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Sweep {
    /// Name for ids.
    pub(crate) stem: String,
    title: String,
    x_label: String,
    over: String,
    /// One of these must differ, else the chart would show nothing.
    #[serde(default)]
    needs: String,
    /// Runs that differ in one of these go to separate charts.
    #[serde(default)]
    apart: String,
    /// Runs that differ in one of these go to separate series.
    series: String,
    /// Includes the sum of phases that run at the same time.
    #[serde(default)]
    with_sums: bool,
    /// At each place the best value counts, as the papers count the best number of processes. There is no limit: that of
    /// one medium does not bound several nodes.
    #[serde(default)]
    best: bool,
}

/// All kinds of charts, in the order of the papers, and at last that of files in which nothing varies.
pub(crate) fn sweeps() -> Result<Vec<Sweep>> {
    serde_json::from_str(include_str!("sweeps.json"))
        .map_err(|error| Error::new(ErrorKind::Invalid, format!("the kinds of charts: {error}")))
}

/// The chart of pools over more and more nodes.
pub(crate) const SCALING: &str = "scaling";
/// The chart of file systems in such pools.
pub(crate) const FILES: &str = "files";

/// The chart of files in which nothing varies.
pub(crate) const OVERVIEW: &str = "overview";

/// Phase of the sum of a write and a read phase that ran at the same time.
const BOTH: &str = "write + read";
/// Runs of smaller values are drawn in operations per second: they move few bytes however fast they are.
const SMALL_BYTES: u64 = 4096;
/// Whiskers are mentioned where they are at least this share of a value.
const SPREAD_MIN: f64 = 0.02;

/// One measured phase.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    run: Run,
    mib_s: f64,
    /// Lowest and highest bandwidth of the repeats.
    range_mib_s: (f64, f64),
    /// The members of the run by name: `store`, `workload`, `mode`, `procs` and so on. A member that does not apply is
    /// missing.
    texts: BTreeMap<&'static str, String>,
}

/// All measurements of files, with the sums of phases that write and read at the same time.
pub(crate) fn samples(files: &[Results]) -> Vec<Sample> {
    let of_file = |file: &Results| file.runs.iter().filter_map(Sample::from_run).collect();
    let samples: Vec<Vec<_>> = files.iter().map(of_file).collect();
    // Runs are numbered within their file, so each file has sums of its own.
    let sums_of = |samples: &Vec<Sample>| {
        samples.iter().filter_map(|write| write.sum(samples)).collect::<Vec<_>>()
    };
    let sums = samples.iter().flat_map(sums_of).collect();
    [samples.concat(), sums].concat()
}

impl Sample {
    /// The sample of a run. Runs of the medium count only in benchmarks that measure nothing else. Stores that grow have
    /// charts of their own.
    fn from_run(run: &Run) -> Option<Self> {
        if run.entries.is_some() || (run.is_limit() && run.workload != "limit") {
            return None;
        }
        let mib_s = run.bandwidth();
        let range_mib_s = run.spread().map_or((mib_s, mib_s), |spread| (spread.min, spread.max));
        Some(Self { mib_s, range_mib_s, texts: texts(run), run: run.clone() })
    }

    /// True for a phase that moves no bytes, such as a listing. Its speed is its operations per second.
    fn moves_nothing(&self) -> bool {
        self.mib_s == 0.0 && self.run.ops_per_s > 0.0
    }

    /// True if the sample is drawn in operations per second.
    fn is_rate(&self) -> bool {
        self.run.size_bytes < SMALL_BYTES || self.moves_nothing()
    }

    /// In pattern B: the sum of this write phase and the read phase that ran at the same time. `None` for other
    /// samples.
    fn sum(&self, samples: &[Self]) -> Option<Self> {
        let write = &self.run;
        if write.phase != "write" || write.pattern() != Some("B") {
            return None;
        }
        let next = write.number().map(|run| run + 1);
        let is_beside = |other: &&Self| {
            other.run.phase == "read" && other.run.number() == next && other.texts == self.texts
        };
        let read = samples.iter().find(is_beside)?;
        let limits = write.limit_mib_s.zip(read.run.limit_mib_s);
        let run = Run {
            phase: BOTH.to_owned(),
            limit_mib_s: limits.map(|(write, read)| write + read),
            ops_per_s: write.ops_per_s + read.run.ops_per_s,
            ..write.clone()
        };
        let ((low, high), (read_low, read_high)) = (self.range_mib_s, read.range_mib_s);
        let (mib_s, range_mib_s) = (self.mib_s + read.mib_s, (low + read_low, high + read_high));
        Some(Self { run, mib_s, range_mib_s, texts: self.texts.clone() })
    }

    /// The text of property `name` of the run; empty if the run has no such property.
    fn text(&self, name: &str) -> &str {
        self.texts.get(name).map_or("", String::as_str)
    }

    /// Size, number of processes or number of nodes of the run, by the name of the member. `None` for other members, or
    /// if the run has no such number.
    fn number(&self, name: &str) -> Option<f64> {
        match name {
            "size" => Some(self.run.size_bytes as f64),
            "procs" | "nodes" | "server_nodes" => self.text(name).parse().ok(),
            _ => None,
        }
    }

    fn phrases(&self, names: &[&str]) -> String {
        let known = names.iter().filter_map(|name| Some(phrase(name, self.texts.get(name)?)));
        known.collect::<Vec<_>>().join(", ")
    }
}

/// A member as text for titles, labels and sentences.
fn phrase(name: &str, text: &str) -> String {
    let count = |one: &str, many: &str| format!("{text} {}", if text == "1" { one } else { many });
    match name {
        "pattern" => format!("pattern {text}"),
        "contention" => format!("{text} contention"),
        "class_kv" => format!("Key-Values {text}"),
        "class_array" => format!("class {text}"),
        "procs" => count("process", "processes"),
        "procs_per_node" => count("process per node", "processes per node"),
        "nodes" => count("node", "nodes"),
        "server_nodes" => count("node of the pool", "nodes of the pool"),
        "size" if text == Bytes(0).to_string() => "empty files".to_owned(),
        _ => text.to_owned(),
    }
}

/// Properties of a run as text, by name.
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
    /// The unit that suits the samples: operations for small blocks and phases that move no bytes, else bandwidth.
    fn for_samples(samples: &[&Sample]) -> Self {
        let greatest = samples.iter().map(|sample| sample.mib_s).fold(0.0, f64::max);
        let (label, name, factor, is_rate) = match samples.iter().all(|sample| sample.is_rate()) {
            true => ("thousand operations/s", "k/s", 1e-3, true),
            false if greatest >= 1024.0 => ("bandwidth (GiB/s)", "GiB/s", 1.0 / 1024.0, false),
            false => ("bandwidth (MiB/s)", "MiB/s", 1.0, false),
        };
        Self { label, name, factor, is_rate }
    }

    /// Point of a sample at position `x`, with its range, in the unit of the chart.
    fn point(self, sample: &Sample, x: f64) -> Point {
        let value = if self.is_rate { sample.run.ops_per_s } else { sample.mib_s };
        if sample.mib_s == 0.0 {
            return Point::single(x, value * self.factor);
        }
        // The range is known in MiB/s only. It is scaled in the same proportion as the value.
        let scale = value / sample.mib_s * self.factor;
        let (low, high) = sample.range_mib_s;
        Point { x, y: value * self.factor, low: low * scale, high: high * scale }
    }

    /// Rates have no limit: the bandwidth of the medium does not bound the cost of a system call.
    fn limit(self, sample: &Sample, x: f64) -> Option<Point> {
        Some(Point::single(x, sample.run.limit_mib_s.filter(|_| !self.is_rate)? * self.factor))
    }
}

impl Sweep {
    /// Title of the chart that contains this sample.
    fn title(&self, sample: &Sample) -> String {
        let apart: Vec<_> = names(&self.apart).filter(|name| *name != "nodes").collect();
        match sample.phrases(&apart).as_str() {
            "" => self.title.clone(),
            phrases => format!("{}: {phrases}", self.title),
        }
    }

    /// The kind of horizontal axis: logarithmic if numbers are far apart.
    fn axis(&self, samples: &[&Sample]) -> Axis {
        let numbers = samples.iter().map(|sample| sample.number(&self.over));
        let Some(numbers) = numbers.collect::<Option<Vec<_>>>() else { return Axis::Categories };
        let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let is_far = |number: &f64| least > 0.0 && number / least >= 6.0;
        if numbers.iter().any(is_far) { Axis::Log } else { Axis::Linear }
    }

    /// Place of a sample on the horizontal axis, which is labelled there.
    fn place(&self, chart: &mut Chart, sample: &Sample) -> f64 {
        let text = sample.text(&self.over);
        match sample.number(&self.over).filter(|_| chart.axis != Axis::Categories) {
            None => chart.category(text),
            Some(number) => {
                chart.tick(number, text);
                number
            }
        }
    }

    /// The properties that differ among the series, which therefore name a series. If none differs, the first two.
    fn labels(&self, samples: &[&Sample]) -> Vec<&str> {
        let varied: Vec<_> = names(&self.series).filter(|name| varies(samples, name)).collect();
        if varied.is_empty() { names(&self.series).take(2).collect() } else { varied }
    }

    /// Adds the samples to a chart: a panel for each phase, a series for each label.
    fn fill(&self, chart: &mut Chart, samples: &[&Sample], unit: Unit) {
        let labels = self.labels(samples);
        let panel =
            |sample: &Sample| (sample.run.phase.clone(), sample.text(&self.over).to_owned());
        let series = |sample: &Sample| (panel(sample), sample.phrases(&labels));
        for ((_, label), group) in grouped_by(samples.iter().copied(), series) {
            let (first, x) = (group[0], self.place(chart, group[0]));
            let label = if label.is_empty() { "measured" } else { &label };
            let style = chart.style(&first.run.store, label);
            let points = group.iter().map(|sample| unit.point(sample, x)).collect();
            chart.add_styled(&first.run.phase, label, style, self.merged(points));
        }
        for ((phase, _), group) in grouped_by(samples.iter().copied(), panel) {
            let x = self.place(chart, group[0]);
            let limits: Vec<_> = group.iter().filter_map(|sample| unit.limit(sample, x)).collect();
            if !limits.is_empty() && !self.best {
                chart.add_styled(&phase, "limit of the medium", LIMIT, self.merged(limits));
            }
        }
    }

    /// One point for several measurements at the same position: the best one, or their mean with the range of all.
    fn merged(&self, points: Vec<Point>) -> Point {
        let best = points
            .iter()
            .copied()
            .fold(points[0], |one, other| if other.y > one.y { other } else { one });
        match self.best {
            true => best,
            false => Point {
                y: points.iter().map(|point| point.y).sum::<f64>() / points.len() as f64,
                low: points.iter().map(|point| point.low).fold(f64::INFINITY, f64::min),
                high: points.iter().map(|point| point.high).fold(0.0, f64::max),
                ..best
            },
        }
    }
}

impl Figures {
    /// The charts of a kind: one for each combination of values that are drawn apart. Charts in which nothing varies
    /// are omitted. Phases that move no bytes are drawn apart from those in MiB/s.
    pub(crate) fn sweep(&mut self, sweep: &Sweep, samples: &[Sample]) -> Result<Vec<Figure>> {
        let is_wanted = |one: &&Sample| {
            one.texts.contains_key(sweep.over.as_str())
                && (sweep.with_sums || one.run.phase != BOTH)
        };
        let apart = |sample: &Sample| {
            names(&sweep.apart).map(|name| sample.text(name).to_owned()).collect::<Vec<_>>()
        };
        let charts = grouped_by(samples.iter().filter(is_wanted), apart).into_iter();
        let charts =
            charts.flat_map(|(_, samples)| match samples.iter().all(|one| one.is_rate()) {
                true => vec![(true, samples)],
                false => grouped_by(samples, Sample::moves_nothing),
            });
        charts.filter_map(|(_, samples)| self.chart(sweep, &samples).transpose()).collect()
    }

    /// Draws the sweep; `None` if there is nothing to compare.
    fn chart(&mut self, sweep: &Sweep, samples: &[&Sample]) -> Result<Option<Figure>> {
        if !sweep.needs.is_empty() && !names(&sweep.needs).any(|name| varies(samples, name)) {
            return Ok(None);
        }
        let (axis, unit) = (sweep.axis(samples), Unit::for_samples(samples));
        let mut chart = Chart::new(&sweep.title(samples[0]), (&sweep.x_label, axis), unit.label);
        sweep.fill(&mut chart, samples, unit);
        let mut sentences = chart.highest(unit.name, |tick| phrase(&sweep.over, tick));
        let is_wide = |point: &Point| point.high - point.low > SPREAD_MIN * point.y;
        let has = |is: &dyn Fn(&Series) -> bool| chart.series.iter().any(is);
        if has(&|series| series.style != LIMIT && series.points.iter().any(is_wide)) {
            sentences.push(
                "Values are means, those of comparisons medians; whiskers show the range."
                    .to_owned(),
            );
        }
        if has(&|series| series.style == LIMIT) {
            let limit = "The dashed grey line is the limit of the medium for the same processes.";
            sentences.push(limit.to_owned());
        }
        let sentence = sentences.join(" ") + &chart.number_long_names();
        self.figure(&sweep.stem, chart, sentence)
    }
}

/// Names in a list that is separated by spaces.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
}

/// True if the samples differ in property `name`.
fn varies(samples: &[&Sample], name: &str) -> bool {
    samples.iter().any(|sample| sample.text(name) != samples[0].text(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::results::tests::results;
    use serde_json::json;

    #[test]
    fn write_and_read_of_one_file_are_added() {
        let file = |write: f64, read: f64| {
            let run = |phase: &str, run: u32, mib_s: f64| json!({"mode": "full", "pattern": "B", "phase": phase, "run": run, "global_timing_bandwidth_mib_s": mib_s});
            results(&[run("write", 1, write), run("read", 2, read)])
        };
        let samples = samples(&[file(100.0, 200.0), file(10.0, 20.0)]);
        let sums = samples.iter().filter(|sample| sample.run.phase == BOTH);
        assert_eq!(sums.map(|sum| sum.mib_s).collect::<Vec<_>>(), [300.0, 30.0]);
    }
}
