//! `esker bench compare`: several stores, which alternate.
use super::{JsonFile, launcher};
use clap::{Args, ValueEnum};
use esker::types::Result;
use esker_bench::plan::compare::Kind;
use esker_bench::plan::work_dir::Store;
use esker_bench::plan::{Comparison, memory_or_temporary};
use esker_cli::DurabilityArg;
use esker_cli::output::{Answer, with_spinner};
use esker_cli::units::Bytes;
use std::path::PathBuf;

const METHOD: &str = "\
The stores alternate (A B A B) in each round, so other load on the machine affects all of them alike. The limit is \
measured too: pwrite and pread of the same blocks by the same processes, alternating with the stores. Ratios between \
stores are means over all rounds of the ratio within a round.

The stores:
  native    a temporary pool of this machine
  posix     a temporary pool of plain files, with the layout of the 2022 paper
  files     plain files: one per object, in one directory per process; there is no index, so it is compared
            with field-io in pattern A only
  rados     the pool in Ceph that ESKER_BENCH_RADOS names, else rados:esker
  daos      the pool of a DAOS system that ESKER_BENCH_DAOS names, else daos:esker
  POOL      an existing pool: label, UUID or URL

`rados` and `daos` are left out, and named as absent with the reason, where they cannot be opened. All others must be there.

Examples:
  esker bench compare --stores native,posix,files --procs 1,2 --json compare.json
  esker bench compare --stores native,posix,rados,daos
  esker bench compare --stores native,posix --workload field-io --mode full --pattern B
  esker bench report compare.json -o report.html";

/// Compare several stores under the same workload
#[derive(Args)]
#[command(after_long_help = METHOD)]
pub(crate) struct CompareCommand {
    /// Stores, separated by commas; ratios are relative to the first
    #[arg(
        long,
        value_name = "STORES",
        default_value = "native,posix,files",
        value_delimiter = ','
    )]
    stores: Vec<Store>,
    /// Workload to measure
    #[arg(long, value_name = "WORKLOAD", default_value = "array")]
    workload: WorkloadArg,
    /// Index each Array in a Key-Value of its process (array only)
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
    /// Size of an object, or several sizes, separated by commas
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_delimiter = ',')]
    size: Vec<Bytes>,
    /// Number of processes, or several numbers, separated by commas
    #[arg(long, value_name = "N", default_value = "1", value_delimiter = ',')]
    procs: Vec<u32>,
    /// Operations of each process in each phase [default: 256 MiB, 64 to 20000 operations]
    #[arg(long, value_name = "N")]
    ops: Option<u64>,
    /// Number of rounds; each measures all stores
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
    /// Durability of temporary stores; with commit, plain files are synced too
    #[arg(long, value_name = "LEVEL", default_value = "process")]
    durability: DurabilityArg,
    /// Compare what is read with what was written, in an unmeasured phase
    #[arg(long)]
    verify: bool,
    /// Directory on the medium [default: /dev/shm, or the directory for temporary files]
    #[arg(long = "path", value_name = "DIR")]
    #[arg(default_value_os_t = memory_or_temporary(), hide_default_value = true)]
    folder: PathBuf,
    #[command(flatten)]
    json: JsonFile,
}

/// The workload on each store: `--workload`.
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
            folder: self.folder.clone(),
            kind: self.kind(),
            stores: self.stores,
            sizes: self.size.iter().map(|size| size.0).collect(),
            procs: self.procs,
            ops: self.ops,
            rounds: self.rounds,
            durability: self.durability.into(),
            verify: self.verify,
        };
        let compared = with_spinner(|note| plan.run(note))?;
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
