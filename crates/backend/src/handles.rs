//! The containers a process has met, and its handles on them, for backends that see no other process.
use arc_swap::ArcSwap;
use esker_types::info::{ContainerId, OpenMode};
use esker_types::{Error, ErrorKind, Result, Uuid};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Handles on a container.
#[derive(Default)]
pub struct Handles {
    uses: Mutex<Uses>,
    gone: AtomicBool,
}

#[derive(Default)]
struct Uses {
    count: u32,
    exclusive: bool,
}

impl Handles {
    fn uses(&self) -> MutexGuard<'_, Uses> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.uses().count
    }

    /// Takes one; `Busy` where exclusive use stands against it.
    pub fn open(&self, mode: OpenMode) -> Result<()> {
        let mut uses = self.uses();
        let alone = mode == OpenMode::Exclusive;
        if uses.exclusive || alone && uses.count > 0 {
            return Err(busy());
        }
        *uses = Uses { count: uses.count + 1, exclusive: alone };
        Ok(())
    }

    /// Gives one back.
    pub fn close(&self) {
        let mut uses = self.uses();
        uses.count = uses.count.saturating_sub(1);
        uses.exclusive &= uses.count > 0;
    }

    /// Ends all use, before the container goes; `Busy` where there is some, unless `force`.
    pub fn retire(&self, force: bool) -> Result<()> {
        if self.count() > 0 && !force {
            return Err(busy());
        }
        self.gone.store(true, Ordering::Release);
        Ok(())
    }

    /// True once the container was destroyed.
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

/// A container of a backend, which has handles.
pub trait Handled {
    /// Its handles in this process.
    fn handles(&self) -> &Handles;

    /// Refuses a container that was destroyed through this process.
    ///
    /// # Errors
    /// [`ErrorKind::NoHandle`].
    fn check_alive(&self) -> Result<()> {
        if self.handles().is_gone() { Err(gone()) } else { Ok(()) }
    }
}

/// The containers this process has met, by UUID. Their numbers are of this process only: they are given in the order
/// containers are met. Replaced as a whole, so that a fork finds it consistent.
pub struct Table<C>(ArcSwap<Known<C>>);

struct Known<C> {
    met: u32,
    by_uuid: HashMap<Uuid, Arc<C>>,
}

impl<C> Clone for Known<C> {
    fn clone(&self) -> Self {
        Self { met: self.met, by_uuid: self.by_uuid.clone() }
    }
}

impl<C> Default for Table<C> {
    fn default() -> Self {
        Self(ArcSwap::from_pointee(Known { met: 0, by_uuid: HashMap::new() }))
    }
}

impl<C: Handled> Table<C> {
    /// The container with this UUID, known from now on; `make` makes one that is new here.
    pub fn note(&self, uuid: Uuid, make: impl Fn(ContainerId) -> C) -> Arc<C> {
        if let Some(known) = self.0.load().living(uuid) {
            return known;
        }
        let mut noted = None;
        self.0.rcu(|known| {
            let mut known = Known::clone(known);
            noted = Some(known.note(uuid, &make));
            known
        });
        noted.unwrap_or_else(|| Arc::new(make(ContainerId(0))))
    }
}

impl<C: Handled> Known<C> {
    fn living(&self, uuid: Uuid) -> Option<Arc<C>> {
        self.by_uuid.get(&uuid).filter(|known| !known.handles().is_gone()).map(Arc::clone)
    }

    fn note(&mut self, uuid: Uuid, make: &impl Fn(ContainerId) -> C) -> Arc<C> {
        if let Some(known) = self.living(uuid) {
            return known;
        }
        self.met += 1;
        let container = Arc::new(make(ContainerId(self.met)));
        self.by_uuid.insert(uuid, Arc::clone(&container));
        container
    }
}
