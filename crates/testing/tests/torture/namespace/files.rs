//! Many processes that write to one file.
use super::{CHUNK, FILE, TestTree, WORKERS, WorkerContext, read_file};
use crate::common::{self, Worker};
use dfs::{File, Open};
use esker_testing::{Random, pause, scaled};
use std::collections::BTreeSet;

/// Bytes of the header of a record: worker, number and length, 8 bytes each.
const HEAD: usize = 24;

/// A record that no other worker writes.
fn record(worker: u64, number: u64) -> Vec<u8> {
    let mut random = Random::new(worker, number + 1);
    let len = if random.one_in(6) { random.below(3 * CHUNK) } else { random.below(300) };
    let head = [worker, number, len].map(u64::to_le_bytes).concat();
    [head, random.bytes(len as usize)].concat()
}

/// Splits a file into its records, which must be complete. Returns the worker and the number of each.
fn records(data: &[u8]) -> Vec<(u64, u64)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < data.len() {
        let word = |index: usize| {
            let bytes = data.get(at + 8 * index..at + 8 * index + 8);
            u64::from_le_bytes(bytes.expect("a whole head").try_into().expect("8 bytes"))
        };
        let (worker, number) = (word(0), word(1));
        let end = at + HEAD + word(2) as usize;
        let whole = data.get(at..end).unwrap_or_else(|| panic!("truncated record at {at}"));
        assert!(whole == record(worker, number), "record {number} of {worker} at {at} is torn");
        found.push((worker, number));
        at = end;
    }
    found
}

fn shared(part: &WorkerContext) -> File {
    part.root.lookup(b"shared").and_then(|node| node.open(Open::BOTH)).expect("the shared file")
}

/// Note of a process before its first record.
const BEGIN: &str = "begin";
/// Range of the record numbers of one process.
const NUMBERS: u64 = 1 << 32;

/// First record number of this process. A killed process may have appended a record without a note, so no two processes
/// share numbers.
fn first_number(part: &mut WorkerContext) -> u64 {
    let path = super::history_path(common::arguments()[1].as_ref(), part.worker);
    let before = std::fs::read_to_string(path).expect("the history").matches(BEGIN).count();
    part.note(BEGIN);
    before as u64 * NUMBERS
}

/// Body of a worker: appends records to the shared file, and notes the number and the offset of each.
pub(crate) fn append() {
    let mut part = WorkerContext::from_arguments();
    let file = shared(&part);
    let first = first_number(&mut part);
    for number in first..first + part.rounds {
        let offset = file.append(&record(part.worker, number)).expect("appending");
        part.note(&format!("{number} {offset}."));
    }
}

/// Expects that each noted record is in the file once, and that the records of a worker are in order.
fn check_appends(test_tree: &TestTree) {
    let file = test_tree.mount().root().lookup(b"shared").expect("the shared file");
    let found = records(&read_file(&file).expect("reading"));
    let mut distinct = BTreeSet::new();
    let twice: Vec<_> = found.iter().filter(|of| !distinct.insert(**of)).collect();
    assert!(twice.is_empty(), "records that occur twice: {twice:?}");
    for worker in 0..WORKERS {
        let numbers: Vec<_> = found.iter().filter(|of| of.0 == worker).map(|of| of.1).collect();
        assert!(numbers.is_sorted(), "records of {worker} are out of order");
        for line in test_tree.history(worker).iter().filter(|line| *line != BEGIN) {
            let number = line.split(' ').next().and_then(|word| word.parse().ok());
            let number: u64 = number.expect("a number");
            assert!(distinct.contains(&(worker, number)), "record {number} of {worker} is lost");
        }
    }
}

fn tree_with_file() -> TestTree {
    let test_tree = TestTree::new();
    test_tree.mount().root().create(b"shared", &FILE).expect("the shared file");
    test_tree
}

