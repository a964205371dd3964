//! Small, nearly full pools with the default layout. Concurrent processes overwrite values and are killed. Writes
//! always succeed, because the pools reserve enough space for them, and no acknowledged value is lost.
use crate::common::{self, Folder, PoolKind, Watchdog, Worker};
use esker_store::{Container, ContainerSpec, OpenPool, Pool, PoolSpec, Superblock};
use esker_testing::{Random, SEED_VARIABLE, pause, scaled, seed, wait_for};
use esker_types::info::{ContainerRef, Durability, OpenMode};
use esker_types::ops::{Cond, Fetch, ReadAt, Sink, Source, Update, Value, Write, WriteOp};
use esker_types::{ObjectClass, ObjectId, ObjectType, Result};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Slots per process: one thread each.
const PROCESSES: [&[u64]; 3] = [&[0, 1], &[2], &[3]];
const SLOTS: u64 = 4;
const ROUNDS_PER_POOL: u64 = 10;
/// MiB and targets of pools, starting with the smallest.
const LAYOUTS: [(u64, u32); 9] =
    [(4, 1), (6, 1), (12, 2), (24, 2), (40, 8), (32, 2), (64, 8), (72, 2), (128, 2)];
/// Upper bound for the size of a header with the keys of this test.
const HEADER: u64 = 128;

/// A dkey whose value one slot overwrites repeatedly.
#[derive(Clone, Copy)]
struct SlotValue {
    target: u32,
    dkey: [u8; 9],
    /// Maximum length of its value.
    len: u64,
}

/// One operation: puts values with these indexes, ids and lengths, or removes them (length 0), atomically.
type Op = Vec<(usize, u64, u64)>;

/// The dkeys of a slot. Their number is chosen so that at most `percent` of the pool's capacity is live.
fn values_of_slot(pool: &Path, seed: u64, percent: u64, slot: u64) -> Vec<SlotValue> {
    let layout = Superblock::read(pool).expect("the superblock");
    let mut random = Random::new(seed, 7000 + slot);
    let longest = (layout.segment_bytes / 8).min(200_000) >> random.below(3);
    let in_flight = 2 * SLOTS * (layout.segment_bytes / 8).min(200_000);
    let usable = u64::from(layout.segments - 1) * (layout.segment_bytes - longest - HEADER);
    let budget = usable.saturating_sub(in_flight) * percent / 100 / SLOTS;
    let mut slot_values = Vec::new();
    for target in 0..layout.targets {
        let mut sum = 0;
        for number in 0_u64.. {
            let most = longest >> random.below(3);
            let len = 1100 + random.below(most - 1000);
            sum += len.next_multiple_of(64) + HEADER;
            if sum > budget {
                break;
            }
            let mut dkey = [slot as u8; 9];
            dkey[1..].copy_from_slice(&number.to_be_bytes());
            slot_values.push(SlotValue { target, dkey, len });
        }
    }
    slot_values
}

/// Draws an operation: one value, or at times three at once. One value in 16 is removed.
fn draw(random: &mut Random, slot_values: &[SlotValue]) -> Op {
    let count = if random.one_in(8) { 3 } else { 1 };
    let one = |random: &mut Random| {
        let index = random.below(slot_values.len() as u64) as usize;
        let most = slot_values[index].len;
        let len = if random.one_in(16) { 0 } else { most - random.below(most / 8) };
        (index, random.draw(), len)
    };
    let mut op: Op = (0..count).map(|_| one(random)).collect();
    op.sort_unstable();
    op.dedup_by_key(|&mut (index, ..)| index);
    op
}

struct World {
    pool: Pool,
    container: Container,
    slot_values: Vec<SlotValue>,
}

const OID: fn() -> ObjectId = || ObjectId::generate(0, 1, ObjectType::MultiHashed, ObjectClass::S1);

impl World {
    fn open(path: &Path, seed: u64, percent: u64, slot: u64) -> Self {
        let pool = Pool::open(path).expect("opening");
        let label = ContainerRef::Label("full");
        let container = state(&pool, |state| state.open_container(label, OpenMode::ReadWrite));
        let (container, slot_values) =
            (container.expect("a container"), values_of_slot(path, seed, percent, slot));
        Self { pool, container, slot_values }
    }

