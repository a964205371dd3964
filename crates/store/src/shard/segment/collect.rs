//! Collection, which finds dead segments and frees them.
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

/// Recounted values for the atomics of a segment.
struct SegmentCount {
    live: u64,
    published: u64,
    tail: u64,
}

impl Target {
    /// Takes over segments of dead processes, finds dead segments, and frees those that no reader can still read. The
    /// cost is bounded by the number of segments.
    pub(crate) fn collect(&self) -> Result<()> {
        let unfinished = claim::take_over_dead(self);
        // All are recounted before an error is returned, since each is busy for this process.
        let counted: Vec<_> = unfinished.into_iter().map(|segment| self.recount(segment)).collect();
        for counted in counted {
            // The index has no space for the buffered puts yet, so the next collection counts.
            counted.or_else(|error| match error.kind() {
                ErrorKind::NoSpace => Ok(()),
                _ => Err(error),
            })?;
        }
        self.recycle()
    }

    /// Flushes the write buffer if possible, marks segments that have become dead, and frees the dead segments that no
    /// reader can still read.
    pub(crate) fn recycle(&self) -> Result<()> {
        // After the flush, the records that buffered puts replace are dead. If the index is full, a later step reports
        // it.
        let _ = self.flush_if_fits();
        self.mark_dead_segments()?;
        self.free_dead_segments()
    }

    /// Recounts the live data of a segment that is busy for this process, because its owner died while writing or its
    /// counts are wrong. Leaves the segment open without an owner. After an error, the segment remains busy for a dead
    /// process and the next collection recounts it: by its wrong counts, it could seem dead although it has live data.
    pub(super) fn recount(&self, segment: u32) -> Result<()> {
        let atomics = self.shared().segment(segment);
        let counted = self.recounted(segment);
        if let Ok(counted) = &counted {
            atomics.published.store(counted.published, Ordering::Release);
            atomics.tail.store(counted.tail, Ordering::Release);
            atomics.stamp.store(counted.tail, Ordering::Release);
        }
        atomics.store(match &counted {
            // The next collection finds from these counts that the segment is dead.
            Ok(counted) if counted.live == 0 && counted.published > 0 => SegmentState::Sealed,
            Ok(counted) if counted.tail == 0 => SegmentState::Free,
            // The segment is open even if it is almost full, since a compaction that was in progress may need the rest.
            Ok(_) => SegmentState::Open(None),
            Err(_) => SegmentState::Busy(ProcessSlot::NOBODY),
        });
        counted.map(drop)
    }

    /// Recounts a segment. The bytes that its owner appended last are freed, unless they were committed, which a larger
    /// count shows.
    fn recounted(&self, segment: u32) -> Result<SegmentCount> {
        // If the owner died in its last commit, the commit becomes visible only after its lock was taken over.
        drop(self.lock()?);
        // A buffered put of the owner may refer to it.
        self.flush_if_fits()?;
        let view = self.view_of(Scope::Committed)?;
        let txn = view.committed();
        let dead = all_dead(txn)?.get(&segment).copied().unwrap_or(0);
        let live = match compact::live_bytes(self, txn, segment) {
            // A damaged header hides all headers after it, and so does a header that the disk cannot read. Then the
            // complete index is searched, which takes longer.
            Err(error) if [ErrorKind::Checksum, ErrorKind::Io].contains(&error.kind()) => {
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

    /// Marks dead segments among sealed ones, those without an owner, and those that their owner has filled by half.
    fn mark_dead_segments(&self) -> Result<()> {
        // The read transaction is not kept open, since the next transaction may need the pages that it holds back.
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

    /// Marks a segment as dead if it still is. It may have been freed and refilled since it was examined, so it is
    /// examined again while no other process can access it.
    fn mark_dead_segment(&self, number: u32, state: SegmentState) -> Result<()> {
        let atomics = self.shared();
        let segment = atomics.segment(number);
        if !segment.change(state, SegmentState::Busy(self.process())) {
            return Ok(());
        }
        // The transaction id is read last, since LMDB may show a later state than that of the id that a reader has.
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
                // The segment may have been reused and died again since it was examined. Views are checked last: until
                // a view has its pin, it is a reader.
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

    /// Frees a segment that no other process can access, and stamps it with the number of segments freed so far.
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

    /// Number of bytes that can be live at the same time: all but the reserve and the segments of the index.
    pub(crate) fn data_bytes(&self) -> u64 {
        let kept = table::RESERVE as u64 + u64::from(self.index_segment_count());
        u64::from(self.segment_count()).saturating_sub(kept) * self.segment_bytes()
    }

    /// Number of bytes that can still become live: they are free, or will be after readers finish and segments are
    /// compacted.
    pub(crate) fn free_data_bytes(&self) -> Result<u64> {
        let dead = all_dead(&*self.index.read()?)?;
        let atomics = self.shared();
        let live: u64 = (0..self.segment_count())
            .map(|number| atomics.segment(number).live(dead.get(&number).copied().unwrap_or(0)))
            .fold(0, u64::saturating_add);
        Ok(self.data_bytes().saturating_sub(live))
    }
}
