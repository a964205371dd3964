//! The board: shared memory on which writers note acknowledged numbers and readers note the numbers that they have
//! read.
//!
//! Each lane (a writer's container in one pool) has registers. A register holds a number that only grows. Its **floor**
//! is the largest number that was acknowledged or read: every read that begins later must find at least this number.
use crate::words::Words;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

/// Number of pools that each process has open.
pub(super) const POOLS: usize = 2;
/// Number of writer slots, each of which has a container in every pool.
pub(super) const SLOTS: usize = 3;
/// Number of lanes: one per slot and pool.
pub(super) const LANES: usize = POOLS * SLOTS;

/// Number of objects that a transaction changes together. They are on all targets.
pub(super) const OBJECTS: usize = 8;
/// Number of keys that only plain puts write.
pub(super) const KEYS: usize = 8;
/// Number of blocks of the array.
pub(super) const BLOCKS: usize = 6;
/// Number of keys that are put and removed repeatedly.
pub(super) const TRANSIENTS: usize = 4;

/// A register of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Register {
    /// Key of an object that only transactions write.
    Committed(usize),
    /// Key of an object that plain puts write, then transactions.
    Mixed(usize),
    /// Key that only plain puts write.
    Key(usize),
    /// Block of the array.
    Block(usize),
}

impl Register {
    /// Number of registers of a lane.
    pub(super) const COUNT: usize = 2 * OBJECTS + KEYS + BLOCKS;

    /// The registers that a transaction writes.
    pub(super) fn of_transaction() -> impl Iterator<Item = Self> {
        (0..OBJECTS).flat_map(|object| [Self::Committed(object), Self::Mixed(object)])
    }

    /// All registers of a lane.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let single = (0..KEYS).map(Self::Key).chain((0..BLOCKS).map(Self::Block));
        Self::of_transaction().chain(single)
    }

    /// Its index among the registers of a lane.
    pub(super) fn index(self) -> usize {
        match self {
            Self::Committed(object) => 2 * object,
            Self::Mixed(object) => 2 * object + 1,
            Self::Key(key) => 2 * OBJECTS + key,
            Self::Block(block) => 2 * OBJECTS + KEYS + block,
        }
    }
}

/// Presence of a transient key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Absent = 0,
    Present = 1,
    /// A writer is about to change it, or died while it did.
    Unknown = 2,
}

/// Words of a lane: floors, transient keys, last number, and count of acknowledged operations.
const NUMBER: usize = Register::COUNT + TRANSIENTS;
const ACKNOWLEDGED: usize = NUMBER + 1;
const LANE_WORDS: usize = ACKNOWLEDGED + 1;

/// Words behind those of the lanes.
const STOP: usize = LANES * LANE_WORDS;
const READS: usize = STOP + 1;
const LISTS: usize = STOP + 2;
const SNAPSHOTS: usize = STOP + 3;
const TRANSACTIONS: usize = STOP + 4;
const WORDS: usize = TRANSACTIONS + POOLS;

/// A kind of check that readers count.
#[derive(Clone, Copy)]
pub(super) enum Check {
    Read = READS as isize,
    List = LISTS as isize,
    Snapshot = SNAPSHOTS as isize,
}

/// The mapped board.
pub(super) struct Board(Words);

impl Board {
    pub(super) fn create(path: &Path) -> Self {
        Self(Words::create(path, WORDS))
    }

    pub(super) fn open(path: &Path) -> Self {
        Self(Words::open(path))
    }

    /// Makes all readers end.
    pub(super) fn stop(&self) {
        self.0[STOP].store(1, SeqCst);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.0[STOP].load(SeqCst) == 1
    }

    /// Counts a check.
    pub(super) fn count(&self, check: Check) {
        self.0[check as usize].fetch_add(1, SeqCst);
    }

    /// Number of checks of a kind that readers have made.
    pub(super) fn checks(&self, check: Check) -> u64 {
        self.0[check as usize].load(SeqCst)
    }

    /// Counts a transaction that has read a pool.
    pub(super) fn count_transaction(&self, pool: usize) {
        self.0[TRANSACTIONS + pool].fetch_add(1, SeqCst);
    }

    /// Number of transactions that have read a pool.
    pub(super) fn transactions(&self, pool: usize) -> u64 {
        self.0[TRANSACTIONS + pool].load(SeqCst)
    }

    /// A lane of the board.
    pub(super) fn lane(&self, lane: usize) -> LaneBoard<'_> {
        LaneBoard(&self.0[lane * LANE_WORDS..][..LANE_WORDS])
    }

    /// Operations that were acknowledged in all lanes.
    pub(super) fn acknowledged(&self) -> u64 {
        (0..LANES).map(|lane| self.lane(lane).acknowledged()).sum()
    }
}

/// The words of one lane.
#[derive(Clone, Copy)]
pub(super) struct LaneBoard<'b>(&'b [AtomicU64]);

impl LaneBoard<'_> {
    /// The least number that a read must find if it begins now.
    pub(super) fn floor(self, register: Register) -> u64 {
        self.0[register.index()].load(SeqCst)
    }

    /// Notes that a number was acknowledged or read.
    pub(super) fn raise(self, register: Register, number: u64) {
        self.0[register.index()].fetch_max(number, SeqCst);
    }

    /// A number larger than all before it.
    pub(super) fn next_number(self) -> u64 {
        self.0[NUMBER].fetch_add(1, SeqCst) + 1
    }

    /// Counts an acknowledged operation.
    pub(super) fn acknowledge(self) {
        self.0[ACKNOWLEDGED].fetch_add(1, SeqCst);
    }

    pub(super) fn acknowledged(self) -> u64 {
        self.0[ACKNOWLEDGED].load(SeqCst)
    }

    /// Presence of a transient key, and a stamp that changes with it.
    pub(super) fn presence(self, key: usize) -> (Presence, u64) {
        let word = self.0[Register::COUNT + key].load(SeqCst);
        let presence = match word % 4 {
            0 => Presence::Absent,
            1 => Presence::Present,
            _ => Presence::Unknown,
        };
        (presence, word)
    }

    /// Notes the presence of a transient key, of which this thread is the only writer.
    pub(super) fn note_presence(self, key: usize, presence: Presence) {
        let word = &self.0[Register::COUNT + key];
        let stamp = word.load(SeqCst) / 4 + 1;
        word.store(stamp * 4 + presence as u64, SeqCst);
    }
}
