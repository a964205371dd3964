//! Measurements by processes, size, phase, store and iteration.
use crate::host::Host;
use crate::plan::posix::Line;
use crate::report::{Report, Run, RunName, Settings};
use crate::zarr::Store;

/// Indexes of the stores.
pub(super) const SYSTEMS: [Store; 2] = [Store::Esker, Store::Local];
pub(super) const ESKER: usize = 0;
pub(super) const LOCAL: usize = 1;
const NAMES: [&str; SYSTEMS.len()] = ["esker", "local"];

/// All measurements of one call.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// By number of processes and size.
    pub cases: Vec<Case>,
    /// The machine.
    pub host: Host,
    /// Settings of the measurement.
    pub settings: Settings,
}

/// The measurements with one number of processes and one size.
#[derive(Clone, Debug)]
pub struct Case {
    /// Processes, each with an array of its own.
    pub procs: u32,
    /// Bytes of a chunk.
    pub size_bytes: u64,
    /// The phases.
    pub lines: Vec<Line>,
}

impl Outcome {
    /// One run for each phase and store.
    #[must_use]
    pub fn report(&self) -> Report {
        let runs = self.cases.iter().flat_map(Case::runs).collect();
        Report::new(self.host.clone(), self.settings.clone(), runs)
    }
}

impl Case {
    fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        let systems = 0..SYSTEMS.len();
        self.lines.iter().flat_map(move |line| systems.clone().map(|system| self.run(line, system)))
    }

    fn run(&self, line: &Line, system: usize) -> Run {
        let name = RunName {
            store: NAMES[system],
            workload: "zarr",
            phase: &line.phase,
            procs: self.procs,
            size_bytes: self.size_bytes,
        };
        line.run(&name, |system| NAMES[system], system, None)
    }
}
