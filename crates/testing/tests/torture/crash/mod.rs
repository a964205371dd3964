//! Processes are killed at random times. No acknowledged operation is lost, and no lock or space stays allocated.
mod ops;
pub(crate) mod power;
pub(crate) mod worker;
mod world;

use crate::common::{self, Announce, Folder, PoolKind, Shape, Watchdog, Worker};
use esker::Wait;
use esker_testing::{Random, SEED_VARIABLE, pause, scaled, seed, wait_for};
use esker_types::info::Space;
use ops::{ACCOUNTS, BALANCE, Model, Op};
use std::path::{Path, PathBuf};
use world::World;

/// Slots per process: one thread each.
const PROCESSES: [&[u64]; 3] = [&[0, 1], &[2], &[3]];
const SLOTS: u64 = 4;
/// Number of rounds after which everything is deleted and all space must be free.
const ROUNDS_PER_POOL: u64 = 20;

/// Small, so that collection and compaction run all the time.
const SHAPE: Shape =
    Shape { targets: 3, segments: 20, segment_bytes: 512 << 10, index_bytes: 3 << 20 };

/// Larger segments, so that processes find most pages of them in memory and write through a mapping.
const MAPPED_SHAPE: Shape =
    Shape { targets: 3, segments: 12, segment_bytes: 3 << 19, index_bytes: 3 << 20 };

/// Bytes that an empty pool must accept at once: about nine tenths of its capacity.
const USABLE: u64 = 3 * 18 * (512 << 10);
const MAPPED_USABLE: u64 = 3 * 8 * (3 << 19);

struct Torture {
    usable: u64,
    folder: Folder,
    pool: PathBuf,
    seed: u64,
    random: Random,
    models: Vec<Model>,
    empty: Vec<Space>,
    kills: u64,
    acknowledged: u64,
}

impl Torture {
    fn new(pool_kind: PoolKind, shape: Shape, usable: u64, seed: u64) -> Self {
        let folder = Folder::new(pool_kind);
        let pool = common::make(&folder, "pool", pool_kind, shape);
        let empty = space(&pool);
        let (random, models) = (Random::new(seed, 0), Vec::new());
        Self { usable, folder, pool, seed, random, models, empty, kills: 0, acknowledged: 0 }
    }

    fn run(&mut self, pool_kind: PoolKind, rounds: u64) {
        for round in 0..rounds {
            let replay = format!("{SEED_VARIABLE}={} {pool_kind:?} round {round}", self.seed);
            let _watchdog = Watchdog::new(replay.clone());
            let failed = Announce::new(replay);
            if self.models.is_empty() {
                self.prepare();
            }
            self.kill_workers(round);
            self.verify(round);
            if (round + 1).is_multiple_of(ROUNDS_PER_POOL) || round + 1 == rounds {
                self.expect_all_space_back();
            }
            failed.nothing();
        }
        eprintln!(
            "{pool_kind:?}: {rounds} rounds, {} processes killed, {} operations acknowledged",
            self.kills, self.acknowledged
        );
    }

    /// Creates the containers and the models of all slots.
    fn prepare(&mut self) {
        world::prepare(&common::open(&self.pool), SLOTS).expect("preparing");
        self.models = (0..SLOTS).map(|_| Model::new()).collect();
    }

    /// Starts workers and kills them one after the other.
    fn kill_workers(&mut self, round: u64) {
        for slot in 0..SLOTS {
            std::fs::write(worker::ack_path(self.folder.path(), slot), b"").expect("making acks");
        }
        let mut workers: Vec<_> =
            PROCESSES.iter().map(|slots| self.start_worker(round, slots)).collect();
        if !self.random.one_in(10) {
            self.wait_for_first_acks(&mut workers);
        }
        while !workers.is_empty() {
            let longest = if self.random.one_in(4) { 1500 } else { 30_000 };
            pause(self.random.below(longest));
            let next = self.random.below(workers.len() as u64) as usize;
            workers.swap_remove(next).kill();
            self.kills += 1;
        }
    }

    fn start_worker(&self, round: u64, slots: &[u64]) -> Worker {
        let (pool, folder) = (self.pool.display(), self.folder.path().display());
        let slots: Vec<_> = slots.iter().map(u64::to_string).collect();
        let arguments = format!("{pool} {} {round} {folder} {}", self.seed, slots.join(" "));
        Worker::start("crash", &arguments)
    }

