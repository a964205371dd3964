//! The processes on the tensor store.
use super::super::notice_ns;
use crate::clock::monotonic_ns;
use crate::pin::cpu_of;
use crate::processes::{Launcher, Processes, WorkerKind};
use crate::tensors::worker::{Done, Job, Phase, Step};
use esker_types::Result;

/// Times of a step over all processes: start, end of open, end of transfer and end of close, in seconds.
pub(super) type Times = [f64; 4];

pub(super) struct Workers(Processes);

impl Workers {
    pub(super) fn start(job: &Job, cpus: &[u32]) -> Result<Self> {
        let one = |rank| Job { rank, cpu: cpu_of(cpus, rank), ..job.clone() };
        Processes::start_ranks(&Launcher::for_kind(WorkerKind::Tensors)?, job.part.procs, one)
            .map(Self)
    }

    /// Makes all processes take a step at the same time.
    pub(super) fn all(&mut self, phase: Phase, round: u32) -> Result<Times> {
        let start_ns = self.start_ns();
        let step = Step { phase, round, token: None, start_ns };
        self.0.ask_all(step).map(|done: Vec<Done>| merged(&done))
    }

    /// Makes the first process take a step.
    pub(super) fn first(&mut self, phase: Phase, round: u32) -> Result<Done> {
        self.one(phase, round, 0)
    }

    /// The first process begins a PUT, all write their parts, and the first commits when all are done. Messages pass
    /// the token on and report completion; their time is included.
    pub(super) fn put(&mut self, round: u32) -> Result<Times> {
        let start_ns = self.start_ns();
        let begun = self.one(Phase::Begin, round, start_ns)?;
        let write = Step { phase: Phase::Write, round, token: begun.token, start_ns: 0 };
        let written = self.0.ask_all(write)?;
        let committed = self.first(Phase::Commit, round)?;
        let [first, .., last] = merged(&written);
        Ok([begun.times_s[0], first, last, committed.times_s[3]])
    }

    fn start_ns(&self) -> u64 {
        monotonic_ns() + notice_ns(self.0.count() as u64)
    }

    fn one(&mut self, phase: Phase, round: u32, start_ns: u64) -> Result<Done> {
        let step = |phase| Step { phase, round, token: None, start_ns };
        let mut steps = vec![step(Phase::Rest); self.0.count()];
        if let Some(first) = steps.first_mut() {
            *first = step(phase);
        }
        let done: Vec<Done> = self.0.ask(&steps)?;
        Ok(done.into_iter().next().unwrap_or_default())
    }
}

/// Earliest start, and latest of each of the other times, over all processes.
fn merged(done: &[Done]) -> Times {
    let at = |index: usize| done.iter().map(move |one| one.times_s[index]);
    let last = |index| at(index).fold(f64::NEG_INFINITY, f64::max);
    [at(0).fold(f64::INFINITY, f64::min), last(1), last(2), last(3)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_lasts_from_the_first_to_the_last() {
        let done = |times_s| Done { times_s, ..Done::default() };
        let both = [done([2.0, 3.0, 5.0, 6.0]), done([1.0, 4.0, 4.5, 7.0])];
        assert_eq!(merged(&both), [1.0, 4.0, 5.0, 7.0]);
    }
}
