//! Section of the control file about processes: their liveness, their records, and the leases on objects.
use super::{Control, PROCESS_LEN, ProcessSlot};
use crate::io::lock::{self, ByteLock};
use crate::io::sys;
use crate::shared::leases::LEASE_TABLE_LEN;
use crate::sync::{AtomicU64, expect_may_wait};
use esker_types::info::{ContainerId, OpenMode};
use esker_types::limits::PROCESSES_MAX;
use esker_types::{Error, ErrorKind, Result};
use std::sync::PoisonError;

/// Shared atomics of one process.
pub(crate) struct ProcessAtomics<'c> {
    /// Non-zero if the process has, or had, leases.
    pub(crate) has_leases: &'c AtomicU64,
    /// Address at which the process mapped the control file.
    pub(crate) mapping: &'c AtomicU64,
}

/// First of the bytes, one per slot, that are locked while a process takes the slot or acts for its dead owner.
const BYTE_CLEANUP: u64 = (1 << 40) + (1 << 18);
/// First of the bytes, one per target, that are locked while space moves between data and index.
const BYTE_MOVING: u64 = (1 << 40) + (1 << 17);
/// First of the bytes, one per target, that are locked during a compaction.
const BYTE_COMPACTION: u64 = (1 << 40) + (1 << 16);

impl Control {
    /// True if the process with that slot is alive.
    pub(crate) fn is_alive(&self, slot: ProcessSlot) -> bool {
        slot == self.slot || self.is_locked_by_other(byte_of(slot))
    }

    /// Takes the lock of a byte of the control file; returns `None` if another process has it.
    fn take(&self, byte: u64) -> Result<Option<lock::ByteLock<'_>>> {
        self.file.get().and_then(|file| lock::ByteLock::take(file, byte)).map_err(lock_error)
    }

    /// Takes the lock that lets one process at a time move space between the data and the index of a target; returns
    /// `None` if another process has it.
    pub(crate) fn try_moving(&self, target: u32) -> Result<Option<lock::ByteLock<'_>>> {
        self.take(BYTE_MOVING + u64::from(target))
    }

    /// Slot of the process that has verified the indexes, plus 1, or the stamp of a clean close ([`crate::pool`]).
    pub(crate) fn verified_by(&self) -> &AtomicU64 {
        &self.shared[6]
    }

    /// Slot of any other process that has the pool open. `None` if there is none, if the locks cannot be read, or if
    /// this process cannot write.
    pub(crate) fn other_alive(&self) -> Option<ProcessSlot> {
        let held = || lock::first_held_by_other(self.file.get()?, PROCESS_BYTES);
        let byte = if self.read_only { None } else { held().ok().flatten() };
        byte.map(|byte| ProcessSlot(byte.saturating_sub(BYTE_PROCESS) as u32))
    }

    /// Number of leases that did not fit into the table since the pool was last idle.
    pub(crate) fn overflowed_leases(&self) -> &AtomicU64 {
        &self.shared[5]
    }

    /// Runs `work` and returns its result if no process has `slot`; prevents others from getting the slot meanwhile.
    /// Returns false if a process has it, or if another process takes it or does such work for it. The slot itself is
    /// not locked, since its dead owner would seem alive.
    pub(crate) fn while_dead(
        &self,
        slot: ProcessSlot,
        work: impl FnOnce() -> bool,
    ) -> Result<bool> {
        let _alone = self.reaping.lock().unwrap_or_else(PoisonError::into_inner);
        if slot == self.slot || self.read_only {
            return Ok(false);
        }
        let held = self.take(cleanup_byte_of(slot))?;
        Ok(held.is_some() && !self.is_alive(slot) && work())
    }

    /// Locks the first free slot. The search begins at a slot derived from the process id, so that few slots are tried.
    /// The caller holds the setup lock.
    pub(super) fn take_slot(&self) -> Result<ProcessSlot> {
        let first = std::process::id() as usize;
        for step in 0..PROCESSES_MAX {
            let slot = ProcessSlot(((first + step) % PROCESSES_MAX) as u32);
            if self.try_slot(slot)? {
                return Ok(slot);
            }
        }
        Err(Error::new(
            ErrorKind::Overflow,
            format!("{PROCESSES_MAX} processes (PROCESSES_MAX) have the pool open: close some"),
        ))
    }

    /// Locks a slot; returns false if a process has it or acts for its dead owner. The caller holds the setup lock.
    ///
    /// From then on, the dead owner would seem alive. So its name is removed from the shared state before.
    pub(crate) fn try_slot(&self, slot: ProcessSlot) -> Result<bool> {
        if self.read_only {
            self.disown(slot);
            return Ok(true);
        }
        let is_used = || lock::held_by_other(self.file.get()?, byte_of(slot));
        if is_used().map_err(lock_error)? {
            return Ok(false);
        }
        let Some(_cleanup) = self.take(cleanup_byte_of(slot))? else { return Ok(false) };
        self.disown(slot);
        self.lock(lock::LockKind::Exclusive, byte_of(slot))
    }

    /// Runs `work`, or returns `None` if another process compacts the target. The caller excludes other threads of this
    /// process.
    pub(crate) fn unless_compacting<T>(
        &self,
        target: u32,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<Option<T>> {
        let byte = BYTE_COMPACTION + u64::from(target);
        let held = self.take(byte)?;
        held.map(|_held| work()).transpose()
    }

    /// The atomics of a process.
    pub(crate) fn process(&self, slot: ProcessSlot) -> ProcessAtomics<'_> {
        let atomics = &self.shared[self.targets_end + slot.0 as usize * PROCESS_LEN..];
        ProcessAtomics { has_leases: &atomics[0], mapping: &atomics[1] }
    }

    /// Addresses at which processes mapped the control file, by slot.
    pub(crate) fn mappings(&self) -> impl Iterator<Item = &AtomicU64> {
        let atomics = &self.shared[self.targets_end..][..PROCESSES_MAX * PROCESS_LEN];
        atomics.chunks(PROCESS_LEN).map(|atomics| &atomics[1])
    }

    /// Address at which this process mapped the control file.
    pub(crate) fn address(&self) -> usize {
        self.shared.as_ptr() as usize
    }

    /// True if this process has mapped the control file at `address`; false also if the kernel's list of mappings
    /// cannot be read.
    pub(crate) fn is_mapped_at(&self, address: u64) -> bool {
        let mapped = self.file.get().and_then(|file| sys::is_mapped_at(file, address));
        mapped.unwrap_or(false)
    }

    /// The lease table.
    pub(crate) fn lease_table(&self) -> &[AtomicU64] {
        &self.shared[self.targets_end + PROCESSES_MAX * PROCESS_LEN..][..LEASE_TABLE_LEN]
    }
}

