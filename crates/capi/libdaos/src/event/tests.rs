//! Calls with events on a pool that takes its time: thousands wait, and none of them keeps a thread.
use super::*;
use crate::abi::{Anchor, ContInfo, Dfs, DfsObj, Iov, PoolInfo, Sgl};
use crate::container::{daos_cont_alloc_oids, daos_cont_open2, daos_cont_query};
use crate::dfs::io::{dfs_read, dfs_write};
use crate::dfs::mount::dfs_mount;
use crate::dfs::open::dfs_open;
use crate::handles::OpenPool;
use crate::init::daos_init;
use crate::pool::daos_pool_query;
use crate::snapshot::daos_cont_list_snap;
use ::dfs::NewDfs;
use esker::Pool;
use esker::backend::NewContainer;
use esker::types::info::OpenMode;
use esker_conformance::gate::{Gate, Gated};
use std::sync::atomic::{AtomicU32, Ordering};

/// Many more than there are threads, so that they would never end if each kept one.
const CALLS: usize = if cfg!(miri) { 40 } else { 4000 };
const FOREVER: i64 = -1;
/// `DAOS_EQ_DESTROY_FORCE`.
const FORCE: c_int = 1;
/// `DAOS_EQR_COMPLETED` and `DAOS_EQR_WAITING`.
const ALL: u32 = 3;
/// `DAOS_COO_RW`.
const RW: u32 = 2;

/// A pointer to a value of the test.
fn at<T>(value: &mut T) -> Ptr<T> {
    // SAFETY: tests keep their values in place while the library uses them.
    unsafe { Ptr::new(value) }
}

/// A pointer to a string.
fn text(text: &std::ffi::CStr) -> crate::abi::Str {
    // SAFETY: the library only reads it.
    unsafe { Ptr::new(text.as_ptr().cast_mut()) }
}

/// An event that is not initialized yet.
const UNKNOWN: Event = Event { error: -1, space: [u64::MAX; 20], debug: 0 };

/// An open file of a file system behind a gate, and an event queue. While the gate is shut, operations on the pool wait
/// at it.
struct Gates {
    gate: Arc<Gate>,
    poh: Handle,
    coh: Handle,
    eq: Handle,
    dfs: Ptr<Dfs>,
    file: Ptr<DfsObj>,
}

impl Gates {
    fn new() -> Self {
        assert_eq!(daos_init(), 0);
        let gate = Arc::<Gate>::default();
        let pool = Self::pool(&gate);
        ::dfs::Dfs::create_container(&pool, &NewContainer::named("fs"), &NewDfs::default())
            .unwrap();
        let poh = handles::open(Entry::Pool(OpenPool::new(pool, "memory:gated"))).unwrap();
        let (mut coh, mut eq) = (Handle { cookie: 0 }, Handle { cookie: 0 });
        let opened = daos_cont_open2(poh, text(c"fs"), RW, at(&mut coh), Ptr::null(), Ptr::null());
        assert_eq!(opened, 0);
        let mut dfs = Ptr::null();
        assert_eq!(dfs_mount(poh, coh, libc::O_RDWR, at(&mut dfs)), 0);
        assert_eq!(daos_eq_create(at(&mut eq)), 0);
        Self { file: Self::file(dfs), gate, poh, coh, eq, dfs }
    }

    /// A pool in memory whose operations wait at the gate while it is shut.
    fn pool(gate: &Arc<Gate>) -> Pool {
        static POOLS: AtomicU32 = AtomicU32::new(0);
        let name = format!("memory:gated-{}", POOLS.fetch_add(1, Ordering::Relaxed));
        let pool = Pool::connect(&name, OpenMode::ReadWrite).unwrap();
        let gated = Gated::new(Arc::clone(pool.backend()), gate);
        Pool::from_backend(Arc::new(gated), OpenMode::ReadWrite)
    }

