//! `esker bench fields`: the field store.
use super::{JsonFile, PoolChoice, launcher};
use clap::{Args, ValueEnum};
use esker::types::Result;
use esker_bench::fields::Shape;
use esker_bench::pin::Pin;
use esker_bench::plan::FieldsPlan;
use esker_cli::output::{Answer, with_spinner};
use esker_cli::units::Bytes;
use serde_json::json;
use std::path::PathBuf;

const ABOUT: &str = "\
Measures the work of a forecast and its users on the field store of `esker fields`. Each process archives fields by \
step, member, level and parameter, and flushes after each step; every process has its own members. Then all fields are \
listed, their axes are read, and each process retrieves what the next process archived: field by field, all in one \
request, and 1000 fields in the order of archiving and in random order. Finally, fields are archived again while the \
same number of additional processes watch, and read each field as soon as it is visible. Its latencies run from the \
start of a flush until a reader sees a field of it.

A field is generated once, in memory. It holds a checksum of its key, and one of each page; --verify retrieves all \
fields again, unmeasured, and compares both, also while others write.

Two references alternate with the store, on the same medium and with the same processes: one plain file per field, and \
pwrite and pread of the same blocks in one file. An unmeasured pass warms up the memory. The time of a phase runs from \
the first start to the last end.

With --grib, each process also archives its share of the messages in a file, repeatedly, until it has as many as it has \
fields. ecCodes reads their keys; if it is not installed, this phase is omitted. The keys of repeated messages are cached, \
so give a file with as many different messages as fields to measure what a model sees.

With --peer pyfdb, the same number of Python processes do the same work on a real FDB, alternating with the store: an FDB \
in a directory on the same medium, with a schema for the same keys. All its fields have the same content, and no process \
watches. If that Python has the package esker, it also retrieves what was archived here, so that both sides are Python.

Examples:
  esker bench fields --procs 1,2 -i 5 --json fields.json
  esker bench fields --size 4KiB --steps 100 --levels 100 --params 10 -i 1
  esker bench fields --procs 1,2 -i 5 --peer pyfdb --python ~/fdb/bin/python3
  esker bench fields --pool tank --members 4 --verify";

/// Measure the field store: archive, list and retrieve fields, also concurrently
#[derive(Args)]
#[command(after_long_help = ABOUT)]
pub(crate) struct Fields {
    #[command(flatten)]
    pool: PoolChoice,
    /// Number of processes, or several numbers, separated by commas
    #[arg(
        long,
        visible_alias = "np",
        value_name = "N",
        default_value = "1",
        value_delimiter = ','
    )]
    procs: Vec<u32>,
    /// Number of steps; each is flushed when it is complete
    #[arg(long, value_name = "N", default_value_t = 8)]
    steps: u64,
    /// Number of levels of a step
    #[arg(long, value_name = "N", default_value_t = 8)]
    levels: u64,
    /// Number of parameters of a level
    #[arg(long, value_name = "N", default_value_t = 4)]
    params: u64,
    /// Number of members of each process
    #[arg(long, value_name = "N", default_value_t = 1)]
    members: u64,
    /// Size of a field
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    size: Bytes,
    /// Number of repeats
    #[arg(short = 'i', long, value_name = "N", default_value_t = 3)]
    repeats: u32,
    /// Omit the phase that reads while others archive
    #[arg(long)]
    no_watch: bool,
    /// Archive the GRIB messages of this file too, under the keys that they contain
    #[arg(long, value_name = "FILE")]
    grib: Option<PathBuf>,
    /// Compare with a real FDB, which `pip install pyfdb` installs
    #[arg(long, value_name = "PEER")]
    peer: Option<PeerArg>,
    /// Python interpreter that has pyfdb
    #[arg(long, value_name = "PROGRAM", default_value = "python3", requires = "peer")]
    python: PathBuf,
    /// Pin processes to processors: alternate between sockets, fill one socket first, or do not pin
    #[arg(long, value_name = "HOW", default_value = "sockets")]
    pin: Pin,
    /// Compare what is retrieved with what was archived, in an unmeasured phase
    #[arg(long)]
    verify: bool,
    /// Seed of the data
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    json: JsonFile,
}

#[derive(Clone, Copy, ValueEnum)]
enum PeerArg {
    Pyfdb,
}

impl Fields {
    pub(crate) fn run(self) -> Result<Answer> {
        self.json.check()?;
        let plan = FieldsPlan {
            launcher: launcher("fields-worker")?,
            pool: self.pool.bench_pool(),
            shape: Shape {
                steps: self.steps,
                levels: self.levels,
                params: self.params,
                members: self.members,
                size_bytes: self.size.0,
            },
            procs: self.procs,
            repeats: self.repeats,
            watch: !self.no_watch,
            peer: self.peer.map(|PeerArg::Pyfdb| self.python),
            grib: self.grib,
            verify: self.verify,
            seed: self.seed,
            pin: self.pin,
        };
        let outcome = with_spinner(|note| plan.run(note))?;
        self.json.answer_with(json!(outcome.report()), outcome.to_string())
    }
}
