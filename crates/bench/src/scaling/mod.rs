//! `esker bench field-io --nodes`: measures Field I/O on pools over increasing numbers of nodes, and models larger
//! pools.
mod link;
mod model;

pub use model::{Costs, System};

use crate::parallel::Parallel;
use crate::plan::Note;
use crate::plan::work_dir::{Capacity, WorkDir};
use crate::processes::Launcher;
use crate::report::{Report, Run};
use crate::runner::Runner;
use esker::types::info::Durability;
use esker_cli::units::rounded;
use esker_types::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of the fields by which the cost of requests is measured.
const SMALL: &str = "4KiB";
/// Operations of each process with these fields.
const SMALL_OPS: &str = "500";
/// Duration of the measurement of the link.
const LINK_TIME: Duration = Duration::from_secs(1);
/// Most client processes that are modelled.
const PROCS_MAX: u64 = 1 << 22;

/// The benchmark that is run on each pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swept {
    /// `esker bench field-io`.
    FieldIo,
    /// `esker bench segments`.
    Segments,
}

/// A sweep over pools.
#[derive(Clone, Debug)]
pub struct ScalingPlan {
    /// The benchmark.
    pub swept: Swept,
    /// How to start this program again.
    pub launcher: Launcher,
    /// Directory for reports, and for the limit of the medium.
    pub folder: PathBuf,
    /// Pools over nodes, each by its name.
    pub pools: Vec<String>,
    /// The settings of the benchmark, without the pool, the processes and the size.
    pub words: Vec<String>,
    /// Numbers of processes.
    pub procs: Vec<u32>,
    /// Sizes of a field, as its option has them.
    pub sizes: String,
    /// Operations of each process, or its segments.
    pub ops: Option<u32>,
    /// Value of `ESKER_NODE` for the processes that measure.
    pub node: String,
    /// Systems to model.
    pub beyond: ModelledSystems,
}

/// Systems to model.
#[derive(Clone, Copy, Debug)]
pub struct ModelledSystems {
    /// Most server nodes.
    pub servers: u32,
    /// Client nodes for each server node.
    pub clients: u32,
    /// Processes on each client node.
    pub procs: u32,
    /// Bandwidth of a link in MiB/s; measured if not given.
    pub link_mib_s: Option<f64>,
}

/// The model in a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// Source of the bandwidth of a link: `loopback` or `given`.
    pub link: String,
    /// That bandwidth.
    pub link_mib_s: f64,
    /// Client nodes for each server node.
    pub clients_per_server: u32,
    /// Processes on each client node.
    pub procs_per_client: u32,
    /// One for each phase of each combination.
    pub lines: Vec<Line>,
}

/// Predictions of the model for one phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Mode of Field I/O.
    pub mode: String,
    /// Access pattern.
    pub pattern: String,
    /// Contention on indexes.
    pub contention: Option<String>,
    /// Object class of Arrays.
    pub class_array: String,
    /// Object class of Key-Values.
    pub class_kv: Option<String>,
    /// `write` or `read`.
    pub phase: String,
    /// Bytes of a field.
    pub size_bytes: u64,
    /// Costs of the phase, measured on the smallest pool.
    pub costs: Costs,
    /// Bandwidth there, in MiB/s.
    pub measured_mib_s: f64,
    /// Prediction for the same processes on the same pool, which shows the error of the model.
    pub modelled_mib_s: f64,
    /// Server nodes, and bandwidth in MiB/s.
    pub points: Vec<(u32, f64)>,
}

impl ScalingPlan {
    /// Measures the pools, then computes the model.
    ///
    /// # Errors
    /// If an option is invalid, a pool is not over nodes, a command fails, or this process receives a signal to end.
    pub fn run(&self, note: Note<'_>) -> Result<Report> {
        self.check()?;
        let capacity =
            Capacity { bytes: 0, entries: 0, targets: None, durability: Durability::Process };
        let work_dir = WorkDir::new(&self.launcher, &self.folder, &[], &capacity, note)?;
        let variables = vec![("ESKER_NODE".to_owned(), self.node.clone())];
        let runner = Runner { variables, ..work_dir.runner(&self.launcher) };
        let mut reports = Vec::new();
        for pool in &self.pools {
            note(&format!("{} on {pool}", self.swept.name()));
            reports.push(runner.bench("sweep", &self.words_for(pool, &self.procs, None))?);
        }
        reports.sort_by_key(|report| servers_of(&report.runs));
        let mut reports = reports.into_iter();
        let Some(first) = reports.next() else { return Err(no_pools_error()) };
        if servers_of(&first.runs) == 0 {
            return Err(Error::new(
                ErrorKind::Invalid,
                "a pool of --nodes is on one node: give pools over nodes",
            ));
        }
        note("the cost of requests");
        let smallest = first.settings.options.get("pool").and_then(|pool| pool.as_str());
        let small = self.small(&runner, smallest.unwrap_or(&self.pools[0]))?;
        note("the bandwidth of a link");
        let model = self.model(&first.runs, &small)?;
        Ok(self.joined(first, reports, model))
    }

