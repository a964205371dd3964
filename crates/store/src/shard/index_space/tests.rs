//! Moves space between data and index, with crashes in between.
use super::*;
use crate::format::superblock::PAGE;
use crate::tests::Scratch;
use esker_types::info::Durability;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

thread_local! {
    /// Number of steps after which this thread simulates a crash; `None` for no crash.
    static STEPS: Cell<Option<u32>> = const { Cell::new(None) };
}

/// A step of moving space. A simulated crash here leaves everything as it is.
pub(super) fn crash_point() -> Result<()> {
    let left = STEPS.get();
    STEPS.set(left.and_then(|steps| steps.checked_sub(1)));
    match left {
        Some(0) => Err(Error::new(ErrorKind::Canceled, "dead")),
        _ => Ok(()),
    }
}

const MEDIA: [(&str, Durability); 3] = [
    ("/dev/shm", Durability::Process),
    ("/var/tmp", Durability::Process),
    ("/var/tmp", Durability::Commit),
];

/// A pool of one target with segments of 1 MiB.
fn pool(medium: &str, durability: Durability) -> Scratch {
    pool_of(medium, durability, 40 << 20)
}

fn pool_of(medium: &str, durability: Durability, bytes: u64) -> Scratch {
    Scratch::on(Path::new(medium), bytes, |spec| {
        spec.targets = Some(1);
        spec.durability = Some(durability);
        spec.segment_bytes = Some(1 << 20);
        spec.huge_pages = medium == "/dev/shm";
    })
}

fn key(number: u32) -> Vec<u8> {
    [b"T".as_slice(), &number.to_be_bytes()].concat()
}

/// Puts a thousand keys with values of 200 bytes, from number `first` on.
fn put_thousand(target: &Target, first: u32) -> Result<()> {
    target.change(|change| {
        change.check_room()?;
        (first..first + 1000).try_for_each(|number| change.put(&key(number), &[7; 200]))
    })
}

/// Puts keys in batches of a thousand until the index is full; returns the number of keys.
fn fill(target: &Target) -> u32 {
    (0..).step_by(1000).find(|&first| put_thousand(target, first).is_err()).unwrap()
}

/// Makes the control file look like one from before a restart of the machine.
fn restart_machine(pool: &Scratch) {
    let control = std::fs::File::options().write(true).open(pool.path().join("control"));
    std::os::unix::fs::FileExt::write_all_at(&control.unwrap(), &[0; 8], 8).unwrap();
}

/// Removes the keys below number `keys`, a thousand per commit.
fn empty(target: &Target, keys: u32) {
    for first in (0..keys).step_by(1000) {
        let thousand = |change: &mut crate::shard::change::Change<'_>| {
            (first..first + 1000).try_for_each(|number| change.delete(&key(number)).map(drop))
        };
        target.change(thousand).unwrap();
    }
}

/// Bytes that the files of the pool's target occupy on the medium.
fn bytes_on_medium(pool: &Scratch) -> u64 {
    let files = ["target-0/index/data.mdb", "target-0/data"];
    files.map(|name| std::fs::metadata(pool.path().join(name)).unwrap().blocks() * 512).iter().sum()
}

/// Expects that every page that the index may use is allocated, hardly any other one is, and data uses no segment of
/// the index.
#[track_caller]
fn check(pool: &Scratch) {
    let state = pool.opened();
    let target = &state.targets[0];
    let index_space = target.index_space.as_ref().unwrap();
    let account = target.account(index_space).unwrap();
    let (index, data) =
        (pool.path().join("target-0/index/data.mdb"), pool.path().join("target-0/data"));
    let idle = u64::from(account.idle) * (index_space.block_bytes - PAGE as u64);
    let needed = target.index.file_bytes() - idle;
    let reserved = std::fs::metadata(index).unwrap().blocks() * 512;
    assert!(reserved >= needed, "pages that are not there");
    let most = needed + u64::from(account.credit) * index_space.block_bytes + (64 << 10);
    assert!(reserved <= most, "{reserved} bytes reserved where {needed} are needed");
    assert!(std::fs::metadata(data).unwrap().blocks() * 512 >= target.data_bytes(), "segments");
    assert_eq!(account.segments.len(), target.index_segment_count() as usize);
    let used = index_space.blocks - account.idle;
    assert!(
        used <= account.segments.len() as u32 * index_space.per_segment,
        "{used} blocks without segments"
    );
}

