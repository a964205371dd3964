//! Keeps the signals of the program away from the threads that Esker starts in it.
#![allow(unsafe_code)]

/// Runs `work` with all signals blocked. A thread that it starts has them blocked from its beginning: a program's
/// handler runs on the program's own threads.
pub fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    if cfg!(miri) {
        return work();
    }
    // SAFETY: a signal set of zeros is a valid value to write over.
    let (mut all, mut before) = unsafe { std::mem::zeroed::<(libc::sigset_t, libc::sigset_t)>() };
    // SAFETY: both sets are of this function.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
    }
    let result = work();
    // SAFETY: the set is the one of before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    result
}
