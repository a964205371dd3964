//! Words of the control file that belong to processes: what each has noted, and what they hold.
use super::{Control, PROCESS_WORDS, ProcessSlot};
use crate::holds::HOLD_WORDS;
use crate::io::sys;
use esker_types::limits::PROCESSES_MAX;
use std::sync::atomic::AtomicU64;

/// Shared words of one process.
pub(crate) struct ProcessWords<'c> {
    /// Not zero where it has, or had, an object in use.
    pub(crate) held: &'c AtomicU64,
    /// Where it has mapped the words.
    pub(crate) mapping: &'c AtomicU64,
}

impl Control {
    /// Counts holds that found no room, as long as anybody has the pool open.
    pub(crate) fn unplaced_holds(&self) -> &AtomicU64 {
        &self.words[5]
    }

    /// The words of a process.
    pub(crate) fn process(&self, slot: ProcessSlot) -> ProcessWords<'_> {
        let words = &self.words[self.targets_end + slot.0 as usize * PROCESS_WORDS..];
        ProcessWords { held: &words[0], mapping: &words[1] }
    }

    /// Where processes have mapped the words, slot by slot.
    pub(crate) fn mappings(&self) -> impl Iterator<Item = &AtomicU64> {
        let words = &self.words[self.targets_end..][..PROCESSES_MAX * PROCESS_WORDS];
        words.chunks(PROCESS_WORDS).map(|words| &words[1])
    }

    /// Where this process has mapped the words.
    pub(crate) fn address(&self) -> usize {
        self.words.as_ptr() as usize
    }

    /// True where the control file is what this process has at an address.
    pub(crate) fn is_mapped_at(&self, address: u64) -> bool {
        sys::is_mapped_at(&self.file, address).unwrap_or(false)
    }

    /// The table of holds.
    pub(crate) fn holds(&self) -> &[AtomicU64] {
        &self.words[self.targets_end + PROCESSES_MAX * PROCESS_WORDS..][..HOLD_WORDS]
    }
}
