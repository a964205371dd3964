//! Commits over several targets. They are atomic for readers. If a process dies during such a commit after the
//! decision, the next process completes it.
//!
//! The first participating target is the coordinator. Its transaction contains its own changes and an intent, which is
//! the list of edits of the other targets. The commit of this transaction decides. Before it, all participants are put
//! in doubt, so that no reader uses them until the last one has committed. If a process finds a target in doubt whose
//! owner is dead, it carries out the intent. If no intent was committed, it ends the doubt.
//!
//! If writes concern only one of them and a transaction has only read from the others, a single commit suffices. The
//! indexes of the others are locked until then ([`committed_alone`]).
use super::intent::{Intent, decode, encode};
use super::prepared::{self, Prepared};
use crate::format::keys::{Key, Table};
use crate::index::entries;
use crate::index::txn::WriteTxn;
use crate::shard::change::{Change, IndexEdit, with_room};
use crate::shard::doubt::{applied_key, commit_on_all, last_applied};
use crate::shard::lock::WriteLock;
use crate::shard::open_pool::OpenPool;
use crate::shard::read_leases::{combine_lease_results, retry_after_leases};
use crate::shard::reserved_pages::retry_after_page_reuse;
use crate::shard::{Scope, Target};
use crate::shared::read_version::ReadVersion;
use crate::sync::take_or_wait;
use esker_types::ops::Commit;
use esker_types::{Epoch, Error, ErrorKind, Result};
use std::sync::{Arc, PoisonError, TryLockError};

/// Key of the intent of the last commit that a target coordinated.
pub(super) fn intent_key() -> Key {
    Key::table(Table::Intent).push(b"D")
}

