//! Event queues and events through the C functions.
use crate::common::*;
use daos::abi::{Bytes, Event, Handle, Ptr};
use daos::event::*;
use daos::kv::*;
use daos::pool::*;
use std::ffi::{CString, c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard};

const FOREVER: i64 = -1;
/// `DAOS_EQR_COMPLETED`.
const COMPLETED: u32 = 1;

/// An event queue, and a Key-Value to call functions on.
struct Queue {
    store: Store,
    kv: Handle,
    eq: Handle,
}

impl Queue {
    fn new() -> Self {
        let store = Store::new();
        let (mut eq, mut kv) = (NONE, NONE);
        assert_eq!(daos_eq_create(at(&mut eq)), 0);
        let oid = store.oid(KV_HASHED, SX);
        assert_eq!(daos_kv_open(store.coh, oid, OBJ_RW, at(&mut kv), WAIT), 0);
        Self { store, kv, eq }
    }

    /// A new event of the queue, a child of `parent` unless that is null.
    fn event(&self, parent: Ptr<Event>) -> Box<Event> {
        let mut ev = event();
        assert_eq!(daos_event_init(at(&mut ev), self.eq, parent), 0);
        ev
    }

    /// Launches a put that succeeds.
    fn put(&self, ev: &mut Event) -> c_int {
        daos_kv_put(self.kv, NONE, 0, text(c"key"), 1, bytes(b"v"), at(ev))
    }

    /// Launches a put that fails, because the key is missing: flag 4 is `DAOS_COND_KEY_UPDATE`.
    fn fail(&self, ev: &mut Event) -> c_int {
        daos_kv_put(self.kv, NONE, 4, text(c"missing"), 1, bytes(b"v"), at(ev))
    }

    /// Takes up to `most` completed events out of the queue.
    fn poll(&self, wait_running: c_int, timeout: i64, most: usize) -> Vec<Ptr<Event>> {
        let mut found = vec![Ptr::null(); most];
        let count = daos_eq_poll(self.eq, wait_running, timeout, most as u32, list(&mut found));
        assert!(count >= 0, "{count}");
        found.truncate(count as usize);
        found
    }
}

/// Whether the pointer is that of the event.
fn is(found: Ptr<Event>, ev: &Event) -> bool {
    std::ptr::eq(found.raw(), ev)
}

#[test]
fn a_call_with_an_event_completes_in_its_queue() {
    let queue = Queue::new();
    let mut ev = queue.event(Ptr::null());
    for _ in 0..3 {
        assert_eq!(queue.put(&mut ev), 0);
        let found = queue.poll(1, FOREVER, 4);
        assert!(found.len() == 1 && is(found[0], &ev));
        assert_eq!(ev.error, 0);
    }
    assert_eq!(queue.fail(&mut ev), 0, "the failure comes with the event");
    queue.poll(1, FOREVER, 4);
    assert_eq!(ev.error, NONEXIST);
    assert_eq!(daos_event_fini(at(&mut ev)), 0);
}

#[test]
fn bad_handles_are_reported_by_the_event() {
    let queue = Queue::new();
    let mut ev = queue.event(Ptr::null());
    assert_eq!(daos_kv_put(NONE, NONE, 0, text(c"k"), 1, bytes(b"v"), at(&mut ev)), 0);
    queue.poll(1, FOREVER, 1);
    assert_eq!(ev.error, NO_HDL);
    assert_eq!(daos_kv_close(queue.store.coh, at(&mut ev)), 0);
    queue.poll(1, FOREVER, 1);
    assert_eq!(ev.error, NO_HDL);
}

#[test]
fn many_calls_with_events_at_once_all_complete() {
    let queue = Queue::new();
    let keys: Vec<_> = (0..500).map(|i| CString::new(format!("key{i}")).unwrap()).collect();
    let mut events: Vec<_> = keys.iter().map(|_| queue.event(Ptr::null())).collect();
    for (key, ev) in keys.iter().zip(&mut events) {
        assert_eq!(daos_kv_put(queue.kv, NONE, 0, text(key), 1, bytes(b"v"), at(ev)), 0);
    }
    let mut done = 0;
    while done < events.len() {
        done += queue.poll(1, FOREVER, 64).len();
    }
    assert!(events.iter().all(|ev| ev.error == 0));
    let mut size = 0;
    for key in &keys {
        daos_kv_get(queue.kv, NONE, 8, text(key), at(&mut size), Ptr::null(), WAIT);
        assert_eq!(size, 1);
    }
}

