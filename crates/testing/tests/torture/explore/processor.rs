//! The processor on which a tracer and its writer take turns.
use std::sync::atomic::{AtomicUsize, Ordering};

/// Keeps this thread, and the processes that it starts from now on, on one processor, a different one at each call. A
/// wake-up on another processor takes several times as long.
pub(super) fn stay_on_one() {
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = TURN.fetch_add(1, Ordering::Relaxed) % count;
    // SAFETY: a set of processors is plain bits, for which zeros are valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let size = size_of_val(&set);
    // SAFETY: `set` is a valid local variable of that size.
    unsafe { libc::sched_getaffinity(0, size, &raw mut set) };
    // SAFETY: the numbers are below those for which the set has room.
    let is_allowed = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
    let Some(cpu) = (0..libc::CPU_SETSIZE as usize).filter(is_allowed).nth(wanted) else { return };
    // SAFETY: as above.
    unsafe { libc::CPU_ZERO(&mut set) };
    // SAFETY: as above.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: `set` is a valid local variable of that size. If it is refused, the test takes longer.
    unsafe { libc::sched_setaffinity(0, size, &raw const set) };
}
