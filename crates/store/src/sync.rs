//! What threads and processes share memory by: the standard library's, or loom's where a model runs the code in
//! every order in which they may get at it. A model makes words of its own: those of a control file are no loom's.
#[cfg(all(loom, test))]
pub(crate) use loom::{
    sync::atomic::{AtomicU64, AtomicUsize, fence},
    sync::{Condvar, Mutex, MutexGuard},
    thread::yield_now,
};
#[cfg(not(all(loom, test)))]
pub(crate) use std::{
    sync::atomic::{AtomicU64, AtomicUsize, fence},
    sync::{Condvar, Mutex, MutexGuard},
    thread::yield_now,
};
