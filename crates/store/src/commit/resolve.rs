//! Second phase of a commit over several nodes: what is prepared is committed or given up, on all targets of this node at
//! once, as a commit over several targets ([`super::coordinate`]) with the first of them as its coordinator.
//!
//! On the node that decides, the same index transaction stores the decision. Everything here may be repeated and may
//! arrive late. A preparation that arrives after its commit was resolved has a later epoch than that commit, since the
//! clock of the node has passed it: it is recognized by that, and given up.
use super::coordinate::{INTENT_KEPT_MAX, forget_intent, intent_key, repeat, while_held};
use super::decision::Decision;
use super::prepare::given_up;
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

/// What happens to a prepared commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Commit(Epoch),
    /// `remembered`: its client may not know, and may still try to commit it.
    GiveUp {
        remembered: bool,
    },
}

impl OpenPool {
    /// Commits what is prepared, at `epoch`, the latest of all its nodes. Does nothing if nothing is prepared.
    ///
    /// # Errors
    /// `TxRestart` on the node that decides, if the commit was given up; `TxUncertain` there, if it may have been, and its
    /// decision was swept; `Invalid` for an impossible epoch.
    pub fn commit_prepared(&self, commit: Commit, epoch: Epoch) -> Result<()> {
        self.expect_part(commit)?;
        if epoch.0 & PREPARED != 0 {
            let message = format!("a commit cannot have epoch {}", epoch.0);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        while let Some(found) = self.find_prepared(commit.id)? {
            let is_late = found.epoch > epoch;
            let verdict = match is_late {
                true => Verdict::GiveUp { remembered: false },
                false => Verdict::Commit(epoch),
            };
            if self.resolve(&found, verdict)? && !is_late {
                return Ok(());
            }
        }
        let decided = self.find_decision(commit.id)?;
        match decided {
            _ if !self.decides(commit) => Ok(()),
            Some((_, Decision::Committed(_))) => Ok(()),
            None if self.may_be_swept(commit)? => Err(commit.unknown()),
            _ => Err(given_up()),
        }
    }

    /// Gives up what is prepared. Does nothing if nothing is.
    ///
    /// # Errors
    /// `NotSupported` if the pool is no part of one over several nodes.
    pub fn give_up(&self, commit: Commit) -> Result<()> {
        self.expect_part(commit)?;
        while let Some(found) = self.find_prepared(commit.id)? {
            self.resolve(&found, Verdict::GiveUp { remembered: false })?;
        }
        Ok(())
    }

    /// What became of a commit about which this node decides. With `decide`, one that is undecided is given up.
    ///
    /// # Errors
    /// `Invalid` if another node decides.
    pub fn outcome(&self, commit: Commit, decide: bool) -> Result<Outcome> {
        self.expect_part(commit)?;
        commit.check_decided_by(self.superblock.part)?;
        while let Some(found) = self.find_prepared(commit.id)? {
            if !decide {
                return Ok(Outcome::Undecided);
            }
            self.resolve(&found, Verdict::GiveUp { remembered: true })?;
        }
        Ok(match self.find_decision(commit.id)? {
            Some((_, Decision::Committed(epoch))) => Outcome::Committed(epoch),
            None if self.may_be_swept(commit)? => Outcome::Unknown,
            _ => Outcome::Aborted,
        })
    }

    /// Commits that are prepared.
    ///
    /// # Errors
    /// `Corrupt` if one is damaged.
    pub fn prepared(&self) -> Result<Vec<Commit>> {
        let all = prepared::all(&self.targets)?;
        Ok(all.into_iter().map(|prepared| prepared.commit).collect())
    }

    /// Forgets the decision about a commit, once all nodes have followed it.
    ///
    /// # Errors
    /// `NotSupported` if the pool is no part of one over several nodes.
    pub fn forget(&self, commit: Commit) -> Result<()> {
        self.expect_part(commit)?;
        while let Some((target, _)) = self.find_decision(commit.id)? {
            target.with_room(|| {
                // Also if another commit is prepared on the target: that one does not depend on this key.
                let mut txn = target.begin_in_doubt()?;
                watermark::erase(&mut txn, commit.id)?;
                txn.commit()
            })?;
        }
        Ok(())
    }

    pub(super) fn decides(&self, commit: Commit) -> bool {
        commit.coordinator == self.superblock.part.node
    }

    pub(super) fn find_prepared(&self, id: CommitId) -> Result<Option<Prepared>> {
        let key = prepared_key(id);
        for target in &self.targets {
            if let Some(value) = target.view_in_doubt(Scope::Committed)?.committed().get(&key)? {
                return Prepared::decode(&key, value).map(Some);
            }
        }
        Ok(None)
    }

    /// The decision about a commit, and the target that has it.
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

    /// Carries out a verdict; false if others have resolved the commit meanwhile.
    fn resolve(&self, found: &Prepared, verdict: Verdict) -> Result<bool> {
        let target = |number| self.targets.get(number as usize).map(AsRef::as_ref);
        let targets: Option<Vec<&Target>> = found.targets().map(target).collect();
        let Some(targets) = targets else {
            return Err(Error::new(ErrorKind::Corrupt, "a prepared commit is of another pool"));
        };
        let resolving = Resolving { pool: self, found, targets, verdict };
        let resolved = {
            self.control.expect_file()?;
            while_held(&resolving.targets, &mut || {
                with_room(&resolving.targets, || resolving.attempt(WriteTxn::commit))
            })
        };
        crate::commit::destroyed::resume(self);
        resolved
    }
}

/// A prepared commit, and what is about to happen to it.
struct Resolving<'p> {
    pool: &'p OpenPool,
    found: &'p Prepared,
    targets: Vec<&'p Target>,
    verdict: Verdict,
}

