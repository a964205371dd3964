//! One thread at a time, and none while the process forks: a child must not find ecCodes in the middle of the
//! call of a thread that it does not have.
use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// Held during each call.
static CALLS: Mutex<()> = Mutex::new(());

thread_local! {
    /// The turn of a thread that forks, from before the fork until after it, in parent and child.
    static FORKING: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// Waits until no other thread calls, and keeps them waiting.
pub(crate) fn take() -> MutexGuard<'static, ()> {
    static FORKS: Once = Once::new();
    FORKS.call_once(|| {
        // SAFETY: the three functions live as long as the process and take nothing. Where there is no memory
        // for them, forks are as dangerous as they are without.
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
