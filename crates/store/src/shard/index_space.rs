//! Space that data and index share.
//!
//! The file of an index is larger than its space on the medium. The remainder consists of **blocks**. A block is a
//! value in a table of its own, on adjacent pages, of which only the first page exists. While the value exists, LMDB
//! cannot use its pages. To let the index grow, the pages of a block are allocated and its value is removed, so they
//! become ordinary free pages. For every group of blocks with the size of a segment, one **segment is moved to the
//! index**. Its space on the medium is released, and its number is recorded in the index, so that no data is written to
//! it. If data needs the space back, the same number of blocks is created from adjacent free pages.
//! `docs/decisions/0026-shared-space.md` explains the reasons.
mod blocks;
mod pack;
#[cfg(test)]
mod tests;

pub(crate) use blocks::{IndexSpace, make_blocks};

use super::held_pages::LAG_PAUSE;
use super::segment::claim;
use super::walk::Usage;
use super::{Target, reserved_pages};
use crate::data::table::SegmentState;
use crate::format::keys::{Key, Table, segment_of};
use crate::index::entries;
use crate::index::txn::{Txn, WriteTxn};
use crate::io::{lock, sys};
use crate::sync::retry_for_two_seconds;
use blocks::{allocation_error, block_key, inside, value_len};
use esker_types::{Error, ErrorKind, Result};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, TryLockError};
#[cfg(test)]
use tests::crash_point;

/// A point at which tests simulate a crash.
#[cfg(not(test))]
fn crash_point() -> Result<()> {
    Ok(())
}

/// Number of commits to wait if free pages are not adjacent.
const PAUSE: u64 = 4096;
/// Maximum number of attempts to make free pages adjacent by moving entries, for a segment that is needed.
const MOVES_MAX: u32 = 4;
/// Share of the pages of an index that should be free: one in this number.
const SPARE_SHARE: u64 = 8;
/// Share of the initial index at the end of its file that growth keeps unused: one page in this number.
const KEPT_SHARE: u64 = 4;
/// Number of commits until these pages are counted again if there are enough.
const EARLY_PAUSE: u64 = 8;
/// Minimum number of pages that should be free.
const SPARE_PAGES_MIN: u64 = 128;

thread_local! {
    /// True while this thread moves space. Then it cannot get space by moving space.
    static MOVING: Cell<bool> = const { Cell::new(false) };
}

fn index_segment_key(segment: u32) -> Key {
    Key::table(Table::IndexSegment).push(&segment.to_be_bytes())
}

/// Numbers of the segments that the index uses.
pub(crate) fn index_segments(txn: &Txn) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    entries::table(txn, Table::IndexSegment, |key, _| found.extend(segment_of(key)))?;
    Ok(found)
}

/// Space of the index, according to its records.
struct SpaceAccount {
    /// Number of blocks that the index does not use.
    idle: u32,
    segments: Vec<u32>,
    /// Number of blocks that the index may use without another segment.
    credit: u32,
    /// Number of blocks that the index uses without a segment for them.
    debt: u32,
}

impl SpaceAccount {
    /// Reads the account from an index. Numbers that a damaged index may have in excess are left out.
    fn read(index_space: &IndexSpace, txn: &Txn) -> Result<Self> {
        let idle = reserved_pages::count(txn, Table::Block)?.min(index_space.blocks);
        let mut segments = index_segments(txn)?;
        segments.retain(|&number| number < index_space.segments);
        let (used, allowed) =
            (index_space.blocks - idle, segments.len() as u32 * index_space.per_segment);
        let (credit, debt) = (allowed.saturating_sub(used), used.saturating_sub(allowed));
        Ok(Self { idle, segments, credit, debt })
    }
}

impl Target {
    /// Estimated number of pages in blocks that the index does not use.
    pub(crate) fn idle_pages(&self) -> u64 {
        let Some(index_space) = &self.index_space else { return 0 };
        let blocks = self.shared().blocks().load(Ordering::Relaxed);
        blocks.min(u64::from(index_space.blocks)) * index_space.pages()
    }

    /// Recounts the blocks that the index does not use.
    pub(crate) fn count_blocks(&self) -> Result<()> {
        let count = reserved_pages::count(&*self.index.read()?, Table::Block)?;
        self.shared().blocks().store(u64::from(count), Ordering::Relaxed);
        Ok(())
    }

