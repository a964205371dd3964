//! Limits the number of stored decisions about commits over several nodes.
//!
//! A decision remains if its client dies between commit and forget. If a client finds the table full, it sweeps the
//! oldest decisions after all other nodes have followed them. The watermark of an index is the earliest start of a
//! commit whose decision cannot have been swept. It changes in the same transaction that removes decisions. So a
//! missing decision was either swept before the watermark is read, or it never existed.
//! `docs/decisions/0056-sweep-decisions.md` explains why this is sound.
use super::coordinate::with_coordination_locks;
use super::decision::{Decision, decision_key};
use crate::format::keys::{Key, Table};
use crate::format::record::{CHECKSUM_LEN, checksum_of};
use crate::index::entries;
use crate::index::txn::{Txn, WriteTxn};
use crate::shard::open_pool::OpenPool;
use crate::shard::{Scope, Target};
use esker_types::ops::{Commit, CommitId, Decided, Decisions};
use esker_types::{Epoch, Error, ErrorKind, Result, Uuid};
use std::sync::atomic::Ordering;

/// State of the decision table of one index, or of all indexes of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Watermark {
    /// Decisions about commits that started before this may have been swept.
    swept: Epoch,
    /// Number of decisions.
    count: u64,
}

/// Bytes of a value: `swept`, `count` and checksum.
const VALUE_LEN: usize = 16 + CHECKSUM_LEN;

impl Watermark {
    fn key() -> Key {
        Key::table(Table::Watermark)
    }

    fn encode(self) -> [u8; VALUE_LEN] {
        let mut value = [0; VALUE_LEN];
        value[..8].copy_from_slice(&self.swept.0.to_le_bytes());
        value[8..16].copy_from_slice(&self.count.to_le_bytes());
        let checksum = checksum_of(&Self::key(), &value[..16]);
        value[16..].copy_from_slice(&checksum);
        value
    }

    /// Decodes a stored value. Fails with `Corrupt` if it does not match its checksum.
    fn decode(value: &[u8]) -> Result<Self> {
        let content = value.split_first_chunk::<16>();
        let content =
            content.filter(|(content, rest)| **rest == checksum_of(&Self::key(), *content));
        let numbers = content.and_then(|(content, _)| {
            let (swept, count) = content.split_first_chunk()?;
            Some((u64::from_le_bytes(*swept), u64::from_le_bytes(count.try_into().ok()?)))
        });
        match numbers {
            Some((swept, count)) => Ok(Self { swept: Epoch(swept), count }),
            None => Err(Error::new(
                ErrorKind::Corrupt,
                "the watermark of decisions about commits over several nodes is damaged: run `esker pool check --repair`",
            )),
        }
    }

    /// Loads the watermark of an index. If an index has none, because it never stored a decision or an earlier release
    /// did, nothing was swept.
    fn load(txn: &Txn) -> Result<Self> {
        match txn.get(&Self::key())? {
            Some(value) => Self::decode(value),
            None => Ok(Self { swept: Epoch(0), count: count(txn)? }),
        }
    }

    fn store(self, txn: &mut WriteTxn) -> Result<()> {
        txn.put(&Self::key(), &self.encode())
    }
}

/// True if an entry of table [`Table::Watermark`] is undamaged.
pub(crate) fn is_sound_watermark(value: &[u8]) -> bool {
    Watermark::decode(value).is_ok()
}

/// Counts the decisions in an index.
fn count(txn: &Txn) -> Result<u64> {
    let mut count = 0;
    entries::table(txn, Table::Decision, |_, _| count += 1)?;
    Ok(count)
}

/// Stores a decision and updates the number of decisions.
pub(super) fn record(txn: &mut WriteTxn, id: CommitId, decision: Decision) -> Result<()> {
    let mut mark = Watermark::load(txn)?;
    let key = decision_key(id);
    mark.count += u64::from(txn.get(&key)?.is_none());
    txn.put(&key, &decision.encode(&key))?;
    mark.store(txn)
}

/// Removes a decision that no node will ask for.
pub(super) fn erase(txn: &mut WriteTxn, id: CommitId) -> Result<()> {
    let mut mark = Watermark::load(txn)?;
    if txn.delete(&decision_key(id))? {
        mark.count = mark.count.saturating_sub(1);
        mark.store(txn)?;
    }
    Ok(())
}

/// Removes decisions that a node may still ask for, and raises the watermark above them. `clock` is the present clock.
fn sweep(txn: &mut WriteTxn, ids: &[CommitId], clock: Epoch) -> Result<()> {
    let mut mark = Watermark::load(txn)?;
    for id in ids {
        if !txn.delete(&decision_key(*id))? {
            continue;
        }
        mark.count = mark.count.saturating_sub(1);
        // An id with a later start is a random one of an earlier release. It must not raise the watermark above the
        // clock.
        if id.start() <= clock {
            mark.swept = mark.swept.max(Epoch(id.start().0.saturating_add(1)));
        }
    }
    mark.store(txn)
}

