//! Full pools: a clear error, no loss, space for deletions, and free space after them.
use crate::common::{self, Folder, PoolKind, Shape, Watchdog, Worker};
use crate::simple;
use esker::{Kv, Pool, Wait};
use esker_testing::{Random, scaled, seed, wait_for};
use esker_types::ErrorKind;
use std::collections::BTreeSet;
use std::path::Path;

const SHAPE: Shape =
    Shape { targets: 2, segments: 12, segment_bytes: 256 << 10, index_bytes: 1 << 20 };

/// Puts values with numbers from `from` on until the pool is full. Returns the first number that did not fit.
fn fill(kv: &Kv, from: u64, len: usize) -> u64 {
    for number in from.. {
        if let Err(error) = simple::put(kv, number, len) {
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
            return number;
        }
    }
    unreachable!("the pool never got full")
}

fn expect_all(kv: &Kv, numbers: impl Iterator<Item = u64>, len: usize) {
    for number in numbers {
        assert!(simple::is_there(kv, number, len).expect("reading"), "value {number} is missing");
    }
}

/// Number of adjacent keys that are deleted together.
const RUN: u64 = 40;

/// Fills the pool, deletes half, fills again, and deletes all: freed space must be usable each time. With `held`, there
/// is a snapshot from before the first value.
fn full_and_back(pool_kind: PoolKind, len: usize, held: bool) {
    let folder = Folder::new(pool_kind);
    let _watchdog = Watchdog::new(format!("filling {pool_kind:?} with values of {len}"));
    let path = common::make(&folder, "pool", pool_kind, SHAPE);
    let pool = common::open(&path);
    let (container, kv) = simple::kv(&pool, "full").expect("opening");
    let snapshot =
        if held { Some(container.create_snapshot("held").wait().expect("one")) } else { None };
    let count = fill(&kv, 0, len);
    assert!(count > 50, "only {count} values of {len}");
    expect_all(&kv, 0..count, len);
    let mut there: BTreeSet<u64> = (0..count).collect();
    let delete = |there: &mut BTreeSet<u64>, gone: &dyn Fn(u64) -> bool| {
        there.iter().filter(|n| gone(**n)).for_each(|n| simple::remove(&kv, *n).expect("deleting"));
        there.retain(|number| !gone(*number));
        expect_all(&kv, there.iter().copied(), len);
    };
    // Every second one: new values of the same keys fit on the pages of the deleted ones.
    delete(&mut there, &|number| number.is_multiple_of(2));
    let back = (0..count).step_by(2).filter(|number| simple::put(&kv, *number, len).is_ok());
    let back: Vec<_> = back.collect();
    assert!(back.len() as u64 > count / 4, "{count} values, half deleted, {} put back", back.len());
    there.extend(back);
    // Adjacent keys: whole pages of the index become free, for any keys.
    delete(&mut there, &|number| (number / RUN).is_multiple_of(2));
    let again = fill(&kv, count, len);
    assert!(again - count > count / 5, "{count} values, half deleted, {} new", again - count);
    there.extend(count..again);
    delete(&mut there, &|_| false);
    if let Some(epoch) = snapshot {
        container.destroy_snapshot(epoch).wait().expect("destroying the snapshot");
    }
    (0..again).for_each(|number| simple::remove(&kv, number).expect("deleting"));
    assert!(fill(&kv, 0, len) * 10 >= count * 9, "space is leaked");
    drop((container, kv, pool));
    common::expect_sound(&path, false);
    common::expect_clean(&path);
}

#[test]
fn an_index_full_of_small_values() {
    full_and_back(PoolKind::Memory, 500, false);
    full_and_back(PoolKind::Disk, 500, false);
}

#[test]
fn segments_full_of_large_values() {
    full_and_back(PoolKind::Memory, 20_000, false);
    full_and_back(PoolKind::Disk, 20_000, false);
}

#[test]
fn full_with_a_snapshot_that_keeps_nothing() {
    full_and_back(PoolKind::Memory, 500, true);
    full_and_back(PoolKind::Memory, 20_000, true);
}

/// Arguments: pool, file to append to. Keeps a read transaction open until it is killed.
pub(crate) fn hold_view() {
    let arguments = common::arguments();
    let pool = esker_store::Pool::open(Path::new(&arguments[0])).expect("opening");
    let state = pool.opened().expect("state");
    let _ = state.scrub(&mut |_, _| {
        std::fs::write(&arguments[1], b".").expect("signalling");
        loop {
            std::thread::park();
        }
    });
}

