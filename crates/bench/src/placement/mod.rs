//! `esker bench placement`: simulates the placement of objects on the targets of pools of any size.
//!
//! No data is moved. The simulation counts dkeys: each object is an Array of some chunks or a Key-Value of some keys.
mod count;
mod ideal_hash;
mod ids;
mod show;

pub use ids::Ids;

use crate::host::Host;
use crate::plan::{Benchmark, Measurement, Note};
use crate::report::{SCHEMA, Settings};
use clap::Args;
use count::{Counts, Work};
use esker::backend::Placement;
use esker_cli::class_of;
use esker_cli::units::rounded;
use esker_types::info::Part;
use esker_types::limits::{NODES_MAX, TARGETS_MAX};
use esker_types::{Error, ErrorKind, ObjectClass, Result};
use ideal_hash::{IdealHash, Load};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// Dkeys that one case may place: more would take hours.
pub const PLACED_MAX: u64 = 1 << 40;

/// Range of probabilities for the fullest target of an ideal hash.
const BAND: [f64; 2] = [0.01, 0.99];

/// A case is uneven if its score is above this, which an ideal hash exceeds three times in a million.
pub const SCORE_MAX: f64 = 4.5;

/// The kind of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Arrays of some chunks: their dkeys are integers, which cycle through the targets of the object.
    Array,
    /// Key-Values of some keys: each key has its target by hash.
    Kv,
}

const METHOD: &str = "\
Nothing is stored, and no pool is needed: each object is placed by the function that real pools use. Objects are Arrays \
of --dkeys chunks, or Key-Values of --dkeys keys. The dkeys on each target and node are counted and compared with those of \
an ideal hash: the standard deviation, and the fullest target over the mean, from its 1st to its 99th percentile. The table \
shows the ids that are spread least evenly; --json has all.

Ids: consecutive (as allocate_oids returns them), random, strided16 and strided4096 (multiples), ranks (the rank of 64 \
processes in bits 32 to 37 of the lower word), blocks (processes allocate 1024 ids and use 100).

Examples:
  esker bench placement -o placement.html
  esker bench placement --nodes 512 --objects 100000000 --class S1,SX
  esker bench placement --kind kv --class SX --objects 1 --dkeys 10000000";

/// Simulate how evenly objects are placed on the targets of many nodes
#[derive(Clone, Debug, Args)]
#[command(after_long_help = METHOD)]
pub struct PlacementPlan {
    /// Number of nodes, or several numbers, separated by commas
    #[arg(
        long,
        value_name = "N",
        default_value = "1,2,4,8,16,32,64,128,256,512",
        value_delimiter = ','
    )]
    pub nodes: Vec<u32>,
    /// Number of targets of each node
    #[arg(long, value_name = "T", default_value_t = 8)]
    pub targets: u32,
    /// Kind of objects, or both, separated by a comma
    #[arg(long = "kind", value_name = "KIND", default_value = "array", value_delimiter = ',')]
    pub kinds: Vec<Kind>,
    /// Object class, or several, separated by commas
    #[arg(
        long = "class",
        value_name = "CLASS",
        default_value = "S1,S2,S4,S8,SX",
        value_delimiter = ','
    )]
    pub classes: Vec<String>,
    /// How ids are chosen, or several ways, separated by commas [default: all]
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    #[arg(default_values_t = Ids::ALL, hide_default_value = true)]
    pub ids: Vec<Ids>,
    /// Number of objects
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    pub objects: u64,
    /// Chunks of an Array, or keys of a Key-Value
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub dkeys: u32,
    /// Number of threads [default: one per processor]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Seed of random ids
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Report the count of each target and node
    #[arg(long)]
    pub counts: bool,
}

/// One combination.
#[derive(Clone, Debug)]
struct Case {
    kind: Kind,
    /// Name of the class, before it was fitted to the pool.
    name: String,
    class: ObjectClass,
    ids: Ids,
    nodes: u32,
    objects: u64,
    dkeys: u32,
}

