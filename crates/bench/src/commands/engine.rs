//! `esker bench engine`: a pool through an engine beside raw TCP.
use super::{JsonFile, OwnArgs, launcher};
use clap::Args;
use esker::types::Result;
use esker_bench::plan::EnginePlan;
use esker_cli::output::{Answer, with_spinner};
use esker_cli::units::Bytes;

const ABOUT: &str = "\
One process serves a temporary pool on loopback. The other processes are its clients, and do not open the pool itself. They \
write and read chunks of Arrays, and put and get values of a Key-Value. Each client reads the data of another client.

The limit is raw TCP between the same processes, alternating with the store: blocks in one direction for Arrays, and echoed \
blocks for Key-Values, with as many blocks in flight as operations of the store. If iperf3 is installed, its bandwidth in the \
same run is shown too. --tls repeats all phases through an engine with TLS. The limit of `tls write` and `tls read` is the \
phase without TLS.

Examples:
  esker bench engine
  esker bench engine --tls --procs 1 --in-flight 4
  esker bench engine --procs 2 --in-flight 16 --json engine.json
  FI_PROVIDER=shm esker bench engine --fabric";

/// Measure a pool through an engine, over TCP on loopback
#[derive(Args)]
#[command(after_long_help = ABOUT)]
pub(crate) struct EngineArgs {
    #[command(flatten)]
    own: OwnArgs,
    /// Size of a chunk of an Array
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    size: Bytes,
    /// Size of a value of a Key-Value
    #[arg(long, value_name = "SIZE", default_value = "64")]
    value: Bytes,
    /// Number of clients, or several numbers, separated by commas
    #[arg(long, value_name = "N", default_value = "1,2", value_delimiter = ',')]
    procs: Vec<u32>,
    /// Number of operations of a client in flight, or several numbers, separated by commas
    #[arg(long, value_name = "N", default_value = "1,16", value_delimiter = ',')]
    in_flight: Vec<u32>,
    /// Measure clients over the fabric beside those over TCP; FI_PROVIDER chooses the provider of libfabric
    #[arg(long)]
    fabric: bool,
    /// Operations of each client in each phase [default: 512 MiB, at most 50000 operations]
    #[arg(long, value_name = "N")]
    ops: Option<u64>,
    /// Number of rounds of writing and reading; figures are over all rounds
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
    /// Duration of iperf3 in each round in seconds; 0 leaves it out
    #[arg(long, value_name = "SECONDS", default_value_t = 1)]
    iperf3: u32,
    /// Repeat all phases with TLS, and compare both
    #[arg(long)]
    tls: bool,
    /// Compare what is read with what was written, in an unmeasured phase
    #[arg(long)]
    verify: bool,
    /// Seed of the data
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    json: JsonFile,
}

impl EngineArgs {
    pub(crate) fn run(self) -> Result<Answer> {
        self.json.check()?;
        let plan = EnginePlan {
            launcher: launcher("engine-worker")?,
            own: self.own.pool(),
            chunk_bytes: self.size.0,
            value_bytes: self.value.0,
            procs: self.procs,
            in_flight: self.in_flight,
            fabric: self.fabric,
            ops: self.ops,
            rounds: self.rounds,
            iperf_seconds: self.iperf3,
            tls: self.tls,
            verify: self.verify,
            seed: self.seed,
        };
        let report = with_spinner(|note| plan.run(note))?;
        self.json.answer(&report)
    }
}
