//! `esker bench fields`: compares a field store with its medium and with one plain file per field.
mod nodes;
mod outcome;

use super::lines::{Sample, Summary};
use super::location::{Location, container_label};
use super::scratch::Scratch;
use super::store::write_limit;
use super::{BenchPool, Benchmark, Measurement, Note, check, check_repetitions};
use crate::fields::grib::Messages;
use crate::fields::worker::{Done, EventTime, FieldsStep, Job, label};
use crate::fields::{FORECAST, Phase, Shape};
use crate::job::{LoadStep, Member, WARM_UP};
use crate::latency::Histogram;
use crate::load::files::{self, FilesUrl};
use crate::measure::{Measured, Tally};
use crate::names::Named;
use crate::pin::{Pin, cpu_of};
use crate::processes::{Launcher, Processes, WorkerKind};
use clap::{Args, ValueEnum};
use esker::Wait;
use esker_cli::units::Bytes;
use esker_fields::grib::EcCodes;
use esker_fields::{FieldStore, Schema};
use esker_types::{Error, Result};
use outcome::{Case, ESKER, FILES, LEGEND, Lines, MEDIUM, PEER};
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum number of repeats.
pub const REPEATS_MAX: u32 = 255;

/// Measure the field store: archive, list and retrieve fields, also concurrently
#[derive(Clone, Debug, Args)]
#[command(after_long_help = include_str!("../../help/fields.txt").trim_end())]
pub struct FieldsPlan {
    /// The pool.
    #[command(flatten)]
    pub pool: BenchPool,
    /// Number of processes, or several numbers, separated by commas
    #[arg(long, visible_alias = "np", value_name = "N", default_value = "1")]
    #[arg(value_delimiter = ',')]
    pub procs: Vec<u32>,
    /// The fields of each process.
    #[command(flatten)]
    pub shape: Shape,
    /// Number of repeats
    #[arg(short = 'i', long, value_name = "N", default_value_t = 3)]
    pub repeats: u32,
    /// Omit the phase that reads while others archive
    #[arg(long)]
    pub no_watch: bool,
    /// Archive the GRIB messages of this file too, under the keys that they contain
    #[arg(long, value_name = "FILE")]
    pub grib: Option<PathBuf>,
    /// Compare with a real FDB, which `pip install pyfdb` installs
    #[arg(long, value_name = "PEER")]
    pub peer: Option<PeerName>,
    /// Python interpreter that has pyfdb
    #[arg(long, value_name = "PROGRAM", default_value = "python3", requires = "peer")]
    pub python: PathBuf,
    /// Pin processes to processors: alternate between sockets, fill one socket first, or do not pin
    #[arg(long, value_name = "HOW", default_value = "sockets")]
    pub pin: Pin,
    /// Compare what is retrieved with what was archived, in an unmeasured phase
    #[arg(long)]
    pub verify: bool,
    /// Seed of the data
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Pools over nodes, separated by commas: count the requests of each engine, and compare with Field I/O
    #[arg(long, value_name = "POOL", value_delimiter = ',')]
    #[arg(conflicts_with_all = ["pool", "path", "targets", "durability", "huge_pages", "no_write_buffer", "grib", "peer", "no_watch", "verify"])]
    pub nodes: Vec<String>,
}

/// Another store of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PeerName {
    /// FDB, by pyfdb.
    Pyfdb,
}

impl Benchmark for FieldsPlan {
    fn run(&self, note: Note<'_>) -> Result<Measurement> {
        if !self.nodes.is_empty() {
            return nodes::run(self, note);
        }
        self.check()?;
        let (grib, mut notes) = self.messages()?;
        let python = self.peer().filter(|python| crate::python::has(python, "esker._esker"));
        if let (Some(peer), None) = (self.peer(), python) {
            notes.push(format!("reading from Python is left out: {}{NO_ESKER}", peer.display()));
        }
        let longest = grib.as_ref().map_or(0, Messages::longest).max(self.shape.size_bytes);
        let location = self.pool.open_or_create(|| self.needs(longest), note)?;
        let plain_files = Scratch::for_plain_files(&location.folder)?;
        let (files, grib) = (plain_files.path(), grib.as_ref());
        let setup = Setup { plan: self, location: &location, files, grib, python };
        let measured = self.procs.iter().map(|&procs| {
            let lines = setup.measure(procs, note)?;
            let (durable, store) = (location.durable, location.store());
            Ok(Case { procs, lines, size_bytes: self.shape.size_bytes, durable, store })
        });
        let cases = measured.collect::<Result<Vec<_>>>()?;
        let scattered = cases.iter().filter_map(|case| {
            let (share, procs) = (case.lines.scattered()?, case.procs);
            Some(format!(
                "scattered reads reach {share:.2} of the rate of reads in order (--procs {procs})"
            ))
        });
        let shape = self.shape;
        let options = json!({
            "steps": shape.steps, "levels": shape.levels, "params": shape.params,
            "members": shape.members, "fields_per_process": shape.fields(), "repeats": self.repeats,
            "pin": self.pin.name(), "verified": self.verify, "watched": !self.no_watch,
            "peer": self.peer(), "grib": self.grib,
        });
        let runs = cases.iter().flat_map(Case::runs).collect();
        let summary = Summary {
            report: location.report(self.seed, options, runs)?,
            about: format!(", fields of {}", Bytes(self.shape.size_bytes)),
            table: outcome::table(&cases),
            notes: scattered.chain(notes).collect(),
            legend: LEGEND,
        };
        Ok(summary.into())
    }
}

