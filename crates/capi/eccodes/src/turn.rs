//! The lock around calls: one thread at a time, and none while the process forks, so that a child does not inherit
//! ecCodes in the middle of a call.
use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// Locked during each call.
static CALLS: Mutex<()> = Mutex::new(());

thread_local! {
    /// The lock of a thread that forks, from before the fork until after it, in parent and child.
    static FORKING: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// Takes the lock.
pub(crate) fn take() -> MutexGuard<'static, ()> {
    static FORKS: Once = Once::new();
    FORKS.call_once(|| {
        // SAFETY: the three functions live as long as the process and have no arguments. If this fails, forks are
        // unprotected.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork)) };
    });
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

extern "C" fn before_fork() {
    let turn = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = FORKING.try_with(|forking| forking.try_borrow_mut().map(|mut held| *held = Some(turn)));
}

extern "C" fn after_fork() {
    let _ = FORKING.try_with(|forking| forking.try_borrow_mut().map(|mut held| *held = None));
}
