//! Compares the namespace with a reference: random sequences of file operations on a directory in memory and
//! on what is tested, every result, every errno and the final tree compared.
//!
//! `ESKER_SEED` replays a failure, `ESKER_REFERENCE_ROUNDS` sets how many sequences are tried.
mod compare;
mod faulty;
mod handle;
mod namespace;
mod paths;
mod replay;
mod sequence;
mod whole;
mod words;

use compare::{Tree, agree, difference, rounds};
use dfs::NewDfs;
use esker::Pool;
use esker::types::info::OpenMode;
use esker_conformance::place::{self, Place};
use esker_store::PoolSpec;
use faulty::{FAULTS, Faulty};
use replay::Replay;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Chunks small enough that files have many.
const SMALL_CHUNKS: u64 = 4096;

/// A file system in memory, with files of this chunk size.
fn in_memory(name: &str, chunk_size: u64) -> namespace::Namespace {
    let pool = Pool::connect(&format!("memory:{name}"), OpenMode::ReadWrite).expect("a pool");
    namespace::make(pool, "reference", &NewDfs { chunk_size, ..NewDfs::default() })
}

#[test]
fn the_backend_in_memory_agrees() {
    let subject = in_memory("agrees", SMALL_CHUNKS);
    agree(esker_testing::seed(), rounds(100), &Replay::in_memory(), &subject);
}

#[test]
fn a_pool_of_three_targets_agrees() {
    let place = Folder(PathBuf::from(format!("/dev/shm/esker-reference-{}", std::process::id())));
    let mut spec = PoolSpec::new("pool", 256 << 20);
    (spec.targets, spec.segment_bytes) = (Some(3), Some(4 << 20));
    esker_store::Pool::create(&place.0, &spec, &mut |_, _| {}).expect("creating a pool");
    let name = format!("esker:{}", place.0.join("pool").display());
    let pool = Pool::connect(&name, OpenMode::ReadWrite).expect("a pool");
    let new = NewDfs { chunk_size: SMALL_CHUNKS, ..NewDfs::default() };
    let subject = namespace::make(pool, "reference", &new);
    agree(esker_testing::seed(), rounds(60), &Replay::in_memory(), &subject);
}

#[test]
fn a_posix_pool_agrees() {
    let place =
        Folder(PathBuf::from(format!("/dev/shm/esker-reference-files-{}", std::process::id())));
    esker::PosixPool::create(&place.0, false).expect("creating a pool");
    let name = format!("posix:{}", place.0.display());
    let pool = Pool::connect(&name, OpenMode::ReadWrite).expect("a pool");
    let new = NewDfs { chunk_size: SMALL_CHUNKS, ..NewDfs::default() };
    let subject = namespace::make(pool, "reference", &new);
    agree(esker_testing::seed(), rounds(30), &Replay::in_memory(), &subject);
}

/// On the cluster that a variable names: `rados:POOL?conf=FILE`.
#[test]
fn a_pool_on_ceph_agrees() {
    let Ok(url) = std::env::var("ESKER_TEST_RADOS") else {
        return esker_testing::skip(
            "ESKER_TEST_RADOS names no Ceph pool (make ceph-up prints one)",
        );
    };
    let pool = Pool::connect(&url, OpenMode::ReadWrite).expect("a pool");
    let label = format!("reference-{}", std::process::id());
    let new = NewDfs { chunk_size: SMALL_CHUNKS, ..NewDfs::default() };
    let subject = namespace::make(pool.clone(), &label, &new);
    agree(esker_testing::seed(), rounds(5), &Replay::in_memory(), &subject);
    esker::Wait::wait(pool.destroy_container(&label, true)).expect("removing it");
}

/// The pool over nodes that the environment names.
#[test]
fn a_pool_over_nodes_agrees() {
    if place::nodes().is_none() {
        return esker_testing::skip(format_args!(
            "{} names no pool over nodes",
            place::NODES_VARIABLE
        ));
    }
    let place = Place::new("reference");
    let new = NewDfs { chunk_size: SMALL_CHUNKS, ..NewDfs::default() };
    let subject = namespace::make(place.pool(), &place.label, &new);
    agree(esker_testing::seed(), rounds(20), &Replay::in_memory(), &subject);
}

/// A directory that goes with the test.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The tree that the environment names: a mount, or a directory behind the preloaded library.
#[test]
fn the_directory_of_the_environment_agrees_with_memory() {
    match Replay::from_environment() {
        Some(subject) => {
            agree(esker_testing::seed(), rounds(100), &Replay::in_memory(), &subject);
        }
        None => esker_testing::skip("the environment names no directory"),
    }
}

/// A reference that disagrees with itself would prove nothing.
#[test]
fn memory_agrees_with_itself() {
    agree(esker_testing::seed(), rounds(30), &Replay::in_memory(), &Replay::in_memory());
}

/// A comparison that never fails would prove nothing either.
#[test]
fn comparison_notices_each_fault() {
    for fault in FAULTS {
        let noticed = |seed| {
            let sequence = sequence::random(seed, 150);
            Replay::in_memory().replay(&sequence) != Faulty(fault).replay(&sequence)
        };
        assert!((0..200).any(noticed), "{} goes unnoticed", fault.name);
    }
}

#[test]
fn failing_sequence_is_shortened() {
    let mut sequence = sequence::random(esker_testing::seed(), 150);
    let needed = ["open 0 ~/here-only rw+creat 600", "write 0 100 1", "fallocate 0 punch 10 20"];
    sequence.extend(needed.map(str::to_owned));
    sequence.push("pread 0 0 100".to_owned());
    let punch_does_nothing = Faulty(FAULTS[5]);
    let report = difference(&sequence, &Replay::in_memory(), &punch_does_nothing);
    let report = report.expect("a difference");
    assert!(report.matches("reference:").count() <= 12, "not small:\n{report}");
}

/// An operation that always fails, or never does, would test too little.
#[test]
fn each_operation_succeeds_and_fails_in_random_sequences() {
    let mut seen = BTreeMap::new();
    for seed in 0..150 {
        let sequence = sequence::random(seed, 150);
        for (line, result) in sequence.iter().zip(Replay::in_memory().replay(&sequence)) {
            let operation = line.split(' ').next().unwrap_or_default().to_owned();
            let result = match result.strip_prefix("ok") {
                Some(_) => "ok".to_owned(),
                None => result,
            };
            *seen.entry((operation, result)).or_insert(0) += 1;
        }
    }
    println!("{seen:#?}");
    let never_fails = ["tree"];
    let operations: BTreeSet<_> = seen.keys().map(|(operation, _)| operation.clone()).collect();
    for operation in operations {
        let mut results = seen.keys().filter(|(of, _)| *of == operation).map(|(_, result)| result);
        let is_ok = |result: &&String| *result == "ok";
        assert!(results.clone().any(|result| is_ok(&result)), "{operation} never succeeds");
        let fails = results.any(|result| !is_ok(&result));
        assert!(fails || never_fails.contains(&operation.as_str()), "{operation} never fails");
    }
}
