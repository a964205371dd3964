//! `esker bench tx`: transactions mixed with puts and gets.
use super::{Common, launcher};
use clap::Args;
use esker::types::Result;
use esker_bench::job::Workload;
use esker_bench::plan::TxPlan;
use esker_cli::output::{Answer, with_spinner};
use esker_cli::units::Bytes;

const METHOD: &str = "\
Each process puts values under new keys of its own Key-Value, and gets values that it has put. Puts and gets alternate, --ops of \
each in a round. One operation in --tx-every is a transaction on counters that all processes share: it reads two counters \
on different targets, increments both, and commits. After a conflict it restarts, until it commits. Counters are values of \
the same size in one Key-Value over all targets (class SX).

The time of `put`, `get` and `tx` is the time of the process that spent the most in these operations. The time of `mixed` runs \
from the first start to the last end. The latency of a transaction includes its restarts. `conflicts` is the number of commits \
that were refused and repeated. The limit is pwrite and pread of the same blocks, as in `bench kv`. A transaction is compared \
with two blocks.

With --verify, an unmeasured phase compares the values that another process has put with what was written, and the sum of \
the counters with the number of transactions. A pool without transactions (posix:) is refused.

Examples:
  esker bench tx --procs 1,2,4
  esker bench tx --procs 2 --no-write-buffer --verify --json tx.json
  esker bench tx --tx-every 3 --counters 10 --procs 4";

/// Measure transactions mixed with puts and gets of Key-Values
#[derive(Args)]
#[command(after_long_help = METHOD)]
pub(crate) struct Tx {
    /// Size of a value, or several sizes, separated by commas
    #[arg(long, value_name = "SIZE", default_value = "64", value_delimiter = ',')]
    value: Vec<Bytes>,
    /// One operation in N is a transaction
    #[arg(long, value_name = "N", default_value_t = 10)]
    tx_every: u64,
    /// Number of counters that the transactions of all processes share: conflicts are rarer with more
    #[arg(long, value_name = "N", default_value_t = 1000)]
    counters: u64,
    #[command(flatten)]
    common: Common,
}

impl Tx {
    pub(crate) fn run(self) -> Result<Answer> {
        self.common.json.check()?;
        let plan = self.common.plan(launcher("tx-worker")?, &self.value, Workload::Kv);
        let plan = TxPlan { plan, every: self.tx_every, counters: self.counters };
        let report = with_spinner(|note| plan.run(note))?;
        self.common.json.answer(&report)
    }
}
