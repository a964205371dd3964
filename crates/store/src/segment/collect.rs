//! Collection: finding dead segments and making them free again.
use super::{State, claim, compact, table};
use crate::io::txn::Txn;
use crate::keys::{Key, Table};
use crate::target::Target;
use crate::walk;
use esker_types::{ErrorKind, Result};
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// Dead bytes in a value of table [`Table::Segment`].
pub(crate) fn dead_bytes(value: &[u8]) -> u64 {
    value.try_into().map_or(0, u64::from_le_bytes)
}

/// Dead bytes of all segments that have any.
pub(crate) fn all_dead(txn: &Txn) -> Result<HashMap<u32, u64>> {
    let prefix = Key::table(Table::Segment);
    let mut dead = HashMap::new();
    let mut cursor = txn.cursor()?;
    let mut entry = cursor.seek(&prefix)?;
    while let Some((key, value)) = entry.filter(|(key, _)| key.starts_with(&prefix)) {
        if let Ok(number) = key[prefix.len()..].try_into() {
            dead.insert(u32::from_be_bytes(number), dead_bytes(value));
        }
        entry = cursor.next()?;
    }
    Ok(dead)
}

/// What the words of a segment have to say.
struct Counted {
    live: u64,
    published: u64,
    tail: u64,
}

impl Target {
    /// Takes over what dead processes held, finds segments in which nothing is alive, and frees those
    /// that no reader can still be looking at. Bounded by the number of segments.
    pub(crate) fn collect(&self) -> Result<()> {
        let orphans = claim::disown_dead(self);
        if !orphans.is_empty() {
            // The last commit of a process that died in it shows only once its lock was taken over.
            drop(self.begin_write()?);
        }
        let counted: Vec<_> = orphans.into_iter().map(|segment| self.recount(segment)).collect();
        counted.into_iter().collect::<Result<()>>()?;
        self.recycle()
    }

    /// Finds segments in which nothing is alive, and frees those that no reader can still be looking at.
    pub(crate) fn recycle(&self) -> Result<()> {
        self.bury_dead_segments()?;
        self.free_dead_segments()
    }

    /// Counts again what is alive in a segment that is busy on behalf of this process: its owner died
    /// while it was writing, or its count does not fit what is found in it. Leaves it to anybody.
    pub(super) fn recount(&self, segment: u32) -> Result<()> {
        let counted = self.count_again(segment);
        if let Ok(counted) = &counted {
            let words = self.words().segment(segment);
            words.published.store(counted.published, Ordering::Release);
            words.tail.store(counted.tail, Ordering::Release);
            words.stamp.store(counted.tail, Ordering::Release);
        }
        let words = self.words().segment(segment);
        words.store(match &counted {
            // To be found dead, with what is counted as dead in it.
            Ok(counted) if counted.live == 0 && counted.published > 0 => State::Sealed,
            Ok(counted) if counted.tail == 0 => State::Free,
            // However little room there is: it may be what a compaction that was under way needs.
            _ => State::Open(None),
        });
        counted.map(drop)
    }

    /// What the words of a segment have to say. What its owner appended last is given back, unless that was
    /// committed: then more is counted than was before.
    fn count_again(&self, segment: u32) -> Result<Counted> {
        let txn = self.read()?;
        let dead = all_dead(&txn)?.get(&segment).copied().unwrap_or(0);
        let live = match compact::live_bytes(self, &txn, segment) {
            // A damaged header hides what is behind it: the whole index knows, but takes longer.
            Err(error) if error.kind() == ErrorKind::Checksum => {
                walk::usage(self)?.segments.get(&segment).map_or(0, |used| used.live)
            }
            live => live?,
        };
        let words = self.words().segment(segment);
        let tail = words.tail.load(Ordering::Acquire);
        let is_as_before = words.published.load(Ordering::Acquire) == live + dead && live > 0;
        let counted = words.stamp.load(Ordering::Acquire).min(tail);
        Ok(Counted {
            live,
            published: live + dead,
            tail: if is_as_before { counted } else { tail },
        })
    }

