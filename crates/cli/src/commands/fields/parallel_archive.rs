//! Archiving several files at the same time. They become visible in the order in which they were given.
use super::files::{Archived, Input, Outcome};
use crate::output::Bar;
use esker::types::{Error, Result};
use esker_fields::{FieldStore, FieldWriter};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Maximum number of files that are archived at the same time.
pub(super) const JOBS_MAX: i64 = 64;

/// Maximum of the default: more are hardly faster.
const JOBS_USUAL_MAX: usize = 8;

/// Returns how many files are archived at the same time by default: one for each core, but at most [`JOBS_USUAL_MAX`].
pub(super) fn usual_jobs() -> usize {
    std::thread::available_parallelism().map_or(1, |all| all.get().min(JOBS_USUAL_MAX))
}

/// The progress of archiving all files.
pub(super) struct Progress {
    bar: Bar,
    total: u64,
    done: AtomicU64,
    stopped: AtomicBool,
}

impl Progress {
    /// No progress yet of `total` bytes.
    pub(super) fn new(what: &'static str, total: u64) -> Self {
        let (done, stopped) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { bar: Bar::bytes(what), total, done, stopped }
    }

    /// Adds `bytes` to the progress. False if an error has stopped the run: the caller then stops, too.
    pub(super) fn pass(&self, bytes: u64) -> bool {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.bar.update(done.min(self.total), self.total);
        !self.stopped.load(Ordering::Relaxed)
    }
}

/// How files are archived. The fields of a file become visible when its writer is flushed.
pub(super) struct Plan<'a, W> {
    pub(super) store: &'a FieldStore,
    pub(super) files: &'a [Input],
    pub(super) jobs: usize,
    /// Existing fields are skipped, so the result of a file depends on the files before it.
    pub(super) resume: bool,
    pub(super) progress: Progress,
    pub(super) work: W,
}

/// The file whose turn it is, and the result so far.
struct Turns {
    next: usize,
    archived: Archived,
    failed: Option<Error>,
}

impl<W> Plan<'_, W>
where
    W: Fn(&mut FieldWriter, &Input, &Progress) -> Result<Outcome> + Sync,
{
    /// Archives all files. They become visible in their order, whichever is done first: of two fields with the same
    /// key, the one of the later file counts.
    ///
    /// # Errors
    /// The first error, in the order of the files, that does not concern a single file. The files before it are
    /// archived.
    pub(super) fn run(self) -> Result<Archived> {
        let turns = Mutex::new(Turns { next: 0, archived: Archived::default(), failed: None });
        let (changed, taken) = (Condvar::new(), AtomicUsize::new(0));
        let archive = || {
            let mut writer = self.store.writer();
            while let number = taken.fetch_add(1, Ordering::Relaxed)
                && let Some(input) = self.files.get(number)
                && self.file(&mut writer, (number, input), &turns, &changed)
            {}
        };
        std::thread::scope(|scope| {
            esker_os::run_on_threads(scope, self.jobs.min(self.files.len()), archive);
        });
        let turns = turns.into_inner().unwrap_or_else(PoisonError::into_inner);
        turns.failed.map_or(Ok(turns.archived), Err)
    }

    /// Archives one file, and makes it visible in its turn; false if this or another file failed.
    fn file(
        &self,
        writer: &mut FieldWriter,
        (number, input): (usize, &Input),
        turns: &Mutex<Turns>,
        changed: &Condvar,
    ) -> bool {
        let outcome = (self.work)(writer, input, &self.progress);
        let waiting = |turns: &mut Turns| turns.next != number && turns.failed.is_none();
        let held = changed.wait_while(lock(turns), waiting);
        let mut turns = held.unwrap_or_else(PoisonError::into_inner);
        if turns.failed.is_some() {
            return false;
        }
        match outcome.and_then(|outcome| self.finish(writer, input, outcome, &turns.archived)) {
            Ok(outcome) => turns.archived.take(&input.path, outcome),
            Err(error) => {
                turns.failed = Some(error);
                self.progress.stopped.store(true, Ordering::Relaxed);
            }
        }
        turns.next += 1;
        changed.notify_all();
        turns.failed.is_none()
    }

    /// Flushes the fields of a file, which makes them visible. If an earlier file has archived one of its keys
    /// meanwhile, and `--resume` is given, archives the file again first, because fields that it skipped may have
    /// changed.
    fn finish(
        &self,
        writer: &mut FieldWriter,
        input: &Input,
        mut outcome: Outcome,
        before: &Archived,
    ) -> Result<Outcome> {
        if self.resume && before.meets(&outcome) {
            // A new writer: the fields that the old one has not flushed are never visible.
            *writer = self.store.writer();
            outcome = (self.work)(writer, input, &self.progress)?;
        }
        writer.flush()?;
        Ok(outcome)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
