//! The containers that a process has opened or listed, and its handles on them, for backends that cannot detect other
//! processes.
use arc_swap::ArcSwap;
use esker_types::info::{ContainerId, OpenMode};
use esker_types::{Error, ErrorKind, Result, Uuid};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Open handles on a container, counted without a lock, which a thread of the parent might hold in a forked child.
#[derive(Default)]
pub struct Handles {
    /// Number of handles, or [`EXCLUSIVE`].
    uses: AtomicU32,
    gone: AtomicBool,
}

/// The one handle that excludes others.
const EXCLUSIVE: u32 = u32::MAX;

impl Handles {
    /// Number of handles. An exclusive handle counts as one.
    pub fn count(&self) -> u32 {
        match self.uses.load(Ordering::Acquire) {
            EXCLUSIVE => 1,
            count => count,
        }
    }

    /// Changes the number of handles, unless `change` refuses.
    fn change(&self, change: impl Fn(u32) -> Option<u32>) -> bool {
        self.uses.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).is_ok()
    }

    /// Adds a handle; `Busy` if exclusive use forbids it.
    pub fn open(&self, mode: OpenMode) -> Result<()> {
        let opened = self.change(|uses| match (mode, uses) {
            (_, EXCLUSIVE) => None,
            (OpenMode::Exclusive, 0) => Some(EXCLUSIVE),
            (OpenMode::Exclusive, _) => None,
            _ => uses.checked_add(1).filter(|uses| *uses < EXCLUSIVE),
        });
        if opened { Ok(()) } else { Err(busy()) }
    }

    /// Removes a handle. Does nothing if there is none.
    pub fn close(&self) {
        self.change(|uses| match uses {
            EXCLUSIVE => Some(0),
            _ => uses.checked_sub(1),
        });
    }

    /// Checks that the container may be destroyed. `Busy` if there are handles, unless `force`.
    pub fn check_unused(&self, force: bool) -> Result<()> {
        match self.count() > 0 && !force {
            true => Err(busy()),
            false => Ok(()),
        }
    }

    /// Marks a container as destroyed, after the backend has destroyed it: the backend may refuse that, and then the
    /// handles stay usable.
    pub fn retire(&self) {
        self.gone.store(true, Ordering::Release);
    }

    /// True once the container was retired.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }
}

#[cold]
fn busy() -> Error {
    Error::new(ErrorKind::Busy, "the container is in use")
}

/// The error of every operation on a destroyed container.
#[cold]
pub fn gone() -> Error {
    Error::new(ErrorKind::NoHandle, "the container was destroyed")
}

/// A container of a backend that counts handles.
pub trait Handled {
    /// The handles of the container in this process.
    fn handles(&self) -> &Handles;

    /// Fails if the container was destroyed through this process.
    ///
    /// # Errors
    /// [`ErrorKind::NoHandle`].
    fn check_alive(&self) -> Result<()> {
        if self.handles().is_gone() { Err(gone()) } else { Ok(()) }
    }
}

/// The containers that this process has opened or listed, by UUID. Their numbers are valid in this process only and
/// assigned in the order of first use. A change replaces the table, so that it is consistent after a fork.
pub struct Table<C>(ArcSwap<Entries<C>>);

struct Entries<C> {
    /// Number of containers that were met so far, which is the number of the last one.
    met: u32,
    by_uuid: HashMap<Uuid, Arc<C>>,
}

impl<C> Clone for Entries<C> {
    fn clone(&self) -> Self {
        Self { met: self.met, by_uuid: self.by_uuid.clone() }
    }
}

impl<C> Default for Table<C> {
    fn default() -> Self {
        Self(ArcSwap::from_pointee(Entries { met: 0, by_uuid: HashMap::new() }))
    }
}

impl<C: Handled> Table<C> {
    /// The container with this UUID; if it is not in the table, `make` creates its entry.
    pub fn note(&self, uuid: Uuid, make: impl Fn(ContainerId) -> C) -> Arc<C> {
        if let Some(container) = self.0.load().living(uuid) {
            return container;
        }
        let mut noted = None;
        self.0.rcu(|entries| {
            let mut entries = Entries::clone(entries);
            noted = Some(entries.note(uuid, &make));
            entries
        });
        // `rcu` has called its closure, so the alternative is not used.
        noted.unwrap_or_else(|| Arc::new(make(ContainerId(0))))
    }
}

impl<C: Handled> Entries<C> {
    /// The container with this UUID, unless it was destroyed.
    fn living(&self, uuid: Uuid) -> Option<Arc<C>> {
        self.by_uuid.get(&uuid).filter(|container| !container.handles().is_gone()).map(Arc::clone)
    }

    /// Returns the state that all handles of a container share. `make` creates it if the table has none, or if a
    /// destroyed container had this UUID.
    fn note(&mut self, uuid: Uuid, make: &impl Fn(ContainerId) -> C) -> Arc<C> {
        if let Some(container) = self.living(uuid) {
            return container;
        }
        self.met += 1;
        let container = Arc::new(make(ContainerId(self.met)));
        self.by_uuid.insert(uuid, Arc::clone(&container));
        container
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An exclusive handle excludes all others, and others exclude it. A container that is open is not destroyed
    /// without force.
    #[test]
    fn an_exclusive_handle_excludes_others() {
        let handles = Handles::default();
        handles.open(OpenMode::Exclusive).unwrap();
        for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite, OpenMode::Exclusive] {
            assert_eq!(handles.open(mode).unwrap_err().kind(), ErrorKind::Busy);
        }
        assert_eq!(handles.count(), 1);
        handles.close();
        handles.close();
        assert_eq!(handles.count(), 0);
        handles.open(OpenMode::ReadWrite).unwrap();
        handles.open(OpenMode::ReadOnly).unwrap();
        assert_eq!(handles.open(OpenMode::Exclusive).unwrap_err().kind(), ErrorKind::Busy);
        assert_eq!(handles.check_unused(false).unwrap_err().kind(), ErrorKind::Busy);
        assert_eq!(handles.count(), 2);
    }
}
