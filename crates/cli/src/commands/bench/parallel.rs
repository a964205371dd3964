//! `esker bench field-io` and `esker bench segments`.
use super::{JsonFile, PoolChoice, launcher};
use crate::output::Answer;
use crate::progress::Bar;
use clap::{Args, ValueEnum};
use esker::types::{Error, ErrorKind, Result};
use esker_bench::field_io::segments::Objects;
use esker_bench::field_io::{Contention, Mode, Pattern};
use esker_bench::pin::Pin;
use esker_bench::plan::{Fields, ParallelPlan, Subject};
use esker_bench::rendezvous::Rank;
use esker_bench::units::Bytes;
use serde_json::json;
use std::path::{Path, PathBuf};

const FIELD_IO: &str = "\
The benchmark of the papers on weather fields. A field is an Array; a main Key-Value leads from the most \
significant part of its key to a forecast's Key-Value, and that from the rest of the key to the Array. \
Writing a field again makes a new Array; the old one stays, and nothing refers to it.

Modes: full (containers named by md5 for each forecast's index and fields), no-containers (all in one \
container), no-index (no Key-Values: Arrays named by the md5 of the key).
Patterns: A (every process writes fields of its own; then other processes read them), B (half of the \
processes write the same fields again and again while the other half reads them).
Contention: low (a forecast's Key-Value for each process), high (one for all).

All combinations of what is given by commas are measured one after the other. Before each, a pass that is \
not measured warms up the memory of the pool. The limit is pwrite and pread of the same blocks by as many \
processes, in turns with the repeats; in pattern B half of them write while the others read. The \
definitions of all figures, and the columns of the traces, are in docs/cli.md.

Several nodes: start the same command on each, once per node, by srun or mpirun, with --pool and with \
--rendezvous on file systems they share; --procs counts processes on each node. Rank 0 answers.
  srun --ntasks-per-node=1 esker bench field-io --pool posix:/lustre/p --rendezvous /lustre/meet --procs 24
By ssh, say on each node which rank it is: --rank R --ranks N. Clocks of nodes must be in step.

Examples:
  esker bench field-io --procs 2 --mode full,no-containers,no-index --pattern A,B --json run.json
  esker bench field-io --procs 1,2 --size 1MiB,5MiB --class-array S1,S2,SX --repeat 10";

const SEGMENTS: &str = "\
IOR in segments mode: each process transfers all its segments in one operation. Iterations are \
synchronised: all processes wait for each other before the object is opened and after it is closed. Other \
processes read than wrote.

Examples:
  esker bench segments --procs 2 --segments 100 --size 1MiB
  esker bench segments --objects own,shared --class-array SX --json segments.json";

/// Measure Field I/O: weather fields under keys, as in the papers on DAOS
#[derive(Args)]
#[command(after_long_help = FIELD_IO)]
pub(crate) struct FieldIo {
    /// How much of the functions is used; several, separated by commas
    #[arg(long, value_name = "MODE", default_value = "full", value_delimiter = ',')]
    mode: Vec<ModeArg>,
    /// Access pattern; several, separated by commas
    #[arg(long, value_name = "PATTERN", default_value = "A", value_delimiter = ',')]
    #[arg(ignore_case = true)]
    pattern: Vec<PatternArg>,
    /// Who shares a forecast's Key-Value; several, separated by commas
    #[arg(long, value_name = "CONTENTION", default_value = "low", value_delimiter = ',')]
    contention: Vec<ContentionArg>,
    /// Bytes of a field; several, separated by commas
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_delimiter = ',')]
    size: Vec<Bytes>,
    /// Operations of each process in each repeat [default: 512 MiB, 8 to 2000 operations]
    #[arg(long, value_name = "N")]
    ops: Option<u32>,
    /// Object class of Key-Values; several, separated by commas
    #[arg(long, value_name = "CLASS", default_value = "SX", value_delimiter = ',')]
    class_kv: Vec<String>,
    #[command(flatten)]
    common: Common,
}

/// Measure segments: all processes transfer one large object each, in step, as IOR does
#[derive(Args)]
#[command(after_long_help = SEGMENTS)]
pub(crate) struct Segments {
    /// An object for each process, or one of all; several, separated by commas
    #[arg(long, value_name = "OBJECTS", default_value = "own", value_delimiter = ',')]
    objects: Vec<ObjectsArg>,
    /// Segments of each process
    #[arg(long, value_name = "N", default_value_t = 100)]
    segments: u32,
    /// Bytes of a segment; several, separated by commas
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_delimiter = ',')]
    size: Vec<Bytes>,
    /// Iterations in each repeat, with new objects in each
    #[arg(long, value_name = "N", default_value_t = 5)]
    iterations: u32,
    #[command(flatten)]
    common: Common,
}

