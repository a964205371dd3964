//! `esker bench field-io` and `esker bench segments`: the benchmarks of the papers.
//!
//! One call of the command on each node is a rank, which starts the node's processes. All ranks run the same cases,
//! repeats and phases. Rank 0 creates containers, sets the start times of phases and gathers the measurements.
mod cases;
mod repeat;
mod results;

use super::location::Location;
use super::{BenchPool, Note, check, check_repetitions};
use crate::errors::ensure_valid;
use crate::field_io::segments::Objects;
use crate::field_io::{Contention, Mode, Pattern};
use crate::host::Host;
use crate::names::Named;
use crate::pin::Pin;
use crate::rendezvous::{Rank, Rendezvous};
use crate::report::{Report, Run, Settings};
use crate::traces::Writer;
use clap::Args;
use esker::names::NODE_VARIABLE;
use esker_types::{Error, ErrorKind, Result};
use repeat::Stage;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::PathBuf;

/// Maximum number of processes on all nodes together.
pub const ALL_PROCS_MAX: u32 = 1 << 16;

/// Maximum number of operations of one process in one repeat. Their time stamps are kept in memory, 64 bytes each.
pub const OPS_MAX: u32 = 1 << 20;

/// Maximum number of repeats.
pub const REPEATS_MAX: u32 = 255;

/// The benchmark to run.
#[derive(Clone, Debug)]
pub enum Subject {
    /// Field I/O.
    Fields(Fields),
    /// IOR in segments mode.
    Segments {
        /// Assignment of data to objects.
        objects: Vec<Objects>,
        /// Parts of each process.
        count: u32,
    },
}

/// The settings of Field I/O. All combinations are measured.
#[derive(Clone, Debug, Args)]
pub struct Fields {
    /// Mode, or several, separated by commas
    #[arg(long = "mode", value_name = "MODE", default_value = "full", value_delimiter = ',')]
    pub modes: Vec<Mode>,
    /// Access pattern, or several, separated by commas
    #[arg(long = "pattern", value_name = "PATTERN", default_value = "A", value_delimiter = ',')]
    #[arg(ignore_case = true)]
    pub patterns: Vec<Pattern>,
    /// Contention on a forecast's Key-Value, or several, separated by commas
    #[arg(long = "contention", value_name = "CONTENTION", default_value = "low")]
    #[arg(value_delimiter = ',')]
    pub contentions: Vec<Contention>,
    /// Object class of Key-Values, or several, separated by commas
    #[arg(long = "class-kv", value_name = "CLASS", default_value = "SX", value_delimiter = ',')]
    pub classes_kv: Vec<String>,
}

/// A benchmark of the papers.
#[derive(Clone, Debug)]
pub struct ParallelPlan {
    /// The benchmark.
    pub subject: Subject,
    /// Bytes of a field or part.
    pub sizes: Vec<u64>,
    /// Operations of each process in each repeat; chosen by size if not given.
    pub ops: Option<u32>,
    /// Options of both benchmarks.
    pub options: ParallelOptions,
    /// Environment variables that the processes get in addition.
    pub variables: Vec<(String, String)>,
}

/// Options that both benchmarks share.
#[derive(Clone, Debug, Args)]
pub struct ParallelOptions {
    /// The pool.
    #[command(flatten)]
    pub pool: BenchPool,
    /// Number of processes on each node, or several numbers, separated by commas
    #[arg(long, value_name = "N", default_value = "2", value_delimiter = ',')]
    pub procs: Vec<u32>,
    /// Object class of Arrays, or several, separated by commas
    #[arg(long = "class-array", value_name = "CLASS", default_value = "S1", value_delimiter = ',')]
    pub classes_array: Vec<String>,
    /// Number of repeats of each combination
    #[arg(long, value_name = "R", default_value_t = 3)]
    pub repeat: u32,
    /// Read back and compare every byte, in an unmeasured pass
    #[arg(long)]
    pub verify: bool,
    /// Seed of the data
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Pin processes to processors: alternate between sockets, fill one socket first, or do not pin
    #[arg(long, value_name = "HOW", default_value = "sockets")]
    pub pin: Pin,
    /// Directory through which the nodes communicate, on a file system that they share
    #[arg(long, value_name = "DIR")]
    pub rendezvous: Option<PathBuf>,
    /// Rank of this node [default: set by srun or mpirun]
    #[arg(long, value_name = "R", requires = "ranks")]
    pub rank: Option<u32>,
    /// Number of ranks [default: set by srun or mpirun]
    #[arg(long, value_name = "N", requires = "rank")]
    pub ranks: Option<u32>,
    /// Write the time of every event to this CSV file [default: beside the file of --json]
    #[arg(long, value_name = "FILE")]
    pub traces: Option<PathBuf>,
}

