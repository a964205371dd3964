//! Second phase of a commit over several nodes. A prepared commit is committed or aborted on all targets of this node
//! at once. This is a commit over several targets ([`super::coordinate`]) whose coordinator is the first of them.
//!
//! On the node that decides, the same index transaction stores the decision. Each operation may be repeated and may
//! arrive late. A preparation that arrives after its commit was resolved has a later epoch than the commit, since the
//! clock of the node has passed it. That is how it is recognized, and it is aborted.
use super::coordinate::{
    INTENT_KEPT_MAX, forget_intent, intent_key, repeat, with_coordination_locks,
};
use super::decision::Decision;
use super::prepare::aborted_error;
use super::prepared::{Prepared, PreparedPart, prepared_key};
use super::{intent, prepared, watermark};
use crate::format::keys::{Key, Table};
use crate::index::txn::{Txn, WriteTxn};
use crate::shard::change::{IndexEdit, note_versions, with_room};
use crate::shard::doubt::{PREPARED, applied_key, commit_on_all};
use crate::shard::open_pool::OpenPool;
use crate::shard::segment::collect::dead_bytes;
use crate::shard::{Scope, Target, snapshots};
use crate::shared::read_version::Version;
use esker_types::ops::{Commit, CommitId, Outcome};
use esker_types::{Epoch, Error, ErrorKind, Result};
use std::collections::BTreeMap;

/// Resolution of a prepared commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resolution {
    Commit(Epoch),
    /// With `remembered`, the decision is stored, since the client may not know of it and may still try to commit.
    Abort {
        remembered: bool,
    },
}

