//! State of a thread: whether it is inside this library, and its errno.
use crate::answer::{Answer, Fail};
use crate::fork;
use std::cell::Cell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// True while this thread is inside the store: its calls then go to the C library.
#[inline]
pub(crate) fn is_inside() -> bool {
    DEPTH.with(|depth| depth.get() != 0)
}

/// Runs work of the store. No panic unwinds out of it, errno is preserved, and the thread cannot be cancelled meanwhile,
/// because that would unwind too.
pub(crate) fn inside<T>(work: impl FnOnce() -> Answer<T>) -> Answer<T> {
    let before = errno();
    let cancel = set_cancel_state(PTHREAD_CANCEL_DISABLE);
    let is_first = !is_inside();
    if is_first {
        fork::enter();
    }
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Fail::Errno(libc::EIO)));
    DEPTH.with(|depth| depth.set(depth.get() - 1));
    if is_first {
        fork::leave();
    }
    set_cancel_state(cancel);
    set_errno(before);
    result
}

/// Sets the calling thread's errno.
pub(crate) fn set_errno(value: c_int) {
    // SAFETY: the C library gives each thread a place of its own.
    unsafe { *libc::__errno_location() = value };
}

/// The calling thread's errno.
pub(crate) fn errno() -> c_int {
    // SAFETY: as in `set_errno`.
    unsafe { *libc::__errno_location() }
}

const PTHREAD_CANCEL_DISABLE: c_int = 1;

fn set_cancel_state(state: c_int) -> c_int {
    let mut before = 0;
    // SAFETY: touches nothing but the calling thread's state and `before`.
    unsafe { pthread_setcancelstate(state, &raw mut before) };
    before
}

// SAFETY: as the C library declares it.
unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}
