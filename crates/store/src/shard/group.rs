//! Group commit: threads of one process that wait for a sync of the same durable target share one transaction, or one
//! sync of the redo log. Targets that need no sync commit each change separately.
use super::Target;
use super::buffer::PutBatch;
use crate::index::txn::WriteTxn;
use crate::shared::read_version::ReadVersion;
use crate::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, yield_now};
use esker_types::{Epoch, Error, Result};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// Maximum number of changes per sync.
pub(crate) const GROUP_MAX: usize = 256;

/// Error of a change, and whether the change left edits in the transaction.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) error: Error,
    pub(crate) spoiled: bool,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { error, spoiled: false }
    }
}

/// A change that can be applied to a transaction. It is applied to another one if that transaction fails.
pub(crate) type Job<'j, T = WriteTxn> =
    &'j mut dyn FnMut(&mut T) -> std::result::Result<Epoch, Failed>;

/// A target of transactions, of which only one can be open. Models implement it too.
trait CommitTarget {
    type Txn;

    /// Begins a transaction when no other one is open. Fails if something that a transaction has read has changed.
    fn begin(&self, read_versions: &[ReadVersion]) -> Result<Self::Txn>;

    /// Syncs the data that transactions refer to.
    fn sync(&self) -> Result<()>;

    fn commit(&self, txn: Self::Txn) -> Result<()>;

    /// Ends a transaction whose only change failed. `spoiled` means that it contains edits of that change.
    fn abort(&self, txn: Self::Txn, spoiled: bool);
}

impl CommitTarget for Target {
    type Txn = WriteTxn;

    fn begin(&self, read_versions: &[ReadVersion]) -> Result<WriteTxn> {
        let lock = self.lock()?;
        // This comes before the flush of the write buffer, so that a transaction that must restart does not flush it in
        // vain.
        lock.expect_unchanged(read_versions)?;
        lock.flush()
    }

    fn sync(&self) -> Result<()> {
        self.data.sync()
    }

    fn commit(&self, txn: WriteTxn) -> Result<()> {
        txn.commit()
    }

    /// Commits the transaction if it includes buffered puts and no edit of the failed change, so that the next one need
    /// not apply these puts again. Otherwise drops it. If the commit fails, the puts remain in the buffer.
    fn abort(&self, txn: WriteTxn, spoiled: bool) {
        if !spoiled && txn.includes_buffer {
            let _ = txn.commit();
        }
    }
}

/// A target of puts into its write buffer.
struct PutTarget<'t>(&'t Target);

impl CommitTarget for PutTarget<'_> {
    type Txn = PutBatch;

    fn begin(&self, _: &[ReadVersion]) -> Result<PutBatch> {
        self.0.begin_puts()
    }

    /// Nothing to do: the sync of the redo log includes the data.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn commit(&self, batch: PutBatch) -> Result<()> {
        self.0.end_puts(batch)
    }

    fn abort(&self, _batch: PutBatch, _spoiled: bool) {}
}

/// Changes of one target that wait for the same sync.
pub(crate) struct Group<T = WriteTxn> {
    state: Mutex<GroupState<T>>,
    done: Condvar,
    /// Number of threads that wait for the lock on `state`.
    arriving: AtomicUsize,
}

struct GroupState<T> {
    /// The open batch, which any thread may join. Its leader began its transaction and will end it.
    open: Option<Batch<T>>,
    /// Number of the last batch.
    number: u64,
    /// Outcomes that some followers have not read yet.
    outcomes: Vec<Outcome>,
}

struct Batch<T> {
    txn: T,
    followers: usize,
    has_data: bool,
    /// True if a member failed after some of its edits. Then the batch cannot be committed.
    spoiled: bool,
}

struct Outcome {
    number: u64,
    takers: usize,
    end: End,
}

#[derive(Clone)]
enum End {
    Committed,
    Failed(Error),
    /// Another member failed after some of its edits. Each member tries again alone.
    Spoiled,
}

/// Commits one change of `target`, unless something that a transaction has read has changed. `has_data` means that the
/// change has written to segments. A change that depends on reads does not share a transaction, since it must tell its
/// own edits from those of others.
pub(crate) fn commit(
    target: &Target,
    read_versions: &[ReadVersion],
    has_data: bool,
    job: Job<'_>,
) -> Result<Epoch> {
    target.with_room(|| match (target.is_durable(), read_versions) {
        (false, _) => commit_alone(target, read_versions, false, job),
        (true, []) => target.group.commit_together(target, has_data, job),
        (true, _) => commit_alone(target, read_versions, has_data, job),
    })
}

