//! Tasks and schedulers in memory: the structures of C, and those of the library that they point to.
use super::callbacks::Callback;
use crate::abi::{Bytes, Link, Ptr};
use crate::code::{Code, Result};
use std::collections::{BTreeSet, VecDeque};
use std::ffi::c_int;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// `TSE_TASK_ARG_LEN`.
pub(super) const ARGS_BYTES: usize = 880;

/// The body of a task, `tse_task_func_t`.
pub type Body = unsafe extern "C" fn(task: Ptr<Task>) -> c_int;
/// `tse_sched_comp_cb_t`.
pub type SchedDone = unsafe extern "C" fn(args: Bytes, rc: c_int) -> c_int;

/// `tse_task_t`.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub struct Task {
    /// Its result.
    pub result: c_int,
    pad: c_int,
    inner: *mut Inner,
    link: Link,
    args: [u8; ARGS_BYTES],
    rest: [u8; 112],
}

/// `tse_sched_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Sched {
    /// The first error of its tasks.
    pub result: c_int,
    /// The caller's pointer.
    pub udata: Bytes,
    inner: *mut SchedInner,
    rest: [u64; 47],
}

const _: () = assert!(size_of::<Task>() == 1024 && size_of::<Sched>() == 400);

/// The status of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskStatus {
    /// Not scheduled.
    Fresh,
    /// Scheduled: it waits for other tasks, for a time, or for a thread that runs it.
    Waiting,
    /// Running. The task runs until a caller completes it, even after its body has returned.
    Running,
    Completed,
}

/// Work of a task.
#[derive(Clone, Copy)]
pub(super) enum Work {
    Body(Option<Body>),
    /// A function of the DAOS API.
    Call(super::args::Call),
}

/// Private data of a task.
pub(super) struct Inner {
    pub(super) references: u32,
    pub(super) sched: Ptr<Sched>,
    pub(super) work: Work,
    /// The caller's pointer.
    pub(super) private: Bytes,
    pub(super) status: TaskStatus,
    /// Number of runs that began.
    pub(super) runs: u32,
    /// A thread is completing the task: it calls the callbacks.
    pub(super) completing: bool,
    /// Changes whenever a completion is postponed, so that the thread that is completing it stops.
    pub(super) completions: u32,
    /// Earliest time at which it may run.
    pub(super) not_before: Option<Instant>,
    /// Number of tasks it waits for.
    pub(super) awaited: u32,
    /// Tasks that wait for it.
    pub(super) dependents: Vec<Ptr<Task>>,
    /// Callbacks to call before it runs.
    pub(super) before: VecDeque<Callback>,
    /// Callbacks to call when it completes, the last one first.
    pub(super) after: Vec<Callback>,
    /// Errors of the tasks that it waits for do not become its own.
    pub(super) ignores_errors: bool,
}

impl Inner {
    /// Postpones the completion, because the task runs again or waits for another task. A thread that is completing it
    /// notices the new number in `completions` and stops.
    pub(super) fn postpone_completion(&mut self) {
        self.completions = self.completions.wrapping_add(1);
        self.completing = false;
    }
}

/// Private data of a scheduler.
#[derive(Default)]
pub(super) struct SchedInner {
    pub(super) references: u32,
    /// Tasks that are ready to run, each with its earliest time.
    pub(super) ready: VecDeque<(Option<Instant>, Ptr<Task>)>,
    /// Tasks that are scheduled and not completed.
    pub(super) tasks: BTreeSet<*mut Task>,
    /// A thread is completing the scheduler.
    pub(super) ending: bool,
    /// It is being completed without running its tasks.
    pub(super) cancelled: bool,
    /// Callbacks for its completion, each with its argument.
    pub(super) done: Vec<(SchedDone, Bytes)>,
}

impl SchedInner {
    /// Removes a task from the list of ready tasks.
    pub(super) fn remove_from_ready(&mut self, task: Ptr<Task>) {
        self.ready.retain(|(_, ready)| !std::ptr::eq(ready.raw(), task.raw()));
    }
}

/// Guards the private data of all tasks and schedulers.
static LOCK: Mutex<()> = Mutex::new(());
/// Signalled when a task becomes ready or completes.
static CHANGED: Condvar = Condvar::new();

