//! Calls with events.
use super::*;
use daos::abi::Event;

const FOREVER: i64 = -1;

struct Queue(Handle);

impl Queue {
    fn new() -> Self {
        let mut eq = NONE;
        assert_eq!(daos_eq_create(at(&mut eq)), 0);
        Self(eq)
    }

    fn event(&self) -> Box<Event> {
        let mut ev = event();
        assert_eq!(daos_event_init(at(&mut *ev), self.0, Ptr::null()), 0);
        ev
    }
}

/// Waits for an event, and returns the result of its call.
fn wait(ev: &mut Event) -> c_int {
    let mut done = 0;
    assert_eq!(daos_event_test(at(ev), FOREVER, at(&mut done)), 0);
    assert_eq!(done, 1);
    ev.error
}

/// The text of the failure that an event completed with.
fn text_of(ev: &mut Event) -> String {
    // SAFETY: the library returns a string.
    read(unsafe { Ptr::new(esker_event_error_text(at(ev)).cast_mut()) })
}

#[test]
fn keys_may_be_freed_before_the_event_completes() {
    let fields = Fields::new();
    let queue = Queue::new();
    let mut events: Vec<_> = (0..20).map(|_| queue.event()).collect();
    for (step, ev) in events.iter_mut().enumerate() {
        let mut key = Pairs::new(&format!("run=a,type=fc,step={step}"));
        let (pairs, count) = (key.at(), key.len());
        ok(esker_field_archive(fields.fsh, pairs, count, bytes(b"field"), 5, at(&mut **ev)));
    }
    events.iter_mut().for_each(|ev| assert_eq!(wait(ev), 0));
    let mut ev = queue.event();
    ok(esker_field_flush(fields.fsh, at(&mut *ev)));
    assert_eq!((wait(&mut ev), text_of(&mut ev)), (0, String::new()));
    let (mut key, mut buffer, mut size) = (Pairs::new("run=a,type=fc,step=19"), [0; 5], 5);
    let (pairs, count, target) = (key.at(), key.len(), room(&mut buffer));
    ok(esker_field_retrieve(fields.fsh, pairs, count, target, at(&mut size), at(&mut *ev)));
    assert_eq!(wait(&mut ev), 0);
    assert_eq!(&buffer, b"field");
}

#[test]
fn a_failed_event_has_a_text_until_it_is_started_again() {
    let fields = Fields::new();
    let queue = Queue::new();
    let (mut missing, mut wrong) = (queue.event(), queue.event());
    let (mut key, mut size) = (Pairs::new("run=a,type=fc,step=5"), 0);
    let (pairs, count, none) = (key.at(), key.len(), Ptr::null());
    let size = at(&mut size);
    ok(esker_field_retrieve(fields.fsh, pairs, count, none, size, at(&mut *missing)));
    ok(esker_field_flush(fields.store.coh, at(&mut *wrong)));
    assert_eq!((wait(&mut missing), wait(&mut wrong)), (NONEXIST, NO_HDL));
    assert!(text_of(&mut missing).contains("step=5"), "{}", text_of(&mut missing));
    assert!(text_of(&mut wrong).contains("a field store"), "{}", text_of(&mut wrong));
    ok(daos::pool::daos_pool_query(
        fields.store.poh,
        Ptr::null(),
        Ptr::null(),
        Ptr::null(),
        at(&mut *missing),
    ));
    assert_eq!((wait(&mut missing), text_of(&mut missing)), (0, String::new()));
}

#[test]
fn an_event_that_is_not_initialized_is_refused() {
    let (fields, mut ev) = (Fields::new(), event());
    fails(INVAL, "An argument is not valid", esker_field_flush(fields.fsh, at(&mut *ev)));
    assert!(text_of(&mut ev).contains("daos_event_init"));
}

#[test]
fn slabs_are_read_with_events() {
    let tensors = Tensors::new();
    let queue = Queue::new();
    let (mut ev, mut th) = (queue.event(), NONE);
    ok(tensors.put(c"t"));
    ok(esker_tensor_open(tensors.tsh, text(c"t"), at(&mut th), at(&mut *ev)));
    assert_eq!(wait(&mut ev), 0);
    let mut slabs = [SlabArgument { start: 3, step: 1, count: 1 }; 2];
    slabs[1] = SlabArgument { start: 0, step: 2, count: 2 };
    let (mut buffer, mut size) = ([0; 4], 4);
    let target = room(&mut buffer);
    ok(esker_tensor_get(th, list(&mut slabs), 2, target, at(&mut size), at(&mut *ev)));
    assert_eq!(wait(&mut ev), 0);
    assert_eq!(buffer, [9, 0, 11, 0]);
    ok(esker_tensor_close(th, at(&mut *ev)));
    assert_eq!(wait(&mut ev), 0);
}
