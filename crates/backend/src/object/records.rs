//! The content of an akey: a single value, or the records of an array.
use esker_types::ops::{Source, StoredExtent};
use esker_types::{Epoch, Extent};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The bytes of a value, or a reference to them if they are not in memory.
pub trait Payload: Clone {
    /// The `len` bytes of `source` that start at `offset`.
    fn take(source: Source<'_>, offset: u64, len: u64) -> Self;
    /// The `len` bytes that start at `from`.
    fn part(&self, from: u64, len: u64) -> Self;
}

impl Payload for Arc<[u8]> {
    fn take(source: Source<'_>, offset: u64, len: u64) -> Self {
        let mut bytes = Vec::with_capacity(len as usize);
        source.visit(offset, len, |piece| bytes.extend_from_slice(piece));
        bytes.into()
    }

    fn part(&self, from: u64, len: u64) -> Self {
        Self::take(Source::One(self), from, len)
    }
}

/// The content of an existing akey.
#[derive(Clone)]
pub enum Stored<P = Arc<[u8]>> {
    /// A single value.
    Single(P),
    /// Records of an array, at least one.
    Array(Records<P>),
}

/// Records of an array: runs that do not overlap, by their first record.
#[derive(Clone)]
pub struct Records<P = Arc<[u8]>> {
    /// Bytes per record.
    pub record_size: u64,
    runs: BTreeMap<u64, Run<P>>,
}

#[derive(Clone)]
struct Run<P> {
    /// Number of records.
    count: u64,
    /// The bytes of the records.
    bytes: P,
    epoch: Epoch,
}

impl<P: Payload> Records<P> {
    /// No records, of `record_size` bytes each.
    pub fn new(record_size: u64) -> Self {
        Self { record_size, runs: BTreeMap::new() }
    }

    /// True if it has no records.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Replaces the records of `extent` by the bytes of `data` that start at `offset`.
    pub fn write(&mut self, extent: Extent, data: Source<'_>, offset: u64, epoch: Epoch) {
        self.remove(extent);
        if !extent.is_empty() {
            let bytes = P::take(data, offset, extent.count * self.record_size);
            self.put(extent, bytes, epoch);
        }
    }

    /// Adds a run where no records exist.
    pub fn put(&mut self, extent: Extent, bytes: P, epoch: Epoch) {
        self.runs.insert(extent.start, Run { count: extent.count, bytes, epoch });
    }

    /// Removes the records of `extent` and trims runs that extend beyond it.
    pub fn remove(&mut self, extent: Extent) {
        for old in self.overlapping(extent) {
            let Some(run) = self.runs.remove(&old.start) else { continue };
            let count_before = extent.start.saturating_sub(old.start);
            self.put_back(&run, old, Extent::new(old.start, count_before));
            let behind = extent.end().min(old.end());
            self.put_back(&run, old, Extent::new(behind, old.end() - behind));
        }
    }

    /// Puts back the part `left` of a run that had the extent `whole`.
    fn put_back(&mut self, run: &Run<P>, whole: Extent, left: Extent) {
        if !left.is_empty() {
            let from = (left.start - whole.start) * self.record_size;
            let bytes = run.bytes.part(from, left.count * self.record_size);
            self.put(left, bytes, run.epoch);
        }
    }

    /// The runs that overlap `extent`, in order. The last run that starts at or before the extent may reach into it.
    pub fn overlapping(&self, extent: Extent) -> Vec<Extent> {
        let before = self.runs.range(..=extent.start).next_back();
        let after =
            self.runs.range(extent.start..).skip_while(|(start, _)| **start == extent.start);
        let runs =
            before.into_iter().chain(after).map(|(start, run)| Extent::new(*start, run.count));
        let near = runs.take_while(|run| run.start < extent.end());
        near.filter(|run| run.intersect(extent).is_some()).collect()
    }

    /// All runs, as listings show them.
    pub fn stored(&self) -> impl DoubleEndedIterator<Item = StoredExtent> {
        self.runs.iter().map(|(start, run)| StoredExtent {
            extent: Extent::new(*start, run.count),
            record_size: self.record_size,
            epoch: run.epoch,
        })
    }

    /// The payload of the run that starts at `start`.
    pub fn payload(&self, start: u64) -> Option<&P> {
        self.runs.get(&start).map(|run| &run.bytes)
    }
}

impl Records {
    /// The bytes of `records`, which are within `run`; empty if they are not stored.
    pub fn bytes(&self, run: Extent, records: Extent) -> &[u8] {
        let from = ((records.start - run.start) * self.record_size) as usize;
        let len = (records.count * self.record_size) as usize;
        let whole = self.payload(run.start);
        whole.and_then(|bytes| bytes.get(from..from + len)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(records: &Records) -> Vec<(u64, Vec<u8>)> {
        records.runs.iter().map(|(start, run)| (*start, run.bytes.to_vec())).collect()
    }

    #[test]
    fn a_write_trims_overlapping_runs() {
        let mut records = Records::new(1);
        records.write(Extent::new(10, 6), Source::One(b"abcdef"), 0, Epoch(1));
        records.write(Extent::new(12, 2), Source::One(b"XY"), 0, Epoch(2));
        let expected = [(10, b"ab".to_vec()), (12, b"XY".to_vec()), (14, b"ef".to_vec())];
        assert_eq!(shown(&records), expected);
        records.remove(Extent::new(11, 4));
        assert_eq!(shown(&records), [(10, b"a".to_vec()), (15, b"f".to_vec())]);
        records.remove(Extent::new(0, u64::MAX));
        assert!(records.is_empty());
    }

    #[test]
    fn overlap_is_detected_on_both_sides() {
        let mut records = Records::new(2);
        for start in [0, 4, 8] {
            records.write(Extent::new(start, 2), Source::One(b"abcd"), 0, Epoch(1));
        }
        let met = records.overlapping(Extent::new(1, 4));
        assert_eq!(met, [Extent::new(0, 2), Extent::new(4, 2)]);
        assert_eq!(records.overlapping(Extent::new(2, 2)), []);
        assert_eq!(records.bytes(Extent::new(4, 2), Extent::new(5, 1)), b"cd");
    }
}
