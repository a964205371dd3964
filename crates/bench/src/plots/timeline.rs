//! Timelines: a row for each process and a box for each operation, from the traces beside a report (docs/cli.md
//! describes the file).
use crate::plots::chart::{Axis, Chart, Point};
use crate::plots::draw::{Area, Drawn, Scale, TEXT, WIDTH, svg, text_style};
use crate::plots::results::Results;
use crate::plots::style::{COLOURS, GREY};
use crate::plots::words::short;
use crate::plots::{Figure, Figures};
use crate::report::Run;
use crate::traces::Kind;
use csv::{Reader, ReaderBuilder, StringRecord};
use esker_types::{Error, ErrorKind, Result};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

/// Maximum number of timelines of one file.
const TIMELINES_MAX: usize = 8;
/// Most processes in a timeline.
const LANES_MAX: usize = 48;
/// Maximum number of operations of a process that are drawn.
const SPANS_MAX: usize = 20_000;
/// A run with more operations per process gets a second chart of its beginning, which shows single operations.
const CROWDED: usize = 150;
/// Operations of each process in that view.
const NEAR: usize = 20;
/// Operations narrower than this in pixels are drawn as one box with the next.
const NARROW: f64 = 1.2;

const LEFT: u32 = 130;
const RIGHT: u32 = 20;
const KEY_HEIGHT: u32 = 30;
const ROW: u32 = 20;
const AXIS_HEIGHT: u32 = 46;

impl Kind {
    fn colour(self) -> RGBColor {
        COLOURS[self as usize]
    }

    /// Bottom and top of its box in a row of height 1. Boxes of reads are lower, so that both differ without colours
    /// too.
    fn heights(self) -> (f64, f64) {
        match self {
            Self::Write => (0.17, 0.83),
            Self::Read => (0.33, 0.67),
        }
    }
}

/// One operation, in seconds from the start of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Span {
    start_s: f64,
    end_s: f64,
}

/// A process in a phase: its kind of operation, its number, and its node.
type Process = (Kind, u32, String);
/// The operations of each process in one repeat of one run.
type Trace = BTreeMap<Process, Vec<Span>>;

/// One event of the CSV file.
#[derive(Deserialize)]
struct Event<'e> {
    run: u32,
    repeat: u32,
    phase: Kind,
    node: &'e str,
    process: u32,
    event: &'e str,
    time_ns: u64,
}

impl Figures {
    /// The timelines of a file: the first repeat of its first runs.
    pub(crate) fn timelines(&mut self, file: &Results) -> Result<Vec<Figure>> {
        let Some(path) = &file.traces else { return Ok(Vec::new()) };
        let pairs = pairs(&file.runs);
        let mut runs: Vec<u32> = pairs.values().copied().collect();
        runs.dedup();
        let drawn = runs.len().min(TIMELINES_MAX);
        let more = match runs.len() > drawn {
            true => format!(" The first {drawn} of {} runs are drawn.", runs.len()),
            false => String::new(),
        };
        let mut figures = Vec::new();
        for (run, trace) in read(path, &runs[..drawn], &pairs)? {
            let run = file.runs.iter().find(|one| one.number() == Some(run));
            let label = run.map_or(String::new(), Run::label);
            for (name, part) in parts(trace) {
                figures.extend(self.views(&format!("I/O timeline: {label}{name}"), part, &more)?);
            }
        }
        Ok(figures)
    }

    /// A figure of the whole phase. If a process has more than [`CROWDED`] operations, which are too many to see each,
    /// a second figure shows the first [`NEAR`] of each process.
    fn views(&mut self, title: &str, mut trace: Trace, more: &str) -> Result<Vec<Figure>> {
        let begin = start(&trace);
        for span in trace.values_mut().flatten() {
            (span.start_s, span.end_s) = (span.start_s - begin, span.end_s - begin);
        }
        let mut figures = vec![self.timeline(title, &trace, &offsets(&trace), more)?];
        if trace.values().any(|spans| spans.len() > CROWDED) {
            trace.values_mut().for_each(|spans| spans.truncate(NEAR));
            let title = format!("{title}, first {NEAR} operations of each process");
            figures.push(self.timeline(&title, &trace, &[], more)?);
        }
        Ok(figures)
    }

