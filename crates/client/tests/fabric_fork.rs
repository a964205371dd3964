//! Forks of a process whose threads use a pool over the fabric: its children continue over TCP, because libfabric does
//! not work in them. Skipped without libfabric. A test program of its own, so that no other test holds a lock while it
//! forks.
mod child;
mod served;

use child::in_a_child;
use esker::types::info::OpenMode;
use esker::types::ops::Cond;
use esker::types::{ObjectClass, ObjectType};
use esker::{Access, Container, Kv, Pool, Wait};
use esker_backend::NewContainer;
use esker_nodes::{Fabric, Map, ShardedPool, Timeouts, Transport};
use esker_types::Result;
use served::Folder;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const PROVIDER: &str = "tcp;ofi_rxm";

/// Seconds after which a child that hangs is ended.
const CHILD_SECONDS: u32 = 120;

/// Children, one after the other.
const CHILDREN: usize = 5;

/// Keys of a round, enough for both nodes.
const KEYS: u32 = 20;

/// Short values, and values that need long pieces.
const LENGTHS: [usize; 2] = [10, 300_000];

/// Opens the pool of a map over the fabric.
fn open(map: &Map) -> Result<Pool> {
    let dial = Arc::new(Fabric { provider: Some(PROVIDER.to_owned()) });
    let timeouts = Timeouts::default();
    let pool =
        ShardedPool::open_by(map, Path::new("none.map"), Vec::new(), timeouts, dial).wait()?;
    Ok(Pool::from_backend(Arc::new(pool), OpenMode::ReadWrite))
}

/// A Key-Value over all nodes, in a new container.
fn new_kv(pool: &Pool, label: &str) -> (Container, Kv) {
    pool.create_container(&NewContainer::named(label)).wait().expect("a container");
    let container = pool.open_container(label, OpenMode::ReadWrite).wait().expect("it is there");
    let oid = container.new_oid(ObjectType::KvHashed).class(ObjectClass::SX).generate(1);
    let kv = container.kv(oid.expect("an id")).expect("a Key-Value");
    (container, kv)
}

/// The value of a key in a round, short or long depending on the key.
fn value(round: u8, key: u32) -> Vec<u8> {
    vec![round; LENGTHS[key as usize % LENGTHS.len()]]
}

/// Sets all keys to their values of a round.
fn put_all(kv: &Kv, round: u8) {
    for key in 0..KEYS {
        let (key, value) = (key.to_le_bytes(), value(round, key));
        kv.put(&key, &value, Cond::NONE, Access::Latest).wait().expect("a put");
    }
}

/// Checks that all keys have their values of a round.
fn expect_all(kv: &Kv, round: u8) {
    for key in 0..KEYS {
        let found = kv.get(&key.to_le_bytes(), Access::Latest).wait().expect("a get");
        assert!(found.as_deref() == Some(&value(round, key)[..]), "key {key} of round {round}");
    }
}

/// The work of a child, with its inherited pool and with a pool that it opens itself.
fn use_in_a_child(map: &Map, container: &Container, kv: &Kv, round: u8) {
    expect_all(kv, round);
    put_all(kv, round + 1);
    let transaction = container.transaction().expect("a transaction");
    for key in 100..100 + KEYS {
        let (key, access) = (key.to_le_bytes(), Access::Tx(&transaction));
        kv.put(&key, &[round], Cond::NONE, access).wait().expect("buffered");
    }
    transaction.commit().wait().expect("committed");
    let pool = open(map).expect("the pool, opened by the child");
    let (_container, own) = new_kv(&pool, &format!("of-child-{round}"));
    put_all(&own, round);
    expect_all(&own, round);
    in_a_child(CHILD_SECONDS, || expect_all(kv, round + 1));
}

/// Uses the fabric until it is told to stop.
fn keep_using(kv: &Kv, stop: &AtomicBool) {
    for round in (0..100).cycle() {
        put_all(kv, round);
        expect_all(kv, round);
        if stop.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// Stops the background work, also after a failure.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Forks children, and checks in the parent what each has written.
fn fork_and_look(map: &Map, container: &Container, kv: &Kv) {
    for round in (1..).step_by(2).take(CHILDREN) {
        put_all(kv, round);
        in_a_child(CHILD_SECONDS, || use_in_a_child(map, container, kv, round));
        expect_all(kv, round + 1);
        let last = kv.get(&100_u32.to_le_bytes(), Access::Latest).wait().expect("a get");
        assert_eq!(last.as_deref(), Some(&[round][..]));
    }
}

#[test]
fn forked_child_continues_over_tcp() {
    let (folder, runtime) = (Folder::new(), served::runtime(2));
    let map = served::map(&folder.0, &[&runtime, &runtime]);
    let map = Map { transport: Transport::Fabric, ..map };
    let pool = match open(&map) {
        Err(error) if error.message().contains("cannot be loaded") => {
            return esker_testing::skip(format_args!("{PROVIDER}: {}", error.message()));
        }
        opened => opened.expect("the pool"),
    };
    let (container, kv) = new_kv(&pool, "c");
    let (_meanwhile, of_parent) = new_kv(&pool, "meanwhile");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| keep_using(&of_parent, &stop));
        fork_and_look(&map, &container, &kv);
    });
}
