//! Commit of writes: stages data, checks conditions, changes the index, and commits it.
//!
//! Large values are appended to segments first, without a lock. Then one index transaction refers to them. A change of
//! several targets goes through [`coordinate`].
mod apply;
mod buffered;
mod coordinate;
mod decision;
pub(crate) mod destroyed;
mod intent;
mod prepare;
mod prepared;
mod replies;
mod resolve;
mod snapshots;
mod stage;
mod take;
mod watermark;

pub(crate) use coordinate::{
    committed_alone, coordinated, damaged_intent, doubt_prepared, recover, resolve_doubt,
};
pub(crate) use decision::is_sound_decision;
pub(crate) use intent::Intent;
pub(crate) use prepared::{Prepared, all as all_prepared, staged_on};
pub(crate) use replies::is_sound as is_sound_reply;
pub use take::TakeResult;
pub(crate) use watermark::{is_sound_watermark, repair_watermark};

use crate::shard::Target;
use crate::shard::change::Change;
use crate::shard::container::Container;
use crate::shard::group;
use crate::shard::open_pool::OpenPool;
use crate::shared::read_version::ReadVersion;
use esker_types::ops::{ChangeId, Write};
use esker_types::{Epoch, Result};
use std::collections::BTreeSet;

/// Targets that take part in a change.
struct Participants {
    /// Numbers of the targets that are written or read.
    numbers: BTreeSet<u32>,
    /// Position of the target that stores the id of the change: the first one that changes or, without one, the first
    /// one that a write names.
    keeper: usize,
    /// True if no write names another target than the keeper. A write that only checks a condition counts too: the
    /// condition must be checked on its target.
    keeper_alone: bool,
}

