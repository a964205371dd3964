//! Many files at once, each made visible in its turn.
use super::files::{Outcome, Run};
use crate::progress::Bar;
use esker::types::{Error, Result};
use esker_fields::{FieldStore, FieldWriter};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Most files that are archived at once.
pub(super) const JOBS_MAX: i64 = 64;

/// Files that are archived at once where nobody says how many: more hardly go faster.
const JOBS_USUAL_MAX: usize = 8;

/// As many files at once as this machine has processors, within reason.
pub(super) fn usual_jobs() -> usize {
    std::thread::available_parallelism().map_or(1, |all| all.get().min(JOBS_USUAL_MAX))
}

/// How far all is, for those who wait.
pub(super) struct Progress {
    bar: Bar,
    total: u64,
    done: AtomicU64,
    stopped: AtomicBool,
}

impl Progress {
    /// Nothing of `total` bytes done yet.
    pub(super) fn new(what: &'static str, total: u64) -> Self {
        let (done, stopped) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { bar: Bar::bytes(what), total, done, stopped }
    }

    /// Notes bytes that are done; false where the rest is not wanted any more.
    pub(super) fn pass(&self, bytes: u64) -> bool {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.bar.update(done.min(self.total), self.total);
        !self.stopped.load(Ordering::Relaxed)
    }
}

/// How files are archived: what is archived of one waits for the flush of its writer.
pub(super) struct Plan<'a, W> {
    pub(super) store: &'a FieldStore,
    pub(super) files: &'a [PathBuf],
    pub(super) jobs: usize,
    /// What is there is looked at, so a file has to know what the files before it archived.
    pub(super) resume: bool,
    pub(super) progress: Progress,
    pub(super) work: W,
}

/// Whose turn it is.
struct Turns {
    next: usize,
    run: Run,
    failed: Option<Error>,
}

impl<W> Plan<'_, W>
where
    W: Fn(&mut FieldWriter, &Path, &Progress) -> Result<Outcome> + Sync,
{
    /// Archives all files. They become visible one after the other in their order, whichever is done first: of two
    /// fields under one key that of the later file counts.
    ///
    /// # Errors
    /// The first, in the order of the files, that is no fault of a file; the files before it are archived.
    pub(super) fn run(self) -> Result<Run> {
        let turns = Mutex::new(Turns { next: 0, run: Run::default(), failed: None });
        let (changed, taken) = (Condvar::new(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.min(self.files.len()) {
                scope.spawn(|| {
                    let mut writer = self.store.writer();
                    while let number = taken.fetch_add(1, Ordering::Relaxed)
                        && let Some(path) = self.files.get(number)
                        && self.file(&mut writer, (number, path), &turns, &changed)
                    {
                    }
                });
            }
        });
        let turns = turns.into_inner().unwrap_or_else(PoisonError::into_inner);
        turns.failed.map_or(Ok(turns.run), Err)
    }

    /// Archives one file, and makes it visible in its turn; false where one failed.
    fn file(
        &self,
        writer: &mut FieldWriter,
        (number, path): (usize, &Path),
        turns: &Mutex<Turns>,
        changed: &Condvar,
    ) -> bool {
        let outcome = (self.work)(writer, path, &self.progress);
        let waiting = |turns: &mut Turns| turns.next != number && turns.failed.is_none();
        let held = changed.wait_while(lock(turns), waiting);
        let mut turns = held.unwrap_or_else(PoisonError::into_inner);
        if turns.failed.is_some() {
            return false;
        }
        match outcome.and_then(|outcome| self.finish(writer, path, outcome, &turns.run)) {
            Ok(outcome) => turns.run.take(path, outcome),
            Err(error) => {
                turns.failed = Some(error);
                self.progress.stopped.store(true, Ordering::Relaxed);
            }
        }
        turns.next += 1;
        changed.notify_all();
        turns.failed.is_none()
    }

    /// Makes a file visible: anew where a file before it has changed what it found.
    fn finish(
        &self,
        writer: &mut FieldWriter,
        path: &Path,
        mut outcome: Outcome,
        before: &Run,
    ) -> Result<Outcome> {
        if self.resume && before.meets(&outcome) {
            *writer = self.store.writer();
            outcome = (self.work)(writer, path, &self.progress)?;
        }
        writer.flush()?;
        Ok(outcome)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