#[test]
fn polling_waits_for_the_given_time() {
    let queue = Queue::new();
    assert!(queue.poll(1, FOREVER, 1).is_empty(), "nothing runs");
    assert!(queue.poll(0, 0, 1).is_empty());
    let start = std::time::Instant::now();
    assert!(queue.poll(0, 20_000, 1).is_empty());
    assert!(start.elapsed().as_micros() >= 20_000);
    let mut found = [Ptr::null()];
    assert_eq!(daos_eq_poll(queue.eq, 0, 0, 0, list(&mut found)), INVAL);
    assert_eq!(daos_eq_poll(queue.eq, 0, 0, 1, Ptr::null()), INVAL);
    assert_eq!(daos_eq_poll(NONE, 0, 0, 1, list(&mut found)), NONEXIST);
    assert_eq!(daos_eq_poll(queue.kv, 0, 0, 1, list(&mut found)), NONEXIST);
}

#[test]
fn testing_an_event_takes_it_out_of_its_queue() {
    let queue = Queue::new();
    let mut ev = queue.event(Ptr::null());
    let mut flag = 7;
    queue.put(&mut ev);
    assert_eq!(daos_event_test(at(&mut ev), FOREVER, at(&mut flag)), 0);
    assert_eq!((flag, ev.error), (1, 0));
    assert!(queue.poll(0, 0, 1).is_empty(), "it left the queue");
    assert_eq!(daos_event_test(at(&mut ev), 0, Ptr::null()), INVAL);
}

#[test]
fn events_need_no_queue() {
    let queue = Queue::new();
    let mut ev = event();
    assert_eq!(daos_event_init(at(&mut ev), NONE, Ptr::null()), 0);
    assert_eq!(queue.put(&mut ev), 0);
    let mut flag = 0;
    assert_eq!(daos_event_test(at(&mut ev), FOREVER, at(&mut flag)), 0);
    assert_eq!((flag, ev.error), (1, 0));
    assert_eq!(daos_event_fini(at(&mut ev)), 0);
}

#[test]
fn invalid_events_are_refused() {
    let queue = Queue::new();
    let mut wild = event();
    assert_eq!(queue.put(&mut wild), INVAL);
    assert_eq!(daos_event_fini(at(&mut wild)), INVAL);
    assert_eq!(daos_event_abort(at(&mut wild)), INVAL);
    assert_eq!(daos_event_parent_barrier(at(&mut wild)), INVAL);
    assert_eq!(daos_event_test(at(&mut wild), 0, at(&mut 0)), INVAL);
    assert!(daos_event_next(at(&mut wild), Ptr::null()).is_null());
    let none = Handle { cookie: 17 };
    assert_eq!(daos_event_init(at(&mut wild), none, Ptr::null()), NONEXIST);
    assert_eq!(daos_event_init(Ptr::null(), queue.eq, Ptr::null()), INVAL);
}

/// Events with the callback [`held_up`] run for as long as a test holds their gate.
static GATES: [Mutex<()>; 3] = [const { Mutex::new(()) }; 3];

/// Callback that waits until the gate with this number is released.
extern "C" fn held_up(gate: *mut c_void, _ev: *mut Event, _rc: c_int) -> c_int {
    drop(GATES[gate as usize].lock());
    0
}

/// Keeps an event running until the returned lock is dropped.
fn hold_up(ev: &mut Event, gate: usize) -> MutexGuard<'static, ()> {
    // SAFETY: it is never dereferenced.
    let arg: Bytes = unsafe { Ptr::new(std::ptr::without_provenance_mut(gate)) };
    assert_eq!(daos_event_register_comp_cb(at(ev), Some(held_up), arg), 0);
    GATES[gate].lock().unwrap()
}

