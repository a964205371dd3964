//! `esker bench mdtest` and `esker bench ior`: the same work on a file system, on tmpfs and on a disk, alternating.
mod container;
mod genuine;
mod ior;
mod mdtest;
mod outcome;
mod show;
mod site;
mod table;
mod through;

pub use container::DfsSubject;
pub use genuine::Genuine;
pub(in crate::plan) use genuine::on_path;
pub use ior::IorPlan;
pub use mdtest::MdtestPlan;
pub use outcome::{Line, Outcome, Repeat, Repeated, Sample};
pub use site::{Beside, Site, Sites, Subject};
pub use table::{TablePlan, Tabled};

use super::{Note, together};
use crate::fleet::Fleet;
use crate::pin::{Pin, cpu_of};
use crate::posix::worker::{Done, Job, Load, PosixStep};
use esker_types::{Error, ErrorKind, Result};
use serde_json::Value;

/// The iteration that is not measured.
const WARM_UP: u32 = 0;

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
    /// The stonewall: end writing after this time.
    pub stonewall_s: Option<f64>,
    /// Seed of the data.
    pub seed: u64,
    /// How processes are placed.
    pub pin: Pin,
}

impl Setting {
    fn check(&self) -> Result<()> {
        super::check(&[1], &[self.procs])?;
        match (1..=ITERATIONS_MAX).contains(&self.iterations) {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Invalid,
                format!("the number of iterations -i must be 1 to {ITERATIONS_MAX}"),
            )),
        }
    }

    /// Reports the progress of an iteration.
    fn say(&self, iteration: u32, what: &str, note: Note<'_>) {
        match iteration {
            WARM_UP => note(&format!("warming up: {what}")),
            _ => note(&format!("iteration {iteration} of {}: {what}", self.iterations)),
        }
    }

    /// What was measured on all sites, in operations of `size_bytes`.
    fn outcome(
        &self,
        (workload, size_bytes): (&'static str, u64),
        sites: &Sites,
        lines: impl IntoIterator<Item = Line>,
        told: &Value,
    ) -> Outcome {
        Outcome {
            workload,
            procs: self.procs,
            size_bytes,
            sites: sites.all.clone(),
            missing: sites.missing.clone(),
            host: sites.host.clone(),
            settings: sites.settings(self.seed, told),
            lines: lines.into_iter().filter(|line| !line.rates(0).is_empty()).collect(),
            notes: Vec::new(),
        }
    }

    fn pause(&self) -> Result<()> {
        for _ in 0..self.delay_s {
            crate::interrupt::check()?;
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
        Ok(())
    }
}

/// The processes of all sites, the same number for each. They run for the whole benchmark and alternate.
pub(super) struct Crew {
    fleets: Vec<Fleet>,
    procs: u32,
    /// Per site, the maximum over its processes: peak memory, and private memory at the end of a phase.
    memory: Vec<(u64, u64)>,
}

impl Crew {
    pub(super) fn start(setting: &Setting, sites: &[Site], load: &Load) -> Result<Self> {
        let cpus = setting.pin.order()?;
        let start = |site: &Site| {
            let job = |rank| Job {
                rank,
                procs: setting.procs,
                cpu: cpu_of(&cpus, rank),
                place: site.place.clone(),
                load: load.clone(),
                seed: setting.seed,
            };
            Fleet::start(&site.launcher, &(0..setting.procs).map(job).collect::<Vec<_>>())
        };
        let fleets = sites.iter().map(start).collect::<Result<Vec<_>>>()?;
        let memory = vec![(0, 0); fleets.len()];
        Ok(Self { fleets, procs: setting.procs, memory })
    }

    /// Makes all processes of a site take the same step.
    pub(super) fn all(&mut self, site: usize, step: PosixStep) -> Result<Vec<Done>> {
        self.each(site, &vec![step; self.procs as usize])
    }

    /// Makes each process of a site take its own step, all at the same time.
    pub(super) fn each(&mut self, site: usize, steps: &[PosixStep]) -> Result<Vec<Done>> {
        let Some(fleet) = self.fleets.get_mut(site) else { return Ok(Vec::new()) };
        let done: Vec<Done> = together(fleet, steps)?;
        let (peak, own) = &mut self.memory[site];
        for one in &done {
            (*peak, *own) = ((*peak).max(one.peak_bytes), (*own).max(one.own_bytes));
        }
        Ok(done)
    }

    pub(super) fn memory(&self) -> &[(u64, u64)] {
        &self.memory
    }
}
