//! Operating-system services for Esker: fork detection, plain files, atomic creation and removal of directories, free
//! space, randomness. This crate knows nothing about objects or pools.
#![deny(unsafe_code)]

mod descriptors;
pub mod directory;
pub mod executor;
mod files;
mod fork;
mod later;
mod links;
mod memory;
mod processors;
mod signals;
mod sockets;
mod spin;
mod threads;
mod wake_up;
pub mod whole;

pub use descriptors::{ChildClosed, ClosedInChildren, close, close_directly, keep_from_programs};
pub use files::{
    allocate_in_parts, check_may_change, copy_sparse, is_read_only, look_up_again, names_in,
    open_plain, reserve, space_of, sync_file_system, touch,
};
pub use fork::{ForkGuard, ForkLock, PerProcess, generation, on_child, undisturbed};
pub use later::{LATER, later};
pub use links::resolve_links;
pub use memory::{HUGE_PAGE, keep_freed, lacks_huge_pages, want_huge_pages};
pub use processors::{Processors, stay_on_processor};
pub use signals::without_signals;
pub use sockets::detect_lost_peer;
pub use threads::{no_thread_error, run_on_threads, start_thread, start_with_threads};

use esker_types::{Error, ErrorKind, Result, Uuid};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use rustix::time::{ClockId, clock_gettime};

/// Microseconds since the machine started. Includes the time while it was suspended, because leases on other nodes end
/// then.
#[must_use]
pub fn uptime() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

/// True if a process of this PID namespace has this number. That includes processes of other users, which `/proc` may
/// hide.
#[must_use]
pub fn process_exists(number: u32) -> bool {
    let process = i32::try_from(number).ok().and_then(Pid::from_raw);
    process.is_some_and(|process| test_kill_process(process) != Err(Errno::SRCH))
}

/// Random bytes from the kernel.
///
/// # Errors
/// [`ErrorKind::Io`] if the kernel provides none.
pub fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(error) => Err(Error::new(ErrorKind::Io, format!("reading random bytes: {error}"))),
    }
}

/// A random UUID (RFC 9562, version 4).
///
/// # Errors
/// The errors of [`random_bytes`].
pub fn random_uuid() -> Result<Uuid> {
    random_bytes().map(Uuid::from_random)
}
