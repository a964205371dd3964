//! Runs futures on the thread that waits for them, without a runtime.
use crate::spin::{self, Sleeper};
use crate::wake_up::WakeUp;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::os::fd::BorrowedFd;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{LocalKey, Thread};

pub use crate::spin::{Hits, Polled, SPIN_TIME, Spun, yield_core};

/// The blocking variant of every operation: `kv.put(...).wait()` instead of `kv.put(...).await`.
///
/// Operations on local targets are ready at the first poll, without an allocation or a runtime. For others the calling
/// thread sleeps until the reply arrives.
pub trait Wait: Future + Sized {
    /// Runs the operation to completion on the calling thread.
    fn wait(self) -> Self::Output {
        block_on(self)
    }
}

impl<F: Future> Wait for F {}

/// Waker of a thread in [`block_on`]: wakes it from a park, and from a sleep at its eventfd.
struct Unpark {
    thread: Thread,
    is_woken: AtomicBool,
    wake_up: WakeUp,
}

impl Unpark {
    /// The waker of the calling thread.
    fn this_thread() -> Self {
        let is_woken = AtomicBool::new(false);
        Self { thread: std::thread::current(), is_woken, wake_up: WakeUp::default() }
    }

    /// Sleeps until the thread is woken. A park that returns is not enough: a wait within a poll may have used up the
    /// wake-up, or left one behind.
    fn park(&self) {
        while !self.take() {
            std::thread::park();
        }
    }
}

impl Sleeper for Unpark {
    fn take(&self) -> bool {
        self.is_woken.swap(false, Ordering::SeqCst)
    }

    fn sleep_with(&self, sleep: impl FnOnce(BorrowedFd<'_>) -> bool) -> Option<bool> {
        self.wake_up.sleep_with(|wake_up| self.is_woken.load(Ordering::SeqCst) || sleep(wake_up))
    }
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.wake_up.wake();
        self.thread.unpark();
    }
}

/// Runs a future to completion on the calling thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    match poll_waiting(future.as_mut(), &mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => park_until_ready(future),
    }
}

/// Exempts a future from the budget of the surrounding task of tokio. A thread that sleeps within such a task, as a
/// server's does, never returns control to tokio. Once the budget is used up, tokio's channels and semaphores wait
/// until it does.
#[cfg(not(loom))]
fn without_budget<F: Future>(future: F) -> impl Future<Output = F::Output> {
    tokio::task::unconstrained(future)
}

#[cfg(loom)]
fn without_budget<F: Future>(future: F) -> F {
    future
}

/// Polls a future until it is ready. Between two polls the thread sends what was deferred, spins, and sleeps.
#[cold]
fn park_until_ready<F: Future>(future: Pin<&mut F>) -> F::Output {
    let mut future = pin!(without_budget(future));
    let unpark = Arc::new(Unpark::this_thread());
    let waker = Waker::from(Arc::clone(&unpark));
    let mut context = Context::from_waker(&waker);
    loop {
        match poll_waiting(future.as_mut(), &mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => {
                do_deferred();
                if !spin::wait(&*unpark) {
                    unpark.park();
                }
            }
        }
    }
}

/// Work to do before the thread sleeps, for example sending requests together.
pub trait Deferred: Send + Sync {
    /// Runs the work. It must not wait.
    fn run(&self);
}

thread_local! {
    static DEFERRED: RefCell<Vec<Arc<dyn Deferred>>> = const { RefCell::new(Vec::new()) };
    static HAS_DEFERRED: Cell<bool> = const { Cell::new(false) };
    static IS_POLLING: Cell<bool> = const { Cell::new(false) };
}

/// True if Esker's own executor polls the current future: the thread polls it again as soon as it is woken.
#[must_use]
pub fn is_waiting_here() -> bool {
    IS_POLLING.get()
}

/// Defers work to the executor of this thread. The executor runs it once, after polling all its futures and before the
/// thread sleeps or returns. False if another executor polls the future, or if the thread is ending: then the caller
/// has to run the work.
pub fn defer(work: &Arc<impl Deferred + 'static>) -> bool {
    if !is_waiting_here() {
        return false;
    }
    let deferred = DEFERRED.try_with(|deferred| {
        let mut deferred = deferred.borrow_mut();
        let known =
            deferred.iter().any(|known| Arc::as_ptr(known).addr() == Arc::as_ptr(work).addr());
        if !known {
            deferred.push(Arc::clone(work) as Arc<dyn Deferred>);
        }
    });
    HAS_DEFERRED.set(HAS_DEFERRED.get() || deferred.is_ok());
    deferred.is_ok()
}

/// Runs the deferred work. While a thread ends, its list may be gone already; then nothing was deferred.
fn do_deferred() {
    if !HAS_DEFERRED.replace(false) {
        return;
    }
    while let Ok(Some(work)) = DEFERRED.try_with(|deferred| deferred.borrow_mut().pop()) {
        work.run();
    }
}

/// Polls a future on a thread that only waits for it. When the outermost future is ready, also runs the deferred work
/// and ends the polling of connections.
fn poll_waiting<F: Future>(future: Pin<&mut F>, context: &mut Context<'_>) -> Poll<F::Output> {
    let polling = FlagScope::new(&IS_POLLING, true);
    let polled = on_waiting_thread(true, || future.poll(context));
    let is_outermost = !polling.before;
    drop(polling);
    if polled.is_ready() && is_outermost {
        do_deferred();
        spin::end();
    }
    polled
}

/// A thread-local flag that is reset when this is dropped: a poll may panic, and the thread may continue.
struct FlagScope {
    flag: &'static LocalKey<Cell<bool>>,
    before: bool,
}

