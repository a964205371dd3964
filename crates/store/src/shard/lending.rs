//! Space that data and index share.
//!
//! The file of an index is larger than its space on the medium. The rest consists of **blocks**: values of a table
//! of their own, each on adjacent pages, of which only the first exists. As long as such a value exists, LMDB cannot
//! use its pages. After they have been reserved the value is removed, and they become ordinary free pages. For as
//! many blocks as take the space of a segment, one segment is **lent** to the index: its space on the medium is
//! released, and its number is recorded in the index, so that nobody writes to it. If data needs the space back, the
//! same number of blocks is made of adjacent free pages. `docs/decisions/0026-shared-space.md` has the reasons.
mod blocks;
mod pack;
#[cfg(test)]
mod tests;

pub(crate) use blocks::{Lending, make_blocks};

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
use blocks::{block_key, inside, not_reserved, value_len};
use esker_types::{Error, ErrorKind, Result};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, TryLockError};
#[cfg(test)]
use tests::may_die;

/// A point at which tests let the process die.
#[cfg(not(test))]
fn may_die() -> Result<()> {
    Ok(())
}

/// Commits to wait if free pages are not adjacent.
const PAUSE: u64 = 4096;
/// Attempts to move pages so that they are, for a segment that is needed.
const MOVES_MAX: u32 = 4;
/// Share of the pages of an index that should be free: one in this many.
const SPARE_SHARE: u64 = 8;
/// Share of the initial index at the end of its file that growth keeps untouched: one page in this many.
const KEPT_SHARE: u64 = 4;
/// Commits until these pages are counted again if there are enough.
const EARLY_PAUSE: u64 = 8;
/// Fewest pages that should be free.
const SPARE_PAGES_MIN: u64 = 128;

thread_local! {
    /// True while this thread moves space: it cannot get space for that by moving space.
    static MOVING: Cell<bool> = const { Cell::new(false) };
}

fn lent_key(segment: u32) -> Key {
    Key::table(Table::Lent).push(&segment.to_be_bytes())
}

/// Numbers of the segments that are lent.
pub(crate) fn lent_segments(txn: &Txn) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    entries::table(txn, Table::Lent, |key, _| found.extend(segment_of(key)))?;
    Ok(found)
}

/// The space that is lent, according to the index.
struct Account {
    /// Blocks that the index does not use.
    idle: u32,
    lent: Vec<u32>,
    /// Blocks that the index may take without another lent segment.
    credit: u32,
    /// Blocks that the index uses although no segment is lent for them.
    debt: u32,
}

impl Account {
    fn read(lending: &Lending, txn: &Txn) -> Result<Self> {
        let idle = reserved_pages::count(txn, Table::Block)?.min(lending.blocks);
        let mut lent = lent_segments(txn)?;
        lent.retain(|&number| number < lending.segments);
        let (used, allowed) = (lending.blocks - idle, lent.len() as u32 * lending.per_segment);
        let (credit, debt) = (allowed.saturating_sub(used), used.saturating_sub(allowed));
        Ok(Self { idle, lent, credit, debt })
    }
}

impl Target {
    /// Number of pages in blocks that the index does not use, as far as known.
    pub(crate) fn idle_pages(&self) -> u64 {
        let Some(lending) = &self.lending else { return 0 };
        let blocks = self.shared().blocks().load(Ordering::Relaxed);
        blocks.min(u64::from(lending.blocks)) * lending.pages()
    }

    /// Recounts the blocks that the index does not use.
    pub(crate) fn count_blocks(&self) -> Result<()> {
        let count = reserved_pages::count(&*self.index.read()?, Table::Block)?;
        self.shared().blocks().store(u64::from(count), Ordering::Relaxed);
        Ok(())
    }

    /// Number of segments that are lent to the index.
    pub(crate) fn lent_count(&self) -> u32 {
        let atomics = self.shared();
        (0..self.segment_count())
            .filter(|&s| atomics.segment(s).load() == SegmentState::Lent)
            .count() as u32
    }

