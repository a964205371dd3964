//! Background work without a waiting caller, which is cheaper in batches.
use crate::{PerProcess, without_signals};
use esker_types::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

/// Delay of the work.
pub const LATER: Duration = Duration::from_millis(20);

type Work = Box<dyn FnOnce() + Send>;

/// Queue of the worker thread of this process. A child made by fork starts its own, and does none of its parent's work.
static QUEUE: PerProcess<Sender<Work>> = PerProcess::empty();

/// Runs `work` on a background thread about [`LATER`] from now, after all work handed over before. If the system starts
/// no thread, runs it at once. If the process ends before, the work is not done.
pub fn later(work: impl FnOnce() + Send + 'static) {
    let work: Work = Box::new(work);
    let unsent = match QUEUE.get_or_make(start) {
        Ok(queue) => queue.send(work).err().map(|unsent| unsent.0),
        Err(_) => Some(work),
    };
    if let Some(work) = unsent {
        work();
    }
}

/// Starts the thread that does the work, and returns its queue.
fn start() -> Result<Sender<Work>> {
    let (queue, received) = channel();
    let named = Builder::new().name("esker-later".to_owned());
    without_signals(|| named.spawn(move || serve(&received)))
        .map(|_| queue)
        .map_err(|error| Error::io("starting a thread", &error))
}

/// Does the work of the queue, each time after a pause in which more may arrive.
fn serve(queue: &Receiver<Work>) {
    while let Ok(first) = queue.recv() {
        std::thread::sleep(LATER);
        for work in std::iter::once(first).chain(queue.try_iter()) {
            // Other work is done even if this work panics.
            let _ = catch_unwind(AssertUnwindSafe(work));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_in_order_after_a_panic() {
        let (told, done) = channel();
        for number in 0..10 {
            let told = told.clone();
            later(move || {
                told.send(number).expect("a listener");
                assert_ne!(number, 3, "a defect of one");
            });
        }
        drop(told);
        assert_eq!(done.iter().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    }
}
