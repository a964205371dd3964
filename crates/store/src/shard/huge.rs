//! Huge pages of a pool in memory: how much of its data uses them, and moving the rest into them.
use super::Target;
use crate::data::table::SegmentState;
use crate::io::huge::HUGE;
use esker_types::Result;

impl Target {
    /// Bytes of its data in huge pages, and bytes that could be.
    pub(crate) fn huge_bytes(&self) -> Result<(u64, u64)> {
        let places: Vec<u64> = self.huge_places().filter(|at| self.is_whole(*at)).collect();
        Ok((self.data.huge_bytes(&places)?, places.len() as u64 * HUGE))
    }

    /// Offsets at which huge pages of the data file can begin.
    pub(crate) fn huge_places(&self) -> impl Iterator<Item = u64> + use<> {
        (0..self.huge_end()).step_by(HUGE as usize)
    }

    /// End of the last of them.
    pub(crate) fn huge_end(&self) -> u64 {
        u64::from(self.segment_count()) * self.segment_bytes() / HUGE * HUGE
    }

    /// True if no segment that overlaps this huge page is lent to the index: lent segments are holes.
    fn is_whole(&self, place: u64) -> bool {
        let bytes = self.segment_bytes();
        let mut segments = (place / bytes..=(place + HUGE - 1) / bytes).map(|number| number as u32);
        let atomics = self.shared();
        segments.all(|number| atomics.segment(number).load() != SegmentState::Lent)
    }

    /// Restores the huge pages that a returned segment shares with its neighbours. The caller has the right to move space.
    pub(crate) fn gather_edges(&self, segment: u32) {
        let part = self.part_of(segment);
        let edges = [part.start, part.end - 1].map(|edge| edge / HUGE * HUGE);
        if self.data.is_mapped() {
            let places = edges.into_iter().filter(|place| *place < self.huge_end());
            places.for_each(|place| self.gather_whole(place, true));
        }
    }

    pub(crate) fn gather_place(&self, place: u64) -> Result<()> {
        // Nobody may lend a segment whose holes are being filled.
        if self.lending.is_none() {
            self.gather_whole(place, false);
            return Ok(());
        }
        let moved = self.while_moving(|_| {
            self.gather_whole(place, false);
            Ok(true)
        });
        moved.map(drop)
    }

    fn gather_whole(&self, place: u64, urgent: bool) {
        if self.is_whole(place) {
            self.data.collapse(place, urgent);
        }
    }
}
