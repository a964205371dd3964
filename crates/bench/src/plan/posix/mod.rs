//! `esker bench mdtest` and `esker bench ior`: the same work on a file system and, in turns with it, on
//! plain memory and on the disk of this machine.
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
pub use ior::IorPlan;
pub use mdtest::MdtestPlan;
pub use outcome::{Line, Outcome, Rates, Repeat, Repeated, Sample};
pub use site::{Beside, Site, Sites, Subject};
pub use table::{TablePlan, Tabled};

use super::together;
use crate::fleet::Fleet;
use crate::pin::Pin;
use crate::posix::worker::{Done, Job, Load, PosixStep};
use esker_types::{Error, ErrorKind, Result};

/// Most iterations.
pub const ITERATIONS_MAX: u32 = 1000;

/// What both benchmarks are told besides their work.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Processes at once.
    pub procs: u32,
    /// How often all is repeated.
    pub iterations: u32,
    /// Pause before each iteration.
    pub delay_s: u32,
    /// The stonewall: writing ends after this time.
    pub stonewall_s: Option<f64>,
    /// What the data is made from.
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

    fn pause(&self) -> Result<()> {
        for _ in 0..self.delay_s {
            crate::interrupt::check()?;
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
        Ok(())
    }
}

/// The processes of all sites, as many for each. They last for the whole benchmark and take turns.
pub(super) struct Crew {
    fleets: Vec<Fleet>,
    procs: u32,
    /// The most memory any process of a site had: all of it, and what is its own at the end of a phase.
    memory: Vec<(u64, u64)>,
}

impl Crew {
    pub(super) fn start(setting: &Setting, sites: &[Site], load: &Load) -> Result<Self> {
        let cpus = setting.pin.order()?;
        let cpu = |rank: u32| cpus.get(rank as usize % cpus.len().max(1)).copied();
        let start = |site: &Site| {
            let job = |rank| Job {
                rank,
                procs: setting.procs,
                cpu: cpu(rank),
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

    /// Has all processes of a site do the same.
    pub(super) fn all(&mut self, site: usize, step: PosixStep) -> Result<Vec<Done>> {
        self.each(site, &vec![step; self.procs as usize])
    }

    /// Has each process of a site do something of its own, all at the same time.
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
