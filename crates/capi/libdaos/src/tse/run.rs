//! The life of a task.
use super::memory::{Held, State, Task, Work, changed, lock, unmake};
use crate::abi::Ptr;
use crate::code::{Code, Result};
use std::ffi::c_int;
use std::time::Instant;

/// Hands a task to its scheduler. Where nothing is awaited and the caller asks for it, it runs here.
pub(super) fn schedule(task: Ptr<Task>, instant: bool, not_before: Option<Instant>) -> Result<()> {
    let mut held = lock();
    let inner = held.task(task)?;
    if inner.state != State::Fresh {
        return Err(Code::NO_PERM);
    }
    inner.state = State::Waiting;
    inner.not_before = not_before;
    let free = inner.awaited == 0;
    let sched = held.sched_of(task)?;
    sched.in_flight += 1;
    if free && instant && not_before.is_none() {
        drop(held);
        run(task);
    } else if free {
        sched.ready.push_back(task);
        changed();
    }
    Ok(())
}

/// Runs what comes before a task and its body.
pub(super) fn run(task: Ptr<Task>) {
    if let Some(work) = begin(task) {
        perform(task, work);
        drop_reference(task);
    }
}

fn perform(task: Ptr<Task>, work: Work) {
    while let Some(callback) = next_before(task) {
        let code = callback.call(task);
        if !is_running(task) {
            return settle(task);
        }
        if code != 0 {
            return complete(task, code);
        }
    }
    match work {
        Work::Call(call) => complete(task, call.run(task.args())),
        Work::Body(None) => complete(task, 0),
        Work::Body(Some(body)) => {
            // SAFETY: the caller made the task with a body to be called so.
            unsafe { body(task) };
            settle(task);
        }
    }
}

/// Takes a reference for the time it runs.
fn begin(task: Ptr<Task>) -> Option<Work> {
    let mut held = lock();
    let cancelled = held.sched_of(task).is_ok_and(|sched| sched.cancelled);
    let inner = held.task(task).ok()?;
    if cancelled {
        drop(held);
        complete(task, Code::CANCELED.0);
        return None;
    }
    inner.state = State::Running;
    inner.references += 1;
    Some(inner.work)
}

fn next_before(task: Ptr<Task>) -> Option<super::callbacks::Callback> {
    lock().task(task).ok()?.before.pop_front()
}

fn is_running(task: Ptr<Task>) -> bool {
    lock().task(task).is_ok_and(|inner| inner.state == State::Running && !inner.again)
}

/// After its body: it goes on running until it is completed, or runs once more.
fn settle(task: Ptr<Task>) {
    let mut held = lock();
    if held.task(task).is_ok_and(|inner| inner.again && inner.state == State::Running) {
        wait_again(&mut held, task);
    }
}

/// Back among those that wait.
fn wait_again(held: &mut Held, task: Ptr<Task>) {
    let Ok(inner) = held.task(task) else { return };
    inner.again = false;
    inner.state = State::Waiting;
    let free = inner.awaited == 0;
    task.set_result(0);
    if let (true, Ok(sched)) = (free, held.sched_of(task)) {
        sched.ready.push_back(task);
        changed();
    }
}

/// Ends a task, unless a callback has it run once more.
pub(super) fn complete(task: Ptr<Task>, code: c_int) {
    let Some(scheduled) = begin_completing(task, code) else { return };
    while let Some(callback) = next_after(task) {
        let code = callback.call(task);
        if task.result() == 0 {
            task.set_result(code);
        }
        let mut held = lock();
        if held.task(task).is_ok_and(|inner| inner.again) {
            return wait_again(&mut held, task);
        }
    }
    finish(task, scheduled);
    drop_reference(task);
}

/// Whether it had been scheduled; `None` where it is completed or about to be.
fn begin_completing(task: Ptr<Task>, code: c_int) -> Option<bool> {
    let mut held = lock();
    let inner = held.task(task).ok()?;
    if matches!(inner.state, State::Completing | State::Completed) {
        return None;
    }
    let scheduled = inner.state != State::Fresh;
    inner.state = State::Completing;
    if task.result() == 0 {
        task.set_result(code);
    }
    Some(scheduled)
}

fn next_after(task: Ptr<Task>) -> Option<super::callbacks::Callback> {
    lock().task(task).ok()?.after.pop()
}

/// Lets those that waited for it go on.
fn finish(task: Ptr<Task>, scheduled: bool) {
    let mut held = lock();
    let Ok(inner) = held.task(task) else { return };
    inner.state = State::Completed;
    let sched = inner.sched;
    let dependents = std::mem::take(&mut inner.dependents);
    for dependent in &dependents {
        release(&mut held, *dependent, task.result());
    }
    if let Ok(known) = held.sched(sched) {
        known.in_flight -= u32::from(scheduled);
    }
    let result = sched.cast::<c_int>();
    if result.get() == Ok(0) {
        result.set(task.result());
    }
    changed();
    drop(held);
    dependents.into_iter().for_each(drop_reference);
}

/// One task fewer to wait for; errors are handed on.
fn release(held: &mut Held, task: Ptr<Task>, error: c_int) {
    let Ok(inner) = held.task(task) else { return };
    inner.awaited = inner.awaited.saturating_sub(1);
    let free = inner.awaited == 0 && inner.state == State::Waiting;
    if !inner.keeps_errors_out && task.result() == 0 {
        task.set_result(error);
    }
    if let (true, Ok(sched)) = (free, held.sched_of(task)) {
        sched.ready.push_back(task);
    }
}

/// Gives up a reference; the last frees the task.
pub(super) fn drop_reference(task: Ptr<Task>) {
    let mut held = lock();
    let Ok(inner) = held.task(task) else { return };
    inner.references = inner.references.saturating_sub(1);
    if inner.references == 0 {
        drop(held);
        unmake(task);
    }
}
