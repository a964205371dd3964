//! Schedulers.
use super::memory::{Held, Sched, SchedDone, SchedInner, lock, make_sched, unmake_sched};
use super::run::{self, TaskRun};
use crate::abi::{Bytes, Ptr};
use crate::boundary::guard;
use crate::code::{self, Code, Result};
use std::ffi::c_int;
use std::time::Instant;

/// Runs a call on tasks or schedulers, and returns its code. Such calls work before `daos_init`, too.
pub(super) fn pure(work: impl FnOnce() -> Result<()>) -> c_int {
    guard(Code::MISC.0, || code::from_result(work()))
}

/// Initializes a scheduler in memory of the caller. `done` is called on its completion with `udata`.
#[unsafe(no_mangle)]
pub extern "C" fn tse_sched_init(
    sched: Ptr<Sched>,
    done: Option<SchedDone>,
    udata: Bytes,
) -> c_int {
    pure(|| {
        let done = done.map(|done| (done, udata)).into_iter().collect();
        let inner = SchedInner { references: 1, done, ..SchedInner::default() };
        make_sched(sched, inner, udata)
    })
}

/// Frees the private data of a scheduler.
#[unsafe(no_mangle)]
pub extern "C" fn tse_sched_fini(sched: Ptr<Sched>) {
    guard((), || {
        let _held = lock();
        unmake_sched(sched);
    });
}

/// Takes a reference.
#[unsafe(no_mangle)]
pub extern "C" fn tse_sched_addref(sched: Ptr<Sched>) {
    guard((), || {
        if let Ok(inner) = lock().sched(sched) {
            inner.references += 1;
        }
    });
}

/// Drops a reference; the last one frees the scheduler.
#[unsafe(no_mangle)]
pub extern "C" fn tse_sched_decref(sched: Ptr<Sched>) {
    guard((), || drop_reference(sched));
}

/// Drops a reference to the scheduler, and frees it if that was the last.
fn drop_reference(sched: Ptr<Sched>) {
    let mut held = lock();
    let Ok(inner) = held.sched(sched) else { return };
    inner.references = inner.references.saturating_sub(1);
    if inner.references == 0 {
        unmake_sched(sched);
    }
}

/// Registers a callback for the completion of the scheduler.
#[unsafe(no_mangle)]
pub extern "C" fn tse_sched_register_comp_cb(
    sched: Ptr<Sched>,
    done: Option<SchedDone>,
    arg: Bytes,
) -> c_int {
    pure(|| {
        let done = done.ok_or(Code::INVAL)?;
        lock().sched(sched)?.done.push((done, arg));
        Ok(())
    })
}

/// Completes a scheduler. First cancels its tasks, or runs all of them if `cancel` is false. Then calls the callbacks,
/// and drops a reference as [`tse_sched_decref`] does.
#[unsafe(no_mangle)]
pub extern "C" fn tse_sched_complete(sched: Ptr<Sched>, code: c_int, cancel: bool) {
    guard((), || {
        if begin_ending(sched, cancel).is_err() {
            return;
        }
        sched.note(code);
        match cancel {
            true => run::cancel(sched),
            false => drop(progress(sched, None)),
        }
        let done = lock().sched(sched).map(|inner| std::mem::take(&mut inner.done));
        for (done, arg) in done.unwrap_or_default().into_iter().rev() {
            // SAFETY: the caller registered the function to be called so.
            sched.note(unsafe { done(arg, sched.cast::<c_int>().get().unwrap_or(0)) });
        }
        drop_reference(sched);
    });
}

/// Marks a scheduler as being completed. Fails if another caller has done so.
fn begin_ending(sched: Ptr<Sched>, cancel: bool) -> Result<()> {
    let mut held = lock();
    let inner = held.sched(sched)?;
    inner.cancelled = cancel;
    match std::mem::replace(&mut inner.ending, true) {
        true => Err(Code::ALREADY),
        false => Ok(()),
    }
}

/// Runs the tasks that are ready.
#[unsafe(no_mangle)]
pub extern "C" fn tse_sched_progress(sched: Ptr<Sched>) {
    guard((), || {
        let next = || next(&mut lock(), sched);
        std::iter::from_fn(next).for_each(TaskRun::run);
    });
}

/// True if no task is left.
#[unsafe(no_mangle)]
pub extern "C" fn tse_sched_check_complete(sched: Ptr<Sched>) -> bool {
    guard(true, || lock().sched(sched).map_or(true, |inner| inner.tasks.is_empty()))
}

/// Begins the first ready task whose earliest time has passed.
fn next(held: &mut Held, sched: Ptr<Sched>) -> Option<TaskRun> {
    let ready = &mut held.sched(sched).ok()?.ready;
    let now = Instant::now();
    let due = |(not_before, _): &(Option<Instant>, _)| not_before.is_none_or(|then| then <= now);
    let index = ready.iter().position(due)?;
    let (_, task) = ready.remove(index)?;
    run::begin(held, task)
}

/// Runs tasks until none is left or time runs out; true if none is left.
pub(super) fn progress(sched: Ptr<Sched>, until: Option<Instant>) -> bool {
    loop {
        tse_sched_progress(sched);
        let mut held = lock();
        let Ok(inner) = held.sched(sched) else { return true };
        if inner.tasks.is_empty() {
            return true;
        }
        if until.is_some_and(|until| until <= Instant::now()) {
            return false;
        }
        // A task without an earliest time has become ready meanwhile: run it.
        let due = inner.ready.iter().map(|(not_before, _)| *not_before).min();
        if let Some(None) = due {
            continue;
        }
        drop(held.wait([until, due.flatten()].into_iter().flatten().min()));
    }
}
