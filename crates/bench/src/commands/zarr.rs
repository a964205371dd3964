//! `esker bench zarr`: the zarr store of the Python package beside zarr's own.
use super::{JsonFile, OwnArgs, launcher};
use clap::Args;
use esker::types::Result;
use esker_bench::pin::Pin;
use esker_bench::plan::ZarrPlan;
use esker_cli::output::{Answer, with_spinner};
use esker_cli::units::Bytes;
use serde_json::json;
use std::path::PathBuf;

const ABOUT: &str = "\
Processes of Python keep arrays in `esker.zarr.Store`, in a container of a temporary pool, and in zarr's LocalStore, in a \
directory on the same medium. Both stores alternate. Each process has an array of bytes without compression, and

  write    makes the array and writes it as a whole
  read     opens the array of the next process, reads it as a whole, and compares it (the comparison is not measured)
  list     lists the keys of that array
  commit   replaces 16 chunks in a transaction, and commits it, until all chunks are replaced; a LocalStore has no
           commits, there the same chunks are replaced one by one

zarr does the same with both stores: it divides an array into chunks, and reads and writes several of them at once. The time \
of a phase runs from the first start to the last end. One iteration warms up the memory of the pool; files of a LocalStore \
are new each time, as in other programs. A version is kept for each commit of an iteration.

The Python that --python names must have the packages zarr and esker.

Examples:
  esker bench zarr --python ~/venv/bin/python
  esker bench zarr --procs 1,2 --size 64KiB,1MiB --total 256MiB -i 9 --json zarr.json";

/// Measure the zarr store of the Python package beside zarr's own in a directory
#[derive(Args)]
#[command(after_long_help = ABOUT)]
pub(crate) struct Zarr {
    /// Number of processes, or several numbers, separated by commas
    #[arg(
        long,
        visible_alias = "np",
        value_name = "N",
        default_value = "1",
        value_delimiter = ','
    )]
    procs: Vec<u32>,
    /// Size of a chunk, or several sizes, separated by commas
    #[arg(long, value_name = "SIZE", default_value = "64KiB,1MiB", value_delimiter = ',')]
    size: Vec<Bytes>,
    /// Size of the array of a process
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    total: Bytes,
    /// Number of iterations
    #[arg(short = 'i', long, value_name = "N", default_value_t = 5)]
    iterations: u32,
    /// Python interpreter that has zarr and esker
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: PathBuf,
    #[command(flatten)]
    own: OwnArgs,
    /// Seed of the data
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Pin processes to processors: alternate between sockets, fill one socket first, or do not pin
    #[arg(long, value_name = "HOW", default_value = "none")]
    pin: Pin,
    #[command(flatten)]
    json: JsonFile,
}

impl Zarr {
    pub(crate) fn run(self) -> Result<Answer> {
        self.json.check()?;
        let plan = ZarrPlan {
            launcher: launcher("worker")?,
            own: self.own.pool(),
            python: self.python,
            procs: self.procs,
            sizes: self.size.iter().map(|size| size.0).collect(),
            array_bytes: self.total.0,
            iterations: self.iterations,
            seed: self.seed,
            pin: self.pin,
        };
        let outcome = with_spinner(|note| plan.run(note))?;
        self.json.answer_with(json!(outcome.report()), outcome.to_string())
    }
}
