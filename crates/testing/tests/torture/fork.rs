//! A process with running threads forks: the child uses what it inherited, and the parent continues.
use crate::common::{self, Folder, PoolKind, Shape, Watchdog, Worker};
use crate::simple;
use esker::{Access, Kv, Pool, Wait};
use esker_testing::scaled;
use esker_types::ops::Cond;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

const THREADS: u64 = 3;
const LENGTHS: [usize; 2] = [100, 5000];

/// Body of a process whose threads write while it forks. Arguments: pool, number of forks.
pub(crate) fn run() {
    let arguments = common::arguments();
    let pool = common::open(Path::new(&arguments[0]));
    let forks: u64 = arguments[1].parse().expect("a number");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (pool, stop) = (&pool, &stop);
            scope.spawn(move || write_until(pool, thread, stop));
        }
        for number in 0..forks {
            fork_once(&pool, number);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Puts values and reads them back until `stop` is set, at times in a transaction.
fn write_until(pool: &Pool, thread: u64, stop: &AtomicBool) {
    let (container, kv) = simple::kv(pool, &format!("thread-{thread}")).expect("opening");
    for step in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let (number, len) = (step % 50, LENGTHS[step as usize % 2]);
        simple::put(&kv, number, len).expect("writing");
        assert!(simple::is_there(&kv, number, len).expect("reading"), "value {number} is missing");
        if step.is_multiple_of(20) {
            let transaction = container.transaction().expect("a transaction");
            let access = Access::Tx(&transaction);
            for key in 100..106_u64 {
                kv.put(&key.to_be_bytes(), b"x", Cond::NONE, access).wait().expect("buffering");
            }
            transaction.commit().wait().expect("committing");
        }
    }
}

/// Forks once. The child works with the inherited handles, and the parent then reads what the child wrote.
fn fork_once(pool: &Pool, number: u64) {
    let (_container, kv) = simple::kv(pool, "forked").expect("opening");
    let before = number * 10;
    simple::put(&kv, before, LENGTHS[1]).expect("writing");
    // SAFETY: the child calls into this program only, which supports forks, and leaves by _exit.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "cannot fork");
    if child == 0 {
        // SAFETY: sets a timer that ends a hanging child.
        unsafe { libc::alarm(30) };
        let work = std::panic::AssertUnwindSafe(|| work_in_child(pool, &kv, before));
        let fine = std::panic::catch_unwind(work);
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(i32::from(fine.is_err())) };
    }
    let mut status = 0;
    // SAFETY: `status` is a valid local variable.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "fork {number}: the child failed");
    for step in 1..5 {
        let len = LENGTHS[step as usize % 2];
        let there = simple::is_there(&kv, before + step, len).expect("reading");
        assert!(there, "fork {number}: the value that the child wrote is missing");
    }
    simple::remove(&kv, before).expect("removing");
}

/// Reads what the parent wrote, writes, and takes a snapshot.
fn work_in_child(pool: &Pool, kv: &Kv, before: u64) {
    assert!(simple::is_there(kv, before, LENGTHS[1]).expect("reading"), "not inherited");
    for step in 1..5 {
        simple::put(kv, before + step, LENGTHS[step as usize % 2]).expect("writing");
    }
    let (own, _) = simple::kv(pool, "forked").expect("opening");
    let epoch = own.create_snapshot("in a child").wait().expect("a snapshot");
    own.destroy_snapshot(epoch).wait().expect("no snapshot");
    if before.is_multiple_of(20) {
        // Also opens and closes the pool itself.
        drop(pool.clone());
        pool.containers().wait().expect("listing");
    }
}

/// Forks a process with running writers on a kind of pool: neither the child nor the parent may fail or lose a write.
fn fork_on(pool_kind: PoolKind, forks: u64) {
    let folder = Folder::new(pool_kind);
    let _watchdog = Watchdog::new(format!("forking on {pool_kind:?}"));
    // Large, because this test is about forks; `space` tests full pools.
    let pool = common::make(&folder, "pool", pool_kind, Shape { segments: 64, ..Shape::SMALL });
    Worker::start("fork", &format!("{} {forks}", pool.display())).finish();
    common::expect_sound(&pool, false);
    common::expect_clean(&pool);
}

#[test]
fn forked_in_memory() {
    fork_on(PoolKind::Memory, scaled(100));
}

#[test]
fn forked_on_disk() {
    fork_on(PoolKind::Durable, scaled(10));
}
