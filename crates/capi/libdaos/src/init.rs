//! Functions of the library itself: initialisation, version, the time of an epoch.
use crate::abi::{Ptr, Timespec};
use crate::boundary::guard;
use crate::code::{self, Code};
use crate::per_process::PerProcess;
use crate::{event, handles, strict};
use esker::types::Epoch;
use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// `daos_init` calls that no `daos_fini` has undone yet.
static USERS: AtomicU32 = AtomicU32::new(0);
/// The process that made the first of these calls.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Whether the library is initialised.
pub(crate) fn is_ready() -> bool {
    USERS.load(Ordering::Relaxed) > 0
}

/// Serialises initialisation and finalisation. A child does not inherit a lock that the parent holds.
static FINALISATION: PerProcess<Finalisation> = PerProcess::new();

/// The work of the last `daos_fini`. The lock is not held meanwhile, because that waits for threads whose callbacks may
/// call `daos_init` and `daos_fini`.
#[derive(Default)]
struct Finalisation {
    /// Whether a thread does the work.
    runs: Mutex<bool>,
    ended: Condvar,
}

impl Finalisation {
    fn runs(&self) -> MutexGuard<'_, bool> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the work, unless it fails with a panic, and then wakes the threads that wait in `daos_init`.
    fn run(&self) -> c_int {
        let code = guard(Code::MISC.0, || {
            shut_down();
            0
        });
        *self.runs() = false;
        self.ended.notify_all();
        code
    }
}

/// Initialises the library. Calls are counted. `BUSY` in the callback of an event for which the last `daos_fini` waits.
#[unsafe(no_mangle)]
pub extern "C" fn daos_init() -> c_int {
    strict::wait_for_agent();
    let finalisation = FINALISATION.get();
    let mut runs = finalisation.runs();
    while *runs {
        if event::is_own_thread() {
            return Code::BUSY.0;
        }
        runs = finalisation.ended.wait(runs).unwrap_or_else(PoisonError::into_inner);
    }
    let before = USERS.fetch_add(1, Ordering::AcqRel);
    if before == 0 {
        PROCESS.store(std::process::id(), Ordering::Release);
    }
    0
}

/// Undoes one `daos_init`. The last call closes everything that is still open.
#[unsafe(no_mangle)]
pub extern "C" fn daos_fini() -> c_int {
    let finalisation = FINALISATION.get();
    let mut runs = finalisation.runs();
    let less = |users: u32| users.checked_sub(1);
    match USERS.fetch_update(Ordering::AcqRel, Ordering::Acquire, less) {
        Err(_) => Code::UNINIT.0,
        Ok(1) => {
            *runs = true;
            drop(runs);
            finalisation.run()
        }
        Ok(_) => 0,
    }
}

/// Closes everything. A child only forgets what it inherited.
fn shut_down() {
    match is_inherited() {
        true => handles::forget_all(),
        false => {
            event::stop();
            event::close_queues();
            handles::close_all();
        }
    }
}

/// Makes the library usable in a child after `fork`. Handles of the parent are not valid in the child.
#[unsafe(no_mangle)]
pub extern "C" fn daos_reinit() -> c_int {
    if !is_ready() {
        return Code::UNINIT.0;
    }
    guard(Code::MISC.0, || {
        if is_inherited() {
            handles::forget_all();
            PROCESS.store(std::process::id(), Ordering::Release);
        }
        code::from_result(Ok(()))
    })
}

/// Whether a parent process initialised the library, and this is its child after a fork.
fn is_inherited() -> bool {
    PROCESS.load(Ordering::Acquire) != std::process::id()
}

/// Converts an epoch to a time since 1970.
#[unsafe(no_mangle)]
pub extern "C" fn daos_hlc2timespec(hlc: u64, ts: Ptr<Timespec>) -> c_int {
    if ts.is_null() {
        return Code::INVAL.0;
    }
    let time = Epoch(hlc).unix_time();
    ts.set(Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() });
    0
}

/// Converts an epoch to seconds since 1970.
#[unsafe(no_mangle)]
pub extern "C" fn daos_hlc2timestamp(hlc: u64, ts: Ptr<libc::time_t>) -> c_int {
    if ts.is_null() {
        return Code::INVAL.0;
    }
    ts.set(Epoch(hlc).unix_time().as_secs().cast_signed());
    0
}

/// Version of the C interface, that of DAOS 2.8.
pub(crate) const VERSION: [u8; 3] = [2, 8, 0];

/// Returns the version of the C interface.
#[unsafe(no_mangle)]
pub extern "C" fn daos_version_get(major: Ptr<c_int>, minor: Ptr<c_int>, fix: Ptr<c_int>) -> c_int {
    let outputs = [major, minor, fix];
    if outputs.iter().any(|output| output.is_null()) {
        return Code::INVAL.0;
    }
    outputs.iter().zip(VERSION).for_each(|(output, number)| output.set(number.into()));
    0
}

/// Returns the version of Esker. No other libdaos exports this function, so a program can detect Esker.
#[unsafe(no_mangle)]
pub extern "C" fn esker_libdaos_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Whether metrics are collected: never. DAOS tools read this variable.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static daos_client_metric: bool = false;

/// Whether metrics outlive their process: never.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static daos_client_metric_retain: bool = false;
