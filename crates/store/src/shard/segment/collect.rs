//! Collection: finds dead segments and frees them.
use super::{claim, compact};
use crate::data::table::{self, SegmentState};
use crate::format::keys::{Key, Table, segment_of};
use crate::index::entries;
use crate::index::txn::Txn;
use crate::shard::{Scope, Target, walk};
use crate::shared::control::ProcessSlot;
use esker_types::{ErrorKind, Result};
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// Number of dead bytes, from a value of table [`Table::Segment`].
pub(crate) fn dead_bytes(value: &[u8]) -> u64 {
    value.try_into().map_or(0, u64::from_le_bytes)
}

/// Number of dead bytes of all segments that have any.
pub(crate) fn all_dead(txn: &Txn) -> Result<HashMap<u32, u64>> {
    let mut dead = HashMap::new();
    entries::table(txn, Table::Segment, |key, value| {
        if let Some(number) = segment_of(key) {
            dead.insert(number, dead_bytes(value));
        }
    })?;
    Ok(dead)
}

/// Recounted values of the atomics of a segment.
struct SegmentCount {
    live: u64,
    published: u64,
    tail: u64,
}

impl Target {
    /// Takes segments away from dead processes, finds dead segments, and frees those that no reader can still read.
    /// Costs are bounded by the number of segments.
    pub(crate) fn collect(&self) -> Result<()> {
        let orphans = claim::take_over_dead(self);
        if !orphans.is_empty() {
            // The last commit of a process that died in it shows only after its lock was taken over.
            drop(self.begin_write()?);
        }
        let counted: Vec<_> = orphans.into_iter().map(|segment| self.recount(segment)).collect();
        for counted in counted {
            // If there is no room for the buffered puts yet, the next collection counts.
            counted.or_else(|error| match error.kind() {
                ErrorKind::NoSpace => Ok(()),
                _ => Err(error),
            })?;
        }
        self.recycle()
    }

    /// Finds dead segments, and frees those that no reader can still read.
    pub(crate) fn recycle(&self) -> Result<()> {
        // What it replaces is dead after that. If there is no room for it, that is found out later.
        let _ = self.flush_if_fits();
        self.mark_dead_segments()?;
        self.free_dead_segments()
    }

    /// Recounts the live data of a segment that is busy for this process, because its owner died while writing, or
    /// its counts are wrong. Leaves it open for anybody.
    pub(super) fn recount(&self, segment: u32) -> Result<()> {
        let counted = self.count_again(segment);
        if let Ok(counted) = &counted {
            let atomics = self.shared().segment(segment);
            atomics.published.store(counted.published, Ordering::Release);
            atomics.tail.store(counted.tail, Ordering::Release);
            atomics.stamp.store(counted.tail, Ordering::Release);
        }
        let atomics = self.shared().segment(segment);
        atomics.store(match &counted {
            // It will be found dead by its counts.
            Ok(counted) if counted.live == 0 && counted.published > 0 => SegmentState::Sealed,
            Ok(counted) if counted.tail == 0 => SegmentState::Free,
            // Counted once it is known what becomes of the data that a prepared commit names, or once there is room for
            // the buffered puts.
            Err(error) if [ErrorKind::InDoubt, ErrorKind::NoSpace].contains(&error.kind()) => {
                SegmentState::Busy(ProcessSlot::NOBODY)
            }
            // However little room there is: a compaction that was in progress may need it.
            _ => SegmentState::Open(None),
        });
        counted.map(drop)
    }

    /// Recounts a segment. What its owner appended last is given back, unless it was committed, which shows by a larger
    /// count.
    fn count_again(&self, segment: u32) -> Result<SegmentCount> {
        // A buffered put of the owner may refer to it.
        self.flush_if_fits()?;
        let view = self.view_of(Scope::Committed)?;
        let txn = view.committed();
        let dead = all_dead(txn)?.get(&segment).copied().unwrap_or(0);
        let live = match compact::live_bytes(self, txn, segment) {
            // A damaged header hides all that follows: then the whole index is searched, which takes longer.
            Err(error) if error.kind() == ErrorKind::Checksum => {
                walk::usage(self, &[])?.segments.get(&segment).map_or(0, |used| used.live)
            }
            live => live?,
        };
        let atomics = self.shared().segment(segment);
        let tail = atomics.tail_in(self.segment_bytes());
        let published = live.saturating_add(dead);
        let is_as_before = atomics.published.load(Ordering::Acquire) == published && live > 0;
        let counted = atomics.stamp.load(Ordering::Acquire).min(tail);
        Ok(SegmentCount { live, published, tail: if is_as_before { counted } else { tail } })
    }

