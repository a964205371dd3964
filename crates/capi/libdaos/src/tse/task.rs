//! Tasks.
use super::callbacks::{Callback, Function};
use super::memory::{ARGS_BYTES, Body, Inner, Sched, Task, TaskStatus, Work, lock, make};
use super::run;
use super::sched::pure;
use crate::abi::{Bytes, Ptr};
use crate::boundary::guard;
use crate::code::{Code, Result};
use std::collections::VecDeque;
use std::ffi::c_int;
use std::time::{Duration, Instant};

/// Creates a task for any work, and stores it in `out`. `private` is the caller's pointer.
pub(super) fn create(
    work: Work,
    sched: Ptr<Sched>,
    private: Bytes,
    out: Ptr<Ptr<Task>>,
) -> Result<Ptr<Task>> {
    out.needed()?;
    lock().sched(sched)?;
    let task = make(Inner {
        references: 1,
        sched,
        work,
        private,
        status: TaskStatus::Fresh,
        runs: 0,
        completing: false,
        completions: 0,
        not_before: None,
        awaited: 0,
        dependents: Vec::new(),
        before: VecDeque::new(),
        after: Vec::new(),
        ignores_errors: false,
    })?;
    out.set(task);
    Ok(task)
}

/// Creates a task.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task_create(
    body: Option<Body>,
    sched: Ptr<Sched>,
    private: Bytes,
    out: Ptr<Ptr<Task>>,
) -> c_int {
    pure(|| create(Work::Body(body), sched, private, out).map(drop))
}

/// Schedules a task. With `instant`, it begins now if nothing prevents that.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task_schedule(task: Ptr<Task>, instant: bool) -> c_int {
    pure(|| run::schedule(task, instant, None))
}

/// The time after a delay in microseconds; `None` for a delay of 0.
fn after(delay_us: u64) -> Option<Instant> {
    (delay_us > 0).then(|| Instant::now().checked_add(Duration::from_micros(delay_us)))?
}

/// Schedules a task to run after a delay in microseconds.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task_schedule_with_delay(
    task: Ptr<Task>,
    instant: bool,
    delay: u64,
) -> c_int {
    pure(|| run::schedule(task, instant, after(delay)))
}

/// Completes a task with the result `code`.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task_complete(task: Ptr<Task>, code: c_int) {
    guard((), || run::complete(task, code));
}

/// Returns the buffer inside a task; null if it has fewer than `size` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task_buf_embedded(task: Ptr<Task>, size: c_int) -> Bytes {
    match usize::try_from(size) {
        Ok(0..=ARGS_BYTES) if !task.is_null() => task.args(),
        _ => Ptr::null(),
    }
}

/// Returns the buffer for arguments inside a task.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task2arg(task: Ptr<Task>) -> Bytes {
    tse_task_buf_embedded(task, 0)
}

/// The caller's pointer.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task_get_priv(task: Ptr<Task>) -> Bytes {
    guard(Ptr::null(), || lock().task(task).map_or(Ptr::null(), |inner| inner.private))
}

/// Sets the caller's pointer, and returns the previous one.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task_set_priv(task: Ptr<Task>, private: Bytes) -> Bytes {
    guard(Ptr::null(), || {
        let mut held = lock();
        held.task(task).map_or(Ptr::null(), |inner| std::mem::replace(&mut inner.private, private))
    })
}

/// The scheduler of a task.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task2sched(task: Ptr<Task>) -> Ptr<Sched> {
    guard(Ptr::null(), || lock().task(task).map_or(Ptr::null(), |inner| inner.sched))
}

/// Most tasks in one list of dependencies.
const DEPENDENCIES_MAX: c_int = 1 << 20;

/// Makes a task wait for `count` others.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task_register_deps(
    task: Ptr<Task>,
    count: c_int,
    others: Ptr<Ptr<Task>>,
) -> c_int {
    pure(|| {
        let count = match count {
            0..=DEPENDENCIES_MAX => count as usize,
            _ => return Err(Code::INVAL),
        };
        let others = others.list(count)?;
        let mut held = lock();
        others.into_iter().try_for_each(|other| run::depend(&mut held, task, other))
    })
}

/// Registers a callback for the completion of a task.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task_register_comp_cb(
    task: Ptr<Task>,
    function: Option<Function>,
    arg: Bytes,
    size: usize,
) -> c_int {
    tse_task_register_cbs(task, None, Ptr::null(), 0, function, arg, size)
}

/// Registers callbacks that run before a task and on its completion.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task_register_cbs(
    task: Ptr<Task>,
    before: Option<Function>,
    before_arg: Bytes,
    before_size: usize,
    after: Option<Function>,
    after_arg: Bytes,
    after_size: usize,
) -> c_int {
    pure(|| {
        let make = |function: Option<Function>, arg, size| {
            function.map(|function| Callback::new(function, arg, size)).transpose()
        };
        let before = make(before, before_arg, before_size)?;
        let after = make(after, after_arg, after_size)?;
        let mut held = lock();
        let inner = held.task(task)?;
        if inner.status == TaskStatus::Completed {
            return Err(Code::NO_PERM);
        }
        inner.before.extend(before);
        inner.after.extend(after);
        Ok(())
    })
}

/// Runs a task again.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task_reinit(task: Ptr<Task>) -> c_int {
    tse_task_reinit_with_delay(task, 0)
}

/// Runs a task again after a delay in microseconds.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task_reinit_with_delay(task: Ptr<Task>, delay: u64) -> c_int {
    pure(|| run::run_again(&mut lock(), task, after(delay)))
}

/// Registers a callback and runs the task again: both or neither.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task_register_comp_cb_and_reinit(
    task: Ptr<Task>,
    function: Option<Function>,
    arg: Bytes,
    size: usize,
    delay: u64,
) -> c_int {
    pure(|| {
        let callback = Callback::new(function.ok_or(Code::INVAL)?, arg, size)?;
        let mut held = lock();
        if held.task(task)?.status == TaskStatus::Completed {
            return Err(Code::NO_PERM);
        }
        run::run_again(&mut held, task, after(delay))?;
        held.task(task)?.after.push(callback);
        Ok(())
    })
}

/// Gives new work to a task, which must have completed and be in no list.
pub(super) fn reuse(task: Ptr<Task>, work: Work, private: Option<Bytes>) -> Result<()> {
    let mut held = lock();
    let inner = held.task(task)?;
    if inner.status != TaskStatus::Completed || !task.link().is_alone() {
        return Err(Code::NO_PERM);
    }
    inner.status = TaskStatus::Fresh;
    inner.work = work;
    inner.private = private.unwrap_or(inner.private);
    inner.before.clear();
    inner.after.clear();
    task.set_result(0);
    Ok(())
}

/// Gives a completed task another body.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task_reset(task: Ptr<Task>, body: Option<Body>, private: Bytes) -> c_int {
    pure(|| reuse(task, Work::Body(body), Some(private)))
}

/// Takes a reference.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task_addref(task: Ptr<Task>) {
    guard((), || {
        if let Ok(inner) = lock().task(task) {
            inner.references += 1;
        }
    });
}

/// Drops a reference; the last one frees the task.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task_decref(task: Ptr<Task>) {
    guard((), || lock().drop_reference(task));
}

/// Stops the propagation of errors to a task: errors of the tasks that it waits for do not become its own.
#[unsafe(no_mangle)]
pub extern "C" fn tse_disable_propagate(task: Ptr<Task>) {
    guard((), || {
        if let Ok(inner) = lock().task(task) {
            inner.ignores_errors = true;
        }
    });
}