#[test]
fn a_full_pool_with_a_long_running_reader() {
    for len in [500, 20_000] {
        let folder = Folder::new(PoolKind::Memory);
        let _watchdog = Watchdog::new("a long-running reader".to_owned());
        let path = common::make(&folder, "pool", PoolKind::Memory, Shape { targets: 1, ..SHAPE });
        let pool = common::open(&path);
        let (_container, kv) = simple::kv(&pool, "full").expect("opening");
        let count = fill(&kv, 0, len);
        let signal = folder.path().join("signal");
        let arguments = format!("{} {}", path.display(), signal.display());
        let mut holder = Worker::start("space-hold", &arguments);
        holder.wait_until("a read transaction is open", || signal.exists());
        // Some space is reserved for deletions, regardless of the pages that readers hold back.
        let deleted = (0..count).take_while(|number| simple::remove(&kv, *number).is_ok()).count();
        assert!(deleted >= 5, "with a long-running reader only {deleted} could be deleted");
        holder.kill();
        (0..count).for_each(|number| simple::remove(&kv, number).expect("deleting"));
        assert!(fill(&kv, 0, len) * 10 >= count * 9, "space is leaked");
        drop((_container, kv, pool));
        common::expect_sound(&path, false);
    }
}

/// Arguments: pool, file to create, file to wait for. Keeps a read transaction open until the latter exists.
pub(crate) fn pause_view() {
    let arguments = common::arguments();
    let pool = esker_store::Pool::open(Path::new(&arguments[0])).expect("opening");
    let mut is_first = true;
    let pause = &mut |_, _| {
        if std::mem::take(&mut is_first) {
            std::fs::write(&arguments[1], b".").expect("signalling");
            wait_for("the reader may go on", || Path::new(&arguments[2]).exists());
        }
    };
    pool.opened().expect("state").scrub(pause).expect("reading");
}

/// Fills a pool of 64 MiB after `before` values of 64 bytes, while a reader is stopped. Some values can still be
/// removed, and nothing is lost. After the reader has ended, all space is usable again.
fn fill_beside_stopped_reader(is_buffered: bool, before: u64) {
    const LEN: usize = 64;
    let folder = Folder::new(PoolKind::Memory);
    let _watchdog = Watchdog::new("a stopped reader".to_owned());
    let mut spec = esker_store::PoolSpec::new("pool", 64 << 20);
    (spec.targets, spec.write_buffer) = (Some(1), Some(is_buffered));
    esker_store::Pool::create(folder.path(), &spec, &mut |_, _| {}).expect("creating a pool");
    let path = folder.path().join("pool");
    let pool = common::open(&path);
    let (_container, kv) = simple::kv(&pool, "beside").expect("opening");
    (0..before).for_each(|number| simple::put(&kv, number, LEN).expect("filling"));
    let (signal, go_on) = (folder.path().join("signal"), folder.path().join("go-on"));
    let arguments = format!("{} {} {}", path.display(), signal.display(), go_on.display());
    let mut reader = Worker::start("space-pause", &arguments);
    reader.wait_until("a read transaction is open", || signal.exists());
    reader.signal(libc::SIGSTOP);

    let end = fill(&kv, before, LEN);
    eprintln!("buffer: {is_buffered}, after {before} values: {} fit", end - before);
    assert!(simple::put(&kv, end, LEN).is_err(), "there is unexpected space");
    let removed = (0..end).take_while(|number| simple::remove(&kv, *number).is_ok()).count() as u64;
    eprintln!("{removed} could be removed");
    assert!(removed >= 5, "beside a stopped reader, only {removed} could be removed");
    expect_all(&kv, removed..end, LEN);

    std::fs::write(&go_on, b".").expect("signalling");
    reader.signal(libc::SIGCONT);
    reader.finish_soon();
    (0..removed).for_each(|number| simple::put(&kv, number, LEN).expect("putting again"));
    (end..end + 5000).for_each(|number| simple::put(&kv, number, LEN).expect("putting more"));
    expect_all(&kv, 0..end + 5000, LEN);
    (0..end + 5000).for_each(|number| simple::remove(&kv, number).expect("removing"));
    let large = fill(&kv, 0, 20_000) * 20_000;
    assert!(large > 40 << 20, "only {large} bytes of data fitted afterwards");
    drop((_container, kv, pool));
    common::expect_sound(&path, false);
}

#[test]
fn full_beside_a_stopped_reader() {
    for is_buffered in [false, true] {
        fill_beside_stopped_reader(is_buffered, 0);
        fill_beside_stopped_reader(is_buffered, 20_000);
    }
}

/// Bytes of data that a pool can hold.
fn capacity(pool: &Pool) -> u64 {
    pool.info().wait().expect("info").targets.iter().map(|target| target.data_total).sum()
}

