//! Objects that the users of one handle on a pool hold, for backends that see no others.
use esker_os::ForkLock;
use esker_types::ObjectId;
use esker_types::info::ContainerId;
use std::collections::HashMap;

/// Counts holds. A child made by fork begins with none.
#[derive(Default)]
pub struct Holds(ForkLock<HashMap<(ContainerId, ObjectId), Held>>);

#[derive(Default)]
struct Held {
    count: u32,
    doomed: bool,
}

impl Holds {
    /// Counts one more.
    pub fn hold(&self, container: ContainerId, oid: ObjectId) {
        self.0.lock().entry((container, oid)).or_default().count += 1;
    }

    /// Ends a hold; true for the last one of a doomed object.
    pub fn release(&self, container: ContainerId, oid: ObjectId) -> bool {
        let mut all = self.0.lock();
        let Some(held) = all.get_mut(&(container, oid)) else { return false };
        held.count -= 1;
        let doomed = held.doomed;
        held.count == 0 && all.remove(&(container, oid)).is_some() && doomed
    }

    /// Dooms an object that is held; false where it is not.
    pub fn doom(&self, container: ContainerId, oid: ObjectId) -> bool {
        self.0.lock().get_mut(&(container, oid)).is_some_and(|held| {
            held.doomed = true;
            true
        })
    }
}
