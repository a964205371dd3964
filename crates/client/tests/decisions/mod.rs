//! Sweeps of commit decisions. All clients die between commit and forget: the engines of these pools remove no decision
//! by themselves, and store few.
use super::{NO_TIMEOUTS, NODES, RUNTIME, one_on_each, open_new, served};
use esker::backend::memory::Memory;
use esker::types::ErrorKind;
use esker::types::info::{ContainerRef, OpenMode, Part};
use esker::types::ops::{Change, Commit, CommitId, Cond, Outcome, Preparation};
use esker::types::{Epoch, Result, Uuid};
use esker::{Access, Container, Kv, Wait};
use esker_backend::{Pool, Reply};
use esker_conformance::between::{Interceptor, PoolBetween};
use esker_conformance::faulty::{Fault, Faulty};
use esker_nodes::{Map, Node, ShardedPool};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Commit decisions that a node stores.
const KEPT: usize = 4;

/// The memory of the nodes, and the map of a pool on it. The last node is served by `last`.
fn forgetful(last: &Runtime) -> (Vec<Memory>, Map) {
    let part = |node| Memory::part(2, Part { node, nodes: NODES }).with_decisions_max(KEPT);
    served_by((0..NODES).map(part).collect(), last, never_forgets)
}

/// Serves the pools that `pool` makes of the nodes' memory. The last node runs in the runtime `last`, which a test may
/// end.
fn served_by(
    parts: Vec<Memory>,
    last: &Runtime,
    pool: impl Fn(&Memory) -> Arc<dyn Pool>,
) -> (Vec<Memory>, Map) {
    let node = |(number, memory): (u32, &Memory)| {
        let runtime = if number + 1 == NODES { last } else { &RUNTIME };
        let uuid = Uuid([number as u8 + 1; 16]);
        let address = served::serve("127.0.0.1:0", pool(memory), uuid, runtime);
        Node { name: format!("n{number}"), address, uuid, directory: "/".into() }
    };
    let nodes = (0..).zip(&parts).map(node).collect();
    let map = Map::new("forgetful", Uuid([9; 16]), served::secret(), 2, nodes);
    (parts, map)
}

/// A pool that ignores requests to remove a commit decision, as if its clients died before sending them.
fn never_forgets(memory: &Memory) -> Arc<dyn Pool> {
    Arc::new(Faulty::on(Arc::new(memory.clone()), Fault::NeverForgets))
}

/// Sets a key on the first two nodes.
fn put(container: &Container, kvs: &[Kv], value: u64) -> Result<()> {
    let transaction = container.transaction()?;
    for kv in &kvs[..2] {
        kv.put(b"key", &value.to_le_bytes(), Cond::NONE, Access::Tx(&transaction)).wait()?;
    }
    transaction.commit().wait().map(drop)
}

/// Prepares an empty change on a node.
fn prepare(part: &Memory, container: Uuid, commit: Commit) -> Result<Epoch> {
    let opened = part.open_container(ContainerRef::Uuid(container), OpenMode::ReadWrite).wait()?;
    opened.prepare(commit, Preparation::Change(Change::from_writes(&[]))).wait()
}

/// Commits an empty change with all messages but the reply to the first commit.
fn commit_without_reply(parts: &[Memory], container: Uuid) -> (Commit, Epoch) {
    let commit = Commit { id: CommitId::new(Epoch(0), Uuid([5; 16])), coordinator: 0 };
    let prepared = parts.iter().map(|part| prepare(part, container, commit).expect("prepared"));
    let epoch = prepared.max().expect("an epoch");
    for part in parts {
        part.commit(commit, epoch).wait().expect("committed");
    }
    (commit, epoch)
}

#[test]
fn decisions_of_dead_clients_are_swept() {
    let (parts, map) = forgetful(&RUNTIME);
    let (_pool, container) = open_new(&map, NO_TIMEOUTS);
    let kvs = one_on_each(&container);
    let (lost, epoch) = commit_without_reply(&parts[..2], container.info().uuid);
    assert_eq!(parts[0].outcome(lost, true).wait().expect("asked"), Outcome::Committed(epoch));
    let count = 5 * KEPT as u64;
    for value in 0..count {
        put(&container, &kvs, value).expect("a commit");
        let kept = parts[0].decisions(100).wait().expect("asked").oldest.len();
        assert!(kept <= KEPT, "{kept} decisions");
    }
    assert!(parts[0].swept_decisions() >= count + 1 - KEPT as u64);
    for kv in &kvs[..2] {
        let value = kv.get(b"key", Access::Latest).wait().expect("a get");
        assert_eq!(value.as_deref(), Some(&(count - 1).to_le_bytes()[..]));
    }
    // The client of the first commit comes back: it must not conclude that the commit had no effect.
    let unknown = parts[0].commit(lost, epoch).wait().expect_err("swept");
    assert_eq!(unknown.kind(), ErrorKind::TxUncertain, "{unknown}");
    assert_eq!(parts[0].outcome(lost, true).wait().expect("asked"), Outcome::Unknown);
    // A client without a known clock is accepted nevertheless.
    let backend = ShardedPool::open_with(&map, Path::new("none.map"), Vec::new(), NO_TIMEOUTS);
    let pool = esker::Pool::from_backend(Arc::new(backend.expect("open")), OpenMode::ReadWrite);
    let another = pool.open_container("c", OpenMode::ReadWrite).wait().expect("the container");
    put(&another, &one_on_each(&another), 7).expect("a commit");
}

