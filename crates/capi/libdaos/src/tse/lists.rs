//! Lists of tasks.
use super::callbacks::Function;
use super::memory::{Task, lock};
use super::sched::pure;
use super::{run, task};
use crate::abi::{Bytes, Link, Ptr};
use crate::boundary::guard;
use crate::code::Code;
use std::ffi::c_int;

/// The tasks of a list.
fn tasks(head: Ptr<Link>) -> impl Iterator<Item = Ptr<Task>> {
    head.links().map(Ptr::of_link)
}

/// Puts a task at the end of a list.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task_list_add(task: Ptr<Task>, head: Ptr<Link>) -> c_int {
    pure(|| {
        head.needed()?;
        lock().task(task)?;
        if !task.link().is_alone() {
            return Err(Code::NO_PERM);
        }
        head.insert_before(task.link());
        Ok(())
    })
}

/// Removes a task from its list.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task_list_del(task: Ptr<Task>) {
    if !task.is_null() {
        task.link().remove();
    }
}

/// Returns the first task of a list, or null if it is empty.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task_list_first(head: Ptr<Link>) -> Ptr<Task> {
    tasks(head).next().unwrap_or(Ptr::null())
}

/// Schedules every task of a list.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task_list_sched(head: Ptr<Link>, instant: bool) {
    for task in tasks(head) {
        tse_task_list_del(task);
        task::tse_task_schedule(task, instant);
    }
}

/// Removes every task from a list and completes it.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task_list_abort(head: Ptr<Link>, code: c_int) {
    for task in tasks(head) {
        tse_task_list_del(task);
        guard((), || run::complete(task, code));
    }
}

/// Makes every task of a list wait for a task.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task_list_depend(head: Ptr<Link>, task: Ptr<Task>) -> c_int {
    pure(|| tasks(head).try_for_each(|later| run::depend(&mut lock(), later, task)))
}

/// Makes a task wait for every task of a list.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task_depend_list(task: Ptr<Task>, head: Ptr<Link>) -> c_int {
    pure(|| tasks(head).try_for_each(|first| run::depend(&mut lock(), task, first)))
}

/// Calls a function for every task of a list. Returns the last error, or 0.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task_list_traverse(
    head: Ptr<Link>,
    function: Option<Function>,
    arg: Bytes,
) -> c_int {
    let Some(function) = function else { return Code::INVAL.0 };
    tasks(head).fold(0, |last, task| {
        // SAFETY: the caller passed the function to be called so.
        match unsafe { function(task, arg) } {
            0 => last,
            error => error,
        }
    })
}

/// Traverses a list like [`tse_task_list_traverse`], but the function may free the last task and the list with it.
#[unsafe(no_mangle)]
pub extern "C" fn tse_task_list_traverse_adv(
    head: Ptr<Link>,
    function: Option<Function>,
    arg: Bytes,
) -> c_int {
    let Some(function) = function else { return Code::INVAL.0 };
    let all: Vec<_> = tasks(head).collect();
    all.into_iter().fold(0, |last, task| {
        // SAFETY: the caller passed the function to be called so.
        match unsafe { function(task, arg) } {
            0 => last,
            error => error,
        }
    })
}
