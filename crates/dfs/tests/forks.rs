//! Forks among threads that use a file system: a child does not wait for locks that threads of its parent hold. A test
//! program of its own, so that no other test holds a lock while it forks.
#[path = "../../client/tests/child/mod.rs"]
mod child;

use child::in_a_child;
use dfs::{Dfs, Follow, MountOptions, NewDfs};
use esker::backend::NewContainer;
use esker_conformance::place::Place;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Seconds after which a child that hangs is ended.
const CHILD_SECONDS: u32 = 60;
const THREADS: usize = 3;
const CHILDREN: usize = 500;

#[test]
fn child_forked_among_busy_threads_reads_the_root() {
    let place = Place::new("forks");
    let label = NewContainer::named(&place.label);
    Dfs::create_container(&place.pool(), &label, &NewDfs::default()).unwrap();
    let fs = Dfs::open(&place.url, &place.label, MountOptions::default()).unwrap();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    assert!(fs.root().parent().is_none());
                }
            });
        }
        let forked = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..CHILDREN {
                in_a_child(CHILD_SECONDS, || {
                    fs.resolve(&fs.root(), b"/", Follow::All).unwrap();
                });
            }
        }));
        ended.store(true, Ordering::Relaxed);
        forked.unwrap();
    });
}
