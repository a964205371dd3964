//! First phase of a commit over several nodes: a node validates its part, stages the data, computes the edits, and
//! stores them as a prepared commit. From then on its targets are in doubt, and nobody owns the commit: whoever learns
//! what the coordinator has decided resolves it ([`super::resolve`]).
//!
//! No lock is held between the phases. Nothing else may change what the edits were computed from, so everything that
//! reads or changes the index of a target goes through the doubt. What does not (pages that move between index and data)
//! touches tables of its own.
use super::coordinate::{begin_unchanged, finish, intent_key, while_held};
use super::decision::Decision;
use super::prepared::{Prepared, PreparedPart, PreparedSnapshot, prepared_key};
use super::stage::Staged;
use super::{apply, intent, stage, watermark};
use crate::index::txn::WriteTxn;
use crate::shard::change::{Change, headroom_pages, with_room};
use crate::shard::container::Container;
use crate::shard::open_pool::OpenPool;
use crate::shard::read_leases::{all_unleased, outwaiting};
use crate::shard::{Target, snapshots};
use crate::shared::read_version::ReadVersion;
use esker_types::ops::{Commit, Write};
use esker_types::{Epoch, Error, ErrorKind, Result};
use std::collections::BTreeSet;

/// A preparation under way.
struct Preparing<'p> {
    pool: &'p OpenPool,
    commit: Commit,
    targets: Vec<&'p Target>,
    snapshot: Option<PreparedSnapshot>,
    /// Versions that must not have changed.
    read_versions: &'p [ReadVersion],
}

impl OpenPool {
    /// Refuses commits over several nodes in a pool that lies on one.
    pub(super) fn expect_part(&self, commit: Commit) -> Result<()> {
        commit.check(self.superblock.part)
    }

