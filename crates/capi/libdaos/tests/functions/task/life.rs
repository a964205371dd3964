//! The life cycle of tasks: start, wait, completion, and further runs.
use super::*;
use daos::container::daos_cont_close;
use daos::container::daos_cont_open2;

/// A task without a body.
fn bodiless(sched: Ptr<Sched>) -> Ptr<Task> {
    let mut task = Ptr::null();
    assert_eq!(tse_task_create(None, sched, Ptr::null(), at(&mut task)), 0);
    task
}

/// Takes the steps so far.
fn steps() -> Vec<u64> {
    std::mem::take(&mut *STEPS.lock().unwrap())
}

/// Makes `task` wait for `on`.
fn depend(task: Ptr<Task>, on: Ptr<Task>) -> c_int {
    tse_task_register_deps(task, 1, list(&mut [on]))
}

#[test]
fn a_task_without_a_body_runs_until_it_is_completed() {
    let _turn = TURN.lock();
    let (_room, sched) = sched();
    let mut number = 1;
    let (open, after) = (bodiless(sched), make(sched, body, &mut number));
    tse_task_addref(open);
    steps();
    assert_eq!(depend(after, open), 0);
    assert_eq!(tse_task_schedule(open, false), 0);
    assert_eq!(tse_task_schedule(after, false), 0);
    assert_eq!(progress(sched, 0), (TIMEDOUT, false));
    assert_eq!(steps(), [0; 0], "what waits for it waits");
    assert_eq!(tse_task_reinit(open), INVAL, "there is nothing to run once more");
    tse_task_complete(open, BUSY);
    assert_eq!(progress(sched, -1), (0, true));
    assert_eq!((steps(), result(open)), (vec![1], BUSY));
    tse_task_decref(open);
    tse_sched_fini(sched);
}

/// Makes `task` wait for the task that its private data points to, and schedules that task.
extern "C" fn splitting(task: Ptr<Task>) -> c_int {
    let part = tse_task_get_priv(task).cast::<Ptr<Task>>().get().unwrap();
    assert_eq!(depend(task, part), 0);
    tse_task_schedule(part, false)
}

#[test]
fn a_running_task_completes_after_dependencies_added_to_it() {
    let _turn = TURN.lock();
    let (_room, sched) = sched();
    let (mut number, mut mark) = (1, 2u64);
    let mut part = make(sched, body, &mut number);
    let mut whole = Ptr::null();
    let private = at(&mut part).cast();
    assert_eq!(tse_task_create(Some(splitting), sched, private, at(&mut whole)), 0);
    tse_task_register_comp_cb(whole, Some(note), at(&mut mark).cast(), 8);
    tse_task_addref(whole);
    steps();
    assert_eq!(tse_task_schedule(whole, true), 0);
    assert_eq!(steps(), [0; 0]);
    assert_eq!(progress(sched, -1), (0, true));
    assert_eq!((steps(), result(whole)), (vec![1, 2], 0));
    assert_eq!(depend(whole, part), NO_PERM, "a task that is complete waits for nothing");
    tse_task_decref(whole);
    tse_sched_fini(sched);
}

#[test]
fn a_chain_of_running_tasks_completes_at_once() {
    let _turn = TURN.lock();
    let (_room, sched) = sched();
    let tasks: Vec<_> = (0..20_000).map(|_| bodiless(sched)).collect();
    for task in &tasks {
        tse_task_schedule(*task, false);
    }
    for pair in tasks.windows(2) {
        assert_eq!(depend(pair[0], pair[1]), 0);
    }
    tse_task_complete(tasks[tasks.len() - 1], 0);
    assert!(tse_sched_check_complete(sched));
    tse_sched_fini(sched);
}

/// On completion, waits for the task the argument points to.
extern "C" fn wait_more(task: Ptr<Task>, arg: Bytes) -> c_int {
    let more = arg.cast::<Ptr<Task>>().get().unwrap();
    step(50);
    depend(task, more)
}

#[test]
fn a_callback_may_defer_the_completion() {
    let _turn = TURN.lock();
    let (_room, sched) = sched();
    let (mut first, mut last, mut open) = (1u64, 2, bodiless(sched));
    let mut number = 7;
    let task = make(sched, body, &mut number);
    tse_task_register_comp_cb(task, Some(note), at(&mut last).cast(), 8);
    tse_task_register_comp_cb(task, Some(wait_more), at(&mut open).cast(), 8);
    tse_task_register_comp_cb(task, Some(note), at(&mut first).cast(), 8);
    tse_task_schedule(open, false);
    steps();
    tse_task_schedule(task, true);
    assert_eq!(steps(), [7, 1, 50], "the rest waits");
    assert_eq!(progress(sched, 0), (TIMEDOUT, false));
    tse_task_complete(open, 0);
    assert_eq!(steps(), [2]);
    assert_eq!(progress(sched, -1), (0, true));
    tse_sched_fini(sched);
}

#[test]
fn a_task_completed_explicitly_does_not_run() {
    let _turn = TURN.lock();
    let (_room, sched) = sched();
    let mut numbers = [1, 2];
    let [a, b] = &mut numbers;
    let (ready, fresh) = (make(sched, body, a), make(sched, body, b));
    steps();
    tse_task_schedule(ready, false);
    tse_task_complete(ready, 0);
    tse_task_complete(fresh, 0);
    assert_eq!(progress(sched, -1), (0, true));
    assert_eq!(steps(), [0; 0]);
    tse_sched_fini(sched);
}