/// A node in the settings of a report.
#[derive(Serialize, Deserialize)]
struct Node {
    node: String,
    #[serde(flatten)]
    host: Host,
}

impl ParallelOptions {
    /// Rank of this process among the ranks that measure together.
    fn who(&self) -> Result<Rank> {
        if let (Some(rank), Some(ranks)) = (self.rank, self.ranks) {
            return Rank { rank, ranks }.checked();
        }
        // The ranks of a batch job's variables may not be meant for this command.
        let who = Rank::from_environment()?;
        ensure_valid(who.ranks == 1 || self.rendezvous.is_some(), || {
            let Rank { rank, ranks } = who;
            format!(
                "this is rank {rank} of {ranks}: give all ranks --rendezvous with a directory that they share, or \
                 --rank 0 --ranks 1 to measure on this node alone"
            )
        })?;
        Ok(who)
    }
}

impl ParallelPlan {
    /// Runs the benchmark. Only rank 0 returns a report.
    pub fn run(&self, note: Note<'_>) -> Result<Option<Report>> {
        let who = self.options.who()?;
        self.check(who)?;
        let mut meeting = Rendezvous::meet(who, self.options.rendezvous.as_deref())?;
        let report = self.run_with(&mut meeting, note);
        if let Err(error) = &report {
            meeting.report_error(error);
        }
        report
    }

    /// Runs the benchmark on pools over nodes, as their clients on other nodes would, with fewer nodes first. All runs
    /// are in one report. This process is the only rank, also in a batch job whose variables name several.
    pub fn run_on_pools(&self, pools: &[String], note: Note<'_>) -> Result<Report> {
        // A pool that cannot be measured is refused before any other is measured.
        for pool in pools {
            Location::named(pool)?.nodes()?.ok_or_else(one_node_error)?;
        }
        let node = std::env::var(NODE_VARIABLE).unwrap_or_else(|_| "none".to_owned());
        let mut reports = Vec::new();
        for pool in pools {
            let pool = BenchPool { pool: Some(pool.clone()), ..self.options.pool.clone() };
            let (rank, ranks) = (Some(Rank::ALONE.rank), Some(Rank::ALONE.ranks));
            let options =
                ParallelOptions { pool, rank, ranks, traces: None, ..self.options.clone() };
            let variables = vec![(NODE_VARIABLE.to_owned(), node.clone())];
            reports.extend(Self { options, variables, ..self.clone() }.run(note)?);
        }
        reports.sort_by_key(servers_of);
        let mut all = reports.into_iter().reduce(joined).ok_or_else(one_node_error)?;
        all.settings.options.insert("pool".to_owned(), json!(pools));
        all.settings.options.insert("esker_node".to_owned(), json!(node));
        Ok(all)
    }

    /// Measures together with the processes of the other ranks, which `meeting` brings together. Only rank 0 returns a
    /// report.
    fn run_with(&self, meeting: &mut Rendezvous, note: Note<'_>) -> Result<Option<Report>> {
        let location = self.options.pool.open_or_create(|| self.needs(meeting.who()), note)?;
        // Plain files cannot be measured by this benchmark.
        location.pool()?;
        let host = Host::for_folder(&location.folder)?;
        let nodes = meeting.gather(Node { node: node_name(), host: host.clone() })?;
        let settings = self.settings(&location, &nodes)?;
        let nodes_of_both = (meeting.who().ranks, location.nodes()?);
        let mut traces = self.traces(meeting.who(), &host, &settings)?;
        let mut runs = Vec::new();
        let cpus = self.options.pin.order()?;
        for case in self.cases(meeting.who(), location.durable) {
            let mut stage = Stage::new(self, &location, &case, &cpus, meeting, note)?;
            for series in stage.measure(&mut traces, runs.len() as u32, note)? {
                runs.push(series.runs(&location, runs.len() as u32, nodes_of_both));
            }
        }
        if !meeting.who().is_first() {
            return Ok(None);
        }
        traces.map_or(Ok(()), Writer::finish)?;
        let runs: Vec<Run> = runs.into_iter().flatten().collect();
        Ok(Some(Report::new(host, settings, runs)))
    }

