//! Starting and ending the use of the library in a process.
use crate::code::{self, Code};
use crate::edge::guard;
use crate::per_process::PerProcess;
use crate::{event, handles};
use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// `daos_init` calls without their `daos_fini`.
static USERS: AtomicU32 = AtomicU32::new(0);
/// The process of the first of them.
static PROCESS: AtomicU32 = AtomicU32::new(0);

pub(crate) fn is_ready() -> bool {
    USERS.load(Ordering::Relaxed) > 0
}

/// One starts or ends the library at a time; in a child nobody of the parent's does.
static TURN: PerProcess<Mutex<()>> = PerProcess::new();

/// Starts using the library. Calls are counted.
#[unsafe(no_mangle)]
pub extern "C" fn daos_init() -> c_int {
    let turn = TURN.get();
    let _turn = turn.lock();
    let before = USERS.fetch_add(1, Ordering::AcqRel);
    if before == 0 {
        PROCESS.store(std::process::id(), Ordering::Release);
    }
    0
}

/// Undoes one `daos_init`; the last closes what is left.
#[unsafe(no_mangle)]
pub extern "C" fn daos_fini() -> c_int {
    let turn = TURN.get();
    let _turn = turn.lock();
    let less = |users: u32| users.checked_sub(1);
    match USERS.fetch_update(Ordering::AcqRel, Ordering::Acquire, less) {
        Err(_) => Code::UNINIT.0,
        Ok(1) => guard(Code::MISC.0, || {
            end();
            0
        }),
        Ok(_) => 0,
    }
}

/// A child does not end what it only inherited.
fn end() {
    match is_inherited() {
        true => handles::forget_all(),
        false => {
            event::stop();
            handles::close_all();
        }
    }
}

/// Makes the library usable in a child after `fork`; handles of the parent are not.
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
        code::of(Ok(()))
    })
}

fn is_inherited() -> bool {
    PROCESS.load(Ordering::Acquire) != std::process::id()
}
