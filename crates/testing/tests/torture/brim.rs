//! Pools on a full file system, where other files use all space that is not allocated to the pools.
use crate::common::{self, Folder, PoolKind, Watchdog, Worker};
use crate::simple;
use esker::{Kv, Pool};
use esker_store::PoolSpec;
use esker_testing::skip;
use esker_types::ErrorKind;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Sizes of values stored in the index, and of values stored in segments.
const LENGTHS: [usize; 2] = [400, 40_000];

/// Puts values with numbers from `from` on until the pool is full. Returns the first number that did not fit.
fn fill(kv: &Kv, from: u64, len: usize) -> u64 {
    let full = (from..).find_map(|number| Some((number, simple::put(kv, number, len).err()?)));
    let (number, error) = full.expect("the pool never got full");
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    number
}

/// Uses all remaining space of a file system.
fn fill_up(path: &Path) {
    let mut file = File::create(path).expect("making a file");
    for len in [1 << 20, 4096] {
        while file.write_all(&vec![1; len]).is_ok() {}
    }
}

/// Argument: a directory on which this process, in its own namespaces, can mount.
pub(crate) fn run() {
    let mount = PathBuf::from(&common::arguments()[0]);
    let mut mounting = Command::new("mount");
    mounting.args(["-t", "tmpfs", "-o", "size=18m", "none"]).arg(&mount);
    assert!(mounting.status().expect("mount").success(), "mounting");
    let mut spec = PoolSpec::new("pool", 16 << 20);
    spec.targets = Some(1);
    esker_store::Pool::create(&mount, &spec, &mut |_, _| {}).expect("creating a pool");
    let path = mount.join("pool");
    let pool = common::open(&path);
    fill_up(&mount.join("others"));
    for round in 0..3 {
        work(&pool, round);
        std::fs::remove_file(mount.join("others")).expect("making room");
        work(&pool, round);
        fill_up(&mount.join("others"));
    }
    drop(pool);
    common::expect_sound(&path, false);
    common::expect_clean(&path);
}

/// Fills the pool with values in the index and removes them, then with values in segments. Each time nearly all of the
/// pool must be usable, and all values must be readable.
fn work(pool: &Pool, round: u64) {
    let (_container, kv) = simple::kv(pool, "brim").expect("opening");
    for len in LENGTHS {
        let first = (round << 40) + ((len as u64) << 20);
        let end = fill(&kv, first, len);
        let bytes = (end - first) * len as u64;
        assert!(
            bytes > 6 << 20,
            "round {round}: only {bytes} bytes of values of {len} bytes fitted"
        );
        for number in first..end {
            assert!(
                simple::is_there(&kv, number, len).expect("reading"),
                "value {number} is missing"
            );
            simple::remove(&kv, number).expect("removing");
        }
    }
}

/// Runs a command in its own user and mount namespaces, in which every process may mount.
const APART: [&str; 2] = ["unshare", "-Urm"];

#[test]
fn a_pool_on_a_full_file_system_loses_nothing_and_keeps_working() {
    let folder = Folder::new(PoolKind::Memory);
    let mut may = Command::new(APART[0]);
    may.args(&APART[1..]).args(["mount", "-t", "tmpfs", "none"]).arg(folder.path());
    if !may.status().is_ok_and(|status| status.success()) {
        return skip("no file system can be mounted here (unshare -Urm)");
    }
    let _watchdog = Watchdog::new("a full file system".to_owned());
    Worker::start_through(&APART, "brim", &folder.path().display().to_string()).finish();
}