impl FlagScope {
    /// Sets the flag to `value` until this is dropped.
    fn new(flag: &'static LocalKey<Cell<bool>>, value: bool) -> Self {
        Self { flag, before: flag.replace(value) }
    }
}

impl Drop for FlagScope {
    fn drop(&mut self) {
        self.flag.set(self.before);
    }
}

/// Registers a connection that the executor of this thread polls before the thread sleeps, because replies for the
/// current future arrive there. False if the thread is ending, or if another executor polls the future: another thread
/// must then poll the connection.
pub fn spin_on(what: &Arc<impl Polled + 'static>) -> bool {
    IS_POLLING.get() && spin::add(what)
}

/// Runs `work`, a poll, with [`may_block`] set to `waits`.
fn on_waiting_thread<T>(waits: bool, work: impl FnOnce() -> T) -> T {
    let _waits = FlagScope::new(&MAY_BLOCK, waits);
    work()
}

thread_local! {
    static MAY_BLOCK: Cell<bool> = const { Cell::new(false) };
}

/// True if the polling thread only waits for this one future: then the future may block instead of registering its
/// waker. False under any other executor, and if several futures are polled concurrently.
#[must_use]
pub fn may_block() -> bool {
    MAY_BLOCK.get()
}

thread_local! {
    static IS_URGENT: Cell<bool> = const { Cell::new(false) };
    static WOULD_WAIT: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` on a thread that serves others as well: operations in it fail instead of waiting. The second result is
/// true if one failed for that reason; then `work` can run again on a thread that may wait.
pub fn without_waiting<T>(work: impl FnOnce() -> T) -> (T, bool) {
    let _urgent = FlagScope::new(&IS_URGENT, true);
    let _before = FlagScope::new(&WOULD_WAIT, false);
    let done = work();
    (done, WOULD_WAIT.get())
}

/// True if the caller must fail instead of waiting ([`without_waiting`]), which is recorded.
#[must_use]
pub fn must_not_wait() -> bool {
    let urgent = IS_URGENT.get();
    if urgent {
        WOULD_WAIT.set(true);
    }
    urgent
}

/// True within [`without_waiting`]. Unlike [`must_not_wait`], this is not recorded: the caller may still succeed.
#[must_use]
pub fn is_urgent() -> bool {
    IS_URGENT.get()
}

/// A future that runs concurrently with others.
pub type Task<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Boxes a future for [`side_by_side`].
pub fn task<'a, T>(work: impl Future<Output = T> + Send + 'a) -> Task<'a, T> {
    Box::pin(work)
}

/// Runs tasks concurrently on the waiting thread, at most `most` (at least 1) at a time; outputs are in the order of
/// the tasks. Useful if operations wait, as on Ceph.
pub async fn side_by_side<T>(tasks: Vec<Task<'_, T>>, most: usize) -> Vec<T> {
    let most = most.max(1);
    let mut waiting = tasks.into_iter();
    let mut outputs = Vec::new();
    let mut running: Vec<(usize, Task<'_, T>)> = Vec::new();
    std::future::poll_fn(|context| {
        loop {
            while running.len() < most {
                let Some(task) = waiting.next() else { break };
                running.push((outputs.len(), task));
                outputs.push(None);
            }
            let before = running.len();
            let mut poll =
                |(index, task): &mut (usize, Task<'_, T>)| match task.as_mut().poll(context) {
                    Poll::Ready(output) => {
                        outputs[*index] = Some(output);
                        false
                    }
                    Poll::Pending => true,
                };
            // A task that runs alone may block the thread.
            match before > 1 {
                true => on_waiting_thread(false, || running.retain_mut(poll)),
                false => running.retain_mut(|task| poll(task)),
            }
            match running.len() {
                // All tasks that began are done, and no other is left: fewer than `most` ran.
                0 if before < most => return Poll::Ready(()),
                left if left == before => return Poll::Pending,
                // Some are done, so others may begin.
                _ => {}
            }
        }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    /// A future that wakes its task at each poll, and is ready at the third. [`block_on`] ignores the first wake-up,
    /// because it polls first without a waker.
    fn woken() -> impl Future<Output = ()> {
        let mut polls = 0;
        std::future::poll_fn(move |context| {
            polls += 1;
            if polls == 3 {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
    }

    /// The budget of a task of tokio is 128 such operations.
    #[test]
    fn waiting_within_a_task_of_tokio_needs_no_budget() {
        let (done, finished) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let permits = tokio::sync::Semaphore::new(1);
                (0..1000).for_each(|_| drop(block_on(permits.acquire())));
            });
            done.send(()).unwrap();
        });
        finished.recv_timeout(std::time::Duration::from_secs(60)).expect("no thread waits forever");
    }

    #[test]
    fn waiting_within_a_poll_does_not_use_up_a_wake_up() {
        let mut polls = 0;
        block_on(std::future::poll_fn(|context| {
            polls += 1;
            if polls == 2 {
                context.waker().wake_by_ref();
                block_on(woken());
            }
            if polls < 3 { Poll::Pending } else { Poll::Ready(()) }
        }));
        assert_eq!(polls, 3);
    }

    #[test]
    fn panic_in_a_poll_restores_the_flags() {
        let marks = || (IS_POLLING.get(), may_block(), must_not_wait(), WOULD_WAIT.get());
        let before = marks();
        let poll = || -> () {
            assert_eq!(marks(), (true, true, true, true));
            panic!("a planned panic")
        };
        let panics = || without_waiting(|| block_on(async { poll() }));
        assert!(catch_unwind(panics).is_err());
        assert_eq!(marks(), before);
        let tasks = || vec![task(async {}), task(async { panic!("a planned panic") })];
        let both = catch_unwind(|| block_on(side_by_side(tasks(), 2)));
        assert!(both.is_err());
        assert_eq!(marks(), before);
    }
}
