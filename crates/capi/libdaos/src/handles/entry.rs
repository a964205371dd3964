//! What stands behind a handle.
use super::kind;
use super::pool::{OpenContainer, OpenPool};
use crate::dfs::{Mount, OpenFile};
use crate::dfs_sys::{OpenDir, Sys};
use crate::event::Queue;
use crate::list::Parked;
use crate::oit::Oit;
use esker::{Array, Kv, Object, Transaction};
use std::sync::atomic::{AtomicPtr, Ordering};
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

/// An array, and the others that stood here before its chunk size was changed.
pub(crate) struct OpenArray {
    first: Array,
    /// The mode it was opened with, `DAOS_OO_*`.
    pub(crate) mode: u32,
    pub(crate) parked: Parked,
    latest: AtomicPtr<Array>,
    /// What `latest` points or pointed to.
    later: Mutex<Vec<Pinned>>,
}

/// An array that stays where it is while its owner moves: others point to it.
struct Pinned(*mut Array);

// SAFETY: it is a box by another name.
unsafe impl Send for Pinned where Box<Array>: Send {}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: it was a box, and who points to it goes with its owner.
        drop(unsafe { Box::from_raw(self.0) });
    }
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
        // SAFETY: it is null, or points to what is pinned in `later`, which only grows.
        unsafe { self.latest.load(Ordering::Acquire).as_ref() }.unwrap_or(&self.first)
    }

    /// Goes on with another array; who uses the one before may finish.
    pub(crate) fn change(&self, array: Array) {
        let array = Box::into_raw(Box::new(array));
        let mut later = self.later.lock().unwrap_or_else(PoisonError::into_inner);
        later.push(Pinned(array));
        self.latest.store(array, Ordering::Release);
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
