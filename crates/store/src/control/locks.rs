//! Locks on bytes far behind the words: who lives, who uses what, who is at work where one must be alone.
use super::Control;
use crate::io::lock;
use esker_types::info::{ContainerId, OpenMode};
use esker_types::limits::PROCESSES_MAX;
use esker_types::{Error, Result};

/// Locked while the control file is set up or repaired.
const BYTE_SETUP: u64 = 1 << 40;
/// Shared by every handle on the pool, exclusive for exclusive ones.
const BYTE_POOL: u64 = BYTE_SETUP + 1;
/// One byte per process: locked for as long as it lives.
pub(super) const BYTE_PROCESS: u64 = BYTE_SETUP + 1024;
/// The bytes of all processes.
pub(crate) const PROCESS_BYTES: std::ops::Range<u64> =
    BYTE_PROCESS..BYTE_PROCESS + PROCESSES_MAX as u64;
/// One byte per container in use.
const BYTE_CONTAINER: u64 = 1 << 41;
/// One byte per target, held over a commit that spans several.
pub(super) const BYTE_TARGET: u64 = 1 << 42;

pub(super) fn not_locked(error: std::io::Error) -> Error {
    Error::io("locking the control file", &error)
}

impl Control {
    pub(super) fn lock(&self, kind: lock::Kind, byte: u64) -> Result<bool> {
        if self.read_only {
            return Ok(true);
        }
        self.file.get().and_then(|file| lock::set(file, kind, byte)).map_err(not_locked)
    }

    /// Runs `work` while no other process sets up or repairs the pool.
    pub(crate) fn exclusively<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.expect_file()?;
        self.while_locked(BYTE_SETUP, work)
    }

    /// Makes sure that the descriptor by which locks are taken is still that of the file.
    pub(crate) fn expect_file(&self) -> Result<()> {
        self.file.get().map(drop).map_err(not_locked)
    }

    /// Runs `work` while no other process commits over several targets, this one among them. To be called after
    /// [`Control::expect_file`], once for all the targets of a commit.
    pub(crate) fn while_coordinating<T>(
        &self,
        target: u32,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.while_locked(BYTE_TARGET + u64::from(target), work)
    }

    fn while_locked<T>(&self, byte: u64, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let held = (!self.read_only).then(|| lock::Held::wait(self.file.get_unchecked(), byte));
        let _held = held.transpose().map_err(not_locked)?;
        work()
    }

    /// True where any other process has the pool open.
    pub(crate) fn others_alive(&self) -> bool {
        let held = || lock::any_held_by_other(self.file.get()?, PROCESS_BYTES);
        !self.read_only && held().unwrap_or(true)
    }

    /// Takes or changes this process's use of the pool; false where others stand against it.
    pub(crate) fn use_pool(&self, mode: Option<OpenMode>) -> Result<bool> {
        self.lock(kind_of(mode), BYTE_POOL)
    }

    /// Takes or changes this process's use of a container; false where others stand against it.
    pub(crate) fn use_container(
        &self,
        container: ContainerId,
        mode: Option<OpenMode>,
    ) -> Result<bool> {
        self.lock(kind_of(mode), BYTE_CONTAINER + u64::from(container.0))
    }

    /// True where another process uses the container.
    pub(crate) fn container_used_by_other(&self, container: ContainerId) -> bool {
        self.is_locked_by_other(BYTE_CONTAINER + u64::from(container.0))
    }

    pub(super) fn is_locked_by_other(&self, byte: u64) -> bool {
        let held = || lock::held_by_other(self.file.get()?, byte);
        !self.read_only && held().unwrap_or(true)
    }
}

fn kind_of(mode: Option<OpenMode>) -> lock::Kind {
    match mode {
        None => lock::Kind::None,
        Some(OpenMode::Exclusive) => lock::Kind::Exclusive,
        Some(_) => lock::Kind::Shared,
    }
}