/// Added to the number of a round to name its store that others read during archiving. The up to three stores of a
/// round need different numbers.
const WATCHED: u32 = 1 << 16;
/// Added to the number of a round to name its store of GRIB messages.
const GRIB: u32 = 1 << 17;

const NO_ESKER: &str = " has no package esker (`make wheel`, and `pip install` it there)";
const FEW: &str = "archive-grib: the file has fewer messages than a process archives, so keys repeat and \
                   are known: a file with more tells what a model gets";

/// Processes that archive and retrieve, or watch.
type Workers = Processes<FieldsStep, Done>;

/// The Python program of the peer.
const PROGRAM: &str = include_str!("../../fields/peer.py");

/// The job of a Python process.
#[derive(Serialize)]
struct PythonJob {
    #[serde(flatten)]
    job: Job,
    /// `pyfdb` for a real FDB, or `esker` for the store that the other workers filled.
    store: &'static str,
    forecast: BTreeMap<&'static str, &'static str>,
    /// Offset and length of each GRIB message.
    messages: Vec<(usize, usize)>,
}

/// Parts of the benchmark that do not depend on the number of processes.
struct Setup<'p> {
    plan: &'p FieldsPlan,
    location: &'p Location,
    /// Directory of plain files.
    files: &'p Path,
    /// Messages to archive.
    grib: Option<&'p Messages>,
    /// Python that reads the store.
    python: Option<&'p Path>,
}

/// The state of a measurement with one number of processes.
struct Run<'p> {
    setup: &'p Setup<'p>,
    job: Job,
    /// Workers, then as many watchers.
    workers: Workers,
    peer: Option<Workers>,
    /// Workers that read the store from Python.
    python: Option<Workers>,
    lines: Lines,
}

impl FieldsPlan {
    /// Fails if a size, a number of processes, the shape or the number of repeats is out of range.
    fn check(&self) -> Result<()> {
        check(&[self.shape.size_bytes], &self.procs)?;
        self.shape.check()?;
        check_repetitions("repeats -i", self.repeats, REPEATS_MAX)
    }

    /// Opens the user's messages. They are omitted if ecCodes, which reads their keys, is missing. Also returns remarks
    /// for the report.
    fn messages(&self) -> Result<(Option<Messages>, Vec<String>)> {
        let Some(path) = &self.grib else { return Ok((None, Vec::new())) };
        let messages = Messages::read(path)?;
        Ok(match EcCodes::new() {
            Ok(_) => {
                let few = (messages.count() as u64) < self.shape.fields();
                (Some(messages), few.then(|| FEW.to_owned()).into_iter().collect())
            }
            Err(error) => (None, vec![format!("archive-grib is left out: {error}")]),
        })
    }

    /// Payload and index entries of fields with `longest` bytes.
    fn needs(&self, longest: u64) -> (u64, u64) {
        let procs = u64::from(self.procs.iter().copied().max().unwrap_or(1));
        let fields = self.shape.fields() * procs;
        (fields.saturating_mul(longest), fields * 4)
    }

    /// Path of the Python interpreter that does the same work on a real FDB by pyfdb; `None` if no comparison is
    /// wanted.
    fn peer(&self) -> Option<&Path> {
        self.peer.map(|PeerName::Pyfdb| self.python.as_path())
    }
}

