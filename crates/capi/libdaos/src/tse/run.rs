//! The states of a task: it is scheduled, becomes ready, runs, and completes.
use super::callbacks::Callback;
use super::memory::{Held, Task, TaskStatus, Work, changed, lock};
use crate::abi::Ptr;
use crate::code::{Code, Result};
use std::ffi::c_int;
use std::time::Instant;

/// Schedules a task. If `instant` is set or the task has no body, it begins now, on this thread. It does not begin now
/// if it depends on other tasks, has callbacks to run before it, or has an earliest time.
pub(super) fn schedule(task: Ptr<Task>, instant: bool, not_before: Option<Instant>) -> Result<()> {
    let mut held = lock();
    let inner = held.task(task)?;
    if inner.status != TaskStatus::Fresh {
        return Err(Code::NO_PERM);
    }
    inner.status = TaskStatus::Waiting;
    inner.not_before = not_before;
    let at_once = instant || matches!(inner.work, Work::Body(None));
    let free = inner.awaited == 0 && inner.before.is_empty() && not_before.is_none();
    held.sched_of(task)?.tasks.insert(task.raw());
    if !(at_once && free) {
        make_ready(&mut held, task);
        return Ok(());
    }
    let run = begin(&mut held, task);
    drop(held);
    run.into_iter().for_each(TaskRun::run);
    Ok(())
}

/// Adds a task to the list of ready tasks, if it waits for no other task.
fn make_ready(held: &mut Held, task: Ptr<Task>) {
    let Ok(inner) = held.task(task) else { return };
    let (free, not_before) = (inner.awaited == 0, inner.not_before);
    if let (true, Ok(sched)) = (free, held.sched_of(task)) {
        sched.ready.push_back((not_before, task));
        changed();
    }
}

/// One run of a task. It holds a reference to the task. Its number tells it from later runs of the same task.
pub(super) struct TaskRun {
    task: Ptr<Task>,
    number: u32,
    work: Work,
}

/// Marks a waiting task as running, and adds a reference for the run. None if the task is not valid.
pub(super) fn begin(held: &mut Held, task: Ptr<Task>) -> Option<TaskRun> {
    let inner = held.task(task).ok()?;
    inner.status = TaskStatus::Running;
    inner.references += 1;
    inner.runs = inner.runs.wrapping_add(1);
    Some(TaskRun { task, number: inner.runs, work: inner.work })
}

impl TaskRun {
    /// Runs the task, and drops the reference that the start of the run added.
    pub(super) fn run(self) {
        self.perform();
        lock().drop_reference(self.task);
    }

    /// Calls the callbacks, then the body of the task. An error of a callback becomes the result of the task, but its
    /// body runs nevertheless.
    fn perform(&self) {
        let task = self.task;
        while let Some(callback) = self.next_before() {
            let code = callback.call(task);
            if self.still_runs() {
                note(task, code);
            }
        }
        if !self.still_runs() {
            return;
        }
        match self.work {
            Work::Call(call) => complete(task, call.run(task.args())),
            // A task without a body runs until the caller completes it.
            Work::Body(None) => {}
            Work::Body(Some(body)) => {
                // SAFETY: the caller made the task with a body to be called so.
                unsafe { body(task) };
            }
        }
    }

    /// Whether this run has neither completed nor been replaced by a later one.
    fn is_current(&self, held: &mut Held) -> bool {
        held.task(self.task)
            .is_ok_and(|inner| inner.status == TaskStatus::Running && inner.runs == self.number)
    }

    /// [`TaskRun::is_current`] without the lock held.
    fn still_runs(&self) -> bool {
        self.is_current(&mut lock())
    }

    /// Takes the next callback to call before the body of the task; `None` if there is none or the run has ended.
    fn next_before(&self) -> Option<Callback> {
        let mut held = lock();
        match self.is_current(&mut held) {
            true => held.task(self.task).ok()?.before.pop_front(),
            false => None,
        }
    }
}

/// Sets the result of the task, unless an earlier step has failed.
fn note(task: Ptr<Task>, code: c_int) {
    if task.result() == 0 {
        task.set_result(code);
    }
}

/// Schedules a task again that is running or has completed, not before a time if one is given. `INVAL` for a task
/// without a body, `NO_PERM` in other states.
pub(super) fn run_again(
    held: &mut Held,
    task: Ptr<Task>,
    not_before: Option<Instant>,
) -> Result<()> {
    let cancelled = held.sched_of(task)?.cancelled;
    let inner = held.task(task)?;
    if matches!(inner.work, Work::Body(None)) {
        return Err(Code::INVAL);
    }
    match inner.status {
        TaskStatus::Running if !cancelled => {}
        TaskStatus::Completed if !cancelled => inner.references += 1,
        _ => return Err(Code::NO_PERM),
    }
    inner.status = TaskStatus::Waiting;
    inner.not_before = not_before;
    inner.postpone_completion();
    task.set_result(0);
    held.sched_of(task)?.tasks.insert(task.raw());
    make_ready(held, task);
    Ok(())
}

