//! `esker bench mdtest` and `esker bench ior`: the same work on a file system and, in turns with it, on
//! plain memory and on the disk of this machine.
mod container;
mod crew;
mod ior;
mod mdtest;
mod outcome;
mod show;
mod site;
mod table;
mod through;

pub use container::DfsSubject;
pub use ior::IorPlan;
pub use mdtest::MdtestPlan;
pub use outcome::{Line, Outcome, Rates, Repeat, Repeated, Sample};
pub use site::{Beside, Site, Sites, Subject};
pub use table::{TablePlan, Tabled};

use crate::pin::Pin;
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