/// The report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlacementReport {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The machine.
    pub host: Host,
    /// Settings of the simulation.
    pub settings: Settings,
    /// None: nothing was stored.
    pub runs: Vec<()>,
    /// One for each combination.
    pub placements: Vec<Placed>,
}

/// Result of one combination.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Placed {
    /// Arrays or Key-Values.
    pub kind: Kind,
    /// Object class.
    pub class: String,
    /// Choice of ids.
    pub ids: Ids,
    /// Nodes.
    pub nodes: u32,
    /// Targets of all nodes.
    pub targets: u32,
    /// Objects.
    pub objects: u64,
    /// Chunks or keys of each.
    pub dkeys: u32,
    /// Processor time for one dkey in nanoseconds, counting included.
    pub ns: f64,
    /// Over targets.
    pub over_targets: Evenness,
    /// Over nodes.
    pub over_nodes: Evenness,
    /// Share of the examined objects of which no two shards are on the same node.
    pub apart: f64,
    /// Number of objects examined for `apart`: the first ones.
    pub examined: u64,
}

/// How evenly dkeys were spread over bins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evenness {
    /// Mean count of a bin.
    pub mean: f64,
    /// Least count.
    pub min: u64,
    /// Greatest count.
    pub max: u64,
    /// Greatest count over the mean.
    pub max_over_mean: f64,
    /// Greatest count over the mean that an ideal hash does not exceed with a probability of 1%, and of 99%.
    #[serde(rename = "perfect_max_over_mean")]
    pub ideal_max_over_mean: [f64; 2],
    /// Standard deviation of the counts.
    pub stddev: f64,
    /// Standard deviation of the counts of an ideal hash.
    #[serde(rename = "perfect_stddev")]
    pub ideal_stddev: f64,
    /// Distance between both in standard deviations of the results of ideal hashes; above 0 if counts are less even.
    /// None if all counts must be equal.
    pub score: Option<f64>,
    /// All counts, if requested.
    pub counts: Option<Vec<u64>>,
}

impl Evenness {
    fn from_counts(counts: Vec<u64>, ideal: IdealHash, keep: bool) -> Self {
        let bins = counts.len().max(1) as f64;
        let mean = counts.iter().sum::<u64>() as f64 / bins;
        let squares: f64 = counts.iter().map(|&count| (count as f64 - mean).powi(2)).sum();
        let max = counts.iter().copied().max().unwrap_or(0);
        Self {
            mean: rounded(mean),
            min: counts.iter().copied().min().unwrap_or(0),
            max,
            max_over_mean: fine(max as f64 / mean),
            ideal_max_over_mean: BAND.map(|probability| fine(ideal.fullest(probability))),
            stddev: rounded((squares / bins).sqrt()),
            ideal_stddev: rounded(ideal.stddev()),
            score: ideal.score(squares).map(rounded),
            counts: keep.then_some(counts),
        }
    }

    /// True if an ideal hash would hardly ever be less even, or if counts differ that must be equal.
    #[must_use]
    pub fn is_uneven(&self) -> bool {
        self.score.map_or(self.min != self.max, |score| score > SCORE_MAX)
    }
}

impl Placed {
    /// True if targets or nodes are uneven.
    #[must_use]
    pub fn is_uneven(&self) -> bool {
        self.over_targets.is_uneven() || self.over_nodes.is_uneven()
    }
}

impl Benchmark for PlacementPlan {
    fn run(&self, note: Note<'_>) -> Result<Measurement> {
        let report = self.simulate(note)?;
        Ok(Measurement { report: json!(report), text: report.to_string() })
    }
}

impl PlacementPlan {
    fn simulate(&self, note: Note<'_>) -> Result<PlacementReport> {
        let cases = self.cases()?;
        let numbered = (1..).zip(&cases).map(|(number, case)| {
            note(&format!("placing objects: case {number} of {}", cases.len()));
            self.place(case)
        });
        let placements = numbered.collect::<Result<Vec<_>>>()?;
        let options = json!({
            "nodes": self.nodes,
            "targets_of_a_node": self.targets,
            "classes": self.classes,
            "objects": self.objects,
            "dkeys": self.dkeys,
            "threads": self.threads(),
        });
        let settings = Settings::new(self.seed, options);
        let host = Host::for_folder(Path::new("/"))?;
        Ok(PlacementReport { schema: SCHEMA, host, settings, runs: Vec::new(), placements })
    }

