//! Leases: objects in use.
use crate::container::Container;
use esker_os::executor::Wait;
use esker_types::{ObjectId, Result};

/// Declares that this process uses an object. Ended by [`Lease::release`], or dropped where nobody can have asked for
/// the removal of the object: what [`crate::Object::unlink_on_last_close`] left to the last lease would stay for ever.
///
/// It belongs to the process that took it: in a child made by fork it means nothing, and its end does nothing.
/// [`crate::generation`] tells that a process is such a child; the child takes leases of its own.
#[must_use = "a lease ends when it is dropped"]
pub struct Lease {
    container: Container,
    oid: ObjectId,
    generation: u64,
    ended: bool,
}

impl Lease {
    pub(crate) async fn take(container: Container, oid: ObjectId) -> Result<Self> {
        let generation = esker_os::generation();
        container.opened_or_closed().lease(oid).await?;
        Ok(Self { container, oid, generation, ended: false })
    }

    /// The object.
    #[must_use]
    pub fn oid(&self) -> ObjectId {
        self.oid
    }

    /// True where it counts in this process, false in a child of the process that took it.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.generation == esker_os::generation()
    }

    /// Ends the lease. True where the object is to be removed and nobody has a lease any more: the caller removes it.
    /// Of several who end theirs at the same time more than one may be told.
    ///
    /// # Errors
    /// What the backend meets.
    pub async fn release(mut self) -> Result<bool> {
        self.end().await
    }

    async fn end(&mut self) -> Result<bool> {
        if std::mem::replace(&mut self.ended, true) || !self.counts() {
            return Ok(false);
        }
        self.container.opened_or_closed().release(self.oid).await
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = self.end().wait();
    }
}
