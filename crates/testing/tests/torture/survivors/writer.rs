//! A process that writes to all pools, one thread per lane, until it is killed.
use super::board::{
    BLOCKS, Board, KEYS, LaneBoard, OBJECTS, POOLS, Presence, Register, TRANSIENTS,
};
use super::lane::Lane;
use super::{board_path, lane_of, open_pools};
use crate::common;
use esker::{Access, Wait};
use esker_testing::Random;
use esker_types::Result;
use std::path::Path;

/// Maximum number of snapshots of a container.
const SNAPSHOTS_MAX: usize = 3;

/// Body of a writer process. Arguments: directory of the pools and the board, seed, number of this process, and the
/// slots, one thread each per pool.
pub(crate) fn run() {
    common::end_at_panic();
    let arguments = common::arguments();
    let [folder, seed, process, slots @ ..] = &arguments[..] else {
        panic!("arguments: {arguments:?}")
    };
    let number = |text: &String| text.parse::<u64>().expect("a number");
    let (seed, process) = (number(seed), number(process));
    let pools = open_pools(Path::new(folder));
    let board = Board::open(&board_path(Path::new(folder)));
    std::thread::scope(|scope| {
        for slot in slots.iter().map(|slot| number(slot) as usize) {
            for (at, pool) in pools.iter().enumerate() {
                let board = board.lane(lane_of(at, slot));
                let random = Random::new(seed, process * 64 + (slot * POOLS + at) as u64);
                let lane = Lane::open(pool, slot).expect("opening a lane");
                scope.spawn(move || Writer { lane, board, random }.work());
            }
        }
    });
}

/// The only writer of a lane.
struct Writer<'b> {
    lane: Lane,
    board: LaneBoard<'b>,
    random: Random,
}

impl Writer<'_> {
    /// Performs operations until the process is killed, or until the test, its parent process, is gone.
    fn work(mut self) {
        let parent = std::os::unix::process::parent_id();
        while std::os::unix::process::parent_id() == parent {
            if let Err(error) = self.step() {
                eprintln!("a writer failed: {error}");
                std::process::exit(1);
            }
            self.board.acknowledge();
        }
        std::process::exit(2);
    }

    fn step(&mut self) -> Result<()> {
        match self.random.below(100) {
            0..45 => self.commit_after_puts(),
            45..70 => {
                let key = self.random.below(KEYS as u64) as usize;
                self.write(Register::Key(key))
            }
            70..85 => {
                let block = self.random.below(BLOCKS as u64) as usize;
                self.write(Register::Block(block))
            }
            85..95 => self.toggle_transient(),
            95..98 => self.take_snapshot(),
            _ => self.read_own(),
        }
    }

    /// A plain write outside a transaction.
    fn write(&self, register: Register) -> Result<()> {
        let number = self.board.next_number();
        self.lane.write(register, number, Access::Latest)?;
        self.board.raise(register, number);
        Ok(())
    }

    /// Makes plain puts on some of the objects, then a transaction over all of them.
    fn commit_after_puts(&mut self) -> Result<()> {
        let count = self.random.below(OBJECTS as u64 + 1) as usize;
        (0..count).try_for_each(|object| self.write(Register::Mixed(object)))?;
        let number = self.board.next_number();
        self.lane.commit(number)?;
        Register::of_transaction().for_each(|register| self.board.raise(register, number));
        Ok(())
    }

    /// Puts or removes a transient key. While the operation is in progress, its presence is unknown.
    fn toggle_transient(&mut self) -> Result<()> {
        let key = self.random.below(TRANSIENTS as u64) as usize;
        let present = self.board.presence(key).0 != Presence::Present;
        self.board.note_presence(key, Presence::Unknown);
        self.lane.set_transient(key, present)?;
        let presence = if present { Presence::Present } else { Presence::Absent };
        self.board.note_presence(key, presence);
        Ok(())
    }

    /// Takes a snapshot whose name is the number of the last acknowledged transaction.
    fn take_snapshot(&self) -> Result<()> {
        let container = &self.lane.container;
        let known = container.snapshots().wait()?;
        for old in known.iter().rev().skip(SNAPSHOTS_MAX - 1) {
            container.destroy_snapshot(old.epoch).wait()?;
        }
        let floor = self.board.floor(Register::Committed(0));
        container.create_snapshot(&floor.to_string()).wait().map(drop)
    }

    /// Reads a register: a writer must find its own numbers, too.
    fn read_own(&mut self) -> Result<()> {
        let all = Register::all().nth(self.random.below(Register::COUNT as u64) as usize);
        let register = all.expect("a register");
        let floor = self.board.floor(register);
        let number = self.lane.read(register, Access::Latest)?;
        assert!(number >= floor, "a writer reads {number} after {floor} in {register:?}");
        Ok(())
    }
}
