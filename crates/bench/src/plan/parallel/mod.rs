//! `esker bench field-io` and `esker bench segments`: the benchmarks of the papers.
//!
//! One call of the command on each node is a rank, which starts the node's processes. All ranks run the same cases,
//! repeats and phases. Rank 0 creates containers, sets the start times of phases and gathers the measurements.
mod cases;
mod repeat;
mod results;

use super::location::Location;
use super::{BenchPool, Note, check};
use crate::field_io::segments::Objects;
use crate::field_io::{Contention, Mode, Pattern};
use crate::host::Host;
use crate::pin::Pin;
use crate::processes::Launcher;
use crate::rendezvous::{Rank, Rendezvous};
use crate::report::{Report, Run, Settings};
use crate::traces::{self, Kind, Writer};
use cases::Case;
use esker_types::{Error, ErrorKind, Result};
use repeat::Stage;
use results::{Done, Series};
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
#[derive(Clone, Debug)]
pub struct Fields {
    /// Modes.
    pub modes: Vec<Mode>,
    /// Access patterns.
    pub patterns: Vec<Pattern>,
    /// Index contentions.
    pub contentions: Vec<Contention>,
    /// Classes of Key-Values.
    pub classes_kv: Vec<String>,
}

/// A benchmark of the papers.
#[derive(Clone, Debug)]
pub struct ParallelPlan {
    /// How to start processes that measure the limit, and the janitor.
    pub launcher: Launcher,
    /// How to start processes that work on the store.
    pub field_launcher: Launcher,
    /// The pool.
    pub pool: BenchPool,
    /// The benchmark.
    pub subject: Subject,
    /// Bytes of a field or part.
    pub sizes: Vec<u64>,
    /// Processes on each node.
    pub procs: Vec<u32>,
    /// Operations of each process in each repeat; chosen by size if not given.
    pub ops: Option<u32>,
    /// Number of repeats of each case.
    pub repeat: u32,
    /// Classes of Arrays.
    pub classes_array: Vec<String>,
    /// Compare all data that is read with what was written, in a pass that is not measured.
    pub verify: bool,
    /// Seed of the payload.
    pub seed: u64,
    /// How processes are placed.
    pub pin: Pin,
    /// Rank of this process.
    pub who: Rank,
    /// Directory through which ranks synchronize.
    pub rendezvous: Option<PathBuf>,
    /// Name of this node.
    pub node: String,
    /// File of the traces.
    pub traces: Option<PathBuf>,
}

/// A node in the settings of a report.
#[derive(Serialize, Deserialize)]
struct Node {
    node: String,
    #[serde(flatten)]
    host: Host,
}

impl ParallelPlan {
    /// Runs the benchmark. Only rank 0 returns a report.
    ///
    /// # Errors
    /// If the pool cannot be created or opened, or is too small, or an option is invalid; errors of processes and of
    /// other ranks; with [`ParallelPlan::verify`], [`ErrorKind::Corrupt`] if the data read is not that written.
    pub fn run(&self, note: Note<'_>) -> Result<Option<Report>> {
        self.check()?;
        let mut meeting = Rendezvous::meet(self.who, self.rendezvous.as_deref())?;
        let report = self.run_with(&mut meeting, note);
        if let Err(error) = &report {
            meeting.report_error(error);
        }
        report
    }

    fn run_with(&self, meeting: &mut Rendezvous, note: Note<'_>) -> Result<Option<Report>> {
        let location = self.pool.open_or_create(&self.launcher, || self.needs(), note)?;
        location.pool()?;
        let host = Host::for_folder(&location.folder)?;
        let nodes = meeting.gather(Node { node: self.node.clone(), host: host.clone() })?;
        let settings = self.settings(&location, &nodes)?;
        let on = (self.who.ranks, location.nodes()?);
        let mut traces = self.traces(&host, &settings)?;
        let mut runs = Vec::new();
        let cpus = self.pin.order()?;
        for case in self.cases(location.durable) {
            let series =
                self.measure(&location, &case, &cpus, meeting, &mut traces, runs.len(), note)?;
            for series in series {
                let number = runs.len() as u32;
                runs.push(series.runs(&case, location.store(), number, on, location.durable));
            }
        }
        if !meeting.who().is_first() {
            return Ok(None);
        }
        traces.map_or(Ok(()), Writer::finish)?;
        let runs: Vec<Run> = runs.into_iter().flatten().collect();
        Ok(Some(Report::new(host, settings, runs)))
    }

