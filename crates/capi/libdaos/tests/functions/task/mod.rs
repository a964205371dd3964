//! Tasks and schedulers through the C functions.
mod life;

use crate::common::*;
use daos::abi::{Bytes, Handle, Link, ObjId, Ptr, Str};
use daos::tse::calls::*;
use daos::tse::lists::*;
use daos::tse::sched::*;
use daos::tse::task::*;
use daos::tse::{Sched, Task};
use std::ffi::c_int;
use std::sync::Mutex;

/// A scheduler, and the memory that contains it.
fn sched() -> (Box<[u64; 50]>, Ptr<Sched>) {
    let mut room = Box::new([u64::MAX; 50]);
    let sched = at(&mut *room).cast();
    assert_eq!(tse_sched_init(sched, None, bytes(b"mine")), 0);
    (room, sched)
}

/// The result of a task, its first field.
fn result(task: Ptr<Task>) -> c_int {
    task.cast::<c_int>().get().unwrap()
}

/// The steps that bodies and callbacks of a test took, in order. Tests that use them run one at a time.
static STEPS: Mutex<Vec<u64>> = Mutex::new(Vec::new());
/// Held by tests that use [`STEPS`].
static TURN: Mutex<()> = Mutex::new(());

fn step(step: u64) {
    STEPS.lock().unwrap().push(step);
}

fn number_at(at: Bytes) -> u64 {
    at.cast::<u64>().get().unwrap()
}

/// Body that records the number at its private pointer as a step, and completes the task.
extern "C" fn body(task: Ptr<Task>) -> c_int {
    step(number_at(tse_task_get_priv(task)));
    tse_task_complete(task, 0);
    0
}

/// Body that completes the task with an error.
extern "C" fn failing(task: Ptr<Task>) -> c_int {
    tse_task_complete(task, BUSY);
    0
}

/// Body that leaves the task running.
extern "C" fn later(_task: Ptr<Task>) -> c_int {
    0
}

/// Callback that records the number at its argument as a step.
extern "C" fn note(_task: Ptr<Task>, arg: Bytes) -> c_int {
    step(number_at(arg));
    0
}

/// On completion, counts down the number that the argument points to. Until it is 0, makes the task run again.
extern "C" fn once_more(task: Ptr<Task>, arg: Bytes) -> c_int {
    let left = arg.cast::<Ptr<u64>>().get().unwrap();
    let count = left.get().unwrap();
    if count > 0 {
        left.set(count - 1);
        assert_eq!(tse_task_reinit(task), 0);
        let again = tse_task_register_comp_cb(task, Some(once_more), at(&mut { left }).cast(), 8);
        assert_eq!(again, 0);
    }
    0
}

/// A task with this body, whose private pointer is that of `n`.
fn make(sched: Ptr<Sched>, function: extern "C" fn(Ptr<Task>) -> c_int, n: &mut u64) -> Ptr<Task> {
    let mut task = Ptr::null();
    assert_eq!(tse_task_create(Some(function), sched, at(n).cast(), at(&mut task)), 0);
    task
}

/// Runs the tasks of a scheduler. Returns the result of the call, and whether none is left.
fn progress(sched: Ptr<Sched>, timeout: i64) -> (c_int, bool) {
    let mut empty = 7;
    let done = daos_progress(sched, timeout, at(&mut empty));
    (done, empty == 1)
}

#[test]
fn tasks_wait_for_one_another() {
    let _turn = TURN.lock();
    let (_room, sched) = sched();
    let mut numbers = [1, 2, 3];
    let [a, b, c] = &mut numbers;
    let (a, b, c) = (make(sched, body, a), make(sched, body, b), make(sched, body, c));
    assert_eq!(tse_task_register_deps(a, 2, list(&mut [b, c])), 0);
    assert_eq!(tse_task_register_deps(b, 1, list(&mut [c])), 0);
    STEPS.lock().unwrap().clear();
    for task in [a, b, c] {
        assert_eq!(tse_task_schedule(task, true), 0);
    }
    assert_eq!(progress(sched, -1), (0, true));
    assert_eq!(*STEPS.lock().unwrap(), [3, 2, 1]);
    assert!(tse_sched_check_complete(sched));
    tse_sched_fini(sched);
}