impl OpenPool {
    /// Commits a prepared commit at `epoch`, the latest epoch of all its nodes. Has no effect if nothing is prepared.
    ///
    /// # Errors
    /// On the node that decides: `TxRestart` if the commit was aborted; `TxUncertain` if its decision may have been
    /// swept. `Invalid` for an impossible epoch.
    pub fn commit_prepared(&self, commit: Commit, epoch: Epoch) -> Result<()> {
        self.expect_pool_over_nodes(commit)?;
        if epoch.0 & PREPARED != 0 {
            let message = format!("a commit cannot have epoch {}", epoch.0);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        while let Some(found) = self.find_prepared(commit.id)? {
            // The clock passed the epoch when the commit was resolved, so this preparation arrived after that.
            let is_late = found.epoch > epoch;
            let resolution = match is_late {
                true => Resolution::Abort { remembered: false },
                false => Resolution::Commit(epoch),
            };
            // If another process has resolved it, or it was late, the state is examined again.
            if self.resolve(&found, resolution)? && !is_late {
                return Ok(());
            }
        }
        let decided = self.find_decision(commit.id)?;
        match decided {
            // Only the node that decides stores how the commit ended.
            _ if !self.decides(commit) => Ok(()),
            Some((_, Decision::Committed(_))) => Ok(()),
            None if self.may_be_swept(commit)? => Err(commit.unknown()),
            _ => Err(aborted_error()),
        }
    }

    /// Aborts a prepared commit. Has no effect if nothing is prepared.
    ///
    /// # Errors
    /// `NotSupported` if the pool is on one node.
    pub fn abort_prepared(&self, commit: Commit) -> Result<()> {
        self.expect_pool_over_nodes(commit)?;
        while let Some(found) = self.find_prepared(commit.id)? {
            self.resolve(&found, Resolution::Abort { remembered: false })?;
        }
        Ok(())
    }

    /// Decision about a commit that this node coordinates. With `decide`, an undecided commit is aborted.
    ///
    /// # Errors
    /// `Invalid` if another node coordinates the commit.
    pub fn outcome(&self, commit: Commit, decide: bool) -> Result<Outcome> {
        self.expect_pool_over_nodes(commit)?;
        commit.check_decided_by(self.superblock.part)?;
        while let Some(found) = self.find_prepared(commit.id)? {
            if !decide {
                return Ok(Outcome::Undecided);
            }
            self.resolve(&found, Resolution::Abort { remembered: true })?;
        }
        Ok(match self.find_decision(commit.id)? {
            Some((_, Decision::Committed(epoch))) => Outcome::Committed(epoch),
            None if self.may_be_swept(commit)? => Outcome::Unknown,
            // A commit without a decision was never prepared here, or was aborted.
            _ => Outcome::Aborted,
        })
    }

    /// Lists the prepared commits.
    ///
    /// # Errors
    /// `Corrupt` if a prepared commit is damaged.
    pub fn prepared(&self) -> Result<Vec<Commit>> {
        let all = prepared::all(&self.targets)?;
        Ok(all.into_iter().map(|prepared| prepared.commit).collect())
    }

    /// Removes the decision about a commit after all nodes have followed it.
    ///
    /// # Errors
    /// `NotSupported` if the pool is on one node.
    pub fn forget(&self, commit: Commit) -> Result<()> {
        self.expect_pool_over_nodes(commit)?;
        while let Some((target, _)) = self.find_decision(commit.id)? {
            target.with_room(|| {
                // This works even if another commit is prepared on the target, since that commit does not depend on
                // this key.
                let mut txn = target.begin_in_doubt()?;
                watermark::erase(&mut txn, commit.id)?;
                txn.commit()
            })?;
        }
        Ok(())
    }

    /// True if this node coordinates the commit.
    pub(super) fn decides(&self, commit: Commit) -> bool {
        commit.coordinator == self.superblock.part.node
    }

    /// The prepared commit with an id; `None` if no target of this pool stores one.
    pub(super) fn find_prepared(&self, id: CommitId) -> Result<Option<Prepared>> {
        let key = prepared_key(id);
        for target in &self.targets {
            if let Some(value) = target.view_in_doubt(Scope::Committed)?.committed().get(&key)? {
                return Prepared::decode(&key, value).map(Some);
            }
        }
        Ok(None)
    }

    /// The decision about a commit, and the target that stores it; `None` if no target of this pool stores one.
    pub(super) fn find_decision(&self, id: CommitId) -> Result<Option<(&Target, Decision)>> {
        for target in &self.targets {
            if let Some(decision) =
                Decision::find(target.view_in_doubt(Scope::Committed)?.committed(), id)?
            {
                return Ok(Some((target, decision)));
            }
        }
        Ok(None)
    }

    /// Resolves a prepared commit; returns false if another process has resolved it before.
    fn resolve(&self, found: &Prepared, resolution: Resolution) -> Result<bool> {
        let target = |number| self.targets.get(number as usize).map(AsRef::as_ref);
        let targets: Option<Vec<&Target>> = found.targets().map(target).collect();
        let Some(targets) = targets else {
            return Err(Error::new(ErrorKind::Corrupt, "a prepared commit is of another pool"));
        };
        let resolving = Resolving { pool: self, found, targets, resolution };
        let resolved = {
            self.control.expect_file()?;
            with_coordination_locks(&resolving.targets, &mut || {
                with_room(&resolving.targets, || resolving.attempt(WriteTxn::commit))
            })
        };
        // Freeing the space of destroyed containers may have failed while the targets were in doubt.
        crate::commit::destroyed::resume(self);
        resolved
    }
}

/// A prepared commit that is being resolved.
struct Resolving<'p> {
    pool: &'p OpenPool,
    found: &'p Prepared,
    targets: Vec<&'p Target>,
    resolution: Resolution,
}

