//! Words of the control file that belong to processes: what each has noted, and what they hold.
use super::locks::{BYTE_PROCESS, PROCESS_BYTES, not_locked};
use super::{Control, PROCESS_WORDS, ProcessSlot};
use crate::holds::HOLD_WORDS;
use crate::io::{lock, sys};
use crate::sync::AtomicU64;
use esker_types::Result;
use esker_types::limits::PROCESSES_MAX;
use std::sync::PoisonError;

/// Shared words of one process.
pub(crate) struct ProcessWords<'c> {
    /// Not zero where it has, or had, an object in use.
    pub(crate) held: &'c AtomicU64,
    /// Where it has mapped the words.
    pub(crate) mapping: &'c AtomicU64,
}

/// One byte per target, held by who moves space between its data and its index.
const BYTE_MOVING: u64 = (1 << 40) + (1 << 17);
/// One byte per target, held over its compaction.
const BYTE_COMPACTION: u64 = (1 << 40) + (1 << 16);

impl Control {
    /// True where the process behind `slot` lives.
    pub(crate) fn is_alive(&self, slot: ProcessSlot) -> bool {
        let byte = BYTE_PROCESS + u64::from(slot.0);
        slot == self.slot || self.is_locked_by_other(byte)
    }

    /// The lock on a byte, unless another process has it.
    fn take(&self, byte: u64) -> Result<Option<lock::Held<'_>>> {
        self.file.get().and_then(|file| lock::Held::take(file, byte)).map_err(not_locked)
    }

    /// The right to move space of a target, unless another process has it.
    pub(crate) fn try_moving(&self, target: u32) -> Result<Option<lock::Held<'_>>> {
        self.take(BYTE_MOVING + u64::from(target))
    }

    /// Who knows the indexes to be sound, or how they were left ([`crate::pool`]).
    pub(crate) fn voucher(&self) -> &AtomicU64 {
        &self.words[6]
    }

    /// Another process that has the pool open.
    pub(crate) fn other_alive(&self) -> Option<ProcessSlot> {
        let held = || lock::first_held_by_other(self.file.get()?, PROCESS_BYTES);
        let byte = if self.read_only { None } else { held().ok().flatten() };
        byte.map(|byte| ProcessSlot(byte.saturating_sub(BYTE_PROCESS) as u32))
    }

    /// Counts holds that found no room, as long as anybody has the pool open.
    pub(crate) fn unplaced_holds(&self) -> &AtomicU64 {
        &self.words[5]
    }

    /// Runs `work` where no process has `slot`, and none can get it meanwhile; false where one has it, or
    /// another does such work for it.
    pub(crate) fn while_dead(
        &self,
        slot: ProcessSlot,
        work: impl FnOnce() -> bool,
    ) -> Result<bool> {
        let _alone = self.burying.lock().unwrap_or_else(PoisonError::into_inner);
        let byte = BYTE_PROCESS + u64::from(slot.0);
        if slot == self.slot || self.read_only {
            return Ok(false);
        }
        let held = self.take(byte)?;
        Ok(held.is_some() && work())
    }

    /// Runs `work` unless another process compacts the target; this one sees to its threads.
    pub(crate) fn unless_compacting<T>(
        &self,
        target: u32,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<Option<T>> {
        let byte = BYTE_COMPACTION + u64::from(target);
        let held = self.take(byte)?;
        held.map(|_held| work()).transpose()
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
        let mapped = self.file.get().and_then(|file| sys::is_mapped_at(file, address));
        mapped.unwrap_or(false)
    }

    /// The table of holds.
    pub(crate) fn holds(&self) -> &[AtomicU64] {
        &self.words[self.targets_end + PROCESSES_MAX * PROCESS_WORDS..][..HOLD_WORDS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;

    /// Locks on the byte of a slot, by whatever process.
    fn locks_on(pool: &Scratch, slot: ProcessSlot) -> usize {
        locks_on_byte(pool, BYTE_PROCESS + u64::from(slot.0))
    }

    fn locks_on_byte(pool: &Scratch, byte: u64) -> usize {
        use std::os::unix::fs::MetadataExt;
        let inode = std::fs::metadata(pool.path().join("control")).unwrap().ino();
        let (inode, range) = (format!(":{inode} "), format!(" {byte} {byte}"));
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        locks.lines().filter(|line| line.contains(&inode) && line.ends_with(&range)).count()
    }

    #[test]
    fn nobody_gets_the_slot_of_the_dead_while_they_are_dealt_with() {
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        let state = pool.state();
        let own = state.control.slot;
        // Not its neighbour: the kernel shows locks side by side as one.
        let dead = ProcessSlot((own.0 + 2) % PROCESSES_MAX as u32);
        assert!(!state.control.while_dead(own, || true).unwrap(), "this process lives");
        assert_eq!((locks_on(&pool, own), locks_on(&pool, dead)), (1, 0));
        assert!(state.control.while_dead(dead, || locks_on(&pool, dead) == 1).unwrap());
        assert_eq!((locks_on(&pool, own), locks_on(&pool, dead)), (1, 0));
    }

    #[test]
    fn a_panic_leaves_no_lock_behind() {
        use std::panic::{AssertUnwindSafe, catch_unwind};
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        let state = pool.state();
        let control = &state.control;
        let dead = ProcessSlot((control.slot.0 + 2) % PROCESSES_MAX as u32);
        let panics = |work: &dyn Fn()| assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
        panics(&|| drop(control.while_coordinating(1, || -> Result<()> { panic!("on purpose") })));
        panics(&|| drop(control.while_dead(dead, || panic!("on purpose"))));
        let coordinating = super::super::locks::BYTE_TARGET + 1;
        assert_eq!((locks_on_byte(&pool, coordinating), locks_on(&pool, dead)), (0, 0));
        assert!(control.while_dead(dead, || true).unwrap(), "and others go on");
    }
}
