//! Segments store large values. A process owns the segment it appends to. The owner is in the control file, so that
//! an idle owner can lose the segment and a dead one is detected.
pub(crate) mod claim;
pub(crate) mod collect;
pub(crate) mod compact;
#[cfg(test)]
mod tests;

use super::Target;
use crate::data::header::{self, Header};
use crate::data::table::{SegmentState, Segments};
use crate::format::record::{Body, Location};
use esker_types::ops::Source;
use esker_types::{Checksum, Error, ErrorKind, Result};
use smallvec::SmallVec;
use std::sync::atomic::Ordering;

/// The segments that one operation writes to. If dropped without [`Writer::publish`], what was appended is given
/// back.
pub(crate) struct Writer<'t> {
    target: &'t Target,
    slot: claim::AppendSlot<'t>,
    /// Segments left before the end: each is busy until the operation ends.
    left: SmallVec<[u32; 2]>,
    /// What was appended, by segment, in the order in which they were claimed.
    appended: SmallVec<[Appending; 2]>,
}

/// What one operation appended to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Appended {
    pub(crate) segment: u32,
    pub(crate) bytes: u64,
    /// Tail of the segment after it.
    pub(crate) end: u64,
}

/// As [`Appended`], while the operation is under way.
struct Appending {
    segment: u32,
    /// Tail of the segment before the operation.
    began_at: u64,
    bytes: u64,
}

/// Location of an appended extent, with its checksums.
#[derive(Clone, Debug)]
pub(crate) struct ExtentLocation {
    segment: u32,
    offset: u32,
    len: u32,
    checksum: Checksum,
    sums: Sums,
}

/// The checksums of an extent; those of small ones need no allocation.
type Sums = SmallVec<[u8; 32]>;

impl ExtentLocation {
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

/// An extent to append: part of a source, and its key.
pub(crate) struct Append<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) count: u64,
    pub(crate) source: Source<'a>,
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) checksum: Checksum,
}

impl<'t> Writer<'t> {
    /// Begins to append; waits for an append slot of this process.
    pub(crate) fn new(target: &'t Target) -> Self {
        Self::in_slot(target, target.append_slots.enter())
    }

    /// Begins to append what compaction moves: it may use the reserve, and never collects.
    pub(crate) fn for_compaction(target: &'t Target) -> Self {
        Self::in_slot(target, target.append_slots.enter_compaction())
    }

    fn in_slot(target: &'t Target, slot: claim::AppendSlot<'t>) -> Self {
        Self { target, slot, left: SmallVec::new(), appended: SmallVec::new() }
    }

    /// Appends an extent.
    ///
    /// # Errors
    /// `NoSpace` if no segment has room, even after collection.
    pub(crate) fn append(&mut self, append: &Append<'_>) -> Result<ExtentLocation> {
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
        Header::encode(append.key, append.count, append.len, &mut self.slot.scratch);
        let sums = self.write(begin, append)?;
        let atomics = self.target.shared().segment(segment);
        atomics.tail.store(tail, Ordering::Release);
        self.note(segment, at, u64::from(append.len));
        Ok(ExtentLocation {
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
            _ => self.appended.push(Appending { segment, began_at, bytes }),
        }
    }

    /// A busy segment with `need` bytes of room, and its tail.
    fn room_for(&mut self, need: u64) -> Result<(u32, u64)> {
        loop {
            if let Some(current) = self.slot.take(&self.target.table()) {
                let bytes = self.target.segment_bytes();
                let tail = self.target.shared().segment(current).tail_in(bytes);
                if tail + need <= bytes {
                    return Ok((current, tail));
                }
                self.leave(current);
            }
            self.slot.claim(self.target, need, self.left.len())?;
        }
    }

    /// Leaves a segment without room. If this operation has not written to it, it is released at once, since others
    /// may wait for it.
    fn leave(&mut self, segment: u32) {
        match self.appended.last() {
            Some(last) if last.segment == segment => self.left.push(segment),
            _ => self.target.table().release(segment),
        }
    }

    /// Writes the header, which is in the scratch buffer, and the data behind it, with checksums.
    fn write(&mut self, begin: u64, append: &Append<'_>) -> Result<Sums> {
        let chunks = Checksum::chunks(append.len as usize);
        let mut sums = Sums::with_capacity(chunks * append.checksum.width());
        let part = append.offset..append.offset + u64::from(append.len);
        let scratch = &mut self.slot.scratch;
        let summed = (append.checksum, &mut sums);
        self.target.data.write(begin, scratch, append.source, part, summed)?;
        Ok(sums)
    }

    /// Fails if a segment was taken away, as from a process that was believed dead. Call with the write lock of the
    /// index held.
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
        self.target.shared().segment(segment).load() == SegmentState::Busy(self.target.process())
    }

    /// What was appended so far.
    pub(crate) fn appended(&self) -> impl Iterator<Item = Appended> {
        self.appended.iter().map(|&Appending { segment, bytes, .. }| {
            let tail = self.target.shared().segment(segment).tail;
            Appended { segment, bytes, end: tail.load(Ordering::Acquire) }
        })
    }

    /// Ends the operation after its commit: what was appended is live now. Whoever took a segment away meanwhile has
    /// counted it, since that happens after the commit of its owner.
    pub(crate) fn publish(mut self) {
        for appended in std::mem::take(&mut self.appended) {
            if self.is_mine(appended.segment) {
                let atomics = self.target.shared().segment(appended.segment);
                // In this order: a recount after a death in between takes the stamp for counted.
                atomics.stamp.store(atomics.tail.load(Ordering::Acquire), Ordering::Release);
                atomics.published.fetch_add(appended.bytes, Ordering::AcqRel);
            }
        }
    }
}

impl Drop for Writer<'_> {
    /// Gives back what was appended and not published, and releases the segments.
    fn drop(&mut self) {
        for appended in &self.appended {
            if self.is_mine(appended.segment) {
                let atomics = self.target.shared().segment(appended.segment);
                atomics.tail.store(appended.began_at, Ordering::Release);
            }
        }
        self.left.iter().for_each(|&segment| self.target.table().release(segment));
        self.slot.release(&self.target.table());
    }
}

impl Target {
    /// The segment table.
    pub(crate) fn table(&self) -> Segments<'_> {
        let (process, bytes) = (self.process(), self.segment_bytes());
        Segments { atomics: self.shared().segments(), process, bytes }
    }
}
