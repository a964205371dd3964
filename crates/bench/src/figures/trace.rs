//! Timelines from the traces beside a result file (docs/cli.md describes them).
use super::{Figure, Figures};
use crate::plot::{Lane, Span, SpanSort, Timeline};
use crate::results::{Measurement, Results};
use esker_types::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Most timelines drawn for one file, and most processes in each; the text says where there are more.
const TIMELINES_MAX: usize = 8;
/// Most processes in a timeline.
const LANES_MAX: usize = 48;
/// Most operations of a process that are drawn.
const SPANS_MAX: usize = 20_000;
/// Longest line of a trace that is read.
const LINE_BYTES_MAX: u64 = 4096;
/// Runs of more operations are also shown near their start, where single ones can be seen.
const CROWDED: usize = 150;
/// Operations of each process in that view.
const NEAR: usize = 20;

/// A process in a phase: write before read, then its number and node.
type Process = (SpanSort, u32, String);
/// One repeat of one run: operations of each process.
type Trace = BTreeMap<Process, Vec<Span>>;

/// Where the columns are that a timeline needs.
struct Columns {
    run: usize,
    repeat: usize,
    phase: usize,
    node: usize,
    process: usize,
    event: usize,
    time_ns: usize,
}

impl Figures {
    /// The timelines of a file: the first repeat of its first runs.
    ///
    /// # Errors
    /// Where its traces cannot be read or are no traces; names them.
    pub fn timelines(&mut self, file: &Results) -> Result<Vec<Figure>> {
        let Some(path) = &file.traces else { return Ok(Vec::new()) };
        let pairs = pairs(&file.runs);
        let mut runs: Vec<u32> = pairs.values().copied().collect();
        runs.dedup();
        let drawn = runs.len().min(TIMELINES_MAX);
        let mut figures = Vec::new();
        for (run, trace) in read(path, &runs[..drawn], &pairs)? {
            let same = file.runs.iter().find(|one| one.run == Some(run));
            let Some(measurement) = same else { continue };
            let more = (runs.len() > drawn)
                .then(|| format!(" The first {drawn} of {} runs are drawn.", runs.len()));
            figures.extend(self.of_run(measurement, &trace, &more.unwrap_or_default()));
        }
        Ok(figures)
    }

    /// Phases that follow each other are drawn apart, those that overlap together.
    fn of_run(&mut self, run: &Measurement, trace: &Trace, more: &str) -> Vec<Figure> {
        let of = |sort| move |(process, _): &(&Process, &Vec<Span>)| process.0 == sort;
        let cloned = |(process, spans): (&Process, &Vec<Span>)| (process.clone(), spans.clone());
        let part = |sort| trace.iter().filter(of(sort)).map(cloned).collect::<Trace>();
        let (writes, reads) = (part(SpanSort::Write), part(SpanSort::Read));
        let parts = match end(&writes) <= start(&reads) {
            true => vec![(" (write phase)", writes), (" (read phase)", reads)],
            false => vec![("", trace.clone())],
        };
        let parts = parts.into_iter().filter(|(_, part)| !part.is_empty());
        parts.flat_map(|(name, part)| self.views(run, name, &part, more)).collect()
    }

    /// The whole phase, and its beginning where operations are too many to be seen.
    fn views(&mut self, run: &Measurement, name: &str, trace: &Trace, more: &str) -> Vec<Figure> {
        let begin = start(trace);
        let moved: Trace = trace
            .iter()
            .map(|(process, spans)| {
                (process.clone(), spans.iter().map(|span| later(span, -begin)).collect())
            })
            .collect();
        let most = moved.values().map(Vec::len).max().unwrap_or(0);
        let title = format!("I/O timeline: {}{name}", super::offsets::label(run));
        let mut figures = vec![self.figure(&title, &moved, offsets(&moved), more)];
        if most > CROWDED {
            let near = moved.into_iter().map(|(process, mut spans)| {
                spans.truncate(NEAR);
                (process, spans)
            });
            let title = format!("{title}, first {NEAR} operations of each process");
            figures.push(self.figure(&title, &near.collect(), Vec::new(), more));
        }
        figures
    }