    /// Performs an operation: one value on its target, several in a commit over targets.
    fn perform(&self, op: &Op) -> Result<()> {
        let values: Vec<_> =
            op.iter().map(|&(_, id, len)| Random::new(id, len).bytes(len as usize)).collect();
        let updates: Vec<_> = values
            .iter()
            .map(|value| {
                let value = Value::Single(Source::One(value));
                [Update { akey: b"a", value, cond: Cond::NONE }]
            })
            .collect();
        let write = |(at, &(index, _, len)): (usize, &(usize, u64, u64))| {
            let (slot_value, cond) = (&self.slot_values[index], Cond::NONE);
            let (dkey, updates) = (&slot_value.dkey, &updates[at]);
            let op = match len {
                0 => WriteOp::PunchDkey { dkey, cond },
                _ => WriteOp::Update { dkey, cond, updates },
            };
            (Write { oid: OID(), op }, vec![slot_value.target])
        };
        let writes: Vec<_> = op.iter().enumerate().map(write).collect();
        state(&self.pool, |state| match &writes[..] {
            [(write, targets)] => {
                state.write(&self.container, targets[0], &[*write], &[], None).map(drop)
            }
            _ => state.write_many(&self.container, &writes, &[], None).map(drop),
        })
    }

    /// The value of a dkey, empty if it does not exist.
    fn read(&self, slot_value: &SlotValue) -> Vec<u8> {
        let mut bytes = vec![0; slot_value.len as usize];
        let mut fetch = [Fetch::single(b"a", Sink::One(&mut bytes))];
        state(&self.pool, |state| {
            let target = &state.targets[slot_value.target as usize];
            target.fetch(
                self.container.id(),
                OID(),
                &slot_value.dkey,
                Cond::NONE,
                &mut fetch,
                ReadAt::LATEST,
            )
        })
        .expect("reading");
        let size = fetch[0].reply.size as usize;
        bytes.truncate(size);
        bytes
    }
}

/// Calls `work` with the open state of the pool.
fn state<T>(pool: &Pool, work: impl FnOnce(&OpenPool) -> T) -> T {
    work(pool.opened().expect("an open pool"))
}

/// The random numbers that determine the operations of a slot in a round.
fn stream(seed: u64, round: u64, slot: u64) -> Random {
    Random::new(seed, (round + 1) * 64 + slot)
}

fn ack_path(folder: &Path, slot: u64) -> PathBuf {
    folder.join(format!("acks-{slot}"))
}

/// Arguments: pool, seed, percent, round, directory for acknowledgements, and slots, a thread each. Overwrites values
/// until it is killed.
pub(crate) fn run() {
    let arguments = common::arguments();
    let number = |at: usize| arguments[at].parse::<u64>().expect("a number");
    let (pool, folder) = (Path::new(&arguments[0]), Path::new(&arguments[4]));
    let (seed, percent, round) = (number(1), number(2), number(3));
    std::thread::scope(|scope| {
        for slot in (5..arguments.len()).map(number) {
            scope.spawn(move || {
                let world = World::open(pool, seed, percent, slot);
                let acks = File::options().append(true).open(ack_path(folder, slot));
                work(&world, stream(seed, round, slot), acks.expect("acknowledgements"));
            });
        }
    });
}

/// Overwrites values and acknowledges each operation with a byte. Ends when the test, its parent process, is gone.
fn work(world: &World, mut random: Random, mut acks: File) {
    let parent = std::os::unix::process::parent_id();
    while std::os::unix::process::parent_id() == parent {
        let op = draw(&mut random, &world.slot_values);
        if let Err(error) = world.perform(&op) {
            eprintln!("{error}: {op:?}");
            std::process::exit(1);
        }
        acks.write_all(b".").expect("acknowledging");
    }
}

struct Torture {
    folder: Folder,
    pool: PathBuf,
    seed: u64,
    percent: u64,
    random: Random,
    /// Id and length of the value of each dkey, one list per slot.
    models: Vec<Vec<(u64, u64)>>,
}

impl Torture {
    /// A pool with the default layout, filled.
    fn new(pool_kind: PoolKind, seed: u64, number: u64) -> Self {
        let mut random = Random::new(seed, 1 << 40 | number);
        let seed = random.draw() >> 32;
        let (mib, targets) = LAYOUTS[random.below(LAYOUTS.len() as u64) as usize];
        let (percent, folder) = (random.within(20..96), Folder::new(pool_kind));
        let mut spec = PoolSpec::new("pool", mib << 20);
        spec.targets = Some(targets);
        spec.durability = (pool_kind == PoolKind::Durable).then_some(Durability::Commit);
        Pool::create(folder.path(), &spec, &mut |_, _| {}).expect("creating a pool");
        let pool = folder.path().join("pool");
        eprintln!("{mib} MiB, {targets} targets, {percent} %");
        let mut torture = Self { folder, pool, seed, percent, random, models: Vec::new() };
        torture.fill();
        torture
    }

    /// Creates the container, and puts the first value of each dkey.
    fn fill(&mut self) {
        let pool = Pool::open(&self.pool).expect("opening");
        let spec = ContainerSpec { label: Some("full"), ..ContainerSpec::default() };
        state(&pool, |state| state.create_container(&spec)).expect("a container");
        for slot in 0..SLOTS {
            let world = self.world(slot);
            let values: Vec<_> = world
                .slot_values
                .iter()
                .map(|slot_value| (self.random.draw(), slot_value.len))
                .collect();
            for (index, &(id, len)) in values.iter().enumerate() {
                world.perform(&vec![(index, id, len)]).expect("filling");
            }
            self.models.push(values);
        }
    }

