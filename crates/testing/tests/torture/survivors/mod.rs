//! Readers that have the pools open while writers are killed or paused. Each read finds all numbers that were
//! acknowledged or read before, and transactions are atomic.
mod board;
mod lane;
pub(crate) mod reader;
pub(crate) mod writer;

use crate::common::{self, Announce, Folder, PoolKind, Shape, Watchdog, Worker};
use board::{Board, Check, LANES, POOLS, SLOTS};
use esker::Pool;
use esker_testing::{Random, SEED_VARIABLE, pause, scaled, seed};
use reader::Reader;
use std::path::{Path, PathBuf};

/// Slots of each writer process, which has a thread per slot and pool.
const PROCESSES: [&[usize]; 2] = [&[0, 1], &[2]];
/// Number of processes that only read.
const READERS: u64 = 2;

/// Maximum lifetime in microseconds of the writers that are killed all at once.
const LIFE: u64 = 12_000;

/// Maximum pause of a writer in microseconds, and that of one pause in ten.
const PAUSE: u64 = 150_000;
const LONG_PAUSE: u64 = 800_000;

fn pool_path(folder: &Path, pool: usize) -> PathBuf {
    folder.join(format!("pool{pool}"))
}

fn board_path(folder: &Path) -> PathBuf {
    folder.join("board")
}

fn open_pools(folder: &Path) -> Vec<Pool> {
    (0..POOLS).map(|pool| common::open(&pool_path(folder, pool))).collect()
}

fn lane_of(pool: usize, slot: usize) -> usize {
    pool * SLOTS + slot
}

/// The pools, the board, and what has happened to the writers.
struct Survivors {
    folder: Folder,
    seed: u64,
    random: Random,
    board: Board,
    pools: Vec<Pool>,
    started: u64,
    kills: u64,
    pauses: u64,
    /// Registers that were read while a writer was paused.
    reads_in_pauses: u64,
}

impl Survivors {
    fn new(pool_kind: PoolKind, seed: u64) -> Self {
        let folder = Folder::new(pool_kind);
        for pool in 0..POOLS {
            common::make(&folder, &format!("pool{pool}"), pool_kind, Shape::SMALL);
        }
        let pools = open_pools(folder.path());
        let lanes = (0..LANES).map(|lane| (&pools[lane / SLOTS], lane % SLOTS));
        lanes.for_each(|(pool, slot)| lane::create(pool, slot).expect("a container"));
        let board = Board::create(&board_path(folder.path()));
        let random = Random::new(seed, 0);
        let (started, kills, pauses, reads_in_pauses) = (0, 0, 0, 0);
        Self { folder, seed, random, board, pools, started, kills, pauses, reads_in_pauses }
    }

    /// Kills or pauses a writer in each round while readers check, then checks everything.
    fn run(mut self, pool_kind: PoolKind, rounds: u64) {
        let replay = |round| format!("{SEED_VARIABLE}={} {pool_kind:?} round {round}", self.seed);
        let replays: Vec<_> = (0..=rounds).map(replay).collect();
        let mut readers: Vec<_> = (0..READERS).map(|_| self.start("survivors-read", "")).collect();
        let mut writers: Vec<_> = PROCESSES.iter().map(|slots| self.start_writer(slots)).collect();
        for replay in &replays[..rounds as usize] {
            let _watchdog = Watchdog::new(replay.clone());
            let failed = Announce::new(replay.clone());
            self.disturb(&mut writers);
            readers.iter_mut().for_each(Worker::expect_alive);
            failed.nothing();
        }
        let failed = Announce::new(replays[rounds as usize].clone());
        self.end(writers, readers);
        failed.nothing();
        self.report(pool_kind, rounds);
        self.verify();
    }

    /// Starts a process with a task; `more` is appended to its arguments.
    fn start(&mut self, job: &str, more: &str) -> Worker {
        self.started += 1;
        let folder = self.folder.path().display();
        let arguments = format!("{folder} {} {} {more}", self.seed, self.started);
        Worker::start(job, arguments.trim_end())
    }

    fn start_writer(&mut self, slots: &[usize]) -> Worker {
        let slots: Vec<_> = slots.iter().map(usize::to_string).collect();
        self.start("survivors-write", &slots.join(" "))
    }

    /// Kills or pauses one of the writers in the middle of its work.
    fn disturb(&mut self, writers: &mut [Worker]) {
        let victim = self.random.below(writers.len() as u64) as usize;
        if !self.random.one_in(10) {
            self.wait_for_acknowledgement(&mut writers[victim], PROCESSES[victim]);
        }
        pause(self.random.below(25_000));
        let is_paused = self.random.one_in(3);
        if is_paused {
            self.pause_writer(&mut writers[victim]);
        }
        if is_paused && self.random.one_in(2) {
            return;
        }
        writers[victim].kill();
        self.kills += 1;
        self.check_slots_of(victim);
        writers[victim] = self.start_writer(PROCESSES[victim]);
    }

