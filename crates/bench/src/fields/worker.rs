//! One process of `fields`.
use super::session::Session;
pub use super::session::label;
use super::{Phase, Shape};
use crate::clock::wait_until;
use crate::limit::Limit;
use crate::measure::{Measured, Until};
use crate::pin;
use crate::worker::Work;
use esker_types::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Maximum size of a process's file for the limit.
const LIMIT_BYTES_MAX: u64 = 512 << 20;

/// The job of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Number of the process, from 0. Processes from `procs` on are watchers.
    pub rank: u32,
    /// Processes that archive.
    pub procs: u32,
    /// The processor to run on; any if not given.
    pub cpu: Option<u32>,
    /// The store.
    pub pool: Containers,
    /// Folder on the same medium for plain files.
    pub files: PathBuf,
    /// Every write waits for the medium (durability `commit`).
    pub durable: bool,
    /// Shape of the archived data.
    pub shape: Shape,
    /// A file of GRIB messages, for the phases that are about them.
    pub grib: Option<PathBuf>,
    /// Watchers compare the fields that they read.
    pub verify: bool,
    /// Seed of the data.
    pub seed: u64,
}

/// The containers of the rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Containers {
    /// Pool by name, UUID or URL.
    pub url: String,
    /// Prefix of container names.
    pub container: String,
}

/// A phase of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldsStep {
    /// Operation of the step.
    pub phase: Phase,
    /// Number of the round; 0 warms up.
    pub round: u32,
}

/// A message to a process.
pub type Order = crate::worker::Order<FieldsStep>;

/// The reply of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// The phase.
    pub measured: Measured,
    /// When flushes began, or when fields became visible.
    pub event_times: Vec<EventTime>,
}

/// The time of an event of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventTime {
    /// The process that archived them.
    pub writer: u32,
    /// Forecast step of the fields.
    pub step: u64,
    /// Monotonic clock of the node, in nanoseconds.
    pub ns: u64,
}

/// The state of a process.
pub struct Worker {
    session: Session,
    /// None for watchers.
    limit: Option<Limit>,
}

impl Work for Worker {
    type Job = Job;
    type Step = Order;
    type Done = Done;

    fn begin(job: Job) -> Result<Self> {
        job.cpu.map_or(Ok(()), pin::to)?;
        let size = job.shape.size_bytes;
        let blocks = job.shape.fields().min((LIMIT_BYTES_MAX / size).max(1));
        let works = job.rank < job.procs;
        let limit = works.then(|| Limit::new(&job.files, size, blocks)).transpose()?;
        Ok(Self { session: Session::new(job)?, limit })
    }

    fn take(&mut self, order: Order) -> Result<Done> {
        let named = |step: FieldsStep, error: Error| {
            Error::new(error.kind(), format!("{}: {error}", step.phase.name()))
        };
        match order {
            Order::Prepare(step) => self.prepare(step).map_err(|error| named(step, error)),
            Order::Begin { step, start_ns } => {
                wait_until(start_ns);
                self.run(step).map_err(|error| named(step, error))
            }
        }
    }
}

impl Worker {
    fn prepare(&mut self, step: FieldsStep) -> Result<Done> {
        match step.phase {
            Phase::Rest | Phase::Pwrite | Phase::PwriteSync | Phase::Pread => {}
            Phase::Watch => {
                self.session.enter(step.round)?;
                self.session.subscribe()?;
            }
            _ => self.session.enter(step.round)?,
        }
        Ok(Done::default())
    }

    fn run(&mut self, step: FieldsStep) -> Result<Done> {
        let session = &mut self.session;
        let measured = match step.phase {
            Phase::Rest | Phase::PythonRetrieve | Phase::PythonRequest | Phase::PythonViews => {
                return Ok(Done::default());
            }
            Phase::Archive | Phase::ArchiveWatched => return session.archive(),
            Phase::Watch => return session.watch(),
            Phase::Pwrite | Phase::PwriteSync | Phase::Pread => self.limit(step.phase),
            Phase::FileWrite | Phase::FileRead => session.files(step.phase, step.round),
            Phase::List => session.list(),
            Phase::Axes => session.axes(),
            Phase::Retrieve => session.retrieve(session.job.shape.fields()),
            Phase::Request => session.request(false),
            Phase::InOrder => session.retrieve(session.some()),
            Phase::Scattered => session.scattered(),
            Phase::Verify => session.request(true),
            Phase::GribFiles => session.grib_files(step.round),
            Phase::ArchiveGrib => session.archive_grib(),
            Phase::VerifyGrib => session.verify_grib(),
        };
        Ok(Done { measured: measured?, event_times: Vec::new() })
    }

    fn limit(&self, phase: Phase) -> Result<Measured> {
        let Some(limit) = &self.limit else { return Ok(Measured::default()) };
        let ops = Until::Ops(self.session.job.shape.fields());
        match phase {
            Phase::PwriteSync => limit.pwrite_sync(ops),
            Phase::Pwrite => limit.pwrite(ops),
            _ => limit.pread(ops),
        }
    }
}

#[cfg(test)]
mod tests;
