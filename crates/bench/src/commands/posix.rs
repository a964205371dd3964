//! `esker bench posix`: file operations beside tmpfs and a disk.
use super::report;
use super::{JsonFile, OwnArgs, launcher};
use clap::Args;
use esker::types::Result;
use esker_bench::pin::Pin;
use esker_bench::plan::posix::{Baselines, TablePlan};
use esker_cli::output::{Answer, with_spinner};
use esker_cli::units::Bytes;
use std::path::PathBuf;

const ABOUT: &str = "\
Prints one table of file operations: creating, examining and removing empty files in one directory; transfers of 8 KiB \
and 1 MiB to one file per process and to a shared file; and the latency of each for one process. They are measured on \
memory (tmpfs), on the disk, and on a file system in a container of a temporary pool in memory: by the library \
(DFS), through `esker run`, and through `esker mount` if mounting is possible. All alternate phase by phase. All data that \
is read is compared with what was written, in unmeasured passes. The goals of this project stand beside the ratios to \
tmpfs.

Examples:
  esker bench posix -o files.html --json files.json
  esker bench posix --engine --files 5000 --small 32M --large 128M
  esker bench posix --files 1000 --small 4M --large 16M -i 1";

/// Measure file operations on a container, on tmpfs and on a disk
#[derive(Args)]
#[command(after_long_help = ABOUT)]
pub(crate) struct Posix {
    /// Number of processes
    #[arg(long, visible_alias = "np", value_name = "N", default_value_t = 2)]
    procs: u32,
    /// Number of iterations
    #[arg(short = 'i', value_name = "N", default_value_t = 5)]
    iterations: u32,
    /// Number of files of each process
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    files: u64,
    /// Bytes that each process writes in transfers of 8 KiB
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    small: Bytes,
    /// Bytes that each process writes in transfers of 1 MiB
    #[arg(long, value_name = "SIZE", default_value = "512MiB")]
    large: Bytes,
    /// Reach the pool through one engine only, over TCP on loopback, as from another node; omit esker mount
    #[arg(long, conflicts_with = "no_write_buffer")]
    engine: bool,
    /// Omit esker run and esker mount
    #[arg(long)]
    only_dfs: bool,
    /// HTML page with a plot to write
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    own: OwnArgs,
    /// Directory in memory for the comparison [default: /dev/shm]
    #[arg(long, value_name = "DIR")]
    tmpfs: Option<PathBuf>,
    /// Directory on a disk for the comparison [default: the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
    /// Seed of the data
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Pin processes to processors: alternate between sockets, fill one socket first, or do not pin
    #[arg(long, value_name = "HOW", default_value = "sockets")]
    pin: Pin,
    #[command(flatten)]
    json: JsonFile,
}

impl Posix {
    pub(crate) fn run(self) -> Result<Answer> {
        self.json.check()?;
        let plan = TablePlan {
            launcher: launcher("posix-worker")?,
            own: self.own.pool(),
            beside: Baselines { nothing: false, memory: self.tmpfs, disk: self.disk },
            engine: self.engine,
            only_dfs: self.only_dfs,
            procs: self.procs,
            iterations: self.iterations,
            files: self.files,
            small_bytes: self.small.0,
            large_bytes: self.large.0,
            seed: self.seed,
            pin: self.pin,
        };
        let table = with_spinner(|note| plan.run(note))?;
        if let Some(output) = &self.output {
            report::write(&esker_bench::plots::posix::page(&table.report())?, output, None)?;
        }
        self.json.answer_with(table.report(), table.to_string())
    }
}
