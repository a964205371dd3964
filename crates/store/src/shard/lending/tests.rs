//! Space goes from data to index and back.
use super::*;
use crate::format::superblock::PAGE;
use crate::tests::Scratch;
use esker_types::info::Durability;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

thread_local! {
    /// Steps after which this thread dies; `None` for one that lives.
    static STEPS: Cell<Option<u32>> = const { Cell::new(None) };
}

/// A step of moving space, where what has been done so far is all that is ever done by who dies.
pub(super) fn may_die() -> Result<()> {
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

fn put_thousand(target: &Target, first: u32) -> Result<()> {
    target.change(|change| {
        change.check_room()?;
        (first..first + 1000).try_for_each(|number| change.put(&key(number), &[7; 200]))
    })
}

/// Puts keys by the thousand until there is no room for more; returns how many there are.
fn fill(target: &Target) -> u32 {
    (0..).step_by(1000).find(|&first| put_thousand(target, first).is_err()).unwrap()
}

/// Makes the control file look as one of an earlier start of the machine.
fn restart_machine(pool: &Scratch) {
    let control = std::fs::File::options().write(true).open(pool.path().join("control"));
    std::os::unix::fs::FileExt::write_all_at(&control.unwrap(), &[0; 8], 8).unwrap();
}

fn empty(target: &Target, keys: u32) {
    for first in (0..keys).step_by(1000) {
        let thousand = |change: &mut crate::shard::change::Change<'_>| {
            (first..first + 1000).try_for_each(|number| change.delete(&key(number)).map(drop))
        };
        target.change(thousand).unwrap();
    }
}

/// Bytes that the files of the pool's target take on the medium.
fn taken(pool: &Scratch) -> u64 {
    let files = ["target-0/index/data.mdb", "target-0/data"];
    files.map(|name| std::fs::metadata(pool.path().join(name)).unwrap().blocks() * 512).iter().sum()
}

/// Every page the index may use is reserved, hardly any other one, and no segment that data may use is lent.
#[track_caller]
fn check(pool: &Scratch) {
    let state = pool.opened();
    let target = &state.targets[0];
    let lending = target.lending.as_ref().unwrap();
    let account = target.account(lending).unwrap();
    let (index, data) =
        (pool.path().join("target-0/index/data.mdb"), pool.path().join("target-0/data"));
    let idle = u64::from(account.idle) * (lending.block_bytes - PAGE as u64);
    let needed = target.index.file_bytes() - idle;
    let reserved = std::fs::metadata(index).unwrap().blocks() * 512;
    assert!(reserved >= needed, "pages that are not there");
    let most = needed + u64::from(account.credit) * lending.block_bytes + (64 << 10);
    assert!(reserved <= most, "{reserved} bytes reserved where {needed} are needed");
    assert!(std::fs::metadata(data).unwrap().blocks() * 512 >= target.data_bytes(), "segments");
    assert_eq!(account.lent.len(), target.lent_count() as usize);
    let used = lending.blocks - account.idle;
    assert!(used <= account.lent.len() as u32 * lending.per_segment, "{used} blocks for nothing");
}

#[test]
fn an_index_takes_what_data_does_not_need_and_gives_it_back() {
    for (medium, durability) in MEDIA {
        let pool = pool(medium, durability);
        let state = pool.opened();
        let target = &state.targets[0];
        let before = taken(&pool);
        let segments = target.data_bytes();
        for round in 0..3 {
            let keys = fill(target);
            check(&pool);
            let bytes = u64::from(keys) * 210;
            assert!(bytes > 20 << 20, "round {round}: only {keys} keys found room on {medium}");
            assert!(taken(&pool) <= before + (1 << 20), "more than the pool's size on {medium}");
            assert!(target.data_bytes() < segments / 4);
            empty(target, keys);
            while target.take_back(false).unwrap() {
                check(&pool);
            }
            let back = target.data_bytes();
            assert!(back > segments / 4 * 3, "{back} of {segments} bytes came back on {medium}");
        }
        assert!(taken(&pool) <= before + (1 << 20));
    }
}

/// Whoever moves space may be killed at any step: what is noted decides.
#[test]
fn what_somebody_left_who_died_while_space_was_moved_is_used() {
    for (medium, durability) in MEDIA {
        let mut pool = pool(medium, durability);
        {
            let state = pool.opened();
            let target = &state.targets[0];
            let lending = target.lending.as_ref().unwrap();
            let segments = target.data_bytes();
            // The word, not the note.
            target.shared().segment(3).store(SegmentState::Lent);
            assert!(target.take_back(false).unwrap());
            assert_eq!(target.data_bytes(), segments);
            // The note, and nothing else.
            target.shared().segment(4).store(SegmentState::Lent);
            assert!(target.change_space(|txn| txn.put(&lent_key(4), &[])).unwrap());
            target.give_up(4).unwrap();
            let idle = target.account(lending).unwrap().idle;
            assert!(target.grow_index(1, true).unwrap());
            assert_eq!(target.account(lending).unwrap().idle, idle - 1);
            assert_eq!(target.lent_count(), 1, "its space was there to be used");
            // A block that is there and not used, and one that is free and still there.
            assert!(lending.back(&target.index.read().unwrap(), idle - 2).unwrap());
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
            assert_eq!(target.shared().segment(4).load(), SegmentState::Lent);
            let keys = fill(target);
            empty(target, keys);
            check(&pool);
        }
    }
}

