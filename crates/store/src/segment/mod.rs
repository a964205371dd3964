//! Segments: where large values lie. A process owns the segment it appends to; ownership is a word in
//! the control file, so an idle owner can lose it and a dead one is found out.
pub(crate) mod claim;
pub(crate) mod collect;
pub(crate) mod compact;
pub(crate) mod header;
mod patience;
mod state;
pub(crate) mod table;
#[cfg(test)]
mod tests;
mod victim;

pub(crate) use state::State;

use crate::record::{Body, Location};
use crate::target::Target;
use esker_types::ops::Source;
use esker_types::{Checksum, Error, ErrorKind, Result};
use header::Header;
use smallvec::SmallVec;
use std::sync::atomic::Ordering;
use table::Segments;

/// Segments one operation is writing to. Dropped without [`Writer::publish`], what was appended counts
/// as never having been there.
pub(crate) struct Writer<'t> {
    target: &'t Target,
    lane: claim::Lane<'t>,
    /// Segments left on the way: each is busy until the operation ends.
    left: SmallVec<[u32; 2]>,
    /// What was appended, a segment each, in the order they were claimed.
    appended: SmallVec<[Appended; 2]>,
}

/// What one operation appended to a segment.
struct Appended {
    segment: u32,
    /// Tail of the segment before.
    began_at: u64,
    bytes: u64,
}

/// Where an extent went; owns its sums.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    segment: u32,
    offset: u32,
    len: u32,
    checksum: Checksum,
    sums: Sums,
}

/// The checksums of an extent; those of small ones need no allocation.
type Sums = SmallVec<[u8; 32]>;

impl Placed {
    /// As the body of a record.
    pub(crate) fn body(&self) -> Body<'_> {
        Body::Segment(Location {
            segment: self.segment,
            offset: self.offset,
            base: self.offset,
            covered: self.len,
            checksum: self.checksum,
            sums: &self.sums,
        })
    }
}

/// Which part of a source to append, and under which key.
pub(crate) struct Append<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) count: u64,
    pub(crate) source: Source<'a>,
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) checksum: Checksum,
}

impl<'t> Writer<'t> {
    /// Begins to append; waits for a lane of this process.
    pub(crate) fn new(target: &'t Target) -> Self {
        Self::in_lane(target, target.lanes.enter())
    }

    /// Begins to append what compaction moves: takes the reserve, and never collects.
    pub(crate) fn for_compaction(target: &'t Target) -> Self {
        Self::in_lane(target, target.lanes.enter_compaction())
    }

    fn in_lane(target: &'t Target, lane: claim::Lane<'t>) -> Self {
        Self { target, lane, left: SmallVec::new(), appended: SmallVec::new() }
    }

    /// Appends an extent.
    ///
    /// # Errors
    /// `NoSpace` where no segment has room, even after collection.
    pub(crate) fn append(&mut self, append: &Append<'_>) -> Result<Placed> {
        let need = header::footprint(append.key.len(), u64::from(append.len));
        if need > self.target.segment_bytes() {
            return Err(Error::new(
                ErrorKind::RecordTooBig,
                format!("an extent of {} bytes does not fit a segment of this pool", append.len),
            ));
        }
        let (segment, at) = self.room_for(need)?;
        let tail = at + need;
        self.target.prepare(segment, tail);
        let begin = self.target.segment_offset(segment) + at;
        let data_at = at + header::data_offset(append.key.len());
        Header::encode(append.key, append.count, append.len, &mut self.lane.scratch);
        let sums = self.write(begin, append)?;
        let words = self.target.words().segment(segment);
        words.tail.store(tail, Ordering::Release);
        self.note(segment, at, u64::from(append.len));
        Ok(Placed {
            segment,
            offset: data_at as u32,
            len: append.len,
            checksum: append.checksum,
            sums,
        })
    }

    fn note(&mut self, segment: u32, began_at: u64, bytes: u64) {
        match self.appended.last_mut() {
            Some(last) if last.segment == segment => last.bytes += bytes,
            _ => self.appended.push(Appended { segment, began_at, bytes }),
        }
    }

    /// A busy segment with so much room, and its tail.
    fn room_for(&mut self, need: u64) -> Result<(u32, u64)> {
        loop {
            if let Some(current) = self.lane.take(&self.target.table()) {
                let tail = self.target.words().segment(current).tail.load(Ordering::Acquire);
                if tail + need <= self.target.segment_bytes() {
                    return Ok((current, tail));
                }
                self.leave(current);
            }
            self.lane.claim(self.target, need, !self.left.is_empty())?;
        }
    }

    /// Leaves a segment without room: one that this operation has not written to is for others at once, who
    /// would wait for it.
    fn leave(&mut self, segment: u32) {
        match self.appended.last() {
            Some(last) if last.segment == segment => self.left.push(segment),
            _ => self.target.table().leave(segment),
        }
    }

    /// Writes the header, which is in the scratch buffer, and the data behind it, which it sums.
    fn write(&mut self, begin: u64, append: &Append<'_>) -> Result<Sums> {
        let chunks = Checksum::chunks(append.len as usize);
        let mut sums = Sums::with_capacity(chunks * append.checksum.width());
        let part = append.offset..append.offset + u64::from(append.len);
        let scratch = &mut self.lane.scratch;
        let summed = (append.checksum, &mut sums);
        self.target.data.write(begin, scratch, append.source, part, summed)?;
        Ok(sums)
    }

    /// Refuses to go on where a segment was taken away, as from a process believed dead (one that
    /// closed all its files, and its locks with them). Call with the index's write lock held.
    pub(crate) fn check_held(&self) -> Result<()> {
        if self.appended.iter().all(|appended| self.is_mine(appended.segment)) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Again,
            "a segment was taken from this process: has it closed the pool's files?",
        ))
    }

    fn is_mine(&self, segment: u32) -> bool {
        self.target.words().segment(segment).load() == State::Busy(self.target.process())
    }

    /// Ends the operation after its commit: what was appended is alive now. Whoever took a segment away
    /// meanwhile has counted it, for that is done after the commit of its owner.
    pub(crate) fn publish(mut self) {
        for appended in std::mem::take(&mut self.appended) {
            if self.is_mine(appended.segment) {
                let words = self.target.words().segment(appended.segment);
                // In this order: whoever counts anew after a death in between takes the tail for counted.
                words.stamp.store(words.tail.load(Ordering::Acquire), Ordering::Release);
                words.published.fetch_add(appended.bytes, Ordering::AcqRel);
            }
        }
    }
}

impl Drop for Writer<'_> {
    /// Gives up what was appended and not published, and lets go of the segments.
    fn drop(&mut self) {
        for appended in &self.appended {
            if self.is_mine(appended.segment) {
                let words = self.target.words().segment(appended.segment);
                words.tail.store(appended.began_at, Ordering::Release);
            }
        }
        self.left.iter().for_each(|&segment| self.target.table().leave(segment));
        self.lane.release(&self.target.table());
    }
}

impl Target {
    /// Its segments.
    pub(crate) fn table(&self) -> Segments<'_> {
        let (process, bytes) = (self.process(), self.segment_bytes());
        Segments { words: self.words().segments, process, bytes }
    }
}
