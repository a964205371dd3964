//! Commits over several nodes, in two phases, and the resolution of commits that are in doubt.
//!
//! The client prepares all nodes. If it has to wait for another commit, it prepares in ascending order, so that two
//! commits never wait for each other. The first node is the coordinator: its commit decides. Then the others commit
//! concurrently. No other process takes part. If the client dies, the next client that encounters prepared data queries
//! the decision at the coordinator, and commits or aborts instead of it.
use crate::sharded::pool::{Member, SIDE_BY_SIDE, Shared, resolved};
use crate::sharded::sweep::renew;
use esker_backend::{OpenContainer, Reply};
use esker_os::executor::{side_by_side, task};
use esker_types::ops::{Change, Commit, CommitId, Outcome, Preparation, ReadTokens, Write};
use esker_types::{Epoch, Error, ErrorKind, Result};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// Age at which clients that wait for an undecided commit abort it.
pub const UNDECIDED_TIMEOUT: Duration = Duration::from_secs(3);

/// Time that an operation waits for a commit decision before it fails.
pub const DOUBT_TIMEOUT: Duration = Duration::from_secs(15);

/// Time that an operation waits for a commit before it asks the coordinator.
const ASK_AFTER: Duration = Duration::from_millis(50);

/// Shortest and longest pause of an operation that waits for a commit.
const PAUSES: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(20));

/// Starts of a commit before it fails, if its coordinator refuses or another client aborts it each time.
pub(crate) const STARTS_MAX: u32 = 8;

/// Share of a commit that concerns one node.
pub(crate) struct Share<'a> {
    pub(crate) node: usize,
    pub(crate) work: Work<'a>,
}

/// Work of one node.
pub(crate) enum Work<'a> {
    Change { writes: Vec<Write<'a>>, tokens: Option<ReadTokens> },
    Snapshot(&'a str),
}

impl Work<'_> {
    /// The message that asks a node to prepare its share of the commit.
    fn preparation(&self) -> Preparation<'_> {
        match self {
            Self::Change { writes, tokens } => Preparation::Change(Change {
                tokens: tokens.as_ref(),
                ..Change::from_writes(writes)
            }),
            Self::Snapshot(name) => Preparation::Snapshot(name),
        }
    }
}

impl Share<'_> {
    /// Asks the node of this share to prepare it.
    fn prepare<'a>(
        &'a self,
        parts: &'a [Box<dyn OpenContainer>],
        commit: Commit,
    ) -> Reply<'a, Epoch> {
        parts[self.node].prepare(commit, self.work.preparation())
    }
}

