//! `esker bench engine`: compares a pool accessed through an engine with raw TCP. One process serves it,
//! others work on it, and both measure the raw connection.
mod client;
mod iperf;
mod raw;

pub use client::Client;
pub use raw::Flow;

use super::scratch::OwnPool;
use super::{Benchmark, Measurement, Note, Tallies, check, check_rounds, parse_size};
use crate::errors::ensure_valid;
use crate::job::{Kind, Member, WARM_UP};
use crate::measure::{Measured, Tally};
use crate::names::Named;
use crate::processes::{Processes, WorkerKind};
use crate::report::{Run, RunName};
use crate::runtime;
use crate::worker::Work;
use clap::Args;
use esker::types::info::OpenMode;
use esker::{Pool, Wait};
use esker_engine::{Engine, Threads};
use esker_types::{Result, Uuid};
use esker_wire::handshake::Secret;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// Measure a pool through an engine, over TCP on loopback
#[derive(Clone, Debug, Args)]
#[command(after_long_help = include_str!("../../help/engine.txt").trim_end())]
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
        let mut engine = Processes::launch(WorkerKind::EngineServer, [&shared])?;
        let addresses: Addresses = engine.first(())?;
        let mut runs = Vec::new();
        for case in self.cases() {
            let found = self.measure(case, &shared, &addresses, note)?;
            runs.extend(runs_of(case, &found));
        }
        let options = json!({
            "rounds": self.rounds, "ops": self.ops, "in_flight": self.in_flight, "fabric": self.fabric,
            "class": "SX", "tls": self.tls, "verified": self.verify,
        });
        location.report(self.seed, options, runs).map(Measurement::from)
    }
}

/// Payload of one client in one phase if the number of operations is not given.
const DEFAULT_BYTES: u64 = 512 << 20;
const DEFAULT_OPS_MAX: u64 = 50_000;
/// Most operations of a client in flight.
const IN_FLIGHT_MAX: u32 = 1024;

type Clients = Processes<Step, Measured>;

/// The phases of a case.
#[derive(Default)]
struct Found {
    plain: Tallies,
    iperf: Option<Tally>,
    /// Writing and reading with TLS.
    tls: Option<(Tally, Tally)>,
}

impl EnginePlan {
    /// Checks the options.
    fn check(&self) -> Result<()> {
        let in_flight = &self.in_flight;
        let valid = in_flight.iter().all(|n| (1..=IN_FLIGHT_MAX).contains(n));
        ensure_valid(valid && !in_flight.is_empty(), || {
            format!("operations in flight must be 1 to {IN_FLIGHT_MAX}")
        })?;
        check_rounds(self.rounds, self.ops)
    }

    /// All combinations of the options that are measured, each a case.
    fn cases(&self) -> Vec<Case> {
        let fabrics: &[bool] = if self.fabric { &[false, true] } else { &[false] };
        let mut cases = Vec::new();
        for (kind, size_bytes) in [(Kind::Array, self.chunk_bytes), (Kind::Kv, self.value_bytes)] {
            let ops = self.ops.unwrap_or((DEFAULT_BYTES / size_bytes).clamp(1, DEFAULT_OPS_MAX));
            for &procs in &self.procs {
                for &in_flight in &self.in_flight {
                    let case = |&fabric| Case { kind, procs, in_flight, size_bytes, ops, fabric };
                    cases.extend(fabrics.iter().map(case));
                }
            }
        }
        cases
    }

    /// Payload in bytes and index entries of the largest case. Entries count twice, because those of the previous round
    /// may not be freed yet.
    fn needs(&self) -> (u64, u64) {
        let ops = |case: &Case| u64::from(case.procs) * case.ops;
        let bytes = self.cases().iter().map(|case| ops(case) * case.size_bytes).max();
        let entries = self.cases().iter().map(ops).max();
        (bytes.unwrap_or(0), entries.unwrap_or(0) * 2)
    }

