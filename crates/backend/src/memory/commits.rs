//! Commits over several nodes: prepared commits and decisions. One commit at a time is prepared, and puts all data of
//! the pool in doubt.
use super::state::{Edits, PoolState};
use esker_types::info::{ContainerId, Part};
use esker_types::limits::DECISIONS_MAX;
use esker_types::ops::{Commit, CommitId, Decided, Decisions, Outcome, Preparation};
use esker_types::{Epoch, Error, ErrorKind, Result};
use std::collections::BTreeMap;

/// Commits of one node's pool: the prepared one, and the decisions that this node made as coordinator.
pub(super) struct Commits {
    /// Position of this node in the pool over nodes.
    part: Part,
    prepared: Option<Prepared>,
    /// Decisions of this node; `None` if another client aborted the commit.
    decisions: BTreeMap<CommitId, Option<Epoch>>,
    pub(super) decisions_max: usize,
    /// Decisions about commits that started before this may have been swept.
    swept: Epoch,
    pub(super) swept_count: u64,
}

/// A commit that is prepared, with the work that is to be applied if it commits.
struct Prepared {
    commit: Commit,
    epoch: Epoch,
    container: ContainerId,
    work: Work,
}

enum Work {
    Change(Edits),
    Snapshot(String),
}

impl Commits {
    /// The state of a pool that has seen no commit. `part` is its position in the pool over nodes.
    pub(super) fn new(part: Part) -> Self {
        Self {
            part,
            prepared: None,
            decisions: BTreeMap::new(),
            decisions_max: DECISIONS_MAX,
            swept: Epoch(0),
            swept_count: 0,
        }
    }

    /// Fails with `InDoubt` if a commit is prepared.
    pub(super) fn expect_resolved(&self) -> Result<()> {
        let Some(Prepared { commit: Commit { id, coordinator }, .. }) = &self.prepared else {
            return Ok(());
        };
        let message = format!(
            "the pool in memory waits for commit {}, which node {coordinator} decides: retry, or open the pool by its \
             map, which resolves it",
            id.0
        );
        Err(Error::new(ErrorKind::InDoubt, message))
    }

    pub(super) fn prepared(&self) -> Vec<Commit> {
        self.prepared.iter().map(|prepared| prepared.commit).collect()
    }

    /// Removes the preparation of a commit and returns it; `None` if that commit is not prepared.
    fn take(&mut self, commit: Commit) -> Option<Prepared> {
        self.prepared.take_if(|prepared| prepared.commit.id == commit.id)
    }

    fn is_full(&self) -> bool {
        self.decisions.len() >= self.decisions_max
    }

    /// Checks that this node, the coordinator, can prepare a commit that is new to it: its start must be after all
    /// swept decisions, and there must be room for its own.
    fn admit(&self, commit: Commit, clock: Epoch) -> Result<()> {
        commit.check_start(self.swept, clock)?;
        match self.is_full() {
            false => Ok(()),
            true => {
                let message =
                    "this node keeps as many decisions as it may (DECISIONS_MAX): sweep them";
                Err(Error::new(ErrorKind::Again, message))
            }
        }
    }

    /// The epoch of a commit that is prepared or committed already; `None` if it is new. Fails with `TxRestart` if it
    /// was aborted.
    fn prepared_before(&self, commit: Commit) -> Result<Option<Epoch>> {
        if let Some(prepared) = self.prepared.as_ref().filter(|it| it.commit.id == commit.id) {
            return Ok(Some(prepared.epoch));
        }
        match self.decisions.get(&commit.id) {
            None => Ok(None),
            Some(Some(epoch)) => Ok(Some(*epoch)),
            Some(None) => Err(aborted_error()),
        }
    }
}

fn aborted_error() -> Error {
    Error::new(
        ErrorKind::TxRestart,
        "another client has aborted the commit: restart the transaction",
    )
}