    /// True if the index should grow before the change of `txn`. Freed pages, those of a block included, cannot be reused
    /// while a reader may still read them: some should be free in advance, and growth beside such a reader is in vain.
    pub(crate) fn wants_block(&self, txn: &WriteTxn) -> Result<bool> {
        let Some(lending) = &self.lending else { return Ok(false) };
        if MOVING.get() || self.shared().blocks().load(Ordering::Relaxed) == 0 {
            return Ok(false);
        }
        let (used, total) = self.pages(txn)?;
        let wanted = (total / SPARE_SHARE).max(SPARE_PAGES_MIN).max(self.pages_for_buffer(total));
        let is_due =
            used + wanted > total || self.grows_early(lending, txn, used, total - wanted)?;
        if !is_due || txn.id() < lending.growth_pause.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let is_in_vain = self.has_lagging_reader(txn)?;
        if is_in_vain {
            lending.growth_pause.store(txn.id() + LAG_PAUSE, Ordering::Relaxed);
        }
        Ok(!is_in_vain)
    }

    /// True if the index of `txn`, which uses `used` of `most` pages, should grow because the others are at the end of its
    /// file: only those can be used beside a reader of an old state, however long it reads. So a quarter of the initial index
    /// stays untouched while half of the segments are free. A small index, which has touched little, does not grow.
    fn grows_early(&self, lending: &Lending, txn: &WriteTxn, used: u64, most: u64) -> Result<bool> {
        let initial = lending.initial_pages(self.index.file_bytes());
        let kept = initial / KEPT_SHARE;
        if used < kept || txn.id() < lending.early_pause.load(Ordering::Relaxed) {
            return Ok(false);
        }
        if used + self.index.untouched_pages()?.min(kept) <= most {
            lending.early_pause.store(txn.id() + EARLY_PAUSE, Ordering::Relaxed);
            return Ok(false);
        }
        let atomics = self.shared();
        let is_free = |number: &u32| atomics.segment(*number).load() == SegmentState::Free;
        let free = (0..self.segment_count()).filter(is_free).count() as u32;
        let grows = free > self.segment_count() / 2;
        if !grows {
            lending.early_pause.store(txn.id() + PAUSE, Ordering::Relaxed);
        }
        Ok(grows)
    }

    /// Gives the index up to `blocks` more blocks; false if there is no room for any. If `urgent`, segments are freed
    /// for it.
    pub(crate) fn grow_index(&self, blocks: u32, urgent: bool) -> Result<bool> {
        self.while_moving(|lending| {
            let mut grown = 0;
            while grown < blocks && self.take_block(lending, urgent)? {
                grown += 1;
            }
            if grown == 0 {
                let now = self.index.last_commit()?;
                lending.growth_pause.store(now + PAUSE, Ordering::Relaxed);
            }
            Ok(grown > 0)
        })
    }

    /// Takes a segment back from the index; false if none is lent, or the index needs it. If `urgent`, pages of the
    /// index are moved for it.
    pub(crate) fn take_back(&self, urgent: bool) -> Result<bool> {
        if self.lent_count() == 0 {
            return Ok(false);
        }
        self.while_moving(|lending| self.take_segment_back(lending, urgent))
    }

    /// Runs `work` while no other thread or process moves space of this target. Also false if this thread moves space
    /// already, or a commit over several targets is half done: whoever completes that has room for it.
    pub(crate) fn while_moving(&self, work: impl FnOnce(&Lending) -> Result<bool>) -> Result<bool> {
        let Some(lending) = &self.lending else { return Ok(false) };
        if MOVING.get() || self.is_in_doubt() {
            return Ok(false);
        }
        match retry_for_two_seconds(|| self.turn(lending))? {
            Some(_turn) => work(lending),
            None => Ok(false),
        }
    }