    /// Creates and opens the file `f`.
    fn file(dfs: Ptr<Dfs>) -> Ptr<DfsObj> {
        let (mode, flags) = (libc::S_IFREG | 0o600, libc::O_RDWR | libc::O_CREAT);
        let (root, link, mut file) = (Ptr::null(), Ptr::null(), Ptr::null());
        let opened = dfs_open(dfs, root, text(c"f"), mode, flags, 0, 0, link, at(&mut file));
        assert_eq!(opened, 0);
        file
    }

    /// A new event of the queue, a child of `parent` unless that is null.
    fn event(&self, parent: Ptr<Event>) -> Box<Event> {
        let mut ev = Box::new(UNKNOWN);
        self.begin(&mut ev, parent);
        ev
    }

    /// Initializes an event of the queue, as a child of `parent` unless that is null.
    fn begin(&self, ev: &mut Event, parent: Ptr<Event>) {
        assert_eq!(daos_event_init(at(ev), self.eq, parent), 0);
    }

    /// Takes up to 64 events out of the queue.
    fn poll(&self, timeout: i64) -> Vec<Ptr<Event>> {
        let mut found = vec![Ptr::null(); 64];
        let count = daos_eq_poll(self.eq, 1, timeout, 64, at(&mut found[0]));
        found.truncate(usize::try_from(count).unwrap());
        found
    }

    /// Waits until `count` events have completed, and takes them out of the queue.
    fn take(&self, count: usize) {
        let mut taken = 0;
        while taken < count {
            taken += self.poll(FOREVER).len();
        }
        assert_eq!(taken, count);
    }
}

/// Buffers and events of [`CALLS`] calls on a file. Each is for 8 bytes of its own, which hold its number.
struct Calls {
    events: Vec<Event>,
    data: Vec<[u8; 8]>,
    iovs: Vec<Iov>,
    sgls: Vec<Sgl>,
    sizes: Vec<u64>,
}

impl Calls {
    /// Calls whose events are initialized. `data` is the number that the 8 bytes of a call hold at first.
    fn new(gates: &Gates, parent: Ptr<Event>, data: impl Fn(usize) -> usize) -> Self {
        let bytes = |number| (data(number) as u64).to_ne_bytes();
        let mut data: Vec<_> = (0..CALLS).map(bytes).collect();
        let iov = |bytes: &mut [u8; 8]| Iov { buf: at(bytes).cast(), buf_len: 8, len: 8 };
        let mut iovs: Vec<_> = data.iter_mut().map(iov).collect();
        let sgl = |iov: &mut Iov| Sgl { nr: 1, nr_out: 0, iovs: at(iov) };
        let sgls = iovs.iter_mut().map(sgl).collect();
        let mut events: Vec<_> = (0..CALLS).map(|_| UNKNOWN).collect();
        events.iter_mut().for_each(|ev| gates.begin(ev, parent));
        Self { events, data, iovs, sgls, sizes: vec![0; CALLS] }
    }

    /// Writes without a parent event, each call its number.
    fn written(gates: &Gates) -> Self {
        let mut calls = Self::new(gates, Ptr::null(), |number| number);
        calls.write(gates);
        calls
    }

    /// Launches the writes.
    fn write(&mut self, gates: &Gates) {
        for (number, (sgl, ev)) in self.sgls.iter_mut().zip(&mut self.events).enumerate() {
            let offset = 8 * number as u64;
            assert_eq!(dfs_write(gates.dfs, gates.file, at(sgl), offset, at(ev)), 0);
        }
    }

    /// Launches the reads.
    fn read(&mut self, gates: &Gates) {
        let places = self.sgls.iter_mut().zip(&mut self.sizes).zip(&mut self.events);
        for (number, ((sgl, size), ev)) in places.enumerate() {
            let (offset, ev) = (8 * number as u64, at(ev));
            assert_eq!(dfs_read(gates.dfs, gates.file, at(sgl), offset, at(size), ev), 0);
        }
    }