/// The index is filled with small values, which are then removed, several times.
#[test]
fn index_grows_into_unused_segments_and_returns_them() {
    for (medium, durability) in MEDIA {
        let pool = pool(medium, durability);
        let state = pool.opened();
        let target = &state.targets[0];
        let before = bytes_on_medium(&pool);
        let segments = target.data_bytes();
        for round in 0..3 {
            let keys = fill(target);
            check(&pool);
            let bytes = u64::from(keys) * 210;
            assert!(bytes > 20 << 20, "round {round}: only {keys} keys found room on {medium}");
            assert!(
                bytes_on_medium(&pool) <= before + (1 << 20),
                "more than the pool's size on {medium}"
            );
            assert!(target.data_bytes() < segments / 4);
            empty(target, keys);
            while target.return_segment(false).unwrap() {
                check(&pool);
            }
            let back = target.data_bytes();
            assert!(back > segments / 4 * 3, "{back} of {segments} bytes came back on {medium}");
        }
        assert!(bytes_on_medium(&pool) <= before + (1 << 20));
    }
}

/// A process that moves space may be killed at any step. The records in the index decide.
#[test]
fn space_moved_by_dead_process_is_recovered() {
    for (medium, durability) in MEDIA {
        let mut pool = pool(medium, durability);
        {
            let state = pool.opened();
            let target = &state.targets[0];
            let index_space = target.index_space.as_ref().unwrap();
            let segments = target.data_bytes();
            // A segment state without a record.
            target.shared().segment(3).store(SegmentState::Index);
            assert!(target.return_segment(false).unwrap());
            assert_eq!(target.data_bytes(), segments);
            // A record and nothing else.
            target.shared().segment(4).store(SegmentState::Index);
            assert!(target.change_space(|txn| txn.put(&index_segment_key(4), &[])).unwrap());
            target.punch_segment(4).unwrap();
            let idle = target.account(index_space).unwrap().idle;
            assert!(target.grow_index(1, true).unwrap());
            assert_eq!(target.account(index_space).unwrap().idle, idle - 1);
            assert_eq!(target.index_segment_count(), 1, "its space was used");
            // A block that is allocated and not used.
            assert!(index_space.allocate_block(&target.index.read().unwrap(), idle - 2).unwrap());
        }
        for _ in 0..2 {
            pool.close();
            if durability == Durability::Process {
                continue;
            }
            restart_machine(&pool);
            pool.reopen();
            check(&pool);
            let state = pool.opened();
            let target = &state.targets[0];
            assert_eq!(target.shared().segment(4).load(), SegmentState::Index);
            let keys = fill(target);
            empty(target, keys);
            check(&pool);
        }
    }
}

/// A check compares the segments of the index with the blocks that it uses, and repairs differences where possible.
#[test]
fn check_compares_index_segments_with_used_blocks() {
    let pool = pool("/dev/shm", Durability::Process);
    let state = pool.opened();
    let target = &state.targets[0];
    let index_space = target.index_space.as_ref().unwrap();
    let check = |repair| crate::Pool::check(&pool.path(), repair, &mut |_, _| {}).unwrap();
    let problems = || check(false).problems.join("; ");
    assert_eq!(problems(), "");
    // A segment that belongs to the index, which uses no block of it.
    assert!(
        target.while_moving(|l| target.move_segment_to_index(l, index_space.blocks, true)).unwrap()
    );
    assert_eq!((problems(), target.index_segment_count()), (String::new(), 1));
    let report = check(true);
    assert!(report.repaired[0].contains("does not use"), "{report:?}");
    assert_eq!((problems(), target.index_segment_count()), (String::new(), 0));
    // A block that the index uses without a segment.
    let last = index_space.blocks - 1;
    assert!(index_space.allocate_block(&target.index.read().unwrap(), last).unwrap());
    assert!(target.change_space(|txn| txn.delete(&block_key(last)).map(drop)).unwrap());
    assert!(problems().contains("uses 1 blocks without a segment"), "{}", problems());
    let report = check(true);
    assert!(
        report.problems.is_empty() && report.repaired[0].contains("moved a segment"),
        "{report:?}"
    );
    assert_eq!((problems(), target.index_segment_count()), (String::new(), 1));
    // A segment of the index that is open to data.
    let segments = target.account(index_space).unwrap().segments[0];
    target.shared().segment(segments).store(SegmentState::Free);
    assert!(
        problems()
            .contains(&format!("segment {segments}: belongs to the index, but its state is Free")),
        "{}",
        problems()
    );
    assert!(check(true).problems.is_empty());
    assert_eq!(
        (problems(), target.shared().segment(segments).load()),
        (String::new(), SegmentState::Index)
    );
    // A record of a segment that does not exist.
    assert!(target.change_space(|txn| txn.put(&index_segment_key(5000), &[])).unwrap());
    assert!(
        problems().contains("segment 5000: belongs to the index, but does not exist"),
        "{}",
        problems()
    );
}