impl Resolving<'_> {
    /// Epoch of the index transactions that resolve the commit: the commit's epoch or, if the commit is aborted, the
    /// epoch of its preparation.
    fn epoch(&self) -> Epoch {
        match self.resolution {
            Resolution::Commit(epoch) => epoch,
            Resolution::Abort { .. } => self.found.epoch,
        }
    }

    /// Body of [`OpenPool::resolve`], with the same result, which runs with the coordination locks held. `commit`
    /// commits one transaction; tests let it fail.
    fn attempt(&self, commit: impl Fn(WriteTxn) -> Result<()>) -> Result<bool> {
        let key = prepared_key(self.found.commit.id);
        let txns = self.targets.iter().map(|target| target.begin_in_doubt());
        let mut txns = txns.collect::<Result<Vec<_>>>()?;
        let Some(stored) = txns.first().map(|txn| txn.get(&key)).transpose()?.flatten() else {
            return Ok(false);
        };
        if Prepared::decode(&key, stored)? != *self.found {
            return Ok(false);
        }
        let edits = self.edits(&txns)?;
        let numbers: Vec<u32> = self.found.targets().collect();
        let intent = intent::encode(self.epoch(), &numbers, &edits);
        if let Some(first) = txns.first_mut() {
            self.decide(first, &intent)?;
        }
        for (txn, edits) in txns.iter_mut().zip(&edits) {
            edits.iter().try_for_each(|edit| repeat(txn, edit))?;
        }
        self.commit(txns, commit)?;
        if intent.len() > INTENT_KEPT_MAX {
            // The commit is resolved even if this fails.
            let _ = forget_intent(&self.targets);
        }
        Ok(true)
    }

    /// The edits of each target. The last one of each records that the target has applied the commit.
    fn edits(&self, txns: &[WriteTxn]) -> Result<Vec<Vec<IndexEdit>>> {
        let applied = || {
            let epoch = self.epoch().0.to_le_bytes();
            IndexEdit::Put(applied_key().to_vec(), epoch.to_vec())
        };
        let edits = |(part, txn): (&PreparedPart, &WriteTxn)| {
            let mut edits = match self.resolution {
                Resolution::Commit(epoch) => self.committed(part, epoch),
                Resolution::Abort { .. } => count_staged_as_dead(part, txn)?,
            };
            edits.push(applied());
            Ok(edits)
        };
        self.found.parts.iter().zip(txns).map(edits).collect()
    }

    /// Edits that carry out the commit on one target: the prepared steps. For a snapshot, the only edit puts the
    /// snapshot's entry, at `epoch`, the epoch of the commit.
    fn committed(&self, part: &PreparedPart, epoch: Epoch) -> Vec<IndexEdit> {
        match &self.found.snapshot {
            None => part.steps.clone(),
            Some(snapshot) => {
                let key = snapshots::key(snapshot.container, epoch).to_vec();
                vec![IndexEdit::Put(key, snapshot.name.clone().into_bytes())]
            }
        }
    }

    /// Adds the decision and the intent to the transaction of the first target.
    fn decide(&self, txn: &mut WriteTxn, intent: &[u8]) -> Result<()> {
        let id = self.found.commit.id;
        txn.delete(&prepared_key(id))?;
        txn.put(&intent_key(), intent)?;
        let decision = match self.resolution {
            Resolution::Commit(epoch) => Decision::Committed(epoch),
            Resolution::Abort { remembered: true } => Decision::Aborted,
            Resolution::Abort { remembered: false } => return Ok(()),
        };
        match self.pool.decides(self.found.commit) {
            true => watermark::record(txn, id, decision),
            false => Ok(()),
        }
    }

    /// Commits the transactions on all targets. The new versions are stored first, as in any change.
    fn commit(&self, txns: Vec<WriteTxn>, commit: impl Fn(WriteTxn) -> Result<()>) -> Result<()> {
        let epoch = self.epoch();
        if let Resolution::Commit(_) = self.resolution {
            for ((target, part), txn) in self.targets.iter().zip(&self.found.parts).zip(&txns) {
                // There are no read leases on its slots: none was granted since the target is in doubt.
                note_versions(target, Version::committed(txn.id()), &part.touched);
                if self.found.snapshot.is_some() {
                    target.shared().note_snapshots(true);
                }
            }
        }
        // The clock passes the epoch before the commit is visible, since later writes must be later than a snapshot.
        self.pool.control.pass_epoch(epoch);
        commit_on_all(&self.targets, Some(self.found.epoch), txns, commit, epoch)
    }
}

/// Edits that add the staged bytes of an aborted commit to the dead bytes of their segments.
fn count_staged_as_dead(part: &PreparedPart, txn: &Txn) -> Result<Vec<IndexEdit>> {
    let mut dead: BTreeMap<u32, u64> = BTreeMap::new();
    for staged in &part.staged {
        *dead.entry(staged.segment).or_default() += staged.bytes;
    }
    let count = |(segment, bytes): (u32, u64)| {
        let key = Key::table(Table::Segment).push(&segment.to_be_bytes());
        let before = txn.get(&key)?.map_or(0, dead_bytes);
        Ok(IndexEdit::Put(key.to_vec(), (before + bytes).to_le_bytes().to_vec()))
    };
    dead.into_iter().map(count).collect()
}

#[cfg(test)]
pub(super) mod tests;
