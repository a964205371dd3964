//! One process of `mdtest` or `ior`.
use super::FileLocation;
use crate::job::Member;
use crate::measure::Measured;
use crate::worker::Work;
use esker_types::Result;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The job of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job<O> {
    /// The process.
    pub member: Member,
    /// Location of its files.
    pub location: FileLocation,
    /// The options of the benchmark.
    pub options: O,
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

/// The work of either benchmark.
pub trait Session: Sized {
    /// The options, the same for all processes.
    type Options: DeserializeOwned;
    /// A phase of one process.
    type Step: DeserializeOwned;

    /// Prepares the job.
    ///
    /// # Errors
    /// If the file system cannot be opened.
    fn new(job: Job<Self::Options>) -> Result<Self>;

    /// Prepares a step, before its time starts.
    fn prepare(&mut self, step: &Self::Step);

    /// Takes a step. Returns the times of its parts.
    ///
    /// # Errors
    /// Errors of the file system, and data that is not what was written.
    fn run(&mut self, step: &Self::Step) -> Result<Vec<Measured>>;
}

/// The state of a process.
pub struct Worker<S>(S);

impl<S: Session> Work for Worker<S> {
    type Job = Job<S::Options>;
    type Step = S::Step;
    type Done = Done;

    fn begin(job: Self::Job) -> Result<Self> {
        job.member.pin()?;
        S::new(job).map(Self)
    }

    fn prepare(&mut self, step: &S::Step) -> Result<()> {
        self.0.prepare(step);
        Ok(())
    }

    /// The reply has the memory use of this process.
    fn take(&mut self, step: S::Step) -> Result<Done> {
        let parts = self.0.run(&step)?;
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let (peak_bytes, own_bytes) = (bytes_in(&status, "VmHWM"), bytes_in(&status, "RssAnon"));
        Ok(Done { parts, peak_bytes, own_bytes })
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