#[test]
fn every_append_is_complete_and_occurs_once() {
    let test_tree = tree_with_file();
    test_tree.run("append", scaled(100));
    check_appends(&test_tree);
}

#[test]
fn appends_of_killed_processes_are_complete_or_missing() {
    let test_tree = tree_with_file();
    let mut random = Random::new(test_tree.seed, 99);
    let start = |worker| test_tree.start("append", worker, 1_000_000);
    let mut workers: Vec<Worker> = (0..WORKERS).map(start).collect();
    // The file grows without limit, but the pool does not.
    for _ in 0..scaled(10).min(40) {
        pause(random.below(100_000));
        let victim = random.below(WORKERS);
        workers[victim as usize].kill();
        workers[victim as usize] = start(victim);
    }
    workers.iter_mut().for_each(Worker::kill);
    check_appends(&test_tree);
}

const STRIPE: u64 = 777;

/// Body of a worker: writes its stripes, which alternate with those of the other workers in the file.
pub(crate) fn stripes() {
    let mut part = WorkerContext::from_arguments();
    let file = shared(&part);
    for number in 0..part.rounds {
        let stripe_number = number * WORKERS + part.worker;
        let data = Random::new(stripe_number, 1).bytes(STRIPE as usize);
        file.write_at(stripe_number * STRIPE, &data).expect("writing");
        part.note(&number.to_string());
    }
}

#[test]
fn writers_of_one_file_do_not_affect_each_other() {
    let (test_tree, rounds) = (tree_with_file(), scaled(150));
    test_tree.run("stripes", rounds);
    let data =
        read_file(&test_tree.mount().root().lookup(b"shared").expect("it")).expect("reading");
    assert_eq!(data.len() as u64, rounds * WORKERS * STRIPE, "the size of the file");
    for (stripe_number, stripe) in (0..).zip(data.chunks(STRIPE as usize)) {
        assert!(
            stripe == Random::new(stripe_number, 1).bytes(STRIPE as usize),
            "stripe {stripe_number} is wrong"
        );
    }
}

/// Body of a worker: repeatedly writes and reads the same bytes of one chunk as all others. No read returns bytes of
/// two writers.
pub(crate) fn overlap() {
    let part = WorkerContext::from_arguments();
    let file = shared(&part);
    for number in 0..part.rounds {
        let word = (number * WORKERS + part.worker + 1).to_le_bytes();
        file.write_at(100, &word.repeat(1500)).expect("writing");
        let mut seen = vec![0; 12_000];
        assert_eq!(file.read_at(100, &mut seen).expect("reading"), seen.len());
        let (first, _) = seen.split_at(8);
        assert!(seen.chunks(8).all(|word| word == first), "a read returned bytes of two writers");
    }
}

#[test]
fn writes_within_a_chunk_are_atomic() {
    tree_with_file().run("overlap", scaled(200));
}

/// Body of a worker: creates a file, removes it at once, and uses it while it is open.
pub(crate) fn removed() {
    let part = WorkerContext::from_arguments();
    for number in 0..part.rounds {
        let name = format!("file{number}").into_bytes();
        let Ok(node) = part.root.create(&name, &dfs::Create { exclusive: false, ..FILE }) else {
            continue;
        };
        let Ok(file) = node.open(Open::BOTH) else { continue };
        let data = Random::new(part.worker, number).bytes(5000);
        let offset = file.append(&data).expect("appending");
        let _ = part.root.unlink(&name);
        let mut seen = vec![0; data.len()];
        assert_eq!(file.read_at(offset, &mut seen).expect("reading"), seen.len(), "file {number}");
        assert!(seen == data, "file {number}: written data is missing while the file is open");
        file.close().expect("closing");
    }
}

#[test]
fn removed_files_live_until_the_last_process_closes_them() {
    let test_tree = TestTree::new();
    test_tree.run("removed", scaled(150));
    assert_eq!(super::names(&test_tree.mount().root()), Vec::<String>::new());
}
