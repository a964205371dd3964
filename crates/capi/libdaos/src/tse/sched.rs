//! Schedulers.
use super::memory::{Held, Sched, SchedDone, SchedInner, Task, lock, make_sched, unmake_sched};
use super::run;
use crate::abi::{Bytes, Ptr};
use crate::code::{self, Code, Result};
use crate::edge::guard;
use std::collections::VecDeque;
use std::ffi::c_int;
use std::time::{Duration, Instant};

/// Functions of tasks and schedulers need no initialised library.
pub(super) fn pure(work: impl FnOnce() -> Result<()>) -> c_int {
    guard(Code::MISC.0, || code::of(work()))
}

/// Makes a scheduler.
#[unsafe(no_mangle)]
pub extern "C" fn tse_sched_init(
    sched: Ptr<Sched>,
    done: Option<SchedDone>,
    udata: Bytes,
) -> c_int {
    pure(|| {
        let done = done.map(|done| (done, udata)).into_iter().collect();
        let ready = VecDeque::new();
        let inner = SchedInner { references: 1, ready, in_flight: 0, cancelled: false, done };
        make_sched(sched, inner, udata)
    })
}

/// Lets go of a scheduler.
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

/// Gives up a reference.
#[unsafe(no_mangle)]
pub extern "C" fn tse_sched_decref(sched: Ptr<Sched>) {
    guard((), || {
        let mut held = lock();
        let Ok(inner) = held.sched(sched) else { return };
        inner.references = inner.references.saturating_sub(1);
        if inner.references == 0 {
            unmake_sched(sched);
        }
    });
}

/// Has a function called when the scheduler is complete.
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

/// Ends a scheduler: drops its tasks, or runs them first.
#[unsafe(no_mangle)]
pub extern "C" fn tse_sched_complete(sched: Ptr<Sched>, code: c_int, cancel: bool) {
    guard((), || {
        if let Ok(inner) = lock().sched(sched) {
            inner.cancelled = cancel;
        }
        progress(sched, None);
        let done = lock().sched(sched).map(|inner| std::mem::take(&mut inner.done));
        let result = sched.cast::<c_int>();
        if result.get() == Ok(0) {
            result.set(code);
        }
        for (done, arg) in done.unwrap_or_default() {
            // SAFETY: the caller registered the function to be called so.
            unsafe { done(arg, result.get().unwrap_or(0)) };
        }
    });
}

/// Runs the tasks that can be run now.
#[unsafe(no_mangle)]
pub extern "C" fn tse_sched_progress(sched: Ptr<Sched>) {
    guard((), || {
        loop {
            let Some(task) = next(&mut lock(), sched) else { return };
            run::run(task);
        }
    });
}

/// Whether no task is left.
#[unsafe(no_mangle)]
pub extern "C" fn tse_sched_check_complete(sched: Ptr<Sched>) -> bool {
    guard(true, || lock().sched(sched).map_or(true, |inner| inner.in_flight == 0))
}

/// The first task whose time has come.
fn next(held: &mut Held, sched: Ptr<Sched>) -> Option<Ptr<Task>> {
    let ready = held.sched(sched).ok()?.ready.clone();
    let now = Instant::now();
    let due = |task: &Ptr<Task>| {
        held.task(*task).is_ok_and(|inner| inner.not_before.is_none_or(|then| then <= now))
    };
    let index = ready.iter().position(due)?;
    held.sched(sched).ok()?.ready.remove(index)
}

/// How long to sleep at most: a task may be due.
const NAP: Duration = Duration::from_millis(1);

/// Runs tasks until none is left or the time runs out; true where none is left.
pub(super) fn progress(sched: Ptr<Sched>, until: Option<Instant>) -> bool {
    loop {
        tse_sched_progress(sched);
        let mut held = lock();
        let Ok(inner) = held.sched(sched) else { return true };
        if inner.in_flight == 0 {
            return true;
        }
        let delayed = !inner.ready.is_empty();
        let now = Instant::now();
        if until.is_some_and(|until| until <= now) {
            return false;
        }
        let nap = delayed.then(|| now + NAP);
        drop(held.wait([until, nap].into_iter().flatten().min()));
    }
}
