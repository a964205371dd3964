//! `esker bench limit`: the limit of the medium.
use super::{Note, add, check, start_processes};
use crate::host::Host;
use crate::job::{Job, LoadStep};
use crate::measure::Tally;
use crate::processes::Launcher;
use crate::report::{Report, Run, RunName, Settings};
use esker_types::Result;
use serde_json::json;
use std::path::PathBuf;

/// Plan of `esker bench limit`, which measures a medium.
#[derive(Clone, Debug)]
pub struct LimitPlan {
    /// How to start processes.
    pub launcher: Launcher,
    /// A folder on the medium.
    pub folder: PathBuf,
    /// Bytes per block, one set of runs for each.
    pub sizes: Vec<u64>,
    /// Processes at once, one set of runs for each.
    pub procs: Vec<u32>,
    /// Size of the files of all processes together.
    pub total_bytes: u64,
    /// Duration of each phase in seconds.
    pub seconds: f64,
}

const PHASES: [LoadStep; 3] = [LoadStep::Pwrite, LoadStep::Pread, LoadStep::Memcpy];

impl LimitPlan {
    /// Runs the benchmark.
    ///
    /// # Errors
    /// If the directory cannot be written, or an option is invalid.
    pub fn run(&self, note: Note<'_>) -> Result<Report> {
        check(&self.sizes, &self.procs)?;
        let host = Host::for_folder(&self.folder)?;
        let mut runs = Vec::new();
        for &procs in &self.procs {
            for &size in &self.sizes {
                note("touching the file");
                self.measure(procs, size, host.medium == "block", note, &mut runs)?;
            }
        }
        Ok(Report::new(host, self.settings(), runs))
    }

    /// Syncs are measured on block media only.
    fn measure(
        &self,
        procs: u32,
        size: u64,
        synced: bool,
        note: Note<'_>,
        runs: &mut Vec<Run>,
    ) -> Result<()> {
        let mut processes = start_processes(&self.launcher, &self.job(procs, size))?;
        for step in PHASES.into_iter().chain(synced.then_some(LoadStep::PwriteSync)) {
            note(step.name());
            let mut tally = Tally::default();
            add(&mut tally, &mut processes, step)?;
            let name = RunName {
                store: "medium",
                workload: "limit",
                phase: step.name(),
                procs,
                size_bytes: size,
            };
            runs.push(Run::new(&name, &tally, None));
        }
        Ok(())
    }

    fn job(&self, procs: u32, size: u64) -> Job {
        Job {
            rank: 0,
            procs,
            size_bytes: size,
            ops: (self.total_bytes / u64::from(procs) / size).max(1),
            seed: 0,
            folder: self.folder.clone(),
            seconds: Some(self.seconds),
            store: None,
        }
    }

    fn settings(&self) -> Settings {
        let options = json!({"total_bytes": self.total_bytes, "seconds": self.seconds});
        Settings::new(0, options)
    }
}
