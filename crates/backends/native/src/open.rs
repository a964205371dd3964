//! Containers that are open here, and how often.
use super::Native;
use esker_store::Container;
use esker_types::info::{ContainerId, ContainerInfo};
use std::collections::HashMap;
use std::sync::Arc;

/// A container that is open.
#[derive(Clone)]
pub(super) struct Open {
    pub(super) container: Arc<Container>,
    uses: u32,
}

impl Native {
    pub(super) fn note_opened(&self, container: Container) -> ContainerInfo {
        let info = container.info().clone();
        let container = Arc::new(container);
        self.open.rcu(|open| {
            let mut open = HashMap::clone(open);
            let fresh = Open { container: Arc::clone(&container), uses: 0 };
            open.entry(info.id).or_insert(fresh).uses += 1;
            open
        });
        info
    }

    pub(super) fn note_closed(&self, id: ContainerId) {
        self.open.rcu(|open| {
            let mut open = HashMap::clone(open);
            if let Some(entry) = open.get_mut(&id) {
                entry.uses -= 1;
                if entry.uses == 0 {
                    open.remove(&id);
                }
            }
            open
        });
    }
}