#[test]
fn a_running_event_cannot_be_launched() {
    let queue = Queue::new();
    let mut parent = queue.event(Ptr::null());
    let mut child = queue.event(at(&mut parent));
    assert_eq!(daos_event_abort(at(&mut parent)), NO_PERM, "it does not run");
    assert_eq!(daos_event_parent_barrier(at(&mut parent)), NO_PERM, "its child was not launched");
    let gate = hold_up(&mut child, 0);
    assert_eq!(queue.put(&mut child), 0);
    assert_eq!(queue.put(&mut child), NO_PERM);
    assert_eq!(daos_event_parent_barrier(at(&mut parent)), 0);
    assert_eq!(daos_event_parent_barrier(at(&mut parent)), NO_PERM);
    assert_eq!(daos_event_abort(at(&mut parent)), 0);
    assert_eq!(daos_event_fini(at(&mut parent)), BUSY);
    assert_eq!(daos_event_fini(at(&mut child)), BUSY);
    let mut late = event();
    assert_eq!(daos_event_init(at(&mut late), queue.eq, at(&mut parent)), INVAL);
    assert_eq!(daos_eq_destroy(queue.eq, 0), BUSY);
    drop(gate);
    while daos_eq_query(queue.eq, COMPLETED, 0, Ptr::null()) < 1 {
        std::thread::yield_now();
    }
    assert_eq!(queue.put(&mut parent), NO_PERM, "nobody took it out of its queue");
    assert_eq!(daos_event_fini(at(&mut child)), INVAL, "its parent is not ready");
    assert_eq!(queue.poll(1, FOREVER, 1).len(), 1);
}

#[test]
fn an_event_is_finalised_twice_and_reused() {
    let queue = Queue::new();
    let mut parent = queue.event(Ptr::null());
    let mut child = queue.event(at(&mut parent));
    queue.put(&mut child);
    daos_event_parent_barrier(at(&mut parent));
    assert_eq!(queue.poll(1, FOREVER, 1).len(), 1);
    for _ in 0..2 {
        assert_eq!(daos_event_fini(at(&mut parent)), 0);
        assert_eq!(daos_event_fini(at(&mut child)), 0);
        for ev in [&mut child, &mut parent] {
            assert_eq!(queue.put(ev), 0);
            let found = queue.poll(1, FOREVER, 1);
            assert!(found.len() == 1 && is(found[0], ev));
        }
    }
    queue.put(&mut child);
    while daos_eq_query(queue.eq, COMPLETED, 0, Ptr::null()) < 1 {
        std::thread::yield_now();
    }
    assert_eq!(daos_event_fini(at(&mut child)), 0, "completed, and never polled");
    assert!(queue.poll(1, FOREVER, 1).is_empty());
    assert_eq!(daos_eq_destroy(queue.eq, 0), 0);
    assert_eq!(daos_event_fini(at(&mut child)), NONEXIST, "its queue is gone");
}

#[test]
fn a_parent_can_be_launched_again() {
    let queue = Queue::new();
    let mut parent = queue.event(Ptr::null());
    let mut child = queue.event(at(&mut parent));
    queue.put(&mut child);
    for _ in 0..3 {
        assert_eq!(daos_event_parent_barrier(at(&mut parent)), 0);
        assert_eq!(queue.poll(1, FOREVER, 2).len(), 1, "its child is done and not launched anew");
    }
    let gate = hold_up(&mut child, 1);
    queue.put(&mut child);
    assert_eq!(daos_event_parent_barrier(at(&mut parent)), 0);
    assert!(queue.poll(1, 0, 2).is_empty(), "its child runs again");
    drop(gate);
    assert_eq!(queue.poll(1, FOREVER, 2).len(), 1);
}