    fn figure(
        &mut self,
        title: &str,
        trace: &Trace,
        offsets: Vec<(String, f64, f64)>,
        more: &str,
    ) -> Figure {
        let nodes = trace.keys().any(|(_, _, node)| trace.keys().any(|other| other.2 != *node));
        let lanes = trace.iter().take(LANES_MAX).map(|((sort, process, node), spans)| Lane {
            label: match nodes {
                true => format!("{} {process} {node}", sort.name()),
                false => format!("{} {process}", sort.name()),
            },
            spans: spans.clone(),
        });
        let timeline = Timeline { title: title.to_owned(), lanes: lanes.collect(), offsets };
        let sentence = sentence(trace, &timeline) + more;
        let id = self.next_id("timeline");
        Figure { id, svg: timeline.svg(), title: timeline.title, sentence }
    }
}

/// Each run with the run whose timeline it is in: reads belong to the writes before them.
fn pairs(runs: &[Measurement]) -> BTreeMap<u32, u32> {
    let mut pairs = BTreeMap::new();
    let mut write: Option<&Measurement> = None;
    for run in runs.iter().filter(|run| !run.is_limit()) {
        let Some(number) = run.run else { continue };
        let as_write = Measurement { phase: "write".to_owned(), ..run.clone() };
        let belongs = write.filter(|write| run.phase == "read" && write.is_like(&as_write));
        pairs.insert(number, belongs.and_then(|write| write.run).unwrap_or(number));
        write = (run.phase == "write").then_some(run);
    }
    pairs
}

fn later(span: &Span, by_s: f64) -> Span {
    Span { start_s: span.start_s + by_s, end_s: span.end_s + by_s, ..*span }
}

fn start(trace: &Trace) -> f64 {
    trace
        .values()
        .filter_map(|spans| spans.first())
        .map(|span| span.start_s)
        .fold(f64::INFINITY, f64::min)
}

fn end(trace: &Trace) -> f64 {
    trace.values().filter_map(|spans| spans.last()).map(|span| span.end_s).fold(0.0, f64::max)
}

/// From the definitions of the paper, of each phase.
fn offsets(trace: &Trace) -> Vec<(String, f64, f64)> {
    let mut offsets = Vec::new();
    for sort in [SpanSort::Write, SpanSort::Read] {
        let spans =
            || trace.iter().filter(move |(process, _)| process.0 == sort).map(|(_, spans)| spans);
        let starts = || spans().filter_map(|spans| spans.first()).map(|span| span.start_s);
        let ends = || spans().filter_map(|spans| spans.last()).map(|span| span.end_s);
        if spans().count() > 1 {
            let (least, greatest) = (f64::INFINITY, 0.0);
            let name = |offset: &str| format!("{offset} {}", sort.name());
            offsets.push((
                name("off_0"),
                starts().fold(least, f64::min),
                starts().fold(greatest, f64::max),
            ));
            offsets.push((
                name("off_f"),
                ends().fold(least, f64::min),
                ends().fold(greatest, f64::max),
            ));
        }
    }
    offsets
}

fn sentence(trace: &Trace, timeline: &Timeline) -> String {
    let spans = trace.values().map(Vec::len).sum::<usize>();
    let processes = if trace.len() == 1 { "process" } else { "processes" };
    let mut text = format!(
        "One line for each process: {spans} operations of {} {processes}; high boxes write, low boxes read.",
        trace.len()
    );
    if !timeline.offsets.is_empty() {
        text.push_str(
            " Grey bars are the spans of off_0 and off_f, outside of which all processes are busy.",
        );
    }
    if trace.len() > LANES_MAX {
        text.push_str(&format!(" The first {LANES_MAX} are drawn."));
    }
    text
}