    /// Starts the client processes of a case.
    fn clients(
        &self,
        case: Case,
        tls: bool,
        shared: &Shared,
        addresses: &Addresses,
    ) -> Result<Clients> {
        let (shared, addresses) = (shared.clone(), addresses.clone());
        let job = ClientJob { member: Member::default(), shared, addresses, tls, case };
        let members = Member::all(case.procs, self.seed, &[]);
        Clients::launch(
            WorkerKind::Engine,
            members.map(|member| ClientJob { member, ..job.clone() }),
        )
    }

    /// Measures a case. Store and limit alternate, so that other load on the machine affects both.
    fn measure(
        &self,
        case: Case,
        shared: &Shared,
        addresses: &Addresses,
        note: Note<'_>,
    ) -> Result<Found> {
        let mut found = Found::default();
        let start = |tls| self.clients(case, tls, shared, addresses);
        let mut clients = start(false)?;
        let mut secured = (self.tls && !case.fabric).then(|| start(true)).transpose()?;
        let name = format!("{}, {} clients", workload(case), case.procs);
        note(&format!("{name}: warming up"));
        for clients in [Some(&mut clients), secured.as_mut()].into_iter().flatten() {
            clients.all(Step::Write(WARM_UP))?;
            clients.all(Step::Remove(WARM_UP))?;
        }
        for round in 1..=self.rounds {
            note(&format!("{name}: round {round} of {}", self.rounds));
            self.measure_round(&mut clients, case, round, &mut found)?;
            if let Some(clients) = &mut secured {
                self.round_with_tls(clients, round, &mut found)?;
            }
        }
        Ok(found)
    }

    /// Measures a round of a case without TLS. Each limit is measured before the phase that is compared with it.
    fn measure_round(
        &self,
        clients: &mut Clients,
        case: Case,
        round: u32,
        found: &mut Found,
    ) -> Result<()> {
        let [(write_limit, _), (read_limit, _)] = limits(case.kind);
        found.plain.write_limit.add_round(&clients.all(Step::Raw(write_limit))?);
        found.plain.write.add_round(&clients.all(Step::Write(round))?);
        if case.kind == Kind::Array
            && self.iperf_seconds > 0
            && let Some(measured) = iperf::measure(self.iperf_seconds, case.size_bytes)?
        {
            found.iperf.get_or_insert_default().add(&measured);
        }
        found.plain.read_limit.add_round(&clients.all(Step::Raw(read_limit))?);
        found.plain.read.add_round(&clients.all(Step::Read(round))?);
        self.finish_round(clients, round)
    }

    /// Measures the same round over a connection with TLS.
    fn round_with_tls(&self, clients: &mut Clients, round: u32, found: &mut Found) -> Result<()> {
        let (write, read) = found.tls.get_or_insert_default();
        write.add_round(&clients.all(Step::Write(round))?);
        read.add_round(&clients.all(Step::Read(round))?);
        self.finish_round(clients, round)
    }

    /// With `--verify`, reads back the objects of a round and compares them. Then removes them.
    fn finish_round(&self, clients: &mut Clients, round: u32) -> Result<()> {
        if self.verify {
            clients.all(Step::Verify(round))?;
        }
        clients.all(Step::Remove(round)).map(drop)
    }
}

