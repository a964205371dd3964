//! Calls of which exactly one may succeed if many processes make them at the same time.
use super::{DIRECTORY, FILE, TestTree, WORKERS, WorkerContext, expect_error};
use dfs::{Node, RenameMode};
use esker_testing::scaled;
use esker_types::{ErrorKind, Result};
use std::collections::BTreeMap;

/// A kind of race: its name, the call of all workers, and the error of the losers. Arguments of the call are the root,
/// the number of the race, and the worker.
type Race = (&'static str, fn(&Node, u64, u64) -> Result<()>, ErrorKind);

const RACES: [Race; 8] = [
    (
        "create",
        |root, number, _| root.create(&name("c", number), &FILE).map(drop),
        ErrorKind::Exists,
    ),
    (
        "mkdir",
        |root, number, _| root.mkdir(&name("k", number), &DIRECTORY).map(drop),
        ErrorKind::Exists,
    ),
    (
        "symlink",
        |root, number, _| root.symlink(&name("s", number), b"x", &FILE).map(drop),
        ErrorKind::Exists,
    ),
    ("noreplace", rename_own, ErrorKind::Exists),
    ("unlink", |root, number, _| root.unlink(&name("u", number)), ErrorKind::NotFound),
    ("rmdir", |root, number, _| root.rmdir(&name("r", number)), ErrorKind::NotFound),
    ("move", move_away, ErrorKind::NotFound),
    ("move a directory", move_into, ErrorKind::NotFound),
];

fn name(kind: &str, number: u64) -> Vec<u8> {
    format!("{kind}{number}").into_bytes()
}

/// Creates a file for this worker, and tries to rename it to the name that all use.
fn rename_own(root: &Node, number: u64, worker: u64) -> Result<()> {
    let own = format!("own{worker}-{number}").into_bytes();
    root.create(&own, &FILE)?;
    let renamed = root.rename(&own, root, &name("n", number), RenameMode::NoReplace);
    match &renamed {
        Ok(()) => expect_error(root.lookup(&own), &[ErrorKind::NotFound], "the renamed file"),
        Err(_) => root.unlink(&own)?,
    }
    renamed
}

/// Tries to rename a file, which all workers share, to a name of this worker.
fn move_away(root: &Node, number: u64, worker: u64) -> Result<()> {
    let to = format!("m{number}-{worker}").into_bytes();
    root.rename(&name("m", number), root, &to, RenameMode::Replace)
}

/// Tries to move a directory, which all workers share, into the directory of this worker.
fn move_into(root: &Node, number: u64, worker: u64) -> Result<()> {
    let to = root.lookup(&name("home", worker))?;
    root.rename(&name("d", number), &to, &name("d", number), RenameMode::Replace)
}

/// Body of a worker: makes each call of each race once, and notes those that succeeded.
pub(crate) fn race() {
    let mut part = WorkerContext::from_arguments();
    for number in 0..part.rounds {
        for (race, run, lost) in RACES {
            match run(&part.root, number, part.worker) {
                Ok(()) => part.note(&format!("{race} {number}")),
                lose => expect_error(lose, &[lost], race),
            }
        }
    }
}

#[test]
fn exactly_one_call_succeeds() {
    let (test_tree, rounds) = (TestTree::new(), scaled(60));
    let fs = test_tree.mount();
    let root = fs.root();
    for worker in 0..WORKERS {
        root.mkdir(&name("home", worker), &DIRECTORY).expect("a home");
    }
    for number in 0..rounds {
        for file in ["u", "m"] {
            root.create(&name(file, number), &FILE).expect("a file");
        }
        for directory in ["r", "d"] {
            root.mkdir(&name(directory, number), &DIRECTORY).expect("a directory");
        }
    }
    test_tree.run("race", rounds);
    let mut winners: BTreeMap<String, u64> = BTreeMap::new();
    test_tree.all_histories().into_iter().for_each(|won| *winners.entry(won).or_default() += 1);
    for (race, ..) in RACES {
        for number in 0..rounds {
            let won = format!("{race} {number}");
            let count = winners.get(&won).copied().unwrap_or_default();
            assert_eq!(count, 1, "{won} has {count} winners");
        }
    }
    let left = super::names(&root).len() as u64;
    assert_eq!(left, WORKERS + 5 * rounds, "homes, and c, k, s, n and m of every number");
    let homes = (0..WORKERS).map(|worker| root.lookup(&name("home", worker)).expect("a home"));
    assert_eq!(homes.map(|home| super::names(&home).len() as u64).sum::<u64>(), rounds);
}
