//! `esker bench engine`: compares a pool accessed through an engine with raw TCP.
use super::{Benchmark, Measurement, Note, Tallies, check, iperf, parse_size};
use crate::client_server::{serve, start_clients, take_all};
use crate::engine::{Addresses, ClientJob, Kind, Shared, Step};
use crate::host::Host;
use crate::job::WARM_UP;
use crate::measure::Tally;
use crate::plan::location;
use crate::plan::scratch::OwnPool;
use crate::processes::{Processes, WorkerKind};
use crate::report::{Report, Run, RunName, Settings};
use clap::Args;
use esker::Wait;
use esker_types::{Error, ErrorKind, Result};
use serde_json::json;

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
#[derive(Clone, Debug, Args)]
#[command(after_long_help = ABOUT)]
pub struct EnginePlan {
    /// The temporary pool.
    #[command(flatten)]
    pub own: OwnPool,
    /// Size of a chunk of an Array
    #[arg(long = "size", value_name = "SIZE", default_value = "1MiB")]
    #[arg(value_parser = parse_size)]
    pub chunk_bytes: u64,
    /// Size of a value of a Key-Value
    #[arg(long = "value", value_name = "SIZE", default_value = "64")]
    #[arg(value_parser = parse_size)]
    pub value_bytes: u64,
    /// Number of clients, or several numbers, separated by commas
    #[arg(long, value_name = "N", default_value = "1,2", value_delimiter = ',')]
    pub procs: Vec<u32>,
    /// Number of operations of a client in flight, or several numbers, separated by commas
    #[arg(long, value_name = "N", default_value = "1,16", value_delimiter = ',')]
    pub in_flight: Vec<u32>,
    /// Measure clients over the fabric beside those over TCP; FI_PROVIDER chooses the provider of libfabric
    #[arg(long)]
    pub fabric: bool,
    /// Operations of each client in each phase [default: 512 MiB, at most 50000 operations]
    #[arg(long, value_name = "N")]
    pub ops: Option<u64>,
    /// Number of rounds of writing and reading; figures are over all rounds
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub rounds: u32,
    /// Duration of iperf3 in each round in seconds; 0 leaves it out
    #[arg(long = "iperf3", value_name = "SECONDS", default_value_t = 1)]
    pub iperf_seconds: u32,
    /// Repeat all phases with TLS, and compare both
    #[arg(long)]
    pub tls: bool,
    /// Compare what is read with what was written, in an unmeasured phase
    #[arg(long)]
    pub verify: bool,
    /// Seed of the data
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

impl Benchmark for EnginePlan {
    fn run(&self, note: Note<'_>) -> Result<Measurement> {
        check(&[self.chunk_bytes, self.value_bytes], &self.procs)?;
        self.check()?;
        let location = self.own.open(self.needs(), note)?;
        location.create_container(CONTAINER)?;
        let shared = Shared {
            pool: location.url.clone(),
            uuid: location.pool()?.info().wait()?.uuid,
            secret: esker_os::random_bytes()?,
        };
        let (_engine, addresses) = serve(WorkerKind::Engine, &shared)?;
        let mut runs = Vec::new();
        for case in self.cases() {
            let found = self.measure(case, &shared, &addresses, note)?;
            runs.extend(runs_of(case, &found));
        }
        Ok(Report::new(Host::for_folder(&location.folder)?, self.settings(&location)?, runs).into())
    }
}

/// Payload of one client in one phase if the number of operations is not given.
const DEFAULT_BYTES: u64 = 512 << 20;
const DEFAULT_OPS_MAX: u64 = 50_000;
/// Most operations of a client in flight.
const IN_FLIGHT_MAX: u32 = 1024;

/// The container that clients work in.
const CONTAINER: &str = "bench";

/// One combination of settings.
#[derive(Clone, Copy)]
struct Case {
    kind: Kind,
    procs: u32,
    in_flight: u32,
    size: u64,
    ops: u64,
    fabric: bool,
}

/// The phases of a case.
#[derive(Default)]
struct Found {
    plain: Tallies,
    iperf: Option<Tally>,
    /// Writing and reading with TLS.
    tls: Option<(Tally, Tally)>,
}

impl EnginePlan {
    fn check(&self) -> Result<()> {
        let in_flight = &self.in_flight;
        if in_flight.is_empty() || !in_flight.iter().all(|n| (1..=IN_FLIGHT_MAX).contains(n)) {
            let message = format!("operations in flight must be 1 to {IN_FLIGHT_MAX}");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if self.rounds == 0 || self.ops == Some(0) {
            return Err(Error::new(ErrorKind::Invalid, "rounds and operations must be at least 1"));
        }
        Ok(())
    }

    fn cases(&self) -> impl Iterator<Item = Case> {
        let kinds = [(Kind::Array, self.chunk_bytes), (Kind::Kv, self.value_bytes)];
        let each =
            self.procs.iter().flat_map(|&procs| self.in_flight.iter().map(move |&n| (procs, n)));
        let each: Vec<_> = each.collect();
        kinds.into_iter().flat_map(move |(kind, size)| {
            let ops = self.ops.unwrap_or((DEFAULT_BYTES / size).clamp(1, DEFAULT_OPS_MAX));
            let fabrics = [false, true].into_iter().take(1 + usize::from(self.fabric));
            let case = move |((procs, in_flight), fabric)| Case {
                kind,
                procs,
                in_flight,
                size,
                ops,
                fabric,
            };
            let each = each.clone().into_iter();
            each.flat_map(move |one| fabrics.clone().map(move |fabric| (one, fabric))).map(case)
        })
    }

    /// Payload and index entries of the largest case: a round, and the data of the previous round that is being freed.
    fn needs(&self) -> (u64, u64) {
        let ops = |case: &Case| u64::from(case.procs) * case.ops;
        let bytes = self.cases().map(|case| ops(&case) * case.size).max();
        let entries = self.cases().map(|case| ops(&case)).max();
        (bytes.unwrap_or(0), entries.unwrap_or(0) * 2)
    }

    fn clients(
        &self,
        case: Case,
        tls: bool,
        shared: &Shared,
        addresses: &Addresses,
    ) -> Result<Processes> {
        let job = |rank| ClientJob {
            rank,
            procs: case.procs,
            shared: shared.clone(),
            addresses: addresses.clone(),
            tls,
            container: CONTAINER.to_owned(),
            kind: case.kind,
            size_bytes: case.size,
            ops: case.ops,
            in_flight: case.in_flight,
            fabric: case.fabric,
            seed: self.seed,
        };
        start_clients(WorkerKind::Engine, case.procs, job)
    }

    /// Store and limit alternate, so that other load on the machine affects both.
    fn measure(
        &self,
        case: Case,
        shared: &Shared,
        addresses: &Addresses,
        note: Note<'_>,
    ) -> Result<Found> {
        let mut found = Found::default();
        let mut clients = self.clients(case, false, shared, addresses)?;
        let secured =
            (self.tls && !case.fabric).then(|| self.clients(case, true, shared, addresses));
        let mut secured = secured.transpose()?;
        let name = workload(case);
        note(&format!("{name}, {} clients: warming up", case.procs));
        for clients in [Some(&mut clients), secured.as_mut()].into_iter().flatten() {
            take_all(clients, Step::Write(WARM_UP))?;
            take_all(clients, Step::Remove(WARM_UP))?;
        }
        for round in 1..=self.rounds {
            note(&format!("{name}, {} clients: round {round} of {}", case.procs, self.rounds));
            self.round(&mut clients, case, round, &mut found)?;
            if let Some(clients) = &mut secured {
                self.round_with_tls(clients, round, &mut found)?;
            }
        }
        Ok(found)
    }

    fn round(
        &self,
        clients: &mut Processes,
        case: Case,
        round: u32,
        found: &mut Found,
    ) -> Result<()> {
        let (write_limit, read_limit) = limits(case.kind);
        found.plain.write_limit.add_round(&take_all(clients, write_limit)?);
        found.plain.write.add_round(&take_all(clients, Step::Write(round))?);
        if case.kind == Kind::Array
            && self.iperf_seconds > 0
            && let Some(measured) = iperf::measure(self.iperf_seconds, case.size)?
        {
            let iperf = found.iperf.get_or_insert_default();
            iperf.ops += measured.ops;
            iperf.bytes += measured.bytes;
            iperf.seconds += measured.seconds;
        }
        found.plain.read_limit.add_round(&take_all(clients, read_limit)?);
        found.plain.read.add_round(&take_all(clients, Step::Read(round))?);
        self.finish_round(clients, round)
    }

    fn round_with_tls(&self, clients: &mut Processes, round: u32, found: &mut Found) -> Result<()> {
        let (write, read) = found.tls.get_or_insert_default();
        write.add_round(&take_all(clients, Step::Write(round))?);
        read.add_round(&take_all(clients, Step::Read(round))?);
        self.finish_round(clients, round)
    }

    /// Compares what was written, if it is to be verified, and removes it.
    fn finish_round(&self, clients: &mut Processes, round: u32) -> Result<()> {
        if self.verify {
            take_all(clients, Step::Verify(round))?;
        }
        take_all(clients, Step::Remove(round)).map(drop)
    }

    fn settings(&self, location: &location::Location) -> Result<Settings> {
        let options = json!({
            "rounds": self.rounds,
            "ops": self.ops,
            "in_flight": self.in_flight,
            "fabric": self.fabric,
            "class": "SX",
            "tls": self.tls,
            "verified": self.verify,
        });
        location.settings(self.seed, options)
    }
}

/// The limits of writing and reading.
fn limits(kind: Kind) -> (Step, Step) {
    match kind {
        Kind::Array => (Step::Send, Step::Receive),
        Kind::Kv => (Step::Echo, Step::Echo),
    }
}

fn workload(case: Case) -> String {
    let over = if case.fabric { " over the fabric" } else { "" };
    format!("{} x{}{over}", case.kind.name(), case.in_flight)
}

fn runs_of(case: Case, found: &Found) -> Vec<Run> {
    let workload = workload(case);
    let name = RunName {
        store: "esker",
        workload: &workload,
        phase: "",
        procs: case.procs,
        size_bytes: case.size,
    };
    let (write_limit, read_limit) = limits(case.kind);
    let iperf = RunName { store: "medium", phase: "iperf3", ..name };
    let iperf = found.iperf.as_ref().map(|tally| Run::new(&iperf, tally, None));
    let plain = found.plain.runs(name, step_name(write_limit), step_name(read_limit));
    let tls = found.tls.iter().flat_map(|(write, read)| {
        let phases =
            [("tls write", write, &found.plain.write), ("tls read", read, &found.plain.read)];
        phases.map(|(phase, tally, limit)| Run::new(&RunName { phase, ..name }, tally, Some(limit)))
    });
    iperf.into_iter().chain(plain).chain(tls).collect()
}

/// Name of a limit in reports.
fn step_name(step: Step) -> &'static str {
    match step {
        Step::Receive => "tcp receive",
        Step::Echo => "tcp echo",
        _ => "tcp send",
    }
}