/// The limits of writing and reading, with their names in reports.
fn limits(kind: Kind) -> [(Flow, &'static str); 2] {
    match kind {
        Kind::Array => [(Flow::Send, "tcp send"), (Flow::Receive, "tcp receive")],
        Kind::Kv => [(Flow::Echo, "tcp echo"); 2],
    }
}

/// Name of the workload of a case in reports, such as `array x16`.
fn workload(case: Case) -> String {
    let over = if case.fabric { " over the fabric" } else { "" };
    format!("{} x{}{over}", case.kind.name(), case.in_flight)
}

/// The lines of the report for one case: the limits of the network and the medium, and what was measured.
fn runs_of(case: Case, found: &Found) -> Vec<Run> {
    let (workload, Case { procs, size_bytes, .. }) = (workload(case), case);
    let name = RunName { store: "esker", workload: &workload, phase: "", procs, size_bytes };
    let [(_, write_limit), (_, read_limit)] = limits(case.kind);
    let iperf = RunName { store: "medium", phase: "iperf3", ..name };
    let iperf = found.iperf.as_ref().map(|tally| Run::new(&iperf, tally, None));
    let plain = found.plain.runs(name, [write_limit, "write", read_limit, "read"]);
    let tls = found.tls.iter().flat_map(|(write, read)| {
        let phases =
            [("tls write", write, &found.plain.write), ("tls read", read, &found.plain.read)];
        phases.map(|(phase, tally, limit)| Run::new(&RunName { phase, ..name }, tally, Some(limit)))
    });
    iperf.into_iter().chain(plain).chain(tls).collect()
}

/// Addresses of the engines and of the server of raw connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    /// Address of the engine, as `host:port`.
    pub engine: String,
    /// Address of an engine that serves the same pool with TLS.
    pub engine_tls: String,
    /// Address of the raw connections.
    pub raw: String,
}

/// Description of the pool, known to all processes of a benchmark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shared {
    /// URL of the pool.
    pub pool: String,
    /// UUID of the pool.
    pub uuid: Uuid,
    /// The secret of engine and clients.
    pub secret: [u8; 32],
}

/// The container that clients work in.
pub const CONTAINER: &str = "bench";

/// The work of all clients at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// The kind of data.
    pub kind: Kind,
    /// Number of clients.
    pub procs: u32,
    /// Operations of a client under way at a time.
    pub in_flight: u32,
    /// Bytes of one operation.
    pub size_bytes: u64,
    /// Operations of a client in each phase.
    pub ops: u64,
    /// Reach the engine over the fabric.
    pub fabric: bool,
}

/// The job of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientJob {
    /// The process.
    pub member: Member,
    /// The pool.
    pub shared: Shared,
    /// Its engine.
    pub addresses: Addresses,
    /// Work through the engine with TLS.
    pub tls: bool,
    /// Its work.
    pub case: Case,
}

/// One phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Transfers blocks over a raw connection, the limit.
    Raw(Flow),
    /// Stores the data of a round.
    Write(u32),
    /// Reads the data that the next process stored in a round.
    Read(u32),
    /// Reads and compares that data; not measured.
    Verify(u32),
    /// Removes the data that this process stored in a round.
    Remove(u32),
}

/// An engine that runs as long as this value.
pub struct Server {
    _runtime: Runtime,
    addresses: Addresses,
}

impl Work for Server {
    type Job = Shared;
    type Step = ();
    type Done = Addresses;

    /// Serves the pool `shared` on loopback, once plainly and once with TLS.
    fn begin(shared: Shared) -> Result<Self> {
        let pool = Pool::connect(&shared.pool, OpenMode::ReadWrite)?;
        let engine = || Engine::new(Arc::clone(pool.backend()), shared.uuid, secret(&shared));
        let (plain, secured) = (engine(), engine());
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = Arc::new(Threads::start(threads)?);
        plain.serve_on(Arc::clone(&threads));
        secured.serve_on(threads);
        secured.require_tls()?;
        let runtime = runtime::start(Some(1))?;
        let engine = listen(&runtime, plain)?;
        let engine_tls = listen(&runtime, secured)?;
        let addresses = Addresses { engine, engine_tls, raw: raw::listen()? };
        Ok(Self { _runtime: runtime, addresses })
    }

    /// Answers the main process with the addresses of the engine.
    fn take(&mut self, (): ()) -> Result<Addresses> {
        Ok(self.addresses.clone())
    }
}

/// Lets an engine serve on loopback. Returns its address.
fn listen(runtime: &Runtime, engine: Engine) -> Result<String> {
    let (listener, address) = runtime::listen(runtime)?;
    runtime.spawn(async move { engine.listen(listener).await });
    Ok(address)
}

pub(super) fn secret(shared: &Shared) -> Secret {
    Secret::new(shared.secret)
}
