//! Functions of the DAOS API as tasks (`daos_task.h`).
use super::args::Call;
use super::memory::{ARGS_BYTES, Sched, Task, Work};
use super::sched::{progress, pure};
use super::task;
use crate::abi::{Bytes, Ptr};
use crate::code::{Code, Result};
use std::ffi::c_int;
use std::time::{Duration, Instant};

/// Creates a task that calls the function of an opcode (`DAOS_OPC_*`) after `count` other tasks have completed.
#[unsafe(no_mangle)]
pub extern "C" fn daos_task_create(
    opcode: c_int,
    sched: Ptr<Sched>,
    count: u32,
    others: Ptr<Ptr<Task>>,
    out: Ptr<Ptr<Task>>,
) -> c_int {
    pure(|| {
        let call = Call::from_opcode(opcode).ok_or(Code::NOSYS)?;
        let made = task::create(Work::Call(call), sched, Ptr::null(), out)?;
        let count = c_int::try_from(count).map_err(|_| Code::INVAL)?;
        match task::tse_task_register_deps(made, count, others) {
            0 => Ok(()),
            code => {
                task::tse_task_decref(made);
                out.set(Ptr::null());
                Err(Code(code))
            }
        }
    })
}

/// Gives a completed task another function to call.
#[unsafe(no_mangle)]
pub extern "C" fn daos_task_reset(task: Ptr<Task>, opcode: c_int) -> c_int {
    pure(|| {
        let call = Call::from_opcode(opcode).ok_or(Code::NOSYS)?;
        task::reuse(task, Work::Call(call), None)?;
        task.args().write(ARGS_BYTES as u64)?.fill(0);
        Ok(())
    })
}

/// The arguments of a task.
#[unsafe(no_mangle)]
pub extern "C" fn daos_task_get_args(task: Ptr<Task>) -> Bytes {
    task::tse_task2arg(task)
}

/// The caller's pointer.
#[unsafe(no_mangle)]
pub extern "C" fn daos_task_get_priv(task: Ptr<Task>) -> Bytes {
    task::tse_task_get_priv(task)
}

/// Sets the caller's pointer, and returns the previous one.
#[unsafe(no_mangle)]
pub extern "C" fn daos_task_set_priv(task: Ptr<Task>, private: Bytes) -> Bytes {
    task::tse_task_set_priv(task, private)
}

/// Runs the tasks of a scheduler until none is left, at most `timeout` microseconds, or without limit if negative.
#[unsafe(no_mangle)]
pub extern "C" fn daos_progress(sched: Ptr<Sched>, timeout: i64, is_empty: Ptr<u8>) -> c_int {
    pure(|| run_tasks(sched, timeout, is_empty))
}

/// Runs the tasks of a scheduler until none is left or `timeout` microseconds are over, which a negative number never
/// are. Sets `is_empty` to whether none is left.
fn run_tasks(sched: Ptr<Sched>, timeout: i64, is_empty: Ptr<u8>) -> Result<()> {
    sched.needed()?;
    let timeout = u64::try_from(timeout).ok().map(Duration::from_micros);
    let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let empty = progress(sched, until);
    is_empty.set(u8::from(empty));
    if empty { Ok(()) } else { Err(Code::TIMEDOUT) }
}
