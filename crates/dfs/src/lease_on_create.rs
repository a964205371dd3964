//! Leases on objects of new files, which a process acquires before it creates the files.
//!
//! A process that creates a file and opens it would wait for three replies: the entry, a lease, and a second lookup of
//! the entry. But it can lease a new object before any entry names it. The file then cannot lose its content after its
//! creation, and no second lookup is needed. Over the network, one message leases many objects.
use crate::inode::{Kind, object_type};
use crate::limits::NEW_FILE_LEASES_MAX;
use crate::oids::Oids;
use esker::types::{ObjectClass, Result};
use esker::{Container, Lease, Wait};
use esker_os::ForkLock;
use std::collections::HashMap;

/// Leases on objects that no entry names yet. A forked child starts without any.
#[derive(Default)]
pub(crate) struct NewFileLeases(ForkLock<HashMap<Option<ObjectClass>, Leases>>);

#[derive(Default)]
struct Leases {
    free: Vec<Lease>,
    last_count: usize,
}

impl NewFileLeases {
    /// A lease on a new object for a file of this class; `None` on a local pool whose leases other processes do not
    /// see.
    pub(crate) fn acquire(
        &self,
        container: &Container,
        oids: &Oids,
        class: Option<ObjectClass>,
    ) -> Result<Option<Lease>> {
        let able = container.capabilities();
        if !able.asynchronous && !able.shared_leases {
            return Ok(None);
        }
        let count = {
            let mut all = self.0.lock();
            let leases = all.entry(class).or_default();
            if let Some(lease) = leases.free.pop() {
                return Ok(Some(lease));
            }
            // Double the number each time: most processes create one file.
            leases.last_count = (leases.last_count * 2).clamp(1, NEW_FILE_LEASES_MAX);
            leases.last_count
        };
        if !able.asynchronous {
            let oid = oids.next(container, object_type(Kind::File), class)?;
            return container.object(oid).lease().wait().map(Some);
        }
        // The lock is not held while the request is in progress.
        let mut acquired = lease_new_objects(container, oids, class, count)?;
        let lease = acquired.pop();
        self.0.lock().entry(class).or_default().free.append(&mut acquired);
        Ok(lease)
    }

    /// Returns the lease of a file that was certainly not created, for the next file.
    pub(crate) fn put_back(&self, class: Option<ObjectClass>, lease: Lease) {
        self.0.lock().entry(class).or_default().free.push(lease);
    }
}

/// Generates object ids of new files, and takes a lease on each.
fn lease_new_objects(
    container: &Container,
    oids: &Oids,
    class: Option<ObjectClass>,
    count: usize,
) -> Result<Vec<Lease>> {
    let oid = |_| oids.next(container, object_type(Kind::File), class);
    let oids = (0..count).map(oid).collect::<Result<Vec<_>>>()?;
    container.lease_each(&oids).wait()
}

impl Drop for NewFileLeases {
    /// Releases all leases in one message to each node.
    fn drop(&mut self) {
        let unused = self.0.lock().drain().flat_map(|(_, leases)| leases.free).collect();
        // An error is ignored: leases end with their connection.
        let _ = Lease::release_each(unused).wait();
    }
}
