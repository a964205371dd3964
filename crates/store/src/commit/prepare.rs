//! First phase of a commit over several nodes. The node validates its share of the change, stages the data, computes
//! the edits, and stores them as a prepared commit. From then on its targets are in doubt. No process owns a prepared
//! commit: any process that learns the decision of the coordinator resolves it ([`super::resolve`]).
//!
//! No lock is held between the phases. Nothing else may change the state from which the edits were computed. So every
//! read or change of the index of a target checks for doubt first. Operations that skip this check, such as moving
//! pages between index and data, change only tables of their own.
use super::coordinate::{begin_unchanged, finish, intent_key, with_coordination_locks};
use super::decision::Decision;
use super::prepared::{Prepared, PreparedPart, PreparedSnapshot, prepared_key};
use super::snapshots::refuse_more_snapshots;
use super::stage::Staged;
use super::{apply, intent, stage, watermark};
use crate::index::txn::WriteTxn;
use crate::shard::change::{Change, headroom_pages, with_room};
use crate::shard::container::Container;
use crate::shard::open_pool::OpenPool;
use crate::shard::read_leases::{combine_lease_results, retry_after_leases};
use crate::shard::{Target, snapshots};
use crate::shared::read_version::ReadVersion;
use esker_types::ops::{Commit, Write};
use esker_types::{Epoch, Error, ErrorKind, Result};
use std::collections::BTreeSet;

/// A preparation in progress.
struct Preparing<'p> {
    pool: &'p OpenPool,
    commit: Commit,
    targets: Vec<&'p Target>,
    snapshot: Option<PreparedSnapshot>,
    /// Versions of the reads of the transaction, which must not have changed.
    read_versions: &'p [ReadVersion],
}

impl OpenPool {
    /// Refuses commits over several nodes in a pool that is on one node.
    pub(super) fn expect_pool_over_nodes(&self, commit: Commit) -> Result<()> {
        commit.check(self.superblock.part)
    }

