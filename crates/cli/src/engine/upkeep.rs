//! Maintenance of the pool that an engine serves: scrub, compaction and repair at the request of clients.
use super::service::found;
use esker::Native;
use esker::types::{Error, ErrorKind, Result};
use esker_os::start_thread;
use esker_store::Pool;
use esker_wire::message::{Maintained, Maintenance};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::Notify;

/// How long connections of an engine that has ended may still use the pool.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval at which to check that connections have released the pool.
const RELEASE_POLL: Duration = Duration::from_millis(5);

/// The maintenance that runs or ran last, with the number of its request. One runs at a time.
#[derive(Default)]
pub(super) struct Upkeep {
    now: Mutex<Option<(u64, State)>>,
    /// Notified when the engine must end for a repair.
    repair: Notify,
}

enum State {
    Working(JoinHandle<Result<Maintained>>),
    /// The engine is about to end, or has ended.
    Repairing,
    Done(Result<Maintained>),
}

impl State {
    /// Whether the work has ended, so that another may begin.
    fn is_finished(&self) -> bool {
        match self {
            Self::Working(thread) => thread.is_finished(),
            Self::Repairing => false,
            Self::Done(_) => true,
        }
    }

    /// Result of maintenance, once it has ended.
    fn result(self) -> Option<Result<Maintained>> {
        let defect =
            |_| Err(Error::new(ErrorKind::Corrupt, "maintenance failed: a defect of the program"));
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

    /// Starts a maintenance, or returns the result of the one with this number; `None` while it runs. The next
    /// maintenance discards a result that no client has requested.
    pub(super) fn start_or_poll(
        &self,
        directory: &Path,
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
                return if asked == number { Ok(None) } else { Err(busy_error()) };
            }
            _ => {}
        }
        let directory = directory.to_owned();
        let state = match what {
            Maintenance::Scrub => State::Working(start_thread(move || scrub(&directory))?),
            Maintenance::Compact => State::Working(start_thread(move || compact(&directory))?),
            Maintenance::Repair => {
                self.repair.notify_one();
                State::Repairing
            }
        };
        *now = Some((number, state));
        Ok(None)
    }

    /// Returns when a client has requested a repair.
    pub(super) async fn repair_wanted(&self) {
        self.repair.notified().await;
    }

    /// Repairs the node's pool after the engine has ended. No other process may have it open.
    pub(super) async fn repair(&self, directory: &Path, pool: Arc<Native>) {
        let alone = async {
            while Arc::strong_count(&pool) > 1 {
                tokio::time::sleep(RELEASE_POLL).await;
            }
        };
        // After the timeout, connections still use the pool: the error below says so.
        let _ = tokio::time::timeout(RELEASE_TIMEOUT, alone).await;
        let done = match Arc::try_unwrap(pool) {
            Ok(pool) => {
                drop(pool);
                let directory = directory.to_owned();
                let repaired = tokio::task::spawn_blocking(move || repair(&directory)).await;
                repaired
                    .unwrap_or_else(|error| Err(Error::new(ErrorKind::Corrupt, error.to_string())))
            }
            Err(_) => Err(in_use_error()),
        };
        if let Some((_, state)) = &mut *self.now() {
            *state = State::Done(done);
        }
    }
}

#[cold]
fn in_use_error() -> Error {
    Error::new(
        ErrorKind::Busy,
        "clients still use the pool of the node: end them, or try again later",
    )
}

#[cold]
fn busy_error() -> Error {
    Error::new(ErrorKind::Busy, "the pool of the node is being maintained already: try again later")
}

/// Checks and repairs a pool that is closed.
fn repair(directory: &Path) -> Result<Maintained> {
    let mut report = Pool::check(directory, true, &mut |_, _| ())?;
    let repaired = std::mem::take(&mut report.repaired);
    Ok(Maintained::Repaired(found(report), repaired))
}

/// Reads all data of a pool and verifies the checksums.
fn scrub(directory: &Path) -> Result<Maintained> {
    Pool::check_pages(directory)?;
    let report = Pool::open(directory)?.opened()?.scrub(&mut |_, _| ())?;
    Ok(Maintained::Scrubbed(report.records, report.bytes, report.damaged))
}

fn compact(directory: &Path) -> Result<Maintained> {
    let freed = Pool::open(directory)?.opened()?.compact(&mut |_, _| ())?;
    Ok(Maintained::Compacted(freed))
}
