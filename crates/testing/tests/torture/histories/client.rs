//! A client: a thread that works on one container and keeps a journal. Its process may be killed or paused at any time.
use super::journal::{Clock, Journal, Phase};
use super::lists::Lists;
use super::registers::Registers;
use crate::common;
use esker::{Pool, Wait};
use esker_testing::{Random, pause, wait_for};
use esker_types::info::OpenMode;
use esker_types::{ErrorKind, Result};
use std::path::Path;

/// Maximum number of values that one client writes.
const VALUES: u64 = 10_000;

/// Maximum pause between and in operations, in microseconds.
const PAUSE: u64 = 200;

/// The operations that clients perform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    Registers,
    Lists,
}

impl Workload {
    /// Maximum number of operations of a client. It bounds the history, so that it can be checked.
    fn operations_max(self) -> u64 {
        match self {
            Self::Registers => 1200,
            Self::Lists => 400,
        }
    }
}

/// Result of an operation that the client knows.
pub(super) enum Outcome<T> {
    Done(T),
    /// It has changed nothing, because of a conflict.
    Aborted,
    /// It may take effect later, or never.
    Unknown,
}

/// The state of a client.
pub(super) struct Client<'c> {
    pub(super) journal: Journal<'c>,
    pub(super) random: Random,
    number: u64,
    values: u64,
    /// True if engines are between this client and the pool. Then connections may be lost.
    is_remote: bool,
}

/// Parameters of the clients of a round.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) url: String,
    pub(super) workload: Workload,
    pub(super) round: u64,
    pub(super) seed: u64,
}

impl<'c> Client<'c> {
    pub(super) fn new(folder: &Path, plan: &Plan, number: u64, clock: &'c Clock) -> Self {
        let journal = Journal::create(folder, plan.round, number, clock);
        let random = Random::new(plan.seed, plan.round << 16 | number);
        let is_remote = plan.url.starts_with("nodes:");
        Self { journal, random, number, values: 0, is_remote }
    }

    /// A value that no client has written before.
    pub(super) fn next_value(&mut self) -> u64 {
        self.values += 1;
        (self.number + 1) * VALUES + self.values
    }

    /// Lets others run between a read and the write that depends on it. One of `times` pauses is longer.
    pub(super) fn hesitate(&mut self, times: u64) {
        match self.random.one_in(times) {
            true => pause(self.random.below(PAUSE)),
            false => std::thread::yield_now(),
        }
    }

    /// Classifies the result of an operation. Errors that it must not have are defects.
    pub(super) fn classify<T>(&self, result: Result<T>) -> Outcome<T> {
        let error = match result {
            Ok(value) => return Outcome::Done(value),
            Err(error) => error,
        };
        let lost = [ErrorKind::Io, ErrorKind::TimedOut, ErrorKind::InDoubt];
        match error.kind() {
            ErrorKind::TxRestart => Outcome::Aborted,
            kind if self.is_remote && lost.contains(&kind) => Outcome::Unknown,
            kind => panic!("client {}: {kind:?}: {error}", self.number),
        }
    }
}

/// The container of a round.
pub(super) fn label(round: u64) -> String {
    format!("round-{round}")
}

/// The objects of a workload.
pub(super) enum Objects {
    Registers(Registers),
    Lists(Lists),
}

impl Objects {
    pub(super) fn open(pool: &Pool, plan: &Plan) -> Result<Self> {
        let container = pool.open_container(&label(plan.round), OpenMode::ReadWrite).wait()?;
        match plan.workload {
            Workload::Registers => Registers::open(container).map(Self::Registers),
            Workload::Lists => Lists::open(container).map(Self::Lists),
        }
    }

    /// Works during the phase of work, but makes no more operations than a history may have.
    fn work(&self, client: &mut Client<'_>, clock: &Clock, operations_max: u64) {
        clock.note_ready();
        wait_for("all clients are ready", || clock.has_entered(Phase::Work));
        for _ in 0..operations_max {
            if clock.has_entered(Phase::End) {
                return;
            }
            client.hesitate(12);
            match self {
                Self::Registers(registers) => registers.work(client),
                Self::Lists(lists) => lists.work(client),
            }
        }
    }

    /// Reads everything once, when no other client works.
    pub(super) fn read_all(&self, client: &mut Client<'_>) {
        match self {
            Self::Registers(registers) => registers.read_all(client),
            Self::Lists(lists) => lists.read_all(client),
        }
    }
}

/// The arguments of a process with these clients: see [`run`].
pub(super) fn arguments(folder: &Path, plan: &Plan, clients: &[u64]) -> String {
    let Plan { url, workload, round, seed } = plan;
    let clients: Vec<_> = clients.iter().map(u64::to_string).collect();
    format!("{} {url} {workload:?} {round} {seed} {}", folder.display(), clients.join(" "))
}

/// Body of a process with clients. Arguments: folder of journals, URL of the pool, workload, round, seed, and the
/// clients, one thread each.
pub(crate) fn run() {
    common::end_at_panic();
    let arguments = common::arguments();
    let [folder, url, workload, round, seed, clients @ ..] = &arguments[..] else {
        panic!("arguments: {arguments:?}")
    };
    let number = |text: &String| text.parse::<u64>().expect("a number");
    let all = [Workload::Registers, Workload::Lists];
    let workload = all.into_iter().find(|known| format!("{known:?}") == *workload);
    let workload = workload.expect("a workload");
    let plan = Plan { url: url.clone(), workload, round: number(round), seed: number(seed) };
    let clients: Vec<_> = clients.iter().map(number).collect();
    let pool = Pool::connect(url, OpenMode::ReadWrite).expect("connecting");
    work_in_threads(Path::new(folder), &plan, &pool, &clients);
}

/// Runs clients in threads of this process.
pub(super) fn work_in_threads(folder: &Path, plan: &Plan, pool: &Pool, clients: &[u64]) {
    let clock = Clock::open(folder, plan.round);
    let objects = Objects::open(pool, plan).expect("opening the container");
    std::thread::scope(|scope| {
        for number in clients {
            let (clock, objects) = (&clock, &objects);
            let mut client = Client::new(folder, plan, *number, clock);
            scope.spawn(move || {
                objects.work(&mut client, clock, plan.workload.operations_max());
                clock.note_end();
            });
        }
    });
}
