//! Numbers for object ids. A process allocates them in blocks.
use crate::binding::Container;
use esker_backend::block::{Block, end_of_claim};
use esker_os::ForkLock;
use esker_types::{Error, ErrorKind, Result};

/// Most numbers at a time: DAOS has 64 bits for all of them.
const COUNT_MAX: u64 = 1 << 48;

/// The numbers of a container.
#[derive(Default)]
pub(super) struct Numbers(ForkLock<Block>);

impl Numbers {
    /// Reserves `count` consecutive object numbers for this process and returns the first. They are taken from a range
    /// that was claimed from DAOS, which costs a call only when the range is used up.
    pub(super) async fn allocate(&self, container: &Container, count: u64) -> Result<u64> {
        if let Some(first) = self.0.lock().take(count) {
            return Ok(first);
        }
        let wanted = end_of_claim(0, count).filter(|_| count <= COUNT_MAX).ok_or_else(|| {
            let message = format!("{count} object numbers at a time: the limit is {COUNT_MAX}");
            Error::new(ErrorKind::Overflow, message)
        })?;
        let first = container.allocate(wanted).await?;
        let end = first.checked_add(wanted).ok_or_else(|| {
            Error::new(ErrorKind::Overflow, "the container has no object numbers left: copy it")
        })?;
        *self.0.lock() = Block::claimed(first, end, count);
        Ok(first)
    }

    /// Returns the number after all that clients have claimed. DAOS may report an older one, which does not include the
    /// block of this process.
    pub(super) async fn next(&self, container: &Container) -> Result<u64> {
        let allocated = container.query().await?.allocated;
        Ok(allocated.max(self.0.lock().end().unwrap_or(0)))
    }
}