impl Setup<'_> {
    /// Measures one number of processes.
    fn measure(&self, procs: u32, note: Note<'_>) -> Result<Lines> {
        let Self { plan, location, .. } = self;
        let job = Job {
            member: Member { procs, seed: plan.seed, ..Member::default() },
            pool: location.url.clone(),
            container: container_label(),
            files: self.files.to_owned(),
            durable: location.durable,
            shape: plan.shape,
            grib: plan.grib.clone().filter(|_| self.grib.is_some()),
            verify: plan.verify,
        };
        note("touching the file of the limit");
        let cpus = plan.pin.order()?;
        let workers = start(Vec::new(), &job, if plan.no_watch { 0 } else { procs }, &cpus)?;
        let messages = self.grib.cloned().unwrap_or_default();
        let by_python = |python: Option<&Path>, store, install| {
            let start = |python| start_python(python, store, &job, &messages, &cpus);
            python.map(start).transpose().map_err(|error| {
                let remedy = format!("{install}, and name the Python that has it by --python");
                Error::new(error.kind(), format!("{store}: {error} ({remedy})"))
            })
        };
        let peer = by_python(plan.peer(), "pyfdb", "`pip install pyfdb`")?;
        let python = by_python(self.python, "esker", "`make wheel` and `pip install` it")?;
        let lines = Lines::default();
        let mut run = Run { setup: self, job, workers, peer, python, lines };
        (WARM_UP..=plan.repeats).try_for_each(|round| run.round(round, note))?;
        Ok(run.lines)
    }
}

/// Starts a worker for each process of the job, and the watchers, with environment variables in addition.
fn start(
    variables: Vec<(String, String)>,
    job: &Job,
    watchers: u32,
    cpus: &[u32],
) -> Result<Workers> {
    let launcher = Launcher { variables, ..Launcher::for_kind(WorkerKind::Fields)? };
    let member = |rank| Member { rank, cpu: cpu_of(cpus, rank), ..job.member };
    let ranks = 0..job.member.procs + watchers;
    Workers::start(&launcher, ranks.map(|rank| Job { member: member(rank), ..job.clone() }))
}

/// Starts workers in Python, which do all the work on a real FDB, or read the store. There are no watchers.
fn start_python(
    python: &Path,
    store: &'static str,
    job: &Job,
    messages: &Messages,
    cpus: &[u32],
) -> Result<Workers> {
    let Member { procs, seed, .. } = job.member;
    let jobs = Member::all(procs, seed, cpus).map(|member| PythonJob {
        job: Job { member, ..job.clone() },
        store,
        forecast: FORECAST.into_iter().collect(),
        messages: messages.clone().share(member.rank, procs).ranges(),
    });
    Workers::start(&crate::python::launcher(python, PROGRAM), jobs)
}

/// Makes the first `procs` processes enter a phase at the same time.
fn enter(workers: &mut Workers, procs: u32, phase: Phase, round: u32) -> Result<Vec<Done>> {
    workers.together(&vec![FieldsStep { phase, round }; procs as usize])
}

