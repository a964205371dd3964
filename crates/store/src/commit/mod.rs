//! Commits: staging of data, conditions, changes of the index, commit.
//!
//! Large values are appended to segments first, without any lock. Then one index transaction refers to them. A change
//! of several targets goes through [`coordinate`].
mod apply;
mod change;
mod coordinate;
mod decision;
pub(crate) mod doubt;
mod group;
mod intent;
mod logged;
mod prepare;
mod prepared;
mod replies;
mod resolve;
mod stage;

pub(crate) use change::{Change, IndexEdit, headroom_pages};
pub(crate) use coordinate::{
    applied, applied_key, committed_alone, coordinated, doubt_prepared, last_applied, recover,
    settle,
};
pub(crate) use decision::is_sound_decision;
pub(crate) use group::Group;
pub(crate) use intent::Intent;
pub(crate) use prepared::{Prepared, all as all_prepared, staged_on};
pub(crate) use replies::is_sound as is_sound_reply;

use crate::catalog::Container;
use crate::control::ProcessSlot;
use crate::io::txn::{ReadTxn, WriteTxn};
use crate::pool::OpenPool;
use crate::read_version::ReadVersion;
use crate::target::Target;
use esker_types::ops::{ChangeId, Write};
use esker_types::{Epoch, Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// Bits of [`crate::control::TargetAtomics::writer`] that have the process slot.
const PROCESS_BITS: u32 = 16;

/// Number of a write transaction and its process, as one value.
fn word_of(number: u64, process: ProcessSlot) -> u64 {
    number << PROCESS_BITS | u64::from(process.0)
}

fn writer_of(word: u64) -> (u64, ProcessSlot) {
    (word >> PROCESS_BITS, ProcessSlot((word & ((1 << PROCESS_BITS) - 1)) as u32))
}

/// Attempts to see the writer before finish, some tens of nanoseconds apart.
const TURN_ROUNDS: u32 = 200;

impl Target {
    /// Begins a write transaction, once no commit over several targets is half done.
    pub(crate) fn begin_write(&self) -> Result<WriteTxn> {
        let mut tended = false;
        let begin = || {
            self.await_turn()?;
            self.begin_in_doubt()
        };
        loop {
            let txn = doubt::undoubted(self.in_doubt(), begin, || settle(self))?;
            match self.due(&txn)?.filter(|_| !tended) {
                None => return Ok(txn),
                // An error while tending free pages is no reason to refuse a change.
                Some(due) => {
                    tended = true;
                    let _ = self.tend(txn, due);
                }
            }
        }
    }

    /// Begins a write transaction, even if a commit that another node decides about is to follow it.
    fn begin_in_doubt(&self) -> Result<WriteTxn> {
        let txn = self.write_txn()?;
        self.note_writer(&txn);
        Ok(txn)
    }

    /// Tells readers whose commit is the next one, in case that this process dies in it.
    fn note_writer(&self, txn: &WriteTxn) {
        self.shared().writer().store(word_of(txn.id(), self.process()), Ordering::Release);
    }

    /// True if a read transaction misses a commit whose process died in it: the commit is on the medium, but LMDB,
    /// which stores the number of the last one in its lock file, shows it only after somebody takes the write lock.
    pub(crate) fn misses_commit_of_dead(&self, txn: &ReadTxn) -> Result<bool> {
        if !self.is_durable() && self.log().is_none() {
            // What is not synced is told at once, or nobody has been told of it. A commit of a log has what others put.
            return Ok(false);
        }
        let newest = self.index.last_commit()?;
        if newest <= txn.id() {
            return Ok(false);
        }
        let (number, process) = writer_of(self.shared().writer().load(Ordering::Acquire));
        Ok(number == newest && !self.is_alive(process))
    }

    /// Shows the last commit, if it is of a process that had this slot before, and may have died in it.
    pub(crate) fn show_commit_of(&self, slot: ProcessSlot) -> Result<()> {
        let (_, process) = writer_of(self.shared().writer().load(Ordering::Acquire));
        match process == slot && !self.control.read_only {
            true => self.index.write().map(drop),
            false => Ok(()),
        }
    }

    /// Spins for the writer before for about as long as a short change takes: being woken from LMDB's lock takes
    /// longer.
    fn await_turn(&self) -> Result<()> {
        let atomics = self.shared();
        for round in 0..TURN_ROUNDS {
            if writer_of(atomics.writer().load(Ordering::Acquire)).0 <= self.index.last_commit()? {
                // Its lock is released a moment after its commit.
                (0..round.min(4)).for_each(|_| std::hint::spin_loop());
                return Ok(());
            }
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// Fails if what a transaction read from this target has changed since. Call with the write lock held by
    /// transaction `own`, before its first change.
    /// A slot may already have the value `own`, from a change that died or was given up before its commit. What it
    /// had before is lost, so the last commit is assumed. A transaction that restarts for this reads a later state
    /// than that, and succeeds.
    pub(crate) fn check_read_versions(
        &self,
        read_versions: &[ReadVersion],
        own: u64,
    ) -> Result<()> {
        let atomics = self.shared();
        let stale = read_versions.iter().filter(|read| read.target == self.number()).any(|read| {
            // What `own` takes along was put after the last commit.
            if own != u64::MAX && self.logged_slot(read.slot) {
                return true;
            }
            let slot = &atomics.conflicts()[read.slot as usize];
            let version = slot.load(Ordering::Acquire);
            if version >= own {
                slot.store(own - 1, Ordering::Release);
            }
            version.min(own - 1) > read.version
        });
        if stale {
            return Err(Error::new(
                ErrorKind::TxRestart,
                "data that the transaction read has changed: restart it",
            ));
        }
        Ok(())
    }

    /// Runs `work` in a write transaction of its own, and commits.
    pub(crate) fn change<T>(
        &self,
        mut work: impl FnMut(&mut Change<'_>) -> Result<T>,
    ) -> Result<T> {
        self.with_room(|| {
            let mut txn = self.begin_write()?;
            let epoch = self.control.next_epoch();
            let mut change = Change::new(self, &mut txn, epoch);
            let result = work(&mut change)?;
            change.finish()?;
            txn.commit()?;
            Ok(result)
        })
    }
}

impl OpenPool {
    /// Applies all of `writes`, which belong to target `number`, at one epoch, or none. A change with an id that was
    /// done before is not repeated: the result is its epoch.
    ///
    /// # Errors
    /// Errors of conditions, limits and space; `TxRestart` if `read_versions` are out of date.
    pub fn write(
        &self,
        container: &Container,
        number: u32,
        writes: &[Write<'_>],
        read_versions: &[ReadVersion],
        id: Option<ChangeId>,
    ) -> Result<Epoch> {
        match self.find_done(id)? {
            Some(done) => Ok(done),
            None => self.commit_writes(container, number, writes, read_versions, id),
        }
    }

    fn commit_writes(
        &self,
        container: &Container,
        number: u32,
        writes: &[Write<'_>],
        read_versions: &[ReadVersion],
        id: Option<ChangeId>,
    ) -> Result<Epoch> {
        let target: &Target = &self.targets[number as usize];
        let mut repeated = false;
        let mut staged = target.with_segments(|| stage::stage(target, container, writes))?;
        if let ([], None) = (read_versions, id)
            && let Some(epoch) = self.put_in_log(container, target, writes, &mut staged)?
        {
            return Ok(epoch);
        }
        let sharing = if read_versions.is_empty() {
            group::Sharing::Allowed
        } else {
            group::Sharing::Refused
        };
        let epoch = group::commit(target, sharing, staged.has_data(), &mut |txn| {
            container.check_alive(self)?;
            let done = replies::find(txn, id)?;
            repeated = done.is_some();
            if let Some(epoch) = done {
                return Ok(epoch);
            }
            target.check_read_versions(read_versions, txn.id())?;
            staged.check_held()?;
            let mut change = Change::new(target, txn, self.control.next_epoch());
            let applied = apply::apply(&mut change, container, writes, &staged);
            let remembered = applied.and_then(|()| replies::remember(&mut change, id));
            match remembered.and_then(|()| change.finish()) {
                Ok(()) => Ok(change.epoch),
                Err(error) => Err(change.failed(error)),
            }
        })?;
        if !repeated {
            staged.publish();
        }
        Ok(epoch)
    }

    /// Applies all of `writes`, each to the targets that come with it, at one epoch, or none. Targets of
    /// `read_versions` take part, so that nothing a transaction has read changes before its commit. The first target that
    /// it changes remembers the id of the change.
    ///
    /// # Errors
    /// As [`OpenPool::write`].
    pub fn write_many(
        &self,
        container: &Container,
        writes: &[(Write<'_>, Vec<u32>)],
        read_versions: &[ReadVersion],
        id: Option<ChangeId>,
    ) -> Result<Epoch> {
        let written = |(_, targets): &(Write<'_>, Vec<u32>)| targets.clone();
        let read = read_versions.iter().map(|read| read.target);
        let numbers: BTreeSet<u32> = writes.iter().flat_map(written).chain(read).collect();
        let changes = writes.iter().filter(|(write, _)| write.op.changes());
        let changed: BTreeSet<u32> = changes.flat_map(written).collect();
        let is_keeper = |number: &u32| changed.first().is_none_or(|first| first == number);
        let keeper = numbers.iter().position(is_keeper).unwrap_or(0);
        let targets: Vec<&Target> =
            numbers.iter().map(|&number| self.targets[number as usize].as_ref()).collect();
        if let Some(done) = self.find_done(id)? {
            return Ok(done);
        }
        let mut repeated = None;
        let mut parts = targets
            .iter()
            .map(|target| target.with_segments(|| stage::stage_part(target, container, writes)))
            .collect::<Result<Vec<_>>>()?;
        for (target, _) in targets.iter().zip(&parts).filter(|(_, staged)| staged.has_data()) {
            target.sync_data()?;
        }
        let work = |changes: &mut [Change<'_>]| {
            container.check_alive(self)?;
            let Some(keeping) = changes.get(keeper) else { return Ok(()) };
            repeated = replies::find(keeping.txn(), id)?;
            if repeated.is_some() {
                return Ok(()); // An empty commit.
            }
            for (change, staged) in changes.iter().zip(&parts) {
                change.target().check_read_versions(read_versions, change.txn().id())?;
                staged.check_held()?;
            }
            apply::apply_many(changes, container, writes, &parts)?;
            replies::remember(&mut changes[keeper], id)
        };
        let epoch = match changed.len() {
            0 | 1 => committed_alone(self, &targets, keeper, work)?,
            _ => coordinated(self, &targets, work)?,
        };
        if repeated.is_none() {
            parts.iter_mut().for_each(stage::Staged::publish);
        }
        Ok(repeated.unwrap_or(epoch))
    }

    /// The epoch of a change, if it was done before. All targets are asked: a later change of its slot may have gone to
    /// any of them, and then this one is refused.
    fn find_done(&self, id: Option<ChangeId>) -> Result<Option<Epoch>> {
        let Some(id) = id else { return Ok(None) };
        let mut done = None;
        for target in &self.targets {
            done = done.or(replies::find_early(target, id)?);
        }
        Ok(done)
    }

    /// True if nothing of this has changed, and no commit is about to change it. False also if that cannot be told without
    /// locks.
    #[must_use]
    pub fn are_unchanged(&self, read_versions: &[ReadVersion]) -> bool {
        read_versions.iter().all(|read| {
            let target = &self.targets[read.target as usize];
            target.is_unchanged(std::iter::once(read.slot as usize), read.version)
        })
    }

    /// Fails with `TxRestart` if what a read-only transaction read was not true at one moment.
    pub fn check_read_versions(&self, read_versions: &[ReadVersion]) -> Result<()> {
        for target in &self.targets {
            if target.check_read_versions(read_versions, u64::MAX).is_err() {
                // It may be left over from a dead writer: with the write lock, that can be told.
                let txn = target.begin_write()?;
                target.check_read_versions(read_versions, txn.id())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;
    use crate::tests::Scratch;
    use esker_types::info::Durability;

    /// What a dead or failed writer leaves in its word delays others, and no more.
    #[test]
    fn a_writer_that_never_commits_holds_nobody_up() {
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        let state = pool.opened();
        let target = &state.targets[0];
        for word in [u64::MAX, 0, 7] {
            target.shared().writer().store(word, Ordering::Release);
            target.change(|change| change.put(b"Tkey", &word.to_le_bytes())).unwrap();
            let txn = target.read().unwrap();
            assert_eq!(txn.get(b"Tkey").unwrap(), Some(&word.to_le_bytes()[..]));
        }
    }

    /// Names the pool in which a process of this test is to die.
    const DIE_IN: &str = "ESKER_TEST_DIE_IN";

    /// What is left of a process that is killed in a synced commit, when its meta page is written and LMDB's
    /// number of the last commit is not.
    fn die_in_a_commit(pool: &std::path::Path) -> ! {
        let pool = Pool::open(pool).unwrap();
        let state = pool.opened().unwrap();
        let target = &state.targets[0];
        target.change(|change| change.put(b"Tkey", b"new")).unwrap();
        let done = target.index.last_commit().unwrap();
        let _held = target.begin_write().unwrap();
        target.shared().writer().store(word_of(done, target.process()), Ordering::Release);
        let locks = pool.path().join("target-0/index/lock.mdb");
        let locks = std::fs::File::options().write(true).open(locks).unwrap();
        let number_at = 8; // Behind LMDB's magic and version.
        std::os::unix::fs::FileExt::write_all_at(&locks, &(done - 1).to_le_bytes(), number_at)
            .unwrap();
        std::process::exit(0)
    }

    #[test]
    fn a_commit_whose_process_died_in_it_is_seen_at_once_or_never() {
        if let Some(pool) = std::env::var_os(DIE_IN) {
            die_in_a_commit(pool.as_ref());
        }
        for (durability, put_log) in [(Durability::Commit, false), (Durability::Process, true)] {
            expect_commit_of_dead(durability, put_log);
        }
    }

    fn expect_commit_of_dead(durability: Durability, put_log: bool) {
        let pool = Scratch::new(24 << 20, |spec| {
            (spec.targets, spec.durability) = (Some(2), Some(durability));
            spec.put_log = put_log;
        });
        let state = pool.opened();
        let target = &state.targets[0];
        let put =
            |key: &[u8], value: &[u8]| target.change(|change| change.put(key, value)).unwrap();
        put(b"Tkey", b"old");
        let own_name = "a_commit_whose_process_died_in_it_is_seen_at_once_or_never";
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args([&format!("commit::tests::{own_name}"), "--exact"])
            .env(DIE_IN, pool.path())
            .status();
        assert!(status.unwrap().success());
        let value = || target.read().unwrap().get(b"Tkey").unwrap().map(<[u8]>::to_vec);
        let first = value();
        put(b"Tother", b"value");
        assert_eq!(first, value(), "it came to light with the next commit");
        assert_eq!(first.as_deref(), Some(&b"new"[..]));
    }
}
