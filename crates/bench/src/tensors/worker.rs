//! One process of `tensors`.
use super::Part;
use super::session::Session;
use crate::clock::wait_until;
use crate::pin;
use crate::worker::Work;
use esker_types::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The job of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Number of the process, from 0.
    pub rank: u32,
    /// The rows of each process.
    pub part: Part,
    /// The processor to run on; any if not given.
    pub cpu: Option<u32>,
    /// The pool by its URL.
    pub pool: String,
    /// The container of the tensor store, which exists.
    pub container: String,
    /// Folder on the same medium for plain files.
    pub files: PathBuf,
    /// Seed of the data.
    pub seed: u32,
}

/// Operation of a process in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Do nothing while other processes work.
    Rest,
    /// Make the data of the round.
    Fill,
    /// pwrite to the file of this process, which has been written completely before.
    Pwrite,
    /// pread from it.
    Pread,
    /// Write the rows to a new file that all share.
    FilePut,
    /// Read the rows of the next process from it.
    FileGet,
    /// Remove it.
    FileRemove,
    /// Begin a PUT.
    Begin,
    /// Write the rows as a part of the PUT.
    Write,
    /// Commit the PUT.
    Commit,
    /// Open the tensor and read the rows of the next process.
    Get,
    /// Remove the tensor.
    Remove,
    /// Compare the rows that were read last with what their process wrote.
    Verify,
}

/// A message to a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Operation of the step.
    pub phase: Phase,
    /// Number of the round, which its data depend on.
    pub round: u32,
    /// The token of the PUT, for its writers.
    pub token: Option<String>,
    /// The common start, by the monotonic clock of the node; 0 for at once.
    pub start_ns: u64,
}

/// The reply of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Start of the step, end of open, end of transfer and end of close. In seconds of the
    /// monotonic clock.
    pub times_s: [f64; 4],
    /// The token of the PUT that was begun.
    #[serde(default)]
    pub token: Option<String>,
    /// Version and settings of the peer.
    #[serde(default)]
    pub about: Option<String>,
}

/// The state of a process.
pub struct Worker(Session);

impl Work for Worker {
    type Job = Job;
    type Step = Step;
    type Done = Done;

    fn begin(job: Job) -> Result<Self> {
        job.cpu.map_or(Ok(()), pin::to)?;
        Session::new(job).map(Self)
    }

    fn take(&mut self, step: Step) -> Result<Done> {
        wait_until(step.start_ns);
        self.0
            .take(&step)
            .map_err(|error| Error::new(error.kind(), format!("{:?}: {error}", step.phase)))
    }
}
