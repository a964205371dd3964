//! Pools on a file system that is full to the brim: others took what the pools did not have.
use crate::common::{self, Folder, Sort, Watchdog, Worker};
use crate::simple;
use esker::{Kv, Pool};
use esker_store::PoolSpec;
use esker_torture::skip;
use esker_types::ErrorKind;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes of small values, which lie in an index, and of large ones.
const LENGTHS: [usize; 2] = [400, 40_000];

/// Puts values until there is no room; returns how many there are.
fn fill(kv: &Kv, from: u64, len: usize) -> u64 {
    let full = (from..).find_map(|number| Some((number, simple::put(kv, number, len).err()?)));
    let (number, error) = full.expect("a pool without end");
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    number
}

/// Takes all that is left of a file system.
fn fill_up(path: &Path) {
    let mut file = File::create(path).expect("making a file");
    for len in [1 << 20, 4096] {
        while file.write_all(&vec![1; len]).is_ok() {}
    }
}

/// Argument: a directory on which this process, in name spaces of its own, may mount.
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

/// Index and data take turns in having nearly all of the pool; nothing is lost.
fn work(pool: &Pool, round: u64) {
    let (_container, kv) = simple::kv(pool, "brim").expect("opening");
    for len in LENGTHS {
        let first = (round << 40) + ((len as u64) << 20);
        let end = fill(&kv, first, len);
        let bytes = (end - first) * len as u64;
        assert!(bytes > 6 << 20, "round {round}: {bytes} bytes of {len} each found room");
        for number in first..end {
            assert!(simple::is_there(&kv, number, len).expect("reading"), "{number} is gone");
            simple::remove(&kv, number).expect("removing");
        }
    }
}

/// In name spaces of its own every process may mount.
const APART: [&str; 2] = ["unshare", "-Urm"];

#[test]
fn a_pool_on_a_full_file_system_loses_nothing_and_goes_on() {
    let folder = Folder::new(Sort::Memory);
    let mut may = Command::new(APART[0]);
    may.args(&APART[1..]).args(["mount", "-t", "tmpfs", "none"]).arg(folder.path());
    if !may.status().is_ok_and(|status| status.success()) {
        return skip("no file system can be mounted here (unshare -Urm)");
    }
    let _watchdog = Watchdog::new("a full file system".to_owned());
    Worker::start_through(&APART, "brim", &folder.path().display().to_string()).finish();
}
