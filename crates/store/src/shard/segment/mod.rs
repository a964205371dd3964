//! Segments, which store large values. A process owns the segment to which it appends. The control file records the
//! owner, so that an idle owner can lose the segment and a dead owner is detected.
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
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Writer of one operation to segments. If it is dropped without [`Writer::publish`], the appended bytes are freed.
pub(crate) struct Writer<'t> {
    target: &'t Target,
    slot: claim::AppendSlot<'t>,
    /// Full segments of this operation. They remain busy until the operation ends.
    left: SmallVec<[u32; 2]>,
    /// Appended bytes by segment, in the order in which the segments were claimed.
    appended: SmallVec<[Appending; 2]>,
}

/// Bytes that one operation appended to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Appended {
    pub(crate) segment: u32,
    pub(crate) bytes: u64,
    /// Tail of the segment after the operation.
    pub(crate) end: u64,
}

/// Variant of [`Appended`] for an operation in progress.
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

/// Checksums of an extent. The checksums of a small extent need no allocation.
type Sums = SmallVec<[u8; 32]>;

impl ExtentLocation {
    /// Body of a record with this location.
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

/// An extent to append: its key, and a part of a source.
pub(crate) struct Append<'a> {
    /// Key of the extent, without the table byte.
    pub(crate) key: &'a [u8],
    /// Number of array records.
    pub(crate) count: u64,
    pub(crate) source: Source<'a>,
    /// First byte of the source to append.
    pub(crate) offset: u64,
    /// Number of bytes to append.
    pub(crate) len: u32,
    pub(crate) checksum: Checksum,
}

impl<'t> Writer<'t> {
    /// Begins an operation. Waits for an append slot of this process.
    pub(crate) fn new(target: &'t Target) -> Self {
        Self::in_slot(target, target.append_slots.enter())
    }

    /// Begins an operation of compaction. It may use the reserve, and never collects segments.
    pub(crate) fn for_compaction(target: &'t Target) -> Self {
        Self::in_slot(target, target.append_slots.enter_compaction())
    }

    fn in_slot(target: &'t Target, slot: claim::AppendSlot<'t>) -> Self {
        Self { target, slot, left: SmallVec::new(), appended: SmallVec::new() }
    }

    /// Appends an extent.
    ///
    /// # Errors
    /// `NoSpace` if no segment has enough space, even after collection.
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
        self.target.prepare(segment, at..tail);
        let begin = self.target.segment_offset(segment) + at;
        let data_at = at + header::data_offset(append.key.len());
        Header::encode(append.key, append.count, append.len, &mut self.slot.scratch);
        let sums = self.write(begin, append)?;
        let atomics = self.target.shared().segment(segment);
        // The tail passes the extent only when the extent is complete.
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

    /// Records that `bytes` bytes were appended to a segment, whose tail was `began_at` before. If the last append was
    /// to the same segment, the tail before that one remains recorded.
    fn note(&mut self, segment: u32, began_at: u64, bytes: u64) {
        match self.appended.last_mut() {
            Some(last) if last.segment == segment => last.bytes += bytes,
            _ => self.appended.push(Appending { segment, began_at, bytes }),
        }
    }

    /// A busy segment with `need` bytes of space, and its tail.
    fn room_for(&mut self, need: u64) -> Result<(u32, u64)> {
        loop {
            if let Some(current) = self.slot.take(&self.target.table()) {
                let bytes = self.target.segment_bytes();
                let tail = self.target.shared().segment(current).tail_in(bytes);
                if tail + need <= bytes {
                    return Ok((current, tail));
                }
                self.leave_full(current);
            }
            self.slot.claim(self.target, need, self.left.len())?;
        }
    }

    /// Leaves a full segment. If this operation has not written to it, it is released immediately, since others may
    /// wait for it.
    fn leave_full(&mut self, segment: u32) {
        match self.appended.last() {
            Some(last) if last.segment == segment => self.left.push(segment),
            _ => self.target.table().release(segment),
        }
    }

    /// Writes the header, which is in the scratch buffer, and the data after it, at `begin` in the data file. Returns
    /// the checksums of the data.
    fn write(&mut self, begin: u64, append: &Append<'_>) -> Result<Sums> {
        let chunks = Checksum::chunks(append.len as usize);
        let mut sums = Sums::with_capacity(chunks * append.checksum.width());
        let part = append.offset..append.offset + u64::from(append.len);
        let scratch = &mut self.slot.scratch;
        let summed = (append.checksum, &mut sums);
        let has_hole = |range: Range<u64>| self.target.has_index_segment(range);
        self.target.data.write(has_hole, begin, scratch, append.source, part, summed)?;
        Ok(sums)
    }

    /// Fails if another process took over a segment, because it treated this process as dead. The caller holds the
    /// write lock of the index.
    pub(crate) fn check_held(&self) -> Result<()> {
        if self.appended.iter().all(|appended| self.is_mine(appended.segment)) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Again,
            "a segment was taken from this process: has it closed the pool's files?",
        ))
    }

    /// True if the segment is busy for this process.
    fn is_mine(&self, segment: u32) -> bool {
        self.target.shared().segment(segment).load() == SegmentState::Busy(self.target.process())
    }

    /// Bytes that were appended so far.
    pub(crate) fn appended(&self) -> impl Iterator<Item = Appended> {
        self.appended.iter().map(|&Appending { segment, bytes, .. }| {
            let tail = self.target.shared().segment(segment).tail;
            Appended { segment, bytes, end: tail.load(Ordering::Acquire) }
        })
    }

    /// Ends the operation after its commit: the appended bytes are live now. If another process took over a segment
    /// meanwhile, it has counted them, since it recounts after the commit of the owner.
    pub(crate) fn publish(mut self) {
        for appended in std::mem::take(&mut self.appended) {
            if self.is_mine(appended.segment) {
                let atomics = self.target.shared().segment(appended.segment);
                // The stamp is stored first. If the process dies in between, a recount treats the bytes as counted.
                atomics.stamp.store(atomics.tail.load(Ordering::Acquire), Ordering::Release);
                atomics.published.fetch_add(appended.bytes, Ordering::AcqRel);
            }
        }
    }
}

impl Drop for Writer<'_> {
    /// Frees the bytes that were appended and not published, and releases the segments.
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
    /// True if the index has the space of a segment in a range of the data file.
    fn has_index_segment(&self, range: Range<u64>) -> bool {
        let first = range.start / self.segment_bytes();
        let end = range.end.div_ceil(self.segment_bytes()).min(self.segment_count().into());
        (first..end)
            .any(|number| self.shared().segment(number as u32).load() == SegmentState::Index)
    }

    /// The segment table.
    pub(crate) fn table(&self) -> Segments<'_> {
        let (process, bytes) = (self.process(), self.segment_bytes());
        Segments { atomics: self.shared().segments(), process, bytes }
    }
}