    /// Whether all calls have completed without an error.
    fn have_succeeded(&self) -> bool {
        self.iovs.len() == CALLS && self.events.iter().all(|ev| ev.error == 0)
    }
}

/// Reads what [`Calls::written`] wrote, by calls that all wait at the gate at the same time.
fn check_written(gates: &Gates) {
    let mut calls = Calls::new(gates, Ptr::null(), |_| usize::MAX);
    gates.gate.shut_until(CALLS);
    calls.read(gates);
    gates.take(CALLS);
    assert!(calls.have_succeeded());
    assert!(calls.sizes.iter().all(|size| *size == 8));
    let numbers = calls.data.iter().map(|bytes| u64::from_ne_bytes(*bytes));
    assert!(numbers.eq(0..CALLS as u64));
}

#[test]
fn thousands_of_file_calls_wait_for_each_other() {
    let gates = Gates::new();
    gates.gate.shut_until(CALLS);
    let calls = Calls::written(&gates);
    gates.take(CALLS);
    assert!(calls.have_succeeded());
    assert!(gates.gate.passed() >= CALLS, "each waited");
    check_written(&gates);
}

/// Results of calls on a pool or container.
#[derive(Clone, Copy, Default)]
struct Results {
    pool: PoolInfo,
    container: ContInfo,
    oid: u64,
    snapshots: c_int,
}

#[test]
fn thousands_of_pool_and_container_calls_wait_for_each_other() {
    let gates = Gates::new();
    gates.gate.shut_until(CALLS);
    let mut events: Vec<_> = (0..CALLS).map(|_| gates.event(Ptr::null())).collect();
    let mut results = vec![Results { snapshots: 7, ..Results::default() }; CALLS];
    let mut anchor = Anchor { kind: 0, shard: 0, flags: 0, sub_anchors: 0, buf: [0; 104] };
    for (number, (results, ev)) in results.iter_mut().zip(&mut events).enumerate() {
        let ev = at(&mut **ev);
        let (poh, coh, prop, names) = (gates.poh, gates.coh, Ptr::null(), Ptr::null());
        let code = match number % 4 {
            0 => daos_pool_query(poh, Ptr::null(), at(&mut results.pool), prop, ev),
            1 => daos_cont_alloc_oids(coh, 1, at(&mut results.oid), ev),
            2 => daos_cont_query(coh, at(&mut results.container), prop, ev),
            // One anchor, so one listing.
            _ if number > 3 => daos_cont_alloc_oids(coh, 1, at(&mut results.oid), ev),
            _ => {
                let (count, anchor) = (at(&mut results.snapshots), at(&mut anchor));
                daos_cont_list_snap(coh, count, Ptr::null(), names, anchor, ev)
            }
        };
        assert_eq!(code, 0);
    }
    gates.take(CALLS);
    assert!(events.iter().all(|ev| ev.error == 0));
    let mut oids: Vec<_> =
        results.iter().map(|results| results.oid).filter(|oid| *oid > 0).collect();
    oids.sort_unstable();
    oids.dedup();
    assert_eq!(oids.len(), CALLS / 2 - 1, "each got a number of its own");
    assert!(results[0].pool.ntargets > 0 && results[2].container.nhandles > 0);
    assert_eq!(results[3].snapshots, 0);
}

#[test]
fn an_aborted_call_runs_to_its_end() {
    let gates = Gates::new();
    gates.gate.shut();
    let mut calls = Calls::written(&gates);
    for ev in &mut calls.events {
        assert_eq!(daos_event_abort(at(ev)), 0);
    }
    assert!(gates.poll(0).is_empty(), "they wait");
    gates.gate.open();
    gates.take(CALLS);
    assert!(calls.have_succeeded());
    assert_eq!(daos_event_abort(at(&mut calls.events[0])), Code::NO_PERM.0, "it has ended");
    check_written(&gates);
}

