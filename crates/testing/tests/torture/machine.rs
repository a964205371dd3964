//! Restarts of the machine: the state that they leave, and the memory that a process uses.
use crate::common::{self, Folder, PoolKind, Shape, Worker};
use crate::simple;
use esker_testing::{Random, SEED_VARIABLE, scaled, seed};
use esker_types::ErrorKind;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const LENGTHS: [usize; 3] = [50, 1500, 60_000];
const KEYS: u64 = 40;

/// A pool with values of several lengths.
fn filled(folder: &Folder, pool_kind: PoolKind) -> std::path::PathBuf {
    let path = common::make(folder, "pool", pool_kind, Shape::SMALL);
    let pool = common::open(&path);
    let (_container, kv) = simple::kv(&pool, "machine").expect("opening");
    (0..KEYS).for_each(|n| simple::put(&kv, n, LENGTHS[n as usize % 3]).expect("writing"));
    path
}

/// Expects that all values exist, and that the pool accepts another put.
fn expect_filled(path: &Path) {
    let pool = common::open(path);
    let (_container, kv) = simple::kv(&pool, "machine").expect("opening");
    for number in 0..KEYS {
        let there = simple::is_there(&kv, number, LENGTHS[number as usize % 3]).expect("reading");
        assert!(there, "value {number} is missing");
    }
    simple::put(&kv, 1, LENGTHS[1]).expect("writing");
}

/// Makes the control file look like one from before a restart of the machine.
pub(crate) fn restart_machine(path: &Path) {
    let control = File::options().write(true).open(path.join("control")).expect("opening control");
    control.write_all_at(&0x1111_u64.to_ne_bytes(), 8).expect("writing control");
}

#[test]
fn an_unclean_restart_requires_a_check() {
    let folder = Folder::new(PoolKind::Disk);
    let path = filled(&folder, PoolKind::Disk);
    restart_machine(&path);
    let refused = |when: &str| {
        let error = common::try_open(&path).err().unwrap_or_else(|| panic!("opened {when}"));
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.message().contains("check"), "{error}");
    };
    refused("after the restart");
    common::expect_sound(&path, false);
    refused("after a check without repair");
    common::expect_sound(&path, true);
    expect_filled(&path);
    common::expect_clean(&path);
}

#[test]
fn a_durable_pool_opens_without_a_check() {
    let folder = Folder::new(PoolKind::Durable);
    let path = filled(&folder, PoolKind::Durable);
    restart_machine(&path);
    expect_filled(&path);
    common::expect_sound(&path, false);
}

/// Shared atomics from before a restart are ignored and rebuilt from the indexes.
#[test]
fn random_atomics_from_before_a_restart() {
    let (folder, seed) = (Folder::new(PoolKind::Durable), seed());
    let path = filled(&folder, PoolKind::Durable);
    let mut random = Random::new(seed, 7);
    let control = File::options().read(true).write(true).open(path.join("control"));
    let control = control.expect("opening control");
    let len = control.metadata().expect("metadata").len();
    for round in 0..scaled(10) {
        let mut words = random.bytes(len as usize);
        if random.one_in(3) {
            words.fill(if random.one_in(2) { 0 } else { 0xff });
        }
        control.write_all_at(&words, 0).expect("writing control");
        println!("{SEED_VARIABLE}={seed} round {round}");
        let mut worker = Worker::start("machine-use", &path.display().to_string());
        worker.finish();
        common::expect_sound(&path, false);
    }
}

/// Shared atomics overwritten by a stray pointer while the machine runs: opening succeeds or fails, but ends.
#[test]
fn random_atomics_of_this_boot_neither_crash_nor_hang() {
    let (folder, seed) = (Folder::new(PoolKind::Memory), seed());
    let path = filled(&folder, PoolKind::Memory);
    let mut random = Random::new(seed, 8);
    let control = File::options().read(true).write(true).open(path.join("control"));
    let control = control.expect("opening control");
    let mut sound = vec![0; control.metadata().expect("metadata").len() as usize];
    control.read_exact_at(&mut sound, 0).expect("reading control");
    for round in 0..scaled(20) {
        let mut words = sound.clone();
        for _ in 0..random.within(1..200) {
            let at = 16 + 8 * random.below(words.len() as u64 / 8 - 2) as usize;
            let word = if random.one_in(2) { random.draw() } else { random.below(5) << 32 };
            words[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        }
        control.write_all_at(&words, 0).expect("writing control");
        println!("{SEED_VARIABLE}={seed} round {round}");
        let mut worker = Worker::start("machine-open", &path.display().to_string());
        worker.finish_soon();
    }
}

/// Argument: pool. Expects all values to exist.
pub(crate) fn use_pool() {
    expect_filled(Path::new(&common::arguments()[0]));
}

/// Argument: pool. Opens it and reads everything; errors are allowed.
pub(crate) fn open_pool() {
    let Ok(pool) = common::try_open(Path::new(&common::arguments()[0])) else { return };
    let Ok((_container, kv)) = simple::kv(&pool, "machine") else { return };
    for number in 0..KEYS {
        let _ = simple::is_there(&kv, number, LENGTHS[number as usize % 3]);
    }
}

/// Argument: pool. Opens it, and reports the memory this takes.
pub(crate) fn idle() {
    let pool = common::open(Path::new(&common::arguments()[0]));
    let (_container, kv) = simple::kv(&pool, "idle").expect("opening");
    simple::put(&kv, 1, 100_000).expect("writing");
    assert!(simple::is_there(&kv, 1, 100_000).expect("reading"), "the value is missing");
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).expect("RssAnon");
    let kib: u64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number");
    eprintln!("a process with an open pool of 1.5 GiB uses {kib} KiB of private memory");
    assert!(kib < 32 << 10, "{kib} KiB");
}

#[test]
fn an_idle_process_uses_little_memory() {
    let folder = Folder::new(PoolKind::Disk);
    let shape = Shape { targets: 4, segments: 8, segment_bytes: 32 << 20, index_bytes: 128 << 20 };
    let path = common::make(&folder, "pool", PoolKind::Disk, shape);
    Worker::start("machine-idle", &path.display().to_string()).finish();
}