    /// Marks dead segments: among full ones, abandoned ones, and those that their owner has half filled.
    fn mark_dead_segments(&self) -> Result<()> {
        // No read transaction is kept open: the next one may need the pages that it holds back.
        let dead = all_dead(self.view_of(Scope::Committed)?.committed())?;
        let atomics = self.shared();
        for number in 0..self.segment_count() {
            let segment = atomics.segment(number);
            let state = segment.load();
            let is_done = match state {
                SegmentState::Sealed | SegmentState::Open(None) => true,
                SegmentState::Open(Some(_)) => self.is_idle(number),
                _ => false,
            };
            if is_done && segment.live(dead.get(&number).copied().unwrap_or(0)) == 0 {
                self.mark_dead_segment(number, state)?;
            }
        }
        Ok(())
    }

    /// True if a segment is unused, or so full that its owner loses little.
    fn is_idle(&self, number: u32) -> bool {
        let tail = self.shared().segment(number).tail.load(Ordering::Acquire);
        tail == 0 || tail > self.segment_bytes() / 2
    }

    /// Marks a segment as dead if it still is: it may have been freed and refilled since it was examined, so it is
    /// examined again while nobody else can touch it.
    fn mark_dead_segment(&self, number: u32, state: SegmentState) -> Result<()> {
        let atomics = self.shared();
        let segment = atomics.segment(number);
        if !segment.change(state, SegmentState::Busy(self.process())) {
            return Ok(());
        }
        // The number is read last: LMDB may show a later state than that whose number a reader has.
        let dead = self.view_of(Scope::Committed).and_then(|view| all_dead(view.committed()));
        let dead = dead.and_then(|dead| Ok((dead, self.index.last_commit()?)));
        let dead_here = |dead: &HashMap<u32, u64>| dead.get(&number).copied().unwrap_or(0);
        match &dead {
            Ok((dead, _)) if dead_here(dead) == 0 && segment.tail.load(Ordering::Acquire) == 0 => {
                segment.store(SegmentState::Free);
            }
            Ok((dead, last)) if segment.live(dead_here(dead)) == 0 => {
                segment.stamp.store(*last, Ordering::Release);
                segment.store(SegmentState::Dead);
            }
            _ => segment.store(state),
        }
        dead.map(drop)
    }

    /// Frees dead segments that no reader can still read.
    fn free_dead_segments(&self) -> Result<()> {
        let atomics = self.shared();
        if (0..self.segment_count())
            .all(|number| atomics.segment(number).load() != SegmentState::Dead)
        {
            return Ok(());
        }
        let oldest = self.index.oldest_reader()?;
        let mine = SegmentState::Busy(self.process());
        let freed: Vec<u32> = (0..self.segment_count())
            .filter(|&number| {
                let segment = atomics.segment(number);
                let unseen = || {
                    let stamp = segment.stamp.load(Ordering::Acquire);
                    // A damaged stamp may be later than any transaction.
                    self.index.last_commit().is_ok_and(|last| stamp.min(last) <= oldest)
                };
                if segment.load() != SegmentState::Dead
                    || !unseen()
                    || !segment.change(SegmentState::Dead, mine)
                {
                    return false;
                }
                // It may have been reused and died again since it was examined. Views are checked last: until a view
                // has its pin, it is a reader.
                if !unseen() || self.is_viewed(number) {
                    segment.store(SegmentState::Dead);
                    return false;
                }
                true
            })
            .collect();
        if freed.is_empty() {
            return Ok(());
        }
        let forgotten = self.change(|change| {
            freed.iter().try_for_each(|segment| {
                let key = Key::table(Table::Segment).push(&segment.to_be_bytes());
                change.delete(&key).map(|_| ())
            })
        });
        if let Err(error) = forgotten {
            freed.iter().for_each(|&number| atomics.segment(number).store(SegmentState::Dead));
            return Err(error);
        }
        freed.iter().for_each(|&number| self.set_free(number));
        Ok(())
    }

    /// Frees a segment that nobody else can touch.
    pub(crate) fn set_free(&self, number: u32) {
        let atomics = self.shared();
        let freed_before = atomics.freed().fetch_add(1, Ordering::AcqRel);
        atomics.segment(number).make_free(freed_before.wrapping_add(1));
    }

    /// Number of bytes in free segments.
    pub(crate) fn free_segment_bytes(&self) -> u64 {
        let atomics = self.shared();
        let free =
            (0..self.segment_count()).filter(|&s| atomics.segment(s).load() == SegmentState::Free);
        free.count() as u64 * self.segment_bytes()
    }

    /// Number of bytes that can be live at the same time: all but the reserve and what is lent to the index.
    pub(crate) fn data_bytes(&self) -> u64 {
        let kept = table::RESERVE as u64 + u64::from(self.index_segment_count());
        u64::from(self.segment_count()).saturating_sub(kept) * self.segment_bytes()
    }

    /// How many of them are free, or will be after readers finish and segments are compacted.
    pub(crate) fn free_data_bytes(&self) -> Result<u64> {
        let dead = all_dead(&*self.index.read()?)?;
        let atomics = self.shared();
        let live: u64 = (0..self.segment_count())
            .map(|number| atomics.segment(number).live(dead.get(&number).copied().unwrap_or(0)))
            .fold(0, u64::saturating_add);
        Ok(self.data_bytes().saturating_sub(live))
    }
}
