//! A backend that declares other capabilities than it has, for code that depends on them.
use crate::between::{Interceptor, PoolBetween};
use esker::Pool;
use esker::types::info::OpenMode;
use esker_backend::Capabilities;
use esker_backend::memory::Memory;
use std::sync::Arc;

/// The change of the capabilities.
struct Declaring(fn(Capabilities) -> Capabilities);

impl Interceptor for Declaring {
    fn capabilities(&self, of: Capabilities) -> Capabilities {
        self.0(of)
    }
}

/// The reference backend, which declares its capabilities with a change.
#[must_use]
pub fn memory(change: fn(Capabilities) -> Capabilities) -> Pool {
    let pool = PoolBetween::before(Arc::new(Memory::new(2)), &Arc::new(Declaring(change)));
    Pool::from_backend(Arc::new(pool), OpenMode::ReadWrite)
}