    /// Prepares this node's part of a change: all of `writes`, each to the targets that come with it, if nothing has
    /// changed that was read. Preparing it again does nothing. Returns the epoch of the preparation.
    ///
    /// # Errors
    /// As [`OpenPool::write`]; `InDoubt` if another commit is prepared on a target; `TxRestart` if it was given up; `Again`
    /// if this node coordinates it and cannot accept it, see [`OpenPool::decisions`];
    /// `NotSupported` if the pool is no part of one over several nodes.
    pub fn prepare_change(
        &self,
        container: &Container,
        commit: Commit,
        writes: &[(Write<'_>, Vec<u32>)],
        read_versions: &[ReadVersion],
    ) -> Result<Epoch> {
        self.expect_part(commit)?;
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

    /// Prepares a snapshot of a container on all targets of this node, at the epoch of the commit. As
    /// [`OpenPool::prepare_change`].
    ///
    /// # Errors
    /// As [`OpenPool::create_snapshot`] and [`OpenPool::prepare_change`].
    pub fn prepare_snapshot(
        &self,
        container: &Container,
        commit: Commit,
        name: &str,
    ) -> Result<Epoch> {
        self.expect_part(commit)?;
        if let Some(epoch) = self.prepared_before(commit)? {
            return Ok(epoch);
        }
        self.refuse_more_snapshots(container)?;
        let snapshot = PreparedSnapshot { container: container.id(), name: name.to_owned() };
        let numbers = (0..self.superblock.targets).collect();
        let preparing = Preparing::new(self, commit, numbers, Some(snapshot));
        preparing.run(Vec::new(), &mut |changes, _| {
            container.check_alive(self)?;
            changes.iter_mut().try_for_each(|change| {
                change.check_room()?;
                change.target().shared().note_snapshots(true);
                // Where it shows whether there is room for it; its epoch is not known yet.
                change.put(&snapshots::key(container.id(), change.epoch), name.as_bytes())
            })
        })
    }

    /// The epoch of a commit that is prepared or committed already.
    ///
    /// # Errors
    /// `TxRestart` if others have given it up; `Again` if this node coordinates it and cannot accept it.
    fn prepared_before(&self, commit: Commit) -> Result<Option<Epoch>> {
        if let Some(found) = self.find_prepared(commit.id)? {
            return Ok(Some(found.epoch));
        }
        match self.find_decision(commit.id)? {
            None if self.decides(commit) => self.admit(commit).map(|()| None),
            None => Ok(None),
            Some((_, Decision::Committed(epoch))) => Ok(Some(epoch)),
            Some((_, Decision::GivenUp)) => Err(given_up()),
        }
    }
}

#[cold]
pub(super) fn given_up() -> Error {
    Error::new(ErrorKind::TxRestart, "others have given up the commit: restart the transaction")
}

/// Does the work of a preparation in open transactions.
type Work<'w, 's> = &'w mut dyn FnMut(&mut [Change<'_>], &[Staged<'s>]) -> Result<()>;

impl<'p> Preparing<'p> {
    /// A commit without any target has the first one: somewhere it must be stored.
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

    fn run<'s>(&self, mut parts: Vec<Staged<'s>>, work: Work<'_, 's>) -> Result<Epoch> {
        outwaiting(|| {
            self.pool.control.expect_file()?;
            while_held(&self.targets, &mut || {
                // Others may have prepared the same: then this data is not needed.
                if let Some(epoch) = self.pool.prepared_before(self.commit)? {
                    return Ok(epoch);
                }
                let epoch = with_room(&self.targets, || self.attempt(&parts, work))?;
                parts.iter_mut().for_each(Staged::publish);
                Ok(epoch)
            })
        })
    }

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

    /// Does the work in open transactions, which are not to be committed; returns what it did.
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

    /// Pages of the first target's index in use.
    fn first_pages(&self, txns: &[WriteTxn]) -> Result<u64> {
        match (self.targets.first(), txns.first()) {
            (Some(target), Some(txn)) => Ok(target.pages(txn)?.0),
            _ => Ok(0),
        }
    }

    /// Pages that the commit will take in the first index, where it also leaves a decision and an intent.
    fn growth(&self, txns: &mut [WriteTxn], prepared: &Prepared, before: u64) -> Result<u64> {
        let Some(first) = txns.first_mut() else { return Ok(0) };
        let numbers: Vec<u32> = prepared.targets().collect();
        let steps: Vec<_> = prepared.parts.iter().map(|part| part.steps.clone()).collect();
        watermark::record(first, self.commit.id, Decision::Committed(prepared.epoch))?;
        first.put(&intent_key(), &intent::encode(prepared.epoch, &numbers, &steps))?;
        let [txn, ..] = txns else { return Ok(0) };
        Ok(self.targets[0].pages(txn)?.0.saturating_sub(before))
    }

    /// Stores the commit. Its targets are put in doubt before the transactions end, in which its edits were computed, so
    /// that nobody can change them in between.
    fn put_in_doubt(&self, txns: Vec<WriteTxn>, prepared: &Prepared, growth: u64) -> Result<()> {
        self.targets.iter().for_each(|target| target.doubt_prepared(prepared.epoch));
        drop(txns);
        let unleased = self.expect_no_leases(prepared);
        unleased.and_then(|()| self.store(prepared, growth)).inspect_err(|_| {
            self.targets.iter().for_each(|target| target.end_doubt());
        })
    }

    /// Fails if a lease is left on what the commit changes. The doubt keeps new ones from being granted.
    fn expect_no_leases(&self, prepared: &Prepared) -> Result<()> {
        let parts = std::iter::zip(&self.targets, &prepared.parts);
        all_unleased(parts.map(|(target, part)| target.expect_no_leases(&part.touched)))
    }

    fn store(&self, prepared: &Prepared, growth: u64) -> Result<()> {
        let Some(first) = self.targets.first() else { return Ok(()) };
        let mut txn = first.begin_in_doubt()?;
        txn.put(&prepared_key(self.commit.id), &prepared.encode())?;
        // The commit must find room: nobody can make any while the target is in doubt.
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
