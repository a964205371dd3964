//! `esker bench field-io` and `esker bench segments`: the benchmarks of two papers on DAOS.
use super::scaling::{ScalingArgs, Sweep};
use super::{JsonFile, launcher};
use clap::Args;
use esker::types::{Error, ErrorKind, Result};
use esker_bench::field_io::segments::Objects;
use esker_bench::field_io::{Contention, Mode, Pattern};
use esker_bench::pin::Pin;
use esker_bench::plan::{BenchPool, Fields, ParallelPlan, Subject};
use esker_bench::rendezvous::Rank;
use esker_bench::scaling::Swept;
use esker_cli::output::{Answer, with_spinner};
use esker_cli::units::Bytes;
use serde_json::json;
use std::path::{Path, PathBuf};

const FIELD_IO: &str = "\
The benchmark of the papers on weather fields. A field is an Array. The main Key-Value maps the most significant part \
of a field's key to the Key-Value of its forecast, which maps the rest of the key to the Array. Writing a field again \
creates a new Array; the old one remains, unreferenced.

Modes: full (containers named by md5 for the index and the fields of each forecast), no-containers (all in one \
container), no-index (no Key-Values: Arrays named by the md5 of the key).
Patterns: A (every process writes its own fields; then other processes read them), B (half of the processes rewrite the \
same fields while the other half reads them).
Contention: low (one forecast Key-Value per process), high (one that all processes share).

All combinations of the values in comma-separated lists are measured in sequence. An unmeasured pass before each warms up \
the memory of the pool. The limit is pwrite and pread of the same blocks by the same number of processes, alternating with \
the repeats; in pattern B, half of them write while the others read. docs/cli.md defines all figures and the columns of \
the traces.

Several nodes: start the same command once per node, by srun or mpirun, with --pool and --rendezvous on file systems that \
all nodes share; --procs is the number of processes per node. Rank 0 prints the results.
  srun --ntasks-per-node=1 esker bench field-io --pool posix:/lustre/p --rendezvous /lustre/meet --procs 24
With ssh, give each node its rank: --rank R --ranks N. The clocks of the nodes must be synchronized.

Pools over nodes: --nodes measures several, as their clients on other nodes would (ESKER_NODE=none, unless it is set), \
and draws the papers' scaling figures: what was measured as markers, and a model of more nodes as dashed lines. docs/cli.md \
has the formula of the model.

Examples:
  esker bench field-io --nodes one,two,four --mode full,no-index --pattern A,B -o scaling.html
  esker bench field-io --procs 2 --mode full,no-containers,no-index --pattern A,B --json run.json
  esker bench field-io --procs 1,2 --size 1MiB,5MiB --class-array S1,S2,SX --repeat 10";

const SEGMENTS: &str = "\
IOR in segments mode: each process transfers all its segments in one operation. Iterations are synchronized: all \
processes wait for each other before they open the object and after they close it. Each process reads what another \
process wrote.

Examples:
  esker bench segments --procs 2 --segments 100 --size 1MiB
  esker bench segments --objects own,shared --class-array SX --json segments.json";

/// Measure Field I/O: weather fields by key, as in the papers on DAOS
#[derive(Args)]
#[command(after_long_help = FIELD_IO)]
pub(crate) struct FieldIo {
    /// Mode, or several, separated by commas
    #[arg(long, value_name = "MODE", default_value = "full", value_delimiter = ',')]
    mode: Vec<Mode>,
    /// Access pattern, or several, separated by commas
    #[arg(long, value_name = "PATTERN", default_value = "A", value_delimiter = ',')]
    #[arg(ignore_case = true)]
    pattern: Vec<Pattern>,
    /// Contention on a forecast's Key-Value, or several, separated by commas
    #[arg(long, value_name = "CONTENTION", default_value = "low", value_delimiter = ',')]
    contention: Vec<Contention>,
    /// Size of a field, or several sizes, separated by commas
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_delimiter = ',')]
    size: Vec<Bytes>,
    /// Operations of each process in each repeat [default: 512 MiB, 8 to 2000 operations]
    #[arg(long, value_name = "N")]
    ops: Option<u32>,
    /// Object class of Key-Values, or several, separated by commas
    #[arg(long, value_name = "CLASS", default_value = "SX", value_delimiter = ',')]
    class_kv: Vec<String>,
    #[command(flatten)]
    scaling: ScalingArgs,
    #[command(flatten)]
    common: Common,
}

