//! Sweeps of commit decisions, and the clocks from which new commits start.
//!
//! Engines do not communicate, so a client that a full node refuses sweeps it. The client lists the oldest decisions,
//! then asks all other nodes for their prepared commits. A commit was prepared on all its nodes before it was decided:
//! a node that does not list it has followed the decision.
use crate::sharded::commit::Doubt;
use crate::sharded::pool::{Member, SIDE_BY_SIDE, Shared};
use esker_os::executor::{side_by_side, task};
use esker_types::limits::DECISIONS_SWEPT_MAX;
use esker_types::ops::{CommitId, Decided};
use esker_types::{Epoch, Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The clock of a node, as this client last knew it.
#[derive(Default)]
pub(crate) struct KnownClock(AtomicU64);

impl KnownClock {
    pub(crate) fn get(&self) -> Epoch {
        Epoch(self.0.load(Ordering::Relaxed))
    }

    /// Advances to an epoch that the node returned.
    pub(crate) fn note(&self, epoch: Epoch) {
        self.0.fetch_max(epoch.0, Ordering::Relaxed);
    }

    /// Replaces the clock. The clock of a node may go back if its machine restarts.
    fn replace(&self, epoch: Epoch) {
        self.0.store(epoch.0, Ordering::Relaxed);
    }
}

/// Renews the clock of a node that refused to prepare a commit as its coordinator, and makes room for another decision.
///
/// # Errors
/// `NoSpace` if nothing can be removed, because another node cannot be reached; those of asking the node.
pub(crate) async fn renew(shared: &Shared, coordinator: usize) -> Result<()> {
    let member = &shared.members[coordinator];
    let mut found = member.pool().decisions(0).await?;
    if found.is_full {
        sweep(shared, coordinator).await?;
        found = member.pool().decisions(0).await?;
    }
    member.clock.replace(found.clock);
    Ok(())
}

/// Removes the oldest commit decisions of one node, as far as no other node needs them any more.
///
/// - "Aborted" can always be removed: a node that finds no decision about a commit aborts it.
/// - "Committed" can be removed if all other nodes were asked, and none of them still has the commit prepared.
///
/// # Errors
/// `NoSpace` if a node that cannot be asked prevents every removal; errors of the node.
async fn sweep(shared: &Shared, coordinator: usize) -> Result<()> {
    let member = &shared.members[coordinator];
    let oldest = member.pool().decisions(DECISIONS_SWEPT_MAX).await?.oldest;
    let (needed, lost) = prepared_elsewhere(shared, coordinator).await;
    let may_go = |decided: &&Decided| {
        !decided.is_committed || lost.is_none() && !needed.contains(&decided.id)
    };
    let ids: Vec<CommitId> = oldest.iter().filter(may_go).map(|decided| decided.id).collect();
    match lost {
        Some((lost, error)) if ids.is_empty() && !oldest.is_empty() => {
            Err(not_swept_error(member, lost, &error))
        }
        _ => member.pool().sweep(&ids).await,
    }
}

/// The commits that other nodes still have prepared, after they have followed all available decisions. The second value
/// is a node that could not be asked, with its error.
async fn prepared_elsewhere(
    shared: &Shared,
    coordinator: usize,
) -> (BTreeSet<CommitId>, Option<(&Member, Error)>) {
    let others: Vec<usize> =
        (0..shared.members.len()).filter(|node| *node != coordinator).collect();
    let tasks = others.iter().map(|node| task(prepared_on(shared, *node)));
    let asked = side_by_side(tasks.collect(), SIDE_BY_SIDE).await;
    let (mut needed, mut lost) = (BTreeSet::new(), None);
    for (node, prepared) in others.into_iter().zip(asked) {
        match prepared {
            Ok(prepared) => needed.extend(prepared),
            Err(error) => lost = Some((&shared.members[node], error)),
        }
    }
    (needed, lost)
}

/// The commits that are prepared on a node and cannot be resolved now.
async fn prepared_on(shared: &Shared, node: usize) -> Result<Vec<CommitId>> {
    Doubt::default().resolve(shared, node, Duration::MAX).await?;
    let prepared = shared.members[node].pool().prepared().await?;
    Ok(prepared.into_iter().map(|commit| commit.id).collect())
}

#[cold]
fn not_swept_error(member: &Member, lost: &Member, error: &Error) -> Error {
    let message = format!(
        "node {} has no room for decisions about more commits over nodes (DECISIONS_MAX), and node {}, which may need \
         those it has, cannot be asked: start the engine of node {} ({})",
        member.name,
        lost.name,
        lost.name,
        error.message()
    );
    Error::new(ErrorKind::NoSpace, message)
}
