//! Holds: objects in use.
use crate::container::Container;
use esker_os::executor::Wait;
use esker_types::{ObjectId, Result};

/// Says that this process uses an object. Ended by [`Hold::release`], or dropped where nobody can have doomed
/// the object: what [`crate::Object::doom`] left to the last holder would stay for ever.
///
/// It is of the process that took it: in a child made by fork it means nothing and its end does nothing.
/// [`crate::generation`] tells that a process is such a child; it takes holds of its own.
#[must_use = "a hold ends when it is dropped"]
pub struct Hold {
    container: Container,
    oid: ObjectId,
    generation: u64,
    ended: bool,
}

impl Hold {
    pub(crate) async fn take(container: Container, oid: ObjectId) -> Result<Self> {
        let generation = esker_os::generation();
        container.backend_anyhow().hold(container.id(), oid).await?;
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

    /// Lets go of the object. True where it was doomed and nobody holds it any more: the caller removes it.
    /// Of several who let go at one time more than one may be told.
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
        self.container.backend_anyhow().release(self.container.id(), self.oid).await
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let _ = self.end().wait();
    }
}