    #[allow(clippy::too_many_arguments, reason = "the state of the complete benchmark")]
    fn measure(
        &self,
        location: &Location,
        case: &Case,
        cpus: &[u32],
        meeting: &mut Rendezvous,
        traces: &mut Option<Writer>,
        first_run: usize,
        note: Note<'_>,
    ) -> Result<[Series; 2]> {
        let what =
            format!("{} {} {}", case.mode_name(), case.pattern.name(), case.contention.name());
        note(&format!("{what}: touching the file of the limit"));
        let limits = Stage::limits(self, location, case)?;
        let mut stage = Stage { plan: self, location, case, cpus, meeting, limits };
        let mut series = [Kind::Write, Kind::Read].map(Series::new);
        for repeat in 0..=self.repeat {
            note(&match repeat {
                0 => format!("{what}: warming up"),
                _ => format!("{what}: repeat {repeat} of {}", self.repeat),
            });
            let done = stage.repeat(repeat)?;
            if repeat > 0 && self.who.is_first() {
                results::add_repeat(&mut series, case, &done)?;
                keep(traces, first_run as u32, repeat, &done)?;
            }
        }
        Ok(series)
    }

    fn traces(&self, host: &Host, settings: &Settings) -> Result<Option<Writer>> {
        let path = self.traces.as_deref().filter(|_| self.who.is_first());
        let facts = [("host", json!(host).to_string()), ("settings", json!(settings).to_string())];
        path.map(|path| Writer::create(path, &facts)).transpose()
    }

    fn check(&self) -> Result<()> {
        check(&self.sizes, &self.procs)?;
        let classes_kv: &[String] = match &self.subject {
            Subject::Fields(fields) => &fields.classes_kv,
            Subject::Segments { .. } => &[],
        };
        for class in self.classes_array.iter().chain(classes_kv) {
            esker_cli::class_of(class)?;
        }
        let refuse = |message: String| Err(Error::new(ErrorKind::Invalid, message));
        if !(1..=REPEATS_MAX).contains(&self.repeat) {
            return refuse(format!("the number of repeats must be 1 to {REPEATS_MAX}"));
        }
        if self.ops.is_some_and(|ops| !(1..=OPS_MAX).contains(&ops)) {
            return refuse(format!("the number of operations must be 1 to {OPS_MAX}"));
        }
        if matches!(self.subject, Subject::Segments { count: 0, .. }) {
            return refuse("each process needs at least one segment".to_owned());
        }
        if self.who.ranks > 1 && self.pool.pool.is_none() {
            return refuse(
                "several nodes need a pool that all of them can open: give --pool".to_owned(),
            );
        }
        self.check_procs()
    }

    fn check_procs(&self) -> Result<()> {
        let halves = matches!(&self.subject, Subject::Fields(fields) if fields.patterns.contains(&Pattern::B));
        for procs in &self.procs {
            let all = procs.saturating_mul(self.who.ranks);
            let message = match () {
                () if all > ALL_PROCS_MAX => {
                    format!("{all} processes on all nodes are too many: {ALL_PROCS_MAX} at most")
                }
                () if halves && !all.is_multiple_of(2) => format!(
                    "in pattern B half of the processes write and half of them read, but {all} is odd"
                ),
                () => continue,
            };
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(())
    }

    /// Payload and index entries of the largest case.
    fn needs(&self) -> (u64, u64) {
        let needs = self.cases(false).into_iter().map(|case| case.needs(self.verify));
        needs.fold((0, 0), |most, case| (most.0.max(case.0), most.1.max(case.1)))
    }

    fn settings(&self, location: &Location, nodes: &[Node]) -> Result<Settings> {
        let segments = match self.subject {
            Subject::Segments { count, .. } => Some(count),
            Subject::Fields(_) => None,
        };
        let options = json!({
            "nodes": nodes,
            "pool": location.url,
            "repeat": self.repeat,
            "ops": self.ops,
            "segments": segments,
            "pin": self.pin.name(),
            "verified": self.verify,
        });
        location.settings(self.seed, options)
    }
}

fn keep(traces: &mut Option<Writer>, first_run: u32, repeat: u32, done: &[Done]) -> Result<()> {
    let Some(writer) = traces else { return Ok(()) };
    for (run, done) in (first_run..).zip(done) {
        let place =
            traces::TraceOrigin { run, repeat, kind: done.kind, start_unix_ns: done.start_unix_ns };
        writer.add(place, &done.traces)?;
    }
    Ok(())
}