    /// Draws the operations of all processes over time.
    fn timeline(
        &mut self,
        title: &str,
        trace: &Trace,
        offsets: &[Offset],
        more: &str,
    ) -> Result<Figure> {
        let rows = offsets.len() + trace.len().min(LANES_MAX);
        let height = KEY_HEIGHT + rows as u32 * ROW + AXIS_HEIGHT;
        Ok(Figure {
            id: self.next_id("timeline"),
            title: title.to_owned(),
            svg: svg(title, height + 30, |area| draw(area, trace, offsets))?,
            sentence: sentence(trace, offsets) + more,
        })
    }
}

/// Each run with the run whose timeline it is in: reads belong to the writes before them.
fn pairs(runs: &[Run]) -> BTreeMap<u32, u32> {
    let mut pairs = BTreeMap::new();
    let mut write: Option<&Run> = None;
    for run in runs.iter().filter(|run| !run.is_limit()) {
        let Some(number) = run.number() else { continue };
        let belongs = write.filter(|write| run.phase == "read" && write.label() == run.label());
        pairs.insert(number, belongs.and_then(|write| write.number()).unwrap_or(number));
        write = (run.phase == "write").then_some(run);
    }
    pairs
}

/// Divides a timeline into one for the writes and one for the reads, each with the end of its title. Phases that
/// overlap stay in one.
fn parts(trace: Trace) -> Vec<(&'static str, Trace)> {
    let (writes, reads): (Trace, Trace) =
        trace.clone().into_iter().partition(|((kind, ..), _)| *kind == Kind::Write);
    let end =
        writes.values().filter_map(|spans| spans.last()).map(|span| span.end_s).fold(0.0, f64::max);
    let parts = match end <= start(&reads) {
        true => vec![(" (write phase)", writes), (" (read phase)", reads)],
        false => vec![("", trace)],
    };
    parts.into_iter().filter(|(_, part)| !part.is_empty()).collect()
}

/// Start of the first operation in seconds; infinity if there is none.
fn start(trace: &Trace) -> f64 {
    let starts = trace.values().filter_map(|spans| spans.first()).map(|span| span.start_s);
    starts.fold(f64::INFINITY, f64::min)
}

/// A time interval to highlight: its name, start and end in seconds.
type Offset = (String, f64, f64);

/// `off_0` and `off_f` of each phase, as the papers define them.
fn offsets(trace: &Trace) -> Vec<Offset> {
    let mut offsets = Vec::new();
    for kind in [Kind::Write, Kind::Read] {
        let processes = trace.iter().filter(|((of, ..), _)| *of == kind);
        let ends: Vec<_> = processes
            .filter_map(|(_, spans)| Some((spans.first()?.start_s, spans.last()?.end_s)))
            .collect();
        if ends.len() > 1 {
            let range = |of: fn(&(f64, f64)) -> f64| {
                let times = || ends.iter().map(of);
                (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max))
            };
            for (name, (from, to)) in
                [("off_0", range(|ends| ends.0)), ("off_f", range(|ends| ends.1))]
            {
                offsets.push((format!("{name} {}", kind.name()), from, to));
            }
        }
    }
    offsets
}

/// The sentences below a timeline.
fn sentence(trace: &Trace, offsets: &[Offset]) -> String {
    let spans = trace.values().map(Vec::len).sum::<usize>();
    let processes = if trace.len() == 1 { "process" } else { "processes" };
    let mut text = format!(
        "One row for each process: {spans} operations of {} {processes}; high boxes write, low boxes read.",
        trace.len()
    );
    if !offsets.is_empty() {
        text.push_str(
            " Grey bars are the spans of off_0 and off_f; outside of them all processes are busy.",
        );
    }
    if trace.len() > LANES_MAX {
        text.push_str(&format!(" The first {LANES_MAX} are drawn."));
    }
    text
}