/// Makes `task` wait until the task `on` completes. Does nothing if `on` has completed. If `task` is running, only its
/// completion waits: it completes when the last task that it waits for completes.
pub(super) fn depend(held: &mut Held, task: Ptr<Task>, on: Ptr<Task>) -> Result<()> {
    if std::ptr::eq(task.raw(), on.raw()) {
        return Err(Code::INVAL);
    }
    if held.task(task)?.status == TaskStatus::Completed {
        return Err(Code::NO_PERM);
    }
    let awaited = held.task(on)?;
    if awaited.status == TaskStatus::Completed {
        return Ok(());
    }
    awaited.dependents.push(task);
    let inner = held.task(task)?;
    inner.awaited += 1;
    inner.references += 1;
    inner.postpone_completion();
    if inner.status == TaskStatus::Waiting {
        held.sched_of(task)?.remove_from_ready(task);
    }
    Ok(())
}

/// Completes a task with the result `code`, unless a callback schedules it again or makes it wait for another. Also
/// completes the running tasks that waited only for this one.
pub(super) fn complete(task: Ptr<Task>, code: c_int) {
    let known = lock().task(task).map(|inner| inner.references += 1).is_ok();
    if known {
        complete_all(vec![(task, code)]);
    }
}

/// Completes tasks, each with its result, and drops a reference to each.
fn complete_all(mut left: Vec<(Ptr<Task>, c_int)>) {
    while let Some((task, code)) = left.pop() {
        if let Some(completion) = begin_completing(task, code) {
            call_after(task, completion);
            left.extend(finish(task, completion).into_iter().map(|freed| (freed, 0)));
        }
        lock().drop_reference(task);
    }
}

/// Begins to complete a task. Returns the number of this attempt; `None` if the task has completed or another thread is
/// completing it.
fn begin_completing(task: Ptr<Task>, code: c_int) -> Option<u32> {
    let mut held = lock();
    let inner = held.task(task).ok()?;
    if inner.completing || inner.status == TaskStatus::Completed {
        return None;
    }
    inner.completing = true;
    note(task, code);
    Some(inner.completions)
}

/// Calls the callbacks for the completion of a task, until one of them postpones it. `completion` is the number of this
/// attempt.
fn call_after(task: Ptr<Task>, completion: u32) {
    while let Some(callback) = next_after(task, completion) {
        let code = callback.call(task);
        if lock().task(task).is_ok_and(|inner| inner.completions == completion) {
            note(task, code);
        }
    }
}

/// Takes the last registered callback for the completion of a task; `None` if there is none or the completion was
/// postponed.
fn next_after(task: Ptr<Task>, completion: u32) -> Option<Callback> {
    let mut held = lock();
    let inner = held.task(task).ok().filter(|inner| inner.completions == completion)?;
    inner.after.pop()
}

/// Marks a task as completed, unless a callback postponed the completion. Returns the tasks that complete with it.
fn finish(task: Ptr<Task>, completion: u32) -> Vec<Ptr<Task>> {
    let mut held = lock();
    match held.task(task) {
        Ok(inner) if inner.completions == completion => end(&mut held, task),
        _ => Vec::new(),
    }
}

/// Marks a task as completed. Returns the tasks that complete with it, each with a reference.
fn end(held: &mut Held, task: Ptr<Task>) -> Vec<Ptr<Task>> {
    let Ok(inner) = held.task(task) else { return Vec::new() };
    inner.completing = false;
    let before = std::mem::replace(&mut inner.status, TaskStatus::Completed);
    let mut dependents = std::mem::take(&mut inner.dependents);
    let (sched, result) = (inner.sched, task.result());
    if let Ok(known) = held.sched(sched) {
        known.tasks.remove(&task.raw());
        if before == TaskStatus::Waiting {
            known.remove_from_ready(task);
        }
        sched.note(result);
    }
    dependents.retain(|dependent| release(held, *dependent, result));
    held.drop_reference(task);
    changed();
    dependents
}

/// Tells `task` that one of the tasks it waits for has completed with this result. True if `task` is running and waits
/// for no other task, so that it completes now. Otherwise drops a reference to it.
fn release(held: &mut Held, task: Ptr<Task>, error: c_int) -> bool {
    let cancelled = held.sched_of(task).is_ok_and(|sched| sched.cancelled);
    let Ok(inner) = held.task(task) else { return false };
    inner.awaited = inner.awaited.saturating_sub(1);
    if !inner.ignores_errors {
        note(task, error);
    }
    let (free, status) = (inner.awaited == 0 && !cancelled, inner.status);
    if free && status == TaskStatus::Running {
        return true;
    }
    if free && status == TaskStatus::Waiting {
        make_ready(held, task);
    }
    held.drop_reference(task);
    false
}

/// Marks all tasks of a scheduler as completed, without calling their bodies or callbacks.
pub(super) fn cancel(sched: Ptr<super::Sched>) {
    let mut held = lock();
    let mut freed = Vec::new();
    while let Some(task) = held.first_task(sched) {
        freed.extend(end(&mut held, task).into_iter().map(|task| (task, 0)));
    }
    drop(held);
    complete_all(freed);
}
