//! The processes: workers archive and retrieve, watchers read new fields.
use super::super::together;
use crate::fields::Phase;
use crate::fields::grib::Messages;
use crate::fields::keys::FORECAST;
use crate::fields::worker::{Done, FieldsStep, Job};
use crate::pin::cpu_of;
use crate::processes::{Launcher, Processes, WorkerKind};
use esker_types::{Error, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The Python program of the peer.
const PROGRAM: &str = include_str!("../../fields/peer.py");

pub(super) struct Workers {
    processes: Processes,
    workers: u32,
    watchers: u32,
}

/// The store of a Python process: that of the peer, or the one that the other workers filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum From {
    Pyfdb,
    Esker,
}

/// The job of a Python process.
#[derive(Serialize)]
struct PythonJob {
    #[serde(flatten)]
    job: Job,
    store: From,
    forecast: BTreeMap<&'static str, &'static str>,
    /// Offset and length of each GRIB message.
    messages: Vec<(usize, usize)>,
}

fn one(job: &Job, rank: u32, cpus: &[u32]) -> Job {
    Job { rank, cpu: cpu_of(cpus, rank), ..job.clone() }
}

impl Workers {
    /// Starts a worker for each process of the job, and the watchers, with environment variables in addition.
    pub(super) fn start(
        variables: Vec<(String, String)>,
        job: &Job,
        watchers: u32,
        cpus: &[u32],
    ) -> Result<Self> {
        let launcher = Launcher { variables, ..Launcher::for_kind(WorkerKind::Fields)? };
        let jobs: Vec<_> = (0..job.procs + watchers).map(|rank| one(job, rank, cpus)).collect();
        Ok(Self { processes: Processes::start(&launcher, &jobs)?, workers: job.procs, watchers })
    }

    /// Starts workers in Python, which do all the work on a real FDB, or read the store. There are no watchers.
    pub(super) fn python(
        python: &Path,
        store: From,
        job: &Job,
        messages: &Messages,
        cpus: &[u32],
    ) -> Result<Self> {
        let launcher = crate::python::launcher(python, PROGRAM);
        let forecast: BTreeMap<_, _> = FORECAST.into_iter().collect();
        let told = |rank| PythonJob {
            job: one(job, rank, cpus),
            store,
            forecast: forecast.clone(),
            messages: messages.clone().share(rank, job.procs).ranges(),
        };
        let jobs: Vec<_> = (0..job.procs).map(told).collect();
        let workers = jobs.len() as u32;
        let processes = Processes::start(&launcher, &jobs).map_err(|error| {
            let (name, how) = match store {
                From::Pyfdb => ("pyfdb", "`pip install pyfdb`"),
                From::Esker => ("esker", "`make wheel` and `pip install` it"),
            };
            let remedy = format!("{how}, and name the Python that has it by --python");
            Error::new(error.kind(), format!("{name}: {error} ({remedy})"))
        })?;
        Ok(Self { processes, workers, watchers: 0 })
    }

    /// Makes all workers enter a phase at the same time.
    pub(super) fn all(&mut self, phase: Phase, round: u32) -> Result<Vec<Done>> {
        self.take(phase, Phase::Rest, round).map(|(done, _)| done)
    }

    /// Makes workers archive and watchers read. Returns the replies of both.
    pub(super) fn watched(&mut self, round: u32) -> Result<(Vec<Done>, Vec<Done>)> {
        self.take(Phase::ArchiveWatched, Phase::Watch, round)
    }

    fn take(&mut self, work: Phase, watch: Phase, round: u32) -> Result<(Vec<Done>, Vec<Done>)> {
        let workers = (0..self.workers).map(|_| work);
        let phases = workers.chain((0..self.watchers).map(|_| watch));
        let steps: Vec<_> = phases.map(|phase| FieldsStep { phase, round }).collect();
        let mut done = together(&mut self.processes, &steps)?;
        let seen = done.split_off(self.workers as usize);
        Ok((done, seen))
    }
}
