//! Leases of this process on objects (see [`crate::shared::leases`]).
use crate::shard::open_pool::OpenPool;
use crate::shared::leases;
use esker_types::ObjectId;
use esker_types::info::ContainerId;
use std::time::Duration;

impl OpenPool {
    /// Takes a lease on an object, which declares that this process uses it. A forked child does not inherit the lease.
    ///
    /// Look the object up after this call. A process that unlinks the object removes its name first and then calls
    /// [`OpenPool::unlink_on_last_close`].
    pub fn lease(&self, container: ContainerId, oid: ObjectId) {
        self.leases.take(&self.control, (container, oid));
    }

    /// Ends a lease. True if this was the last lease and the object must be unlinked on last close. Then the caller
    /// must remove it.
    #[must_use]
    pub fn end_lease(&self, container: ContainerId, oid: ObjectId) -> bool {
        self.leases.end(&self.control, (container, oid))
    }

    /// Flags an object, so that the process that ends the last lease on it removes it. Returns false if no process has
    /// a lease. Then the caller must remove it.
    #[must_use]
    pub fn unlink_on_last_close(&self, container: ContainerId, oid: ObjectId) -> bool {
        leases::unlink_on_last_close(&self.control, (container, oid))
    }

    /// Records that this process is an engine, which takes leases for clients on other nodes. If such leases were lost
    /// before, every object counts as leased for `grace`: clients take them again.
    pub fn begin_engine(&self, grace: Duration) {
        let grace_us = u64::try_from(grace.as_micros()).unwrap_or(u64::MAX);
        leases::begin_engine(&self.control, grace_us);
    }

    /// Records that the leases of clients on other nodes have ended in order, so that none is lost with this engine.
    pub fn end_engine(&self) {
        leases::end_engine(&self.control);
    }
}
