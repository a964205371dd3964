//! Histories of concurrent clients, some of which are killed or paused in the middle: single operations must be
//! linearizable, and transactions strictly serializable.
pub(crate) mod client;
mod graph;
mod journal;
mod lists;
mod registers;
mod serial;
mod served;

use crate::common::{self, Announce, Folder, PoolKind, Shape, Watchdog, Worker};
use client::{Client, Objects, Plan, Workload};
use esker::backend::NewContainer;
use esker::{Pool, Wait};
use esker_testing::{Random, SEED_VARIABLE, pause, scaled, seed, wait_for};
use esker_types::info::OpenMode;
use journal::{Clock, Phase};
use served::Engines;

/// Number of processes with clients, besides the process of the test.
const PROCESSES: u64 = 3;
/// Number of clients per process.
const THREADS: u64 = 2;

/// Number of processes that are killed or paused in each round.
const DISTURBANCES: u64 = 4;

/// Maximum pause of a process in microseconds.
const PAUSE: u64 = 20_000;

/// A pool, and the history of its clients.
struct Histories {
    folder: Folder,
    engines: Option<Engines>,
    pool: Pool,
    plan: Plan,
    random: Random,
    /// Clients of this round so far.
    clients: u64,
    /// Clients of this round that were killed.
    killed: u64,
    kills: u64,
    pauses: u64,
    operations: u64,
    unknown: u64,
}

impl Histories {
    fn new(pool_kind: PoolKind, workload: Workload, nodes: u32) -> Self {
        let (folder, seed) = (Folder::new(pool_kind), seed());
        let engines = (nodes > 0).then(|| Engines::start(&folder, pool_kind, nodes));
        let url = match &engines {
            Some(engines) => engines.url(),
            None => {
                let path = common::make(&folder, "pool", pool_kind, Shape::SMALL);
                format!("esker:{}", path.display())
            }
        };
        let pool = Pool::connect(&url, OpenMode::ReadWrite).expect("connecting");
        let (random, plan) = (Random::new(seed, 1), Plan { url, workload, round: 0, seed });
        let (clients, killed, kills, pauses, operations, unknown) = (0, 0, 0, 0, 0, 0);
        Self {
            folder,
            engines,
            pool,
            plan,
            random,
            clients,
            killed,
            kills,
            pauses,
            operations,
            unknown,
        }
    }

    fn run(&mut self, pool_kind: PoolKind, rounds: u64) {
        for round in 0..rounds {
            let Plan { workload, seed, .. } = self.plan;
            let replay = format!("{SEED_VARIABLE}={seed} {workload:?} {pool_kind:?} round {round}");
            let _watchdog = Watchdog::new(replay.clone());
            let failed = Announce::new(replay);
            self.plan.round = round;
            (self.clients, self.killed) = (0, 0);
            self.run_round();
            self.check();
            failed.nothing();
        }
        eprintln!(
            "{:?} on {}: seed {}, {rounds} rounds, {} kills, {} pauses, {} operations checked, {} of them \
             with an unknown result",
            self.plan.workload,
            self.plan.url,
            self.plan.seed,
            self.kills,
            self.pauses,
            self.operations,
            self.unknown
        );
    }

    /// Numbers for the clients of one more process.
    fn new_clients(&mut self) -> Vec<u64> {
        let first = self.clients;
        self.clients += THREADS;
        (first..self.clients).collect()
    }

    /// Starts a process with new clients.
    fn start(&mut self, process: u64) -> Worker {
        let clients = self.new_clients();
        let arguments = client::arguments(self.folder.path(), &self.plan, &clients);
        Worker::start_with("histories", &arguments, |command| {
            if self.engines.is_some() {
                command.env(esker::names::NODE_VARIABLE, served::node_of(process));
            }
        })
    }