    /// Marks segments in which nothing is alive: full ones, abandoned ones, and those that an owner has filled
    /// by half.
    fn bury_dead_segments(&self) -> Result<()> {
        // No view is kept: whatever has to be finished for the next one may need the pages it holds back.
        let dead = all_dead(&*self.read()?)?;
        let words = self.words();
        for number in 0..self.segment_count() {
            let segment = words.segment(number);
            let state = segment.load();
            let is_done = match state {
                State::Sealed | State::Open(None) => true,
                State::Open(Some(_)) => self.is_idle(number),
                _ => false,
            };
            if is_done && segment.live(dead.get(&number).copied().unwrap_or(0)) == 0 {
                self.bury_segment(number, state)?;
            }
        }
        Ok(())
    }

    /// True for a segment that nothing was ever put in, or so much that whoever has it loses little.
    fn is_idle(&self, number: u32) -> bool {
        let tail = self.words().segment(number).tail.load(Ordering::Acquire);
        tail == 0 || tail > self.segment_bytes() / 2
    }

    /// Marks a segment as dead if it is so now: since it was looked at it may have been freed and
    /// filled anew, so it is looked at again while nobody else can touch it.
    fn bury_segment(&self, number: u32, state: State) -> Result<()> {
        let words = self.words();
        let segment = words.segment(number);
        if !segment.change(state, State::Busy(self.process())) {
            return Ok(());
        }
        // The number comes last: LMDB may show a later state than the one whose number a reader has.
        let dead = self.read().and_then(|txn| all_dead(&txn));
        let dead = dead.and_then(|dead| Ok((dead, self.index.last_commit()?)));
        let dead_here = |dead: &HashMap<u32, u64>| dead.get(&number).copied().unwrap_or(0);
        match &dead {
            Ok((dead, _)) if dead_here(dead) == 0 && segment.tail.load(Ordering::Acquire) == 0 => {
                segment.store(State::Free);
            }
            Ok((dead, last)) if segment.live(dead_here(dead)) == 0 => {
                segment.stamp.store(*last, Ordering::Release);
                segment.store(State::Dead);
            }
            _ => segment.store(state),
        }
        dead.map(drop)
    }

    /// Frees dead segments that are out of every reader's sight.
    fn free_dead_segments(&self) -> Result<()> {
        let words = self.words();
        if (0..self.segment_count()).all(|number| words.segment(number).load() != State::Dead) {
            return Ok(());
        }
        let oldest = self.index.oldest_reader()?;
        let mine = State::Busy(self.process());
        let freed: Vec<u32> = (0..self.segment_count())
            .filter(|&number| {
                let segment = words.segment(number);
                let unseen = || segment.stamp.load(Ordering::Acquire) <= oldest;
                if segment.load() != State::Dead || !unseen() || !segment.change(State::Dead, mine)
                {
                    return false;
                }
                // It may have lived and died again since it was looked at. Views are asked for last: who makes
                // one is a reader until it keeps the segment.
                if !unseen() || self.is_viewed(number) {
                    segment.store(State::Dead);
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
            freed.iter().for_each(|&number| words.segment(number).store(State::Dead));
            return Err(error);
        }
        freed.iter().for_each(|&number| self.set_free(number));
        Ok(())
    }

    /// Makes a segment free that nobody else can touch.
    pub(crate) fn set_free(&self, number: u32) {
        let words = self.words();
        let freed_before = words.freed.fetch_add(1, Ordering::AcqRel);
        words.segment(number).make_free(freed_before + 1);
    }

    /// Bytes of segments nothing is in.
    pub(crate) fn whole_free_bytes(&self) -> u64 {
        let words = self.words();
        let free = (0..self.segment_count()).filter(|&s| words.segment(s).load() == State::Free);
        free.count() as u64 * self.segment_bytes()
    }

    /// Bytes of data that may be alive at a time: all but the reserve and what is lent to the index.
    pub(crate) fn data_bytes(&self) -> u64 {
        let kept = table::RESERVE as u64 + u64::from(self.lent_count());
        u64::from(self.segment_count()).saturating_sub(kept) * self.segment_bytes()
    }

    /// Those of them that are free, or will be when readers are done and segments compacted.
    pub(crate) fn free_data_bytes(&self) -> Result<u64> {
        let txn = self.read()?;
        let dead = all_dead(&txn)?;
        let words = self.words();
        let live: u64 = (0..self.segment_count())
            .map(|number| words.segment(number).live(dead.get(&number).copied().unwrap_or(0)))
            .sum();
        Ok(self.data_bytes().saturating_sub(live))
    }
}