/// The lock, held.
pub(super) struct Held(MutexGuard<'static, ()>);

/// Takes the lock of all tasks and schedulers.
pub(super) fn lock() -> Held {
    Held(LOCK.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Wakes the threads that wait for a change.
pub(super) fn changed() {
    CHANGED.notify_all();
}

impl Held {
    /// Waits for a change, until `until` at the latest.
    pub(super) fn wait(self, until: Option<Instant>) -> Self {
        let Some(until) = until else {
            return Self(CHANGED.wait(self.0).unwrap_or_else(PoisonError::into_inner));
        };
        let left = until.saturating_duration_since(Instant::now());
        Self(CHANGED.wait_timeout(self.0, left).unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Private data of a task.
    pub(super) fn task(&mut self, at: Ptr<Task>) -> Result<&mut Inner> {
        let inner = at.get_inner()?;
        // SAFETY: the lock is held; the caller vouches for the task, which was made with it.
        unsafe { inner.as_mut() }.ok_or(Code::INVAL)
    }

    /// Private data of a scheduler.
    pub(super) fn sched(&mut self, at: Ptr<Sched>) -> Result<&mut SchedInner> {
        let inner = at.get()?.inner;
        // SAFETY: the lock is held; the caller vouches for the scheduler, which was made with it.
        unsafe { inner.as_mut() }.ok_or(Code::INVAL)
    }

    /// Private data of the scheduler of a task.
    pub(super) fn sched_of(&mut self, at: Ptr<Task>) -> Result<&mut SchedInner> {
        let sched = self.task(at)?.sched;
        self.sched(sched)
    }

    /// Any task of a scheduler that is scheduled and has not completed.
    pub(super) fn first_task(&mut self, at: Ptr<Sched>) -> Option<Ptr<Task>> {
        let first = self.sched(at).ok()?.tasks.first().copied()?;
        // SAFETY: the task exists: it is removed from the set when it completes.
        Some(unsafe { Ptr::new(first) })
    }

    /// Drops a reference; the last one frees the task.
    pub(super) fn drop_reference(&mut self, task: Ptr<Task>) {
        let Ok(inner) = self.task(task) else { return };
        inner.references = inner.references.saturating_sub(1);
        if inner.references == 0 {
            unmake(task);
        }
    }
}

impl Ptr<Task> {
    /// The pointer to the part of the task that C does not see.
    fn get_inner(self) -> Result<*mut Inner> {
        let task = self.needed()?.raw();
        // SAFETY: the caller vouches for the task; only one field is read.
        Ok(unsafe { (&raw const (*task).inner).read_unaligned() })
    }

    /// The result of the task, which is its first word.
    pub(super) fn result(self) -> c_int {
        self.cast::<c_int>().get().unwrap_or(Code::INVAL.0)
    }

    /// Sets the result of the task.
    pub(super) fn set_result(self, code: c_int) {
        self.cast::<c_int>().set(code);
    }

    /// Returns the address of the buffer in the task in which C stores the arguments of its operation.
    pub(super) fn args(self) -> Bytes {
        self.cast::<u8>().at(std::mem::offset_of!(Task, args)).cast()
    }

    /// The link of the task in lists of tasks.
    pub(super) fn link(self) -> Ptr<Link> {
        self.cast::<u8>().at(std::mem::offset_of!(Task, link)).cast()
    }

    /// The task whose link this is.
    pub(super) fn of_link(link: Ptr<Link>) -> Self {
        let address = link.raw() as usize - std::mem::offset_of!(Task, link);
        // SAFETY: links of task lists are fields of tasks.
        unsafe { Self::new(address as *mut Task) }
    }
}

impl Ptr<Sched> {
    /// Records the result of a task. The first error becomes the result of the scheduler.
    pub(super) fn note(self, code: c_int) {
        let result = self.cast::<c_int>();
        if result.get() == Ok(0) {
            result.set(code);
        }
    }
}

/// Allocates a task that has `inner` as its private data and is in no list.
pub(super) fn make(inner: Inner) -> Result<Ptr<Task>> {
    let task: Ptr<Task> = crate::memory::zeroed(1)?;
    let inner = Box::into_raw(Box::new(inner));
    let place = task.raw();
    // SAFETY: the task was just made, zeroed and as large as this says.
    unsafe { (&raw mut (*place).inner).write(inner) };
    task.link().reset();
    Ok(task)
}

/// Frees a task and its private data. Nothing may refer to the task any more.
fn unmake(task: Ptr<Task>) {
    if let Ok(inner) = task.get_inner() {
        // SAFETY: it was made with a box, and nothing refers to the task any more.
        drop(unsafe { Box::from_raw(inner) });
        crate::memory::free(task);
    }
}

/// Initializes the caller's memory as a scheduler.
pub(super) fn make_sched(at: Ptr<Sched>, inner: SchedInner, udata: Bytes) -> Result<()> {
    let inner = Box::into_raw(Box::new(inner));
    at.needed()?.set(Sched { result: 0, udata, inner, rest: [0; 47] });
    Ok(())
}

/// Frees the private data of a scheduler.
pub(super) fn unmake_sched(at: Ptr<Sched>) {
    let Ok(sched) = at.get() else { return };
    if !sched.inner.is_null() {
        // SAFETY: it was made with a box, and nothing refers to the scheduler any more.
        drop(unsafe { Box::from_raw(sched.inner) });
        at.set(Sched { inner: std::ptr::null_mut(), ..sched });
    }
}
