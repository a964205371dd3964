//! Operations of workers, drawn from a seed, and a model of their effect on the pool.
use esker_testing::Random;
use esker_types::Extent;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Keys of a worker's Key-Value.
const KEYS: u64 = 24;
/// Size of a worker's array in bytes; its chunks are distributed over all targets.
pub(crate) const CELLS: u64 = 96 << 10;
/// Bytes of a chunk.
pub(crate) const CHUNK: u64 = 16 << 10;
/// Accounts that all workers transfer between.
pub(crate) const ACCOUNTS: u64 = 24;
/// Initial balance of each account.
pub(crate) const BALANCE: u64 = 1000;
/// Number of snapshots that a worker keeps at a time.
const SNAPSHOTS: usize = 2;

/// One operation of a worker.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Put {
        key: u64,
        value: Arc<Vec<u8>>,
    },
    Remove {
        key: u64,
    },
    Write {
        ranges: Vec<Extent>,
        bytes: Vec<u8>,
    },
    PunchCells {
        range: Extent,
    },
    PunchArray,
    /// Keys and cells in one transaction.
    Together {
        puts: Vec<(u64, Arc<Vec<u8>>)>,
        remove: u64,
        range: Extent,
        bytes: Vec<u8>,
    },
    /// A transfer between accounts that all workers share, counted in the worker's own counter.
    Transfer {
        from: u64,
        to: u64,
        amount: u64,
    },
    /// Takes a snapshot, or destroys the oldest if the limit is reached.
    Snapshot {
        name: String,
    },
    MakeTemporary,
    FillTemporary {
        key: u64,
        value: Arc<Vec<u8>>,
    },
    DropTemporary,
}

impl Op {
    /// Draws an operation; `index` is its number, from which a snapshot gets its name.
    pub(crate) fn draw(random: &mut Random, index: u64) -> Self {
        match random.below(100) {
            0..35 => Self::Put { key: random.below(KEYS), value: value(random) },
            35..40 => Self::Remove { key: random.below(KEYS) },
            40..60 => {
                let ranges = ranges(random);
                let total: u64 = ranges.iter().map(|range| range.count).sum();
                Self::Write { bytes: cells(random, total), ranges }
            }
            60..64 => Self::PunchCells { range: range(random) },
            // Often, so that many writes find holes: those are buffered.
            64..68 => Self::PunchArray,
            68..75 => {
                let puts = (0..1 + random.below(3)).map(|_| (random.below(KEYS), value(random)));
                let (puts, range) = (puts.collect(), range(random));
                let remove = random.below(KEYS);
                Self::Together { puts, remove, bytes: cells(random, range.count), range }
            }
            75..88 => {
                let from = random.below(ACCOUNTS);
                let to = (from + 1 + random.below(ACCOUNTS - 1)) % ACCOUNTS;
                Self::Transfer { from, to, amount: random.below(20) }
            }
            88..92 => Self::Snapshot { name: format!("s{index}") },
            92..94 => Self::MakeTemporary,
            94..98 => Self::FillTemporary { key: random.below(KEYS), value: value(random) },
            _ => Self::DropTemporary,
        }
    }
}

fn value(random: &mut Random) -> Arc<Vec<u8>> {
    let len = match random.below(4) {
        0 => random.within(1025..40_000),
        1 => random.within(900..1200),
        _ => random.below(200),
    };
    Arc::new(random.bytes(len as usize))
}

/// Bytes without zeros, because a zero stands for a hole.
fn cells(random: &mut Random, count: u64) -> Vec<u8> {
    let mut bytes = random.bytes(count as usize);
    bytes.iter_mut().for_each(|byte| *byte |= 1);
    bytes
}

fn range(random: &mut Random) -> Extent {
    let start = random.below(CELLS);
    let longest = if random.one_in(2) { 300 } else { 3 * CHUNK };
    Extent::new(start, (1 + random.below(longest)).min(CELLS - start))
}

/// One range, or several that do not overlap.
fn ranges(random: &mut Random) -> Vec<Extent> {
    if random.one_in(2) {
        return vec![range(random)];
    }
    let count = random.within(2..8);
    let step = CELLS / count;
    let extent = |number: u64, random: &mut Random| {
        let skip = random.below(step - 1);
        Extent::new(number * step + skip, 1 + random.below((step - skip).min(5000)))
    };
    (0..count).map(|number| extent(number, random)).collect()
}

/// The content of a worker's container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub keys: BTreeMap<u64, Arc<Vec<u8>>>,
    /// Zero for a hole.
    pub cells: Vec<u8>,
}

/// Everything that one worker has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Model {
    pub now: Content,
    pub snapshots: Vec<(String, Content)>,
    pub temporary: Option<BTreeMap<u64, Arc<Vec<u8>>>>,
    pub transfers: u64,
}

impl Model {
    pub(crate) fn new() -> Self {
        let now = Content { keys: BTreeMap::new(), cells: vec![0; CELLS as usize] };
        Self { now, snapshots: Vec::new(), temporary: None, transfers: 0 }
    }

    pub(crate) fn apply(&mut self, op: &Op) {
        match op {
            Op::Put { key, value } => drop(self.now.keys.insert(*key, Arc::clone(value))),
            Op::Remove { key } => drop(self.now.keys.remove(key)),
            Op::Write { ranges, bytes } => self.write(ranges, bytes),
            Op::PunchCells { range } => self.cells_of(*range).fill(0),
            Op::PunchArray => self.now.cells.fill(0),
            Op::Together { puts, remove, range, bytes } => {
                self.now.keys.remove(remove);
                self.now.keys.extend(puts.iter().cloned());
                self.write(&[*range], bytes);
            }
            Op::Transfer { .. } => self.transfers += 1,
            Op::Snapshot { .. } if self.snapshots.len() >= SNAPSHOTS => {
                self.snapshots.remove(0);
            }
            Op::Snapshot { name } => self.snapshots.push((name.clone(), self.now.clone())),
            Op::MakeTemporary => drop(self.temporary.get_or_insert_default()),
            Op::FillTemporary { key, value } => {
                if let Some(keys) = &mut self.temporary {
                    keys.insert(*key, Arc::clone(value));
                }
            }
            Op::DropTemporary => self.temporary = None,
        }
    }

    /// The cells of a range, to be changed.
    fn cells_of(&mut self, range: Extent) -> &mut [u8] {
        &mut self.now.cells[range.start as usize..range.end() as usize]
    }

    fn write(&mut self, ranges: &[Extent], bytes: &[u8]) {
        let mut rest = bytes;
        for range in ranges {
            let (head, tail) = rest.split_at(range.count as usize);
            self.cells_of(*range).copy_from_slice(head);
            rest = tail;
        }
    }

    /// True if the next [`Op::Snapshot`] destroys one.
    pub(crate) fn is_full_of_snapshots(count: usize) -> bool {
        count >= SNAPSHOTS
    }
}