    /// Prepares this node's share of a change: all of `writes`, each for the targets given with it. Fails if something
    /// that the transaction has read has changed. Preparing the same commit again has no effect. Returns the epoch of
    /// the preparation.
    ///
    /// # Errors
    /// Errors of [`OpenPool::write`]; `InDoubt` if another commit is prepared on a target; `TxRestart` if the commit
    /// was aborted; `Again` if this node coordinates the commit and cannot accept it, see [`OpenPool::decisions`];
    /// `NotSupported` if the pool is on one node.
    pub fn prepare_change(
        &self,
        container: &Container,
        commit: Commit,
        writes: &[(Write<'_>, Vec<u32>)],
        read_versions: &[ReadVersion],
    ) -> Result<Epoch> {
        self.expect_pool_over_nodes(commit)?;
        if let Some(epoch) = self.prepared_before(commit)? {
            return Ok(epoch);
        }
        let written = writes.iter().flat_map(|(_, targets)| targets.iter().copied());
        let numbers = written.chain(read_versions.iter().map(|read| read.target));
        let mut preparing = Preparing::new(self, commit, numbers.collect(), None);
        preparing.read_versions = read_versions;
        let staged = preparing.stage(container, writes)?;
        preparing.run(staged, &mut |changes, parts| {
            container.check_alive(self)?;
            parts.iter().try_for_each(Staged::check_held)?;
            apply::apply_many(changes, container, writes, parts)
        })
    }

    /// Prepares a snapshot of a container on all targets of this node, at the epoch of the commit. Otherwise it works
    /// like [`OpenPool::prepare_change`].
    ///
    /// # Errors
    /// Errors of [`OpenPool::create_snapshot`] and [`OpenPool::prepare_change`].
    pub fn prepare_snapshot(
        &self,
        container: &Container,
        commit: Commit,
        name: &str,
    ) -> Result<Epoch> {
        self.expect_pool_over_nodes(commit)?;
        if let Some(epoch) = self.prepared_before(commit)? {
            return Ok(epoch);
        }
        let snapshot = PreparedSnapshot { container: container.id(), name: name.to_owned() };
        let numbers = (0..self.superblock.targets).collect();
        let preparing = Preparing::new(self, commit, numbers, Some(snapshot));
        preparing.run(Vec::new(), &mut |changes, _| {
            container.check_alive(self)?;
            refuse_more_snapshots(changes, container)?;
            changes.iter_mut().try_for_each(|change| {
                change.check_room()?;
                change.target().shared().note_snapshots(true);
                // This entry only tests for space. It has the epoch of the preparation, since that of the commit is not
                // known yet.
                change.put(&snapshots::key(container.id(), change.epoch), name.as_bytes())
            })
        })
    }

    /// The epoch of a commit that is already prepared or committed. If this node decides about the commit and does not
    /// know it, checks that it may still be prepared.
    ///
    /// # Errors
    /// `TxRestart` if it was aborted on behalf of another node; `Again` if this node coordinates it and cannot accept
    /// it.
    fn prepared_before(&self, commit: Commit) -> Result<Option<Epoch>> {
        if let Some(found) = self.find_prepared(commit.id)? {
            return Ok(Some(found.epoch));
        }
        match self.find_decision(commit.id)? {
            None if self.decides(commit) => self.admit(commit).map(|()| None),
            None => Ok(None),
            Some((_, Decision::Committed(epoch))) => Ok(Some(epoch)),
            Some((_, Decision::Aborted)) => Err(aborted_error()),
        }
    }
}

#[cold]
pub(super) fn aborted_error() -> Error {
    Error::new(
        ErrorKind::TxRestart,
        "the commit was aborted on behalf of another node: restart the transaction",
    )
}

/// Work of a preparation in open transactions.
type Work<'w, 's> = &'w mut dyn FnMut(&mut [Change<'_>], &[Staged<'s>]) -> Result<()>;

impl<'p> Preparing<'p> {
    /// A commit to prepare on the targets `numbers`. If there are none, it uses target 0, since a prepared commit must
    /// be stored somewhere.
    fn new(
        pool: &'p OpenPool,
        commit: Commit,
        mut numbers: BTreeSet<u32>,
        snapshot: Option<PreparedSnapshot>,
    ) -> Self {
        if numbers.is_empty() {
            numbers.insert(0);
        }
        let target = |number: u32| pool.targets[number as usize].as_ref();
        let targets = numbers.into_iter().map(target).collect();
        Self { pool, commit, targets, snapshot, read_versions: &[] }
    }

    /// Stages the data of the writes for each target. It is on the medium afterwards, if durability requires that.
    fn stage<'t>(
        &self,
        container: &Container,
        writes: &[(Write<'t>, Vec<u32>)],
    ) -> Result<Vec<Staged<'t>>>
    where
        'p: 't,
    {
        let stage = |target: &&'p Target| {
            target.with_segments(|| stage::stage_part(target, container, writes))
        };
        let parts = self.targets.iter().map(stage).collect::<Result<Vec<_>>>()?;
        let mut written = self.targets.iter().zip(&parts).filter(|(_, staged)| staged.has_data());
        written.try_for_each(|(target, _)| target.sync_data())?;
        Ok(parts)
    }

    /// Computes the edits of the commit by `work`, and stores them as the prepared commit.
    fn run<'s>(&self, mut parts: Vec<Staged<'s>>, work: Work<'_, 's>) -> Result<Epoch> {
        retry_after_leases(|| {
            self.pool.control.expect_file()?;
            with_coordination_locks(&self.targets, &mut || {
                // Another process may have prepared the same commit. Then this data is not needed.
                if let Some(epoch) = self.pool.prepared_before(self.commit)? {
                    return Ok(epoch);
                }
                let epoch = with_room(&self.targets, || self.attempt(&parts, work))?;
                parts.iter_mut().for_each(Staged::publish);
                Ok(epoch)
            })
        })
    }

    /// Body of [`Preparing::run`], which runs with the coordination locks held. First completes commits of dead
    /// processes.
    fn attempt<'s>(&self, staged: &[Staged<'s>], work: Work<'_, 's>) -> Result<Epoch> {
        self.targets.iter().try_for_each(|target| finish(self.pool, target))?;
        let mut txns = begin_unchanged(&self.targets, self.read_versions)?;
        let epoch = self.pool.control.next_epoch();
        let before = self.first_pages(&txns)?;
        let parts = self.record(&mut txns, epoch, staged, work)?;
        let prepared =
            Prepared { commit: self.commit, epoch, snapshot: self.snapshot.clone(), parts };
        let growth = self.growth(&mut txns, &prepared, before)?;
        self.put_in_doubt(txns, &prepared, growth)?;
        Ok(epoch)
    }

    /// Runs the work in open transactions at `epoch`, which are aborted later; returns the recorded changes.
    fn record<'s>(
        &self,
        txns: &mut [WriteTxn],
        epoch: Epoch,
        staged: &[Staged<'s>],
        work: Work<'_, 's>,
    ) -> Result<Vec<PreparedPart>> {
        let pairs = self.targets.iter().copied().zip(txns);
        let begin = |(target, txn)| Change::new(target, txn, epoch).with_journal();
        let mut changes: Vec<_> = pairs.map(begin).collect();
        work(&mut changes, staged)?;
        let mut parts = Vec::new();
        for (number, mut change) in changes.into_iter().enumerate() {
            let touched = change.finish_prepared()?;
            let staged = staged.get(number).into_iter().flat_map(Staged::appended).collect();
            let target = change.target().number();
            let steps = match self.snapshot {
                None => change.into_journal(),
                Some(_) => Vec::new(),
            };
            parts.push(PreparedPart { target, staged, touched, steps });
        }
        Ok(parts)
    }

    /// Number of pages in use in the index of the first target.
    fn first_pages(&self, txns: &[WriteTxn]) -> Result<u64> {
        match (self.targets.first(), txns.first()) {
            (Some(target), Some(txn)) => Ok(target.pages(txn)?.0),
            _ => Ok(0),
        }
    }

    /// Number of pages that the commit will add to the first index, which had `before` pages in use. That index also
    /// stores a decision and an intent. Both are put in the open transaction, which is aborted later.
    fn growth(&self, txns: &mut [WriteTxn], prepared: &Prepared, before: u64) -> Result<u64> {
        let Some(first) = txns.first_mut() else { return Ok(0) };
        let numbers: Vec<u32> = prepared.targets().collect();
        let steps: Vec<_> = prepared.parts.iter().map(|part| part.steps.clone()).collect();
        watermark::record(first, self.commit.id, Decision::Committed(prepared.epoch))?;
        first.put(&intent_key(), &intent::encode(prepared.epoch, &numbers, &steps))?;
        let [txn, ..] = txns else { return Ok(0) };
        Ok(self.targets[0].pages(txn)?.0.saturating_sub(before))
    }

    /// Stores the prepared commit. Its targets are put in doubt before the transactions end in which its edits were
    /// computed. So no other change can happen in between. `growth` is the result of [`Preparing::growth`].
    fn put_in_doubt(&self, txns: Vec<WriteTxn>, prepared: &Prepared, growth: u64) -> Result<()> {
        self.targets.iter().for_each(|target| target.doubt_prepared(prepared.epoch));
        drop(txns);
        let unleased = self.expect_no_leases(prepared);
        unleased.and_then(|()| self.store(prepared, growth)).inspect_err(|_| {
            self.targets.iter().for_each(|target| target.end_doubt());
        })
    }

    /// Fails if there is still a read lease on something that the commit changes. While the target is in doubt, no new
    /// lease is granted.
    fn expect_no_leases(&self, prepared: &Prepared) -> Result<()> {
        let parts = std::iter::zip(&self.targets, &prepared.parts);
        combine_lease_results(parts.map(|(target, part)| target.expect_no_leases(&part.touched)))
    }

    /// Stores the prepared commit on the first target, if the index has space for the `growth` pages that its commit
    /// adds later.
    fn store(&self, prepared: &Prepared, growth: u64) -> Result<()> {
        let Some(first) = self.targets.first() else { return Ok(()) };
        let mut txn = first.begin_in_doubt()?;
        txn.put(&prepared_key(self.commit.id), &prepared.encode())?;
        // The commit must fit into the index, since no space can be freed while the target is in doubt.
        let (used, total) = first.pages(&txn)?;
        if used + growth + headroom_pages(total) / 2 > total {
            let message = format!(
                "the index of target {} is full: delete something, or make a larger pool",
                first.number()
            );
            return Err(Error::new(ErrorKind::NoSpace, message));
        }
        txn.commit()
    }
}