/// Byte that is locked while the control file is set up or repaired.
pub(crate) const BYTE_SETUP: u64 = 1 << 40;
/// Byte of the pool lock. Handles share it; an exclusive handle has it exclusively.
const BYTE_POOL: u64 = BYTE_SETUP + 1;
/// First of the bytes, one per process, that are locked as long as the process lives.
const BYTE_PROCESS: u64 = BYTE_SETUP + 1024;
/// Bytes of all processes.
pub(crate) const PROCESS_BYTES: std::ops::Range<u64> =
    BYTE_PROCESS..BYTE_PROCESS + PROCESSES_MAX as u64;
/// First of the bytes, one per container, that are locked while the container is in use.
const BYTE_CONTAINER: u64 = 1 << 41;
/// First of the bytes, one per target, that are locked during a commit over several targets.
const BYTE_TARGET: u64 = 1 << 42;

/// Byte of a process. If a damaged word contains an impossible slot, it counts as [`ProcessSlot::NOBODY`].
fn byte_of(slot: ProcessSlot) -> u64 {
    BYTE_PROCESS + u64::from(slot.0.min(ProcessSlot::NOBODY.0))
}

/// Byte that is locked while a process takes a slot or acts for its dead owner.
fn cleanup_byte_of(slot: ProcessSlot) -> u64 {
    BYTE_CLEANUP + u64::from(slot.0.min(ProcessSlot::NOBODY.0))
}

fn lock_error(error: std::io::Error) -> Error {
    Error::io("locking the control file", &error)
}

impl Control {
    /// Takes, changes or drops the lock on a byte; returns false if another lock conflicts. A process that cannot write
    /// takes no locks.
    pub(super) fn lock(&self, kind: lock::LockKind, byte: u64) -> Result<bool> {
        if self.read_only {
            return Ok(true);
        }
        self.file.get().and_then(|file| lock::set(file, kind, byte)).map_err(lock_error)
    }

