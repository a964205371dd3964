//! The benchmarks, from their settings to their reports.
pub mod compare;
pub mod engine;
pub mod fields;
pub mod growth;
pub mod limit;
mod lines;
mod location;
pub mod parallel;
pub mod posix;
pub mod rados;
pub mod s3;
pub(crate) mod scratch;
pub mod store;
pub mod tensors;
pub mod tx;
pub mod work_dir;
pub mod zarr;

pub use compare::Comparison;
pub use engine::EnginePlan;
pub use fields::FieldsPlan;
pub use growth::GrowthPlan;
pub use limit::LimitPlan;
pub use parallel::{Fields, ParallelOptions, ParallelPlan, Subject};
pub use rados::RadosPlan;
pub use s3::S3Plan;
pub use scratch::{OwnPool, memory_or_temporary};
pub use store::{ArrayPlan, BenchPool, KvPlan, Plan};
pub use tensors::TensorsPlan;
pub use tx::TxPlan;
pub use zarr::ZarrPlan;

use crate::errors::ensure_valid;
use crate::job::{Job, LoadStep, Member};
use crate::measure::{Measured, Tally};
use crate::processes::{Processes, WorkerKind};
use crate::report::{Report, Run, RunName};
use esker_cli::units::Bytes;
use esker_types::Result;
use serde_json::{Value, json};

/// A benchmark whose options are its plan.
pub trait Benchmark {
    /// Runs the benchmark.
    ///
    /// # Errors
    /// If an option is invalid, the pool cannot be created or opened, or is too small; errors of the store;
    /// [`ErrorKind::Corrupt`] if data is compared and is not that written.
    fn run(&self, note: Note<'_>) -> Result<Measurement>;
}

/// Result of a benchmark.
pub struct Measurement {
    /// The report.
    pub report: Value,
    /// The report as text.
    pub text: String,
}

impl From<Report> for Measurement {
    fn from(report: Report) -> Self {
        Self { report: json!(report), text: report.to_string() }
    }
}

/// Value parser for a size.
///
/// # Errors
/// If this is not a size, with examples of one.
pub fn parse_size(text: &str) -> std::result::Result<u64, String> {
    text.parse().map(|Bytes(bytes)| bytes)
}

/// Reads the number of processes of a benchmark that takes one number.
///
/// # Errors
/// If it is not a number; a list of several gets the remedy.
pub(crate) fn parse_procs(text: &str) -> std::result::Result<u32, String> {
    match text.contains(',') {
        true => Err("this benchmark takes one number of processes: run it once for each".into()),
        false => text.parse().map_err(|_| "a number of processes such as 2 is expected".into()),
    }
}

/// Receives progress messages.
pub type Note<'n> = &'n mut dyn FnMut(&str);

/// Maximum number of processes of one benchmark.
pub const PROCS_MAX: u32 = 1024;

/// Checks sizes and numbers of processes.
fn check(sizes: &[u64], procs: &[u32]) -> Result<()> {
    ensure_valid(!sizes.is_empty() && !sizes.contains(&0), || "a size must be at least one byte")?;
    let is_valid = !procs.is_empty() && procs.iter().all(|procs| (1..=PROCS_MAX).contains(procs));
    ensure_valid(is_valid, || format!("the number of processes must be 1 to {PROCS_MAX}"))
}

/// Checks the options `--rounds` and `--ops`.
fn check_rounds(rounds: u32, ops: Option<u64>) -> Result<()> {
    ensure_valid(rounds > 0 && ops != Some(0), || "rounds and operations must be at least 1")
}

/// Checks the number of repetitions, an option with this name.
fn check_repetitions(name: &str, number: u32, most: u32) -> Result<()> {
    ensure_valid((1..=most).contains(&number), || {
        format!("the number of {name} must be 1 to {most}")
    })
}

/// Processes that store and read blocks, and measure the limit of the medium.
type LoadProcesses = Processes<LoadStep, Measured>;

/// Starts the processes of a job, one for each rank, which run on `cpus` in turn.
fn start_processes(job: &Job, cpus: &[u32]) -> Result<LoadProcesses> {
    let members = Member::all(job.member.procs, job.member.seed, cpus);
    LoadProcesses::launch(WorkerKind::Load, members.map(|member| Job { member, ..job.clone() }))
}

/// Writing and reading, each with its limit.
#[derive(Clone, Default)]
struct Tallies {
    write_limit: Tally,
    write: Tally,
    read_limit: Tally,
    read: Tally,
}

impl Tallies {
    /// The four runs of the report. `phases` are their names: limit of writing, writing, limit of reading, reading.
    fn runs<'n>(&self, store: RunName<'n>, phases: [&'n str; 4]) -> [Run; 4] {
        let medium = |name, tally| Run::new(&RunName { store: "medium", ..name }, tally, None);
        let [write_limit, write, read_limit, read] = phases.map(|phase| RunName { phase, ..store });
        [
            medium(write_limit, &self.write_limit),
            Run::new(&write, &self.write, Some(&self.write_limit)),
            medium(read_limit, &self.read_limit),
            Run::new(&read, &self.read, Some(&self.read_limit)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_types::ErrorKind;

    #[test]
    fn invalid_options_are_refused() {
        assert!(check(&[1], &[1, 1024]).is_ok());
        for (sizes, procs) in
            [(&[0][..], &[1][..]), (&[], &[1]), (&[1], &[]), (&[1], &[0]), (&[1], &[1025])]
        {
            assert_eq!(check(sizes, procs).unwrap_err().kind(), ErrorKind::Invalid);
        }
    }
}