/// What both share.
#[derive(Args)]
struct Common {
    #[command(flatten)]
    pool: PoolChoice,
    /// Processes on each node; several, separated by commas
    #[arg(long, value_name = "N", default_value = "2", value_delimiter = ',')]
    procs: Vec<u32>,
    /// Object class of Arrays; several, separated by commas
    #[arg(long, value_name = "CLASS", default_value = "S1", value_delimiter = ',')]
    class_array: Vec<String>,
    /// How often each combination is measured
    #[arg(long, value_name = "R", default_value_t = 3)]
    repeat: u32,
    /// Read every byte back and compare it, in a pass that is not measured
    #[arg(long)]
    verify: bool,
    /// What the data is made from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Processors that processes are pinned to: sockets in turn, all cores of a socket first, or none
    #[arg(long, value_name = "HOW", default_value = "sockets")]
    pin: PinArg,
    /// Folder in which the ranks of several nodes meet, on a file system they share
    #[arg(long, value_name = "DIR")]
    rendezvous: Option<PathBuf>,
    /// Rank of this node [default: as srun or mpirun says]
    #[arg(long, value_name = "R", requires = "ranks")]
    rank: Option<u32>,
    /// Number of ranks [default: as srun or mpirun says]
    #[arg(long, value_name = "N", requires = "rank")]
    ranks: Option<u32>,
    /// Write the time of every event to this CSV file [default: beside the file of --json]
    #[arg(long, value_name = "FILE")]
    traces: Option<PathBuf>,
    #[command(flatten)]
    json: JsonFile,
}

#[derive(Clone, Copy, ValueEnum)]
enum ModeArg {
    Full,
    NoContainers,
    NoIndex,
}

#[derive(Clone, Copy, ValueEnum)]
enum PatternArg {
    #[value(name = "A")]
    A,
    #[value(name = "B")]
    B,
}

#[derive(Clone, Copy, ValueEnum)]
enum ContentionArg {
    Low,
    High,
}

#[derive(Clone, Copy, ValueEnum)]
enum ObjectsArg {
    Own,
    Shared,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum PinArg {
    Sockets,
    Cores,
    None,
}

impl FieldIo {
    pub(crate) fn run(self) -> Result<Answer> {
        let mode = |arg: &ModeArg| match arg {
            ModeArg::Full => Mode::Full,
            ModeArg::NoContainers => Mode::NoContainers,
            ModeArg::NoIndex => Mode::NoIndex,
        };
        let pattern = |arg: &PatternArg| match arg {
            PatternArg::A => Pattern::A,
            PatternArg::B => Pattern::B,
        };
        let contention = |arg: &ContentionArg| match arg {
            ContentionArg::Low => Contention::Low,
            ContentionArg::High => Contention::High,
        };
        let fields = Fields {
            modes: self.mode.iter().map(mode).collect(),
            patterns: self.pattern.iter().map(pattern).collect(),
            contentions: self.contention.iter().map(contention).collect(),
            classes_kv: self.class_kv,
        };
        self.common.run(Subject::Fields(fields), &self.size, self.ops)
    }
}

impl Segments {
    pub(crate) fn run(self) -> Result<Answer> {
        let objects = self.objects.iter().map(|arg| match arg {
            ObjectsArg::Own => Objects::Own,
            ObjectsArg::Shared => Objects::Shared,
        });
        let subject = Subject::Segments { objects: objects.collect(), count: self.segments };
        self.common.run(subject, &self.size, Some(self.iterations))
    }
}

impl Common {
    fn run(self, subject: Subject, sizes: &[Bytes], ops: Option<u32>) -> Result<Answer> {
        self.json.check()?;
        let bar = Bar::spinner();
        let plan = ParallelPlan {
            launcher: launcher("worker")?,
            field_launcher: launcher("field-worker")?,
            place: self.pool.place(),
            subject,
            sizes: sizes.iter().map(|size| size.0).collect(),
            ops,
            who: self.who()?,
            node: node_name(),
            traces: self.traces.clone().or_else(|| self.json.traces()),
            pin: self.pin.into(),
            procs: self.procs,
            repeat: self.repeat,
            classes_array: self.class_array,
            verify: self.verify,
            seed: self.seed,
            rendezvous: self.rendezvous,
        };
        let report = plan.run(&mut |what| bar.say(what))?;
        drop(bar);
        match report {
            Some(report) => self.json.answer(&report),
            None => Ok(Answer::new(json!(null), "")),
        }
    }

    fn who(&self) -> Result<Rank> {
        match (self.rank, self.ranks) {
            (Some(rank), Some(ranks)) => Rank { rank, ranks }.checked(),
            // A batch job that runs one command without a starter has ranks of its own in mind.
            _ if self.rendezvous.is_none() => match Rank::of_environment()? {
                Rank { ranks: 1, .. } => Ok(Rank::ALONE),
                Rank { rank, ranks } => Err(Error::new(
                    ErrorKind::Invalid,
                    format!(
                        "this is rank {rank} of {ranks}: give all of them --rendezvous with a folder \
                         they share, or --rank 0 --ranks 1 to measure alone"
                    ),
                )),
            },
            _ => Rank::of_environment(),
        }
    }
}

impl From<PinArg> for Pin {
    fn from(arg: PinArg) -> Self {
        match arg {
            PinArg::Sockets => Self::Sockets,
            PinArg::Cores => Self::Cores,
            PinArg::None => Self::None,
        }
    }
}

impl JsonFile {
    /// Traces lie beside the report: same stem, `.traces.csv`.
    fn traces(&self) -> Option<PathBuf> {
        let path = self.json.as_deref().filter(|path| *path != Path::new("-"))?;
        Some(path.with_extension("traces.csv"))
    }
}

/// The name that Slurm has for this node, else that of the system.
fn node_name() -> String {
    std::env::var("SLURMD_NODENAME")
        .unwrap_or_else(|_| rustix::system::uname().nodename().to_string_lossy().into_owned())
}