/// Draws the legend, which says which boxes write and which read.
fn draw_keys(keys: &Area<'_>) -> Drawn {
    for (kind, x) in [(Kind::Write, 12), (Kind::Read, 110)] {
        let half = if kind == Kind::Write { 7 } else { 4 };
        keys.draw(&Rectangle::new([(x, 12 - half), (x + 26, 12 + half)], kind.colour().filled()))?;
        let style = text_style(TEXT).pos(Pos::new(HPos::Left, VPos::Center));
        keys.draw(&Text::new(kind.name(), (x + 34, 12), style))?;
    }
    Ok(())
}

/// Offsets in the upper rows, then the processes.
fn draw(area: &Area<'_>, trace: &Trace, offsets: &[Offset]) -> Drawn {
    let (keys, area) = area.split_vertically(KEY_HEIGHT);
    draw_keys(&keys)?;
    let lanes: Vec<_> = trace.iter().take(LANES_MAX).collect();
    let rows = offsets.len() + lanes.len();
    let ends = lanes.iter().flat_map(|(_, spans)| spans.iter().map(|span| span.end_s));
    let end_s = ends.fold(1e-9, f64::max);
    let (unit, factor) = if end_s < 1.0 { ("ms", 1e3) } else { ("s", 1.0) };
    let labels: Vec<_> = offsets
        .iter()
        .map(|(name, ..)| name.clone())
        .chain(lanes.iter().map(|(one, _)| label(one, trace)))
        .collect();
    let name = |y: &f64| labels.get((rows as f64 - y) as usize).cloned().unwrap_or_default();
    let middles = (0..rows).map(|row| row as f64 + 0.5).collect();
    let mut plane = ChartBuilder::on(&area)
        .margin_right(RIGHT)
        .x_label_area_size(AXIS_HEIGHT)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(
            0.0..end_s * factor,
            Scale { range: 0.0..rows as f64, ticks: middles, is_log: false },
        )?;
    plane
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(10)
        .label_style(text_style(TEXT))
        .axis_desc_style(text_style(TEXT))
        .x_desc(format!("time since the first operation began ({unit})"))
        .x_label_formatter(&|time| short(*time))
        .y_label_formatter(&name)
        .draw()?;
    let box_of = |row: usize,
                  (from, to): (f64, f64),
                  (bottom, top): (f64, f64),
                  colour: RGBColor| {
        let base = (rows - 1 - row) as f64;
        Rectangle::new([(from * factor, base + bottom), (to * factor, base + top)], colour.filled())
    };
    let pixel_s = end_s / f64::from(WIDTH - LEFT - RIGHT);
    for (row, (_, from, to)) in offsets.iter().enumerate() {
        let to = to.max(from + pixel_s);
        plane.draw_series([box_of(row, (*from, to), (0.35, 0.65), GREY)])?;
        let side = |x: f64| [(x * factor, (rows - row) as f64 - 0.5), (x * factor, 0.0)];
        plane.draw_series([*from, to].map(|x| DashedPathElement::new(side(x), 2, 3, GREY)))?;
    }
    for (row, ((kind, ..), spans)) in lanes.iter().enumerate() {
        let boxes = boxes(spans, NARROW * pixel_s).into_iter();
        let drawn = boxes.map(|one| {
            let to = one.end_s.max(one.start_s + pixel_s / 2.0);
            box_of(offsets.len() + row, (one.start_s, to), kind.heights(), kind.colour())
        });
        plane.draw_series(drawn)?;
    }
    Ok(())
}

