//! Leases on objects, counted for one open container, for backends that see no other process.
use esker_os::ForkLock;
use esker_types::ObjectId;
use std::collections::HashMap;

/// Counts the leases of a process on the objects of a container. A child made by fork begins with none.
#[derive(Default)]
pub struct Leases(ForkLock<HashMap<ObjectId, Leased>>);

#[derive(Default)]
struct Leased {
    count: u32,
    unlinked: bool,
}

impl Leases {
    /// Counts one more.
    pub fn take(&self, oid: ObjectId) {
        self.0.lock().entry(oid).or_default().count += 1;
    }

    /// Ends a lease; true for the last one on an object that is to be removed.
    pub fn release(&self, oid: ObjectId) -> bool {
        let mut all = self.0.lock();
        let Some(leased) = all.get_mut(&oid) else { return false };
        leased.count -= 1;
        let unlinked = leased.unlinked;
        leased.count == 0 && all.remove(&oid).is_some() && unlinked
    }

    /// Has an object removed by the last one with a lease; false where there is none.
    pub fn unlink_on_last_close(&self, oid: ObjectId) -> bool {
        self.0.lock().get_mut(&oid).is_some_and(|leased| {
            leased.unlinked = true;
            true
        })
    }
}