#[test]
fn a_parent_completes_with_the_last_file_call() {
    let gates = Gates::new();
    let mut parent = gates.event(Ptr::null());
    gates.gate.shut();
    let mut calls = Calls::new(&gates, at(&mut *parent), |number| number);
    calls.write(&gates);
    assert_eq!(daos_event_parent_barrier(at(&mut *parent)), 0);
    assert!(gates.poll(0).is_empty(), "its children wait");
    gates.gate.open();
    let found = gates.poll(FOREVER);
    assert!(found.len() == 1 && std::ptr::eq(found[0].raw(), &raw const *parent));
    assert!(parent.error == 0 && calls.have_succeeded());
    check_written(&gates);
}

#[test]
fn a_parent_has_the_error_of_a_file_call() {
    let gates = Gates::new();
    let mut parent = gates.event(Ptr::null());
    let mut child = gates.event(at(&mut *parent));
    let nothing = Ptr::null();
    assert_eq!(dfs_write(gates.dfs, nothing, Ptr::null(), 0, at(&mut *child)), 0);
    assert_eq!(daos_event_parent_barrier(at(&mut *parent)), 0);
    assert_eq!(gates.poll(FOREVER).len(), 1);
    assert_eq!((parent.error, child.error), (libc::EINVAL, libc::EINVAL));
}

#[test]
fn destroying_a_queue_ends_the_wait_of_a_thread_that_polls_it() {
    let queue = Arc::<Queue>::default();
    let polled = Arc::clone(&queue);
    let polling = std::thread::spawn(move || polled.poll(1, false, None).map(|found| found.len()));
    queue.end();
    assert_eq!(polling.join().unwrap(), Err(Code::NONEXIST));
}

#[test]
fn a_destroyed_queue_starts_no_event() {
    let gates = Gates::new();
    let mut ev = gates.event(Ptr::null());
    let queue = handles::queue(gates.eq).unwrap();
    assert_eq!(daos_eq_destroy(gates.eq, 0), 0);
    assert_eq!(queue.start(Ev::initialized(at(&mut *ev)).unwrap()), Err(Code::NONEXIST));
}

#[test]
fn an_event_without_a_queue_is_forgotten_when_it_completes() {
    assert_eq!(daos_init(), 0);
    let queue = Queue::default();
    let mut ev = UNKNOWN;
    assert_eq!(daos_event_init(at(&mut ev), Handle { cookie: 0 }, Ptr::null()), 0);
    let ev = Ev::initialized(at(&mut ev)).unwrap();
    queue.start(ev).unwrap();
    queue.end_operation(ev, 0);
    assert_eq!(queue.status_of(ev), EventStatus::Completed);
    assert!(queue.list(true, true).is_empty(), "nothing polls it");
    assert_eq!(queue.wait_for(ev, None), Ok(true));
    assert_eq!(queue.status_of(ev), EventStatus::Ready);
}

#[test]
fn a_queue_destroyed_by_force_waits_for_its_calls() {
    let mut gates = Gates::new();
    let eq = gates.eq;
    gates.gate.shut();
    let calls = Calls::written(&gates);
    assert_eq!(daos_eq_destroy(eq, 0), Code::BUSY.0);
    let destroying = std::thread::spawn(move || daos_eq_destroy(eq, FORCE));
    while daos_eq_query(eq, ALL, 0, Ptr::null()) != Code::NONEXIST.0 || gates.gate.come() < CALLS {
        std::thread::yield_now();
    }
    assert_eq!(gates.gate.passed(), 0, "all of them wait");
    gates.gate.open();
    assert_eq!(destroying.join().unwrap(), 0);
    assert_eq!(gates.gate.passed(), CALLS);
    assert!(calls.have_succeeded());
    assert_eq!(daos_eq_create(at(&mut gates.eq)), 0);
    check_written(&gates);
}
