//! The threads that drive calls with events. They start when they are needed, are bounded, and end with the last
//! `daos_fini`. A call that waits for an answer keeps no thread, so any number of them may be under way.
use crate::per_process::PerProcess;
use esker::block_on;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};
use std::thread::JoinHandle;

type Operation = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Operations that may be under way; one more is waited for by the thread that brings it.
const UNDER_WAY_MAX: usize = 1 << 16;
const THREADS_MIN: usize = 4;
const THREADS_MAX: usize = 16;

/// An operation under way.
struct Job {
    /// Taken by the thread that polls it; gone when it is done.
    operation: Mutex<Option<Operation>>,
    workers: Arc<Workers>,
}

impl Wake for Job {
    fn wake(self: Arc<Self>) {
        let workers = Arc::clone(&self.workers);
        workers.push(self);
    }
}

impl Job {
    /// Polls it; true where it is done, by this thread. A waker that comes meanwhile has it polled once more, by a thread
    /// that waits here.
    fn poll(self: &Arc<Self>) -> bool {
        let mut operation = self.operation.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(under_way) = operation.as_mut() else { return false };
        let waker = Waker::from(Arc::clone(self));
        let done = under_way.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        if done {
            *operation = None;
        }
        done
    }
}

#[derive(Default)]
struct Workers {
    jobs: Mutex<Jobs>,
    wake: Condvar,
}

#[derive(Default)]
struct Jobs {
    /// To be polled.
    ready: VecDeque<Arc<Job>>,
    under_way: usize,
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    ending: bool,
}

/// Threads do not follow their process into a child.
static WORKERS: PerProcess<Workers> = PerProcess::new();

/// Has an operation driven to its end.
pub(super) fn submit(operation: impl Future<Output = ()> + Send + 'static) {
    let workers = WORKERS.get();
    match workers.admit() {
        true => {
            let operation = Mutex::new(Some(Box::pin(operation) as Operation));
            let job = Arc::new(Job { operation, workers: Arc::clone(&workers) });
            workers.push(job);
        }
        false => block_on(operation),
    }
}

/// Waits for what is under way and ends all threads.
pub(crate) fn stop() {
    let Some(workers) = WORKERS.take() else { return };
    let threads = {
        let mut jobs = workers.jobs();
        jobs.ending = true;
        std::mem::take(&mut jobs.threads)
    };
    workers.wake.notify_all();
    let this = std::thread::current().id();
    for thread in threads.into_iter().filter(|thread| thread.thread().id() != this) {
        let _ = thread.join();
    }
}

impl Workers {
    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more operation, and starts a thread if all have work. False where there is no thread, or no room.
    fn admit(self: &Arc<Self>) -> bool {
        let mut jobs = self.jobs();
        if jobs.idle <= jobs.ready.len() && jobs.threads.len() < threads_max() {
            jobs.threads.extend(self.spawn());
        }
        let admitted = !jobs.threads.is_empty() && jobs.under_way < UNDER_WAY_MAX;
        jobs.under_way += usize::from(admitted);
        admitted
    }

    fn push(&self, job: Arc<Job>) {
        self.jobs().ready.push_back(job);
        self.wake.notify_one();
    }

    fn spawn(self: &Arc<Self>) -> Option<JoinHandle<()>> {
        let workers = Arc::clone(self);
        let builder = std::thread::Builder::new().name("esker-event".to_owned());
        without_signals(|| builder.spawn(move || workers.work()).ok())
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            if job.poll() {
                self.end_one();
            }
        }
    }

    fn end_one(&self) {
        let mut jobs = self.jobs();
        jobs.under_way -= 1;
        if jobs.ending && jobs.under_way == 0 {
            self.wake.notify_all();
        }
    }

    /// The next operation to be polled; `None` once the threads are to end and nothing is under way.
    fn next(&self) -> Option<Arc<Job>> {
        let mut jobs = self.jobs();
        loop {
            if let Some(job) = jobs.ready.pop_front() {
                return Some(job);
            }
            if jobs.ending && jobs.under_way == 0 {
                return None;
            }
            jobs.idle += 1;
            jobs = self.wake.wait(jobs).unwrap_or_else(PoisonError::into_inner);
            jobs.idle -= 1;
        }
    }
}

fn threads_max() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (2 * cores).clamp(THREADS_MIN, THREADS_MAX)
}

/// Threads begin with the signals of the one that makes them blocked; signals are the host's.
fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    if cfg!(miri) {
        return work();
    }
    // SAFETY: a signal set of zeros is a valid value to write over.
    let (mut all, mut before) = unsafe { std::mem::zeroed::<(libc::sigset_t, libc::sigset_t)>() };
    // SAFETY: both sets are of this function.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
    }
    let result = work();
    // SAFETY: the set is the one of before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::task::Poll;

    const OPERATIONS: usize = 5000;

    /// Those who wait until all have come.
    #[derive(Default)]
    struct Gathering {
        come: AtomicUsize,
        wakers: Mutex<Vec<Waker>>,
    }

    impl Gathering {
        async fn wait(&self) {
            let mut has_come = false;
            poll_fn(|context| {
                let mut wakers = self.wakers.lock().unwrap();
                if !std::mem::replace(&mut has_come, true) {
                    self.come.fetch_add(1, Ordering::SeqCst);
                }
                if self.come.load(Ordering::SeqCst) == OPERATIONS {
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
    fn thousands_are_under_way_on_a_few_threads() {
        let gathering = Arc::new(Gathering::default());
        let (done, ended) = mpsc::channel();
        for number in 0..OPERATIONS {
            let (gathering, done) = (Arc::clone(&gathering), done.clone());
            submit(async move {
                gathering.wait().await;
                done.send(number).unwrap();
            });
        }
        drop(done);
        let threads = WORKERS.get().jobs().threads.len();
        assert!(threads <= threads_max(), "{threads} threads");
        assert_eq!(ended.iter().count(), OPERATIONS, "each waits for all others");
    }
}