/// Repairs the watermark after damaged entries were removed. Any decision about a commit before `clock` may be missing
/// then.
pub(crate) fn repair_watermark(txn: &mut WriteTxn, clock: Epoch) -> Result<()> {
    Watermark { swept: clock, count: count(txn)? }.store(txn)
}

/// The oldest decisions of an index, at most `most`.
fn oldest(txn: &Txn, most: usize) -> Result<Vec<Decided>> {
    let prefix = Key::table(Table::Decision);
    let mut found = Vec::new();
    for (key, value) in entries::take(txn, &prefix, &prefix, most)? {
        let is_committed = matches!(Decision::decode(&key, &value)?, Decision::Committed(_));
        let id = key.get(prefix.len()..).and_then(|id| id.try_into().ok());
        found.extend(id.map(|id| Decided { id: CommitId(Uuid(id)), is_committed }));
    }
    Ok(found)
}

impl OpenPool {
    /// Watermark of all indexes together: the latest `swept` among them, and the sum of their numbers of decisions.
    fn watermark(&self) -> Result<Watermark> {
        let mut all = Watermark::default();
        for target in &self.targets {
            let mark = Watermark::load(target.view_in_doubt(Scope::Committed)?.committed())?;
            all.swept = all.swept.max(mark.swept);
            all.count += mark.count;
        }
        Ok(all)
    }

    /// True if the decision about a commit may have been swept. Call this only after [`OpenPool::find_decision`] has
    /// found none.
    pub(super) fn may_be_swept(&self, commit: Commit) -> Result<bool> {
        Ok(commit.may_be_swept(self.watermark()?.swept))
    }

    /// Refuses to prepare a commit that this node coordinates if a decision about it may have been swept, or if the
    /// decision table is full. Call this only after [`OpenPool::find_decision`] has found none.
    ///
    /// # Errors
    /// `Again`.
    pub(super) fn admit(&self, commit: Commit) -> Result<()> {
        let mark = self.watermark()?;
        commit.check_start(mark.swept, self.control.next_epoch())?;
        match self.is_full(mark) {
            false => Ok(()),
            true => Err(table_full_error(mark.count)),
        }
    }

    fn is_full(&self, mark: Watermark) -> bool {
        mark.count >= self.decisions_max.load(Ordering::Relaxed)
    }

    /// The decisions of this node: the oldest ones, at most `most`.
    ///
    /// # Errors
    /// `Corrupt` if a decision is damaged.
    pub fn decisions(&self, most: usize) -> Result<Decisions> {
        let mut all = Vec::new();
        for target in &self.targets {
            all.append(&mut oldest(target.view_in_doubt(Scope::Committed)?.committed(), most)?);
        }
        // An id begins with the start of its commit, so the oldest come first.
        all.sort_unstable_by_key(|decided| decided.id);
        all.truncate(most);
        let mark = self.watermark()?;
        // A commit that starts at the returned clock must not count as swept.
        self.control.pass_epoch(mark.swept);
        Ok(Decisions { clock: self.control.next_epoch(), is_full: self.is_full(mark), oldest: all })
    }

    /// Removes decisions that [`OpenPool::decisions`] has listed. No other node may have these commits prepared. From
    /// then on, the outcome of these and of older commits is reported as unknown.
    ///
    /// # Errors
    /// Errors of a change of the index.
    pub fn sweep(&self, ids: &[CommitId]) -> Result<()> {
        self.targets.iter().try_for_each(|target| self.sweep_target(target, ids))
    }

    /// Removes the decisions that are stored on one target. The coordination lock is held meanwhile, so that no commit
    /// is prepared whose decision is being removed.
    fn sweep_target(&self, target: &Target, ids: &[CommitId]) -> Result<()> {
        let decisions = {
            let view = target.view_in_doubt(Scope::Committed)?;
            let found = ids.iter().map(|id| Ok((*id, Decision::find(view.committed(), *id)?)));
            found.collect::<Result<Vec<_>>>()?
        };
        let stored_ids: Vec<_> =
            decisions.into_iter().filter_map(|(id, found)| found.map(|_| id)).collect();
        if stored_ids.is_empty() {
            return Ok(());
        }
        let clock = self.control.next_epoch();
        with_coordination_locks(&[target], &mut || {
            target.with_room(|| {
                // This works even if another commit is prepared on the target, since that commit does not depend on
                // these keys.
                let mut txn = target.begin_in_doubt()?;
                sweep(&mut txn, &stored_ids, clock)?;
                txn.commit()
            })
        })
    }
}

#[cold]
fn table_full_error(count: u64) -> Error {
    let message = format!(
        "this node keeps {count} decisions about commits over nodes (DECISIONS_MAX): sweep those that all nodes have followed"
    );
    Error::new(ErrorKind::Again, message)
}

#[cfg(test)]
mod tests;