    fn world(&self, slot: u64) -> World {
        World::open(&self.pool, self.seed, self.percent, slot)
    }

    /// Starts workers and kills them one after the other.
    fn kill_workers(&mut self, round: u64) {
        for slot in 0..SLOTS {
            std::fs::write(ack_path(self.folder.path(), slot), b"").expect("making acks");
        }
        let mut workers: Vec<_> = PROCESSES.iter().map(|slots| self.start(round, slots)).collect();
        if !self.random.one_in(10) {
            wait_for("all workers make progress", || {
                workers.iter_mut().for_each(Worker::expect_alive);
                (0..SLOTS).all(|slot| self.acks(slot) > 0)
            });
        }
        while !workers.is_empty() {
            let longest = if self.random.one_in(4) { 1500 } else { 30_000 };
            pause(self.random.below(longest));
            let next = self.random.below(workers.len() as u64) as usize;
            workers.swap_remove(next).kill();
        }
    }

    fn start(&self, round: u64, slots: &[u64]) -> Worker {
        let (pool, folder) = (self.pool.display(), self.folder.path().display());
        let slots: Vec<_> = slots.iter().map(u64::to_string).collect();
        let (seed, percent, slots) = (self.seed, self.percent, slots.join(" "));
        Worker::start("full", &format!("{pool} {seed} {percent} {round} {folder} {slots}"))
    }

    fn acks(&self, slot: u64) -> u64 {
        std::fs::metadata(ack_path(self.folder.path(), slot))
            .expect("reading acknowledgements")
            .len()
    }

    /// Acknowledged operations are visible; an operation in progress is applied completely or not at all.
    fn verify(&mut self, round: u64) {
        for slot in 0..SLOTS {
            let (world, mut random) = (self.world(slot), stream(self.seed, round, slot));
            let acks = self.acks(slot);
            let model = &mut self.models[slot as usize];
            for _ in 0..acks {
                apply(model, &draw(&mut random, &world.slot_values));
            }
            if let Some(without) = differs(&world, model) {
                apply(model, &draw(&mut random, &world.slot_values));
                if let Some(with) = differs(&world, model) {
                    panic!("slot {slot}, {acks} operations: {without}; with the next one {with}");
                }
            }
        }
        common::expect_sound(&self.pool, false);
    }

    /// Removes everything; then all of the pool must be free.
    fn empty(&self) {
        for slot in 0..SLOTS {
            let world = self.world(slot);
            for index in 0..world.slot_values.len() {
                world.perform(&vec![(index, 0, 0)]).expect("removing");
            }
        }
        common::expect_sound(&self.pool, false);
        let pool = Pool::open(&self.pool).expect("opening");
        for space in state(&pool, OpenPool::info).expect("info").targets {
            assert_eq!(space.data_free, space.data_total, "space is lost");
        }
    }
}

/// Applies an operation to the model of a slot.
fn apply(model: &mut [(u64, u64)], op: &Op) {
    op.iter().for_each(|&(index, id, len)| model[index] = (id, len));
}

/// Describes a value that differs from the model; `None` if there is none.
fn differs(world: &World, model: &[(u64, u64)]) -> Option<String> {
    let wrong = |(slot_value, &(id, len)): (&SlotValue, &(u64, u64))| {
        world.read(slot_value) != Random::new(id, len).bytes(len as usize)
    };
    let at = world.slot_values.iter().zip(model).position(wrong)?;
    Some(format!("slot value {at} is not the expected one of {} bytes", model[at].1))
}

/// Kills writers on nearly full pools of a kind: every write must succeed, and no acknowledged value may be lost.
fn torture(pool_kind: PoolKind, rounds: u64) {
    let (seed, mut done) = (seed(), 0);
    for number in 0..rounds.div_ceil(ROUNDS_PER_POOL) {
        let replay = format!("{SEED_VARIABLE}={seed} {pool_kind:?} pool {number}");
        eprintln!("{replay}");
        let mut pool = Torture::new(pool_kind, seed, number);
        for round in 0..ROUNDS_PER_POOL.min(rounds - done) {
            let _watchdog = Watchdog::new(format!("{replay} round {round}"));
            pool.kill_workers(round);
            pool.verify(round);
            done += 1;
        }
        pool.empty();
    }
    eprintln!("{pool_kind:?}: {done} rounds");
}

#[test]
fn small_and_full() {
    torture(PoolKind::Memory, scaled(40));
}

#[test]
fn small_and_full_while_syncing() {
    torture(PoolKind::Durable, scaled(10));
}
