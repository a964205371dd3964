//! Readers that have the pools open all the time, while writers are killed and paused.
use super::board::{
    Board, Check, KEYS, LANES, LaneBoard, POOLS, Presence, Register, SLOTS, TRANSIENTS,
};
use super::lane::{self, Lane};
use super::{board_path, lane_of, open_pools};
use crate::common;
use esker::{Access, Pool, Wait};
use esker_testing::Random;
use esker_types::{Epoch, ErrorKind, Result};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

/// Body of a reader process. Arguments: directory of the pools and the board, seed, number of this process. One thread
/// per pool reads registers and lists. Another one reads snapshots and in transactions, because their commits may wait
/// for a paused writer.
pub(crate) fn run() {
    common::end_at_panic();
    let arguments = common::arguments();
    let [folder, seed, process] = &arguments[..] else { panic!("arguments: {arguments:?}") };
    let number = |text: &String| text.parse::<u64>().expect("a number");
    let (seed, process) = (number(seed), number(process));
    let pools = open_pools(Path::new(folder));
    let board = Board::open(&board_path(Path::new(folder)));
    std::thread::scope(|scope| {
        for at in 0..POOLS {
            for is_auditor in [false, true] {
                let stream = process * 64 + (2 * at) as u64 + u64::from(is_auditor);
                let mut reader = Reader::open(&pools, at, &board, Random::new(seed, stream));
                scope.spawn(move || reader.check_until_stopped(is_auditor));
            }
        }
    });
}

/// A reader of one pool.
pub(super) struct Reader<'b> {
    board: &'b Board,
    pool: usize,
    lanes: Vec<Lane>,
    random: Random,
    /// Numbers that snapshots have shown before, by lane and epoch.
    snapshots: HashMap<(usize, Epoch), Vec<u64>>,
}

impl<'b> Reader<'b> {
    pub(super) fn open(pools: &[Pool], pool: usize, board: &'b Board, random: Random) -> Self {
        let open = |slot| Lane::open(&pools[pool], slot).expect("opening a lane");
        let lanes = (0..SLOTS).map(open).collect();
        Self { board, pool, lanes, random, snapshots: HashMap::new() }
    }

    /// Checks until the board is stopped. An auditor reads snapshots and in transactions.
    pub(super) fn check_until_stopped(&mut self, is_auditor: bool) {
        let parent = std::os::unix::process::parent_id();
        while !self.board.is_stopped() && std::os::unix::process::parent_id() == parent {
            let slot = self.random.below(SLOTS as u64) as usize;
            let checked = match (is_auditor, self.random.below(10)) {
                (false, 0..8) => self.check_registers(slot),
                (false, _) => self.check_list(slot),
                (true, 0..5) => self.check_in_transaction(slot),
                (true, _) => self.check_snapshots(slot),
            };
            let lane = format!("pool {}, slot {slot}", self.pool);
            checked.unwrap_or_else(|error| panic!("{lane}: reading failed: {error}"));
        }
    }