impl PoolState {
    /// Prepares a node's share of a commit. Repeating it returns the same epoch.
    pub(super) fn prepare(
        &mut self,
        container: ContainerId,
        commit: Commit,
        what: Preparation<'_>,
    ) -> Result<Epoch> {
        commit.check(self.commits.part)?;
        if let Some(epoch) = self.commits.prepared_before(commit)? {
            return Ok(epoch);
        }
        if commit.coordinator == self.commits.part.node {
            let clock = self.tick();
            self.commits.admit(commit, clock)?;
        }
        let (epoch, work) = match what {
            Preparation::Change(change) => {
                let edits = self.edits(container, &change)?;
                (edits.epoch, Work::Change(edits))
            }
            Preparation::Snapshot(name) => {
                self.resolved()?.container(container)?.check_snapshot_limit()?;
                (self.tick(), Work::Snapshot(name.to_owned()))
            }
        };
        self.commits.prepared = Some(Prepared { commit, epoch, container, work });
        Ok(epoch)
    }

    /// Commits a prepared share at `epoch`. The coordinator records the decision.
    pub(super) fn commit(&mut self, commit: Commit, epoch: Epoch) -> Result<()> {
        commit.check(self.commits.part)?;
        let decides = commit.coordinator == self.commits.part.node;
        // A preparation at a later epoch came from a request that was repeated and delayed: it is dropped.
        if let Some(prepared) = self.commits.take(commit).filter(|it| it.epoch <= epoch) {
            if decides {
                self.commits.decisions.insert(commit.id, Some(epoch));
            }
            self.pass(epoch);
            return self.finish(prepared, epoch);
        }
        match self.commits.decisions.get(&commit.id) {
            Some(Some(_)) => Ok(()),
            // A participant without a preparation has committed before.
            _ if !decides => Ok(()),
            None if commit.may_be_swept(self.commits.swept) => Err(commit.unknown()),
            _ => Err(aborted_error()),
        }
    }

    /// Applies a prepared share at `epoch`. A container that was destroyed since needs no changes.
    fn finish(&mut self, prepared: Prepared, epoch: Epoch) -> Result<()> {
        let Ok(container) = self.container(prepared.container) else { return Ok(()) };
        match prepared.work {
            Work::Snapshot(name) => container.create_snapshot(&name, epoch),
            Work::Change(edits) => self.apply(prepared.container, edits),
        }
    }

    /// Aborts the share of a commit that is prepared here. Does nothing if it is not prepared any more.
    pub(super) fn abort(&mut self, commit: Commit) -> Result<()> {
        commit.check(self.commits.part)?;
        self.commits.take(commit);
        Ok(())
    }

    /// State of a commit that this node coordinates. With `decide`, an undecided commit is aborted.
    pub(super) fn outcome(&mut self, commit: Commit, decide: bool) -> Result<Outcome> {
        commit.check(self.commits.part)?;
        commit.check_decided_by(self.commits.part)?;
        if decide && self.commits.take(commit).is_some() {
            self.commits.decisions.insert(commit.id, None);
        }
        Ok(match self.commits.decisions.get(&commit.id) {
            Some(Some(epoch)) => Outcome::Committed(*epoch),
            None if self.commits.prepared().contains(&commit) => Outcome::Undecided,
            None if commit.may_be_swept(self.commits.swept) => Outcome::Unknown,
            _ => Outcome::Aborted,
        })
    }

    /// Removes the decision about a commit, which no node needs any more.
    pub(super) fn forget(&mut self, commit: Commit) -> Result<()> {
        commit.check(self.commits.part)?;
        self.commits.decisions.remove(&commit.id);
        Ok(())
    }

    /// Lists the oldest decisions that this node has recorded, at most `most`, with the clock and whether their table
    /// is full. The clock first advances past all swept commits.
    pub(super) fn decisions(&mut self, most: usize) -> Decisions {
        self.pass(self.commits.swept);
        let decided = |(id, epoch): (&CommitId, &Option<Epoch>)| Decided {
            id: *id,
            is_committed: epoch.is_some(),
        };
        let oldest = self.commits.decisions.iter().take(most).map(decided).collect();
        Decisions { clock: self.tick(), is_full: self.commits.is_full(), oldest }
    }

    /// Removes decisions. Records the latest start of their commits: a commit that started before or then may have been
    /// swept.
    pub(super) fn sweep(&mut self, ids: &[CommitId]) {
        for id in ids {
            if self.commits.decisions.remove(id).is_some() {
                self.commits.swept_count += 1;
                let start = id.start().0.saturating_add(1);
                self.commits.swept = self.commits.swept.max(Epoch(start));
            }
        }
    }
}
