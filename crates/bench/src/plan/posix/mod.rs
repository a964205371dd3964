//! `esker bench mdtest` and `esker bench ior`: the same work on a file system, on tmpfs and on a disk, alternating.
mod command;
mod container;
mod file_systems;
mod genuine;
mod ior;
mod mdtest;
mod outcome;
mod peer;
mod table;

pub use super::lines::{Line, Repeat, Repeated, Sample};
pub use container::DfsSubject;
pub(crate) use file_systems::second_medium;
pub use file_systems::{Baselines, FileSystem, FileSystems, Subject};
pub use genuine::Genuine;
pub use ior::{Ior, IorPlan};
pub use mdtest::{Mdtest, MdtestPlan};
pub use outcome::Outcome;
pub use peer::Peer;
pub use table::TablePlan;
pub(crate) use table::{ABOUT, Row, cells};

use super::{Note, check, check_repetitions};
use crate::job::{Member, WARM_UP};
use crate::pin::Pin;
use crate::posix::{Done, Job};
use crate::processes::{Processes, WorkerKind};
use esker_types::Result;
use serde::Serialize;
use serde_json::Value;

/// Maximum number of iterations.
pub const ITERATIONS_MAX: u32 = 1000;

/// Settings that both benchmarks share.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Processes at once.
    pub procs: u32,
    /// Number of repetitions.
    pub iterations: u32,
    /// Pause before each iteration.
    pub delay_s: u32,
    /// The stonewall: end writing after this time; 0 for none.
    pub stonewall_s: u32,
    /// Seed of the data.
    pub seed: u64,
    /// How processes are placed.
    pub pin: Pin,
}

impl Setting {
    fn check(&self) -> Result<()> {
        check(&[1], &[self.procs])?;
        check_repetitions("iterations -i", self.iterations, ITERATIONS_MAX)
    }

    /// The time limit of a phase in seconds, if there is one.
    fn stonewall(&self) -> Option<f64> {
        (self.stonewall_s > 0).then(|| f64::from(self.stonewall_s))
    }

    /// Calls `work` with the number of each iteration, after a pause. If `warm_up`, the first number is [`WARM_UP`], an
    /// iteration that is not recorded.
    fn iterate(&self, warm_up: bool, mut work: impl FnMut(u32) -> Result<()>) -> Result<()> {
        let first = if warm_up { WARM_UP } else { 1 };
        (first..=self.iterations).try_for_each(|iteration| {
            self.pause()?;
            work(iteration)
        })
    }

    /// Reports the progress of an iteration.
    fn report_progress(&self, iteration: u32, what: &str, note: Note<'_>) {
        match iteration {
            WARM_UP => note(&format!("warming up: {what}")),
            _ => note(&format!("iteration {iteration} of {}: {what}", self.iterations)),
        }
    }

    /// Combines the measurements of all file systems. Operations have `size_bytes`. `told` are the options for the
    /// report.
    fn outcome(
        &self,
        (workload, size_bytes): (&'static str, u64),
        systems: &FileSystems,
        lines: impl IntoIterator<Item = Line>,
        told: &Value,
    ) -> Outcome {
        Outcome {
            workload,
            procs: self.procs,
            size_bytes,
            systems: systems.all.clone(),
            missing: systems.missing.clone(),
            host: systems.host.clone(),
            settings: systems.settings(self.seed, told),
            lines: lines.into_iter().filter(|line| !line.rates(0).is_empty()).collect(),
            notes: Vec::new(),
        }
    }

    /// Waits `delay_s` seconds before an iteration. Fails if the user interrupts the program.
    fn pause(&self) -> Result<()> {
        for _ in 0..self.delay_s {
            crate::interrupt::check()?;
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
        Ok(())
    }
}

/// The processes of all systems, the same number for each. They run for the complete benchmark and alternate.
pub(super) struct Workers<S> {
    processes: Vec<Processes<S, Done>>,
    /// Per system, the maximum over its processes: peak memory, and private memory at the end of a phase.
    memory: Vec<(u64, u64)>,
}

impl<S: Copy + Serialize> Workers<S> {
    /// Starts the processes of all systems.
    pub(super) fn start<O: Clone + Serialize>(
        kind: WorkerKind,
        setting: &Setting,
        systems: &[FileSystem],
        options: &O,
    ) -> Result<Self> {
        let cpus = setting.pin.order()?;
        let start = |system: &FileSystem| {
            let location = &system.location;
            let job = |member| Job { member, location: location.clone(), options: options.clone() };
            let jobs = Member::all(setting.procs, setting.seed, &cpus).map(job);
            Processes::start(&system.launcher.clone().with_kind(kind), jobs)
        };
        let processes = systems.iter().map(start).collect::<Result<Vec<_>>>()?;
        Ok(Self { memory: vec![(0, 0); processes.len()], processes })
    }

    /// Makes all processes of a system take the same step.
    pub(super) fn all(&mut self, system: usize, step: S) -> Result<Vec<Done>> {
        self.each(system, &vec![step; self.processes[system].count()])
    }

    /// Makes each process of a system take its own step, all at the same time.
    pub(super) fn each(&mut self, system: usize, steps: &[S]) -> Result<Vec<Done>> {
        let done = self.processes[system].together(steps)?;
        let (peak, own) = &mut self.memory[system];
        for one in &done {
            (*peak, *own) = ((*peak).max(one.peak_bytes), (*own).max(one.own_bytes));
        }
        Ok(done)
    }
}
