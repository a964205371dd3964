//! Measurements of several systems that alternate, by phase, system and iteration; their report and text.
use super::Measurement;
use crate::measure::{Measured, Tally};
use crate::metrics::Statistics;
use crate::report::{Report, Run, RunName};
use crate::table::Table;
use esker_cli::units::rounded;
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
    /// The sample of a phase that is not divided into open, transfers and close.
    pub(super) fn new(iteration: u32, round: &[Measured]) -> Self {
        Self { iteration, tally: Tally::of_round(round), parts: None }
    }

    /// The rate: MiB per second for transfers, else operations per second.
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
    /// Name in reports: the title in lower case, with hyphens.
    pub phase: String,
    /// By system, then by iteration.
    pub samples: Vec<Vec<Sample>>,
}

impl Line {
    pub(super) fn new(title: &str, systems: usize) -> Self {
        let phase = title.to_lowercase().replace(' ', "-").replace(['(', ')'], "");
        Self { title: title.to_owned(), phase, samples: vec![Vec::new(); systems] }
    }

    pub(super) fn samples_of(&self, system: usize) -> &[Sample] {
        self.samples.get(system).map_or(&[], Vec::as_slice)
    }

    /// Numbers of the systems that have samples; others were left out.
    pub(super) fn measured(&self) -> impl Iterator<Item = usize> {
        (0..self.samples.len()).filter(|&system| !self.samples_of(system).is_empty())
    }

    pub(super) fn rates(&self, system: usize) -> Vec<f64> {
        self.samples_of(system).iter().map(Sample::rate).collect()
    }

    /// Median rate of a system.
    pub fn median(&self, system: usize) -> f64 {
        Statistics::median(&self.rates(system))
    }

    /// Ratio of one system to another: the median of the ratios of the iterations, so that changes between iterations
    /// affect both. None if there is nothing to compare.
    pub fn ratio(&self, system: usize, other: usize) -> Option<f64> {
        self.ratios(system, other).map(|ratios| ratios.median)
    }

    /// Statistics of the ratios of the iterations.
    pub(super) fn ratios(&self, system: usize, other: usize) -> Option<Statistics> {
        let pairs = std::iter::zip(self.rates(system), self.rates(other));
        let pairs = pairs.filter(|(_, other)| *other > 0.0);
        let ratios: Vec<_> = pairs.map(|(rate, other)| rate / other).collect();
        (!ratios.is_empty()).then(|| Statistics::from_values(&ratios))
    }

    /// The run of each system that was measured. `limit` is the medium, if it is among them, and the name of its phase.
    pub(super) fn runs(
        &self,
        names: &[&str],
        name: &RunName<'_>,
        limit: Option<(usize, &str)>,
    ) -> Vec<Run> {
        let run = |system: usize| match limit {
            Some((medium, phase)) if medium == system => {
                self.run(names, &RunName { phase, ..*name }, system, None)
            }
            _ => {
                self.run(names, name, system, limit.map(|(medium, _)| self.tally(medium)).as_ref())
            }
        };
        self.measured().map(run).collect()
    }

    /// The run of a system, with its iterations; `names` are those of all systems.
    pub(super) fn run(
        &self,
        names: &[&str],
        name: &RunName<'_>,
        system: usize,
        limit: Option<&Tally>,
    ) -> Run {
        let samples = self.samples_of(system);
        let is_transfer = samples.iter().any(|one| one.parts.is_some());
        let others = (0..self.samples.len()).filter(|other| *other != system);
        let ratio =
            |other: usize| Some((names[other].to_owned(), rounded(self.ratio(system, other)?)));
        let repeated = Repeated {
            unit: if is_transfer { "MiB/s" } else { "ops/s" }.to_owned(),
            rate: Statistics::rounded(&self.rates(system)),
            ratio_to: others.filter_map(ratio).collect(),
            repeats: samples.iter().map(Repeat::from).collect(),
            server_nodes: None,
        };
        Run {
            repeated: Some(Box::new(repeated)),
            ..Run::new(&RunName { store: names[system], ..*name }, &self.tally(system), limit)
        }
    }

    /// All iterations of a system.
    pub fn tally(&self, system: usize) -> Tally {
        let mut all = Tally::default();
        self.samples_of(system).iter().for_each(|sample| all.add(&sample.tally));
        all
    }
}

/// Further members of a [`Run`] of systems that alternate. Members that a file lacks are empty, except `rate`: a run
/// without it has none of them.
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

/// All measurements of one call.
pub(super) struct Summary {
    /// The report, with one run for each phase and system.
    pub(super) report: Report,
    /// Addition to the medium in the text.
    pub(super) about: String,
    /// The runs as a table.
    pub(super) table: Table,
    /// Reasons for omitted measurements, and other remarks.
    pub(super) notes: Vec<String>,
    /// Explanation of the columns.
    pub(super) legend: &'static str,
}

impl From<Summary> for Measurement {
    fn from(summary: Summary) -> Self {
        let Summary { report, about, table, notes, legend } = summary;
        let Report { host, settings, .. } = &report;
        let buffer = settings.buffer_note();
        let medium = format!("{} ({}){buffer}{about}", host.file_system, host.medium);
        let notes: String = notes.iter().map(|note| format!("{note}\n")).collect();
        let text = format!("{host}\n{medium}\n\n{}\n{notes}\n{legend}", table.text());
        Self { report: json!(report), text }
    }
}
