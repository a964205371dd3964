//! Sweeps of decisions, from the point of view of the coordinator.
use super::super::resolve::tests::{
    commit, container, expect_sound, kind, latest, part, prepare, reopened, restart,
};
use super::*;
use crate::Pool;
use crate::shard::container::Container;
use esker_types::ops::Outcome;

/// Length of the values.
const LEN: usize = 100;

/// A commit that node 0 coordinates and that starts at `start`.
fn started(start: Epoch, number: u8) -> Commit {
    Commit { id: CommitId::new(start, Uuid([number; 16])), coordinator: 0 }
}

/// Commits a value on target 1 like a client that dies before it forgets the decision.
fn abandon(pool: &OpenPool, container: &Container, commit: Commit) -> Result<Epoch> {
    let epoch = prepare(pool, container, commit, &[1], (commit.id.0.0[15], LEN))?;
    pool.commit_prepared(commit, epoch)?;
    Ok(epoch)
}

/// Number of decisions that the watermarks of the pool count.
fn count(pool: &OpenPool) -> u64 {
    pool.watermark().unwrap().count
}

#[test]
fn watermarks_round_trip_and_damage_is_detected() {
    let mark = Watermark { swept: Epoch(1 << 50), count: 77 };
    let value = mark.encode();
    assert_eq!(Watermark::decode(&value).unwrap(), mark);
    for byte in 0..VALUE_LEN {
        let mut changed = value;
        changed[byte] ^= 1;
        assert!(!is_sound_watermark(&changed), "byte {byte}");
        assert!(!is_sound_watermark(&value[..byte]), "cut at {byte}");
    }
    esker_testing::fuzz("watermark", &[value.to_vec()], |bytes| drop(Watermark::decode(bytes)));
}

/// A committed and an aborted commit are swept. Their clients or other nodes may still ask for them.
#[test]
fn outcome_of_swept_commit_is_unknown() {
    let scratch = part(0);
    let pool = scratch.opened();
    let container = container(&pool);
    let lost = commit(1, 0);
    let epoch = abandon(&pool, &container, lost).unwrap();
    let aborted = commit(2, 0);
    let late = prepare(&pool, &container, aborted, &[1], (2, LEN)).unwrap();
    assert_eq!(pool.outcome(aborted, true).unwrap(), Outcome::Aborted);
    let listed = pool.decisions(10).unwrap();
    let decided = |commit: Commit, is_committed| Decided { id: commit.id, is_committed };
    assert_eq!(listed.oldest, [decided(lost, true), decided(aborted, false)]);
    assert_eq!(pool.decisions(1).unwrap().oldest.len(), 1);

    for _ in 0..2 {
        pool.sweep(&[lost.id, aborted.id]).unwrap();
        assert_eq!(count(&pool), 0);
        for (commit, epoch) in [(lost, epoch), (aborted, late)] {
            let unknown = pool.commit_prepared(commit, epoch).unwrap_err();
            assert_eq!(unknown.kind(), ErrorKind::TxUncertain, "{unknown}");
            assert_eq!(pool.outcome(commit, true).unwrap(), Outcome::Unknown);
            // A late copy of the preparation.
            assert_eq!(kind(prepare(&pool, &container, commit, &[1], (9, LEN))), ErrorKind::Again);
            pool.forget(commit).unwrap();
        }
    }
    assert_eq!(latest(&pool, &container), [None, Some(1), None]);
    assert_eq!(pool.prepared().unwrap(), []);
    // A commit that starts at the present clock is not affected.
    let new = started(pool.decisions(0).unwrap().clock, 3);
    assert_eq!(kind(pool.commit_prepared(new, epoch)), ErrorKind::TxRestart);
    assert_eq!(pool.outcome(new, true).unwrap(), Outcome::Aborted);
    abandon(&pool, &container, new).unwrap();
    expect_sound(&scratch);
}

/// A client has prepared a commit and is stopped during a sweep.
#[test]
fn commit_prepared_before_sweep_commits_after_it() {
    let scratch = part(0);
    let pool = scratch.opened();
    let container = container(&pool);
    abandon(&pool, &container, commit(9, 0)).unwrap();
    let slow = commit(1, 0);
    let epoch = prepare(&pool, &container, slow, &[2], (1, LEN)).unwrap();
    pool.sweep(&[slow.id, commit(9, 0).id]).unwrap();
    assert_eq!(prepare(&pool, &container, slow, &[2], (1, LEN)).unwrap(), epoch, "a copy");
    assert_eq!(pool.outcome(slow, false).unwrap(), Outcome::Undecided);
    pool.commit_prepared(slow, epoch).unwrap();
    assert_eq!(pool.outcome(slow, true).unwrap(), Outcome::Committed(epoch));
    assert_eq!(latest(&pool, &container), [None, Some(9), Some(1)]);
    assert_eq!(count(&pool), 1);
}

