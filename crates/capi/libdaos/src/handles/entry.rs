//! What stands behind a handle.
use super::kind;
use crate::event::Queue;
use crate::list::Parked;
use crate::oit::Oit;
use esker::{Array, Container, Kv, Object, Pool, Transaction};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Something open.
pub(crate) enum Entry {
    Pool(OpenPool),
    Container(OpenContainer),
    Object(Opened<Object>),
    Array(Opened<Array>),
    Kv(Opened<Kv>),
    Tx(Transaction),
    Queue(Arc<Queue>),
    Oit(Oit),
}

impl Entry {
    pub(crate) fn kind(&self) -> u64 {
        match self {
            Self::Pool(_) => kind::POOL,
            Self::Container(_) => kind::CONTAINER,
            Self::Object(_) => kind::OBJECT,
            Self::Array(_) => kind::ARRAY,
            Self::Kv(_) => kind::KV,
            Self::Tx(_) => kind::TX,
            Self::Queue(_) => kind::QUEUE,
            Self::Oit(_) => kind::OIT,
        }
    }

    /// The object it is.
    pub(crate) fn object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(&object.it),
            Self::Kv(kv) => Some(kv.it.object()),
            Self::Array(array) => Some(array.it.object()),
            _ => None,
        }
    }

    /// Where positions of listings are kept that no anchor has room for.
    pub(crate) fn parked(&self) -> Option<&Parked> {
        match self {
            Self::Object(object) => Some(&object.parked),
            Self::Array(array) => Some(&array.parked),
            Self::Kv(kv) => Some(&kv.parked),
            _ => None,
        }
    }
}

/// A pool, and how many containers were opened through it.
pub(crate) struct OpenPool {
    pub(crate) pool: Pool,
    uses: Arc<AtomicU32>,
}

impl OpenPool {
    pub(crate) fn new(pool: Pool) -> Self {
        Self { pool, uses: Arc::default() }
    }

    pub(crate) fn is_used(&self) -> bool {
        self.uses.load(Ordering::Acquire) > 0
    }

    /// A container opened through this pool.
    pub(crate) fn with(&self, container: Container) -> OpenContainer {
        self.uses.fetch_add(1, Ordering::AcqRel);
        OpenContainer { container, pool: self.pool.clone(), uses: Arc::clone(&self.uses) }
    }
}

/// A container, and the pool it was opened through.
pub(crate) struct OpenContainer {
    pub(crate) container: Container,
    pub(crate) pool: Pool,
    uses: Arc<AtomicU32>,
}

impl Drop for OpenContainer {
    fn drop(&mut self) {
        self.uses.fetch_sub(1, Ordering::AcqRel);
    }
}

/// An object, array or Key-Value, and where its listings stand.
pub(crate) struct Opened<T> {
    pub(crate) it: T,
    pub(crate) parked: Parked,
}

impl<T> Opened<T> {
    pub(crate) fn new(it: T) -> Self {
        Self { it, parked: Parked::default() }
    }
}