/// The first repeat of these runs.
fn read(path: &Path, runs: &[u32], pairs: &BTreeMap<u32, u32>) -> Result<BTreeMap<u32, Trace>> {
    let failed = |error| Error::io(format!("reading {}", path.display()), &error);
    let mut lines = BufReader::new(File::open(path).map_err(failed)?);
    let mut columns = None;
    let mut reader = Reader::new(runs, pairs);
    let mut line = String::new();
    for number in 1.. {
        line.clear();
        if lines.by_ref().take(LINE_BYTES_MAX).read_line(&mut line).map_err(failed)? == 0 {
            break;
        }
        let read = match &columns {
            _ if line.starts_with('#') => skip_rest(&mut lines, &line).map_err(failed).map(Some),
            None => {
                columns = Columns::of(&line);
                Ok(columns.as_ref().map(|_| ()))
            }
            Some(columns) => Ok(reader.take(columns, line.trim_end())),
        };
        if read?.is_none() {
            return Err(no_trace(path, number));
        }
    }
    Ok(reader.traces)
}

/// Comments may be of any length.
fn skip_rest(lines: &mut impl BufRead, line: &str) -> std::io::Result<()> {
    if line.ends_with('\n') { Ok(()) } else { lines.skip_until(b'\n').map(|_| ()) }
}

#[cold]
fn no_trace(path: &Path, line: u64) -> Error {
    let name = path.display();
    let message = format!(
        "{name}, line {line}, is no trace of `esker bench`: write it again with --traces, or move it away"
    );
    Error::new(ErrorKind::Invalid, message)
}

impl Columns {
    fn of(line: &str) -> Option<Self> {
        let names: Vec<_> = line.trim_end().split(',').collect();
        let at = |name: &str| names.iter().position(|found| *found == name);
        Some(Self {
            run: at("run")?,
            repeat: at("repeat")?,
            phase: at("phase")?,
            node: at("node")?,
            process: at("process")?,
            event: at("event")?,
            time_ns: at("time_ns")?,
        })
    }
}

/// Puts events together to operations.
struct Reader<'r> {
    runs: &'r [u32],
    pairs: &'r BTreeMap<u32, u32>,
    repeats: BTreeMap<u32, u32>,
    traces: BTreeMap<u32, Trace>,
    started_s: f64,
}

impl<'r> Reader<'r> {
    fn new(runs: &'r [u32], pairs: &'r BTreeMap<u32, u32>) -> Self {
        Self { runs, pairs, repeats: BTreeMap::new(), traces: BTreeMap::new(), started_s: 0.0 }
    }

    /// One line; nothing where it is not like the others. Events of a process are in order.
    fn take(&mut self, columns: &Columns, line: &str) -> Option<()> {
        let cells: Vec<_> = line.split(',').collect();
        let cell = |index: usize| cells.get(index).copied();
        let number = cell(columns.run)?.parse().ok()?;
        let run = self.pairs.get(&number).copied().unwrap_or(number);
        let repeat = cell(columns.repeat)?.parse().ok()?;
        let time_s = cell(columns.time_ns)?.parse::<f64>().ok()? / 1e9;
        let process = cell(columns.process)?.parse().ok()?;
        let sort = match cell(columns.phase)? {
            "write" => SpanSort::Write,
            "read" => SpanSort::Read,
            _ => return None,
        };
        if !self.runs.contains(&run) || *self.repeats.entry(run).or_insert(repeat) != repeat {
            return Some(());
        }
        match cell(columns.event)? {
            "io_start" => self.started_s = time_s,
            "io_end" => {
                let trace = self.traces.entry(run).or_default();
                let spans =
                    trace.entry((sort, process, cell(columns.node)?.to_owned())).or_default();
                if spans.len() < SPANS_MAX {
                    spans.push(Span { sort, start_s: self.started_s, end_s: time_s });
                }
            }
            _ => {}
        }
        Some(())
    }
}
