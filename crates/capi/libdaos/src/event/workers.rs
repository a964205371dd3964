//! The threads that poll operations of calls with events. They start when they are needed, are bounded, and end with
//! the last `daos_fini`. An operation that waits for an answer keeps no thread, so thousands can be in progress.
//!
//! An operation on a local pool is done when it is first polled. If it has to wait for another process meanwhile (for
//! the lock of an index, or for space), it keeps the thread that polls it. Work that blocks as a rule runs on threads
//! of its own ([`super::blocking()`]).
use crate::per_process::PerProcess;
use esker::block_on;
use std::cell::Cell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};
use std::thread::JoinHandle;

type Operation = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Most operations in progress. Beyond it, a call runs its operation itself before it returns.
const UNDER_WAY_MAX: usize = 1 << 16;
const THREADS_MIN: usize = 4;
const THREADS_MAX: usize = 16;

/// An operation in progress.
struct Job {
    /// One of the constants below.
    state: AtomicU8,
    /// Locked by the thread that polls it, so no thread waits for the lock. `None` once it is done.
    operation: Mutex<Option<Operation>>,
    workers: Arc<Workers>,
}

/// State of a job that waits for its waker.
const ASLEEP: u8 = 0;
/// State of a job in the queue of jobs to poll.
const READY: u8 = 1;
/// State of a job that a thread polls.
const POLLED: u8 = 2;
/// State of a job that was woken while a thread polls it: the thread must poll it once more.
const POLLED_AND_WOKEN: u8 = 3;

impl Wake for Job {
    /// Queues a job that waits, or makes the thread that polls the job poll it once more. A job in the queue stays
    /// there.
    fn wake(self: Arc<Self>) {
        let woken = |state| match state {
            ASLEEP => Some(READY),
            POLLED => Some(POLLED_AND_WOKEN),
            _ => None,
        };
        if self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, woken) == Ok(ASLEEP) {
            let workers = Arc::clone(&self.workers);
            workers.push(self);
        }
    }
}

impl Job {
    /// An operation that is ready to be polled by a worker.
    fn new(operation: impl Future<Output = ()> + Send + 'static, workers: &Arc<Workers>) -> Self {
        Self {
            state: AtomicU8::new(READY),
            operation: Mutex::new(Some(Box::pin(operation) as Operation)),
            workers: Arc::clone(workers),
        }
    }

    /// Polls the operation; true if it is complete.
    fn poll(self: &Arc<Self>) -> bool {
        self.state.store(POLLED, Ordering::Release);
        let mut operation = self.operation.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(under_way) = operation.as_mut() else { return false };
        let waker = Waker::from(Arc::clone(self));
        let done = under_way.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        if done {
            *operation = None;
            return true;
        }
        drop(operation);
        let slept =
            self.state.compare_exchange(POLLED, ASLEEP, Ordering::AcqRel, Ordering::Acquire);
        // It was woken while it was polled.
        if slept.is_err() {
            self.state.store(READY, Ordering::Release);
            self.workers.push(Arc::clone(self));
        }
        false
    }
}

#[derive(Default)]
struct Workers {
    jobs: Mutex<Jobs>,
    wake: Condvar,
}

#[derive(Default)]
struct Jobs {
    /// Jobs to poll.
    ready: VecDeque<Arc<Job>>,
    /// Operations in progress.
    under_way: usize,
    /// Threads that wait for a job.
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    ending: bool,
    /// Operations in progress when all others are done: 1 if a callback of one, on its thread, waits for the others.
    last: usize,
}

impl Jobs {
    /// True if the threads are to end, and no operation is in progress for which they are needed.
    fn is_over(&self) -> bool {
        self.ending && self.under_way <= self.last
    }
}

/// One set of threads for each process: the child of a fork does not have the threads of its parent.
static WORKERS: PerProcess<Workers> = PerProcess::new();

/// Starts an operation, which a worker drives to its end. If none can take it, the calling thread does so before this
/// returns.
pub(super) fn submit(operation: impl Future<Output = ()> + Send + 'static) {
    let workers = WORKERS.get();
    match workers.admit() {
        true => {
            let job = Arc::new(Job::new(operation, &workers));
            workers.push(job);
        }
        false => block_on(operation),
    }
}

/// Waits for all operations in progress, then ends all threads. In a callback on one of these threads, waits for all other
/// operations and threads.
pub(super) fn stop() {
    let Some(workers) = WORKERS.take() else { return };
    let threads = {
        let mut jobs = workers.jobs();
        jobs.ending = true;
        let this = std::thread::current().id();
        jobs.last = usize::from(jobs.threads.iter().any(|thread| thread.thread().id() == this));
        std::mem::take(&mut jobs.threads)
    };
    workers.wake.notify_all();
    join(threads);
}

