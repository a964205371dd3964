//! Forks: no thread may use the store while the process forks.
use crate::thread;
use crate::{locks, report};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static GENERATION: AtomicU64 = AtomicU64::new(1);
static WATCH: Once = Once::new();
/// A fork is in progress, or waits for threads inside the store.
static FORKING: AtomicBool = AtomicBool::new(false);
/// Threads inside the store.
static INSIDE: AtomicU64 = AtomicU64::new(0);

/// A number that differs between a process and each of its forked children.
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// Installs the handlers: from now on forks wait for threads inside the store.
pub(crate) fn watch() {
    WATCH.call_once(|| {
        // SAFETY: the handlers may run at any fork: they touch atomics and make system calls.
        unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) };
    });
}

/// A thread enters the store.
#[inline]
pub(crate) fn enter() {
    loop {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        if !FORKING.load(Ordering::SeqCst) {
            return;
        }
        INSIDE.fetch_sub(1, Ordering::SeqCst);
        std::thread::yield_now();
    }
}

/// A thread leaves the store.
#[inline]
pub(crate) fn leave() {
    INSIDE.fetch_sub(1, Ordering::SeqCst);
}

extern "C" fn prepare() {
    locks::share();
    while FORKING.swap(true, Ordering::SeqCst) {
        std::thread::yield_now();
    }
    let own = u64::from(thread::is_inside());
    while INSIDE.load(Ordering::SeqCst) > own {
        std::thread::yield_now();
    }
}

extern "C" fn in_parent() {
    FORKING.store(false, Ordering::SeqCst);
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::SeqCst);
    INSIDE.store(u64::from(thread::is_inside()), Ordering::SeqCst);
    report::forget();
    FORKING.store(false, Ordering::SeqCst);
}