#[test]
fn a_parent_completes_with_its_last_child() {
    let queue = Queue::new();
    let mut parent = queue.event(Ptr::null());
    assert_eq!(daos_event_parent_barrier(at(&mut parent)), INVAL, "it has no child");
    let mut children: Vec<_> = (0..5).map(|_| queue.event(at(&mut parent))).collect();
    let mut grandchild = event();
    let grand = daos_event_init(at(&mut grandchild), queue.eq, at(&mut children[0]));
    assert_eq!(grand, NO_PERM);
    for _ in 0..3 {
        children.iter_mut().for_each(|child| assert_eq!(queue.put(child), 0));
        assert_eq!(daos_event_parent_barrier(at(&mut parent)), 0);
        let found = queue.poll(1, FOREVER, 9);
        assert!(found.len() == 1 && is(found[0], &parent), "children are never polled");
        assert_eq!(parent.error, 0);
    }
    assert_eq!(daos_event_test(at(&mut children[0]), 0, at(&mut 0)), NO_PERM);
    assert_eq!(queue.fail(&mut children[1]), 0);
    for index in [0, 2, 3, 4] {
        queue.put(&mut children[index]);
    }
    daos_event_parent_barrier(at(&mut parent));
    assert_eq!(queue.poll(1, FOREVER, 1).len(), 1);
    assert_eq!((parent.error, children[1].error), (NONEXIST, NONEXIST));
}

#[test]
fn children_are_listed_and_released() {
    let queue = Queue::new();
    let mut parent = queue.event(Ptr::null());
    let mut children: Vec<_> = (0..3).map(|_| queue.event(at(&mut parent))).collect();
    let mut next = Ptr::null();
    for child in &children {
        next = daos_event_next(at(&mut parent), next);
        assert!(is(next, child));
    }
    assert!(daos_event_next(at(&mut parent), next).is_null());
    assert_eq!(daos_event_fini(at(&mut children[1])), 0);
    let first = daos_event_next(at(&mut parent), Ptr::null());
    assert!(is(daos_event_next(at(&mut parent), first), &children[2]));
    assert_eq!(daos_event_fini(at(&mut parent)), 0);
}

/// Sum over the calls of [`note`]: its argument, and 1000 times the result of the event.
static CALLS: AtomicI32 = AtomicI32::new(0);

extern "C" fn note(arg: *mut c_void, _ev: *mut Event, rc: c_int) -> c_int {
    CALLS.fetch_add(arg as c_int + 1000 * rc, Ordering::SeqCst);
    0
}

extern "C" fn refuse(_arg: *mut c_void, _ev: *mut Event, _rc: c_int) -> c_int {
    BUSY
}

#[test]
fn callbacks_run_once_when_an_event_completes() {
    let queue = Queue::new();
    let mut ev = queue.event(Ptr::null());
    // SAFETY: it is never dereferenced.
    let arg: Bytes = unsafe { Ptr::new(std::ptr::without_provenance_mut(3)) };
    assert_eq!(daos_event_register_comp_cb(at(&mut ev), Some(note), arg), 0);
    assert_eq!(daos_event_register_comp_cb(at(&mut ev), None, arg), INVAL);
    for _ in 0..2 {
        queue.put(&mut ev);
        queue.poll(1, FOREVER, 1);
        assert_eq!(CALLS.load(Ordering::SeqCst), 3);
    }
    daos_event_register_comp_cb(at(&mut ev), Some(refuse), Ptr::null());
    queue.put(&mut ev);
    queue.poll(1, FOREVER, 1);
    assert_eq!(ev.error, BUSY, "its error is the event's");
}

#[test]
fn events_of_a_queue_are_counted() {
    const WAITING: u32 = 2;
    let queue = Queue::new();
    let mut parent = queue.event(Ptr::null());
    let mut child = queue.event(at(&mut parent));
    let mut done = queue.event(Ptr::null());
    let gate = hold_up(&mut child, 2);
    queue.put(&mut child);
    daos_event_parent_barrier(at(&mut parent));
    queue.put(&mut done);
    while daos_eq_query(queue.eq, COMPLETED, 0, Ptr::null()) < 1 {
        std::thread::yield_now();
    }
    let mut found = [Ptr::null(); 4];
    assert_eq!(daos_eq_query(queue.eq, COMPLETED, 4, list(&mut found)), 1);
    assert!(is(found[0], &done));
    assert_eq!(daos_eq_query(queue.eq, WAITING, 4, list(&mut found)), 1);
    assert!(is(found[0], &parent));
    assert_eq!(daos_eq_query(queue.eq, 3, 0, Ptr::null()), 2);
    assert_eq!(daos_eq_query(NONE, 3, 0, Ptr::null()), NONEXIST);
    drop(gate);
    while daos_eq_query(queue.eq, 3, 0, Ptr::null()) > 0 {
        queue.poll(1, FOREVER, 2);
    }
}

