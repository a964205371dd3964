//! The containers this process has met, by number and by UUID.
use super::container::{Container, Place, gone};
use super::meta::Meta;
use arc_swap::ArcSwap;
use esker_types::info::ContainerId;
use esker_types::{Error, ErrorKind, Result, Uuid};
use std::collections::HashMap;
use std::sync::Arc;

/// Numbers are of this process only: they are given in the order containers are met. Replaced as a
/// whole, so that a fork finds it consistent.
#[derive(Default)]
pub(super) struct Table(ArcSwap<Known>);

#[derive(Clone, Default)]
struct Known {
    by_id: HashMap<ContainerId, Arc<Container>>,
    by_uuid: HashMap<Uuid, Arc<Container>>,
}

impl Table {
    /// The container that `meta` is of, known from now on.
    pub(super) fn note(&self, place: &Place, meta: &Meta) -> Arc<Container> {
        if let Some(known) = self.0.load().by_uuid.get(&meta.uuid).filter(|known| !known.is_gone())
        {
            return Arc::clone(known);
        }
        let mut noted = None;
        self.0.rcu(|known| {
            let mut known = Known::clone(known);
            noted = Some(known.note(place, meta));
            known
        });
        noted.unwrap_or_else(|| Arc::new(Container::new(ContainerId(0), place, meta)))
    }

    /// An open container.
    ///
    /// # Errors
    /// `NoHandle` where there is none, or where it was destroyed.
    pub(super) fn get(&self, id: ContainerId) -> Result<Arc<Container>> {
        match self.0.load().by_id.get(&id) {
            Some(container) if container.is_gone() => Err(gone()),
            Some(container) => Ok(Arc::clone(container)),
            None => Err(Error::new(ErrorKind::NoHandle, "the container is not open")),
        }
    }

    /// Closing what was destroyed is no error.
    pub(super) fn close(&self, id: ContainerId) {
        if let Some(container) = self.0.load().by_id.get(&id) {
            container.close();
        }
    }
}

impl Known {
    fn note(&mut self, place: &Place, meta: &Meta) -> Arc<Container> {
        if let Some(known) = self.by_uuid.get(&meta.uuid).filter(|known| !known.is_gone()) {
            return Arc::clone(known);
        }
        let id = ContainerId(self.by_id.len() as u32 + 1);
        let container = Arc::new(Container::new(id, place, meta));
        self.by_id.insert(id, Arc::clone(&container));
        self.by_uuid.insert(meta.uuid, Arc::clone(&container));
        container
    }
}