/// Measure segments: all processes transfer large objects in step, as IOR does
#[derive(Args)]
#[command(after_long_help = SEGMENTS)]
pub(crate) struct Segments {
    /// One object per process, or a shared one; or both, separated by a comma
    #[arg(long, value_name = "OBJECTS", default_value = "own", value_delimiter = ',')]
    objects: Vec<Objects>,
    /// Number of segments of each process
    #[arg(long, value_name = "N", default_value_t = 100)]
    segments: u32,
    /// Size of a segment, or several sizes, separated by commas
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_delimiter = ',')]
    size: Vec<Bytes>,
    /// Number of iterations in each repeat, each with new objects
    #[arg(long, value_name = "N", default_value_t = 5)]
    iterations: u32,
    #[command(flatten)]
    scaling: ScalingArgs,
    #[command(flatten)]
    common: Common,
}

/// Options that both share.
#[derive(Args)]
struct Common {
    #[command(flatten)]
    pool: BenchPool,
    /// Number of processes on each node, or several numbers, separated by commas
    #[arg(long, value_name = "N", default_value = "2", value_delimiter = ',')]
    procs: Vec<u32>,
    /// Object class of Arrays, or several, separated by commas
    #[arg(long, value_name = "CLASS", default_value = "S1", value_delimiter = ',')]
    class_array: Vec<String>,
    /// Number of repeats of each combination
    #[arg(long, value_name = "R", default_value_t = 3)]
    repeat: u32,
    /// Read back and compare every byte, in an unmeasured pass
    #[arg(long)]
    verify: bool,
    /// Seed of the data
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Pin processes to processors: alternate between sockets, fill one socket first, or do not pin
    #[arg(long, value_name = "HOW", default_value = "sockets")]
    pin: Pin,
    /// Directory through which the nodes communicate, on a file system that they share
    #[arg(long, value_name = "DIR")]
    rendezvous: Option<PathBuf>,
    /// Rank of this node [default: set by srun or mpirun]
    #[arg(long, value_name = "R", requires = "ranks")]
    rank: Option<u32>,
    /// Number of ranks [default: set by srun or mpirun]
    #[arg(long, value_name = "N", requires = "rank")]
    ranks: Option<u32>,
    /// Write the time of every event to this CSV file [default: beside the file of --json]
    #[arg(long, value_name = "FILE")]
    traces: Option<PathBuf>,
    #[command(flatten)]
    json: JsonFile,
}

impl FieldIo {
    pub(crate) fn run(self) -> Result<Answer> {
        if !self.scaling.nodes.is_empty() {
            let sweep = self.sweep();
            return self.scaling.run(sweep, &self.common.json);
        }
        let fields = Fields {
            modes: self.mode,
            patterns: self.pattern,
            contentions: self.contention,
            classes_kv: self.class_kv,
        };
        self.common.run(Subject::Fields(fields), &self.size, self.ops)
    }

    /// The options of the same command on one pool.
    fn sweep(&self) -> Sweep {
        let listed = |names: Vec<&str>| names.join(",");
        let own = [
            ("--mode", listed(self.mode.iter().map(|mode| mode.name()).collect())),
            ("--pattern", listed(self.pattern.iter().map(|pattern| pattern.name()).collect())),
            ("--contention", listed(self.contention.iter().map(|one| one.name()).collect())),
            ("--class-kv", self.class_kv.join(",")),
        ];
        self.common.sweep(Swept::FieldIo, own, &self.size, self.ops)
    }
}