    /// Number of segments that the index uses.
    pub(crate) fn index_segment_count(&self) -> u32 {
        let atomics = self.shared();
        (0..self.segment_count())
            .filter(|&s| atomics.segment(s).load() == SegmentState::Index)
            .count() as u32
    }

    /// True if the index should grow before the change of `txn`. Freed pages, including those of a block, cannot be
    /// reused while a reader may still read them. So some pages should be free in advance, and growth while such a
    /// reader exists is useless.
    pub(crate) fn wants_block(&self, txn: &WriteTxn) -> Result<bool> {
        let Some(index_space) = &self.index_space else { return Ok(false) };
        if MOVING.get() || self.shared().blocks().load(Ordering::Relaxed) == 0 {
            return Ok(false);
        }
        let (used, total) = self.pages(txn)?;
        let wanted = (total / SPARE_SHARE).max(SPARE_PAGES_MIN).max(self.pages_for_buffer(total));
        let is_due =
            used + wanted > total || self.grows_early(index_space, txn, used, total - wanted)?;
        if !is_due || txn.id() < index_space.growth_pause.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let is_in_vain = self.has_lagging_reader(txn)?;
        if is_in_vain {
            index_space.growth_pause.store(txn.id() + LAG_PAUSE, Ordering::Relaxed);
        }
        Ok(!is_in_vain)
    }

    /// True if the index of `txn`, which uses `used` of `most` pages, should grow because its other pages are at the
    /// end of its file. Only those can be used while a reader reads an old state for a long time. So a quarter of the
    /// initial index stays unused while half of the segments are free. An index that has used few pages so far does not
    /// grow.
    fn grows_early(
        &self,
        index_space: &IndexSpace,
        txn: &WriteTxn,
        used: u64,
        most: u64,
    ) -> Result<bool> {
        let initial = index_space.initial_pages(self.index.file_bytes());
        let kept = initial / KEPT_SHARE;
        if used < kept || txn.id() < index_space.early_pause.load(Ordering::Relaxed) {
            return Ok(false);
        }
        if used + self.index.untouched_pages()?.min(kept) <= most {
            index_space.early_pause.store(txn.id() + EARLY_PAUSE, Ordering::Relaxed);
            return Ok(false);
        }
        let atomics = self.shared();
        let is_free = |number: &u32| atomics.segment(*number).load() == SegmentState::Free;
        let free = (0..self.segment_count()).filter(is_free).count() as u32;
        let grows = free > self.segment_count() / 2;
        if !grows {
            index_space.early_pause.store(txn.id() + PAUSE, Ordering::Relaxed);
        }
        Ok(grows)
    }

    /// Lets the index use up to `blocks` more blocks; returns false if there is not even space for one. If `urgent`,
    /// segments are freed for it.
    pub(crate) fn grow_index(&self, blocks: u32, urgent: bool) -> Result<bool> {
        self.while_moving(|index_space| {
            let mut grown = 0;
            while grown < blocks && self.use_block(index_space, urgent)? {
                grown += 1;
            }
            if grown == 0 {
                let now = self.index.last_commit()?;
                index_space.growth_pause.store(now + PAUSE, Ordering::Relaxed);
            }
            Ok(grown > 0)
        })
    }

    /// Returns a segment from the index to the data; returns false if the index uses none, or needs it. If `urgent`,
    /// entries of the index are moved for it.
    pub(crate) fn return_segment(&self, urgent: bool) -> Result<bool> {
        if self.index_segment_count() == 0 {
            return Ok(false);
        }
        self.while_moving(|index_space| self.return_last_segment(index_space, urgent))
    }

    /// Runs `work` while no other thread or process moves space of this target. Also returns false if this thread moves
    /// space already, or if the target is in doubt. The commit in doubt has space for its completion.
    pub(crate) fn while_moving(
        &self,
        work: impl FnOnce(&IndexSpace) -> Result<bool>,
    ) -> Result<bool> {
        let Some(index_space) = &self.index_space else { return Ok(false) };
        if MOVING.get() || self.is_in_doubt() {
            return Ok(false);
        }
        match retry_for_two_seconds(|| self.try_lock_space(index_space))? {
            Some(_turn) => work(index_space),
            None => Ok(false),
        }
    }

