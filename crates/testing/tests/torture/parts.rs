//! A pool over two nodes whose clients are killed in the middle of commits. Each commit is visible on both nodes or on
//! none, snapshots are consistent, and no target stays in doubt and no space is lost.
use crate::common::{self, Folder, PoolKind, Shape, Watchdog, Worker};
use esker::Native;
use esker_conformance::parts::Parts;
use esker_testing::{Random, pause, scaled, seed};
use esker_types::info::{OpenMode, Part};
use esker_types::ops::{ReadAt, View};
use esker_types::{Epoch, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of accounts on each node, and the initial balance of each account on node 0.
const ACCOUNTS: u64 = 4;
const BALANCE: u64 = 1000;

/// Number of concurrent clients.
const CLIENTS: u64 = 3;

/// Key under which a client counts its commits. It follows those of the accounts.
fn mark(client: u64) -> u64 {
    ACCOUNTS + client
}

/// Opens the pools of both nodes as the client `origin`, a number that no other client has.
fn open(folder: &Path, origin: u64) -> Parts {
    let pool = |node: u32| {
        let path = folder.join(format!("part{node}"));
        Arc::new(Native::open(&path, OpenMode::ReadWrite).expect("opening"))
    };
    Parts::open(vec![pool(0), pool(1)], origin).expect("opening the container")
}

fn latest(parts: &Parts, node: usize, number: u64) -> u64 {
    parts.get(node, number, ReadAt::LATEST).expect("reading")
}

/// Body of a client. Arguments: folder, number of the client, seed, file with the number of its last answered commit,
/// number of commits.
pub(crate) fn run() {
    let arguments = common::arguments();
    let [folder, client, seed, answered, count] = &arguments[..] else { panic!("five arguments") };
    let number = |text: &String| text.parse::<u64>().expect("a number");
    let (client, seed, count) = (number(client), number(seed), number(count));
    let parts = open(Path::new(folder), u64::from(std::process::id()) << 32 | seed);
    let mut random = Random::new(seed, client);
    let mut done = latest(&parts, 0, mark(client));
    while done < count {
        let accounts = [random.below(ACCOUNTS), random.below(ACCOUNTS)];
        parts
            .transfer(accounts, random.below(BALANCE), (mark(client), done + 1))
            .expect("a commit");
        done += 1;
        note(Path::new(answered), done);
        if random.below(8) == 0 {
            check_snapshot(&parts).expect("a snapshot");
        }
    }
}

/// Stores the number of the last answered commit, atomically by a rename: the client may be killed at any time.
fn note(answered: &Path, number: u64) {
    let next = answered.with_extension(std::process::id().to_string());
    std::fs::write(&next, number.to_string()).expect("noting");
    std::fs::rename(&next, answered).expect("noting");
}

fn last_answered(file: &Path) -> u64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.parse().unwrap_or_default()
}

/// Expects that the sum of all accounts is unchanged, and that each client has the same count on both nodes.
fn expect_consistent(parts: &Parts, at: ReadAt<'_>) -> Result<()> {
    let read = |node: usize, number| parts.get(node, number, at);
    let mut sum = 0;
    for number in 0..ACCOUNTS {
        sum += read(0, number)? + read(1, number)?;
    }
    assert_eq!(sum, ACCOUNTS * BALANCE);
    for client in 0..CLIENTS {
        assert_eq!(read(0, mark(client))?, read(1, mark(client))?, "client {client}");
    }
    Ok(())
}

/// Takes a snapshot of both nodes, expects that it is consistent, and destroys it and earlier ones.
fn check_snapshot(parts: &Parts) -> Result<()> {
    let epoch = parts.snapshot("moment")?;
    let seen = expect_consistent(parts, ReadAt { view: View::Snapshot(epoch), tokens: None });
    match seen {
        // Another client has removed the snapshot.
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        seen => seen?,
    }
    clear_before(parts, epoch)
}

/// Destroys earlier snapshots, which clients left behind when they were killed.
fn clear_before(parts: &Parts, epoch: Epoch) -> Result<()> {
    for node in [0, 1] {
        let container = parts.container(node);
        let snapshots = parts.resolved(node, || container.list_snapshots().wait())?;
        for snapshot in snapshots.iter().filter(|snapshot| snapshot.epoch <= epoch) {
            match parts.resolved(node, || container.destroy_snapshot(snapshot.epoch).wait()) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

fn make_parts(folder: &Folder, pool_kind: PoolKind) -> [PathBuf; 2] {
    [0, 1].map(|node| {
        let part = Part { node, nodes: 2 };
        common::make_part(folder, &format!("part{node}"), pool_kind, Shape::SMALL, part)
    })
}

/// Kills and replaces clients until each has made `count` commits, then checks both nodes.
fn once(pool_kind: PoolKind, count: u64) {
    let mut random = Random::new(seed(), 77 + pool_kind as u64);
    let folder = Folder::new(pool_kind);
    let _watchdog = Watchdog::new(format!("commits over two parts on {pool_kind:?}"));
    let paths = make_parts(&folder, pool_kind);
    {
        let parts = open(folder.path(), 0);
        for number in 0..ACCOUNTS {
            parts.put(0, number, BALANCE).expect("writing");
        }
    }
    let answered = |client| folder.path().join(format!("answered-{client}"));
    let mut start = |client: u64| {
        let seed = u32::try_from(random.below(1 << 31)).expect("a seed");
        let (folder, answered) = (folder.path().display(), answered(client));
        let answered = answered.display();
        Worker::start("parts", &format!("{folder} {client} {seed} {answered} {count}"))
    };
    let mut clients: Vec<Worker> = (0..CLIENTS).map(&mut start).collect();
    let mut moments = Random::new(seed(), 78 + pool_kind as u64);
    while (0..CLIENTS).any(|client| last_answered(&answered(client)) < count) {
        pause(moments.below(120_000));
        let client = moments.below(CLIENTS);
        replace(&mut clients[client as usize], || start(client));
    }
    clients.iter_mut().for_each(Worker::finish_soon);
    let parts = open(folder.path(), 1);
    expect_consistent(&parts, ReadAt::LATEST).expect("reading");
    for client in 0..CLIENTS {
        assert_eq!(latest(&parts, 0, mark(client)), count, "client {client}");
    }
    check_snapshot(&parts).expect("a snapshot");
    for (node, path) in paths.iter().enumerate() {
        assert_eq!(parts.pool(node).prepared().wait().expect("asking"), []);
        common::expect_sound(path, false);
        common::expect_clean(path);
    }
}

/// Starts a client in place of another one, which is killed if it still runs.
fn replace(client: &mut Worker, start: impl FnOnce() -> Worker) {
    match client.0.try_wait().expect("polling a client") {
        None => client.kill(),
        Some(status) => assert!(status.success(), "a client failed: {status}"),
    }
    *client = start();
}

#[test]
fn commits_over_two_nodes_are_atomic_if_clients_are_killed() {
    once(PoolKind::Memory, scaled(150));
    once(PoolKind::Guarded, scaled(80));
}