/// Appends puts to the write buffer of a durable target. Threads share the sync of its redo log.
pub(super) fn put(target: &Target, job: Job<'_, PutBatch>) -> Result<Epoch> {
    target.puts.commit_together(&PutTarget(target), false, job)
}

/// Commits one change in a transaction of its own. With `sync`, syncs the data that the change refers to first.
fn commit_alone<C: CommitTarget>(
    target: &C,
    read_versions: &[ReadVersion],
    sync: bool,
    job: Job<'_, C::Txn>,
) -> Result<Epoch> {
    if sync {
        target.sync()?;
    }
    let mut txn = target.begin(read_versions)?;
    match job(&mut txn) {
        Ok(epoch) => target.commit(txn).map(|()| epoch),
        Err(failed) => {
            target.abort(txn, failed.spoiled);
            Err(failed.error)
        }
    }
}

impl<T> Group<T> {
    pub(crate) fn new() -> Self {
        let state = GroupState { open: None, number: 0, outcomes: Vec::new() };
        Self { state: Mutex::new(state), done: Condvar::new(), arriving: AtomicUsize::new(0) }
    }

    /// Opens a batch, or joins the open one. If that is full or spoiled, the change is committed alone. `has_data`
    /// means that the change has written to segments, which must be synced first.
    fn commit_together(
        &self,
        target: &impl CommitTarget<Txn = T>,
        has_data: bool,
        job: Job<'_, T>,
    ) -> Result<Epoch> {
        // The leader of a batch waits for arriving threads before it commits.
        self.arriving.fetch_add(1, Ordering::AcqRel);
        let mut state = self.lock();
        self.arriving.fetch_sub(1, Ordering::AcqRel);
        match &mut state.open {
            None => self.lead(state, target, has_data, job),
            Some(batch) if batch.spoiled || batch.followers + 1 >= GROUP_MAX => {
                drop(state);
                commit_alone(target, &[], has_data, job)
            }
            Some(_) => self.follow(state, target, has_data, job),
        }
    }

    fn lock(&self) -> MutexGuard<'_, GroupState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a batch, lets other threads join while the lock is contended, and then commits it.
    fn lead(
        &self,
        mut state: MutexGuard<'_, GroupState<T>>,
        target: &impl CommitTarget<Txn = T>,
        has_data: bool,
        job: Job<'_, T>,
    ) -> Result<Epoch> {
        let mut txn = target.begin(&[])?;
        let epoch = job(&mut txn).map_err(|failed| failed.error)?;
        state.number += 1;
        let number = state.number;
        state.open = Some(Batch { txn, followers: 0, has_data, spoiled: false });
        drop(state);
        while self.arriving.load(Ordering::Acquire) > 0 && self.has_room() {
            yield_now();
        }
        let batch = self.lock().open.take();
        let Some(batch) = batch else { return commit_alone(target, &[], has_data, job) };
        let followers = batch.followers;
        let end = commit_batch(target, batch);
        self.announce(Outcome { number, takers: followers, end: end.clone() });
        resolve_end(end, Ok(epoch), || commit_alone(target, &[], has_data, job))
    }

    /// True if another thread may join the open batch.
    fn has_room(&self) -> bool {
        self.lock()
            .open
            .as_ref()
            .is_some_and(|batch| !batch.spoiled && batch.followers + 1 < GROUP_MAX)
    }

    /// Publishes how a batch ended to the followers that wait for it.
    fn announce(&self, outcome: Outcome) {
        if outcome.takers > 0 {
            self.lock().outcomes.push(outcome);
            self.done.notify_all();
        }
    }

    /// Joins the open batch and waits for its outcome.
    fn follow(
        &self,
        mut state: MutexGuard<'_, GroupState<T>>,
        target: &impl CommitTarget<Txn = T>,
        has_data: bool,
        job: Job<'_, T>,
    ) -> Result<Epoch> {
        let number = state.number;
        let Some(batch) = &mut state.open else {
            drop(state);
            return commit_alone(target, &[], has_data, job);
        };
        // If the job panics, the batch remains spoiled, since a part of a change must not be committed.
        batch.spoiled = true;
        let outcome = job(&mut batch.txn);
        batch.spoiled = matches!(&outcome, Err(failed) if failed.spoiled);
        // A failure also waits for the outcome, since it may be due to changes of other members.
        let outcome = outcome.map_err(|failed| failed.error);
        batch.followers += 1;
        batch.has_data |= has_data;
        let end = self.wait_for(state, number);
        resolve_end(end, outcome, || commit_alone(target, &[], has_data, job))
    }

