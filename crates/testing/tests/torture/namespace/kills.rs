//! Processes that run all operations in one small tree and are killed at any time. The tree must stay consistent.
use super::{CHUNK, DIRECTORY, FILE, TestTree, WORKERS, WorkerContext};
use crate::common::{self, Worker};
use dfs::{Create, Dfs, Follow, Kind, Node, Open, RenameMode, SetAttr, XattrMode};
use esker_testing::{Random, pause, scaled};
use esker_types::{ErrorKind, Result};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Errors that concurrent processes may cause; any other error is a failure.
const EXPECTED: [ErrorKind; 7] = [
    ErrorKind::NotFound,
    ErrorKind::Exists,
    ErrorKind::NotDirectory,
    ErrorKind::IsDirectory,
    ErrorKind::NotEmpty,
    ErrorKind::Invalid,
    ErrorKind::Loop,
];

/// Body of a worker: performs random operations in a small tree until it is killed.
pub(crate) fn mix() {
    let mut part = WorkerContext::from_arguments();
    for step in 0..part.rounds {
        let random = &mut part.random;
        let done = step_in(&part.fs, random);
        if let Err(error) = done {
            let known = EXPECTED.contains(&error.kind());
            assert!(known, "worker {}, step {step}: {error} ({:?})", part.worker, error.kind());
        }
    }
}

/// A random path of one to three names.
fn path(random: &mut Random) -> Vec<u8> {
    let depth = 1 + random.below(3);
    let names: Vec<_> = (0..depth).map(|_| NAMES[random.below(5) as usize]).collect();
    format!("/{}", names.join("/")).into_bytes()
}

/// Performs a random operation.
fn step_in(fs: &Dfs, random: &mut Random) -> Result<()> {
    let (path, other) = (path(random), path(random));
    let root = fs.root();
    let (dir, name) = fs.resolve_parent(&root, &path)?;
    match random.below(12) {
        0..=1 => dir.mkdir(name, &DIRECTORY).map(drop),
        2..=4 => write(&dir, name, random),
        5..=6 => {
            let (to, new_name) = fs.resolve_parent(&root, &other)?;
            let modes = [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange];
            dir.rename(name, &to, new_name, modes[random.below(3) as usize])
        }
        7 => dir.unlink(name),
        8 => dir.rmdir(name),
        9 => dir.symlink(name, &other, &FILE).map(drop),
        10 => {
            let node = fs.resolve(&root, &path, Follow::All)?;
            node.set_xattr(b"user.x", &random.bytes(100), XattrMode::Any)?;
            node.set_attr(&SetAttr { mode: Some(0o700), ..SetAttr::default() }).map(drop)
        }
        _ => dir.remove_tree(name).map(drop),
    }
}

/// Opens or creates a file, and changes its content.
fn write(dir: &Node, name: &[u8], random: &mut Random) -> Result<()> {
    let node = dir.create(name, &Create { exclusive: random.one_in(3), ..FILE })?;
    let file = node.open(Open { truncate: random.one_in(4), ..Open::BOTH })?;
    let data = random.bytes(random.clone().below(2 * CHUNK) as usize);
    match random.below(4) {
        0 => file.append(&data).map(drop),
        1 => file.set_len(random.below(5 * CHUNK)),
        2 => file.punch(random.below(CHUNK), 1 + random.below(2 * CHUNK)),
        _ => file.write_at(random.below(3 * CHUNK), &data).map(drop),
    }?;
    file.close()
}

/// Expects that every listed entry exists and is readable.
fn read_everything(dir: &Node) {
    for name in super::names(dir) {
        let node = dir.lookup(name.as_bytes()).expect("a listed entry");
        match node.kind() {
            Kind::Directory => read_everything(&node),
            Kind::Symlink => drop(node.read_link().expect("a link's target")),
            Kind::File => {
                let data = super::read_file(&node).expect("a file's data");
                assert_eq!(data.len() as u64, node.attr().expect("attributes").size);
            }
        }
    }
}

#[test]
fn trees_are_consistent_after_kills() {
    let test_tree = TestTree::new();
    let mut random = Random::new(test_tree.seed, 77);
    // Each process has its own seed, so that a restarted one does not repeat the same operations.
    let start = |number: u64| test_tree.start("mix", number, 1_000_000);
    let mut workers: Vec<Worker> = (0..WORKERS).map(start).collect();
    for number in 0..scaled(25) {
        pause(random.below(80_000));
        let victim = random.below(WORKERS) as usize;
        workers[victim].kill();
        workers[victim] = start(WORKERS + number);
    }
    workers.iter_mut().for_each(Worker::kill);
    let fs = test_tree.mount();
    read_everything(&fs.root());
    for name in super::names(&fs.root()) {
        fs.root().remove_tree(name.as_bytes()).expect("removing the tree");
    }
    drop(fs);
    common::expect_sound(&test_tree.pool, false);
    common::expect_clean(&test_tree.pool);
}
