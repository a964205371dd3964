//! Targets in doubt. While a commit over several targets is in progress, an atomic of each of them says so, and no
//! reader uses the target.
use super::Target;
use crate::format::keys::{Key, Table};
use crate::index::txn::{Txn, WriteTxn};
use crate::sync::AtomicU64;
use esker_types::{Epoch, Result};
use std::sync::atomic::Ordering;

/// Calls `read`, and returns its result if the target is not in doubt afterwards. Otherwise calls `resolve`, which
/// waits for the end of the doubt or ends it, and reads again.
#[inline]
fn until_not_in_doubt<V>(
    in_doubt: &AtomicU64,
    read: impl Fn() -> Result<V>,
    resolve: impl Fn() -> Result<()>,
) -> Result<V> {
    loop {
        let view = read()?;
        if in_doubt.load(Ordering::Acquire) == 0 {
            return Ok(view);
        }
        drop(view);
        resolve()?;
    }
}

/// Flag in the in-doubt word of a target with a prepared commit that another node decides. The other bits are the epoch
/// of the preparation.
pub(crate) const PREPARED: u64 = 1 << 63;

impl Target {
    fn in_doubt(&self) -> &AtomicU64 {
        self.shared().in_doubt()
    }

    /// Epoch of the unfinished commit that has put this target in doubt; `None` if the target is not in doubt.
    pub(crate) fn doubt(&self) -> Option<Epoch> {
        match self.in_doubt().load(Ordering::Acquire) {
            0 => None,
            word => Some(Epoch(word & !PREPARED)),
        }
    }

    /// True while a commit over several targets, including this one, is in progress.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.in_doubt().load(Ordering::Acquire) != 0
    }

    /// True while a commit is prepared on the target that another node decides.
    pub(crate) fn is_prepared(&self) -> bool {
        self.in_doubt().load(Ordering::Acquire) & PREPARED != 0
    }

    /// Puts the target in doubt until another node has decided about the commit that was prepared at `epoch`.
    pub(crate) fn doubt_prepared(&self, epoch: Epoch) {
        self.in_doubt().store(PREPARED | epoch.0, Ordering::SeqCst);
    }

    /// Puts the target in doubt like a commit at `epoch` whose process dies before the end.
    #[cfg(test)]
    pub(crate) fn set_doubt(&self, epoch: Epoch) {
        self.in_doubt().store(epoch.0, Ordering::SeqCst);
    }

    /// Ends the doubt, whichever commit it is due to.
    pub(crate) fn end_doubt(&self) {
        self.in_doubt().store(0, Ordering::SeqCst);
    }

    /// Ends the doubt if it is due to the commit at `epoch`.
    pub(crate) fn end_doubt_at(&self, epoch: Epoch) {
        let (won, lost) = (Ordering::SeqCst, Ordering::SeqCst);
        let _ = self.in_doubt().compare_exchange(epoch.0, 0, won, lost);
    }

    /// Calls `read` until the target is not in doubt.
    #[inline]
    pub(super) fn until_not_in_doubt<V>(&self, read: impl Fn() -> Result<V>) -> Result<V> {
        until_not_in_doubt(self.in_doubt(), read, || (self.resolve)(self))
    }
}

/// Key of the epoch of the last commit over several targets that was applied to this target.
pub(crate) fn applied_key() -> Key {
    Key::table(Table::Intent).push(b"A")
}

/// Epoch of the last commit over several targets that was applied to the target of `txn`.
pub(crate) fn last_applied(txn: &Txn) -> Result<Epoch> {
    let value = txn.get(&applied_key())?;
    Ok(Epoch(value.and_then(|value| value.try_into().ok()).map_or(0, u64::from_le_bytes)))
}

/// Commits transactions at `epoch`, one on each target. The first commit decides: if it fails, none is committed.
/// Then the targets are in doubt only if they were before, due to a commit that was prepared at epoch `prepared`.
pub(crate) fn commit_on_all(
    targets: &[&Target],
    prepared: Option<Epoch>,
    txns: Vec<WriteTxn>,
    commit: impl Fn(WriteTxn) -> Result<()>,
    epoch: Epoch,
) -> Result<()> {
    let in_doubt: Vec<_> = targets.iter().map(|target| target.in_doubt()).collect();
    let before = prepared.map_or(0, |epoch| PREPARED | epoch.0);
    commit_all(&in_doubt, before, txns, commit, epoch)
}

/// Commits all of `txns`, one per target. The first commit decides: if it fails, none is committed, and the words
/// become `before` again.
fn commit_all<T>(
    in_doubt: &[&AtomicU64],
    before: u64,
    txns: Vec<T>,
    commit: impl Fn(T) -> Result<()>,
    epoch: Epoch,
) -> Result<()> {
    in_doubt.iter().for_each(|word| word.store(epoch.0, Ordering::SeqCst));
    let clear = |to| in_doubt.iter().for_each(|word| word.store(to, Ordering::SeqCst));
    let mut txns = txns.into_iter();
    if let Some(Err(error)) = txns.next().map(&commit) {
        clear(before);
        return Err(error);
    }
    // The commit is decided. A target whose commit fails now remains in doubt, and the next operation that needs the
    // target carries it out.
    let followed = txns.map(&commit).collect::<Vec<_>>();
    if followed.iter().all(Result::is_ok) {
        clear(0);
    }
    Ok(())
}

/// Models under every order in which threads may run.
#[cfg(all(loom, test))]
mod models {
    use super::*;
    use crate::sync::Mutex;
    use esker_types::ErrorKind;
    use loom::sync::Arc;
    use loom::thread;

    #[derive(Default)]
    struct Target {
        in_doubt: AtomicU64,
        /// Epoch of its last commit.
        committed: AtomicU64,
    }

    #[derive(Default)]
    struct Pool {
        targets: [Target; 2],
        coordinating: Mutex<()>,
    }

    impl Pool {
        fn commit(&self, fails: bool) -> Result<()> {
            let _alone = self.coordinating.lock().unwrap();
            let commit = |target: &Target| match fails {
                true => Err(ErrorKind::Io.into()),
                false => Ok(target.committed.store(1, Ordering::Release)),
            };
            let in_doubt = self.targets.each_ref().map(|target| &target.in_doubt);
            commit_all(&in_doubt, 0, self.targets.iter().collect(), commit, Epoch(7))
        }

        /// True if a reader of the target sees the commit.
        fn read(&self, target: &Target) -> bool {
            let read = || Ok(target.committed.load(Ordering::Acquire) == 1);
            let resolve = || Ok(drop(self.coordinating.lock().unwrap()));
            until_not_in_doubt(&target.in_doubt, read, resolve).unwrap()
        }
    }

    fn model(fails: bool) {
        loom::model(move || {
            let pool = Arc::new(Pool::default());
            let reads = [[0, 1], [1, 0]].map(|order| {
                let pool = Arc::clone(&pool);
                thread::spawn(move || order.map(|number: usize| pool.read(&pool.targets[number])))
            });
            assert_eq!(pool.commit(fails).is_err(), fails);
            for read in reads {
                let [before, after] = read.join().unwrap();
                assert!(after >= before && (!fails || !after), "{before} {after}");
            }
            assert!(pool.targets.iter().all(|target| pool.read(target) != fails));
        });
    }

    /// A reader that has seen a commit on one target sees it on the others.
    #[test]
    fn commit_over_several_targets_is_atomic_for_readers() {
        model(false);
    }

    /// A failed commit changes nothing, and blocks no reader.
    #[test]
    fn failed_commit_is_not_visible() {
        model(true);
    }
}