impl Run<'_> {
    /// Runs a round. Its phases, the archiving while others read, and the GRIB messages each get a new store. The
    /// measurements of the store, of plain files and of the medium alternate, so that other load on the machine affects
    /// all three.
    fn round(&mut self, round: u32, note: Note<'_>) -> Result<()> {
        self.within(round, |run| match round {
            WARM_UP => run.warm_up(note),
            _ => run.measure_phases(round, note),
        })?;
        if round != WARM_UP && !self.setup.plan.no_watch {
            self.report_progress(round, "archiving while others read", note);
            self.within(WATCHED + round, |run| run.measure_watching(round))?;
        }
        if round != WARM_UP && self.setup.grib.is_some() {
            self.report_progress(round, &Phase::ArchiveGrib.name(), note);
            self.within(GRIB + round, |run| run.measure_gribs(round))?;
        }
        Ok(())
    }

    /// Creates the store and the directory with the number `round`, runs `work`, and removes them.
    fn within(&mut self, round: u32, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let pool = self.setup.location.pool()?;
        let label = label(&self.job.container, round);
        let files = FilesUrl { folder: self.job.files.clone(), fsync: self.job.durable };
        FieldStore::create(pool, &label, &Schema::default_mars()?)?;
        let done = files::create_container(&files, &label).and_then(|()| {
            let done = work(self);
            files::destroy_container(&files, &label).and(done)
        });
        pool.destroy_container(&label, true).wait().and(done)
    }

    /// Writes files and archives fields once, with the peer as well if there is one, and does not record the times.
    fn warm_up(&mut self, note: Note<'_>) -> Result<()> {
        note("warming up");
        enter(&mut self.workers, self.job.member.procs, Phase::FileWrite, WARM_UP)?;
        enter(&mut self.workers, self.job.member.procs, Phase::Archive, WARM_UP)?;
        let peer = self.peer.as_mut();
        peer.map_or(Ok(()), |peer| {
            enter(peer, self.job.member.procs, Phase::Archive, WARM_UP).map(drop)
        })
    }

    /// Runs a phase at the same time in all processes of a system, and adds the times to the report. Does nothing for a
    /// system that is left out. `round` is the number of the store, `number` that of the repeat.
    fn measure(&mut self, system: usize, phase: Phase, round: u32, number: u32) -> Result<()> {
        let workers = match (system, phase.from_python()) {
            (PEER, _) => self.peer.as_mut(),
            (_, Some(_)) => self.python.as_mut(),
            _ => Some(&mut self.workers),
        };
        let Some(workers) = workers else { return Ok(()) };
        let done = enter(workers, self.job.member.procs, phase, round)?;
        self.lines.add(system, phase, sample(number, &done));
        Ok(())
    }

    fn report_progress(&self, round: u32, what: &str, note: Note<'_>) {
        note(&format!("repeat {round} of {}: {what}", self.setup.plan.repeats));
    }

    /// Measures all phases of a round.
    fn measure_phases(&mut self, round: u32, note: Note<'_>) -> Result<()> {
        let write = match write_limit(self.setup.location.durable) {
            LoadStep::PwriteSync => Phase::PwriteSync,
            _ => Phase::Pwrite,
        };
        let phases = [
            (MEDIUM, write),
            (FILES, Phase::FileWrite),
            (ESKER, Phase::Archive),
            (MEDIUM, Phase::Pread),
            (FILES, Phase::FileRead),
            (ESKER, Phase::Retrieve),
            (ESKER, Phase::PythonRetrieve),
            (ESKER, Phase::Request),
            (ESKER, Phase::PythonRequest),
            (ESKER, Phase::PythonViews),
            (ESKER, Phase::InOrder),
            (ESKER, Phase::Scattered),
            (ESKER, Phase::List),
            (ESKER, Phase::Axes),
        ];
        for (system, phase) in phases {
            let by_python = phase.from_python().is_some();
            if by_python && self.python.is_none() {
                continue;
            }
            self.report_progress(round, &phase.name(), note);
            self.measure(system, phase, round, round)?;
            if system == ESKER && !by_python {
                self.measure(PEER, phase, round, round)?;
            }
        }
        if self.setup.plan.verify {
            self.report_progress(round, "verify", note);
            enter(&mut self.workers, self.job.member.procs, Phase::Verify, round)?;
        }
        Ok(())
    }

    /// Measures the phases on GRIB messages of a round.
    fn measure_gribs(&mut self, round: u32) -> Result<()> {
        let phases =
            [(FILES, Phase::GribFiles), (ESKER, Phase::ArchiveGrib), (PEER, Phase::ArchiveGrib)];
        phases
            .into_iter()
            .try_for_each(|(system, phase)| self.measure(system, phase, GRIB + round, round))?;
        if self.setup.plan.verify {
            enter(&mut self.workers, self.job.member.procs, Phase::VerifyGrib, GRIB + round)?;
        }
        Ok(())
    }

    /// Measures archiving while other processes watch the store. A latency is the time from the start of a flush until
    /// a watcher sees one of its fields.
    fn measure_watching(&mut self, round: u32) -> Result<()> {
        let procs = self.job.member.procs as usize;
        let step = |phase| vec![FieldsStep { phase, round: WATCHED + round }; procs];
        let steps = [step(Phase::ArchiveWatched), step(Phase::Watch)].concat();
        let mut written = self.workers.together(&steps)?;
        let seen = written.split_off(procs);
        let times = |done: &[Done]| done.iter().flat_map(|one| one.event_times.clone()).collect();
        let latency = delays(times(&written), times(&seen))?;
        self.lines.add(ESKER, Phase::ArchiveWatched, sample(round, &written));
        let read = sample(round, &seen);
        let tally = Tally { latency, ..read.tally.clone() };
        self.lines.add(ESKER, Phase::Watch, Sample { tally, ..read });
        Ok(())
    }
}

fn sample(round: u32, done: &[Done]) -> Sample {
    let measured: Vec<Measured> = done.iter().map(|one| one.measured.clone()).collect();
    Sample::new(round, &measured)
}

/// Times from a flush until another process saw its fields.
fn delays(flushed: Vec<EventTime>, seen: Vec<EventTime>) -> Result<Histogram> {
    let flushed: HashMap<_, _> = flushed.into_iter().collect();
    let mut latency = Histogram::default();
    for (fields, ns) in seen {
        if let Some(begin) = flushed.get(&fields) {
            latency.record(Duration::from_nanos(ns.saturating_sub(*begin)))?;
        }
    }
    Ok(latency)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_latency_counts_from_start_of_flush() {
        let flushed = vec![((0, 0), 1000), ((1, 0), 5000)];
        let seen = vec![((0, 0), 4000), ((1, 0), 6000), ((7, 7), 9000)];
        let latency = delays(flushed, seen).unwrap();
        assert_eq!((latency.len(), latency.max_us()), (2, 3.0));
    }
}
