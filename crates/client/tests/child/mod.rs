//! Forked children of a test.
#![allow(unsafe_code)]
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Forks a child that does `work`, and that a signal ends if it takes longer than `seconds`. Fails if the child does.
pub(crate) fn in_a_child(seconds: u32, work: impl FnOnce()) {
    // SAFETY: the child calls into this program only, and leaves by _exit.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "cannot fork");
    if child == 0 {
        // SAFETY: sets a timer that ends a hanging child.
        unsafe { libc::alarm(seconds) };
        let worked = catch_unwind(AssertUnwindSafe(work));
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(i32::from(worked.is_err())) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above; `status` is a valid local variable.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child failed, or hung for {seconds} seconds");
}
