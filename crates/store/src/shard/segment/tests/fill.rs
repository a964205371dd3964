//! Pools of many sizes are filled with random values, which are overwritten and removed. As long as the live data
//! leaves space, writes succeed.
use crate::data::header;
use crate::shard::Target;
use crate::shard::container::Container;
use crate::shard::open_pool::OpenPool as Pool;
use crate::tests::{Random, Scratch};
use esker_types::info::{ContainerRef, OpenMode};
use esker_types::ops::{Cond, Source, Update, Value, Write, WriteOp};
use esker_types::{ErrorKind, ObjectClass, ObjectId, ObjectType, Result};
use std::collections::BTreeMap;

/// Maximum length of a key of a test in the data table, before an extent.
const KEY: usize = 64;

struct Model<'p> {
    pool: &'p Pool,
    container: Container,
    random: Random,
    /// Footprint of each value.
    values: BTreeMap<u64, u64>,
    target: u32,
    /// Maximum length of a value.
    longest: u64,
}

impl<'p> Model<'p> {
    fn new(pool: &'p Pool, target: u32, longest: u64, random: Random) -> Self {
        let container = pool
            .open_container(ContainerRef::Label("c"), OpenMode::ReadWrite)
            .unwrap_or_else(|_| super::container(pool));
        Self { pool, container, random, values: BTreeMap::new(), target, longest }
    }

    fn target(&self) -> &'p Target {
        &self.pool.targets[self.target as usize]
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.draw() % limit
    }

    fn write(&self, op: WriteOp<'_>) -> Result<()> {
        let oid = ObjectId::generate(0, 1, ObjectType::MultiHashed, ObjectClass::S1);
        self.pool.write(&self.container, self.target, &[Write { oid, op }], &[], None).map(drop)
    }

    /// Stores a value of `len` bytes, and notes the space that it takes.
    fn put(&mut self, key: u64, len: u64) -> Result<()> {
        let (dkey, value) = (key.to_be_bytes(), vec![key as u8; len as usize]);
        let value = Value::Single(Source::One(&value));
        let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
        self.write(WriteOp::Update { dkey: &dkey, cond: Cond::NONE, updates: &updates })?;
        self.values.insert(key, header::footprint(KEY, len));
        Ok(())
    }

    fn remove(&mut self, key: u64) {
        self.write(WriteOp::PunchDkey { dkey: &key.to_be_bytes(), cond: Cond::NONE }).unwrap();
        self.values.remove(&key);
    }

    fn live(&self) -> u64 {
        self.values.values().sum()
    }

    /// Bytes that can be live: all but the reserve and the ends of segments into which no value fits.
    fn capacity(&self) -> u64 {
        let (count, size) = (self.target().segment_count(), self.target().segment_bytes());
        let longest = header::footprint(KEY, self.longest);
        u64::from(count - 1) * (size - longest.min(size / 2))
    }

    /// A random length. Many are short.
    fn length(&mut self) -> u64 {
        let most = self.longest >> self.below(4);
        1100 + self.below(most.max(1200) - 1099)
    }

    /// Overwrites and removes values at random while at most `percent` of the capacity is live, until `bytes` bytes
    /// were written.
    fn churn(&mut self, percent: u64, bytes: u64, what: &str) {
        let limit = self.capacity() * percent / 100;
        let keys = limit * 3 / self.longest + 4;
        let mut written = 0;
        while written < bytes {
            let (key, len) = (self.below(keys), self.length());
            let new = header::footprint(KEY, len);
            let old = self.values.get(&key).copied().unwrap_or(0);
            // The old value dies with the commit of the new one.
            if self.live() + new > limit || (old > 0 && self.below(8) == 0) {
                let gone = self.values.range(key..).next().or(self.values.first_key_value());
                let gone = *gone.unwrap().0;
                self.remove(gone);
                continue;
            }
            if let Err(error) = self.put(key, len) {
                panic!("{what}: {} of {limit} alive, {len} bytes: {error}", self.live());
            }
            written += new;
        }
    }
}

/// Sizes of pools of the automatic layout: MiB and number of targets.
const LAYOUTS: [(u64, u32); 8] =
    [(6, 1), (11, 2), (24, 2), (32, 2), (64, 2), (128, 2), (144, 2), (64, 8)];