/// Runs `work` on `targets`, which are in ascending order, and commits all or none of its changes. If durability
/// requires it, the data that the changes refer to must already be on the medium.
pub(crate) fn coordinated(
    pool: &OpenPool,
    targets: &[&Target],
    read_versions: &[ReadVersion],
    mut work: impl FnMut(&mut [Change<'_>]) -> Result<()>,
) -> Result<Epoch> {
    retry_after_leases(|| {
        pool.control.expect_file()?;
        with_coordination_locks(targets, &mut || {
            with_room(targets, || attempt(pool, targets, read_versions, &mut work))
        })
    })
}

/// Body of [`coordinated`], which runs with the coordination locks held. First completes commits of dead processes.
fn attempt(
    pool: &OpenPool,
    targets: &[&Target],
    read_versions: &[ReadVersion],
    work: &mut dyn FnMut(&mut [Change<'_>]) -> Result<()>,
) -> Result<Epoch> {
    targets.iter().try_for_each(|target| finish(pool, target))?;
    let mut txns = begin_unchanged(targets, read_versions)?;
    let epoch = pool.control.next_epoch();
    let journals = match record(targets, &mut txns, epoch, work)? {
        Recorded::Many(journals) => journals,
        Recorded::One(number) => {
            txns.swap_remove(number).commit()?;
            commit_flushed(txns);
            return Ok(epoch);
        }
        Recorded::Nothing => {
            commit_flushed(txns);
            return Ok(epoch);
        }
    };
    let numbers: Vec<u32> = targets.iter().map(|target| target.number()).collect();
    let intent = encode(epoch, &numbers, &journals);
    if let Some(first) = txns.first_mut() {
        first.put(&intent_key(), &intent)?;
    }
    commit_on_all(targets, None, txns, WriteTxn::commit, epoch)?;
    if intent.len() > INTENT_KEPT_MAX {
        // The commit is decided even if this fails. An error would make the caller repeat it.
        let _ = forget_intent(targets);
    }
    Ok(epoch)
}

/// Commits the transactions that include buffered puts and no edit, so that the next change need not apply these puts
/// again. If that fails, the puts remain in the buffer.
fn commit_flushed(txns: Vec<WriteTxn>) {
    txns.into_iter().filter(|txn| txn.includes_buffer).for_each(|txn| {
        let _ = txn.commit();
    });
}

/// Begins a write transaction on each target. The caller holds their coordination locks. Fails if something that a
/// transaction has read has changed.
pub(super) fn begin_unchanged(
    targets: &[&Target],
    read_versions: &[ReadVersion],
) -> Result<Vec<WriteTxn>> {
    let locks = targets.iter().map(|target| target.lock_in_doubt()).collect::<Result<Vec<_>>>()?;
    // This comes before the flush of the write buffers, so that a transaction that must restart does not flush them in
    // vain.
    locks.iter().try_for_each(|lock| lock.expect_unchanged(read_versions))?;
    locks.into_iter().map(WriteLock::flush).collect()
}

/// Variant of [`coordinated`] for `work` that concerns only the target at position `changed`, including its conditions.
/// The other targets have only been read and must not change until the commit. Their write locks ensure that, so no
/// doubt and no coordination lock is needed.
pub(crate) fn committed_alone(
    pool: &OpenPool,
    targets: &[&Target],
    changed: usize,
    read_versions: &[ReadVersion],
    mut work: impl FnMut(&mut Change<'_>) -> Result<()>,
) -> Result<Epoch> {
    let mut attempt = || {
        let mut locks = lock_outside_doubt(targets)?;
        locks.iter().try_for_each(|lock| lock.expect_unchanged(read_versions))?;
        let mut txn = locks.remove(changed).flush()?;
        let epoch = pool.control.next_epoch();
        let mut change = Change::new(targets[changed], &mut txn, epoch);
        work(&mut change)?;
        change.finish()?;
        match change.is_changed() {
            true => txn.commit().map(|()| epoch),
            false => Ok(epoch),
        }
    };
    retry_after_leases(|| with_room(targets, &mut attempt))
}

/// Takes and returns the write locks of the targets when none of them is in doubt. While the locks are held, no target
/// can get into doubt.
fn lock_outside_doubt<'t>(targets: &[&'t Target]) -> Result<Vec<WriteLock<'t>>> {
    loop {
        let locks = targets.iter().map(|target| target.lock_in_doubt());
        let locks = locks.collect::<Result<Vec<_>>>()?;
        let Some(target) = targets.iter().find(|target| target.is_in_doubt()) else {
            return Ok(locks);
        };
        drop(locks); // The owner of the coordination lock may wait for these locks.
        resolve_doubt(target)?;
    }
}

/// Maximum length in bytes of an intent that is kept until the next one replaces it. A longer one would occupy pages.
pub(super) const INTENT_KEPT_MAX: usize = 2048;

/// Removes the intent of a commit that all targets have carried out. The caller holds the coordination locks.
pub(super) fn forget_intent(targets: &[&Target]) -> Result<()> {
    let [first, ..] = targets else { return Ok(()) };
    if targets.iter().any(|target| target.is_in_doubt()) {
        return Ok(());
    }
    let mut txn = first.begin_in_doubt()?;
    txn.delete(&intent_key())?;
    txn.commit()
}

/// Changes that the work has made.
enum Recorded {
    Nothing,
    /// Only the target at this position has changed.
    One(usize),
    /// The edits of each target.
    Many(Vec<Vec<IndexEdit>>),
}

/// Runs `work` in the open transactions, one for each target, at `epoch`. Returns whether it has changed nothing, one
/// target, or several. For several, the result has the edits of each target except the coordinator, which is the first
/// one.
fn record(
    targets: &[&Target],
    txns: &mut [WriteTxn],
    epoch: Epoch,
    work: &mut dyn FnMut(&mut [Change<'_>]) -> Result<()>,
) -> Result<Recorded> {
    // The edits of the coordinator are committed with the decision, so they need not be recorded.
    let begin = |(number, (target, txn))| match number {
        0 => Change::new(target, txn, epoch),
        _ => Change::new(target, txn, epoch).with_journal(),
    };
    let pairs = targets.iter().copied().zip(txns).enumerate();
    let mut changes: Vec<_> = pairs.map(begin).collect();
    work(&mut changes)?;
    let changed: Vec<_> = (0..changes.len()).filter(|at| changes[*at].is_changed()).collect();
    match changed[..] {
        [] => return Ok(Recorded::Nothing),
        [only] => {
            changes[only].finish()?;
            return Ok(Recorded::One(only));
        }
        _ => {}
    }
    combine_lease_results(changes.iter_mut().map(Change::finish))?;
    for change in &mut changes {
        change.put(&applied_key(), &epoch.0.to_le_bytes())?;
    }
    Ok(Recorded::Many(changes.into_iter().map(Change::into_journal).collect()))
}

/// Runs `work` with the coordination locks of all targets held. They are taken in ascending order.
pub(super) fn with_coordination_locks<T>(
    targets: &[&Target],
    work: &mut dyn FnMut() -> Result<T>,
) -> Result<T> {
    match targets.split_first() {
        None => work(),
        Some((first, rest)) => {
            with_coordination_lock(first, || with_coordination_locks(rest, work))
        }
    }
}

/// Runs `work` with the coordination lock of a target held. It is a mutex for threads of this process and a file lock
/// for other processes.
///
/// # Errors
/// `Busy` on a thread that must not block, if another thread or process keeps the lock; errors of `work`.
fn with_coordination_lock<T>(target: &Target, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let mutex = &target.coordinating;
    let attempt = || match mutex.try_lock() {
        Ok(alone) => Some(alone),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    };
    let _alone =
        take_or_wait(attempt, || Ok(mutex.lock().unwrap_or_else(PoisonError::into_inner)))?;
    target.control.while_coordinating(target.number(), work)
}

/// Completes the commit that a dead process left in doubt on a target. The caller holds the coordination lock of the
/// target, so the target cannot get into doubt again before the lock is released.
///
/// # Errors
/// `InDoubt` if another node decides about a commit that is prepared on the target.
pub(super) fn finish(pool: &OpenPool, target: &Target) -> Result<()> {
    match target.doubt() {
        None => Ok(()),
        Some(epoch) => finish_dead(pool, target, epoch),
    }
}

/// Waits until `target` is not in doubt. Completes the commit of a dead process.
///
/// # Errors
/// `InDoubt`, without waiting, if another node decides about a commit that is prepared on the target.
pub(crate) fn resolve_doubt(target: &Target) -> Result<()> {
    let Some(pool) = target.pool() else { return Ok(()) };
    if target.is_prepared()
        && let Some(prepared) = prepared::on(&pool.targets, target.number())?
    {
        return Err(in_doubt_error(&pool, target, &prepared));
    }
    target.control.expect_file()?;
    with_coordination_lock(target, || finish(&pool, target))
}

#[cold]
fn in_doubt_error(pool: &OpenPool, target: &Target, prepared: &Prepared) -> Error {
    let Commit { id, coordinator } = prepared.commit;
    let (number, label) = (target.number(), &pool.superblock.label);
    let message = format!(
        "target {number} of pool {label} waits for commit {}, which node {coordinator} decides: retry, or open the \
         pool by its map, which resolves it",
        id.0
    );
    Error::new(ErrorKind::InDoubt, message)
}

/// Carries out the decision of a dead process about its commit at `epoch`, if it made one, for `target`. The next
/// commit that `target` coordinates overwrites its intent, so the edits of all other targets are carried out first.
/// Call without an open transaction.
fn finish_dead(pool: &OpenPool, target: &Target, epoch: Epoch) -> Result<()> {
    let targets = &pool.targets;
    for coordinator in targets {
        let Some(intent) = intent_of(coordinator)?.filter(|intent| intent.epoch == epoch) else {
            continue;
        };
        redo(target, &intent)?;
        let others = targets.iter().filter(|_| coordinator.number() == target.number());
        for other in others.filter(|other| other.number() != target.number()) {
            redo(other, &intent)?;
            other.end_doubt_at(epoch);
        }
    }
    // A prepared commit keeps its target in doubt.
    if let Some(prepared) = prepared::on(targets, target.number())? {
        target.doubt_prepared(prepared.epoch);
        return Err(in_doubt_error(pool, target, &prepared));
    }
    target.end_doubt();
    Ok(())
}

/// Reads the intent with the write lock held. If the process died in the last step of its commit, the commit becomes
/// visible only after another process has taken over the lock.
fn intent_of(coordinator: &Target) -> Result<Option<Intent>> {
    let txn = coordinator.begin_bare()?;
    txn.get(&intent_key())?.map(decode).transpose()
}

/// Key of the intent of a target, if the intent is damaged.
pub(crate) fn damaged_intent(target: &Target) -> Result<Option<Key>> {
    let view = target.view_in_doubt(Scope::Committed)?;
    let intent = view.committed().get(&intent_key())?;
    Ok(intent.filter(|bytes| Intent::parse(bytes).is_none()).map(|_| intent_key()))
}

/// Carries out the commits that were decided before the machine stopped. Called with exclusive access, when a pool is
/// set up.
pub(crate) fn recover(targets: &[Arc<Target>]) -> Result<()> {
    if targets.iter().any(|target| target.control.read_only) {
        return refuse_unfinished(targets);
    }
    for coordinator in targets {
        if let Some(intent) = intent_of(coordinator)? {
            targets.iter().try_for_each(|target| redo(target, &intent))?;
        }
    }
    for target in targets {
        target.end_doubt();
        // Snapshots are not newer than this epoch, and later commits must be newer.
        target
            .control
            .pass_epoch(last_applied(target.view_in_doubt(Scope::Committed)?.committed())?);
    }
    Ok(())
}

/// Puts the targets of each prepared commit in doubt again, when a pool is set up. Later epochs of the pool are later
/// than those of the prepared commits.
pub(crate) fn doubt_prepared(targets: &[Arc<Target>]) -> Result<()> {
    for prepared in prepared::all(targets)? {
        for target in targets.iter().filter(|it| prepared.targets().any(|n| n == it.number())) {
            target.control.pass_epoch(prepared.epoch);
            target.doubt_prepared(prepared.epoch);
        }
    }
    Ok(())
}

/// Applies the steps of an intent to one target, in one transaction. Does nothing if the intent has no steps for the
/// target, or if the target has applied the intent before.
fn redo(target: &Target, intent: &Intent) -> Result<()> {
    let Some((_, steps)) = intent.parts.iter().find(|(number, _)| *number == target.number())
    else {
        return Ok(());
    };
    retry_after_page_reuse(&[target], || {
        target.with_room(|| {
            let mut txn = target.begin_in_doubt()?;
            if last_applied(&txn)? >= intent.epoch {
                return Ok(());
            }
            steps.iter().try_for_each(|step| repeat(&mut txn, step))?;
            txn.commit()
        })
    })
}

/// Applies a recorded edit to an open transaction. It is not an error if the key to delete does not exist.
pub(super) fn repeat(txn: &mut WriteTxn, edit: &IndexEdit) -> Result<()> {
    match edit {
        IndexEdit::Put(key, value) => txn.put(key, value),
        IndexEdit::Delete(key) => txn.delete(key).map(|_| ()),
        IndexEdit::DeleteAll(prefix) => delete_all(txn, prefix),
    }
}

/// Number of keys removed per round.
const DELETE_BATCH: usize = 1024;

/// Removes all keys under a prefix, in batches, to bound the memory in use.
fn delete_all(txn: &mut WriteTxn, prefix: &[u8]) -> Result<()> {
    loop {
        let batch = entries::take(txn, prefix, prefix, DELETE_BATCH)?;
        if batch.is_empty() {
            return Ok(());
        }
        for (key, _) in &batch {
            txn.delete(key)?;
        }
    }
}

/// On a read-only file system: fails if a decided commit has not been carried out on all targets. The clock passes the
/// last applied epochs, as in [`recover`].
fn refuse_unfinished(targets: &[Arc<Target>]) -> Result<()> {
    for coordinator in targets {
        let view = coordinator.view_in_doubt(Scope::Committed)?;
        let intent = view.committed().get(&intent_key())?.map(decode).transpose()?;
        for target in targets {
            let done = last_applied(target.view_in_doubt(Scope::Committed)?.committed())?;
            target.control.pass_epoch(done);
            if intent
                .iter()
                .any(|it| it.epoch > done && it.parts.iter().any(|part| part.0 == target.number()))
            {
                let message =
                    "a commit is not yet complete: open the pool once on a mount that is writable";
                return Err(Error::new(ErrorKind::Busy, message));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;
    use esker_os::executor::without_waiting;

    /// Another thread or process keeps a lock, as a stopped process does.
    #[test]
    fn change_on_thread_that_must_not_block_does_not_wait_for_locks() {
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        let state = pool.opened();
        let both = [&*state.targets[0], &*state.targets[1]];
        let work = |changes: &mut [Change<'_>]| {
            changes.iter_mut().try_for_each(|change| change.put(b"Tkey", b"value"))
        };
        let change = || {
            let (changed, would_wait) = without_waiting(|| coordinated(&state, &both, &[], work));
            (changed.err().map(|error| error.kind()), would_wait)
        };
        let refused = (Some(ErrorKind::Busy), true);
        let writer = both[1].begin_bare().unwrap();
        assert_eq!(change(), refused);
        drop(writer);
        let coordinator = both[0].coordinating.lock().unwrap();
        assert_eq!(change(), refused);
        drop(coordinator);
        let other = pool.control_of_other();
        let kept = other.while_coordinating(1, || Ok(change()));
        assert_eq!(kept.unwrap(), refused);
        assert_eq!(change(), (None, false));
    }

    /// Does `work` on the first two targets like a process that dies between the two commits.
    fn crash_between_commits(state: &OpenPool, work: impl Fn(&mut [Change<'_>]) -> Result<()>) {
        let both = [&*state.targets[0], &*state.targets[1]];
        let mut txns: Vec<_> = both.iter().map(|t| t.begin_bare().unwrap()).collect();
        let epoch = state.control.next_epoch();
        let Recorded::Many(journals) = record(&both, &mut txns, epoch, &mut { work }).unwrap()
        else {
            panic!("nothing to die in the middle of")
        };
        txns[0].put(&intent_key(), &encode(epoch, &[0, 1], &journals)).unwrap();
        both.iter().for_each(|target| target.set_doubt(epoch));
        txns.remove(0).commit().unwrap();
    }

    /// The process dies after the coordinator's commit, so target 1 does not have the value yet.
    #[test]
    fn salvage_includes_decided_commit() {
        let mut pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        let oid = esker_types::ObjectId { hi: 1, lo: 2 };
        let key = Key::dkey(Table::Data, esker_types::info::ContainerId(1), oid, b"dkey").unwrap();
        let key = key.akey(oid, b"akey").unwrap().single();
        let (left_out, body) = (Default::default(), crate::format::record::Body::Inline(b"value"));
        let (epoch, record_size, count) = (Epoch(1), 5, 1);
        let value = crate::format::record::Record { epoch, record_size, count, left_out, body };
        let mut bytes = crate::format::record::RecordBytes::new();
        value.encode(&key[1..], &mut bytes);
        crash_between_commits(&pool.opened(), |changes| {
            changes[0].put(b"Tkey", b"changes, too")?;
            changes[1].put(&key, &bytes)
        });
        pool.close();
        let mut found = Vec::new();
        let mut salvage = crate::Salvage::open(&pool.path()).unwrap();
        let mut hear = |value: crate::Salvaged<'_>| {
            found.push((value.oid, value.dkey.to_vec()));
            Ok(())
        };
        salvage.visit(&mut hear, &mut |_, _| {}).unwrap();
        assert_eq!(found, [(oid, b"dkey".to_vec())]);
    }

    /// A process dies between the two commits of targets 0 and 1; then 0 coordinates another one.
    #[test]
    fn next_commit_completes_earlier_commit_of_dead_coordinator() {
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(3));
        let state = pool.opened();
        let [first, second, third] = [0, 1, 2].map(|number: usize| &*state.targets[number]);
        let put = |changes: &mut [Change<'_>]| {
            changes.iter_mut().try_for_each(|change| change.put(b"Tkey", b"value"))
        };
        crash_between_commits(&state, put);
        coordinated(&state, &[first, third], &[], put).unwrap();
        let txn = second.view_of(crate::shard::Scope::Committed).unwrap();
        assert_eq!(txn.get(b"Tkey").unwrap(), Some(&b"value"[..]));
    }

    /// Targets that a transaction has only read do not commit, and nothing is written to them.
    #[test]
    fn one_target_that_changes_commits_alone() {
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(3));
        let state = pool.opened();
        let targets: Vec<&Target> = state.targets.iter().map(AsRef::as_ref).collect();
        let last = || targets.iter().map(|target| target.last_commit().unwrap());
        let before: Vec<_> = last().collect();
        let put =
            |value: &'static [u8]| move |changes: &mut [Change<'_>]| changes[1].put(b"Tkey", value);
        let stored = || {
            targets[1]
                .view_of(crate::shard::Scope::Committed)
                .unwrap()
                .get(b"Tkey")
                .unwrap()
                .map(<[u8]>::to_vec)
        };
        coordinated(&state, &targets, &[], put(b"value")).unwrap();
        assert_eq!(stored().as_deref(), Some(&b"value"[..]));
        let other = |change: &mut Change<'_>| change.put(b"Tkey", b"other");
        committed_alone(&state, &targets, 1, &[], other).unwrap();
        assert_eq!(stored().as_deref(), Some(&b"other"[..]));
        assert_eq!(last().collect::<Vec<_>>(), [before[0], before[1] + 2, before[2]]);
        assert!(targets.iter().all(|target| !target.is_in_doubt()));
        coordinated(&state, &targets, &[], |_| Ok(())).unwrap();
        committed_alone(&state, &targets, 0, &[], |_| Ok(())).unwrap();
        assert_eq!(last().sum::<u64>(), before.iter().sum::<u64>() + 2);
    }

    /// The process of the earlier commit died between the commits of its two targets.
    #[test]
    fn single_target_commit_sees_complete_earlier_commits() {
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        let state = pool.opened();
        let targets: Vec<&Target> = state.targets.iter().map(AsRef::as_ref).collect();
        let put = |changes: &mut [Change<'_>], value: &[u8]| {
            changes.iter_mut().try_for_each(|change| change.put(b"Tkey", value))
        };
        crash_between_commits(&state, |changes| put(changes, b"value"));
        let other = |change: &mut Change<'_>| {
            assert_eq!(change.txn().get(b"Tkey")?, Some(&b"value"[..]));
            change.put(b"Tkey", b"other")
        };
        committed_alone(&state, &targets, 0, &[], other).unwrap();
        let stored = |target: &&Target| {
            target
                .view_of(crate::shard::Scope::Committed)
                .unwrap()
                .get(b"Tkey")
                .unwrap()
                .map(<[u8]>::to_vec)
        };
        let values: Vec<_> = targets.iter().map(stored).collect();
        assert_eq!(values, [Some(b"other".to_vec()), Some(b"value".to_vec())]);
    }

    /// The commit was carried out long ago, but its intent is still stored.
    #[test]
    fn damaged_intent_is_reported_and_repaired() {
        let mut pool = Scratch::new(24 << 20, |spec| {
            spec.targets = Some(2);
            spec.durability = Some(esker_types::info::Durability::Commit);
        });
        {
            let state = pool.opened();
            let targets: Vec<&Target> = state.targets.iter().map(AsRef::as_ref).collect();
            let put = |changes: &mut [Change<'_>]| {
                changes.iter_mut().try_for_each(|change| change.put(b"Tkey", b"value"))
            };
            coordinated(&state, &targets, &[], put).unwrap();
            assert!(damaged_intent(targets[0]).unwrap().is_none());
            let cut = |change: &mut Change<'_>| {
                let intent = change.txn().get(&intent_key())?.unwrap().to_vec();
                change.put(&intent_key(), &intent[..intent.len() - 9])
            };
            targets[0].change(cut).unwrap();
        }
        pool.close();
        // The boot id in the control file changes, like after a restart of the machine.
        let control = std::fs::File::options().write(true).open(pool.path().join("control"));
        std::os::unix::fs::FileExt::write_all_at(&control.unwrap(), &[0; 8], 8).unwrap();
        let check = |repair| crate::Pool::check(&pool.path(), repair, &mut |_, _| {}).unwrap();
        let refused = crate::Pool::open(&pool.path()).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt);
        assert!(refused.message().contains("pool check --repair"), "{refused}");
        let found = check(false).problems;
        assert!(found.len() == 1 && found[0].starts_with("target 0: the intent"), "{found:?}");
        let report = check(true);
        assert_eq!(report.problems, [""; 0]);
        assert!(report.repaired[0].starts_with("target 0: the intent"), "{report:?}");
        assert_eq!(check(false).problems, [""; 0]);
        crate::Pool::open(&pool.path()).map(drop).unwrap();
    }
}
