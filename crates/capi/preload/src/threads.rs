//! Threads inside the store, and forks: no thread may use the store while the process forks.
use crate::answer::{Answer, Fail};
use crate::pages::Pages;
use crate::{descriptors, maps, process, raw, report};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

thread_local! {
    /// Number of nested calls of [`inside`] on this thread.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// True while this thread is inside the store: its calls then go to the C library.
#[inline]
pub(crate) fn is_inside() -> bool {
    DEPTH.with(|depth| depth.get() != 0)
}

/// Runs `work` inside the store: calls of the C library by this thread are not intercepted meanwhile. No panic unwinds
/// out of `work`, and errno is preserved. The thread cannot be cancelled, because that would unwind too.
pub(crate) fn inside<T, F: FnOnce() -> Answer<T>>(work: F) -> Answer<T> {
    let mut job = Job { work: Some(work), answer: Err(Fail::Errno(libc::EIO)) };
    run_inside(Job::<F, T>::run, (&raw mut job).cast());
    job.answer
}

/// Work and its answer, which is an error until the work is done.
struct Job<F, T> {
    work: Option<F>,
    answer: Answer<T>,
}

impl<T, F: FnOnce() -> Answer<T>> Job<F, T> {
    /// Does the work of the job at this address.
    fn run(job: *mut c_void) {
        // SAFETY: `inside` passes the address of a job of this type, which nothing else uses meanwhile.
        let job = unsafe { &mut *job.cast::<Self>() };
        if let Some(work) = job.work.take() {
            job.answer = work();
        }
    }
}

/// The part of [`inside`] that exists once for all types. It takes a function, because the loader would have to fill in
/// a table of functions for each closure.
fn run_inside(work: fn(*mut c_void), job: *mut c_void) {
    let before = errno();
    let cancel = set_cancel_state(PTHREAD_CANCEL_DISABLE);
    let is_first = !is_inside();
    // A signal handler that forks must find this thread inside whenever it is counted.
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    if is_first {
        enter();
    }
    let _ = catch_unwind(AssertUnwindSafe(|| work(job)));
    if is_first {
        leave();
    }
    DEPTH.with(|depth| depth.set(depth.get() - 1));
    set_cancel_state(cancel);
    set_errno(before);
}

/// Marks the calling thread as the store's own. Forks do not wait for it, because it serves threads that they wait for.
pub(crate) fn always_inside() {
    DEPTH.with(|depth| depth.set(1));
}

/// Sets the calling thread's errno.
pub(crate) fn set_errno(value: c_int) {
    // SAFETY: the C library gives each thread its own errno.
    unsafe { *libc::__errno_location() = value };
}

/// The calling thread's errno.
pub(crate) fn errno() -> c_int {
    // SAFETY: as in `set_errno`.
    unsafe { *libc::__errno_location() }
}

const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// Sets whether the calling thread can be cancelled, and returns the state before.
fn set_cancel_state(state: c_int) -> c_int {
    let mut before = 0;
    // SAFETY: it changes only the calling thread's state and `before`.
    unsafe { pthread_setcancelstate(state, &raw mut before) };
    before
}

// SAFETY: as the C library declares it.
unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Incremented in each forked child.
static GENERATION: AtomicU64 = AtomicU64::new(1);
static WATCH: Once = Once::new();
/// True while a thread forks, works alone, or waits for threads to leave the store.
static FORKING: AtomicBool = AtomicBool::new(false);
/// Number of threads inside the store.
static INSIDE: AtomicU64 = AtomicU64::new(0);
/// Signal mask of the thread that stopped the others, before it did.
static BLOCKED: AtomicU64 = AtomicU64::new(0);

/// A number that differs between a process and each of its forked children.
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// Installs the handlers: from now on forks wait for threads inside the store.
pub(crate) fn watch() {
    WATCH.call_once(|| {
        // SAFETY: the handlers may run at any fork: they touch atomics and make system calls.
        unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) };
        // Registers the handlers of locks that a fork resets. A handler must not be the first to use such a lock.
        esker_os::generation();
    });
}

/// Counts the calling thread as inside the store. Waits while another thread forks or works alone.
#[inline]
pub(crate) fn enter() {
    loop {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        if !FORKING.load(Ordering::SeqCst) {
            return;
        }
        INSIDE.fetch_sub(1, Ordering::SeqCst);
        std::thread::yield_now();
    }
}

/// Ends the effect of [`enter`].
#[inline]
pub(crate) fn leave() {
    INSIDE.fetch_sub(1, Ordering::SeqCst);
}

/// Runs `work` while no other thread is inside the store.
pub(crate) fn alone(work: impl FnOnce()) {
    stop_others();
    work();
    resume();
}

/// Waits until no other thread is inside. Blocks signals until [`resume`]: a handler that works on files would wait for
/// this thread.
fn stop_others() {
    let own = u64::from(is_inside());
    let blocked = raw::block_signals();
    // A handler may fork while its thread is inside, and another thread may fork too. That thread must not wait for
    // this one.
    INSIDE.fetch_sub(own, Ordering::SeqCst);
    while FORKING.swap(true, Ordering::SeqCst) {
        std::thread::yield_now();
    }
    INSIDE.fetch_add(own, Ordering::SeqCst);
    BLOCKED.store(blocked, Ordering::Relaxed);
    while (INSIDE.load(Ordering::SeqCst) as i64) > own as i64 {
        std::thread::yield_now();
    }
}

/// Runs before a fork: stops other threads at the entrance of the store, and makes open files shareable.
extern "C" fn prepare() {
    process::before_fork();
    stop_others();
    // Other threads may have opened files meanwhile.
    descriptors::share_all();
    maps::around_fork(Pages::before_fork);
}

/// Ends the pause around a fork: other threads may enter the store again, and blocked signals arrive.
fn resume() {
    let blocked = BLOCKED.load(Ordering::Relaxed);
    FORKING.store(false, Ordering::SeqCst);
    raw::set_blocked_signals(blocked);
}

/// Continues in the parent after a fork.
extern "C" fn in_parent() {
    maps::around_fork(Pages::after_fork);
    resume();
}

/// Continues in the child of a fork. The child gets a new generation number, which makes state of the parent invalid.
extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::SeqCst);
    INSIDE.store(u64::from(is_inside()), Ordering::SeqCst);
    report::forget();
    maps::around_fork(Pages::inherit);
    resume();
}