/// Waits for the end of threads, except of the calling one, which cannot wait for itself.
pub(super) fn join(threads: Vec<JoinHandle<()>>) {
    let this = std::thread::current().id();
    for thread in threads.into_iter().filter(|thread| thread.thread().id() != this) {
        // An error only says that the thread has panicked.
        let _ = thread.join();
    }
}

thread_local! {
    /// Whether [`spawn`] has started this thread.
    static IS_SPAWNED: Cell<bool> = const { Cell::new(false) };
}

/// True on a thread for which [`stop`] waits, such as in the callback of an event.
pub(crate) fn is_own_thread() -> bool {
    IS_SPAWNED.get()
}

/// Starts a thread with all signals blocked, so that handlers of the program run on its own threads. `None` if the
/// system has no thread left.
pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    let body = || {
        IS_SPAWNED.set(true);
        work();
    };
    esker_os::without_signals(|| builder.spawn(body).ok())
}

impl Workers {
    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more operation, and starts a thread if all have work. False if no thread could be started, or
    /// [`UNDER_WAY_MAX`] operations are in progress.
    fn admit(self: &Arc<Self>) -> bool {
        let mut jobs = self.jobs();
        if jobs.idle <= jobs.ready.len() && jobs.threads.len() < threads_max() {
            let workers = Arc::clone(self);
            jobs.threads.extend(spawn("esker-event", move || workers.work()));
        }
        let admitted = !jobs.threads.is_empty() && jobs.under_way < UNDER_WAY_MAX;
        jobs.under_way += usize::from(admitted);
        admitted
    }

    /// Queues a job to be polled, and wakes a thread.
    fn push(&self, job: Arc<Job>) {
        self.jobs().ready.push_back(job);
        self.wake.notify_one();
    }

    /// Body of a thread: polls jobs until the threads are to end.
    fn work(&self) {
        while let Some(job) = self.next() {
            if job.poll() {
                self.end_one();
            }
        }
    }

    /// Counts an operation as done, and wakes the thread that waits for the end of all.
    fn end_one(&self) {
        let mut jobs = self.jobs();
        jobs.under_way -= 1;
        if jobs.is_over() {
            self.wake.notify_all();
        }
    }

    /// The next operation to be polled; `None` once the threads are to end and nothing is in progress.
    fn next(&self) -> Option<Arc<Job>> {
        let mut jobs = self.jobs();
        loop {
            if let Some(job) = jobs.ready.pop_front() {
                return Some(job);
            }
            if jobs.is_over() {
                return None;
            }
            jobs.idle += 1;
            jobs = self.wake.wait(jobs).unwrap_or_else(PoisonError::into_inner);
            jobs.idle -= 1;
        }
    }
}

/// Most threads of this process: two for each core, within [`THREADS_MIN`] and [`THREADS_MAX`].
fn threads_max() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (2 * cores).clamp(THREADS_MIN, THREADS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;
    use std::task::Poll;

    const OPERATIONS: usize = 5000;

    /// Barrier for operations: each waits until all of them wait.
    #[derive(Default)]
    struct Barrier {
        arrived: AtomicUsize,
        wakers: Mutex<Vec<Waker>>,
    }

    impl Barrier {
        async fn wait(&self) {
            let mut has_arrived = false;
            poll_fn(|context| {
                let mut wakers = self.wakers.lock().unwrap();
                if !std::mem::replace(&mut has_arrived, true) {
                    self.arrived.fetch_add(1, Ordering::SeqCst);
                }
                if self.arrived.load(Ordering::SeqCst) == OPERATIONS {
                    wakers.drain(..).for_each(Waker::wake);
                    return Poll::Ready(());
                }
                wakers.push(context.waker().clone());
                Poll::Pending
            })
            .await;
        }
    }

    #[test]
    fn thousands_of_operations_progress_on_a_few_threads() {
        let barrier = Arc::new(Barrier::default());
        let (done, ended) = mpsc::channel();
        for number in 0..OPERATIONS {
            let (barrier, done) = (Arc::clone(&barrier), done.clone());
            submit(async move {
                barrier.wait().await;
                done.send(number).unwrap();
            });
        }
        drop(done);
        let threads = WORKERS.get().jobs().threads.len();
        assert!(threads <= threads_max(), "{threads} threads");
        assert_eq!(ended.iter().count(), OPERATIONS, "each waits for all others");
    }
}