#[test]
fn callbacks_run_around_a_body() {
    let _turn = TURN.lock();
    let (_room, sched) = sched();
    let mut number = 1;
    let task = make(sched, body, &mut number);
    STEPS.lock().unwrap().clear();
    for arg in [10u64, 20] {
        let (mut before, mut after) = (arg, arg + 1);
        let (before, after) = (at(&mut before).cast(), at(&mut after).cast());
        let done = tse_task_register_cbs(task, Some(note), before, 8, Some(note), after, 8);
        assert_eq!(done, 0);
    }
    tse_task_addref(task);
    assert_eq!(tse_task_schedule(task, false), 0);
    assert_eq!(tse_task_schedule(task, false), NO_PERM);
    assert_eq!(progress(sched, 0), (0, true));
    assert_eq!(*STEPS.lock().unwrap(), [10, 20, 1, 21, 11], "the last one registered is first");
    assert_eq!(result(task), 0);
    tse_task_decref(task);
    tse_sched_fini(sched);
}

#[test]
fn errors_are_passed_to_dependent_tasks() {
    let _turn = TURN.lock();
    let (_room, sched) = sched();
    let mut numbers = [1, 2, 3];
    let [a, b, c] = &mut numbers;
    let (first, open, closed) =
        (make(sched, failing, a), make(sched, body, b), make(sched, body, c));
    tse_disable_propagate(closed);
    for task in [open, closed] {
        tse_task_addref(task);
        tse_task_register_deps(task, 1, list(&mut [first]));
        tse_task_schedule(task, false);
    }
    tse_task_schedule(first, false);
    assert_eq!(progress(sched, -1), (0, true));
    assert_eq!((result(open), result(closed)), (BUSY, 0));
    assert_eq!(sched.cast::<c_int>().get(), Ok(BUSY), "the first error is the scheduler's");
    tse_task_decref(open);
    tse_task_decref(closed);
    tse_sched_fini(sched);
}

#[test]
fn a_task_can_run_again() {
    let _turn = TURN.lock();
    let (_room, sched) = sched();
    let (mut number, mut left) = (5, 3u64);
    let task = make(sched, body, &mut number);
    STEPS.lock().unwrap().clear();
    tse_task_register_comp_cb(task, Some(once_more), at(&mut at(&mut left)).cast(), 8);
    tse_task_schedule(task, false);
    assert_eq!(progress(sched, -1), (0, true));
    assert_eq!(*STEPS.lock().unwrap(), [5; 4]);
    tse_sched_fini(sched);
}

#[test]
fn progress_waits_for_tasks_that_complete_elsewhere() {
    let (_room, sched) = sched();
    let mut number = 1;
    let task = make(sched, later, &mut number);
    tse_task_schedule(task, true);
    assert_eq!(progress(sched, 0), (TIMEDOUT, false));
    assert_eq!(progress(sched, 5000), (TIMEDOUT, false));
    std::thread::scope(|scope| {
        scope.spawn(move || tse_task_complete(task, 0));
        assert_eq!(progress(sched, -1), (0, true));
    });
    let (soon, late) = (make(sched, failing, &mut number), make(sched, failing, &mut number));
    tse_task_schedule_with_delay(late, false, 3_600_000_000);
    tse_task_schedule_with_delay(soon, true, 5000);
    assert_eq!(progress(sched, 0), (TIMEDOUT, false));
    tse_task_complete(late, 0);
    assert_eq!(progress(sched, -1), (0, true));
    assert_eq!(daos_progress(Ptr::null(), 0, Ptr::null()), INVAL);
    tse_sched_fini(sched);
}

extern "C" fn sched_done(arg: Bytes, rc: c_int) -> c_int {
    step(number_at(arg) + rc.unsigned_abs() as u64);
    0
}

#[test]
fn a_scheduler_is_closed() {
    let _turn = TURN.lock();
    let (_room, sched) = sched();
    let mut numbers = [1u64, 100];
    STEPS.lock().unwrap().clear();
    let [number, arg] = &mut numbers;
    tse_sched_register_comp_cb(sched, Some(sched_done), at(arg).cast());
    let task = make(sched, body, number);
    tse_task_addref(task);
    tse_task_schedule(task, false);
    tse_sched_complete(sched, 0, true);
    assert_eq!(result(task), 0);
    assert_eq!(*STEPS.lock().unwrap(), [100]);
    tse_task_decref(task);
    assert!(tse_sched_check_complete(sched));
    tse_sched_fini(sched);
}

