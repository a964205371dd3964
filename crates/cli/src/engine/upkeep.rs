//! Maintenance of the part that an engine serves, as its clients ask for it.
use super::service::found;
use esker::Native;
use esker::types::{Error, ErrorKind, Result};
use esker_store::Pool;
use esker_wire::message::{Maintained, Maintenance};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::Notify;

/// How long the connections of an engine that has ended may still use the part.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);

/// How often to look whether they do.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// One maintenance at a time, under the number of whoever asked for it.
#[derive(Default)]
pub(super) struct Upkeep {
    now: Mutex<Option<(u64, State)>>,
    /// Told when the engine is to end for a repair.
    repair: Notify,
}

enum State {
    Working(JoinHandle<Result<Maintained>>),
    /// The engine is about to end, or has ended.
    Repairing,
    Done(Result<Maintained>),
}

impl State {
    fn is_finished(&self) -> bool {
        match self {
            Self::Working(thread) => thread.is_finished(),
            Self::Repairing => false,
            Self::Done(_) => true,
        }
    }

    fn result(self) -> Option<Result<Maintained>> {
        let defect =
            |_| Err(Error::new(ErrorKind::Corrupt, "maintenance met a defect of the program"));
        match self {
            Self::Working(thread) => Some(thread.join().unwrap_or_else(defect)),
            Self::Repairing => None,
            Self::Done(done) => Some(done),
        }
    }
}

impl Upkeep {
    fn now(&self) -> MutexGuard<'_, Option<(u64, State)>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins, or tells what became of it. A result that nobody has asked for is forgotten when something else begins.
    pub(super) fn ask(
        &self,
        part: &Path,
        what: Maintenance,
        number: u64,
    ) -> Result<Option<Maintained>> {
        let mut now = self.now();
        match now.take() {
            Some((asked, state)) if asked == number && state.is_finished() => {
                return state.result().transpose();
            }
            Some((asked, state)) if !state.is_finished() => {
                *now = Some((asked, state));
                return if asked == number { Ok(None) } else { Err(busy()) };
            }
            _ => {}
        }
        let part = part.to_owned();
        let state = match what {
            Maintenance::Scrub => State::Working(std::thread::spawn(move || scrub(&part))),
            Maintenance::Compact => State::Working(std::thread::spawn(move || compact(&part))),
            Maintenance::Repair => {
                self.repair.notify_one();
                State::Repairing
            }
        };
        *now = Some((number, state));
        Ok(None)
    }

    /// Returns when the part is to be repaired.
    pub(super) async fn repair_wanted(&self) {
        self.repair.notified().await;
    }

    /// Repairs the part, which nobody else may have open, after the engine has ended.
    pub(super) async fn repair(&self, part: &Path, pool: Arc<Native>) {
        let alone = async {
            while Arc::strong_count(&pool) > 1 {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        // If it is over, others still have the part, and that is said below.
        let _ = tokio::time::timeout(RELEASE_TIMEOUT, alone).await;
        let done = match Arc::try_unwrap(pool) {
            Ok(pool) => {
                drop(pool);
                let part = part.to_owned();
                let repaired = tokio::task::spawn_blocking(move || repair(&part)).await;
                repaired
                    .unwrap_or_else(|error| Err(Error::new(ErrorKind::Corrupt, error.to_string())))
            }
            Err(_) => Err(used()),
        };
        if let Some((_, state)) = &mut *self.now() {
            *state = State::Done(done);
        }
    }
}

#[cold]
fn used() -> Error {
    Error::new(ErrorKind::Busy, "clients still use the part: end them, or try again later")
}

#[cold]
fn busy() -> Error {
    Error::new(ErrorKind::Busy, "the part is being maintained already: try again later")
}

fn repair(part: &Path) -> Result<Maintained> {
    let mut report = Pool::check(part, true, &mut |_, _| ())?;
    let repaired = std::mem::take(&mut report.repaired);
    Ok(Maintained::Repaired(found(report), repaired))
}

fn scrub(part: &Path) -> Result<Maintained> {
    Pool::check_pages(part)?;
    let report = Pool::open(part)?.opened()?.scrub(&mut |_, _| ())?;
    Ok(Maintained::Scrubbed(report.records, report.bytes, report.damaged))
}

fn compact(part: &Path) -> Result<Maintained> {
    let freed = Pool::open(part)?.opened()?.compact(&mut |_, _| ())?;
    Ok(Maintained::Compacted(freed))
}
