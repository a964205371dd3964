//! The measurements of one call of mdtest or ior, and their tables, with columns for the other file systems.
use super::{FileSystem, Line, Sample};
use crate::host::Host;
use crate::metrics::Statistics;
use crate::report::{Report, RunName, Settings};
use crate::table::{Table, new_table};
use esker_cli::units::per_second;
use serde_json::json;
use std::fmt;

/// All measurements of one benchmark.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// `mdtest` or `ior`.
    pub workload: &'static str,
    /// Processes at once.
    pub procs: u32,
    /// Bytes of an operation.
    pub size_bytes: u64,
    /// The file systems; the first is the one under test.
    pub systems: Vec<FileSystem>,
    /// File systems and programs that were not found.
    pub missing: Vec<String>,
    /// The machine.
    pub host: Host,
    /// Settings of the measurement.
    pub settings: Settings,
    /// The phases, in the order of the table.
    pub lines: Vec<Line>,
    /// Notes below the table.
    pub notes: Vec<String>,
}

/// Decimals in the summaries of mdtest and ior.
const MDTEST_DECIMALS: usize = 3;
const IOR_DECIMALS: usize = 2;

impl Outcome {
    /// The report of this call, with one run for each phase and file system. A run has no limit: the file systems are
    /// compared with each other, not with their medium.
    pub fn report(&self) -> Report {
        let system_names: Vec<_> = self.systems.iter().map(|system| system.name.as_str()).collect();
        let Self { workload, procs, size_bytes, .. } = *self;
        let runs = self.lines.iter().flat_map(|line| {
            // `runs` fills in the store: the name of the system.
            let run_name = RunName { store: "", workload, phase: &line.phase, procs, size_bytes };
            line.runs(&system_names, &run_name, None)
        });
        Report::new(self.host.clone(), self.settings.clone(), runs.collect())
    }

    /// The report of several pools, which differ in their numbers of nodes.
    pub fn report_of_nodes(outcomes: &[(Option<u32>, Self)]) -> Option<Report> {
        let reports = outcomes.iter().map(|(nodes, outcome)| {
            let mut report = outcome.report();
            let first = outcome.systems.first().map_or("", |system| &system.name);
            for run in report.runs.iter_mut().filter(|run| run.store == first) {
                run.repeated.iter_mut().for_each(|repeated| repeated.server_nodes = *nodes);
            }
            report
        });
        let starts = outcomes.iter().filter_map(|(nodes, outcome)| {
            Some(json!({"nodes": nodes, "seconds": outcome.settings.options.get("start_s")?}))
        });
        let starts: Vec<_> = starts.collect();
        let mut all = reports.reduce(|mut all, report| {
            all.runs.extend(report.runs);
            all
        })?;
        if !starts.is_empty() {
            all.settings.options.insert("start_s".to_owned(), json!(starts));
        }
        Some(all)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print_head(f)?;
        match self.is_transfer() {
            true => self.print_transfers(f)?,
            false => self.print_operations(f)?,
        }
        self.notes.iter().try_for_each(|note| write!(f, "\n{note}"))
    }
}

