//! The processes: those that archive and retrieve, and those that only watch.
use super::super::soon;
use crate::fields::Phase;
use crate::fields::worker::{Done, Job, Order, Step};
use crate::fleet::{Fleet, Launcher};
use esker_types::Result;

pub(super) struct Crew {
    fleet: Fleet,
    workers: u32,
    watchers: u32,
}

impl Crew {
    /// As many workers as the job has processes, and watchers.
    pub(super) fn start(
        launcher: &Launcher,
        job: &Job,
        watchers: u32,
        cpus: &[u32],
    ) -> Result<Self> {
        let cpu = |rank: u32| cpus.get(rank as usize % cpus.len().max(1)).copied();
        let one = |rank| Job { rank, cpu: cpu(rank), ..job.clone() };
        let jobs: Vec<_> = (0..job.procs + watchers).map(one).collect();
        Ok(Self { fleet: Fleet::start(launcher, &jobs)?, workers: job.procs, watchers })
    }

    /// Has all workers do the same at the same time.
    pub(super) fn all(&mut self, phase: Phase, round: u32) -> Result<Vec<Done>> {
        self.take(phase, Phase::Rest, round).map(|(done, _)| done)
    }

    /// Has workers archive and watchers read; what each of them did.
    pub(super) fn watched(&mut self, round: u32) -> Result<(Vec<Done>, Vec<Done>)> {
        self.take(Phase::ArchiveWatched, Phase::Watch, round)
    }

    fn take(&mut self, work: Phase, watch: Phase, round: u32) -> Result<(Vec<Done>, Vec<Done>)> {
        let workers = (0..self.workers).map(|_| work);
        let phases = workers.chain((0..self.watchers).map(|_| watch));
        let steps: Vec<_> = phases.map(|phase| Step { phase, round }).collect();
        let prepare: Vec<_> = steps.iter().map(|&step| Order::Prepare(step)).collect();
        self.fleet.ask::<Done>(&prepare)?;
        let start_ns = soon(self.workers + self.watchers);
        let begin: Vec<_> = steps.iter().map(|&step| Order::Begin { step, start_ns }).collect();
        let mut done = self.fleet.ask(&begin)?;
        let seen = done.split_off(self.workers as usize);
        Ok((done, seen))
    }
}