/// Each round uses another target and other lengths of values, in pools of different sizes.
#[test]
fn writes_succeed_while_live_data_leaves_space() {
    for (number, (mib, targets)) in LAYOUTS.into_iter().enumerate() {
        let pool = Scratch::new(mib << 20, |spec| spec.targets = Some(targets));
        let state = pool.opened();
        for (round, percent) in [25, 60, 90, 97].into_iter().enumerate() {
            let target = round as u32 % targets;
            let size = state.targets[0].segment_bytes();
            let longest = [size / 4, size / 16, size / 64, 20_000][(number + round) % 4].max(2000);
            let random = Random::new((number * 10 + round) as u64);
            let mut model = Model::new(&state, target, longest, random);
            let what = format!("{mib} MiB, {targets} targets, {percent} %, longest {longest}");
            model.churn(percent, 2 * model.capacity(), &what);
            for key in model.values.keys().copied().collect::<Vec<_>>() {
                model.remove(key);
            }
        }
    }
}

/// Fills the target six times, and removes some values of each segment in between.
#[test]
fn removing_always_frees() {
    for (mib, targets) in LAYOUTS {
        let pool = Scratch::new(mib << 20, |spec| spec.targets = Some(targets));
        let state = pool.opened();
        let longest = state.targets[0].segment_bytes() / 8;
        let mut model = Model::new(&state, 0, longest, Random::new(mib));
        for round in 0..6 {
            let full = loop {
                let (key, len) = (model.random.draw(), model.length());
                if let Err(error) = model.put(key, len) {
                    break error;
                }
            };
            assert_eq!(full.kind(), ErrorKind::NoSpace, "{full}");
            let live = model.live();
            assert!(live >= model.capacity() * 95 / 100, "{mib} MiB, {targets}: {live}: {full}");
            // Some values are removed in each segment, so that no segment dies completely.
            let keys: Vec<_> = model.values.keys().copied().collect();
            keys.iter().skip(round).step_by(7).for_each(|&key| model.remove(key));
        }
    }
}

/// Puts values of up to `longest` bytes until the pool is full; returns the number of live bytes.
fn fill(model: &mut Model<'_>, longest: u64) -> u64 {
    for key in 0.. {
        let len = longest - model.below(longest / 4);
        if let Err(error) = model.put(key, len) {
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
            break;
        }
    }
    model.live()
}

/// Removes all but the first `kept` values.
fn empty(model: &mut Model<'_>, kept: u64) {
    let keys: Vec<_> = model.values.keys().copied().filter(|&key| key >= kept).collect();
    keys.into_iter().for_each(|key| model.remove(key));
}

/// Space that the index used for small values is available for large ones after nineteen of twenty are removed.
/// The positions of the others do not matter. This holds in the smallest pools too.
#[test]
fn index_space_is_returned_to_data() {
    const SMALL: u64 = 200;
    for (mib, targets) in [(4, 1), (6, 1), (12, 2), (24, 1), (40, 4)] {
        let pool = Scratch::new(mib << 20, |spec| spec.targets = Some(targets));
        let state = pool.opened();
        let longest = state.targets[0].segment_bytes() / 8;
        let mut model = Model::new(&state, 0, longest, Random::new(mib));
        let first = fill(&mut model, longest);
        empty(&mut model, 0);
        for round in 0..3 {
            fill(&mut model, SMALL);
            let kept = model.values.len() as u64 / 20;
            empty(&mut model, kept);
            model.values.clear();
            let again = fill(&mut model, longest);
            let least = if mib == 4 { first / 10 * 9 } else { first / 2 };
            assert!(again >= least, "{mib} MiB, round {round}: {again} of {first} bytes");
            empty(&mut model, 0);
        }
    }
}

/// The reported free space can be written, except for headers and the ends of segments into which no value fits.
#[test]
fn reported_free_space_is_writable() {
    for (mib, targets) in [(4, 1), (24, 2), (64, 8)] {
        let pool = Scratch::new(mib << 20, |spec| spec.targets = Some(targets));
        let state = pool.opened();
        let space = |number: u32| state.info().unwrap().targets[number as usize];
        let longest = state.targets[0].segment_bytes() / 32;
        for target in 0..targets.min(2) {
            let mut model = Model::new(&state, target, longest, Random::new(mib));
            let told = space(target);
            assert_eq!(told.data_free, told.data_total);
            let written = fill(&mut model, longest);
            assert!(written >= told.free() / 10 * 9, "{mib} MiB: {written} of {told:?}");
            let left = space(target);
            assert!(left.free() <= told.free() / 10, "{mib} MiB: full, and {left:?}");
            // Small values are put until the index is full, which reports no free space for them then.
            fill(&mut model, 500);
            let left = space(target);
            assert!(left.index_free <= left.index_total / 16, "{mib} MiB: full, and {left:?}");
        }
    }
}