#[test]
fn a_query_returns_the_number_of_events_that_it_stored() {
    let queue = Queue::new();
    let mut events: Vec<_> = (0..3).map(|_| queue.event(Ptr::null())).collect();
    for (done, ev) in events.iter_mut().enumerate() {
        assert_eq!(queue.put(ev), 0);
        while daos_eq_query(queue.eq, COMPLETED, 0, Ptr::null()) <= done as c_int {
            std::thread::yield_now();
        }
    }
    let mut found = [Ptr::null(); 2];
    assert_eq!(daos_eq_query(queue.eq, COMPLETED, 2, list(&mut found)), 2);
    assert!(is(found[0], &events[0]) && is(found[1], &events[1]));
    assert_eq!(daos_eq_query(queue.eq, COMPLETED, 0, list(&mut found)), 3);
    assert_eq!(queue.poll(1, FOREVER, 4).len(), 3);
}

#[test]
fn events_taken_out_of_a_queue_by_a_test_are_not_polled() {
    let queue = Queue::new();
    let mut events: Vec<_> = (0..3).map(|_| queue.event(Ptr::null())).collect();
    events.iter_mut().for_each(|ev| assert_eq!(queue.put(ev), 0));
    let mut flag = 0;
    assert_eq!(daos_event_test(at(&mut events[1]), FOREVER, at(&mut flag)), 0);
    while daos_eq_query(queue.eq, COMPLETED, 0, Ptr::null()) < 2 {
        std::thread::yield_now();
    }
    assert_eq!(daos_event_fini(at(&mut events[2])), 0);
    let found = queue.poll(1, FOREVER, 4);
    assert!(found.len() == 1 && is(found[0], &events[0]));
}

#[test]
fn a_queue_is_destroyed_by_force() {
    const FORCE: c_int = 1;
    let queue = Queue::new();
    let mut ev = queue.event(Ptr::null());
    queue.put(&mut ev);
    assert_eq!(daos_eq_destroy(queue.eq, 0), BUSY);
    assert_eq!(daos_eq_destroy(queue.eq, FORCE), 0);
    assert_eq!(daos_eq_destroy(queue.eq, FORCE), NONEXIST);
    assert_eq!(daos_eq_create(Ptr::null()), INVAL);
}

#[test]
fn pools_are_opened_and_closed_with_events() {
    const POOLS: usize = 50;
    let queue = Queue::new();
    let mut events: Vec<_> = (0..POOLS).map(|_| queue.event(Ptr::null())).collect();
    let mut pools = vec![NONE; POOLS];
    let done = |events: &[Box<Event>]| {
        let mut taken = 0;
        while taken < POOLS {
            taken += queue.poll(1, FOREVER, POOLS).len();
        }
        assert!(events.iter().all(|ev| ev.error == 0));
    };
    for (poh, ev) in pools.iter_mut().zip(&mut events) {
        let (name, system) = (text(&queue.store.name), Ptr::null());
        assert_eq!(daos_pool_connect2(name, system, RW, at(poh), Ptr::null(), at(ev)), 0);
    }
    done(&events);
    for (poh, ev) in pools.iter().zip(&mut events) {
        assert_ne!(poh.cookie, 0);
        assert_eq!(daos_pool_disconnect(*poh, at(ev)), 0);
    }
    done(&events);
    let mut missing = queue.event(Ptr::null());
    let (name, mut poh) = (text(c"esker:/nowhere/at-all"), NONE);
    let about = Ptr::null();
    assert_eq!(daos_pool_connect2(name, Ptr::null(), RW, at(&mut poh), about, at(&mut missing)), 0);
    queue.poll(1, FOREVER, 1);
    assert_eq!((missing.error, poh.cookie), (NONEXIST, 0));
}
