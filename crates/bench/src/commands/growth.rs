//! `esker bench growth`: a store while it grows.
use super::{JsonFile, PoolChoice, launcher};
use clap::Args;
use esker::types::Result;
use esker_bench::plan::GrowthPlan;
use esker_bench::plan::growth::Kind;
use esker_cli::output::{Answer, with_spinner};
use esker_cli::units::Bytes;

const METHOD: &str = "\
One process stores small values and measures the last puts before each size is reached, then gets of entries at random, each of \
which is compared with what was stored. Then five new processes, one after another, open the pool and get one entry, as a \
program does after a restart: that is the phase `open`. Keys and ids are spread over the whole range, so the index has no \
favourable order. The limit is a file of the same values on the same medium that grows along: pwrite at its end, pread at \
random.

A temporary pool is as large as the last size needs, at least 300 bytes for an entry of the kind `kv`. On a disk, --durability \
process saves most of the time.

Examples:
  esker bench growth --json growth.json && esker bench report growth.json -o growth.html
  esker bench growth --kind kv --entries 10000,100000,1000000,10000000";

/// Measure what an operation costs while a store grows, and how long it takes to open then
#[derive(Args)]
#[command(after_long_help = METHOD)]
pub(crate) struct Growth {
    #[command(flatten)]
    pool: PoolChoice,
    /// Kind of entries, or both, separated by a comma
    #[arg(long, value_name = "KIND", default_value = "kv,array", value_delimiter = ',')]
    kind: Vec<Kind>,
    /// Numbers of entries at which to measure, separated by commas
    #[arg(
        long,
        value_name = "N",
        default_value = "10000,30000,100000,300000,1000000",
        value_delimiter = ','
    )]
    entries: Vec<u64>,
    /// Size of a value
    #[arg(long, value_name = "SIZE", default_value = "64")]
    value: Bytes,
    /// Operations of each phase at each size
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    ops: u64,
    /// Object class: S1 (one target), S2, SX (all targets) ...
    #[arg(long, value_name = "CLASS", default_value = "SX")]
    class: String,
    /// Seed of the values and of the choice of entries
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    json: JsonFile,
}

impl Growth {
    pub(crate) fn run(self) -> Result<Answer> {
        self.json.check()?;
        let plan = GrowthPlan {
            launcher: launcher("growth-worker")?,
            pool: self.pool.bench_pool(),
            kinds: self.kind,
            entries: self.entries,
            value_bytes: self.value.0,
            ops: self.ops,
            class: self.class,
            seed: self.seed,
        };
        let report = with_spinner(|note| plan.run(note))?;
        self.json.answer(&report)
    }
}