/// What is lent and what the index uses are compared, and made to fit where that can be done.
#[test]
fn a_check_compares_what_is_lent_with_what_the_index_uses() {
    let pool = pool("/dev/shm", Durability::Process);
    let state = pool.opened();
    let target = &state.targets[0];
    let lending = target.lending.as_ref().unwrap();
    let check = |repair| crate::Pool::check(&pool.path(), repair, &mut |_, _| {}).unwrap();
    let problems = || check(false).problems.join("; ");
    assert_eq!(problems(), "");
    // The note and nothing else: lent for nothing.
    assert!(target.while_moving(|l| target.lend_segment(l, lending.blocks, true)).unwrap());
    assert_eq!((problems(), target.lent_count()), (String::new(), 1));
    let report = check(true);
    assert!(report.repaired[0].contains("lent for nothing"), "{report:?}");
    assert_eq!((problems(), target.lent_count()), (String::new(), 0));
    // A block that is used, and no segment for it.
    let last = lending.blocks - 1;
    assert!(lending.back(&target.index.read().unwrap(), last).unwrap());
    assert!(target.change_space(|txn| txn.delete(&block_key(last)).map(drop)).unwrap());
    assert!(problems().contains("uses 1 blocks for which no segment is lent"), "{}", problems());
    let report = check(true);
    assert!(report.problems.is_empty() && report.repaired[0].contains("lent what"), "{report:?}");
    assert_eq!((problems(), target.lent_count()), (String::new(), 1));
    // A segment that is lent, and open to data.
    let lent = target.account(lending).unwrap().lent[0];
    target.shared().segment(lent).store(SegmentState::Free);
    assert!(problems().contains(&format!("segment {lent}: is lent, and Free")), "{}", problems());
    assert!(check(true).problems.is_empty());
    assert_eq!(
        (problems(), target.shared().segment(lent).load()),
        (String::new(), SegmentState::Lent)
    );
    // A note of a segment there cannot be.
    assert!(target.change_space(|txn| txn.put(&lent_key(5000), &[])).unwrap());
    assert!(problems().contains("segment 5000: is lent, and does not exist"), "{}", problems());
}

/// Has `work` die at each of its steps, one after the other, each time in a fresh pool that `prepare` changed. What is
/// left must be sound.
fn die_at_each_step(prepare: fn(&Target), work: fn(&Target) -> Result<bool>) {
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

/// The first thousand keys are there, a check finds nothing, and space goes to and fro.
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
    while target.take_back(false).unwrap() {}
    check(pool);
    let lending = target.lending.as_ref().unwrap();
    assert_eq!(target.account(lending).unwrap().credit, 0, "step {step}: lent for nothing");
    let keys = fill(target);
    assert!(keys > 25_000, "step {step}: room for {keys} keys");
    check(pool);
    empty(target, keys);
    while target.take_back(true).unwrap() {}
    check(pool);
}

#[test]
fn who_dies_at_any_step_of_lending_leaves_a_sound_pool() {
    die_at_each_step(|_| {}, |target| target.grow_index(2, true));
}

#[test]
fn who_dies_at_any_step_of_giving_back_leaves_a_sound_pool() {
    let grow = |target: &Target| assert!(target.grow_index(3, true).unwrap());
    die_at_each_step(grow, |target| {
        while target.take_back(true)? {}
        Ok(true)
    });
}

/// What lies where blocks could be is moved; blocks that the index does not use are not touched.
#[test]
fn entries_make_way_for_blocks() {
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
        while target.take_back(false).unwrap() {}
        let lending = target.lending.as_ref().unwrap();
        let idle = target.account(lending).unwrap().idle;
        assert!(idle > 0);
        let blocks = |txn: &crate::index::txn::Txn| -> Vec<_> {
            (0..idle).map(|number| inside(txn, number, lending.block_bytes).unwrap()).collect()
        };
        let before = blocks(&target.index.read().unwrap());
        assert!(target.while_moving(|lending| target.make_way(lending, 1000)).unwrap());
        let txn = target.index.read().unwrap();
        assert_eq!(blocks(&txn), before);
        for number in (0..keys).filter(kept) {
            assert_eq!(txn.get(&key(number)).unwrap(), Some(&[7; 200][..]), "{number}");
        }
        drop(txn);
        check(&pool);
    }
}