/// A pool accepts overwrites of ten times its capacity.
#[test]
fn overwriting_forever() {
    let (folder, seed) = (Folder::new(PoolKind::Memory), seed());
    let _watchdog = Watchdog::new("overwriting".to_owned());
    let path = common::make(&folder, "pool", PoolKind::Memory, SHAPE);
    let pool = common::open(&path);
    let (_container, kv) = simple::kv(&pool, "over").expect("opening");
    let mut random = Random::new(seed, 30);
    let (keys, len) = (100, 20_000);
    let mut written = 0;
    while written < scaled(10) * capacity(&pool) {
        simple::put(&kv, random.below(keys), len).expect("overwriting");
        written += len as u64;
    }
    drop((_container, kv, pool));
    common::expect_sound(&path, false);
}

/// Long-lived values are stored among short-lived ones. No segment ever becomes completely dead, so only compaction
/// frees space for the last third.
#[test]
fn lifetimes_that_need_compaction() {
    for pool_kind in [PoolKind::Memory, PoolKind::Durable] {
        let folder = Folder::new(pool_kind);
        let path = common::make(&folder, "pool", pool_kind, SHAPE);
        let pool = common::open(&path);
        let (_container, kv) = simple::kv(&pool, "mixed").expect("opening");
        let (len, total) = (8000, capacity(&pool));
        let kept = total * 7 / 10 / len as u64;
        for number in 0..kept {
            simple::put(&kv, number, len).expect("writing a long-lived value");
            simple::put(&kv, (1 << 40) | (number % 16), len).expect("writing a short-lived value");
        }
        expect_all(&kv, 0..kept, len);
        drop((_container, kv, pool));
        common::expect_sound(&path, false);
        common::expect_clean(&path);
    }
}

/// Body of a process that writes a little, and then idles with half-full segments. Arguments: pool, number of the
/// process, file to create when it idles.
pub(crate) fn idle() {
    let arguments = common::arguments();
    let pool = common::open(Path::new(&arguments[0]));
    let number: u64 = arguments[1].parse().expect("a number");
    let (_container, kv) = simple::kv(&pool, "idle").expect("opening");
    for step in 0..20 {
        simple::put(&kv, number * 100 + step % 3, 9000).expect("writing");
    }
    std::fs::write(&arguments[2], b".").expect("signalling");
    loop {
        std::thread::park();
    }
}

#[test]
fn idle_processes_do_not_starve_others() {
    let folder = Folder::new(PoolKind::Memory);
    let _watchdog = Watchdog::new("idle processes".to_owned());
    let path = common::make(&folder, "pool", PoolKind::Memory, SHAPE);
    drop(common::open(&path));
    let mut workers = Vec::new();
    for number in 0..16 {
        let signal = folder.path().join(format!("signal-{number}"));
        let arguments = format!("{} {number} {}", path.display(), signal.display());
        let mut worker = Worker::start("space-idle", &arguments);
        worker.wait_until("an idle process is ready", || signal.exists());
        workers.push(worker);
    }
    let pool = common::open(&path);
    let (_container, kv) = simple::kv(&pool, "busy").expect("opening");
    let (len, room) = (20_000, capacity(&pool) * 11 / 20);
    for number in 0..room / len as u64 {
        simple::put(&kv, number, len).expect("writing while other processes are idle");
    }
    let (_idle, theirs) = simple::kv(&pool, "idle").expect("opening");
    for number in 0..16 {
        expect_all(&theirs, (0..3).map(|step| number * 100 + step), 9000);
    }
}

/// Pools with the default layout, a quarter of their data live, overwritten by several threads.
#[test]
fn small_pools_are_overwritten_forever() {
    for (mib, targets) in [(24, 2), (32, 2), (64, 2), (128, 2), (144, 2), (512, 8)] {
        let folder = Folder::new(PoolKind::Memory);
        let _watchdog = Watchdog::new(format!("overwriting {mib} MiB"));
        let mut spec = esker_store::PoolSpec::new("pool", mib << 20);
        spec.targets = Some(targets);
        esker_store::Pool::create(folder.path(), &spec, &mut |_, _| {}).expect("creating a pool");
        let pool = common::open(&folder.path().join("pool"));
        let (_container, kv) = simple::kv(&pool, "over").expect("opening");
        let (len, threads) = (64 << 10, 4);
        let keys = capacity(&pool) / 4 / threads / len;
        let puts = scaled(2 * capacity(&pool) / threads / len);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (kv, mut random) = (&kv, Random::new(thread, mib));
                scope.spawn(move || {
                    for _ in 0..puts {
                        let key = thread * keys + random.below(keys);
                        simple::put(kv, key, len as usize).expect("overwriting");
                    }
                });
            }
        });
        drop((_container, kv, pool));
        common::expect_sound(&folder.path().join("pool"), false);
    }
}
