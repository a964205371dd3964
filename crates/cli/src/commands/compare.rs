//! `esker bench compare`.
use super::bench::{JsonFile, PathArg, launcher};
use super::pool::DurabilityArg;
use crate::output::Answer;
use crate::progress::Bar;
use clap::{Args, ValueEnum};
use esker::types::Result;
use esker_bench::plan::Comparison;
use esker_bench::plan::arena::Store;
use esker_bench::plan::compare::Kind;
use esker_bench::units::Bytes;

const METHOD: &str = "\
The stores take turns (A B A B), round by round, so what else the machine does meets all of them. Beside \
them is always the limit: pwrite and pread of the same blocks by the same processes, in turns with the \
store. Ratios between stores are means over rounds of the ratio within each round.

The stores:
  native    a pool of this machine, made for the comparison
  posix     a pool of files, after the layout of the 2022 paper, made for the comparison
  files     plain files: one for each object, in a folder of each process; no index, so it stands beside
            field-io in pattern A only
  anything else is a pool of yours: label, UUID or URL

Examples:
  esker bench compare --stores native,posix,files --procs 1,2 --json compare.json
  esker bench compare --stores native,posix --workload field-io --mode full --pattern B
  esker bench report compare.json -o report.html";

/// Measure the same workload on several stores in turn
#[derive(Args)]
#[command(after_long_help = METHOD)]
pub(crate) struct CompareCommand {
    /// Stores, separated by commas; ratios are to the first
    #[arg(
        long,
        value_name = "STORES",
        default_value = "native,posix,files",
        value_delimiter = ','
    )]
    stores: Vec<Store>,
    /// What is measured
    #[arg(long, value_name = "WORKLOAD", default_value = "array")]
    workload: WorkloadArg,
    /// Note each Array in a Key-Value of the process (array)
    #[arg(long)]
    indexed: bool,
    /// Mode of field-io: full, no-containers, no-index
    #[arg(long, value_name = "MODE", default_value = "full")]
    mode: String,
    /// Access pattern of field-io: A, B
    #[arg(long, value_name = "PATTERN", default_value = "A")]
    pattern: String,
    /// Contention of field-io on the index: low, high
    #[arg(long, value_name = "LEVEL", default_value = "low")]
    contention: String,
    /// Bytes of an object; several, separated by commas, are measured one after the other
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_delimiter = ',')]
    size: Vec<Bytes>,
    /// Processes at once; several, separated by commas, are measured one after the other
    #[arg(long, value_name = "N", default_value = "1", value_delimiter = ',')]
    procs: Vec<u32>,
    /// Operations of each process in each phase [default: 256 MiB, 64 to 20000 operations]
    #[arg(long, value_name = "N")]
    ops: Option<u64>,
    /// How often all stores are measured
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
    /// What a write survives in stores that are made: with commit, files are synced too
    #[arg(long, value_name = "LEVEL", default_value = "process")]
    durability: DurabilityArg,
    /// Compare what is read with what was written, in a phase that is not measured
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    path: PathArg,
    #[command(flatten)]
    json: JsonFile,
}

/// What is measured on each store.
#[derive(Clone, Copy, ValueEnum)]
enum WorkloadArg {
    /// Arrays, as `esker bench array`
    Array,
    /// Key-Values, as `esker bench kv`
    Kv,
    /// Weather fields, as `esker bench field-io`
    FieldIo,
}

impl CompareCommand {
    pub(crate) fn run(self) -> Result<Answer> {
        self.json.check()?;
        let plan = Comparison {
            launcher: launcher("worker")?,
            folder: self.path.folder(),
            kind: self.kind(),
            stores: self.stores,
            sizes: self.size.iter().map(|size| size.0).collect(),
            procs: self.procs,
            ops: self.ops,
            rounds: self.rounds,
            durability: self.durability.into(),
            verify: self.verify,
        };
        let bar = Bar::spinner();
        let compared = plan.run(&mut |what| bar.say(what))?;
        drop(bar);
        let text = compared.to_string();
        self.json.answer_with(compared.report, text)
    }

    fn kind(&self) -> Kind {
        match self.workload {
            WorkloadArg::Array if self.indexed => Kind::Array(vec!["--indexed".to_owned()]),
            WorkloadArg::Array => Kind::Array(Vec::new()),
            WorkloadArg::Kv => Kind::Kv,
            WorkloadArg::FieldIo => {
                let options = [
                    ("--mode", &self.mode),
                    ("--pattern", &self.pattern),
                    ("--contention", &self.contention),
                ];
                let words =
                    options.iter().flat_map(|(name, value)| [(*name).to_owned(), (*value).clone()]);
                Kind::FieldIo(words.collect())
            }
        }
    }
}
