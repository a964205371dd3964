//! Group commit: threads of one process that wait for the same sync of a durable target share one
//! transaction. Targets that need no sync commit each change by itself.
#[cfg(all(loom, test))]
mod models;

use crate::io::txn::WriteTxn;
use crate::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, yield_now};
use crate::target::Target;
use esker_types::{Epoch, Error, Result};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// Most changes one sync carries.
pub(crate) const GROUP_MAX: usize = 256;

/// Why a change failed, and whether it left something in the transaction.
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

/// A change that can be applied to a transaction, and again to another one if that one fails.
pub(crate) type Job<'j, T = WriteTxn> =
    &'j mut dyn FnMut(&mut T) -> std::result::Result<Epoch, Failed>;

/// What is changed by transactions, one at a time.
trait Changing {
    type Txn;

    /// Begins one, as soon as no other is open.
    fn begin(&self) -> Result<Self::Txn>;

    /// Puts the data on the medium that transactions name.
    fn sync(&self) -> Result<()>;

    fn commit(&self, txn: Self::Txn) -> Result<()>;
}

impl Changing for Target {
    type Txn = WriteTxn;

    fn begin(&self) -> Result<WriteTxn> {
        self.begin_write()
    }

    fn sync(&self) -> Result<()> {
        self.data.sync()
    }

    fn commit(&self, txn: WriteTxn) -> Result<()> {
        txn.commit()
    }
}

/// Changes of one target that wait for the same sync.
pub(crate) struct Group<T = WriteTxn> {
    state: Mutex<State<T>>,
    done: Condvar,
    /// Threads on their way to `state`.
    arriving: AtomicUsize,
}

struct State<T> {
    /// The open batch, which anybody may join. Its leader began its transaction and will end it.
    open: Option<Batch<T>>,
    /// Number of the batch begun last.
    number: u64,
    /// Outcomes that followers have yet to take.
    outcomes: Vec<Outcome>,
}

struct Batch<T> {
    txn: T,
    followers: usize,
    has_data: bool,
    /// A member failed half-way: nothing of the batch can be committed.
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
    /// Through the fault of another member; each one tries again alone.
    Spoiled,
}

/// Whether a change may share a transaction with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// It may.
    Allowed,
    /// It depends on what it has read, and must know its own changes from those of others.
    Refused,
}

/// Commits one change of `target`; `has_data` tells that segments were written to for it.
pub(crate) fn commit(
    target: &Target,
    sharing: Sharing,
    has_data: bool,
    job: Job<'_>,
) -> Result<Epoch> {
    target.with_room(|| match (target.is_durable(), sharing) {
        (false, _) => alone(target, false, job),
        (true, Sharing::Refused) => alone(target, has_data, job),
        (true, Sharing::Allowed) => target.group.together(target, has_data, job),
    })
}

fn alone<C: Changing>(target: &C, sync: bool, job: Job<'_, C::Txn>) -> Result<Epoch> {
    if sync {
        target.sync()?;
    }
    let mut txn = target.begin()?;
    let epoch = job(&mut txn).map_err(|failed| failed.error)?;
    target.commit(txn)?;
    Ok(epoch)
}

impl<T> Group<T> {
    pub(crate) fn new() -> Self {
        let state = State { open: None, number: 0, outcomes: Vec::new() };
        Self { state: Mutex::new(state), done: Condvar::new(), arriving: AtomicUsize::new(0) }
    }