/// On completion, counts down the number that the argument points to. Until it is 0, makes the task run again.
extern "C" fn again(task: Ptr<Task>, arg: Bytes) -> c_int {
    let left = arg.cast::<Ptr<u64>>().get().unwrap();
    match left.get().unwrap() {
        0 => 0,
        count => {
            left.set(count - 1);
            tse_task_register_comp_cb_and_reinit(task, Some(again), arg, 8, 0)
        }
    }
}

#[test]
fn uncalled_callbacks_stay_for_the_next_run() {
    let _turn = TURN.lock();
    let (_room, sched) = sched();
    let (mut number, mut left, mut mark) = (5, 2u64, 9u64);
    let task = make(sched, body, &mut number);
    tse_task_register_comp_cb(task, Some(note), at(&mut mark).cast(), 8);
    tse_task_register_comp_cb(task, Some(again), at(&mut at(&mut left)).cast(), 8);
    steps();
    tse_task_schedule(task, true);
    assert_eq!(progress(sched, -1), (0, true));
    assert_eq!(steps(), [5, 5, 5, 9]);
    tse_sched_fini(sched);
}

#[test]
fn a_completed_task_can_run_again() {
    let _turn = TURN.lock();
    let (_room, sched) = sched();
    let mut number = 5;
    let task = make(sched, body, &mut number);
    assert_eq!(tse_task_reinit(task), NO_PERM, "it did not begin yet");
    tse_task_addref(task);
    steps();
    tse_task_schedule(task, true);
    for _ in 0..3 {
        assert_eq!(tse_task_reinit(task), 0);
        assert!(!tse_sched_check_complete(sched));
        assert_eq!(progress(sched, -1), (0, true));
    }
    assert_eq!(steps(), [5; 4]);
    tse_task_decref(task);
    tse_sched_fini(sched);
}

#[test]
fn a_task_whose_body_returned_can_run_again() {
    let _turn = TURN.lock();
    let (_room, sched) = sched();
    let mut number = 5;
    let task = make(sched, later, &mut number);
    tse_task_schedule(task, true);
    assert_eq!(tse_task_reinit(task), 0);
    assert_eq!(progress(sched, 0), (TIMEDOUT, false));
    tse_task_complete(task, 0);
    assert_eq!(progress(sched, -1), (0, true));
    tse_sched_fini(sched);
}

/// A callback that returns an error.
extern "C" fn fail(_task: Ptr<Task>, _arg: Bytes) -> c_int {
    BUSY
}

#[test]
fn an_error_of_a_callback_before_the_body_is_the_result() {
    let _turn = TURN.lock();
    let (_room, sched) = sched();
    let mut number = 5;
    let task = make(sched, body, &mut number);
    let none = Ptr::null();
    assert_eq!(tse_task_register_cbs(task, Some(fail), none, 0, None, none, 0), 0);
    tse_task_addref(task);
    steps();
    tse_task_schedule(task, true);
    assert_eq!(steps(), [0; 0], "what comes before runs in the scheduler's turn");
    assert_eq!(progress(sched, -1), (0, true));
    assert_eq!((steps(), result(task)), (vec![5], BUSY));
    tse_task_decref(task);
    tse_sched_fini(sched);
}

#[test]
fn closing_a_scheduler_drops_running_and_waiting_tasks() {
    let _turn = TURN.lock();
    let (_room, sched) = sched();
    let (mut number, mut mark) = (5, 9u64);
    let (open, after) = (bodiless(sched), make(sched, body, &mut number));
    tse_task_register_comp_cb(open, Some(note), at(&mut mark).cast(), 8);
    depend(after, open);
    tse_task_schedule(open, false);
    tse_task_schedule(after, false);
    steps();
    tse_sched_addref(sched);
    tse_sched_complete(sched, BUSY, true);
    assert!(tse_sched_check_complete(sched));
    assert_eq!(steps(), [0; 0], "nothing of theirs is called");
    assert_eq!(sched.cast::<c_int>().get(), Ok(BUSY));
    tse_sched_complete(sched, 0, true);
    tse_sched_decref(sched);
}

#[test]
fn a_container_gets_the_uuid_of_its_task() {
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Create {
        poh: Handle,
        uuid: [u8; 16],
        prop: Ptr<daos::abi::Prop>,
        out: Ptr<[u8; 16]>,
    }
    let store = Store::new();
    let (_room, sched) = sched();
    for (uuid, name) in
        [(*b"0123456789abcdef", Some(c"30313233-3435-3637-3839-616263646566")), ([0; 16], None)]
    {
        let (mut task, mut out) = (Ptr::null(), [7; 16]);
        // Opcode 18 is `daos_cont_create`.
        assert_eq!(daos_task_create(18, sched, 0, Ptr::null(), at(&mut task)), 0);
        let args = Create { poh: store.poh, uuid, prop: Ptr::null(), out: at(&mut out) };
        daos_task_get_args(task).cast().set(args);
        tse_task_schedule(task, true);
        match name {
            None => assert!(out != [0; 16] && out != [7; 16], "the library draws one"),
            Some(name) => {
                let mut coh = NONE;
                let opened =
                    daos_cont_open2(store.poh, text(name), RO, at(&mut coh), Ptr::null(), WAIT);
                assert_eq!((opened, out), (0, uuid));
                assert_eq!(daos_cont_close(coh, WAIT), 0);
            }
        }
    }
    tse_sched_fini(sched);
}
