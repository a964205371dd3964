//! `esker bench tensors`: the tensor store beside parallel HDF5.
use super::report;
use super::{JsonFile, OwnArgs, launcher};
use clap::Args;
use esker::types::Result;
use esker_bench::pin::Pin;
use esker_bench::plan::TensorsPlan;
use esker_bench::plan::tensors::Hdf5;
use esker_cli::output::{Answer, with_spinner};
use esker_cli::units::Bytes;
use serde_json::json;
use std::path::PathBuf;

const ABOUT: &str = "\
Several processes store one array together, and read it. The array has two dimensions and elements of 32 bits; each \
process has some of its rows. Weak scaling (--size) keeps the bytes of each process while there are more of them, strong \
scaling (--total) the bytes of the array.

PUT: the first process begins, all write their shares, and when all are done the first one commits. Its time runs from \
the beginning to the end of the commit, with the messages in between. GET: each process opens the tensor by its name and \
reads the rows of the next process. The pool is a temporary one in memory, which the processes open directly. Chunks are \
whole rows of up to 4 MiB, and no two processes write to one.

The same is done in the same iteration, on the same medium and with as many processes, by

  filled      parallel HDF5: one file that all share, with the same chunks, filled by default when they are allocated
  unfilled    the same with H5D_FILL_TIME_NEVER
  contiguous  the same without chunks, which HDF5 does not fill
  file        pwrite and pread of one new file that all share
  medium      pwrite and pread of a file for each process that was written before: the limit

For HDF5, a PUT runs from H5Fcreate to the end of H5Fclose, a GET from H5Fopen to it; nothing is synced. Its processes are \
ranks of MPI, and sleep while others are measured. The program is part of esker; it is compiled by h5pcc and started by \
mpirun of the same MPI, which Debian has in libhdf5-openmpi-dev and openmpi-bin. Without them its columns say absent, and \
the rest is measured. Open MPI refuses to work for root unless OMPI_ALLOW_RUN_AS_ROOT=1 and \
OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 are set.

Two iterations warm up the memory. All data that is read is compared with what was written, in unmeasured passes. Ratios \
are medians of the ratios of the iterations.

With -o, a page shows the figures of a paper of 2018 on the emulation of object stores for HPC (bandwidth against \
processes, best and worst configuration, time of the I/O) beside what was measured.

Examples:
  esker bench tensors
  esker bench tensors --procs 1,2,4 --size 16MiB,64MiB --total 128MiB -i 9 --json tensors.json -o tensors.html
  esker bench tensors --size 1MiB --total 1MiB -i 3 --collective
  esker bench tensors --no-hdf5 --huge-pages";

/// Measure the tensor store: arrays that many processes store and read, beside parallel HDF5
#[derive(Args)]
#[command(after_long_help = ABOUT)]
pub(crate) struct Tensors {
    /// Number of processes, or several numbers, separated by commas
    #[arg(
        long,
        visible_alias = "np",
        value_name = "N",
        default_value = "1,2,4",
        value_delimiter = ','
    )]
    procs: Vec<u32>,
    /// Weak scaling: bytes of each process, or several sizes, separated by commas
    #[arg(long, value_name = "SIZE", default_value = "16MiB,64MiB", value_delimiter = ',')]
    size: Vec<Bytes>,
    /// Strong scaling: bytes of the array, or several sizes, separated by commas
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_delimiter = ',')]
    total: Vec<Bytes>,
    /// Number of iterations
    #[arg(short = 'i', long, value_name = "N", default_value_t = 5)]
    iterations: u32,
    /// Omit parallel HDF5
    #[arg(long, conflicts_with_all = ["h5pcc", "mpirun", "collective"])]
    no_hdf5: bool,
    /// Compiler of parallel HDF5 [default: h5pcc on the PATH]
    #[arg(long, value_name = "PROGRAM")]
    h5pcc: Option<PathBuf>,
    /// Program that starts the processes of MPI [default: the mpirun that belongs to h5pcc]
    #[arg(long, value_name = "PROGRAM")]
    mpirun: Option<PathBuf>,
    /// Let parallel HDF5 transfer collectively [default: independently]
    #[arg(long)]
    collective: bool,
    /// HTML page with plots to write
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write each plot to a file in this directory too
    #[arg(long, value_name = "DIR", requires = "output")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    own: OwnArgs,
    /// Seed of the data
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u32,
    /// Pin processes to processors: alternate between sockets, fill one socket first, or do not pin
    #[arg(long, value_name = "HOW", default_value = "sockets")]
    pin: Pin,
    #[command(flatten)]
    json: JsonFile,
}

impl Tensors {
    pub(crate) fn run(self) -> Result<Answer> {
        self.json.check()?;
        let outcome = with_spinner(|note| self.plan()?.run(note))?;
        let report = json!(outcome.report());
        if let Some(output) = &self.output {
            report::write(
                &esker_bench::plots::tensors::page(&report)?,
                output,
                self.svg.as_deref(),
            )?;
        }
        self.json.answer_with(report, outcome.to_string())
    }

    fn plan(&self) -> Result<TensorsPlan> {
        let bytes = |sizes: &[Bytes]| sizes.iter().map(|size| size.0).collect();
        Ok(TensorsPlan {
            launcher: launcher("tensors-worker")?,
            own: self.own.pool(),
            procs: self.procs.clone(),
            sizes: bytes(&self.size),
            totals: bytes(&self.total),
            iterations: self.iterations,
            hdf5: Hdf5 {
                left_out: self.no_hdf5,
                compiler: self.h5pcc.clone(),
                mpirun: self.mpirun.clone(),
                collective: self.collective,
            },
            seed: self.seed,
            pin: self.pin,
        })
    }
}