    /// Runs `work` with the setup lock held, so that no other process sets up or repairs the pool.
    pub(crate) fn exclusively<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        // `while_locked` uses the descriptor unchecked.
        self.expect_file()?;
        self.while_locked(BYTE_SETUP, work)
    }

    /// Verifies that the descriptor used for locks still refers to the control file.
    pub(crate) fn expect_file(&self) -> Result<()> {
        self.file.get().map(drop).map_err(lock_error)
    }

    /// Runs `work` while no other process coordinates a commit of this target. The caller has called
    /// [`Control::expect_file`] once for all targets of the commit.
    pub(crate) fn while_coordinating<T>(
        &self,
        target: u32,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.while_locked(BYTE_TARGET + u64::from(target), work)
    }

    /// Runs `work` while this process has the lock of `byte`, for which it waits. A process that cannot write takes no
    /// lock. The caller has called [`Control::expect_file`].
    fn while_locked<T>(&self, byte: u64, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let file = self.file.get_unchecked();
        let take = || match ByteLock::take(file, byte) {
            Ok(Some(taken)) => Ok(taken),
            // An error of the attempt is that of the wait, too.
            Ok(None) | Err(_) => {
                expect_may_wait()?;
                ByteLock::wait(file, byte).map_err(lock_error)
            }
        };
        let _held = (!self.read_only).then(take).transpose()?;
        work()
    }

    /// True if any other process has the pool open, or if the locks cannot be read.
    pub(crate) fn others_alive(&self) -> bool {
        let held = || lock::any_held_by_other(self.file.get()?, PROCESS_BYTES);
        !self.read_only && held().unwrap_or(true)
    }

    /// Takes, changes or, for `None`, drops the lock of this process on the pool; returns false if locks of other
    /// processes conflict.
    pub(crate) fn use_pool(&self, mode: Option<OpenMode>) -> Result<bool> {
        self.lock(kind_of(mode), BYTE_POOL)
    }

    /// Takes, changes or, for `None`, drops the lock of this process on a container; returns false if locks of other
    /// processes conflict.
    pub(crate) fn use_container(
        &self,
        container: ContainerId,
        mode: Option<OpenMode>,
    ) -> Result<bool> {
        self.lock(kind_of(mode), BYTE_CONTAINER + u64::from(container.0))
    }

    /// True if another process uses the container.
    pub(crate) fn container_used_by_other(&self, container: ContainerId) -> bool {
        self.is_locked_by_other(BYTE_CONTAINER + u64::from(container.0))
    }

    /// True if another process has the lock of `byte`, or if the locks cannot be read.
    pub(super) fn is_locked_by_other(&self, byte: u64) -> bool {
        let held = || lock::held_by_other(self.file.get()?, byte);
        !self.read_only && held().unwrap_or(true)
    }
}

/// Kind of lock for a mode of use. `None` drops the lock.
fn kind_of(mode: Option<OpenMode>) -> lock::LockKind {
    match mode {
        None => lock::LockKind::None,
        Some(OpenMode::Exclusive) => lock::LockKind::Exclusive,
        Some(_) => lock::LockKind::Shared,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;

    /// Number of locks of all processes on one byte of the control file.
    fn locks_on_byte(pool: &Scratch, byte: u64) -> usize {
        use std::os::unix::fs::MetadataExt;
        let inode = std::fs::metadata(pool.path().join("control")).unwrap().ino();
        let (inode, range) = (format!(":{inode} "), format!(" {byte} {byte}"));
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        locks.lines().filter(|line| line.contains(&inode) && line.ends_with(&range)).count()
    }

    #[test]
    fn slot_of_dead_process_is_not_taken_during_cleanup() {
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        let (state, other) = (pool.opened(), pool.control_of_other());
        let control = &state.control;
        let dead = ProcessSlot((control.slot.0 + 2) % PROCESSES_MAX as u32);
        for alive in [control.slot, other.slot] {
            assert!(!control.while_dead(alive, || true).unwrap(), "{alive:?} is in use");
        }
        let is_left =
            || !other.try_slot(dead).unwrap() && !other.while_dead(dead, || true).unwrap();
        assert!(control.while_dead(dead, || is_left() && !other.is_alive(dead)).unwrap());
        assert!(other.try_slot(dead).unwrap() && control.is_alive(dead), "afterwards it is free");
        assert!(!control.while_dead(dead, || true).unwrap(), "it is in use");
    }

    #[test]
    fn panic_releases_locks() {
        use std::panic::{AssertUnwindSafe, catch_unwind};
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        let state = pool.opened();
        let control = &state.control;
        let dead = ProcessSlot((control.slot.0 + 2) % PROCESSES_MAX as u32);
        let panics = |work: &dyn Fn()| assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
        panics(&|| drop(control.while_coordinating(1, || -> Result<()> { panic!("on purpose") })));
        panics(&|| drop(control.while_dead(dead, || panic!("on purpose"))));
        let coordinating = super::BYTE_TARGET + 1;
        let left = [coordinating, cleanup_byte_of(dead)].map(|byte| locks_on_byte(&pool, byte));
        assert_eq!(left, [0, 0]);
        assert!(control.while_dead(dead, || true).unwrap(), "and others can take it");
    }
}
