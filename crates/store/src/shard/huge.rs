//! Huge pages of a target in memory: counts the data in huge pages, and moves other data into them.
use super::Target;
use crate::data::table::SegmentState;
use crate::io::huge::HUGE;
use esker_types::Result;

impl Target {
    /// Bytes of data in huge pages, and bytes that could be in huge pages.
    pub(crate) fn huge_bytes(&self) -> Result<(u64, u64)> {
        let offsets: Vec<u64> =
            self.huge_page_offsets().filter(|at| self.is_all_data(*at)).collect();
        Ok((self.data.huge_bytes(&offsets)?, offsets.len() as u64 * HUGE))
    }

    /// Offsets at which huge pages of the data file can begin.
    pub(crate) fn huge_page_offsets(&self) -> impl Iterator<Item = u64> + use<> {
        (0..self.huge_end()).step_by(HUGE as usize)
    }

    /// Offset at which the last complete huge page of the data file ends.
    pub(crate) fn huge_end(&self) -> u64 {
        u64::from(self.segment_count()) * self.segment_bytes() / HUGE * HUGE
    }

    /// True if all segments that overlap the huge page at `offset` belong to data. Segments of the index are holes.
    fn is_all_data(&self, offset: u64) -> bool {
        let bytes = self.segment_bytes();
        let mut segments =
            (offset / bytes..=(offset + HUGE - 1) / bytes).map(|number| number as u32);
        let atomics = self.shared();
        segments.all(|number| atomics.segment(number).load() != SegmentState::Index)
    }

    /// Restores the huge pages that a returned segment shares with its neighbours. The caller holds the lock for moving
    /// space.
    pub(crate) fn collapse_edges(&self, segment: u32) {
        let part = self.part_of(segment);
        let edges = [part.start, part.end - 1].map(|edge| edge / HUGE * HUGE);
        if self.data.is_mapped() {
            let offsets = edges.into_iter().filter(|offset| *offset < self.huge_end());
            offsets.for_each(|offset| self.collapse_unless_hole(offset, true));
        }
    }

    /// Moves the data at `offset` into a huge page, unless a segment of the index is there.
    pub(crate) fn collapse_huge_page(&self, offset: u64) -> Result<()> {
        // The index must not get a segment while its holes are being filled.
        if self.index_space.is_none() {
            self.collapse_unless_hole(offset, false);
            return Ok(());
        }
        let moved = self.while_moving(|_| {
            self.collapse_unless_hole(offset, false);
            Ok(true)
        });
        moved.map(drop)
    }

    /// Moves the data at `offset` into a huge page, unless a segment of the index is there. If `urgent`, the time is
    /// limited.
    fn collapse_unless_hole(&self, offset: u64, urgent: bool) {
        if self.is_all_data(offset) {
            self.data.collapse(offset, urgent);
        }
    }
}