    /// Lets clients of this and of other processes work, while processes are killed and paused. Then reads everything.
    fn run_round(&mut self) {
        let clock = Clock::create(self.folder.path(), self.plan.round);
        let label = client::label(self.plan.round);
        let new = NewContainer::named(&label);
        self.pool.create_container(&new).wait().expect("a container");
        let mut workers: Vec<_> = (0..PROCESSES).map(|process| self.start(process)).collect();
        let own = self.new_clients();
        let (folder, plan, pool) =
            (self.folder.path().to_owned(), self.plan.clone(), self.pool.clone());
        std::thread::scope(|scope| {
            let _end = End(&clock);
            let own = scope.spawn(move || client::work_in_threads(&folder, &plan, &pool, &own));
            wait_for("all clients are ready", || clock.ready() == (PROCESSES + 1) * THREADS);
            clock.enter(Phase::Work);
            for _ in 0..DISTURBANCES {
                self.wait_for_progress(&clock);
                self.disturb(&mut workers);
            }
            self.wait_for_progress(&clock);
            clock.enter(Phase::End);
            own.join().expect("a client");
        });
        workers.iter_mut().for_each(Worker::finish_soon);
        self.read_all(&clock);
        let destroyed = self.pool.destroy_container(&label, true);
        destroyed.wait().expect("destroying the container");
    }

    /// Waits until clients have made a random number of operations, or all of them.
    fn wait_for_progress(&mut self, clock: &Clock) {
        let moment = clock.last_moment() + self.random.below(600);
        wait_for("clients make progress", || {
            clock.last_moment() >= moment || clock.ended() + self.killed >= clock.ready()
        });
    }

    /// Kills or pauses a process, unless its clients have done all their operations.
    fn disturb(&mut self, workers: &mut [Worker]) {
        let process = self.random.below(PROCESSES);
        let worker = &mut workers[process as usize];
        if let Some(status) = worker.0.try_wait().expect("polling a worker") {
            assert!(status.success(), "a client failed: {status}");
            return;
        }
        pause(self.random.below(1500));
        let is_paused = self.random.one_in(3);
        if is_paused {
            worker.signal(libc::SIGSTOP);
            pause(self.random.below(PAUSE));
            worker.signal(libc::SIGCONT);
            self.pauses += 1;
        }
        if !is_paused || self.random.one_in(2) {
            worker.0.kill().expect("killing a worker");
            let status = worker.0.wait().expect("waiting for a worker");
            assert!(status.code().is_none_or(|code| code == 0), "a client failed: {status}");
            self.kills += 1;
            self.killed += THREADS;
            workers[process as usize] = self.start(process);
        }
    }

    /// Reads everything at the end of the round, so that each lost write shows.
    fn read_all(&mut self, clock: &Clock) {
        let mut client = Client::new(self.folder.path(), &self.plan, self.clients, clock);
        self.clients += 1;
        Objects::open(&self.pool, &self.plan).expect("opening").read_all(&mut client);
    }

    /// Checks the history of the round, and removes its journals.
    fn check(&mut self) {
        let entries = journal::read(self.folder.path(), self.plan.round, self.clients);
        let checked = match self.plan.workload {
            Workload::Registers => registers::check(&entries),
            Workload::Lists => lists::check(&entries),
        };
        let (operations, unknown) = checked.unwrap_or_else(|wrong| panic!("{wrong}"));
        self.operations += operations;
        self.unknown += unknown;
        journal::remove(self.folder.path(), self.plan.round, self.clients);
    }
}

/// Ends the round when it is dropped, so that clients do not wait for a test that has failed.
struct End<'c>(&'c Clock);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.enter(Phase::End);
    }
}

/// Checks the histories of both workloads on a kind of pool, over `nodes` nodes or, with 0, on one node. Operations
/// must be linearizable, and transactions strictly serializable.
fn check_histories(pool_kind: PoolKind, nodes: u32, rounds: u64) {
    for workload in [Workload::Registers, Workload::Lists] {
        Histories::new(pool_kind, workload, nodes).run(pool_kind, scaled(rounds));
    }
}

#[test]
fn histories_in_memory() {
    check_histories(PoolKind::Unbuffered, 0, 15);
}

#[test]
fn histories_of_a_durable_pool() {
    check_histories(PoolKind::Durable, 0, 5);
}

#[test]
fn histories_over_nodes() {
    check_histories(PoolKind::Unbuffered, served::NODES, 3);
}

#[test]
fn histories_with_a_write_buffer() {
    check_histories(PoolKind::Memory, 0, 15);
}
