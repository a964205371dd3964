//! Measurements by phase, system and iteration.
use super::FileSystem;
use crate::host::Host;
use crate::measure::{Measured, Tally};
use crate::metrics::Statistics;
use crate::report::{Report, Run, RunName, Settings};
use esker_cli::units::{per_second, rounded};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// One phase of one iteration on one system.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Number of the iteration, from 1.
    pub iteration: u32,
    /// All processes, from the first start to the last end.
    pub tally: Tally,
    /// For transfers: times of open, transfers and close in seconds.
    pub parts: Option<[f64; 3]>,
}

impl Sample {
    /// A phase that has one part.
    pub(in crate::plan) fn from_rounds(iteration: u32, rounds: &[Vec<Measured>]) -> Self {
        let all = rounds.concat();
        let mut tally = Tally::default();
        tally.add_round(&all);
        Self { iteration, tally, parts: None }
    }

    /// The rate: MiB per second for transfers, else operations per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        match self.parts {
            Some(_) => self.tally.bandwidth_mib_s(),
            None => self.tally.ops_per_s(),
        }
    }
}

/// One phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Name in tables.
    pub title: String,
    /// Name in reports.
    pub phase: String,
    /// By system, then by iteration.
    pub samples: Vec<Vec<Sample>>,
}

impl Line {
    pub(in crate::plan) fn new(title: &str, phase: &str, systems: usize) -> Self {
        Self {
            title: title.to_owned(),
            phase: phase.to_owned(),
            samples: vec![Vec::new(); systems],
        }
    }

    pub(in crate::plan) fn rates(&self, system: usize) -> Vec<f64> {
        self.samples.get(system).into_iter().flatten().map(Sample::rate).collect()
    }

    /// Median rate of a system.
    #[must_use]
    pub fn median(&self, system: usize) -> f64 {
        Statistics::median(&self.rates(system))
    }

    /// Ratio of one system to another: the median of the ratios of the iterations, so that changes between iterations
    /// affect both. None if there is nothing to compare.
    #[must_use]
    pub fn ratio(&self, system: usize, other: usize) -> Option<f64> {
        let ratios = self.ratios(system, other);
        (!ratios.is_empty()).then(|| Statistics::median(&ratios))
    }

    fn ratios(&self, system: usize, other: usize) -> Vec<f64> {
        let (rates, others) = (self.rates(system), self.rates(other));
        let pairs = rates.iter().zip(&others).filter(|(_, other)| **other > 0.0);
        pairs.map(|(rate, other)| rate / other).collect()
    }

    /// Median, least and most of the ratios of the iterations.
    pub(in crate::plan) fn spread(&self, system: usize, other: usize) -> [Option<f64>; 3] {
        let ratios = self.ratios(system, other);
        let least = ratios.iter().copied().reduce(f64::min);
        [self.ratio(system, other), least, ratios.iter().copied().reduce(f64::max)]
    }

    /// The run of a system, with its iterations; `names` are those of all systems.
    pub(in crate::plan) fn run<'n>(
        &self,
        name: &RunName<'_>,
        names: impl Fn(usize) -> &'n str,
        system: usize,
        limit: Option<&Tally>,
    ) -> Run {
        let samples = self.samples.get(system).into_iter().flatten();
        let is_transfer = samples.clone().any(|one| one.parts.is_some());
        let others = (0..self.samples.len()).filter(|other| *other != system);
        let ratio = |other| Some((names(other).to_owned(), rounded(self.ratio(system, other)?)));
        let repeated = Repeated {
            unit: if is_transfer { "MiB/s" } else { "ops/s" }.to_owned(),
            rate: Statistics::rounded(&self.rates(system)),
            ratio_to: others.filter_map(ratio).collect(),
            repeats: samples.map(Repeat::from).collect(),
            server_nodes: None,
        };
        Run { repeated: Some(Box::new(repeated)), ..Run::new(name, &self.tally(system), limit) }
    }

    /// All iterations of a system.
    #[must_use]
    pub fn tally(&self, system: usize) -> Tally {
        let mut all = Tally::default();
        for sample in self.samples.get(system).into_iter().flatten() {
            all.ops += sample.tally.ops;
            all.bytes += sample.tally.bytes;
            all.seconds += sample.tally.seconds;
            all.latency.merge(&sample.tally.latency);
        }
        all
    }
}

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

/// Further members of a [`Run`] of `mdtest` or `ior`. Members that a file lacks are empty, except `rate`: a run without it
/// has none of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repeated {
    /// `ops/s` or `MiB/s`.
    #[serde(default)]
    pub unit: String,
    /// Statistics over the iterations.
    pub rate: Statistics,
    /// Ratio of this system to each other one: the median of the ratios of the iterations.
    #[serde(default)]
    pub ratio_to: BTreeMap<String, f64>,
    /// Each iteration.
    #[serde(default)]
    pub repeats: Vec<Repeat>,
    /// Nodes of a pool over nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_nodes: Option<u32>,
}

/// One iteration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repeat {
    /// Number of the iteration, from 1.
    pub repeat: u32,
    /// Rate in `unit`.
    pub rate: f64,
    /// Operations of all processes.
    pub ops: u64,
    /// From the first start to the last end.
    pub seconds: f64,
    /// For transfers: times of open, transfers and close in seconds.
    pub parts_s: Option<[f64; 3]>,
}

impl Outcome {
    /// One run for each phase and system.
    #[must_use]
    pub fn report(&self) -> Report {
        let systems = 0..self.systems.len();
        let pairs =
            self.lines.iter().flat_map(|line| systems.clone().map(move |system| (line, system)));
        let measured = pairs.filter(|(line, system)| !line.rates(*system).is_empty());
        let runs = measured.map(|(line, system)| self.run(line, system)).collect();
        Report::new(self.host.clone(), self.settings.clone(), runs)
    }

    /// The report of several pools, which differ in their numbers of nodes.
    #[must_use]
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

    fn run(&self, line: &Line, system: usize) -> Run {
        let name = RunName {
            store: &self.systems[system].name,
            workload: self.workload,
            phase: &line.phase,
            procs: self.procs,
            size_bytes: self.size_bytes,
        };
        line.run(&name, |system| &self.systems[system].name, system, None)
    }
}

impl From<&Sample> for Repeat {
    fn from(sample: &Sample) -> Self {
        Self {
            repeat: sample.iteration,
            rate: rounded(sample.rate()),
            ops: sample.tally.ops,
            seconds: sample.tally.seconds,
            parts_s: sample.parts,
        }
    }
}

/// Mean latency of an operation in seconds: the time of all processes over all operations.
pub(super) fn mean_latency_s(sample: &Sample, procs: u32) -> f64 {
    let transfer_s = sample.parts.map_or(sample.tally.seconds, |parts| parts[1]);
    let rate = per_second(sample.tally.ops as f64, transfer_s);
    per_second(f64::from(procs), rate)
}