    /// Number of operations that a slot has acknowledged.
    fn acks(&self, slot: u64) -> u64 {
        let path = worker::ack_path(self.folder.path(), slot);
        std::fs::metadata(path).expect("reading acknowledgements").len()
    }

    fn wait_for_first_acks(&self, workers: &mut [Worker]) {
        wait_for("all workers make progress", || {
            workers.iter_mut().for_each(Worker::expect_alive);
            (0..SLOTS).all(|slot| self.acks(slot) > 0)
        });
    }

    /// Checks that all acknowledged operations are visible, and that the pool is undamaged.
    fn verify(&mut self, round: u64) {
        {
            let pool = common::open(&self.pool);
            let sum = world::balance(&pool).expect("reading the balance");
            assert_eq!(sum, ACCOUNTS * BALANCE, "a transfer was applied partly");
            for slot in 0..SLOTS {
                self.verify_slot(&World::open(&pool, slot).expect("opening"), round, slot);
            }
        }
        common::expect_sound(&self.pool, false);
        if round.is_multiple_of(4) {
            common::expect_clean(&self.pool);
        }
    }

    fn verify_slot(&mut self, world: &World, round: u64, slot: u64) {
        let random = worker::stream(self.seed, round, slot);
        let acks = self.acks(slot);
        self.acknowledged += acks;
        expect_acknowledged(world, &mut self.models[slot as usize], random, acks);
    }

    /// Deletes everything, and expects that all space is free and can be filled again.
    fn expect_all_space_back(&mut self) {
        world::clear(&common::open(&self.pool)).expect("deleting everything");
        common::expect_sound(&self.pool, false);
        let left = space(&self.pool);
        for (now, empty) in left.iter().zip(&self.empty) {
            // Pages that were added to the index are free in it.
            let moved = now.index_total - empty.index_total;
            assert_eq!(now.data_free + moved, empty.data_free, "data space is lost: {left:?}");
            let lost = empty.entries_free().saturating_sub(now.entries_free());
            assert!(lost <= 64 << 10, "index space is lost: {left:?}, was {:?}", self.empty);
        }
        world::fill(&common::open(&self.pool), self.usable).expect("filling the empty pool");
        world::clear(&common::open(&self.pool)).expect("deleting everything");
        self.models.clear();
    }
}

/// Expects that all acknowledged operations are visible. The operation in progress may be applied completely or not at
/// all. `random` determines the operations, and `acks` is the number of acknowledged ones.
fn expect_acknowledged(world: &World, model: &mut Model, mut random: Random, acks: u64) {
    (0..acks).for_each(|index| model.apply(&Op::draw(&mut random, index)));
    let Some(without) = world.differs_from(model).expect("reading") else { return };
    let under_way = Op::draw(&mut random, acks);
    model.apply(&under_way);
    if let Some(with) = world.differs_from(model).expect("reading") {
        panic!(
            "after {acks} operations: {without}\nwith the one under way: {with}\n{under_way:.300?}"
        );
    }
}

fn space(pool: &Path) -> Vec<Space> {
    common::open(pool).info().wait().expect("querying the space").targets
}

/// Kills workers on a kind of pool: no acknowledged operation may be lost, and no lock or space may stay allocated.
fn torture(pool_kind: PoolKind, rounds: u64) {
    Torture::new(pool_kind, SHAPE, USABLE, seed()).run(pool_kind, scaled(rounds));
}

#[test]
fn killed_in_memory() {
    torture(PoolKind::Memory, 140);
}

#[test]
fn killed_without_write_buffers() {
    torture(PoolKind::Unbuffered, 60);
}

#[test]
fn killed_with_a_guarded_index() {
    torture(PoolKind::Guarded, 30);
}

#[test]
fn killed_on_disk() {
    torture(PoolKind::Disk, 20);
}

#[test]
fn killed_on_disk_with_mapped_segments() {
    let mut torture = Torture::new(PoolKind::Disk, MAPPED_SHAPE, MAPPED_USABLE, seed());
    torture.run(PoolKind::Disk, scaled(20));
}

#[test]
fn killed_while_syncing() {
    torture(PoolKind::Durable, 20);
}

#[test]
fn killed_while_syncing_without_write_buffers() {
    torture(PoolKind::DurableUnbuffered, 10);
}
