//! One process of `mdtest` or `ior`.
use super::{FileLocation, ior, mdtest};
use crate::clock::wait_until;
use crate::measure::Measured;
use crate::pin;
use crate::worker::Work;
use esker_types::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// The job of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Number of the process, from 0.
    pub rank: u32,
    /// Number of processes.
    pub procs: u32,
    /// The processor to run on; any if not given.
    pub cpu: Option<u32>,
    /// Location of its files.
    pub location: FileLocation,
    /// The load.
    pub load: Load,
    /// Seed of the data.
    pub seed: u64,
}

/// The load of a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Items in a tree of directories.
    Mdtest(mdtest::Options),
    /// Transfers to and from files.
    Ior(ior::Options),
}

/// Message to a worker.
pub type Order = crate::worker::Order<PosixStep>;

/// A phase of either benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PosixStep {
    /// A step of mdtest.
    Mdtest(mdtest::MdtestStep),
    /// A step of ior.
    Ior(ior::IorStep),
}

/// The reply of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// The parts of the phase: one of mdtest; opening, transfers and closing of ior.
    pub parts: Vec<Measured>,
    /// Peak resident memory of the process in bytes, with shared memory.
    pub peak_bytes: u64,
    /// Private memory at the end of the phase in bytes.
    pub own_bytes: u64,
}

/// The state of a process.
pub struct Worker(Session);

enum Session {
    Mdtest(mdtest::Session),
    Ior(ior::Session),
}

impl Work for Worker {
    type Job = Job;
    type Step = Order;
    type Done = Done;

    fn begin(job: Job) -> Result<Self> {
        job.cpu.map_or(Ok(()), pin::to)?;
        Ok(Self(match job.load.clone() {
            Load::Mdtest(options) => Session::Mdtest(mdtest::Session::new(&job, options)?),
            Load::Ior(options) => Session::Ior(ior::Session::new(&job, options)?),
        }))
    }

    fn take(&mut self, order: Order) -> Result<Done> {
        match order {
            Order::Prepare(step) => self.0.prepare(&step).map(|()| Done::default()),
            Order::Begin { step, start_ns } => {
                wait_until(start_ns);
                Ok(Done::with(self.0.run(&step)?))
            }
        }
    }
}

impl Session {
    fn prepare(&mut self, step: &PosixStep) -> Result<()> {
        match (self, step) {
            (Self::Mdtest(session), PosixStep::Mdtest(step)) => session.prepare(step),
            (Self::Ior(session), PosixStep::Ior(step)) => session.prepare(step),
            _ => return Err(foreign()),
        }
        Ok(())
    }

    fn run(&mut self, step: &PosixStep) -> Result<Vec<Measured>> {
        match (self, step) {
            (Self::Mdtest(session), PosixStep::Mdtest(step)) => Ok(vec![session.run(step)?]),
            (Self::Ior(session), PosixStep::Ior(step)) => session.run(step),
            _ => Err(foreign()),
        }
    }
}

#[cold]
fn foreign() -> Error {
    Error::new(ErrorKind::Invalid, "a step of another benchmark")
}

impl Done {
    /// Adds the memory use of this process.
    fn with(parts: Vec<Measured>) -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let (peak_bytes, own_bytes) = (bytes_in(&status, "VmHWM"), bytes_in(&status, "RssAnon"));
        Self { parts, peak_bytes, own_bytes }
    }
}

/// A size in `/proc/self/status`; 0 if it is missing.
fn bytes_in(status: &str, name: &str) -> u64 {
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = value.and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests;
