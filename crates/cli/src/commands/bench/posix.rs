//! `esker bench posix`.
use super::parallel::PinArg;
use super::{JsonFile, OwnArgs, launcher};
use crate::commands::report;
use crate::output::Answer;
use crate::progress::Bar;
use clap::Args;
use esker::types::Result;
use esker_bench::plan::posix::{Beside, TablePlan};
use esker_bench::units::Bytes;
use std::path::PathBuf;

const ABOUT: &str = "\
One table of what programs do with files: empty files made, looked at and removed in one directory; transfers \
of 8 KiB and 1 MiB to a file of each process and to one of all; and how long one process waits for each. It \
is measured on plain memory (tmpfs), on the disk, and on a file system in a container, of a pool that is \
made in memory and removed: by the library (DFS), through `esker run`, and through `esker mount` where that \
works. All take turns, phase by phase. Everything that is read is compared with what was written, in \
passes that are not measured. Beside the ratios to tmpfs stand the goals of this project.

Examples:
  esker bench posix -o files.html --json files.json
  esker bench posix --files 1000 --small 4M --large 16M -i 1";

/// Measure all that programs do with files, beside tmpfs and the disk
#[derive(Args)]
#[command(after_long_help = ABOUT)]
pub(crate) struct Posix {
    /// Processes
    #[arg(long, visible_alias = "np", value_name = "N", default_value_t = 2)]
    procs: u32,
    /// How often all is repeated
    #[arg(short = 'i', value_name = "N", default_value_t = 5)]
    iterations: u32,
    /// Files of each process
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    files: u64,
    /// Bytes that each process writes in transfers of 8 KiB
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    small: Bytes,
    /// Bytes that each process writes in transfers of 1 MiB
    #[arg(long, value_name = "SIZE", default_value = "512MiB")]
    large: Bytes,
    /// Leave out esker run and esker mount
    #[arg(long)]
    only_dfs: bool,
    /// Page to write, with a plot
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    own: OwnArgs,
    /// Folder in memory for the comparison [default: /dev/shm]
    #[arg(long, value_name = "DIR")]
    tmpfs: Option<PathBuf>,
    /// Folder on a disk for the comparison [default: where temporary files go]
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
    /// What the data is made from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Processors that processes are pinned to: sockets in turn, all cores of a socket first, or none
    #[arg(long, value_name = "HOW", default_value = "sockets")]
    pin: PinArg,
    #[command(flatten)]
    json: JsonFile,
}

impl Posix {
    pub(crate) fn run(self) -> Result<Answer> {
        self.json.check()?;
        let plan = TablePlan {
            launcher: launcher("posix-worker")?,
            own: self.own.pool(),
            beside: Beside { nothing: false, memory: self.tmpfs, disk: self.disk },
            only_dfs: self.only_dfs,
            procs: self.procs,
            iterations: self.iterations,
            files: self.files,
            small_bytes: self.small.0,
            large_bytes: self.large.0,
            seed: self.seed,
            pin: self.pin.into(),
        };
        let bar = Bar::spinner();
        let table = plan.run(&mut |what| bar.say(what))?;
        drop(bar);
        if let Some(output) = &self.output {
            report::write(&table.page()?, output, None)?;
        }
        self.json.answer_with(table.report(), table.to_string())
    }
}