    fn place(&self, case: &Case) -> Result<Placed> {
        let placement = self.placement(case.nodes);
        let work = Work { case, placement, seed: self.seed, next: AtomicU64::new(0) };
        let mut counts = work.count(self.threads())?;
        work.examine(&mut counts);
        Ok(self.placed(case, placement, counts))
    }

    fn placed(&self, case: &Case, placement: Placement, counts: Counts) -> Placed {
        let load = case.load(placement);
        let ideal = |bins| IdealHash::for_load(load, case.objects, bins);
        let on_nodes = counts.nodes(placement, case.nodes);
        let dkeys = case.objects as f64 * f64::from(case.dkeys);
        Placed {
            kind: case.kind,
            class: case.name.clone(),
            ids: case.ids,
            nodes: case.nodes,
            targets: placement.targets(),
            objects: case.objects,
            dkeys: case.dkeys,
            ns: rounded(counts.busy.as_secs_f64() * 1e9 / dkeys),
            apart: rounded(counts.apart as f64 / counts.examined as f64),
            examined: counts.examined,
            over_nodes: Evenness::from_counts(on_nodes, ideal(case.nodes), self.counts),
            over_targets: Evenness::from_counts(
                counts.targets,
                ideal(placement.targets()),
                self.counts,
            ),
        }
    }

    fn threads(&self) -> usize {
        self.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
    }

    fn placement(&self, nodes: u32) -> Placement {
        Placement::new(self.targets, Part { node: 0, nodes })
    }

    fn cases(&self) -> Result<Vec<Case>> {
        self.check()?;
        let mut cases = Vec::new();
        for &kind in &self.kinds {
            for name in &self.classes {
                let class = class_of(name)?;
                for &nodes in &self.nodes {
                    let Ok(class) = class.fit(self.targets * nodes, 1) else { continue };
                    let (objects, dkeys) = (self.objects, self.dkeys);
                    let case = |&ids: &Ids| Case {
                        kind,
                        name: name.clone(),
                        class,
                        ids,
                        nodes,
                        objects,
                        dkeys,
                    };
                    cases.extend(self.ids.iter().map(case));
                }
            }
        }
        Ok(cases)
    }

    fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::new(ErrorKind::Invalid, message));
        if !(1..=TARGETS_MAX as u32).contains(&self.targets) {
            return refuse(format!("the number of targets of a node must be 1 to {TARGETS_MAX}"));
        }
        if !self.nodes.iter().all(|nodes| (1..=NODES_MAX).contains(nodes)) {
            return refuse(format!("the number of nodes must be 1 to {NODES_MAX}"));
        }
        let placed = self.objects.checked_mul(u64::from(self.dkeys));
        if !placed.is_some_and(|placed| (1..=PLACED_MAX).contains(&placed)) {
            return refuse(format!("objects times chunks must be 1 to {PLACED_MAX}"));
        }
        if self.threads() == 0 {
            return refuse("the number of threads must be at least 1".to_owned());
        }
        Ok(())
    }
}

impl Case {
    fn load(&self, placement: Placement) -> Load {
        let groups = self.groups(placement);
        match self.kind {
            Kind::Array => Load::Array { groups, chunks: self.dkeys },
            Kind::Kv => Load::Kv { groups, keys: self.dkeys },
        }
    }
}

/// Rounds to six decimal places, enough for ratios just above 1.
fn fine(ratio: f64) -> f64 {
    (ratio * 1e6).round() / 1e6
}

#[cold]
fn thread_error() -> Error {
    Error::new(ErrorKind::Io, "a thread of the simulation ended early")
}

#[cfg(test)]
mod tests;
