//! What stands behind a handle.
use super::kind;
use crate::code::Result;
use crate::dfs::{Mount, OpenFile};
use crate::dfs_sys::{OpenDir, Sys};
use crate::event::Queue;
use crate::list::Parked;
use crate::oit::Oit;
use esker::{Array, Container, Kv, Object, Pool, Transaction, Wait};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Something open.
pub(crate) enum Entry {
    Pool(OpenPool),
    Container(OpenContainer),
    Object(Opened<Object>),
    Array(OpenArray),
    Kv(Opened<Kv>),
    Tx(Transaction),
    Queue(Arc<Queue>),
    Oit(Oit),
    Mount(Mount),
    File(OpenFile),
    Sys(Sys),
    Dir(OpenDir),
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
            Self::Mount(_) => kind::MOUNT,
            Self::File(_) => kind::FILE,
            Self::Sys(_) => kind::SYS,
            Self::Dir(_) => kind::DIR,
        }
    }

    /// The object it is.
    pub(crate) fn object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(&object.it),
            Self::Kv(kv) => Some(kv.it.object()),
            Self::Array(array) => Some(array.array().object()),
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

/// A pool, the name it was opened by, and how many containers were opened through it.
pub(crate) struct OpenPool {
    pub(crate) pool: Pool,
    name: Box<str>,
    uses: Arc<AtomicU32>,
}

impl OpenPool {
    pub(crate) fn new(pool: Pool, name: &str) -> Self {
        Self { pool, name: name.into(), uses: Arc::default() }
    }

    /// What other processes open it by: names mean the same to all only where they are URLs.
    pub(crate) fn url(&self) -> Result<String> {
        match self.name.contains(':') {
            true => Ok(self.name.to_string()),
            false => Ok(self.pool.info().wait()?.url),
        }
    }

    pub(crate) fn is_used(&self) -> bool {
        self.uses.load(Ordering::Acquire) > 0
    }

    /// A container opened through this pool.
    pub(crate) fn with(&self, container: Container) -> OpenContainer {
        self.uses.fetch_add(1, Ordering::AcqRel);
        OpenContainer { container, uses: Arc::clone(&self.uses) }
    }
}

/// A container, which counts as a use of the pool it was opened through.
pub(crate) struct OpenContainer {
    pub(crate) container: Container,
    uses: Arc<AtomicU32>,
}

impl Drop for OpenContainer {
    fn drop(&mut self) {
        self.uses.fetch_sub(1, Ordering::AcqRel);
    }
}

/// An array, and the others that stood here before its chunk size was changed.
pub(crate) struct OpenArray {
    first: Array,
    /// The mode it was opened with, `DAOS_OO_*`.
    pub(crate) mode: u32,
    pub(crate) parked: Parked,
    latest: AtomicPtr<Array>,
    /// Boxed, because `latest` points into it while it grows.
    #[allow(clippy::vec_box)]
    later: Mutex<Vec<Box<Array>>>,
}

impl OpenArray {
    pub(crate) fn new(array: Array, mode: u32) -> Self {
        Self {
            first: array,
            mode,
            parked: Parked::default(),
            latest: AtomicPtr::new(std::ptr::null_mut()),
            later: Mutex::default(),
        }
    }

    pub(crate) fn array(&self) -> &Array {
        // SAFETY: it is null, or points into a box of `later`, which only grows.
        unsafe { self.latest.load(Ordering::Acquire).as_ref() }.unwrap_or(&self.first)
    }

    /// Goes on with another array; who uses the one before may finish.
    pub(crate) fn change(&self, array: Array) {
        let mut array = Box::new(array);
        self.latest.store(&raw mut *array, Ordering::Release);
        self.later.lock().unwrap_or_else(PoisonError::into_inner).push(array);
    }
}

/// An object or Key-Value, and where its listings stand.
pub(crate) struct Opened<T> {
    pub(crate) it: T,
    pub(crate) parked: Parked,
}

impl<T> Opened<T> {
    pub(crate) fn new(it: T) -> Self {
        Self { it, parked: Parked::default() }
    }
}
