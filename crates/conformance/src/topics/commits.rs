//! Commits over several nodes, in two phases, on backends that can be the pool of one node.
use super::store::refused;
use crate::parts::Parts;
use esker_backend::Pool;
use esker_types::info::Part;
use esker_types::ops::{Change, Commit, Decided, Outcome, Preparation, ReadAt, ReadTokens, View};
use esker_types::{Epoch, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Creates an empty pool at this position in a pool over nodes.
pub type MakePart<'a> = &'a dyn Fn(Part) -> Arc<dyn Pool>;

type Check = (&'static str, fn(&Parts) -> Result<()>);

macro_rules! checks {
    ($($check:ident),+ $(,)?) => { [$((stringify!($check), $check as fn(&Parts) -> Result<()>)),+] };
}

/// Checks commits over two nodes.
///
/// # Panics
/// If the backend violates a requirement.
pub fn commits(make: MakePart<'_>) {
    let checks: [Check; 11] = checks![
        prepared_data_is_in_doubt_until_it_is_resolved,
        aborted_commit_has_no_effect,
        the_coordinator_decides_once,
        commit_aborted_by_others_cannot_be_committed,
        swept_decision_is_unknown,
        late_copies_of_a_swept_commit_have_no_effect,
        a_preparation_that_is_late_has_no_effect,
        changed_reads_fail_the_preparation,
        commit_of_a_dead_client_is_resolved,
        a_snapshot_is_one_moment_on_all_nodes,
        a_snapshot_shows_no_half_of_a_commit,
    ];
    for (name, check) in checks {
        let pools = (0..2).map(|node| make(Part { node, nodes: 2 })).collect();
        let outcome = Parts::open(pools, 7).and_then(|parts| check(&parts));
        assert!(outcome.is_ok(), "commits: {name}: unexpected error: {outcome:?}");
    }
}

/// Checks that the pool refuses commits over several nodes.
///
/// # Panics
/// If it accepts one.
pub fn takes_no_part(pool: Arc<dyn Pool>) {
    let asked = Parts::open(vec![pool], 7).map(|parts| {
        let commit = parts.new_commit(0);
        refused(parts.prepare_put(commit, (0, 0, 1), None), ErrorKind::NotSupported);
        refused(parts.pool(0).commit(commit, Epoch(1)).wait(), ErrorKind::NotSupported);
        refused(parts.pool(0).abort(commit).wait(), ErrorKind::NotSupported);
        refused(parts.pool(0).outcome(commit, true).wait(), ErrorKind::NotSupported);
        refused(parts.pool(0).forget(commit).wait(), ErrorKind::NotSupported);
        // There are no decisions, so a native pool on one node has nothing to refuse.
        let decisions = parts.pool(0).decisions(9).wait();
        assert!(decisions.is_err() || decisions.is_ok_and(|listed| listed.oldest.is_empty()));
    });
    assert!(asked.is_ok(), "commits: unexpected error: {asked:?}");
}

fn prepared_data_is_in_doubt_until_it_is_resolved(parts: &Parts) -> Result<()> {
    parts.put(1, 0, 1)?;
    let commit = parts.new_commit(0);
    let epochs = [0, 1].map(|node| parts.prepare_put(commit, (node, 0, 7), None));
    let [first, second] = epochs;
    let epoch = first?.max(second?);
    for node in [0, 1] {
        assert_eq!(parts.pool(node).prepared().wait()?, [commit]);
        refused(parts.try_get(node, 0, ReadAt::LATEST), ErrorKind::InDoubt);
        refused(parts.try_put(node, 0, 2), ErrorKind::InDoubt);
        let other = parts.new_commit(node);
        refused(parts.prepare_put(other, (node, 0, 2), None), ErrorKind::InDoubt);
        let snapshot = parts.container(node).prepare(other, Preparation::Snapshot("s"));
        refused(snapshot.wait(), ErrorKind::InDoubt);
        refused(parts.container(node).create_snapshot("s").wait(), ErrorKind::InDoubt);
    }
    for node in [0, 1] {
        parts.pool(node).commit(commit, epoch).wait()?;
        assert_eq!(parts.try_get(node, 0, ReadAt::LATEST)?, 7);
        assert_eq!(parts.pool(node).prepared().wait()?, []);
        assert!(parts.try_put(node, 0, 8)? > epoch, "the clock has passed the commit");
    }
    Ok(())
}

fn aborted_commit_has_no_effect(parts: &Parts) -> Result<()> {
    parts.put(1, 0, 1)?;
    let commit = parts.new_commit(0);
    for node in [0, 1] {
        parts.prepare_put(commit, (node, 0, 7), None)?;
    }
    for node in [1, 0, 1, 0] {
        parts.pool(node).abort(commit).wait()?;
    }
    assert_eq!(parts.try_get(0, 0, ReadAt::LATEST)?, 0);
    assert_eq!(parts.try_get(1, 0, ReadAt::LATEST)?, 1);
    let late = Epoch::after(parts.try_put(0, 1, 1)?);
    refused(parts.pool(0).commit(commit, late).wait(), ErrorKind::TxRestart);
    parts.pool(1).commit(commit, late).wait()?;
    assert_eq!(parts.try_get(1, 0, ReadAt::LATEST)?, 1);
    Ok(())
}

fn the_coordinator_decides_once(parts: &Parts) -> Result<()> {
    let commit = parts.new_commit(0);
    let pool = parts.pool(0);
    assert_eq!(pool.outcome(commit, false).wait()?, Outcome::Aborted);
    let epoch = parts.prepare_put(commit, (0, 0, 7), None)?;
    assert_eq!(parts.prepare_put(commit, (0, 0, 7), None)?, epoch, "prepared again");
    assert_eq!(pool.outcome(commit, false).wait()?, Outcome::Undecided);
    for _ in 0..2 {
        pool.commit(commit, epoch).wait()?;
        pool.abort(commit).wait()?;
        assert_eq!(pool.outcome(commit, true).wait()?, Outcome::Committed(epoch));
    }
    assert_eq!(parts.try_get(0, 0, ReadAt::LATEST)?, 7);
    parts.try_put(0, 0, 8)?;
    parts.prepare_put(commit, (0, 0, 7), None)?;
    assert_eq!(parts.try_get(0, 0, ReadAt::LATEST)?, 8, "a late copy of the preparation");
    for _ in 0..2 {
        pool.forget(commit).wait()?;
        assert_eq!(pool.outcome(commit, true).wait()?, Outcome::Aborted);
    }
    refused(parts.pool(1).outcome(commit, true).wait(), ErrorKind::Invalid);
    let nowhere = parts.new_commit(2);
    refused(parts.prepare_put(nowhere, (0, 0, 7), None), ErrorKind::Invalid);
    Ok(())
}

fn commit_aborted_by_others_cannot_be_committed(parts: &Parts) -> Result<()> {
    let commit = parts.new_commit(0);
    let epoch = parts.prepare_put(commit, (0, 0, 7), None)?;
    assert_eq!(parts.pool(0).outcome(commit, true).wait()?, Outcome::Aborted);
    let late = Epoch(epoch.0 + (1 << 40));
    refused(parts.pool(0).commit(commit, late).wait(), ErrorKind::TxRestart);
    refused(parts.prepare_put(commit, (0, 0, 7), None), ErrorKind::TxRestart);
    refused(parts.pool(0).commit(commit, late).wait(), ErrorKind::TxRestart);
    parts.pool(0).forget(commit).wait()?;
    refused(parts.pool(0).commit(commit, late).wait(), ErrorKind::TxRestart);
    assert_eq!(parts.try_get(0, 0, ReadAt::LATEST)?, 0);
    Ok(())
}

/// Prepares a commit on both nodes, and commits it on the first. Its client goes no further.
fn abandon(parts: &Parts, value: u64) -> Result<(Commit, Epoch)> {
    let commit = parts.new_commit(0);
    let prepare = |node| parts.prepare_put(commit, (node, 0, value), None);
    let epoch = prepare(0)?.max(prepare(1)?);
    parts.pool(0).commit(commit, epoch).wait()?;
    Ok((commit, epoch))
}

fn swept_decision_is_unknown(parts: &Parts) -> Result<()> {
    let pool = parts.pool(0);
    let older = parts.new_commit(0);
    let (commit, epoch) = abandon(parts, 7)?;
    let listed = pool.decisions(9).wait()?;
    assert_eq!(listed.oldest, [Decided { id: commit.id, is_committed: true }]);
    assert!(!listed.is_full && listed.clock > epoch);
    assert_eq!(pool.decisions(0).wait()?.oldest, []);
    parts.resolve(1, false)?;
    pool.sweep(&[commit.id]).wait()?;
    for _ in 0..2 {
        refused(pool.commit(commit, epoch).wait(), ErrorKind::TxUncertain);
        assert_eq!(pool.outcome(commit, true).wait()?, Outcome::Unknown);
        assert_eq!(pool.decisions(9).wait()?.oldest, []);
        pool.sweep(&[commit.id]).wait()?;
        pool.forget(commit).wait()?;
    }
    // An older client has to ask for the clock before it commits.
    refused(parts.prepare_put(older, (0, 0, 8), None), ErrorKind::Again);
    let ahead = parts.commit_from(Epoch(u64::MAX), 0);
    refused(parts.prepare_put(ahead, (0, 0, 8), None), ErrorKind::Again);
    let newer = parts.commit_from(pool.decisions(0).wait()?.clock, 0);
    assert_eq!(pool.outcome(newer, true).wait()?, Outcome::Aborted);
    let epoch = parts.prepare_put(newer, (0, 0, 8), None)?;
    pool.commit(newer, epoch).wait()?;
    assert_eq!([parts.get(0, 0, ReadAt::LATEST)?, parts.get(1, 0, ReadAt::LATEST)?], [8, 7]);
    Ok(())
}

fn late_copies_of_a_swept_commit_have_no_effect(parts: &Parts) -> Result<()> {
    let given_up = parts.new_commit(0);
    parts.prepare_put(given_up, (0, 0, 6), None)?;
    parts.pool(0).outcome(given_up, true).wait()?;
    let (commit, epoch) = abandon(parts, 7)?;
    parts.resolve(1, false)?;
    parts.pool(0).sweep(&[given_up.id, commit.id]).wait()?;
    for (late, value) in [(given_up, 6), (commit, 7)] {
        for node in [0, 1] {
            parts.put(node, 0, 8)?;
        }
        refused(parts.prepare_put(late, (0, 0, value), None), ErrorKind::Again);
        // The other nodes have no decisions. They ask the coordinator.
        parts.prepare_put(late, (1, 0, value), None)?;
        refused(parts.pool(0).commit(late, epoch).wait(), ErrorKind::TxUncertain);
        parts.resolve(1, false)?;
        for node in [0, 1] {
            assert_eq!(parts.try_get(node, 0, ReadAt::LATEST)?, 8, "node {node}");
        }
    }
    Ok(())
}

fn a_preparation_that_is_late_has_no_effect(parts: &Parts) -> Result<()> {
    let commit = parts.new_commit(0);
    let prepare = |node| parts.prepare_put(commit, (node, 0, 7), None);
    let epoch = prepare(0)?.max(prepare(1)?);
    for node in [0, 1] {
        parts.pool(node).commit(commit, epoch).wait()?;
    }
    parts.try_put(1, 0, 8)?;
    prepare(1)?;
    refused(parts.try_get(1, 0, ReadAt::LATEST), ErrorKind::InDoubt);
    // The coordinator still says that it was committed, which is true of the first copy.
    parts.resolve(1, true)?;
    assert_eq!(parts.try_get(1, 0, ReadAt::LATEST)?, 8);
    parts.pool(0).forget(commit).wait()?;
    prepare(1)?;
    parts.resolve(1, true)?;
    assert_eq!(parts.try_get(1, 0, ReadAt::LATEST)?, 8);
    Ok(())
}

fn changed_reads_fail_the_preparation(parts: &Parts) -> Result<()> {
    parts.put(1, 0, 1)?;
    let tokens = ReadTokens::default();
    let at = ReadAt { view: View::Latest, tokens: Some(&tokens) };
    parts.try_get(1, 0, at)?;
    let reads = Change { tokens: Some(&tokens), ..Change::from_writes(&[]) };
    let commit = parts.new_commit(0);
    let prepare = || parts.container(1).prepare(commit, Preparation::Change(reads)).wait();
    prepare()?;
    refused(parts.try_put(1, 0, 2), ErrorKind::InDoubt);
    parts.pool(1).abort(commit).wait()?;
    parts.try_put(1, 0, 2)?;
    refused(prepare(), ErrorKind::TxRestart);
    assert_eq!(parts.pool(1).prepared().wait()?, []);
    let tokens = ReadTokens::default();
    let at = ReadAt { view: View::Latest, tokens: Some(&tokens) };
    parts.try_get(1, 0, at)?;
    parts.transfer([0, 0], 0, (1, 1))?;
    let stale = Change { tokens: Some(&tokens), ..Change::from_writes(&[]) };
    refused(parts.container(1).write(stale).wait(), ErrorKind::TxRestart);
    Ok(())
}

fn commit_of_a_dead_client_is_resolved(parts: &Parts) -> Result<()> {
    for (decided, expected) in [(false, 1), (true, 7)] {
        for node in [0, 1] {
            parts.put(node, 0, 1)?;
        }
        let commit = parts.new_commit(0);
        let prepare = |node| parts.prepare_put(commit, (node, 0, 7), None);
        let epoch = prepare(0)?.max(prepare(1)?);
        if decided {
            parts.pool(0).commit(commit, epoch).wait()?;
        }
        for node in [1, 0] {
            assert_eq!(parts.get(node, 0, ReadAt::LATEST)?, expected, "node {node}");
        }
    }
    Ok(())
}

/// A read of the snapshot at this epoch.
fn at(epoch: Epoch) -> ReadAt<'static> {
    ReadAt { view: View::Snapshot(epoch), tokens: None }
}

/// Runs `read` on snapshots that are taken while `write` runs.
fn snapshots_beside(
    parts: &Parts,
    write: impl Fn(u64) -> Result<()> + Sync,
    read: impl Fn(Epoch) -> Result<()>,
) -> Result<()> {
    let over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let writer = threads.spawn(|| {
            let mut numbers = 1..;
            while !over.load(Ordering::Relaxed) {
                write(numbers.next().unwrap_or_default())?;
            }
            Ok(())
        });
        let taken = (0..20).try_for_each(|_| {
            let epoch = parts.snapshot("moment")?;
            read(epoch)?;
            for node in [0, 1] {
                let destroy = || parts.container(node).destroy_snapshot(epoch).wait();
                parts.resolved(node, destroy)?;
            }
            Ok(())
        });
        over.store(true, Ordering::Relaxed);
        let written = writer.join().unwrap_or_else(|_| Err(ErrorKind::Io.into()));
        taken.and(written)
    })
}

/// Writes one number on node 0, then on node 1: no snapshot may show the second without the first.
fn a_snapshot_is_one_moment_on_all_nodes(parts: &Parts) -> Result<()> {
    let write = |number| {
        parts.put(0, 0, number)?;
        parts.put(1, 0, number).map(drop)
    };
    snapshots_beside(parts, write, |epoch| {
        let [first, second] = [0, 1].map(|node| parts.get(node, 0, at(epoch)));
        let (first, second) = (first?, second?);
        assert!(first == second || first == second + 1, "{first} on node 0, {second} on node 1");
        Ok(())
    })
}

fn a_snapshot_shows_no_half_of_a_commit(parts: &Parts) -> Result<()> {
    parts.put(0, 0, 1_000_000)?;
    parts.put(1, 0, 0)?;
    let write = |number| parts.transfer([0, 0], number % 5, (1, number)).map(drop);
    snapshots_beside(parts, write, |epoch| {
        let read = |node, number| parts.get(node, number, at(epoch));
        assert_eq!(read(0, 0)? + read(1, 0)?, 1_000_000);
        assert_eq!(read(0, 1)?, read(1, 1)?);
        Ok(())
    })
}