    /// Fields of few bytes, by few processes and by many.
    fn small(&self, runner: &Runner, pool: &str) -> Result<Vec<Run>> {
        let most = self.procs.iter().copied().max().unwrap_or(2).max(2);
        let mut procs = vec![2, most];
        procs.dedup();
        Ok(runner.bench("small", &self.words_for(pool, &procs, Some(SMALL)))?.runs)
    }

    /// Segments are few and large. What one request for a chunk of an Array costs is seen in fields without an index.
    fn words_for(&self, pool: &str, procs: &[u32], small: Option<&str>) -> Vec<String> {
        let procs: Vec<_> = procs.iter().map(u32::to_string).collect();
        let ops = small.map(|_| SMALL_OPS.to_owned()).or(self.ops.map(|ops| ops.to_string()));
        let size = small.unwrap_or(&self.sizes);
        let swept = if small.is_some() { Swept::FieldIo } else { self.swept };
        let mut words =
            [swept.name(), "--pool", pool, "--size", size, "--procs"].map(str::to_owned).to_vec();
        words.push(procs.join(","));
        words.extend(ops.into_iter().flat_map(|ops| [swept.count().to_owned(), ops]));
        match swept == self.swept {
            true => words.extend(self.words.clone()),
            false => words.extend(["--mode", "no-index"].map(str::to_owned)),
        }
        words
    }

    fn model(&self, runs: &[Run], small: &[Run]) -> Result<Model> {
        let (link, link_mib_s) = match self.beyond.link_mib_s {
            Some(given) => ("given", given),
            None => ("loopback", link::loopback_mib_s(LINK_TIME)?),
        };
        let best = runs.iter().filter(|run| is_best(run, runs));
        Ok(Model {
            link: link.to_owned(),
            link_mib_s: rounded(link_mib_s),
            clients_per_server: self.beyond.clients,
            procs_per_client: self.beyond.procs,
            lines: best.filter_map(|run| self.line(run, runs, small, link_mib_s)).collect(),
        })
    }

    /// The line of a phase, from the run with the best number of processes.
    fn line(&self, run: &Run, runs: &[Run], small: &[Run], link_mib_s: f64) -> Option<Line> {
        let parallel = run.parallel.as_deref()?;
        let mut costs = costs(run, small, link_mib_s)?;
        let concurrent = match parallel.pattern.as_str() {
            "B" => Some(runs.iter().find(|other| is_concurrent(run, other))?),
            _ => None,
        };
        if let Some(concurrent) = concurrent {
            costs = costs.mean(self::costs(concurrent, small, link_mib_s)?);
        }
        let share = if concurrent.is_some() { 0.5 } else { 1.0 };
        let bandwidth = |system| rounded(costs.bandwidth(system, run.size_bytes) * share);
        let here = System {
            servers: parallel.server_nodes?,
            clients: parallel.nodes,
            procs: parallel.procs_per_node,
        };
        let point = |servers| (servers, bandwidth(self.beyond.system(servers)));
        Some(Line {
            mode: parallel.mode.clone(),
            pattern: parallel.pattern.clone(),
            contention: parallel.contention.clone(),
            class_array: parallel.class_array.clone(),
            class_kv: parallel.class_kv.clone(),
            phase: run.phase.clone(),
            size_bytes: run.size_bytes,
            costs,
            measured_mib_s: parallel.global_timing_bandwidth_mib_s,
            modelled_mib_s: bandwidth(here),
            points: powers(self.beyond.servers).map(point).collect(),
        })
    }

    /// All runs in one report.
    fn joined(
        &self,
        mut all: Report,
        others: impl Iterator<Item = Report>,
        model: Model,
    ) -> Report {
        for mut report in others {
            let before = numbers(&all.runs).max().map_or(0, |last| last + 1);
            let runs = report.runs.iter_mut().filter_map(|run| run.parallel.as_deref_mut());
            runs.for_each(|run| run.run += before);
            all.runs.append(&mut report.runs);
        }
        all.settings.options.insert("pool".to_owned(), json!(self.pools));
        all.settings.options.insert("esker_node".to_owned(), json!(self.node));
        all.model = Some(model);
        all
    }

    fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::new(ErrorKind::Invalid, message));
        if self.pools.is_empty() {
            return Err(no_pools_error());
        }
        let ModelledSystems { servers, clients, procs, link_mib_s } = self.beyond;
        let all =
            u64::from(servers).saturating_mul(u64::from(clients)).saturating_mul(u64::from(procs));
        if !(1..=PROCS_MAX).contains(&all) {
            return refuse(format!(
                "the number of modelled client processes must be 1 to {PROCS_MAX}, not {all}"
            ));
        }
        if link_mib_s.is_some_and(|link| link <= 0.0) {
            return refuse("a link needs a bandwidth above 0".to_owned());
        }
        Ok(())
    }
}

impl Swept {
    fn name(self) -> &'static str {
        match self {
            Self::FieldIo => "field-io",
            Self::Segments => "segments",
        }
    }

    /// The option with the number of operations or segments.
    fn count(self) -> &'static str {
        match self {
            Self::FieldIo => "--ops",
            Self::Segments => "--segments",
        }
    }
}

impl ModelledSystems {
    fn system(self, servers: u32) -> System {
        System { servers, clients: servers * self.clients, procs: self.procs }
    }
}

fn no_pools_error() -> Error {
    Error::new(ErrorKind::Invalid, "--nodes needs at least one pool")
}

/// Numbers of nodes to model: powers of two, and the last one.
fn powers(last: u32) -> impl Iterator<Item = u32> {
    let powers = (0..32).map(|power| 1u32 << power).take_while(move |&power| power < last);
    powers.chain([last])
}

fn numbers(runs: &[Run]) -> impl Iterator<Item = u32> {
    runs.iter().filter_map(|run| Some(run.parallel.as_deref()?.run))
}

/// Nodes of the pool; none of a pool on one node.
fn servers_of(runs: &[Run]) -> u32 {
    runs.iter().find_map(|run| run.parallel.as_deref()?.server_nodes).unwrap_or(0)
}

/// Key that distinguishes runs apart from the number of processes, the size and the phase.
fn kind(run: &Parallel) -> [&str; 5] {
    [
        &run.mode,
        &run.pattern,
        run.contention.as_deref().unwrap_or_default(),
        &run.class_array,
        run.class_kv.as_deref().unwrap_or_default(),
    ]
}

fn is_like(one: &Run, other: &Run) -> bool {
    let kinds = (one.parallel.as_deref().map(kind), other.parallel.as_deref().map(kind));
    kinds.0.is_some() && kinds.0 == kinds.1 && one.phase == other.phase
}

/// True if a run with small fields measures the cost of the requests of the other run. Segments have no contention, for
/// they have no index.
fn costs_alike(run: &Run, small: &Run) -> bool {
    let is_segments = run.parallel.as_deref().is_some_and(|parallel| parallel.contention.is_none());
    is_like(run, small) || is_segments && run.phase == small.phase
}

/// True if no other number of processes gave more.
fn is_best(run: &Run, runs: &[Run]) -> bool {
    let alike =
        runs.iter().filter(|other| is_like(run, other) && other.size_bytes == run.size_bytes);
    run.parallel.is_some()
        && alike.map(|other| other.bandwidth_mib_s).fold(0.0, f64::max) <= run.bandwidth_mib_s
}

/// True for the other phase of pattern B, which ran at the same time.
fn is_concurrent(run: &Run, other: &Run) -> bool {
    let kinds = (run.parallel.as_deref().map(kind), other.parallel.as_deref().map(kind));
    kinds.0.is_some()
        && kinds.0 == kinds.1
        && run.phase != other.phase
        && (run.procs, run.size_bytes) == (other.procs, other.size_bytes)
}

/// The costs of a phase: bandwidths from its own run, requests from runs with small fields.
fn costs(run: &Run, small: &[Run], link_mib_s: f64) -> Option<Costs> {
    let alike = || small.iter().filter(|other| costs_alike(run, other));
    let few = alike().min_by_key(|other| other.procs)?;
    let rate = alike().map(|other| total_rate(other, small)).fold(0.0, f64::max);
    let request_us = if rate > 0.0 { 1e6 / rate } else { 0.0 };
    Some(Costs {
        link_mib_s,
        engine_mib_s: run.limit_mib_s?,
        request_us: rounded(request_us),
        wait_us: rounded((few.latency_us.p50 - request_us).max(0.0)),
    })
}

/// Fields per second of all processes, those of the other phase of pattern B included.
fn total_rate(run: &Run, runs: &[Run]) -> f64 {
    let is_b = run.parallel.as_deref().is_some_and(|parallel| parallel.pattern == "B");
    let concurrent = runs.iter().find(|other| is_b && is_concurrent(run, other));
    run.ops_per_s + concurrent.map_or(0.0, |other| other.ops_per_s)
}

#[cfg(test)]
mod tests;
