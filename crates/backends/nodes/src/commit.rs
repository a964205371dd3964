//! Commits over several nodes, in two phases; and what is in doubt because of one.
//!
//! The client prepares all nodes. Where it has to wait for another commit, it prepares in ascending order, so that two
//! commits never wait for each other. The first node is the coordinator: its commit decides. Then the others commit, side
//! by side. Nobody else takes part: if the client dies, whoever meets what it has prepared asks the coordinator, and
//! commits or gives up in its place.
use crate::nodes::{Member, SIDE_BY_SIDE, Shared, settled};
use crate::sweep::renew;
use esker_backend::{OpenContainer, Reply};
use esker_os::executor::{side_by_side, task};
use esker_types::ops::{Change, Commit, CommitId, Outcome, Preparation, ReadTokens, Write};
use esker_types::{Epoch, Error, ErrorKind, Result};
use std::time::Duration;
use tokio::time::Instant;

/// How long a commit may stay undecided before those who wait for it give it up.
pub const UNDECIDED_TIMEOUT: Duration = Duration::from_secs(3);

/// How long an operation waits for the outcome of a commit before it fails.
pub const DOUBT_TIMEOUT: Duration = Duration::from_secs(15);

/// How long an operation waits for a commit before it asks the coordinator.
const ASK_AFTER: Duration = Duration::from_millis(50);

/// Shortest and longest pause of an operation that waits for a commit.
const PAUSES: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(20));

/// How often a commit starts before it fails, if its coordinator refuses each time.
const STARTS_MAX: u32 = 8;

/// What one node has to do.
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
    fn preparation(&self) -> Preparation<'_> {
        match self {
            Self::Change { writes, tokens } => {
                Preparation::Change(Change { tokens: tokens.as_ref(), ..Change::of(writes) })
            }
            Self::Snapshot(name) => Preparation::Snapshot(name),
        }
    }
}

impl Share<'_> {
    fn prepare<'a>(
        &'a self,
        parts: &'a [Box<dyn OpenContainer>],
        commit: Commit,
    ) -> Reply<'a, Epoch> {
        parts[self.node].prepare(commit, self.work.preparation())
    }
}