    /// Waits until batch `number` has ended, and returns how it ended. The last thread that takes the outcome removes
    /// it.
    fn wait_for(&self, mut state: MutexGuard<'_, GroupState<T>>, number: u64) -> End {
        loop {
            let found = state.outcomes.iter().position(|outcome| outcome.number == number);
            if let Some(index) = found {
                let outcome = &mut state.outcomes[index];
                outcome.takers -= 1;
                let (end, last) = (outcome.end.clone(), outcome.takers == 0);
                if last {
                    state.outcomes.swap_remove(index);
                }
                return end;
            }
            state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Syncs the data first, then commits the index that refers to it.
fn commit_batch<C: CommitTarget>(target: &C, batch: Batch<C::Txn>) -> End {
    if batch.spoiled {
        return End::Spoiled;
    }
    let synced = if batch.has_data { target.sync() } else { Ok(()) };
    match synced.and_then(|()| target.commit(batch.txn)) {
        Ok(()) => End::Committed,
        Err(error) => End::Failed(error),
    }
}

/// Result of one member of an ended batch: `outcome` if the batch was committed, or the error of the commit. If the
/// batch was spoiled, nothing was committed, and the member runs `again`.
fn resolve_end(
    end: End,
    outcome: Result<Epoch>,
    again: impl FnOnce() -> Result<Epoch>,
) -> Result<Epoch> {
    match end {
        End::Committed => outcome,
        End::Failed(error) => Err(error),
        End::Spoiled => again(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;
    use esker_types::info::Durability;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    /// The follower joins the batch of the leader, makes one edit, and panics.
    #[test]
    fn partial_change_of_panicking_follower_is_not_committed() {
        let pool = Scratch::new(24 << 20, |spec| {
            spec.targets = Some(1);
            spec.durability = Some(Durability::Commit);
        });
        let state = pool.opened();
        let target: &Target = &state.targets[0];
        let put = |txn: &mut WriteTxn, key: &[u8]| -> std::result::Result<Epoch, Failed> {
            txn.put(key, b"there")?;
            Ok(target.control.next_epoch())
        };
        // Simulates a thread that waits for the lock, so that the leader keeps the batch open.
        target.group.arriving.fetch_add(1, Ordering::AcqRel);
        thread::scope(|threads| {
            let lead = || commit(target, &[], false, &mut |txn| put(txn, b"Tlead"));
            let leader = threads.spawn(lead);
            while target.group.lock().open.is_none() {
                thread::yield_now();
            }
            let mut half = |txn: &mut WriteTxn| {
                put(txn, b"Thalf").map(|_| panic!("on purpose, before the other half"))
            };
            let follow = || commit(target, &[], false, &mut half);
            assert!(catch_unwind(AssertUnwindSafe(follow)).is_err());
            target.group.arriving.fetch_sub(1, Ordering::AcqRel);
            leader.join().unwrap().unwrap();
        });
        let txn = target.view_of(crate::shard::Scope::Committed).unwrap();
        assert_eq!(txn.get(b"Tlead").unwrap(), Some(&b"there"[..]));
        assert_eq!(txn.get(b"Thalf").unwrap(), None);
    }
}

/// Models of threads that commit together, under every order in which they may run.
#[cfg(all(loom, test))]
mod models {
    use super::*;
    use esker_types::ErrorKind;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// An index with at most one open transaction, and the data to which it refers.
    struct Index {
        busy: Mutex<bool>,
        free: Condvar,
        commits: Mutex<Vec<Vec<u64>>>,
        /// Changes whose data was written, and changes whose data is on the medium.
        written: Mutex<Vec<u64>>,
        synced: Mutex<Vec<u64>>,
        fails: bool,
    }

    /// A transaction, which moves from thread to thread. Loom fails the model if two threads use it at the same time.
    struct Txn {
        watched: UnsafeCell<()>,
        changes: Vec<u64>,
        index: Arc<Index>,
    }

    impl Txn {
        fn put(&mut self, change: u64) {
            self.watched.with_mut(|_| ());
            self.changes.push(change);
        }
    }

    impl Drop for Txn {
        fn drop(&mut self) {
            *self.index.busy.lock().unwrap() = false;
            self.index.free.notify_one();
        }
    }

    impl CommitTarget for Arc<Index> {
        type Txn = Txn;

        fn begin(&self, _: &[ReadVersion]) -> Result<Txn> {
            let mut busy = self.busy.lock().unwrap();
            while *busy {
                busy = self.free.wait(busy).unwrap();
            }
            *busy = true;
            Ok(Txn { watched: UnsafeCell::new(()), changes: Vec::new(), index: Self::clone(self) })
        }

        fn sync(&self) -> Result<()> {
            *self.synced.lock().unwrap() = self.written.lock().unwrap().clone();
            Ok(())
        }

        fn commit(&self, mut txn: Txn) -> Result<()> {
            txn.watched.with_mut(|_| ());
            if self.fails {
                return Err(ErrorKind::Io.into());
            }
            let is_synced = !txn.changes.contains(&1) || self.synced.lock().unwrap().contains(&1);
            assert!(is_synced, "data comes first");
            self.commits.lock().unwrap().push(std::mem::take(&mut txn.changes));
            Ok(())
        }

        fn abort(&self, _txn: Txn, _spoiled: bool) {}
    }

    /// A group, and the index that it changes.
    #[derive(Clone)]
    struct Model {
        group: Arc<Group<Txn>>,
        index: Arc<Index>,
    }

    impl Model {
        fn new(fails: bool) -> Self {
            let none = || Mutex::new(Vec::new());
            let (busy, free, commits) = (Mutex::new(false), Condvar::new(), Mutex::new(Vec::new()));
            let index = Index { busy, free, commits, written: none(), synced: none(), fails };
            Self { group: Arc::new(Group::new()), index: Arc::new(index) }
        }

        /// Makes a change. Change 1 has data, the others have none.
        fn change(&self, number: u64) -> Result<Epoch> {
            let has_data = number == 1;
            if has_data {
                self.index.written.lock().unwrap().push(number);
            }
            self.group.commit_together(&self.index, has_data, &mut |txn| {
                txn.put(number);
                Ok(Epoch(number))
            })
        }

        /// Makes an edit and then fails.
        fn spoil(&self, number: u64) -> Result<Epoch> {
            self.group.commit_together(&self.index, false, &mut |txn| {
                txn.put(number);
                Err(Failed { error: ErrorKind::Exists.into(), spoiled: true })
            })
        }

        /// Runs `work` in another thread.
        fn beside<T: 'static>(
            &self,
            work: impl FnOnce(&Self) -> T + 'static,
        ) -> thread::JoinHandle<T> {
            let model = self.clone();
            thread::spawn(move || work(&model))
        }

        /// All committed changes, sorted; each appears as often as it was committed.
        fn committed(&self) -> Vec<u64> {
            assert!(self.group.lock().outcomes.is_empty(), "all outcomes were read");
            let mut committed = self.index.commits.lock().unwrap().concat();
            committed.sort_unstable();
            committed
        }
    }

    /// A change that is acknowledged was committed once, after its data, and every change gets an outcome.
    #[test]
    fn all_members_are_committed_once() {
        loom::model(|| {
            let model = Model::new(false);
            let others = [1, 2].map(|number| model.beside(move |model| model.change(number)));
            assert_eq!(model.change(3).unwrap(), Epoch(3));
            let epochs = others.map(|other| other.join().unwrap().unwrap());
            assert_eq!(epochs, [Epoch(1), Epoch(2)]);
            assert_eq!(model.committed(), [1, 2, 3]);
        });
    }

    /// A partial change is not committed, even if other changes are.
    #[test]
    fn partial_change_is_not_committed() {
        loom::model(|| {
            let model = Model::new(false);
            let half = model.beside(|model| model.spoil(4));
            let other = model.beside(|model| model.change(2));
            model.change(3).unwrap();
            other.join().unwrap().unwrap();
            assert_eq!(half.join().unwrap().unwrap_err().kind(), ErrorKind::Exists);
            assert_eq!(model.committed(), [2, 3]);
        });
    }

    /// If a commit fails, every change in it gets the error.
    #[test]
    fn all_members_get_the_error_of_the_commit() {
        loom::model(|| {
            let model = Model::new(true);
            let other = model.beside(|model| model.change(1));
            assert!(model.change(2).is_err() && other.join().unwrap().is_err());
            assert_eq!(model.committed(), [0; 0]);
        });
    }
}