impl Participants {
    fn from_writes(writes: &[(Write<'_>, Vec<u32>)], read_versions: &[ReadVersion]) -> Self {
        let targets = |(_, targets): &(Write<'_>, Vec<u32>)| targets.clone();
        let named: BTreeSet<u32> = writes.iter().flat_map(targets).collect();
        let changes = writes.iter().filter(|(write, _)| write.op.changes());
        let first = changes.flat_map(targets).min().or(named.first().copied());
        let read = read_versions.iter().map(|read| read.target);
        let numbers: BTreeSet<u32> = named.iter().copied().chain(read).collect();
        let keeper = numbers.iter().position(|number| Some(*number) == first).unwrap_or(0);
        Self { numbers, keeper, keeper_alone: named.len() <= 1 }
    }
}

impl OpenPool {
    /// Applies all or none of `writes`, which belong to target `number`, at one epoch. A change is not repeated if one
    /// with the same id was applied before; then the result is the epoch of that one.
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
        match self.find_applied(id)? {
            Some(done) => Ok(done),
            None => self.commit_writes(container, number, writes, read_versions, id),
        }
    }

    /// Stages the data, then appends the writes to the write buffer or commits them. If the change was applied
    /// meanwhile, the staged data is dropped.
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
        // The write buffer neither validates reads nor stores the id of a change.
        if let ([], None) = (read_versions, id)
            && let Some(epoch) = self.put_in_buffer(container, target, writes, &mut staged)?
        {
            return Ok(epoch);
        }
        let epoch = group::commit(target, read_versions, staged.has_data(), &mut |txn| {
            container.check_alive(self)?;
            let done = replies::find(txn, id)?;
            repeated = done.is_some();
            if let Some(epoch) = done {
                return Ok(epoch);
            }
            staged.check_held()?;
            let mut change = Change::new(target, txn, self.control.next_epoch());
            let applied = apply::apply(&mut change, container, writes, &staged);
            let remembered = applied.and_then(|()| replies::remember(&mut change, id));
            match remembered.and_then(|()| change.finish()) {
                Ok(()) => Ok(change.epoch),
                Err(error) => Err(change.to_failed(error)),
            }
        })?;
        if !repeated {
            staged.publish();
        }
        Ok(epoch)
    }

    /// Applies all or none of `writes` at one epoch, each to the targets given with it. The targets of `read_versions`
    /// take part too, so that nothing that a transaction has read changes before its commit. The first target that
    /// changes stores the id of the change.
    ///
    /// # Errors
    /// Errors of [`OpenPool::write`].
    pub fn write_many(
        &self,
        container: &Container,
        writes: &[(Write<'_>, Vec<u32>)],
        read_versions: &[ReadVersion],
        id: Option<ChangeId>,
    ) -> Result<Epoch> {
        let Participants { numbers, keeper, keeper_alone } =
            Participants::from_writes(writes, read_versions);
        let targets: Vec<&Target> =
            numbers.iter().map(|&number| self.targets[number as usize].as_ref()).collect();
        if let Some(done) = self.find_applied(id)? {
            return Ok(done);
        }
        let mut repeated = None;
        let mut parts = targets
            .iter()
            .map(|target| target.with_segments(|| stage::stage_part(target, container, writes)))
            .collect::<Result<Vec<_>>>()?;
        // The data must be on the medium before a commit refers to it.
        for (target, _) in targets.iter().zip(&parts).filter(|(_, staged)| staged.has_data()) {
            target.sync_data()?;
        }
        let mut work = |changes: &mut [Change<'_>], staged: &[stage::Staged<'_>], keeper: usize| {
            container.check_alive(self)?;
            let Some(keeping) = changes.get(keeper) else { return Ok(()) };
            repeated = replies::find(keeping.txn(), id)?;
            if repeated.is_some() {
                return Ok(()); // Nothing is changed, and nothing is committed.
            }
            staged.iter().try_for_each(stage::Staged::check_held)?;
            apply::apply_many(changes, container, writes, staged)?;
            replies::remember(&mut changes[keeper], id)
        };
        let epoch = match keeper_alone {
            true => {
                let part = std::slice::from_ref(&parts[keeper]);
                let work = |change: &mut Change<'_>| work(std::slice::from_mut(change), part, 0);
                committed_alone(self, &targets, keeper, read_versions, work)?
            }
            false => coordinated(self, &targets, read_versions, |it| work(it, &parts, keeper))?,
        };
        if repeated.is_none() {
            parts.iter_mut().for_each(stage::Staged::publish);
        }
        Ok(repeated.unwrap_or(epoch))
    }

    /// The epoch of a change that was applied before; `None` for a change that was not, or that has no id. All targets
    /// are queried: a later change of the same slot may have gone to any of them, and then this change is refused.
    fn find_applied(&self, id: Option<ChangeId>) -> Result<Option<Epoch>> {
        let Some(id) = id else { return Ok(None) };
        let mut done = None;
        for target in &self.targets {
            done = done.or(replies::find_early(target, id)?);
        }
        Ok(done)
    }

    /// True if none of the reads has changed and no commit is about to change one. False also if a lock would be needed
    /// to determine that.
    #[must_use]
    pub fn are_unchanged(&self, read_versions: &[ReadVersion]) -> bool {
        read_versions.iter().all(|read| {
            let target = &self.targets[read.target as usize];
            target.is_unchanged(std::iter::once(read.slot as usize), read.version)
        })
    }

    /// Fails with `TxRestart` if the reads of a read-only transaction were not consistent at one moment.
    pub fn check_read_versions(&self, read_versions: &[ReadVersion]) -> Result<()> {
        for target in &self.targets {
            let is_concerned = read_versions.iter().any(|read| read.target == target.number());
            // A commit in doubt may still be decided and then change its versions.
            let is_in_doubt = is_concerned && target.is_in_doubt();
            if is_in_doubt || target.expect_unchanged(read_versions).is_err() {
                target.lock()?.expect_unchanged(read_versions)?;
            }
        }
        Ok(())
    }
}