    /// The words of a slot in the pool of this reader.
    fn board(&self, slot: usize) -> LaneBoard<'b> {
        self.board.lane(lane_of(self.pool, slot))
    }

    /// Reads every register once, in random order.
    pub(super) fn check_registers(&mut self, slot: usize) -> Result<()> {
        let mut registers: Vec<_> = Register::all().collect();
        while !registers.is_empty() {
            let next = self.random.below(registers.len() as u64) as usize;
            self.check_register(slot, registers.swap_remove(next))?;
        }
        Ok(())
    }

    /// Reads a register. If only transactions write its number, all of their registers must have it.
    fn check_register(&self, slot: usize, register: Register) -> Result<()> {
        let board = self.board(slot);
        let floor = board.floor(register);
        let number = self.lanes[slot].read(register, Access::Latest)?;
        self.expect_not_before(slot, register, (floor, number));
        board.raise(register, number);
        if matches!(register, Register::Committed(_)) {
            Register::of_transaction().for_each(|other| board.raise(other, number));
        }
        self.board.count(Check::Read);
        Ok(())
    }

    /// Fails the test if a read number is less than the `floor`, which was known when the read began.
    fn expect_not_before(&self, slot: usize, register: Register, (floor, number): (u64, u64)) {
        if number < floor {
            panic!(
                "pool {}, slot {slot}, {register:?}: read {number}, but {floor} was acknowledged or seen before\n{}",
                self.pool,
                self.describe(slot)
            );
        }
    }

    /// Floor and current number of each register.
    fn describe(&self, slot: usize) -> String {
        let line = |register| {
            let floor = self.board(slot).floor(register);
            let number = self.lanes[slot].read(register, Access::Latest);
            format!("  {register:?}: at least {floor}, now {number:?}\n")
        };
        Register::all().map(line).collect()
    }

    /// Lists the keys. Acknowledged keys are in the list, and `get` agrees with it.
    pub(super) fn check_list(&mut self, slot: usize) -> Result<()> {
        let board = self.board(slot);
        let acknowledged = (0..KEYS).filter(|key| board.floor(Register::Key(*key)) > 0);
        let acknowledged: BTreeSet<_> = acknowledged.map(lane::key_name).collect();
        let before: Vec<_> = (0..TRANSIENTS).map(|key| board.presence(key)).collect();
        let listed = self.lanes[slot].list(self.random.within(1..9) as usize)?;
        let lane = format!("pool {}, slot {slot}", self.pool);
        let missing: Vec<_> = acknowledged.difference(&listed).collect();
        assert!(missing.is_empty(), "{lane}: the list has no {missing:?}");
        for (key, before) in before.into_iter().enumerate() {
            let found = self.lanes[slot].has_transient(key)?;
            if before.0 == Presence::Unknown || board.presence(key) != before {
                continue;
            }
            let found_by = [listed.contains(&lane::transient_name(key)), found];
            let expected = before.0 == Presence::Present;
            assert!(
                found_by == [expected; 2],
                "{lane}: transient key {key} is {before:?}, list and get: {found_by:?}"
            );
        }
        for key in (0..KEYS).filter(|key| listed.contains(&lane::key_name(*key))) {
            board.raise(Register::Key(key), 1);
            self.check_register(slot, Register::Key(key))?;
        }
        self.board.count(Check::List);
        Ok(())
    }

    /// Reads all registers of the transaction in one transaction, which sees one state.
    fn check_in_transaction(&mut self, slot: usize) -> Result<()> {
        let board = self.board(slot);
        let floors: Vec<_> = Register::of_transaction().map(|each| board.floor(each)).collect();
        let Some(numbers) = self.lanes[slot].read_together()? else { return Ok(()) };
        self.expect_complete(slot, "a transaction", &numbers);
        for ((register, number), floor) in Register::of_transaction().zip(&numbers).zip(floors) {
            self.expect_not_before(slot, register, (floor, *number));
            board.raise(register, *number);
        }
        self.board.count_transaction(self.pool);
        Ok(())
    }

    /// Expects that all objects have the number of one transaction, or a later one of a plain put.
    fn expect_complete(&self, slot: usize, source: &str, numbers: &[u64]) {
        let committed = numbers[0];
        let is_whole = numbers.chunks(2).all(|pair| pair[0] == committed && pair[1] >= committed);
        assert!(
            is_whole,
            "pool {}, slot {slot}, {source}: half a transaction: {numbers:?}",
            self.pool
        );
    }

    /// Reads each snapshot. It shows complete transactions, includes those acknowledged before it was created, and
    /// never changes.
    pub(super) fn check_snapshots(&mut self, slot: usize) -> Result<()> {
        let mut last = 0;
        for snapshot in self.lanes[slot].container.snapshots().wait()? {
            let access = Access::Snapshot(snapshot.epoch);
            let numbers = Register::of_transaction();
            let numbers = numbers.map(|register| self.lanes[slot].read(register, access));
            let numbers = match numbers.collect::<Result<Vec<_>>>() {
                // The writer has destroyed it.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                numbers => numbers?,
            };
            let source = format!("snapshot {} at {}", snapshot.name, snapshot.epoch.0);
            self.expect_complete(slot, &source, &numbers);
            let floor = snapshot.name.parse::<u64>().expect("a number").max(last);
            self.expect_not_before(slot, Register::Committed(0), (floor, numbers[0]));
            last = numbers[0];
            let known = self.snapshots.entry((slot, snapshot.epoch)).or_insert(numbers.clone());
            assert!(*known == numbers, "{source} showed {known:?}, now {numbers:?}");
            self.board.count(Check::Snapshot);
        }
        Ok(())
    }
}

/// Makes every kind of check of every lane once.
pub(super) fn check_everything(pools: &[Pool], board: &Board, seed: u64) {
    let checked = (0..LANES).try_for_each(|lane| {
        let (pool, slot) = (lane / SLOTS, lane % SLOTS);
        let mut reader = Reader::open(pools, pool, board, Random::new(seed, 1 << 32));
        reader.check_registers(slot)?;
        reader.check_list(slot)?;
        reader.check_in_transaction(slot)?;
        reader.check_snapshots(slot)
    });
    checked.expect("reading");
}