    /// Takes the lock for moving space, if no other thread or process has it.
    fn try_lock_space<'t>(&'t self, index_space: &'t IndexSpace) -> Result<Option<SpaceMover<'t>>> {
        let thread = match index_space.turn.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(None),
        };
        let Some(process) = self.control.try_moving(self.number())? else { return Ok(None) };
        MOVING.set(true);
        Ok(Some(SpaceMover { _process: process, _thread: thread }))
    }

    fn account(&self, index_space: &IndexSpace) -> Result<SpaceAccount> {
        SpaceAccount::read(index_space, &*self.index.read()?)
    }

    /// Lets the index use one more block; returns false if no block is idle or no space can be allocated for it. If
    /// `urgent`, segments are freed for it.
    fn use_block(&self, index_space: &IndexSpace, urgent: bool) -> Result<bool> {
        let account = self.account(index_space)?;
        let Some(number) = account.idle.checked_sub(1) else { return Ok(false) };
        if account.credit == 0 && !self.move_segment_to_index(index_space, account.idle, urgent)? {
            return Ok(false);
        }
        crash_point()?;
        if !index_space.allocate_block(&*self.index.read()?, number)? {
            return Ok(false);
        }
        crash_point()?;
        self.change_space(|txn| {
            self.shared().blocks().store(u64::from(number), Ordering::Relaxed);
            txn.delete(&block_key(number)).map(drop)
        })
    }

    /// Commits the edits of `work`; returns false if the index has no space for them.
    fn change_space(&self, work: impl FnOnce(&mut WriteTxn) -> Result<()>) -> Result<bool> {
        let mut txn = self.begin_for_room()?;
        match work(&mut txn).and_then(|()| txn.commit()) {
            Ok(()) => Ok(true),
            Err(error) => {
                // The failed transaction may have changed the count of blocks.
                self.count_blocks()?;
                if error.kind() == ErrorKind::NoSpace { Ok(false) } else { Err(error) }
            }
        }
    }

    /// Moves a free segment to the index: releases its space, and allocates the last of `idle` blocks. If `urgent`, a
    /// segment is freed for it. Returns false if none can be spared, or if the index or the file system has no space
    /// for the move.
    fn move_segment_to_index(
        &self,
        index_space: &IndexSpace,
        idle: u32,
        urgent: bool,
    ) -> Result<bool> {
        if self.index_segment_count() + self.data_segments_min() >= self.segment_count() {
            return Ok(false);
        }
        let segment = match claim::claim_empty(self, urgent) {
            Err(error) if error.kind() == ErrorKind::NoSpace => return Ok(false),
            claimed => claimed?,
        };
        // The state is stored before the record. So a recorded segment is never treated as free, even after a crash in
        // between.
        self.shared().segment(segment).store(SegmentState::Index);
        crash_point()?;
        let recorded = self.change_space(|txn| txn.put(&index_segment_key(segment), &[]));
        // `Busy`: the transaction has not begun. After other errors, the record may be there.
        let is_missing = match &recorded {
            Ok(recorded) => !recorded,
            Err(error) => error.kind() == ErrorKind::Busy,
        };
        if is_missing {
            self.set_free(segment);
        }
        if !recorded? {
            return Ok(false);
        }
        crash_point()?;
        if self.allocate_blocks(index_space, idle)? {
            crash_point()?;
            return self.punch_segment(segment).map(|()| true);
        }
        // The file system is full, so the space of the segment must be released first.
        self.punch_segment(segment)?;
        crash_point()?;
        if self.allocate_blocks(index_space, idle)? {
            return Ok(true);
        }
        self.return_to_data(segment).map(|_| false)
    }

    /// Allocates the last of `idle` blocks, whose total size is that of a segment. Returns false if the file system is
    /// full.
    fn allocate_blocks(&self, index_space: &IndexSpace, idle: u32) -> Result<bool> {
        let txn = self.index.read()?;
        for number in (idle.saturating_sub(index_space.per_segment)..idle).rev() {
            if !index_space.allocate_block(&txn, number)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Range of a segment in the data file.
    pub(crate) fn part_of(&self, segment: u32) -> Range<u64> {
        let begin = self.segment_offset(segment);
        begin..begin + self.segment_bytes()
    }

    /// Releases the space of a segment.
    fn punch_segment(&self, segment: u32) -> Result<()> {
        self.data.punch(&self.part_of(segment))
    }

    /// Returns a segment of the index to the data; returns false if the file system is full.
    fn return_to_data(&self, segment: u32) -> Result<bool> {
        if !self.data.reserve(&self.part_of(segment))? {
            return Ok(false);
        }
        crash_point()?;
        // The allocation is on the medium before the index forgets that it has the segment.
        self.sync_data()?;
        let done = self.change_space(|txn| txn.delete(&index_segment_key(segment)).map(drop))?;
        crash_point()?;
        if done {
            self.set_free(segment);
            self.collapse_edges(segment);
        }
        Ok(done)
    }

    /// Body of [`Target::return_segment`], with the same result. The index first gives up the blocks for which the
    /// segment was moved.
    fn return_last_segment(&self, index_space: &IndexSpace, urgent: bool) -> Result<bool> {
        let account = self.account(index_space)?;
        if self.free_unrecorded(&account.segments) {
            return Ok(true);
        }
        let Some(segment) = account.segments.last() else { return Ok(false) };
        let missing = index_space.per_segment.saturating_sub(account.credit);
        if missing > 0 && !self.make_idle_blocks(index_space, missing, urgent)? {
            return Ok(false);
        }
        let (txn, account) = (self.index.read()?, self.account(index_space)?);
        // Idle blocks on credit are allocated, so their space is released.
        for number in account.idle.saturating_sub(account.credit)..account.idle {
            index_space.punch_block(&txn, number)?;
            crash_point()?;
        }
        drop(txn);
        self.return_to_data(*segment)
    }

    /// Frees segments whose process died before it recorded them, or after it removed the record. Returns true if there
    /// were any.
    fn free_unrecorded(&self, segments: &[u32]) -> bool {
        let atomics = self.shared();
        let unrecorded = (0..self.segment_count()).filter(|number| {
            atomics.segment(*number).load() == SegmentState::Index && !segments.contains(number)
        });
        let unrecorded: Vec<u32> = unrecorded.collect();
        unrecorded.iter().for_each(|number| self.set_free(*number));
        !unrecorded.is_empty()
    }

    /// Creates `blocks` blocks from free pages of the index. If `urgent`, entries are moved for them. Returns false if
    /// it has too few free pages, or too few that are adjacent.
    fn make_idle_blocks(
        &self,
        index_space: &IndexSpace,
        blocks: u32,
        urgent: bool,
    ) -> Result<bool> {
        let txn = self.index.read()?;
        let ((used, total), now) = (self.pages_counted(&txn)?, txn.id());
        drop(txn);
        let free = total.saturating_sub(used);
        let rest = total.saturating_sub(u64::from(blocks) * index_space.pages());
        // More pages must be free than the index should have, since otherwise it would grow again at once.
        let more = if urgent { 0 } else { (2 * index_space.pages()).min(rest / 4) };
        let is_spare = used + (rest / SPARE_SHARE).max(SPARE_PAGES_MIN) + more <= rest;
        let tried = &index_space.tried[usize::from(urgent)];
        if !is_spare || !tried.may_retry(free, index_space.pages(), now) {
            return Ok(false);
        }
        let (mut missing, mut moves) = (blocks, 0);
        while missing > 0 {
            crash_point()?;
            if self.make_block(index_space)? {
                (missing, moves) = (missing - 1, 0);
            } else if self.return_pages()? {
                // Pages of the reserve are free now, so another block may fit.
            } else if urgent && moves < MOVES_MAX && self.move_entries(index_space, missing)? {
                moves += 1;
            } else {
                tried.record(free, now + PAUSE);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Creates one block from adjacent free pages; returns false if the index has none.
    fn make_block(&self, index_space: &IndexSpace) -> Result<bool> {
        self.change_space(|txn| {
            let number = reserved_pages::count(txn, Table::Block)?;
            txn.reserve(&block_key(number), value_len(index_space.block_bytes))?;
            self.shared().blocks().store(u64::from(number) + 1, Ordering::Relaxed);
            Ok(())
        })
    }

    /// Restores files and segment states according to the index, after a restart of the machine. No other process has
    /// the pool open.
    pub(crate) fn restore_space(&self) -> Result<()> {
        let Some(index_space) = &self.index_space else { return Ok(()) };
        let txn = self.index.read()?;
        let account = SpaceAccount::read(index_space, &txn)?;
        account
            .segments
            .iter()
            .for_each(|number| self.shared().segment(*number).store(SegmentState::Index));
        self.shared().blocks().store(u64::from(account.idle), Ordering::Relaxed);
        if index_space.read_only {
            return Ok(());
        }
        account.segments.iter().try_for_each(|number| self.punch_segment(*number))?;
        let mut holes = Vec::new();
        for number in 0..account.idle {
            index_space.punch_block(&txn, number)?;
            holes.extend(inside(&txn, number, index_space.block_bytes)?);
        }
        // All bytes of the file are allocated, except the holes in idle blocks.
        holes.sort_unstable_by_key(|hole| hole.start);
        let mut begin = 0;
        let end = self.index.file_bytes();
        for hole in holes.into_iter().chain(std::iter::once(end..end)) {
            if begin < hole.start
                && !sys::try_reserve(&index_space.file, &(begin..hole.start))
                    .map_err(allocation_error)?
            {
                let message =
                    "the file system is too full for the space of the pool: free some space";
                return Err(Error::new(ErrorKind::NoSpace, message));
            }
            begin = hole.end;
        }
        Ok(())
    }
}

/// Lock for moving space of a target.
struct SpaceMover<'t> {
    _process: lock::ByteLock<'t>,
    _thread: MutexGuard<'t, ()>,
}

impl Drop for SpaceMover<'_> {
    fn drop(&mut self) {
        MOVING.set(false);
    }
}

impl Target {
    /// Repairs space after a process died while it moved some. Returns segments for which the index uses no blocks, and
    /// moves segments to the index for blocks that it uses without. Returns one message per repair.
    pub(crate) fn repair_space(&self) -> Result<Vec<String>> {
        let mut mended = Vec::new();
        let Some(index_space) =
            self.index_space.as_ref().filter(|index_space| !index_space.read_only)
        else {
            return Ok(mended);
        };
        while self.account(index_space)?.credit >= index_space.per_segment
            && self.return_segment(false)?
        {
            mended.push(format!(
                "target {}: returned a segment that the index does not use",
                self.number()
            ));
        }
        // The blocks are allocated already, so with 0 idle blocks no more are.
        let lend = |idle: u32| self.move_segment_to_index(index_space, idle, true);
        while self.account(index_space)?.debt > 0 && self.while_moving(|_| lend(0))? {
            mended.push(format!(
                "target {}: moved a segment to the index for the blocks that it uses",
                self.number()
            ));
        }
        Ok(mended)
    }

    /// Problems with the segments of the index: first those that a recount repairs, then the others.
    pub(crate) fn space_problems(&self, usage: &Usage) -> Result<(Vec<String>, Vec<String>)> {
        let (mut miscounted, mut damage) = (Vec::new(), Vec::new());
        let Some(index_space) = &self.index_space else { return Ok((miscounted, damage)) };
        let place = |segment: u32| format!("target {}, segment {segment}", self.number());
        for number in index_segments(&*self.index.read()?)? {
            if number >= self.segment_count() {
                damage.push(format!("{}: belongs to the index, but does not exist", place(number)));
                continue;
            }
            let live = usage.segments.get(&number).map_or(0, |used| used.live);
            let state = self.shared().segment(number).load();
            if live > 0 {
                damage.push(format!(
                    "{}: belongs to the index, but records refer to {live} bytes",
                    place(number)
                ));
            } else if state != SegmentState::Index {
                miscounted.push(format!(
                    "{}: belongs to the index, but its state is {state:?}",
                    place(number)
                ));
            }
        }
        let debt = self.account(index_space)?.debt;
        if debt > 0 {
            let number = self.number();
            damage.push(format!("target {number}: the index uses {debt} blocks without a segment"));
        }
        Ok((miscounted, damage))
    }
}