impl Outcome {
    /// Writes the machine, the systems that were measured, and those that are missing.
    pub(super) fn print_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.host)?;
        for system in &self.systems {
            writeln!(f, "{:<8}{}", system.name, system.about)?;
        }
        self.missing.iter().try_for_each(|missing| writeln!(f, "        {missing}"))
    }

    fn is_transfer(&self) -> bool {
        let mut samples = self.lines.iter().flat_map(|line| &line.samples).flatten();
        samples.any(|sample| sample.parts.is_some())
    }

    fn iterations(&self) -> usize {
        self.lines.iter().map(|line| line.rates(0).len()).max().unwrap_or(0)
    }

    /// Prints the results as mdtest does.
    fn print_operations(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The most operations of a phase, in the first iteration on the system under test.
        let samples = self.lines.iter().flat_map(|line| line.samples.first()?.first());
        let ops = samples.map(|sample| sample.tally.ops).max().unwrap_or(0);
        writeln!(f, "{} processes, {ops} files/directories\n", self.procs)?;
        let (subject, iterations) = (self.subject(), self.iterations());
        writeln!(f, "SUMMARY rate (in ops/sec): {subject} ({iterations} iterations)")?;
        write!(f, "{}\n{OTHER_SYSTEMS_NOTE}", self.summary(MDTEST_DECIMALS).text())
    }

    /// Prints the results as ior does.
    fn print_transfers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} processes\n", self.procs)?;
        writeln!(f, "{}\n", self.results().text())?;
        writeln!(f, "Summary (MiB/s): {} ({} iterations)", self.subject(), self.iterations())?;
        write!(f, "{}\n{OTHER_SYSTEMS_NOTE}", self.summary(IOR_DECIMALS).text())
    }

    fn subject(&self) -> &str {
        self.systems.first().map_or("", |system| &system.name)
    }

    /// Table with a row for each operation: statistics of the first system, then for each other system its median and
    /// the ratio of the first system to it.
    fn summary(&self, decimals: usize) -> Table {
        let others = self.systems.iter().skip(1);
        let others: String =
            others.map(|FileSystem { name, .. }| format!("|>{name}|>x {name}")).collect();
        let mut table = new_table(&format!("Operation|>Max|>Min|>Mean|>Std Dev|>Median{others}"));
        for line in self.lines.iter().filter(|line| !line.rates(0).is_empty()) {
            table.row(summary_row(line, decimals));
        }
        table
    }

    /// Table of each iteration.
    fn results(&self) -> Table {
        let mut table = new_table(
            "access|on|>bw(MiB/s)|>IOPS|>Latency(s)|>block(KiB)|>xfer(KiB)|>open(s)|>wr/rd(s)|>close(s)|>total(s)|>iter",
        );
        for number in 0..self.iterations() {
            for line in &self.lines {
                for (system, samples) in self.systems.iter().zip(&line.samples) {
                    if let Some(sample) = samples.get(number) {
                        table.row(self.result(line, &system.name, sample));
                    }
                }
            }
        }
        table
    }

    /// Mean latency of an operation: the time of all processes over all operations.
    fn latency_s(&self, sample: &Sample) -> f64 {
        let transfer_s = sample.parts.map_or(sample.tally.seconds, |parts| parts[1]);
        per_second(f64::from(self.procs), per_second(sample.tally.ops as f64, transfer_s))
    }

    /// A row of [`Self::results`].
    fn result(&self, line: &Line, on: &str, sample: &Sample) -> [String; 12] {
        let [open, moved, close] = sample.parts.unwrap_or_default();
        let kib = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
        let block = self.settings.options.get("block_bytes").and_then(serde_json::Value::as_u64);
        [
            line.title.clone(),
            on.to_owned(),
            format!("{:.2}", sample.rate()),
            format!("{:.2}", per_second(sample.tally.ops as f64, moved)),
            format!("{:.9}", self.latency_s(sample)),
            kib(block.unwrap_or(0)),
            kib(self.size_bytes),
            format!("{open:.6}"),
            format!("{moved:.6}"),
            format!("{close:.6}"),
            format!("{:.6}", sample.tally.seconds),
            (sample.iteration - 1).to_string(),
        ]
    }
}

/// Note below the summary: meaning of the columns of the other file systems.
const OTHER_SYSTEMS_NOTE: &str = "\
Further columns: medians of the same work on the other file systems, alternating with the first, and ratios of the \
first to them (medians of the ratios of the iterations).";

/// A row of the summary.
fn summary_row(line: &Line, decimals: usize) -> Vec<String> {
    let rates = Statistics::rounded(&line.rates(0));
    let number = |value: f64| format!("{value:.decimals$}");
    let mut row = vec![line.title.clone()];
    row.extend([rates.max, rates.min, rates.mean, rates.stddev, rates.median].map(number));
    for system in 1..line.samples.len() {
        let ratio = line.ratio(0, system).map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        row.extend([number(line.median(system)), ratio]);
    }
    row
}
