//! A queue of work for workers.
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A queue that ends when it is closed and all jobs are done, including those that jobs added.
pub(super) struct Queue<J> {
    state: Mutex<QueueState<J>>,
    /// A job was added, or the queue was closed.
    added: Condvar,
    /// A job was taken.
    removed: Condvar,
    max: usize,
}

struct QueueState<J> {
    jobs: VecDeque<J>,
    /// Jobs that are being done.
    busy: usize,
    is_open: bool,
}

impl<J> Queue<J> {
    /// An empty queue of at most `max` jobs.
    pub(super) fn new(max: usize) -> Self {
        let state = QueueState { jobs: VecDeque::with_capacity(max), busy: 0, is_open: true };
        Self { state: Mutex::new(state), added: Condvar::new(), removed: Condvar::new(), max }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job; waits while the queue is full.
    pub(super) fn push(&self, job: J) {
        let full = |state: &mut QueueState<J>| state.jobs.len() >= self.max;
        let state = self.removed.wait_while(self.lock(), full);
        state.unwrap_or_else(PoisonError::into_inner).jobs.push_back(job);
        self.added.notify_one();
    }

    /// Adds a job at the front; returns it if the queue is full. Workers use this, because a wait for room could
    /// deadlock.
    pub(super) fn try_push(&self, job: J) -> Result<(), J> {
        let mut state = self.lock();
        if state.jobs.len() >= self.max {
            return Err(job);
        }
        state.jobs.push_front(job);
        self.added.notify_one();
        Ok(())
    }

    /// Closes the queue: only jobs add jobs from now on.
    pub(super) fn close(&self) {
        self.lock().is_open = false;
        self.added.notify_all();
    }

    /// Runs jobs with `work` until the queue ends.
    pub(super) fn drain(&self, mut work: impl FnMut(J)) {
        while let Some(job) = self.pop() {
            work(job);
            self.finish_job();
        }
    }

    /// Takes a job, and waits for one if necessary. `None` once the queue is closed and no job can be added.
    fn pop(&self) -> Option<J> {
        let may_come =
            |state: &mut QueueState<J>| state.jobs.is_empty() && (state.is_open || state.busy > 0);
        let state = self.added.wait_while(self.lock(), may_come);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        let job = state.jobs.pop_front()?;
        state.busy += 1;
        self.removed.notify_one();
        Some(job)
    }

    /// Counts a finished job.
    fn finish_job(&self) {
        let mut state = self.lock();
        state.busy -= 1;
        if state.busy == 0 && state.jobs.is_empty() && !state.is_open {
            self.added.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_job_runs_once_including_jobs_added_by_jobs() {
        let (queue, done) = (Queue::new(3), AtomicUsize::new(0));
        let work = |job: usize| {
            let more = (0..job).filter(|_| queue.try_push(0).is_err()).count();
            done.fetch_add(1 + more, Ordering::Relaxed);
        };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| queue.drain(work));
            }
            (0..100).for_each(|_| queue.push(2));
            queue.close();
        });
        assert_eq!(done.into_inner(), 300);
    }
}
