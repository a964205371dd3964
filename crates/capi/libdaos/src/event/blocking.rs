//! Threads for work that blocks: opening and closing the files of a pool. The threads that poll operations must not do
//! such work, because other operations would wait for it.
use crate::boundary::guard;
use crate::code::{Code, Result};
use crate::per_process::PerProcess;
use esker_os::executor::may_block;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::thread::JoinHandle;

type Work = Box<dyn FnOnce() + Send>;

/// Most threads for blocking work. Further work waits in a queue.
const THREADS_MAX: usize = 4;

/// Does work that blocks. A call without an event does it on its own thread, which only waits for that call. Otherwise
/// one of the threads for blocking work does it.
///
/// # Errors
/// The errors of the work; [`Code::MISC`] if it panics, [`Code::NOMEM`] if no thread can be started.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    if may_block() {
        return work();
    }
    let answer = Arc::new(Mutex::new(Answer { result: None, waker: None }));
    let given = Arc::clone(&answer);
    THREADS.get().submit(Box::new(move || give(&given, guard(Err(Code::MISC), work))))?;
    poll_fn(|context| {
        let mut answer = answer.lock().unwrap_or_else(PoisonError::into_inner);
        match answer.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                answer.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    })
    .await
}

/// Drops a value whose end blocks, such as the last handle of a pool.
///
/// # Errors
/// The errors of [`blocking`].
pub(crate) async fn drop_blocking<T: Send + 'static>(value: T) -> Result<()> {
    blocking(move || {
        drop(value);
        Ok(())
    })
    .await
}

/// Result of the work once it has ended, and the waker of the task that waits for it.
struct Answer<T> {
    result: Option<Result<T>>,
    waker: Option<Waker>,
}

/// Stores the result of the work, and wakes the task that waits for it.
fn give<T>(answer: &Mutex<Answer<T>>, result: Result<T>) {
    let waker = {
        let mut answer = answer.lock().unwrap_or_else(PoisonError::into_inner);
        answer.result = Some(result);
        answer.waker.take()
    };
    waker.into_iter().for_each(Waker::wake);
}

#[derive(Default)]
struct Threads {
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Default)]
struct Queue {
    /// Work that no thread has begun.
    waiting: VecDeque<Work>,
    /// Threads that wait for work.
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    /// The threads end once no work waits.
    ending: bool,
}

/// One set of threads for each process: the child of a fork does not have the threads of its parent.
static THREADS: PerProcess<Threads> = PerProcess::new();

/// Ends the threads. Operations that wait for blocking work have ended by then.
pub(super) fn stop() {
    let Some(threads) = THREADS.take() else { return };
    let handles = {
        let mut queue = threads.queue();
        queue.ending = true;
        std::mem::take(&mut queue.threads)
    };
    threads.wake.notify_all();
    super::workers::join(handles);
}

impl Threads {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues work, and starts a thread if all are busy and there are fewer than [`THREADS_MAX`]. `NOMEM` if there is
    /// none at all.
    fn submit(self: Arc<Self>, work: Work) -> Result<()> {
        let mut queue = self.queue();
        if queue.idle <= queue.waiting.len() && queue.threads.len() < THREADS_MAX {
            let threads = Arc::clone(&self);
            let spawned = super::workers::spawn("esker-blocking", move || threads.work());
            queue.threads.extend(spawned);
        }
        if queue.threads.is_empty() {
            return Err(Code::NOMEM);
        }
        queue.waiting.push_back(work);
        drop(queue);
        self.wake.notify_one();
        Ok(())
    }

    /// Body of a thread: does the work in the queue until the threads are to end.
    fn work(&self) {
        while let Some(work) = self.next() {
            work();
        }
    }

    /// The next work; `None` once the threads are to end.
    fn next(&self) -> Option<Work> {
        let mut queue = self.queue();
        loop {
            if let Some(work) = queue.waiting.pop_front() {
                return Some(work);
            }
            if queue.ending {
                return None;
            }
            queue.idle += 1;
            queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::workers;
    use super::*;
    use std::sync::mpsc;

    /// Far more than the threads of any kind, so that each of those would block if it did the work itself.
    const WORKS: usize = 100;

    #[test]
    fn operations_progress_while_work_blocks() {
        let (open, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let (done, ended) = mpsc::channel();
        for _ in 0..WORKS {
            let (gate, done) = (Arc::clone(&gate), done.clone());
            workers::submit(async move {
                let passed = blocking(move || gate.lock().unwrap().recv().map_err(|_| Code::MISC));
                done.send(passed.await).unwrap();
            });
        }
        let (free, went_on) = mpsc::channel();
        workers::submit(async move { free.send(()).unwrap() });
        went_on.recv().unwrap();
        assert!(ended.try_recv().is_err(), "the gate is shut");
        (0..WORKS).for_each(|_| open.send(()).unwrap());
        drop(done);
        assert_eq!(ended.iter().filter(Result::is_ok).count(), WORKS);
        assert!(THREADS.get().queue().threads.len() <= THREADS_MAX);
    }

    #[test]
    fn panic_in_blocking_work_becomes_an_error() {
        let (done, ended) = mpsc::channel();
        let work = || -> Result<()> { std::panic::panic_any("thrown by a test") };
        workers::submit(async move { done.send(blocking(work).await).unwrap() });
        assert_eq!(ended.recv().unwrap(), Err(Code::MISC));
    }

    #[test]
    fn a_call_without_an_event_does_the_work_itself() {
        let caller = std::thread::current().id();
        let work = || Ok(std::thread::current().id());
        assert_eq!(esker::block_on(blocking(work)), Ok(caller));
    }
}
