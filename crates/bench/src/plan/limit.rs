//! `esker bench limit`: the limit of the medium.
use super::{
    Benchmark, Measurement, Note, check, memory_or_temporary, parse_size, start_processes,
};
use crate::errors::ensure_valid;
use crate::host::Host;
use crate::job::{Job, LoadStep, Member};
use crate::measure::Tally;
use crate::report::{Report, Run, RunName, Settings};
use clap::Args;
use esker_types::Result;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Measure the limits of the medium: pwrite, pread and memcpy
///
/// Blocks are written to a file that was allocated and touched before; on block media, also with a sync after each.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = "Example:
  esker bench limit --path /dev/shm --size 8KiB,1MiB --procs 1,2")]
pub struct LimitPlan {
    /// Directory on the medium [default: /dev/shm, or the directory for temporary files]
    #[arg(long = "path", value_name = "DIR")]
    #[arg(default_value_os_t = memory_or_temporary(), hide_default_value = true)]
    pub folder: PathBuf,
    /// Block size, or several, separated by commas
    #[arg(long = "size", value_name = "SIZE", default_value = "1MiB", value_delimiter = ',')]
    #[arg(value_parser = parse_size)]
    pub sizes: Vec<u64>,
    /// Number of processes, or several numbers, separated by commas
    #[arg(long, value_name = "N", default_value = "1", value_delimiter = ',')]
    pub procs: Vec<u32>,
    /// Total size of the files of all processes
    #[arg(long = "total", value_name = "SIZE", default_value = "1GiB")]
    #[arg(value_parser = parse_size)]
    pub total_bytes: u64,
    /// Duration of each phase in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1")]
    pub seconds: f64,
}

impl Benchmark for LimitPlan {
    fn run(&self, note: Note<'_>) -> Result<Measurement> {
        check(&self.sizes, &self.procs)?;
        ensure_valid(Duration::try_from_secs_f64(self.seconds).is_ok(), || {
            let seconds = self.seconds;
            format!("--seconds {seconds} is not a duration: give a number of seconds from 0")
        })?;
        let host = Host::for_folder(&self.folder)?;
        let mut runs = Vec::new();
        for &procs in &self.procs {
            for &size in &self.sizes {
                note("touching the file");
                self.measure(procs, size, host.medium == "block", note, &mut runs)?;
            }
        }
        let options = json!({"total_bytes": self.total_bytes, "seconds": self.seconds});
        Ok(Report::new(host, Settings::new(0, options), runs).into())
    }
}

const PHASES: [LoadStep; 3] = [LoadStep::Pwrite, LoadStep::Pread, LoadStep::Memcpy];

impl LimitPlan {
    /// Measures all phases with this number of processes and size of blocks; writes with a sync only if `synced`.
    fn measure(
        &self,
        procs: u32,
        size_bytes: u64,
        synced: bool,
        note: Note<'_>,
        runs: &mut Vec<Run>,
    ) -> Result<()> {
        let mut processes = start_processes(&self.job(procs, size_bytes), &[])?;
        for step in PHASES.into_iter().chain(synced.then_some(LoadStep::PwriteSync)) {
            note(step.name());
            let tally = Tally::of_round(&processes.all(step)?);
            let (store, workload, phase) = ("medium", "limit", step.name());
            let name = RunName { store, workload, phase, procs, size_bytes };
            runs.push(Run::new(&name, &tally, None));
        }
        Ok(())
    }

    /// Job of the processes that measure the medium.
    fn job(&self, procs: u32, size: u64) -> Job {
        Job {
            member: Member { procs, ..Member::default() },
            size_bytes: size,
            ops: (self.total_bytes / u64::from(procs) / size).max(1),
            folder: self.folder.clone(),
            seconds: Some(self.seconds),
            ..Job::default()
        }
    }
}