    /// The right to move space, if nobody else has it.
    fn turn<'t>(&'t self, lending: &'t Lending) -> Result<Option<SpaceMover<'t>>> {
        let thread = match lending.turn.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(None),
        };
        let Some(process) = self.control.try_moving(self.number())? else { return Ok(None) };
        MOVING.set(true);
        Ok(Some(SpaceMover { _process: process, _thread: thread }))
    }

    fn account(&self, lending: &Lending) -> Result<Account> {
        Account::read(lending, &*self.index.read()?)
    }

    /// Lets the index use one more block.
    fn take_block(&self, lending: &Lending, urgent: bool) -> Result<bool> {
        let account = self.account(lending)?;
        let Some(number) = account.idle.checked_sub(1) else { return Ok(false) };
        if account.credit == 0 && !self.lend_segment(lending, account.idle, urgent)? {
            return Ok(false);
        }
        may_die()?;
        if !lending.back(&*self.index.read()?, number)? {
            return Ok(false);
        }
        may_die()?;
        self.change_space(|txn| {
            self.shared().blocks().store(u64::from(number), Ordering::Relaxed);
            txn.delete(&block_key(number)).map(drop)
        })
    }

    /// Commits what `work` does; false if there is no room for it.
    fn change_space(&self, work: impl FnOnce(&mut WriteTxn) -> Result<()>) -> Result<bool> {
        let mut txn = self.begin_for_room()?;
        match work(&mut txn).and_then(|()| txn.commit()) {
            Ok(()) => Ok(true),
            Err(error) => {
                // The count of blocks may have been changed by what failed.
                self.count_blocks()?;
                if error.kind() == ErrorKind::NoSpace { Ok(false) } else { Err(error) }
            }
        }
    }

    /// Releases the space of a free segment, for the last of `idle` blocks.
    fn lend_segment(&self, lending: &Lending, idle: u32, urgent: bool) -> Result<bool> {
        if self.lent_count() + self.data_segments_min() >= self.segment_count() {
            return Ok(false);
        }
        let segment = match claim::claim_whole(self, urgent) {
            Err(error) if error.kind() == ErrorKind::NoSpace => return Ok(false),
            claimed => claimed?,
        };
        // First the state, then the record: a recorded segment is never taken for free, whoever dies in between.
        self.shared().segment(segment).store(SegmentState::Lent);
        may_die()?;
        if !self.change_space(|txn| txn.put(&lent_key(segment), &[]))? {
            self.set_free(segment);
            return Ok(false);
        }
        may_die()?;
        if self.back_blocks(lending, idle)? {
            may_die()?;
            return self.give_up(segment).map(|()| true);
        }
        // The file system is full: the space of the segment must be released first.
        self.give_up(segment)?;
        may_die()?;
        if self.back_blocks(lending, idle)? {
            return Ok(true);
        }
        self.reclaim(segment).map(|_| false)
    }

    /// Reserves the last of `idle` blocks, as many as take the space of a segment.
    fn back_blocks(&self, lending: &Lending, idle: u32) -> Result<bool> {
        let txn = self.index.read()?;
        for number in (idle.saturating_sub(lending.per_segment)..idle).rev() {
            if !lending.back(&txn, number)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(crate) fn part_of(&self, segment: u32) -> Range<u64> {
        let begin = self.segment_offset(segment);
        begin..begin + self.segment_bytes()
    }

    /// Releases the space of a segment.
    fn give_up(&self, segment: u32) -> Result<()> {
        self.data.punch(&self.part_of(segment))
    }

    /// Frees a lent segment; false if the file system has no room for it.
    fn reclaim(&self, segment: u32) -> Result<bool> {
        if !self.data.reserve(&self.part_of(segment))? {
            return Ok(false);
        }
        may_die()?;
        self.sync_data()?;
        let done = self.change_space(|txn| txn.delete(&lent_key(segment)).map(drop))?;
        may_die()?;
        if done {
            self.set_free(segment);
            self.gather_edges(segment);
        }
        Ok(done)
    }

    fn take_segment_back(&self, lending: &Lending, urgent: bool) -> Result<bool> {
        let account = self.account(lending)?;
        if self.free_forgotten(&account.lent) {
            return Ok(true);
        }
        let Some(segment) = account.lent.last() else { return Ok(false) };
        let missing = lending.per_segment.saturating_sub(account.credit);
        if missing > 0 && !self.make_idle(lending, missing, urgent)? {
            return Ok(false);
        }
        let (txn, account) = (self.index.read()?, self.account(lending)?);
        for number in account.idle.saturating_sub(account.credit)..account.idle {
            lending.give_up(&txn, number)?;
            may_die()?;
        }
        drop(txn);
        self.reclaim(*segment)
    }

    /// Frees segments whose lender died before it recorded them, or after it removed the record.
    fn free_forgotten(&self, lent: &[u32]) -> bool {
        let atomics = self.shared();
        let forgotten = (0..self.segment_count()).filter(|number| {
            atomics.segment(*number).load() == SegmentState::Lent && !lent.contains(number)
        });
        let forgotten: Vec<u32> = forgotten.collect();
        forgotten.iter().for_each(|number| self.set_free(*number));
        !forgotten.is_empty()
    }

    /// Makes blocks of free pages of the index, if it has enough to spare.
    fn make_idle(&self, lending: &Lending, blocks: u32, urgent: bool) -> Result<bool> {
        let txn = self.index.read()?;
        let ((used, total), now) = (self.pages_counted(&txn)?, txn.id());
        drop(txn);
        let free = total.saturating_sub(used);
        let rest = total.saturating_sub(u64::from(blocks) * lending.pages());
        // More than it should have free, or it would grow again at once.
        let more = if urgent { 0 } else { (2 * lending.pages()).min(rest / 4) };
        let is_spare = used + (rest / SPARE_SHARE).max(SPARE_PAGES_MIN) + more <= rest;
        let tried = &lending.tried[usize::from(urgent)];
        if !is_spare || !tried.is_new(free, lending.pages(), now) {
            return Ok(false);
        }
        let (mut missing, mut moves) = (blocks, 0);
        while missing > 0 {
            may_die()?;
            if self.make_block(lending)? {
                (missing, moves) = (missing - 1, 0);
            } else if self.return_pages()? {
            } else if urgent && moves < MOVES_MAX && self.make_way(lending, missing)? {
                moves += 1;
            } else {
                tried.failed(free, now + PAUSE);
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn make_block(&self, lending: &Lending) -> Result<bool> {
        self.change_space(|txn| {
            let number = reserved_pages::count(txn, Table::Block)?;
            txn.reserve(&block_key(number), value_len(lending.block_bytes))?;
            self.shared().blocks().store(u64::from(number) + 1, Ordering::Relaxed);
            Ok(())
        })
    }

    /// Makes files and segment states agree with the index, after a restart of the machine. No other process has the
    /// pool open.
    pub(crate) fn settle_space(&self) -> Result<()> {
        let Some(lending) = &self.lending else { return Ok(()) };
        let txn = self.index.read()?;
        let account = Account::read(lending, &txn)?;
        account
            .lent
            .iter()
            .for_each(|number| self.shared().segment(*number).store(SegmentState::Lent));
        self.shared().blocks().store(u64::from(account.idle), Ordering::Relaxed);
        if lending.read_only {
            return Ok(());
        }
        account.lent.iter().try_for_each(|number| self.give_up(*number))?;
        let mut holes = Vec::new();
        for number in 0..account.idle {
            lending.give_up(&txn, number)?;
            holes.extend(inside(&txn, number, lending.block_bytes)?);
        }
        holes.sort_unstable_by_key(|hole| hole.start);
        let mut begin = 0;
        let end = self.index.file_bytes();
        for hole in holes.into_iter().chain(std::iter::once(end..end)) {
            if begin < hole.start
                && !sys::try_reserve(&lending.file, &(begin..hole.start)).map_err(not_reserved)?
            {
                let message =
                    "the file system has no room for what the pool had reserved: make room";
                return Err(Error::new(ErrorKind::NoSpace, message));
            }
            begin = hole.end;
        }
        Ok(())
    }
}

/// The right to move space of a target.
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
    /// Repairs what a process left that died while moving space: takes back segments for which the index uses no
    /// block, and lends those it uses without. Returns one message per repair.
    pub(crate) fn mend_lending(&self) -> Result<Vec<String>> {
        let mut mended = Vec::new();
        let Some(lending) = self.lending.as_ref().filter(|lending| !lending.read_only) else {
            return Ok(mended);
        };
        while self.account(lending)?.credit >= lending.per_segment && self.take_back(false)? {
            mended.push(format!("target {}: took back what was lent for nothing", self.number()));
        }
        let lend = |idle: u32| self.lend_segment(lending, idle, true);
        while self.account(lending)?.debt > 0 && self.while_moving(|_| lend(0))? {
            mended.push(format!("target {}: lent what the index had taken", self.number()));
        }
        Ok(mended)
    }

    /// Problems with what is lent: first those that a recount repairs, then the others.
    pub(crate) fn unfit(&self, usage: &Usage) -> Result<(Vec<String>, Vec<String>)> {
        let (mut miscounted, mut damage) = (Vec::new(), Vec::new());
        let Some(lending) = &self.lending else { return Ok((miscounted, damage)) };
        let place = |segment: u32| format!("target {}, segment {segment}", self.number());
        for number in lent_segments(&*self.index.read()?)? {
            if number >= self.segment_count() {
                damage.push(format!("{}: is lent, and does not exist", place(number)));
                continue;
            }
            let live = usage.segments.get(&number).map_or(0, |used| used.live);
            let state = self.shared().segment(number).load();
            if live > 0 {
                damage.push(format!("{}: is lent, and {live} bytes are named", place(number)));
            } else if state != SegmentState::Lent {
                miscounted.push(format!("{}: is lent, and {state:?}", place(number)));
            }
        }
        let debt = self.account(lending)?.debt;
        if debt > 0 {
            let number = self.number();
            damage.push(format!(
                "target {number}: the index uses {debt} blocks for which no segment is lent"
            ));
        }
        Ok((miscounted, damage))
    }
}
