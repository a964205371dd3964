//! Leases on objects, counted per open container, for backends that cannot detect other processes.
use esker_os::ForkLock;
use esker_types::ObjectId;
use std::collections::HashMap;

/// The leases of a process on the objects of a container. A child made by fork starts with none.
#[derive(Default)]
pub struct Leases(ForkLock<HashMap<ObjectId, Leased>>);

#[derive(Default)]
struct Leased {
    /// Number of leases.
    count: u32,
    /// True if the object is to be removed when the last lease ends.
    unlinked: bool,
}

impl Leases {
    /// Adds a lease.
    pub fn take(&self, oid: ObjectId) {
        self.0.lock().entry(oid).or_default().count += 1;
    }

    /// Ends a lease. True if it was the last one on an object that is to be removed; false also if there was none.
    pub fn release(&self, oid: ObjectId) -> bool {
        let mut all = self.0.lock();
        let Some(leased) = all.get_mut(&oid) else { return false };
        leased.count -= 1;
        let unlinked = leased.unlinked;
        leased.count == 0 && all.remove(&oid).is_some() && unlinked
    }

    /// Leaves the removal of an object to the release of its last lease. False without a lease: the caller removes it.
    pub fn unlink_on_last_close(&self, oid: ObjectId) -> bool {
        self.0.lock().get_mut(&oid).is_some_and(|leased| {
            leased.unlinked = true;
            true
        })
    }
}
