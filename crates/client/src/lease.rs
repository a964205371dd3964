//! Leases on objects in use.
use crate::container::Container;
use esker_os::executor::Wait;
use esker_types::{ObjectId, Result};

/// Declares that this process uses an object. End it by [`Lease::release`]. Drop it only if no process can have
/// unlinked the object: an object left to the last lease by [`crate::Object::unlink_on_last_close`] would never be
/// removed.
///
/// A lease belongs to the process that took it: in a child made by fork it is void, and ending it has no effect.
/// [`crate::generation`] tells whether a process is such a child; the child takes leases of its own.
#[must_use = "a lease ends when it is dropped"]
pub struct Lease {
    container: Container,
    oid: ObjectId,
    generation: u64,
    ended: bool,
}

impl Lease {
    /// Takes a lease on an object.
    pub(crate) async fn take(container: Container, oid: ObjectId) -> Result<Self> {
        let generation = esker_os::generation();
        container.opened_or_closed().lease(oid).await?;
        Ok(Self { container, oid, generation, ended: false })
    }

    /// Takes a lease on each object with one call, or on none if that fails. They are in the order of `oids`.
    pub(crate) async fn take_each(container: &Container, oids: &[ObjectId]) -> Result<Vec<Self>> {
        let generation = esker_os::generation();
        container.opened_or_closed().lease_each(oids).await?;
        let lease = |oid| Self { container: container.clone(), oid, generation, ended: false };
        Ok(oids.iter().copied().map(lease).collect())
    }

    /// The object.
    #[must_use]
    pub fn oid(&self) -> ObjectId {
        self.oid
    }

    /// True if the lease is valid in this process, false in a child of the process that took it.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.generation == esker_os::generation()
    }

    /// Ends the lease. True if the object is to be removed and this was the last lease: the caller removes the
    /// object. If several leases end at the same time, more than one caller may be told to.
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn release(mut self) -> Result<bool> {
        self.end().await
    }

    /// Ends several leases as [`Lease::release`] does, in as few messages as possible. The answers are in the order of
    /// the leases.
    ///
    /// # Errors
    /// Errors of the backend. The leases have ended then, too.
    pub async fn release_each(mut leases: Vec<Self>) -> Result<Vec<bool>> {
        let mut answers = Vec::with_capacity(leases.len());
        for of_one in leases.chunk_by_mut(|one, next| one.container.shares_handle(&next.container))
        {
            let live: Vec<bool> = of_one.iter_mut().map(Self::is_to_end).collect();
            let oids = of_one.iter().zip(&live).filter(|(_, live)| **live);
            let oids: Vec<ObjectId> = oids.map(|(lease, _)| lease.oid).collect();
            let last = of_one[0].container.opened_or_closed().release_each(&oids).await?;
            let mut last = last.into_iter();
            answers.extend(live.into_iter().map(|live| live && last.next().unwrap_or(false)));
        }
        Ok(answers)
    }

    /// Marks the lease as ended. True if the caller has to release it: it was not ended before, and this process took
    /// it (a forked child did not).
    fn is_to_end(&mut self) -> bool {
        !std::mem::replace(&mut self.ended, true) && self.counts()
    }

    /// Ends the lease. True if this was the last one and the object is to be removed: the caller removes it.
    async fn end(&mut self) -> Result<bool> {
        if !self.is_to_end() {
            return Ok(false);
        }
        self.container.opened_or_closed().release(self.oid).await
    }
}

/// Leases on several objects of a container.
impl Container {
    /// Takes a lease on each of several objects, as [`crate::Object::lease`] does, in as few messages as possible.
    ///
    /// # Errors
    /// [`ErrorKind::NoHandle`] if the container is closed; errors of the backend.
    pub async fn lease_each(&self, oids: &[ObjectId]) -> Result<Vec<Lease>> {
        self.opened()?;
        Lease::take_each(self, oids).await
    }
}

impl Drop for Lease {
    /// Ends the lease. The answer is lost: nobody learns that the object is to be removed.
    fn drop(&mut self) {
        let _ = self.end().wait();
    }
}
