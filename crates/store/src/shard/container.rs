//! Open containers of a process.
use super::open_pool::OpenPool;
use crate::format::keys::{Key, Table};
use esker_types::info::{ContainerId, ContainerInfo, OpenMode};
use esker_types::{Checksum, Error, ErrorKind, Result, Uuid};
use std::collections::HashMap;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

/// An open container of a process.
#[derive(Debug)]
pub struct Container {
    info: ContainerInfo,
    /// Number of containers that had been destroyed when this one was last known to exist.
    seen: AtomicU64,
    /// The process that opened it ([`esker_os::generation`]).
    generation: u64,
}

impl Container {
    /// An open container. When it was last known to exist, `seen` containers of the pool had been destroyed.
    pub(crate) fn new(info: ContainerInfo, seen: u64) -> Self {
        let seen = AtomicU64::new(seen & !REMOVING);
        Self { info, seen, generation: esker_os::generation() }
    }

    /// True in a child made by fork after the container was opened. The child is not counted as a holder of it.
    #[must_use]
    pub fn is_inherited(&self) -> bool {
        self.generation != esker_os::generation()
    }

    /// Number of the container in its pool.
    #[must_use]
    pub fn id(&self) -> ContainerId {
        self.info.id
    }

    /// Kind of checksums of the data.
    #[must_use]
    pub fn checksum(&self) -> Checksum {
        self.info.checksum
    }

    /// Properties of the container when it was opened.
    #[must_use]
    pub fn info(&self) -> &ContainerInfo {
        &self.info
    }

    /// Fails with `NoHandle` if the container or its pool was destroyed since it was opened. Costs one atomic load
    /// unless a container was destroyed, or is being removed.
    pub fn check_alive(&self, pool: &OpenPool) -> Result<()> {
        let destroyed = pool.control.destroyed_containers().load(Ordering::Acquire);
        if destroyed == self.seen.load(Ordering::Relaxed) {
            return Ok(());
        }
        // While a removal is in progress, `seen` never equals the count, and the entry is looked up each time.
        pool.control.expect_pool()?;
        let txn = pool.targets[0].index.read()?;
        let entry = txn.get(&container_key(self.info.uuid))?;
        // A later container may have the same UUID, but not the same number.
        match entry.and_then(number_of).is_some_and(|id| id == self.info.id) {
            true => {
                self.seen.store(destroyed & !REMOVING, Ordering::Relaxed);
                Ok(())
            }
            false => Err(Error::new(
                ErrorKind::NoHandle,
                format!("container {} was destroyed while it was open", self.info.uuid),
            )),
        }
    }
}

/// Number of a container, with which its entry in the table of containers begins. `None` if the entry is damaged.
pub(crate) fn number_of(entry: &[u8]) -> Option<ContainerId> {
    entry.first_chunk().map(|id| ContainerId(u32::from_le_bytes(*id)))
}

/// Bit of the count of destroyed containers: the removal of one is in progress, or its process died in it.
const REMOVING: u64 = 1 << 62;

impl OpenPool {
    /// Makes open handles look up their containers in each operation, until [`Self::end_removal`]. So they notice the
    /// removal of a container even if this process dies right after its commit. The caller holds the write lock of
    /// target 0 until it commits.
    pub(crate) fn begin_removal(&self) {
        self.control.destroyed_containers().fetch_or(REMOVING, Ordering::SeqCst);
    }

    /// Makes open handles look up their containers once more. The write lock of target 0 excludes a removal of another
    /// process between [`Self::begin_removal`] and its commit: that removal needs the bit, even if its process dies.
    ///
    /// # Errors
    /// Errors of the write lock. Then handles look up their containers in each operation, as before.
    pub(crate) fn end_removal(&self) -> Result<()> {
        let _lock = self.targets[0].begin_bare()?;
        let destroyed = self.control.destroyed_containers();
        destroyed.fetch_add(1, Ordering::SeqCst);
        destroyed.fetch_and(!REMOVING, Ordering::SeqCst);
        Ok(())
    }
}

/// Key of a container in the table of containers.
pub(crate) fn container_key(uuid: Uuid) -> Key {
    Key::table(Table::Container).push(&uuid.0)
}

/// Open containers of this process.
#[derive(Debug, Default)]
pub(crate) struct Uses(HashMap<ContainerId, Use>);

#[derive(Debug)]
struct Use {
    handles: u32,
    exclusive: bool,
}

impl OpenPool {
    /// Counts a handle of this process on a container. The first one takes the lock that other processes see.
    pub(crate) fn begin_use(&self, uses: &mut Uses, id: ContainerId, mode: OpenMode) -> Result<()> {
        let exclusive = mode == OpenMode::Exclusive;
        let busy = || Error::new(ErrorKind::Busy, "the container is in use, or in exclusive use");
        match uses.0.get_mut(&id) {
            Some(held) if held.exclusive || exclusive => return Err(busy()),
            Some(held) => held.handles += 1,
            None => {
                if !self.control.use_container(id, Some(mode))? {
                    return Err(busy());
                }
                uses.0.insert(id, Use { handles: 1, exclusive });
            }
        }
        Ok(())
    }

    /// Ends a handle of this process on a container. The last one releases the lock.
    pub(crate) fn end_use(&self, uses: &mut Uses, id: ContainerId) -> Result<()> {
        let Some(held) = uses.0.get_mut(&id) else { return Ok(()) };
        held.handles -= 1;
        if held.handles == 0 {
            uses.0.remove(&id);
            self.control.use_container(id, None)?;
        }
        Ok(())
    }

    /// Number of handles of this process, plus one if other processes have any.
    pub(crate) fn handles(&self, uses: &Uses, id: ContainerId) -> u32 {
        let own_handles = uses.0.get(&id).map_or(0, |held| held.handles);
        own_handles + u32::from(self.control.container_used_by_other(id))
    }

    /// Closes one handle of a container.
    pub fn close_container(&self, id: ContainerId) -> Result<()> {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        self.end_use(&mut uses, id)
    }
}
