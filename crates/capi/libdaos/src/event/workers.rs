//! The threads that run calls with events. They start when they are needed, are bounded, and end
//! with the last `daos_fini`.
use crate::per_process::PerProcess;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Work for another thread.
pub(super) type Job = Box<dyn FnOnce() + Send>;

/// Jobs that may wait; one more is done by the thread that brings it.
const WAITING_MAX: usize = 1 << 16;
const THREADS_MIN: usize = 4;
const THREADS_MAX: usize = 16;

#[derive(Default)]
struct Workers {
    jobs: Mutex<Jobs>,
    wake: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    ending: bool,
}

/// Threads do not follow their process into a child.
static WORKERS: PerProcess<Workers> = PerProcess::new();

/// Has a job done by some thread.
pub(super) fn submit(job: Job) {
    if let Some(job) = WORKERS.get().take(job) {
        job();
    }
}

/// Does what waits and ends all threads.
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

    /// Gives the job back where there is no thread or no room for it.
    fn take(self: &Arc<Self>, job: Job) -> Option<Job> {
        let mut jobs = self.jobs();
        if jobs.idle <= jobs.waiting.len() && jobs.threads.len() < threads_max() {
            jobs.threads.extend(self.spawn());
        }
        if jobs.threads.is_empty() || jobs.waiting.len() >= WAITING_MAX {
            return Some(job);
        }
        jobs.waiting.push_back(job);
        self.wake.notify_one();
        None
    }

    fn spawn(self: &Arc<Self>) -> Option<JoinHandle<()>> {
        let workers = Arc::clone(self);
        let builder = std::thread::Builder::new().name("esker-event".to_owned());
        without_signals(|| builder.spawn(move || workers.work()).ok())
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            job();
        }
    }

    fn next(&self) -> Option<Job> {
        let mut jobs = self.jobs();
        loop {
            if let Some(job) = jobs.waiting.pop_front() {
                return Some(job);
            }
            if jobs.ending {
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
