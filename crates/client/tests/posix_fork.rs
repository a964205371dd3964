//! Forks among threads that use a pool of plain files: a child does not wait for locks that threads of its parent hold. A test
//! program of its own, so that no other test holds a lock while it forks.
mod child;

use child::in_a_child;
use esker::types::info::OpenMode;
use esker::types::ops::Cond;
use esker::types::{ObjectClass, ObjectType};
use esker::{Access, Container, Kv, Pool, PosixPool, Wait};
use esker_backend::NewContainer;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Seconds after which a child that hangs is ended.
const CHILD_SECONDS: u32 = 60;
const THREADS: usize = 3;
const CHILDREN: usize = 40;

fn kv(container: &Container) -> Kv {
    let oid = container.generate_oid(0, 1, ObjectType::KvHashed, Some(ObjectClass::S1), 0);
    container.kv(oid.expect("an id")).expect("a Key-Value")
}

/// Commits two keys, opens and lists containers, and allocates numbers.
fn use_pool(pool: &Pool, container: &Container, name: &str) {
    let (kv, transaction) = (kv(container), container.transaction().expect("a transaction"));
    let access = Access::Tx(&transaction);
    for key in [format!("{name} a"), format!("{name} b")] {
        kv.put(key.as_bytes(), b"x", Cond::NONE, access).wait().expect("buffered");
    }
    transaction.commit().wait().expect("committed");
    container.allocate_oids(1).wait().expect("a number");
    pool.containers().wait().expect("a listing");
    pool.open_container("c", OpenMode::ReadWrite).wait().expect("the container");
}

#[test]
fn child_forked_among_busy_threads_uses_the_pool() {
    let name = format!("esker-posix-fork-{}", std::process::id());
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    PosixPool::create(&root, false).expect("a pool");
    let url = format!("posix:{}", root.display());
    let pool = Pool::connect(&url, OpenMode::ReadWrite).expect("the pool");
    pool.create_container(&NewContainer::named("c")).wait().expect("a container");
    let container = pool.open_container("c", OpenMode::ReadWrite).wait().expect("it is there");
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let (pool, container, ended) = (&pool, &container, &ended);
            scope.spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    use_pool(pool, container, &format!("thread {number}"));
                }
            });
        }
        let forked = catch_unwind(AssertUnwindSafe(|| {
            for child in 0..CHILDREN {
                in_a_child(CHILD_SECONDS, || {
                    use_pool(&pool, &container, &format!("child {child}"))
                });
            }
        }));
        ended.store(true, Ordering::Relaxed);
        forked.expect("all children end");
    });
    let kv = kv(&container);
    for child in 0..CHILDREN {
        let key = format!("child {child} b");
        let value = kv.get(key.as_bytes(), Access::Latest).wait().expect("a value");
        assert_eq!(value.as_deref(), Some(&b"x"[..]), "{key}");
    }
    std::fs::remove_dir_all(root).expect("removed");
}