/// Does all shares, which are in the order of their nodes, or none.
pub(crate) async fn commit(
    shared: &Shared,
    parts: &[Box<dyn OpenContainer>],
    shares: &[Share<'_>],
) -> Result<Epoch> {
    let Some((first, others)) = shares.split_first() else { return Ok(Epoch::now()) };
    let (commit, epoch) = prepare(shared, parts, shares, first.node as u32).await?;
    if let Err(error) = decide(&shared.members[first.node], commit, epoch).await {
        if error.kind() == ErrorKind::TxRestart {
            // The coordinator remembers that others gave it up: late copies of the preparation and of the commit could
            // otherwise commit it there alone.
            give_up(shared, others, commit).await;
        }
        return Err(error);
    }
    // The commit has advanced the clock of the coordinator.
    shared.members[first.node].clock.note(epoch);
    // Decided. A node that cannot be reached now is told later, by whoever meets what it has prepared.
    let told = on_all(shared, others, |member| member.pool().commit(commit, epoch)).await;
    if told.iter().all(Result::is_ok) {
        let _ = shared.members[first.node].pool().forget(commit).await;
    }
    Ok(epoch)
}

/// Prepares all nodes; returns the commit, and the latest of their clocks.
///
/// Several nodes prepare side by side. If another commit is in the way of one, they are asked again, one after the other:
/// only who has prepared nothing on a later node may wait.
async fn prepare(
    shared: &Shared,
    parts: &[Box<dyn OpenContainer>],
    shares: &[Share<'_>],
    coordinator: u32,
) -> Result<(Commit, Epoch)> {
    let accepted = async |side_by_side: bool| {
        for _ in 1..STARTS_MAX {
            match start(shared, parts, shares, coordinator, side_by_side).await {
                // The coordinator refuses ids that may be older than the decisions it still has, and when it has too many.
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

/// Starts a commit under a new id, and prepares all nodes. If one refuses, all give it up.
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
        give_up(shared, shares, commit).await;
        // No message has asked to commit it, so none can come late.
        let _ = member.pool().forget(commit).await;
    }
    prepared.map(|epoch| (commit, epoch))
}

/// Prepares the coordinator, as whoever meets the others asks it, and then the others at the same time.
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

/// Prepares one node after the other, and waits for commits that are in the way.
async fn prepare_in_order(
    shared: &Shared,
    parts: &[Box<dyn OpenContainer>],
    shares: &[Share<'_>],
    commit: Commit,
) -> Result<Epoch> {
    let mut latest = Epoch(0);
    for share in shares {
        let clock = settled!(shared, share.node, share.prepare(parts, commit).await)?;
        latest = latest.max(clock);
    }
    Ok(latest)
}

/// Commits at the coordinator. If its reply is lost, asks what became of the commit.
async fn decide(coordinator: &Member, commit: Commit, epoch: Epoch) -> Result<()> {
    let pool = coordinator.pool();
    match pool.commit(commit, epoch).await {
        Err(error) if error.kind() != ErrorKind::TxRestart => {
            match pool.outcome(commit, true).await {
                Ok(Outcome::Committed(_)) => Ok(()),
                Ok(Outcome::Unknown) => Err(uncertain(coordinator)),
                Ok(_) => Err(given_up()),
                Err(_) => Err(unknown(coordinator, &error)),
            }
        }
        other => other,
    }
}

#[cold]
fn given_up() -> Error {
    Error::new(ErrorKind::TxRestart, "the commit took too long and was given up: restart it")
}

#[cold]
fn unknown(coordinator: &Member, error: &Error) -> Error {
    let message = format!(
        "node {} decides about this commit and was lost in the middle of it: once it is back, read the data to see \
         whether it was committed ({})",
        coordinator.name,
        error.message()
    );
    Error::new(error.kind(), message)
}

#[cold]
fn uncertain(coordinator: &Member) -> Error {
    let message = format!(
        "node {} does not know any more whether it has committed this change, as its reply was lost and it has removed old \
         decisions since: read the data before you repeat the change",
        coordinator.name
    );
    Error::new(ErrorKind::TxUncertain, message)
}

async fn give_up(shared: &Shared, shares: &[Share<'_>], commit: Commit) {
    // What a node does not hear now, it is told by whoever meets what it has prepared.
    on_all(shared, shares, |member| member.pool().give_up(commit)).await;
}

/// Runs `work` for the nodes of all shares, side by side.
async fn on_all<'a>(
    shared: &'a Shared,
    shares: &[Share<'_>],
    work: impl Fn(&'a Member) -> Reply<'a, ()>,
) -> Vec<Result<()>> {
    let tasks = shares.iter().map(|share| task(work(&shared.members[share.node])));
    side_by_side(tasks.collect(), SIDE_BY_SIDE).await
}

/// An operation that waits for the outcome of commits.
#[derive(Default)]
pub(crate) struct Doubt {
    since: Option<Instant>,
    pause: Duration,
    /// Why a coordinator could not be asked.
    failed: Option<Error>,
}

impl Doubt {
    /// Waits a little after an operation on `node` failed because of a commit. If that takes long, finds out what became
    /// of it, and commits or gives up in place of the client that has left it.
    ///
    /// # Errors
    /// `InDoubt` after [`DOUBT_TIMEOUT`], or why the coordinator cannot be reached.
    pub(crate) async fn settle(
        &mut self,
        shared: &Shared,
        node: usize,
        error: &Error,
    ) -> Result<()> {
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        if waited >= DOUBT_TIMEOUT {
            return Err(self.failed.take().unwrap_or_else(|| error.clone()));
        }
        if waited >= ASK_AFTER {
            self.resolve(shared, node, waited >= shared.patience.undecided).await?;
        }
        self.pause = (self.pause * 2).clamp(PAUSES.0, PAUSES.1);
        shared.dial.pause(self.pause).await
    }

    /// Asks what became of all that is prepared on `node`, and follows the answers.
    pub(crate) async fn resolve(
        &mut self,
        shared: &Shared,
        node: usize,
        decide: bool,
    ) -> Result<()> {
        let member = &shared.members[node];
        for commit in member.pool().prepared().await? {
            let Some(coordinator) = shared.members.get(commit.coordinator as usize) else {
                continue;
            };
            match coordinator.pool().outcome(commit, decide).await {
                Ok(Outcome::Undecided) => {}
                // The coordinator has followed its own decision, and may have forgotten it by now.
                Ok(_) if commit.coordinator as usize == node => {}
                Ok(Outcome::Committed(epoch)) => member.pool().commit(commit, epoch).await?,
                Ok(Outcome::GivenUp | Outcome::Unknown) => member.pool().give_up(commit).await?,
                Err(error) => self.failed = Some(about(member, coordinator, &error)),
            }
        }
        Ok(())
    }
}

#[cold]
fn about(member: &Member, coordinator: &Member, error: &Error) -> Error {
    let message = format!(
        "node {} waits for a commit that node {} decides about: {}",
        member.name,
        coordinator.name,
        error.message()
    );
    Error::new(error.kind(), message)
}