/// Commits all shares, which are in the order of their nodes, or none. Returns the epoch.
pub(crate) async fn commit(
    shared: &Shared,
    parts: &[Box<dyn OpenContainer>],
    shares: &[Share<'_>],
) -> Result<Epoch> {
    let Some((first, others)) = shares.split_first() else { return Ok(Epoch::now()) };
    let (commit, epoch) = prepare(shared, parts, shares, first.node as u32).await?;
    if let Err(error) = decide(shared, first.node, commit, epoch).await? {
        // The coordinator keeps its decision to abort the commit. A late copy of the preparation and of the commit could
        // otherwise commit there alone.
        abort(shared, others, commit).await;
        return Err(error);
    }
    // The commit has advanced the clock of the coordinator.
    shared.members[first.node].clock.note(epoch);
    // The commit is decided. A node that cannot be reached now learns the decision from the next client that encounters
    // its prepared data.
    let told = on_all(shared, others, |member| member.pool().commit(commit, epoch)).await;
    if told.iter().all(Result::is_ok) {
        let _ = shared.members[first.node].pool().forget(commit).await;
    }
    Ok(epoch)
}

/// Prepares all nodes; returns the commit, and the latest of their clocks. `coordinator` is the number of the first
/// node.
///
/// Several nodes prepare concurrently. If another commit blocks one, all prepare again, in ascending order: a commit
/// may wait only if it has prepared nothing on a later node.
async fn prepare(
    shared: &Shared,
    parts: &[Box<dyn OpenContainer>],
    shares: &[Share<'_>],
    coordinator: u32,
) -> Result<(Commit, Epoch)> {
    let accepted = async |side_by_side: bool| {
        for _ in 1..STARTS_MAX {
            match start(shared, parts, shares, coordinator, side_by_side).await {
                // The coordinator refuses ids that may be older than its oldest decisions, and all ids when it has too
                // many decisions.
                Err(error) if error.kind() == ErrorKind::Again => {
                    renew(shared, coordinator as usize).await?;
                }
                other => return other,
            }
        }
        start(shared, parts, shares, coordinator, side_by_side).await
    };
    match shares.len() {
        ..=2 => accepted(false).await,
        _ => match accepted(true).await {
            Err(error) if error.kind() == ErrorKind::InDoubt => accepted(false).await,
            other => other,
        },
    }
}

/// Starts a commit under a new id, and prepares all nodes: concurrently with `side_by_side`, otherwise one after the
/// other. If one refuses, all abort it.
async fn start(
    shared: &Shared,
    parts: &[Box<dyn OpenContainer>],
    shares: &[Share<'_>],
    coordinator: u32,
    side_by_side: bool,
) -> Result<(Commit, Epoch)> {
    let member = &shared.members[coordinator as usize];
    let id = CommitId::new(member.clock.get(), esker_os::random_uuid()?);
    let commit = Commit { id, coordinator };
    let prepared = match side_by_side {
        true => prepare_together(parts, shares, commit).await,
        false => prepare_in_order(shared, parts, shares, commit).await,
    };
    if prepared.is_err() {
        abort(shared, shares, commit).await;
        // No request to commit it was sent, so no late copy can exist.
        let _ = member.pool().forget(commit).await;
    }
    prepared.map(|epoch| (commit, epoch))
}

/// Prepares the coordinator first, because a client that meets prepared data on another node asks the coordinator for
/// the decision. Then prepares all other nodes at the same time. Returns the latest epoch of all preparations.
async fn prepare_together(
    parts: &[Box<dyn OpenContainer>],
    shares: &[Share<'_>],
    commit: Commit,
) -> Result<Epoch> {
    let Some((first, others)) = shares.split_first() else { return Ok(Epoch(0)) };
    let mut latest = first.prepare(parts, commit).await?;
    let tasks = others.iter().map(|share| task(share.prepare(parts, commit)));
    for clock in side_by_side(tasks.collect(), SIDE_BY_SIDE).await {
        latest = latest.max(clock?);
    }
    Ok(latest)
}

/// Prepares the nodes one after the other. If another commit blocks a node, waits until it is resolved. Returns the
/// latest epoch of all preparations.
async fn prepare_in_order(
    shared: &Shared,
    parts: &[Box<dyn OpenContainer>],
    shares: &[Share<'_>],
    commit: Commit,
) -> Result<Epoch> {
    let mut latest = Epoch(0);
    for share in shares {
        let clock = resolved!(shared, share.node, share.prepare(parts, commit).await)?;
        latest = latest.max(clock);
    }
    Ok(latest)
}

/// Commits at the coordinator, which is on `node`. If it fails, queries the state of the commit, which aborts an
/// undecided one. The inner result is the decision: an error for which the commit is aborted.
///
/// # Errors
/// The errors for which the decision is not known.
async fn decide(
    shared: &Shared,
    node: usize,
    commit: Commit,
    epoch: Epoch,
) -> Result<std::result::Result<(), Error>> {
    let coordinator = &shared.members[node];
    let pool = coordinator.pool();
    let error = match pool.commit(commit, epoch).await {
        Err(error) if error.kind() != ErrorKind::TxRestart => error,
        decided => return Ok(decided),
    };
    match pool.outcome(commit, true).await {
        Ok(Outcome::Committed(_)) => Ok(Ok(())),
        Ok(Outcome::Unknown) => Err(uncertain_error(coordinator)),
        // The coordinator has refused to commit, and would do so again.
        Ok(_) if is_refusal(&error) => Ok(shared.naming(node, Err(error))),
        Ok(_) => Ok(Err(aborted_error())),
        Err(_) => Err(coordinator_lost_error(coordinator, &error)),
    }
}

/// True for errors that the state of a node's pool causes.
fn is_refusal(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::Checksum | ErrorKind::Corrupt)
}

#[cold]
fn aborted_error() -> Error {
    Error::new(ErrorKind::TxRestart, "the commit took too long and was aborted: restart it")
}

#[cold]
fn coordinator_lost_error(coordinator: &Member, error: &Error) -> Error {
    let message = format!(
        "node {} decides about this commit and was lost in the middle of it: once it is back, read the data to see \
         whether it was committed ({})",
        coordinator.name,
        error.message()
    );
    Error::new(error.kind(), message)
}

#[cold]
fn uncertain_error(coordinator: &Member) -> Error {
    let message = format!(
        "node {} does not know any more whether it has committed this change, as its reply was lost and it has removed old \
         decisions since: read the data before you repeat the change",
        coordinator.name
    );
    Error::new(ErrorKind::TxUncertain, message)
}

/// Aborts a commit on the nodes of these shares.
async fn abort(shared: &Shared, shares: &[Share<'_>], commit: Commit) {
    // A node that misses this learns the decision from the next client that encounters its prepared data.
    on_all(shared, shares, |member| member.pool().abort(commit)).await;
}

/// Runs `work` for the nodes of all shares, concurrently.
async fn on_all<'a>(
    shared: &'a Shared,
    shares: &[Share<'_>],
    work: impl Fn(&'a Member) -> Reply<'a, ()>,
) -> Vec<Result<()>> {
    let tasks = shares.iter().map(|share| task(work(&shared.members[share.node])));
    side_by_side(tasks.collect(), SIDE_BY_SIDE).await
}

/// State of an operation that waits for commit decisions.
#[derive(Default)]
pub(crate) struct Doubt {
    /// Begin of the wait; `None` before the first one.
    since: Option<Instant>,
    /// The commits that this operation has waited for, each with the time at which it first found it.
    found: HashMap<CommitId, Instant>,
    /// Length of the last pause.
    pause: Duration,
    /// Error of the last query to a coordinator.
    failed: Option<Error>,
}

impl Doubt {
    /// Pauses after an operation on `node` failed because of a commit. After [`ASK_AFTER`] it queries the decision, and
    /// commits, or aborts after the timeout for undecided commits, in place of the client that left the commit.
    ///
    /// # Errors
    /// `InDoubt` after [`DOUBT_TIMEOUT`], or the error for which the coordinator cannot be reached.
    pub(crate) async fn wait(&mut self, shared: &Shared, node: usize, error: &Error) -> Result<()> {
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        if waited >= DOUBT_TIMEOUT {
            return Err(self.failed.take().unwrap_or_else(|| error.clone()));
        }
        if waited >= ASK_AFTER {
            self.resolve(shared, node, shared.timeouts.undecided).await?;
        }
        self.pause = (self.pause * 2).clamp(PAUSES.0, PAUSES.1);
        shared.dial.pause(self.pause).await
    }

    /// True if this operation first found the commit `undecided` ago. Another commit that it waited for before may be
    /// older.
    fn is_overdue(&mut self, commit: CommitId, undecided: Duration) -> bool {
        self.found.entry(commit).or_insert_with(Instant::now).elapsed() >= undecided
    }

    /// Queries the decisions about all commits that are prepared on `node`, and follows them. Undecided commits that
    /// this operation first found `undecided` ago are aborted. A coordinator that cannot be reached is noted, and its
    /// commits stay.
    pub(crate) async fn resolve(
        &mut self,
        shared: &Shared,
        node: usize,
        undecided: Duration,
    ) -> Result<()> {
        let member = &shared.members[node];
        for commit in member.pool().prepared().await? {
            let Some(coordinator) = shared.members.get(commit.coordinator as usize) else {
                continue;
            };
            let decide = self.is_overdue(commit.id, undecided);
            match coordinator.pool().outcome(commit, decide).await {
                Ok(Outcome::Undecided) => {}
                // The coordinator has followed its own decision, and may have removed it by now.
                Ok(_) if commit.coordinator as usize == node => {}
                Ok(Outcome::Committed(epoch)) => member.pool().commit(commit, epoch).await?,
                Ok(Outcome::Aborted | Outcome::Unknown) => member.pool().abort(commit).await?,
                Err(error) => self.failed = Some(coordinator_error(member, coordinator, &error)),
            }
        }
        Ok(())
    }
}

#[cold]
fn coordinator_error(member: &Member, coordinator: &Member, error: &Error) -> Error {
    let message = format!(
        "node {} waits for a commit that node {} decides about: {}",
        member.name,
        coordinator.name,
        error.message()
    );
    Error::new(error.kind(), message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_types::Uuid;

    #[test]
    fn age_of_a_commit_is_not_the_time_of_the_wait() {
        let [old, young] = [1, 2].map(|byte| CommitId(Uuid([byte; 16])));
        let begin = Instant::now() - UNDECIDED_TIMEOUT;
        let mut doubt = Doubt { since: Some(begin), ..Doubt::default() };
        doubt.found.insert(old, begin);
        assert!(doubt.is_overdue(old, UNDECIDED_TIMEOUT));
        assert!(!doubt.is_overdue(young, UNDECIDED_TIMEOUT));
    }
}