/// Simulates a crash at each step of `work`, one after the other, each time in a new pool that `prepare` has changed.
/// Expects a consistent pool after each crash.
fn crash_at_each_step(prepare: fn(&Target), work: fn(&Target) -> Result<bool>) {
    for (medium, durability) in MEDIA {
        let dies = |step: u32| {
            let mut pool = pool_of(medium, durability, 16 << 20);
            {
                let state = pool.opened();
                put_thousand(&state.targets[0], 0).unwrap();
                prepare(&state.targets[0]);
                STEPS.set(Some(step));
                let ended = work(&state.targets[0]);
                STEPS.set(None);
                match ended {
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Canceled, "{error}"),
                    Ok(_) => return false,
                }
            }
            pool.close();
            if durability == Durability::Commit && step.is_multiple_of(2) {
                restart_machine(&pool);
            }
            pool.reopen();
            expect_usable(&pool, step);
            true
        };
        let steps = (0..).find(|&step| !dies(step)).unwrap();
        assert!(steps >= 4, "only {steps} steps");
    }
}

/// Expects that the first thousand keys exist, a check finds no problem, and space can still be moved.
fn expect_usable(pool: &Scratch, step: u32) {
    let state = pool.opened();
    let target = &state.targets[0];
    let txn = target.index.read().unwrap();
    for number in 0..1000 {
        assert_eq!(txn.get(&key(number)).unwrap(), Some(&[7; 200][..]), "step {step}: {number}");
    }
    drop(txn);
    let report = crate::Pool::check(&pool.path(), false, &mut |_, _| {}).unwrap();
    assert!(report.problems.is_empty(), "step {step}: {report:?}");
    while target.return_segment(false).unwrap() {}
    check(pool);
    let index_space = target.index_space.as_ref().unwrap();
    assert_eq!(
        target.account(index_space).unwrap().credit,
        0,
        "step {step}: unused segments of the index"
    );
    let keys = fill(target);
    assert!(keys > 25_000, "step {step}: room for {keys} keys");
    check(pool);
    empty(target, keys);
    while target.return_segment(true).unwrap() {}
    check(pool);
}

#[test]
fn crash_while_moving_segments_to_index_keeps_pool_consistent() {
    crash_at_each_step(|_| {}, |target| target.grow_index(2, true));
}

#[test]
fn crash_while_returning_segments_to_data_keeps_pool_consistent() {
    let grow = |target: &Target| assert!(target.grow_index(3, true).unwrap());
    crash_at_each_step(grow, |target| {
        while target.return_segment(true)? {}
        Ok(true)
    });
}

/// Entries at possible positions of blocks are moved. Blocks that the index does not use are not changed.
#[test]
fn entries_are_moved_for_blocks() {
    for (medium, durability) in MEDIA {
        let pool = pool(medium, durability);
        let state = pool.opened();
        let target = &state.targets[0];
        let keys = fill(target);
        let kept = |number: &u32| number.is_multiple_of(500);
        for first in (0..keys).step_by(1000) {
            let mut gone = (first..first + 1000).filter(|number| !kept(number));
            let all = |change: &mut crate::shard::change::Change<'_>| {
                gone.try_for_each(|number| change.delete(&key(number)).map(drop))
            };
            target.change(all).unwrap();
        }
        while target.return_segment(false).unwrap() {}
        let index_space = target.index_space.as_ref().unwrap();
        let idle = target.account(index_space).unwrap().idle;
        assert!(idle > 0);
        let blocks = |txn: &crate::index::txn::Txn| -> Vec<_> {
            (0..idle).map(|number| inside(txn, number, index_space.block_bytes).unwrap()).collect()
        };
        let before = blocks(&target.index.read().unwrap());
        assert!(target.while_moving(|index_space| target.move_entries(index_space, 1000)).unwrap());
        let txn = target.index.read().unwrap();
        assert_eq!(blocks(&txn), before);
        for number in (0..keys).filter(kept) {
            assert_eq!(txn.get(&key(number)).unwrap(), Some(&[7; 200][..]), "{number}");
        }
        drop(txn);
        check(&pool);
    }
}
