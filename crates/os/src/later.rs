//! Work that nobody waits for, and that is cheaper if more of its kind is done with it.
use crate::{PerProcess, without_signals};
use esker_types::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

/// How long work waits before it is done.
pub const LATER: Duration = Duration::from_millis(20);

type Work = Box<dyn FnOnce() + Send>;

/// Leads to the thread of this process. A child made by fork starts its own, and does none of its parent's work.
static QUEUE: PerProcess<Sender<Work>> = PerProcess::empty();

/// Does `work` on a thread of its own after [`LATER`], and after all that was handed over before. It is done at once if the
/// system starts no thread, and not at all if the process ends before.
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

fn start() -> Result<Sender<Work>> {
    let (queue, received) = channel();
    let named = Builder::new().name("esker-later".to_owned());
    without_signals(|| named.spawn(move || serve(&received)))
        .map(|_| queue)
        .map_err(|error| Error::io("starting a thread", &error))
}

fn serve(queue: &Receiver<Work>) {
    while let Ok(first) = queue.recv() {
        std::thread::sleep(LATER);
        for work in std::iter::once(first).chain(queue.try_iter()) {
            // What others handed over is done whatever becomes of this.
            let _ = catch_unwind(AssertUnwindSafe(work));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_in_order_whatever_becomes_of_what_was_before() {
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
