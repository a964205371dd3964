//! Memory budget of an engine: a request takes its share before its bytes are received, and keeps it until the reply is
//! sent.
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of one permit.
const UNIT: u64 = 1024;

/// Memory for requests and replies.
#[derive(Clone)]
pub(crate) struct Memory {
    units: Arc<Semaphore>,
    /// Permits of the whole budget.
    total: u32,
}

/// A share of the memory, returned when dropped. `None` if the engine ends.
pub(crate) type Share = Option<OwnedSemaphorePermit>;

impl Memory {
    /// A budget of `bytes` bytes for the buffers of requests. It is at most the number of permits that a semaphore can
    /// have, which is small on machines of 32 bits.
    pub(crate) fn new(bytes: u64) -> Self {
        let total = u32::try_from(bytes / UNIT).unwrap_or(u32::MAX >> 4);
        Self { units: Arc::new(Semaphore::new(total as usize)), total }
    }

    /// Bytes of the budget that requests hold now.
    pub(crate) fn in_use(&self) -> u64 {
        u64::from(self.total).saturating_sub(self.units.available_permits() as u64) * UNIT
    }

    /// Waits until `bytes` bytes of the budget are free, and takes them until the share is dropped. A request for more
    /// than the budget takes all of it.
    pub(crate) async fn take(&self, bytes: u64) -> Share {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.total);
        Arc::clone(&self.units).acquire_many_owned(units).await.ok()
    }
}
