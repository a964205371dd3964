//! `esker bench rados`.
use super::JsonFile;
use crate::output::Answer;
use crate::progress::Bar;
use clap::Args;
use esker::types::Result;
use esker_bench::plan::RadosPlan;
use esker_bench::units::Bytes;

const METHOD: &str = "\
Three ways take turns in one process: a program that calls librados by hand (rados_write_full of the field, omap set of its \
index entry; omap get, rados_read), Field I/O of a known forecast (write the Array, put its entry into the index; get the entry, read \
the Array), and the same with many operations in flight. Ratios are to the \
program by hand. The first round warms up and is not counted; what was read is compared with what was written.

Example:
  esker bench rados 'rados:esker?conf=build/ceph/ceph.conf' --in-flight 16";

/// Measure Field I/O on Ceph beside a program that calls librados by hand
#[derive(Args)]
#[command(after_long_help = METHOD)]
pub(crate) struct Rados {
    /// The pool: rados:POOL?conf=FILE&namespace=NAME
    #[arg(value_name = "POOL")]
    pool: String,
    /// Bytes of a field
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    size: Bytes,
    /// Fields written and read in each round
    #[arg(long, value_name = "N", default_value_t = 100)]
    ops: u64,
    /// How often all three are measured
    #[arg(long, value_name = "R", default_value_t = 3)]
    rounds: u32,
    /// Operations in flight where several are
    #[arg(long, value_name = "N", default_value_t = 16)]
    in_flight: usize,
    /// What the data is made from
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
        let bar = Bar::spinner();
        let report = plan.run(&mut |what| bar.say(what))?;
        drop(bar);
        self.json.answer(&report)
    }
}