/// The client learns that its commit was aborted. Then copies of its messages arrive.
#[test]
fn late_copies_of_an_aborted_commit_have_no_effect() {
    let parts = (0..NODES).map(|node| Memory::part(2, Part { node, nodes: NODES }));
    let (parts, map) = served_by(parts.collect(), &RUNTIME, |part| Arc::new(part.clone()));
    let (_pool, container) = open_new(&map, NO_TIMEOUTS);
    let kvs = one_on_each(&container);
    let is_over = AtomicBool::new(false);
    let aborted = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut aborted = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                for commit in parts[0].prepared().wait().expect("asked") {
                    parts[0].outcome(commit, true).wait().expect("aborted");
                    aborted.push(commit);
                }
            }
            aborted
        });
        let is_aborted =
            || put(&container, &kvs, 1).is_err_and(|error| error.kind() == ErrorKind::TxRestart);
        esker_testing::wait_for("a commit is aborted", is_aborted);
        is_over.store(true, Ordering::Relaxed);
        other.join().expect("no panic")
    });
    let last = *aborted.last().expect("an aborted commit");
    let late = prepare(&parts[0], container.info().uuid, last);
    assert_eq!(late.map_err(|error| error.kind()), Err(ErrorKind::TxRestart));
    let late = parts[0].commit(last, Epoch(1 << 60)).wait().expect_err("it was aborted");
    assert_eq!(late.kind(), ErrorKind::TxRestart);
}

/// Answers one call as if another client had aborted the commit that it is about.
#[derive(Default)]
struct AbortsOnce(AtomicBool);

impl Interceptor for AbortsOnce {
    fn pass<'a, T: Send + Unpin + 'a>(
        &'a self,
        call: impl FnOnce() -> Reply<'a, T> + Send + 'a,
    ) -> Reply<'a, T> {
        match self.0.swap(false, Ordering::Relaxed) {
            true => Reply::Ready(Err(ErrorKind::TxRestart.into())),
            false => call(),
        }
    }
}

#[test]
fn snapshot_that_another_client_aborts_is_taken_again() {
    let parts = (0..NODES).map(|node| Memory::part(2, Part { node, nodes: NODES }));
    let aborts = Arc::new(AbortsOnce::default());
    let (parts, map) = served_by(parts.collect(), &RUNTIME, |part| {
        Arc::new(PoolBetween::before(Arc::new(part.clone()), &aborts))
    });
    let (_pool, container) = open_new(&map, NO_TIMEOUTS);
    aborts.0.store(true, Ordering::Relaxed);
    let epoch = container.create_snapshot("s").wait().expect("a snapshot");
    assert!(!aborts.0.load(Ordering::Relaxed), "a commit was aborted");
    let snapshots = container.snapshots().wait().expect("a list");
    assert_eq!(snapshots.iter().map(|found| found.epoch).collect::<Vec<_>>(), [epoch]);
    assert!(parts.iter().all(|part| part.prepared().wait().expect("asked").is_empty()));
}

/// Answers one call after a number of calls as if the pool were full.
struct FullOnce(AtomicI64);

impl Interceptor for FullOnce {
    fn pass<'a, T: Send + Unpin + 'a>(
        &'a self,
        call: impl FnOnce() -> Reply<'a, T> + Send + 'a,
    ) -> Reply<'a, T> {
        match self.0.fetch_sub(1, Ordering::Relaxed) {
            0 => Reply::Ready(Err(ErrorKind::NoSpace.into())),
            _ => call(),
        }
    }
}

#[test]
fn commit_that_a_full_coordinator_refuses_fails_for_that_reason() {
    let parts = (0..NODES).map(|node| Memory::part(2, Part { node, nodes: NODES }));
    let full = Arc::new(FullOnce(AtomicI64::new(i64::MAX)));
    let (parts, map) = served_by(parts.collect(), &RUNTIME, |part| {
        Arc::new(PoolBetween::before(Arc::new(part.clone()), &full))
    });
    let (_pool, container) = open_new(&map, NO_TIMEOUTS);
    let kvs = one_on_each(&container);
    put(&container, &kvs, 1).expect("a commit");
    // Both nodes prepare before the coordinator commits.
    full.0.store(2, Ordering::Relaxed);
    let refused = put(&container, &kvs, 2).expect_err("the coordinator is full");
    assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
    assert!(refused.message().contains("node n0"), "{refused}");
    assert!(parts.iter().all(|part| part.prepared().wait().expect("asked").is_empty()));
    for kv in &kvs[..2] {
        let value = kv.get(b"key", Access::Latest).wait().expect("a get");
        assert_eq!(value.as_deref(), Some(&1u64.to_le_bytes()[..]));
    }
}

/// No record names the nodes of a commit, so decisions are kept for all nodes.
#[test]
fn decisions_are_kept_for_a_node_that_cannot_be_asked() {
    let last = served::runtime(1);
    let (parts, mut map) = forgetful(&last);
    let (_pool, container) = open_new(&map, NO_TIMEOUTS);
    let kvs = one_on_each(&container);
    last.shutdown_timeout(Duration::from_secs(60));
    for value in 0..KEPT as u64 {
        put(&container, &kvs, value).expect("a commit");
    }
    let refused = put(&container, &kvs, 99).expect_err("no room for a decision");
    assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
    for part in ["node n0 has no room", "DECISIONS_MAX", "start the engine of node n2"] {
        assert!(refused.message().contains(part), "{refused}");
    }
    assert_eq!(parts[0].swept_decisions(), 0);

    let node = map.nodes.pop().expect("a node");
    served::serve(&node.address, never_forgets(&parts[2]), node.uuid, &RUNTIME);
    esker_testing::wait_for("node n2 is back", || put(&container, &kvs, 100).is_ok());
    assert!(parts[0].swept_decisions() > 0);
}