impl Segments {
    pub(crate) fn run(self) -> Result<Answer> {
        if !self.scaling.nodes.is_empty() {
            let objects: Vec<_> = self.objects.iter().map(|one| one.name()).collect();
            let own =
                [("--objects", objects.join(",")), ("--iterations", self.iterations.to_string())];
            let count = Some(self.segments);
            let sweep = self.common.sweep(Swept::Segments, own, &self.size, count);
            return self.scaling.run(sweep, &self.common.json);
        }
        let subject = Subject::Segments { objects: self.objects, count: self.segments };
        self.common.run(subject, &self.size, Some(self.iterations))
    }
}

impl Common {
    /// The options of the same command on one pool.
    fn sweep<const N: usize>(
        &self,
        swept: Swept,
        own: [(&str, String); N],
        sizes: &[Bytes],
        ops: Option<u32>,
    ) -> Sweep {
        let shared = [
            ("--class-array", self.class_array.join(",")),
            ("--repeat", self.repeat.to_string()),
            ("--seed", self.seed.to_string()),
            ("--pin", self.pin.name().to_owned()),
        ];
        let options = own.into_iter().chain(shared);
        let options = options.flat_map(|(name, value)| [name.to_owned(), value]);
        let verify = self.verify.then(|| "--verify".to_owned());
        let sizes: Vec<_> = sizes.iter().map(|size| size.0.to_string()).collect();
        Sweep {
            swept,
            words: options.chain(verify).collect(),
            procs: self.procs.clone(),
            sizes: sizes.join(","),
            ops,
        }
    }

    fn run(self, subject: Subject, sizes: &[Bytes], ops: Option<u32>) -> Result<Answer> {
        self.json.check()?;
        let plan = ParallelPlan {
            launcher: launcher("worker")?,
            field_launcher: launcher("field-worker")?,
            pool: self.pool.clone(),
            subject,
            sizes: sizes.iter().map(|size| size.0).collect(),
            ops,
            who: self.who()?,
            node: node_name(),
            traces: self.traces.clone().or_else(|| self.json.traces()),
            pin: self.pin,
            procs: self.procs,
            repeat: self.repeat,
            classes_array: self.class_array,
            verify: self.verify,
            seed: self.seed,
            rendezvous: self.rendezvous,
        };
        let report = with_spinner(|note| plan.run(note))?;
        match report {
            Some(report) => self.json.answer(&report),
            None => Ok(Answer::new(json!(null), "")),
        }
    }

    fn who(&self) -> Result<Rank> {
        match (self.rank, self.ranks) {
            (Some(rank), Some(ranks)) => Rank { rank, ranks }.checked(),
            // The ranks of a batch job's variables may not be meant for this command.
            _ if self.rendezvous.is_none() => match Rank::from_environment()? {
                Rank { ranks: 1, .. } => Ok(Rank::ALONE),
                Rank { rank, ranks } => Err(Error::new(
                    ErrorKind::Invalid,
                    format!(
                        "this is rank {rank} of {ranks}: give all ranks --rendezvous with a directory that \
                         they share, or --rank 0 --ranks 1 to measure on this node alone"
                    ),
                )),
            },
            _ => Rank::from_environment(),
        }
    }
}

impl JsonFile {
    /// The file of the traces beside the report: the same stem with `.traces.csv`.
    fn traces(&self) -> Option<PathBuf> {
        let path = self.json.as_deref().filter(|path| *path != Path::new("-"))?;
        Some(path.with_extension("traces.csv"))
    }
}

/// The name of this node in Slurm, or the host name.
fn node_name() -> String {
    std::env::var("SLURMD_NODENAME")
        .unwrap_or_else(|_| rustix::system::uname().nodename().to_string_lossy().into_owned())
}