    fn together(
        &self,
        target: &impl Changing<Txn = T>,
        has_data: bool,
        job: Job<'_, T>,
    ) -> Result<Epoch> {
        self.arriving.fetch_add(1, Ordering::AcqRel);
        let mut state = self.lock();
        self.arriving.fetch_sub(1, Ordering::AcqRel);
        match &mut state.open {
            None => self.lead(state, target, has_data, job),
            Some(batch) if batch.spoiled || batch.followers + 1 >= GROUP_MAX => {
                drop(state);
                alone(target, has_data, job)
            }
            Some(_) => self.follow(state, target, has_data, job),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a batch, lets others join while the lock is contended, and commits it.
    fn lead(
        &self,
        mut state: MutexGuard<'_, State<T>>,
        target: &impl Changing<Txn = T>,
        has_data: bool,
        job: Job<'_, T>,
    ) -> Result<Epoch> {
        let mut txn = target.begin()?;
        let epoch = job(&mut txn).map_err(|failed| failed.error)?;
        state.number += 1;
        let number = state.number;
        state.open = Some(Batch { txn, followers: 0, has_data, spoiled: false });
        drop(state);
        while self.arriving.load(Ordering::Acquire) > 0 && self.has_room() {
            yield_now();
        }
        let batch = self.lock().open.take();
        let Some(batch) = batch else { return alone(target, has_data, job) };
        let followers = batch.followers;
        let end = close(target, batch);
        self.announce(Outcome { number, takers: followers, end: end.clone() });
        settle_end(end, Ok(epoch), || alone(target, has_data, job))
    }

    fn has_room(&self) -> bool {
        self.lock()
            .open
            .as_ref()
            .is_some_and(|batch| !batch.spoiled && batch.followers + 1 < GROUP_MAX)
    }

    fn announce(&self, outcome: Outcome) {
        if outcome.takers > 0 {
            self.lock().outcomes.push(outcome);
            self.done.notify_all();
        }
    }

    /// Joins the open batch and waits for its end.
    fn follow(
        &self,
        mut state: MutexGuard<'_, State<T>>,
        target: &impl Changing<Txn = T>,
        has_data: bool,
        job: Job<'_, T>,
    ) -> Result<Epoch> {
        let number = state.number;
        let Some(batch) = &mut state.open else {
            drop(state);
            return alone(target, has_data, job);
        };
        // Should the job panic, it stays so: what it has done by then is not to be committed.
        batch.spoiled = true;
        let outcome = job(&mut batch.txn);
        batch.spoiled = matches!(&outcome, Err(failed) if failed.spoiled);
        // A refusal waits for the end as well: it may rest on what others of the batch did.
        let outcome = outcome.map_err(|failed| failed.error);
        batch.followers += 1;
        batch.has_data |= has_data;
        let end = self.wait_for(state, number);
        settle_end(end, outcome, || alone(target, has_data, job))
    }

    fn wait_for(&self, mut state: MutexGuard<'_, State<T>>, number: u64) -> End {
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

/// Data first, then the index that names it.
fn close<C: Changing>(target: &C, batch: Batch<C::Txn>) -> End {
    if batch.spoiled {
        return End::Spoiled;
    }
    let synced = if batch.has_data { target.sync() } else { Ok(()) };
    match synced.and_then(|()| target.commit(batch.txn)) {
        Ok(()) => End::Committed,
        Err(error) => End::Failed(error),
    }
}

fn settle_end(
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

    #[test]
    fn half_a_change_of_a_follower_that_panics_is_not_committed() {
        let pool = Scratch::new(24 << 20, |spec| {
            spec.targets = Some(1);
            spec.durability = Some(Durability::Commit);
        });
        let state = pool.state();
        let target: &Target = &state.targets[0];
        let put = |txn: &mut WriteTxn, key: &[u8]| -> std::result::Result<Epoch, Failed> {
            txn.put(key, b"there")?;
            Ok(target.control.next_epoch())
        };
        // As somebody on the way, which the leader waits for.
        target.group.arriving.fetch_add(1, Ordering::AcqRel);
        thread::scope(|threads| {
            let lead = || commit(target, Sharing::Allowed, false, &mut |txn| put(txn, b"Tlead"));
            let leader = threads.spawn(lead);
            while target.group.lock().open.is_none() {
                thread::yield_now();
            }
            let mut half = |txn: &mut WriteTxn| {
                put(txn, b"Thalf").map(|_| panic!("on purpose, before the other half"))
            };
            let follow = || commit(target, Sharing::Allowed, false, &mut half);
            assert!(catch_unwind(AssertUnwindSafe(follow)).is_err());
            target.group.arriving.fetch_sub(1, Ordering::AcqRel);
            leader.join().unwrap().unwrap();
        });
        let txn = target.read().unwrap();
        assert_eq!(txn.get(b"Tlead").unwrap(), Some(&b"there"[..]));
        assert_eq!(txn.get(b"Thalf").unwrap(), None);
    }
}