    /// Waits until a process has written to each pool.
    fn wait_for_acknowledgement(&self, writer: &mut Worker, slots: &[usize]) {
        let lanes = (0..POOLS).map(|pool| self.board.lane(lane_of(pool, slots[0])));
        for lane in lanes {
            let before = lane.acknowledged();
            writer.wait_until("a writer makes progress", || lane.acknowledged() > before);
        }
    }

    /// Stops a writer for a while; it may hold any lock of the store.
    fn pause_writer(&mut self, writer: &mut Worker) {
        let longest = if self.random.one_in(10) { LONG_PAUSE } else { PAUSE };
        writer.signal(libc::SIGSTOP);
        let before = self.board.checks(Check::Read);
        pause(self.random.below(longest));
        self.reads_in_pauses += self.board.checks(Check::Read) - before;
        writer.signal(libc::SIGCONT);
        self.pauses += 1;
    }

    /// Checks in this process too, which had the pools open before the writer began.
    fn check_slots_of(&mut self, process: usize) {
        for pool in 0..POOLS {
            let random = Random::new(self.random.draw(), 0);
            let mut reader = Reader::open(&self.pools, pool, &self.board, random);
            for slot in PROCESSES[process] {
                reader.check_registers(*slot).expect("reading");
                reader.check_list(*slot).expect("listing");
            }
        }
    }

    /// Ends all writers, then checks everything once more.
    fn end(&mut self, mut writers: Vec<Worker>, mut readers: Vec<Worker>) {
        writers.iter_mut().for_each(Worker::kill);
        self.kills += writers.len() as u64;
        reader::check_everything(&self.pools, &self.board, self.seed);
        self.board.stop();
        readers.iter_mut().for_each(Worker::finish_soon);
    }

    /// Kills all writers at once, repeatedly. A reader process, whose transactions take the write locks, continues.
    fn run_killing_all(mut self, pool_kind: PoolKind, rounds: u64) {
        let mut reader = self.start("survivors-read", "");
        for round in 0..rounds {
            let replay =
                format!("{SEED_VARIABLE}={} {pool_kind:?} all killed, round {round}", self.seed);
            let failed = Announce::new(replay);
            self.kill_all_at_once();
            for pool in 0..POOLS {
                let before = self.board.transactions(pool);
                reader.wait_until("a reader gets the locks of killed writers", || {
                    self.board.transactions(pool) > before
                });
            }
            failed.nothing();
        }
        self.end(Vec::new(), vec![reader]);
        self.report(pool_kind, rounds);
        self.verify();
    }

    /// Starts all writers, waits until each makes progress, and kills them.
    fn kill_all_at_once(&mut self) {
        let mut writers: Vec<_> = PROCESSES.iter().map(|slots| self.start_writer(slots)).collect();
        for (writer, slots) in writers.iter_mut().zip(PROCESSES) {
            self.wait_for_acknowledgement(writer, slots);
        }
        pause(self.random.below(LIFE));
        for writer in &mut writers {
            if self.random.one_in(2) {
                writer.signal(libc::SIGSTOP);
                pause(self.random.below(LIFE));
                self.pauses += 1;
            }
            writer.kill();
            self.kills += 1;
        }
    }

    fn report(&self, pool_kind: PoolKind, rounds: u64) {
        let checks = |check| self.board.checks(check);
        eprintln!(
            "{pool_kind:?}: seed {}, {rounds} rounds, {} kills, {} pauses, {} operations acknowledged, \
             {} reads ({} of them in pauses), {} lists, {} snapshots, {} transactions read",
            self.seed,
            self.kills,
            self.pauses,
            self.board.acknowledged(),
            checks(Check::Read),
            self.reads_in_pauses,
            checks(Check::List),
            checks(Check::Snapshot),
            (0..POOLS).map(|pool| self.board.transactions(pool)).sum::<u64>(),
        );
    }

    /// Checks the pools after all processes have closed them.
    fn verify(self) {
        let Self { folder, pools, .. } = self;
        drop(pools);
        for pool in 0..POOLS {
            let path = pool_path(folder.path(), pool);
            common::expect_sound(&path, false);
            common::expect_clean(&path);
        }
    }
}

/// Runs readers on a kind of pool while writers are killed and paused. Each read must find what was acknowledged or
/// read before, and see whole transactions.
fn survive(pool_kind: PoolKind, rounds: u64) {
    Survivors::new(pool_kind, seed()).run(pool_kind, scaled(rounds));
}

#[test]
fn surviving_readers_see_atomic_commits_in_memory() {
    survive(PoolKind::Unbuffered, 50);
}

#[test]
fn surviving_readers_see_atomic_commits_in_a_durable_pool() {
    survive(PoolKind::Durable, 20);
}

#[test]
fn surviving_readers_see_atomic_commits_with_a_write_buffer() {
    survive(PoolKind::Memory, 100);
}

#[test]
fn readers_continue_after_all_writers_are_killed() {
    for pool_kind in [PoolKind::Unbuffered, PoolKind::Durable] {
        Survivors::new(pool_kind, seed()).run_killing_all(pool_kind, scaled(20));
    }
}
