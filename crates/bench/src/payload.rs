//! Payload that identifies its operation, generated before the measured phase.
use crate::buffer::Buffer;
use crate::errors::ensure_intact;
use crate::job::Slot;
use esker_types::Result;
use fastrand::Rng;
use std::ops::Range;

/// Blocks of different slots begin at most this far apart, so they differ although all share one set of bytes.
const SPREAD_BYTES: usize = 16 << 10;
/// Blocks begin at multiples of this, because copies from other addresses are slower.
const STEP_BYTES: usize = 64;

/// Random bytes. The block of each slot is a window of them. Processes with the same seed generate the same bytes.
pub struct Payload {
    bytes: Buffer,
    block_bytes: usize,
}

impl Payload {
    /// Blocks of `block_bytes` each.
    pub fn new(seed: u64, block_bytes: u64) -> Result<Self> {
        let mut bytes = Buffer::new(block_bytes.saturating_add(SPREAD_BYTES as u64))?;
        Rng::with_seed(seed).fill(&mut bytes);
        Ok(Self { block_bytes: bytes.len() - SPREAD_BYTES, bytes })
    }

    /// The block that belongs to `slot`.
    pub fn block(&self, slot: Slot) -> &[u8] {
        &self.bytes[self.range(slot)]
    }

    /// Range of the block of `slot` in [`Payload::bytes`], at an offset that the slot determines.
    pub fn range(&self, slot: Slot) -> Range<usize> {
        let start = Rng::with_seed(slot.number()).usize(..SPREAD_BYTES / STEP_BYTES) * STEP_BYTES;
        start..start + self.block_bytes
    }

    /// The bytes that all blocks are part of.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Checks that `found` is the block of a slot.
    pub fn check(&self, slot: Slot, found: &[u8]) -> Result<()> {
        ensure_intact(found == self.block(slot), || {
            format!("the data read for {slot:?} is not the data written")
        })
    }

    /// True if each of `bytes`, from `at` on, equals the byte at the same position in the block of one of `slots`.
    pub fn is_mixed(&self, bytes: &[u8], at: usize, slots: impl Iterator<Item = Slot>) -> bool {
        let mut known = vec![false; bytes.len()];
        for slot in slots {
            let block = self.block(slot).get(at..).unwrap_or_default();
            for ((known, byte), right) in known.iter_mut().zip(bytes).zip(block) {
                *known |= byte == right;
            }
        }
        known.iter().all(|&known| known)
    }

    /// True if the block of one of `slots` has `bytes` at `at`.
    pub fn is_of_one(
        &self,
        bytes: &[u8],
        at: usize,
        mut slots: impl Iterator<Item = Slot>,
    ) -> bool {
        slots.any(|slot| {
            self.block(slot).get(at..at + bytes.len()).is_some_and(|part| part == bytes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_reproducible_and_differ_between_slots() {
        let slot = |rank, op| Slot { rank, round: 1, op };
        let (here, there) = (Payload::new(7, 100).unwrap(), Payload::new(7, 100).unwrap());
        assert_eq!(here.block(slot(1, 5)), there.block(slot(1, 5)));
        assert_eq!(here.block(slot(1, 5)).len(), 100);
        assert_ne!(here.block(slot(1, 5)), here.block(slot(2, 5)));
        assert_ne!(here.block(slot(1, 5)), here.block(slot(1, 6)));
        assert_ne!(here.block(slot(1, 5)), Payload::new(8, 100).unwrap().block(slot(1, 5)));
    }

    #[test]
    fn mixed_block_matches_no_slot_but_each_byte_matches_one() {
        let payload = Payload::new(7, 100).unwrap();
        let slots = || (0..3).map(|op| Slot { rank: 1, round: 1, op });
        let blocks: Vec<_> = slots().map(|slot| payload.block(slot)).collect();
        let mut mixed = [&blocks[0][20..50], &blocks[2][50..100]].concat();
        assert!(!payload.is_of_one(&mixed, 20, slots()) && payload.is_mixed(&mixed, 20, slots()));
        let nowhere = (0..=255).find(|byte| blocks.iter().all(|block| block[60] != *byte));
        mixed[40] = nowhere.unwrap();
        assert!(!payload.is_mixed(&mixed, 20, slots()));
    }
}