impl Resolving<'_> {
    fn epoch(&self) -> Epoch {
        match self.verdict {
            Verdict::Commit(epoch) => epoch,
            Verdict::GiveUp { .. } => self.found.epoch,
        }
    }

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
            let _ = forget_intent(&self.targets);
        }
        Ok(true)
    }

    /// The edits of each target.
    fn edits(&self, txns: &[WriteTxn]) -> Result<Vec<Vec<IndexEdit>>> {
        let applied = || {
            let epoch = self.epoch().0.to_le_bytes();
            IndexEdit::Put(applied_key().to_vec(), epoch.to_vec())
        };
        let edits = |(part, txn): (&PreparedPart, &WriteTxn)| {
            let mut edits = match self.verdict {
                Verdict::Commit(epoch) => self.committed(part, epoch),
                Verdict::GiveUp { .. } => given_back(part, txn)?,
            };
            edits.push(applied());
            Ok(edits)
        };
        self.found.parts.iter().zip(txns).map(edits).collect()
    }

    fn committed(&self, part: &PreparedPart, epoch: Epoch) -> Vec<IndexEdit> {
        match &self.found.snapshot {
            None => part.steps.clone(),
            Some(snapshot) => {
                let key = snapshots::key(snapshot.container, epoch).to_vec();
                vec![IndexEdit::Put(key, snapshot.name.clone().into_bytes())]
            }
        }
    }

    /// Adds to the transaction of the first target what decides.
    fn decide(&self, txn: &mut WriteTxn, intent: &[u8]) -> Result<()> {
        let id = self.found.commit.id;
        txn.delete(&prepared_key(id))?;
        txn.put(&intent_key(), intent)?;
        let decision = match self.verdict {
            Verdict::Commit(epoch) => Decision::Committed(epoch),
            Verdict::GiveUp { remembered: true } => Decision::GivenUp,
            Verdict::GiveUp { remembered: false } => return Ok(()),
        };
        match self.pool.decides(self.found.commit) {
            true => watermark::record(txn, id, decision),
            false => Ok(()),
        }
    }

    fn commit(&self, txns: Vec<WriteTxn>, commit: impl Fn(WriteTxn) -> Result<()>) -> Result<()> {
        let epoch = self.epoch();
        if let Verdict::Commit(_) = self.verdict {
            for ((target, part), txn) in self.targets.iter().zip(&self.found.parts).zip(&txns) {
                // Nothing of it is leased: the doubt excludes that since it was prepared.
                note_versions(target, Version::committed(txn.id()), &part.touched);
                if self.found.snapshot.is_some() {
                    target.shared().note_snapshots(true);
                }
            }
        }
        // Before anybody can see the commit: what is written later must be later than a snapshot.
        self.pool.control.pass_epoch(epoch);
        commit_on_all(&self.targets, Some(self.found.epoch), txns, commit, epoch)
    }
}

/// Edits by which staged data is counted as dead.
fn given_back(part: &PreparedPart, txn: &Txn) -> Result<Vec<IndexEdit>> {
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