#[test]
fn tasks_are_kept_in_lists() {
    let _turn = TURN.lock();
    let (_room, sched) = sched();
    let none = Ptr::null();
    let mut head = Box::new(Link { next: none, prev: none });
    let head = at(&mut *head);
    head.reset();
    assert!(tse_task_list_first(head).is_null());
    let mut numbers = [1, 2, 3];
    let [a, b, c] = &mut numbers;
    let (a, b, c) = (make(sched, body, a), make(sched, body, b), make(sched, body, c));
    assert_eq!(tse_task_list_add(a, head), 0);
    assert_eq!(tse_task_list_add(b, head), 0);
    assert_eq!(tse_task_list_add(b, head), NO_PERM);
    assert!(std::ptr::eq(tse_task_list_first(head).raw(), a.raw()));
    assert_eq!(tse_task_list_depend(head, c), 0);
    let mut mark = 9u64;
    STEPS.lock().unwrap().clear();
    assert_eq!(tse_task_list_traverse(head, Some(note), at(&mut mark).cast()), 0);
    assert_eq!(tse_task_list_traverse_adv(head, Some(note), at(&mut mark).cast()), 0);
    tse_task_list_sched(head, false);
    assert!(tse_task_list_first(head).is_null());
    tse_task_schedule(c, false);
    assert_eq!(progress(sched, -1), (0, true));
    assert_eq!(*STEPS.lock().unwrap(), [9, 9, 9, 9, 3, 1, 2]);
    let mut number = 1;
    let d = make(sched, body, &mut number);
    tse_task_addref(d);
    tse_task_list_add(d, head);
    tse_task_list_abort(head, BUSY);
    assert_eq!(result(d), BUSY);
    tse_task_decref(d);
    tse_sched_fini(sched);
}

#[test]
fn the_space_in_a_task_is_bounded() {
    let (_room, sched) = sched();
    let mut number = 1;
    let task = make(sched, body, &mut number);
    assert!(tse_task_buf_embedded(task, 881).is_null());
    assert!(tse_task_buf_embedded(task, -1).is_null());
    assert!(std::ptr::eq(tse_task_buf_embedded(task, 880).raw(), tse_task2arg(task).raw()));
    assert!(std::ptr::eq(tse_task2sched(task).raw(), sched.raw()));
    let old = tse_task_set_priv(task, Ptr::null());
    assert_eq!(number_at(old), 1);
    assert_eq!(tse_task_reset(task, None, Ptr::null()), NO_PERM, "it did not run yet");
    tse_task_addref(task);
    tse_task_complete(task, 0);
    assert_eq!(tse_task_reset(task, None, Ptr::null()), 0);
    tse_task_decref(task);
    tse_sched_fini(sched);
}

#[test]
fn functions_of_daos_run_as_tasks() {
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Open {
        coh: Handle,
        oid: ObjId,
        mode: u32,
        oh: Ptr<Handle>,
    }
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Put {
        oh: Handle,
        th: Handle,
        flags: u64,
        key: Str,
        size: u64,
        buf: Bytes,
    }
    let store = Store::new();
    let (_room, sched) = sched();
    let (mut open, mut put, mut oh) = (Ptr::null(), Ptr::null(), NONE);
    let none = Ptr::null();
    // Opcode 70 is `daos_kv_open`, and 74 is `daos_kv_put`.
    assert_eq!(daos_task_create(70, sched, 0, none, at(&mut open)), 0);
    let oid = store.oid(KV_HASHED, S1);
    let args = Open { coh: store.coh, oid, mode: OBJ_RW, oh: at(&mut oh) };
    daos_task_get_args(open).cast().set(args);
    tse_task_schedule(open, true);
    assert!(tse_sched_check_complete(sched));
    assert_eq!(daos_task_create(74, sched, 0, none, at(&mut put)), 0);
    let key = text(c"key");
    let args = Put { oh, th: NONE, flags: 0, key, size: 1, buf: bytes(b"v") };
    daos_task_get_args(put).cast().set(args);
    tse_task_addref(put);
    tse_task_schedule(put, false);
    assert_eq!(progress(sched, -1), (0, true));
    assert_eq!(result(put), 0);
    assert_eq!(daos_task_reset(put, 74), 0);
    let args = Put { oh: NONE, ..args };
    daos_task_get_args(put).cast().set(args);
    tse_task_addref(put);
    tse_task_schedule(put, true);
    assert_eq!(result(put), NO_HDL);
    tse_task_decref(put);
    for bad in [-1, 0, 7, 59, 81, 82, 1000] {
        assert_eq!(daos_task_create(bad, sched, 0, none, at(&mut open)), NOSYS, "{bad}");
    }
    assert_eq!(daos_task_create(70, Ptr::null(), 0, none, at(&mut open)), INVAL);
    assert_eq!(daos_task_create(70, sched, 0, none, Ptr::null()), INVAL);
    assert!(daos_task_get_priv(Ptr::null()).is_null());
    tse_sched_fini(sched);
}
