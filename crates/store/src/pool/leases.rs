//! Leases of this process on objects (see [`crate::shared::leases`]).
use crate::shard::open_pool::OpenPool;
use crate::shared::leases;
use esker_types::ObjectId;
use esker_types::info::ContainerId;

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
}