/// The maximum number of decisions is set to 3.
#[test]
fn full_table_refuses_commits_until_it_is_swept() {
    let mut scratch = part(0);
    {
        let pool = scratch.opened();
        let container = container(&pool);
        for number in 1..4 {
            assert!(!pool.decisions(0).unwrap().is_full);
            abandon(&pool, &container, commit(number, 0)).unwrap();
            pool.decisions_max.store(3, Ordering::Relaxed);
        }
    }
    restart(&mut scratch);
    let pool = scratch.opened();
    let container = reopened(&pool);
    pool.decisions_max.store(3, Ordering::Relaxed);
    let refused = prepare(&pool, &container, commit(4, 0), &[0], (4, LEN)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Again);
    assert!(refused.message().contains("DECISIONS_MAX"), "{refused}");
    // Commits that another node coordinates, and copies of known commits, are not refused.
    prepare(&pool, &container, commit(4, 1), &[0], (4, LEN)).unwrap();
    pool.abort_prepared(commit(4, 1)).unwrap();
    prepare(&pool, &container, commit(3, 0), &[1], (3, LEN)).unwrap();

    let full = pool.decisions(2).unwrap();
    assert!(full.is_full);
    pool.sweep(&full.oldest.iter().map(|decided| decided.id).collect::<Vec<_>>()).unwrap();
    let renewed = pool.decisions(10).unwrap();
    assert_eq!((renewed.is_full, renewed.oldest.len()), (false, 1));
    abandon(&pool, &container, started(renewed.clock, 5)).unwrap();
    assert!(matches!(pool.outcome(commit(3, 0), false).unwrap(), Outcome::Committed(_)));
    pool.forget(commit(3, 0)).unwrap();
    pool.forget(commit(3, 0)).unwrap();
    assert_eq!(count(&pool), 1);
    drop((pool, container));
    expect_sound(&scratch);
}

/// A restart of the machine keeps the watermark, and new commits start after it even if the clock was set back.
#[test]
fn watermark_survives_machine_restart() {
    let mut scratch = part(0);
    let start = {
        let pool = scratch.opened();
        let container = container(&pool);
        let start = pool.decisions(0).unwrap().clock;
        abandon(&pool, &container, started(start, 1)).unwrap();
        let future = Epoch(start.0 + (1 << 55));
        pool.control.pass_epoch(future);
        abandon(&pool, &container, started(future, 2)).unwrap();
        pool.sweep(&[started(start, 1).id, started(future, 2).id]).unwrap();
        start
    };
    restart(&mut scratch);
    let pool = scratch.opened();
    let container = reopened(&pool);
    assert_eq!(pool.outcome(started(start, 1), true).unwrap(), Outcome::Unknown);
    let clock = pool.decisions(0).unwrap().clock;
    assert!(clock.0 > start.0 + (1 << 55));
    abandon(&pool, &container, started(clock, 3)).unwrap();
}

/// The start of a commit is a clock of its coordinator that the client has read before.
#[test]
fn start_later_than_clock_is_refused() {
    let scratch = part(0);
    let pool = scratch.opened();
    let container = container(&pool);
    let future = Epoch(pool.decisions(0).unwrap().clock.0 + (1 << 55));
    let refused = prepare(&pool, &container, started(future, 1), &[0], (1, LEN));
    assert_eq!(kind(refused), ErrorKind::Again);
    assert_eq!(latest(&pool, &container), [None; 3]);
}

/// The ids of earlier releases are random, and these releases did not count decisions.
#[test]
fn decisions_of_earlier_releases_are_counted_and_swept() {
    let scratch = part(0);
    let pool = scratch.opened();
    let container = container(&pool);
    let old = [CommitId(Uuid([3; 16])), CommitId(Uuid([0xff; 16]))];
    let mut txn = pool.targets[1].begin_bare().unwrap();
    for id in old {
        let key = decision_key(id);
        txn.put(&key, &Decision::Committed(Epoch(5)).encode(&key)).unwrap();
    }
    txn.commit().unwrap();
    assert_eq!(count(&pool), 2);
    abandon(&pool, &container, commit(1, 0)).unwrap();
    assert_eq!(count(&pool), 3);
    pool.sweep(&old).unwrap();
    assert_eq!(count(&pool), 1);
    let clock = pool.decisions(0).unwrap().clock;
    assert!(clock.0 < 1 << 63, "the watermark has not passed all clocks");
    abandon(&pool, &container, started(clock, 2)).unwrap();
    expect_sound(&scratch);
}

/// Commit 1 is swept before the damage. After the repair, its outcome must still be unknown.
#[test]
fn damaged_watermark_is_reported_and_repair_keeps_sweeps() {
    let mut scratch = part(0);
    {
        let pool = scratch.opened();
        let container = container(&pool);
        for number in [1, 2] {
            abandon(&pool, &container, commit(number, 0)).unwrap();
        }
        pool.sweep(&[commit(1, 0).id]).unwrap();
        let mut txn = pool.targets[1].begin_bare().unwrap();
        let mut value = txn.get(&Watermark::key()).unwrap().unwrap().to_vec();
        value[3] ^= 1;
        txn.put(&Watermark::key(), &value).unwrap();
        txn.commit().unwrap();
        assert_eq!(
            kind(prepare(&pool, &container, commit(3, 0), &[0], (3, 1))),
            ErrorKind::Corrupt
        );
    }
    scratch.close();
    let check = |repair| Pool::check(&scratch.path(), repair, &mut |_, _| {}).unwrap();
    assert_eq!(check(false).problems.len(), 1);
    check(true);
    assert_eq!(check(false).problems, [""; 0]);
    scratch.reopen();
    let pool = scratch.opened();
    assert_eq!(pool.outcome(commit(1, 0), true).unwrap(), Outcome::Unknown);
    assert!(matches!(pool.outcome(commit(2, 0), true).unwrap(), Outcome::Committed(_)));
    assert_eq!(count(&pool), 1);
    let clock = pool.decisions(0).unwrap().clock;
    abandon(&pool, &reopened(&pool), started(clock, 3)).unwrap();
}
