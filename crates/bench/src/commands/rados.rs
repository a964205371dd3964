//! `esker bench rados`: Field I/O on Ceph.
use super::JsonFile;
use clap::Args;
use esker::types::Result;
use esker_bench::plan::RadosPlan;
use esker_cli::output::{Answer, with_spinner};
use esker_cli::units::Bytes;

const METHOD: &str = "\
Three programs alternate in one process: one that calls librados directly (rados_write_full of the field, omap set of \
its index entry; omap get, rados_read), Field I/O of a known forecast (write the Array, put its entry into the index; get \
the entry, read the Array), and Field I/O with many operations in flight. Ratios are relative to the direct program. The \
first round warms up and does not count. All data that is read is compared with what was written.

Example:
  esker bench rados 'rados:esker?conf=/etc/ceph/ceph.conf' --in-flight 16";

/// Compare Field I/O on Ceph with a program that calls librados directly
#[derive(Args)]
#[command(after_long_help = METHOD)]
pub(crate) struct Rados {
    /// Pool: rados:CEPH_POOL?conf=FILE&namespace=NAME
    #[arg(value_name = "POOL")]
    pool: String,
    /// Size of a field
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    size: Bytes,
    /// Number of fields written and read in each round
    #[arg(long, value_name = "N", default_value_t = 100)]
    ops: u64,
    /// Number of rounds; each measures all three programs
    #[arg(long, value_name = "R", default_value_t = 3)]
    rounds: u32,
    /// Number of operations in flight in the third program
    #[arg(long, value_name = "N", default_value_t = 16)]
    in_flight: usize,
    /// Seed of the data
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    json: JsonFile,
}

impl Rados {
    pub(super) fn run(self) -> Result<Answer> {
        self.json.check()?;
        let plan = RadosPlan {
            url: self.pool,
            size: self.size.0,
            ops: self.ops,
            rounds: self.rounds,
            in_flight: self.in_flight,
            seed: self.seed,
        };
        let report = with_spinner(|note| plan.run(note))?;
        self.json.answer(&report)
    }
}