/// Label of the row of a process. It names the node if there are several.
fn label((kind, process, node): &Process, trace: &Trace) -> String {
    match trace.keys().any(|(_, _, other)| other != node) {
        true => format!("{} {process} {node}", kind.name()),
        false => format!("{} {process}", kind.name()),
    }
}

/// Joins a box shorter than `narrow_s` seconds with the next operation, unless a pause of that length is between them.
fn boxes(spans: &[Span], narrow_s: f64) -> Vec<Span> {
    let mut boxes: Vec<Span> = Vec::new();
    for span in spans {
        match boxes.last_mut() {
            Some(last)
                if last.end_s - last.start_s < narrow_s && span.start_s - last.end_s < narrow_s =>
            {
                last.end_s = span.end_s.max(last.end_s);
            }
            _ => boxes.push(*span),
        }
    }
    boxes
}

/// Reads a file of traces. Returns the trace of the first repeat of each of these runs.
fn read(path: &Path, runs: &[u32], pairs: &BTreeMap<u32, u32>) -> Result<BTreeMap<u32, Trace>> {
    let failed = |error| Error::io(format!("reading {}", path.display()), &error);
    let mut reader =
        ReaderBuilder::new().comment(Some(b'#')).from_reader(File::open(path).map_err(failed)?);
    collect(&mut reader, runs, pairs).map_err(|error| not_a_trace_error(path, &error))
}

/// Puts the events of each process, which are in order, together to operations.
fn collect(
    reader: &mut Reader<File>,
    runs: &[u32],
    pairs: &BTreeMap<u32, u32>,
) -> csv::Result<BTreeMap<u32, Trace>> {
    let headers = reader.headers()?.clone();
    let (mut traces, mut repeats) = (BTreeMap::<u32, Trace>::new(), BTreeMap::new());
    let (mut record, mut start_s) = (StringRecord::new(), 0.0);
    while reader.read_record(&mut record)? {
        let event: Event<'_> = record.deserialize(Some(&headers))?;
        let run = pairs.get(&event.run).copied().unwrap_or(event.run);
        if !runs.contains(&run) || *repeats.entry(run).or_insert(event.repeat) != event.repeat {
            continue;
        }
        let time_s = event.time_ns as f64 / 1e9;
        match event.event {
            "io_start" => start_s = time_s,
            "io_end" => {
                let process = (event.phase, event.process, event.node.to_owned());
                let spans = traces.entry(run).or_default().entry(process).or_default();
                if spans.len() < SPANS_MAX {
                    spans.push(Span { start_s, end_s: time_s });
                }
            }
            _ => {}
        }
    }
    Ok(traces)
}

#[cold]
fn not_a_trace_error(path: &Path, error: &csv::Error) -> Error {
    let line = error.position().map_or(1, csv::Position::line);
    let message = format!(
        "{}, line {line}, is not a trace of `esker bench` ({error}): write it again with --traces, or remove it",
        path.display()
    );
    Error::new(ErrorKind::Invalid, message)
}

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

/// The sentence on the longest offsets of processes.
fn longest(chart: &Chart) -> String {
    let greatest = |name: &str| {
        let series = chart.series.iter().filter(|series| series.label.starts_with(name));
        short(series.flat_map(|series| &series.points).map(|point| point.y).fold(0.0, f64::max))
    };
    let (start, end) = (greatest("off_0"), greatest("off_f"));
    format!(
        "Processes began within {start}% of the phase (off_0) and ended within {end}% (off_f) at most."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_operations_are_drawn_together_and_pauses_are_kept() {
        let span = |(start_s, end_s)| Span { start_s, end_s };
        let spans = [(0.0, 10.0), (10.0, 10.5), (10.5, 11.0), (50.0, 50.2)].map(span);
        let drawn: Vec<_> =
            boxes(&spans, NARROW).iter().map(|one| (one.start_s, one.end_s)).collect();
        assert_eq!(drawn, [(0.0, 10.0), (10.0, 11.0), (50.0, 50.2)]);
    }
}
