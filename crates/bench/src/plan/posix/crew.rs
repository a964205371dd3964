//! The processes of all sites. They are there for the whole benchmark and take turns.
use super::super::together;
use super::{Setting, Site};
use crate::fleet::Fleet;
use crate::posix::worker::{Done, Job, Load, Step};
use esker_types::Result;

/// As many processes for each site.
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
    pub(super) fn all(&mut self, site: usize, step: Step) -> Result<Vec<Done>> {
        self.each(site, &vec![step; self.procs as usize])
    }

    /// Has each process of a site do something of its own, all at the same time.
    pub(super) fn each(&mut self, site: usize, steps: &[Step]) -> Result<Vec<Done>> {
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