    /// The file of traces, which the first rank writes.
    fn traces(&self, who: Rank, host: &Host, settings: &Settings) -> Result<Option<Writer>> {
        let path = self.options.traces.as_deref().filter(|_| who.is_first());
        let facts = [("host", json!(host).to_string()), ("settings", json!(settings).to_string())];
        path.map(|path| Writer::create(path, &facts)).transpose()
    }

    /// Checks the options.
    fn check(&self, who: Rank) -> Result<()> {
        let Self { options, subject, .. } = self;
        check(&self.sizes, &options.procs)?;
        let classes_kv = match subject {
            Subject::Fields(fields) => &fields.classes_kv[..],
            Subject::Segments { .. } => &[],
        };
        let mut classes = options.classes_array.iter().chain(classes_kv);
        classes.try_for_each(|class| esker_cli::class_of(class).map(drop))?;
        check_repetitions("repeats", options.repeat, REPEATS_MAX)?;
        ensure_valid(self.ops.is_none_or(|ops| (1..=OPS_MAX).contains(&ops)), || {
            format!("the number of operations must be 1 to {OPS_MAX}")
        })?;
        ensure_valid(
            !matches!(subject, Subject::Segments { count: 0, .. }),
            || "each process needs at least one segment",
        )?;
        ensure_valid(
            who.ranks == 1 || options.pool.pool.is_some(),
            || "several nodes need a pool that all of them can open: give --pool",
        )?;
        let halves =
            matches!(subject, Subject::Fields(fields) if fields.patterns.contains(&Pattern::B));
        options.procs.iter().try_for_each(|procs| {
            let all = procs.saturating_mul(who.ranks);
            ensure_valid(all <= ALL_PROCS_MAX, || {
                format!("{all} processes on all nodes are too many: {ALL_PROCS_MAX} at most")
            })?;
            ensure_valid(!halves || all.is_multiple_of(2), || {
                format!("in pattern B half of the processes write and half of them read, but {all} is odd")
            })
        })
    }

    /// Payload and index entries of the largest case.
    fn needs(&self, who: Rank) -> (u64, u64) {
        let needs = self.cases(who, false).into_iter();
        let needs = needs.map(|case| case.needs(self.options.verify));
        needs.fold((0, 0), |most, case| (most.0.max(case.0), most.1.max(case.1)))
    }

    /// Settings of the report.
    fn settings(&self, location: &Location, nodes: &[Node]) -> Result<Settings> {
        let segments = match self.subject {
            Subject::Segments { count, .. } => Some(count),
            Subject::Fields(_) => None,
        };
        let ParallelOptions { repeat, pin, verify, seed, .. } = &self.options;
        let options = json!({
            "nodes": nodes, "pool": location.url, "repeat": repeat, "ops": self.ops,
            "segments": segments, "pin": pin.name(), "verified": verify,
        });
        location.settings(*seed, options)
    }
}

/// Appends the runs of a report. Their numbers continue.
fn joined(mut all: Report, mut more: Report) -> Report {
    let numbers = all.runs.iter().filter_map(Run::number);
    let before = numbers.max().map_or(0, |last| last + 1);
    let runs = more.runs.iter_mut().filter_map(|run| run.parallel.as_deref_mut());
    runs.for_each(|run| run.run += before);
    all.runs.append(&mut more.runs);
    all
}

/// Nodes of the pool of a report; 0 of a pool on one node.
fn servers_of(report: &Report) -> u32 {
    report.runs.iter().find_map(Run::server_nodes).unwrap_or(0)
}

#[cold]
pub(super) fn one_node_error() -> Error {
    Error::new(ErrorKind::Invalid, "a pool of --nodes is on one node: give pools over nodes")
}

/// The name of this node in Slurm, or the host name.
fn node_name() -> String {
    std::env::var("SLURMD_NODENAME")
        .unwrap_or_else(|_| rustix::system::uname().nodename().to_string_lossy().into_owned())
}
