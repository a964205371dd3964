//! FFI boundary of the functions of DAOS: no panic unwinds into C, calls before `daos_init` fail, and each error
//! becomes a code.
use crate::abi::{Event, Ptr};
use crate::code::{self, Code, Result};
use crate::{event, init};
use esker::block_on;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs work, and returns `failed` if it panics.
pub(crate) fn guard<T>(failed: T, work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(failed)
}

/// Runs work that needs no initialised library, and returns its code.
pub(crate) fn always(work: impl FnOnce() -> Result<()>) -> c_int {
    guard(Code::MISC.0, || code::from_result(work()))
}

/// Runs work on the calling thread, waits for its end, and returns its code. `UNINIT` before `daos_init`.
pub(crate) fn now(work: impl FnOnce() -> Result<()>) -> c_int {
    match init::is_ready() {
        true => guard(Code::MISC.0, || code::from_result(work())),
        false => Code::UNINIT.0,
    }
}

/// Runs an operation. `prepare` looks up handles on the calling thread and returns the operation. Without an event,
/// this thread waits for the operation. With an event, worker threads poll it, and it occupies none of them while it
/// waits. Blocking work in an operation must run in [`event::blocking`].
pub(crate) fn drive<F>(ev: Ptr<Event>, prepare: impl FnOnce() -> Result<F>) -> c_int
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    match ev.is_null() {
        true => now(|| block_on(prepare()?)),
        false => now(|| event::launch(ev, || guard(Err(Code::MISC), prepare))),
    }
}

/// Runs work that never waits. It ends before the call returns, even with an event, which then has completed.
pub(crate) fn complete_now(ev: Ptr<Event>, work: impl FnOnce() -> Result<()>) -> c_int {
    match ev.is_null() {
        true => now(work),
        false => now(|| event::completed(ev, || guard(Err(Code::MISC), work))),
    }
}

/// Completes a call of a function that is not implemented: with `NOSYS`.
pub(crate) fn not_offered(ev: Ptr<Event>) -> c_int {
    complete_now(ev, || Err(Code::NOSYS))
}
