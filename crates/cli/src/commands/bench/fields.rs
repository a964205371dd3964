//! `esker bench fields`.
use super::parallel::PinArg;
use super::{JsonFile, PoolChoice, launcher};
use crate::output::Answer;
use crate::progress::Bar;
use clap::{Args, ValueEnum};
use esker::types::Result;
use esker_bench::fields::Shape;
use esker_bench::plan::FieldsPlan;
use esker_bench::units::Bytes;
use serde_json::json;
use std::path::PathBuf;

const ABOUT: &str = "\
The work of a forecast and of those who use it, on the field store of `esker fields`. Each process archives \
fields under their keys, by step, member, level and parameter, and flushes each step; members are its own. \
Then all of it is listed, its axes are asked for, and each process retrieves what the next one archived: \
field by field, all by one request, and 1000 fields as they were archived and then in no order. At last \
fields are archived once more while as many further processes watch and read each field as soon as it can be \
seen; the latencies of that are from the beginning of a flush until a reader sees a field of it.

A field is made once, in memory. It holds the sum of its key and a checksum on each page; --verify retrieves \
all fields once more, which is not measured, and compares both, also while others write.

Beside it, in turns: one plain file for each field, and pwrite and pread of the same blocks into one file, on \
the same medium by the same processes. A pass that is not measured warms up the memory. The time of a phase \
goes from the first start to the last end.

With --grib each process also archives its share of the messages of a file, over and over, as many as it has fields; ecCodes tells their keys, and where it is missing that is left out. A file with as many different messages as \
fields tells what a model gets: the keys of messages that come again are known.

With --peer pyfdb as many processes of Python do the same on a real FDB, in turns as well: an FDB in a folder on the same medium, with a schema of the same keys. All its fields have the same bytes, and nobody watches. Where that Python has the package esker as well, it also retrieves what was archived here, so that both sides are in Python.

Examples:
  esker bench fields --procs 1,2 -i 5 --json fields.json
  esker bench fields --size 4KiB --steps 100 --levels 100 --params 10 -i 1
  esker bench fields --procs 1,2 -i 5 --peer pyfdb --python ~/fdb/bin/python3
  esker bench fields --pool tank --members 4 --verify";

/// Measure the field store: archive, list and retrieve fields by key, also at the same time
#[derive(Args)]
#[command(after_long_help = ABOUT)]
pub(crate) struct Fields {
    #[command(flatten)]
    pool: PoolChoice,
    /// Processes at once; several, separated by commas, are measured one after the other
    #[arg(
        long,
        visible_alias = "np",
        value_name = "N",
        default_value = "1",
        value_delimiter = ','
    )]
    procs: Vec<u32>,
    /// Steps; each is flushed when it is whole
    #[arg(long, value_name = "N", default_value_t = 8)]
    steps: u64,
    /// Levels of a step
    #[arg(long, value_name = "N", default_value_t = 8)]
    levels: u64,
    /// Parameters of a level
    #[arg(long, value_name = "N", default_value_t = 4)]
    params: u64,
    /// Members of each process
    #[arg(long, value_name = "N", default_value_t = 1)]
    members: u64,
    /// Bytes of a field
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    size: Bytes,
    /// How often all is repeated
    #[arg(short = 'i', long, value_name = "N", default_value_t = 3)]
    repeats: u32,
    /// Do not read while others archive
    #[arg(long)]
    no_watch: bool,
    /// Archive the GRIB messages of this file as well, under the keys that stand in them
    #[arg(long, value_name = "FILE")]
    grib: Option<PathBuf>,
    /// Do the same work on a real FDB, which Python brings with `pip install pyfdb`
    #[arg(long, value_name = "PEER")]
    peer: Option<PeerArg>,
    /// The Python that has pyfdb
    #[arg(long, value_name = "PROGRAM", default_value = "python3", requires = "peer")]
    python: PathBuf,
    /// Processors that processes are pinned to: sockets in turn, all cores of a socket first, or none
    #[arg(long, value_name = "HOW", default_value = "sockets")]
    pin: PinArg,
    /// Compare what is retrieved with what was archived, in a phase that is not measured
    #[arg(long)]
    verify: bool,
    /// What the data is made from
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
            place: self.pool.place(),
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
            pin: self.pin.into(),
        };
        let bar = Bar::spinner();
        let outcome = plan.run(&mut |what| bar.say(what))?;
        drop(bar);
        self.json.answer_with(json!(outcome.report()), outcome.to_string())
    }
}
