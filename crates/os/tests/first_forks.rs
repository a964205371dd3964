//! Forks while another thread uses the store for the first time in the process. Alone in its binary, which must not
//! have used it before.
use esker_types::checksum::{Checksum, prepare_checksums};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};

#[path = "../../client/tests/child/mod.rs"]
mod child;

/// Uses what every process creates at its first use.
fn use_first() {
    esker_os::generation();
    assert_ne!(Checksum::Crc64.sum(b"abc"), 0);
    prepare_checksums();
}

#[test]
fn a_child_made_during_the_first_use_does_not_wait_for_it() {
    for delay in 0..400 {
        child::in_a_child(120, || {
            let started = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    started.store(true, Ordering::SeqCst);
                    use_first();
                });
                while !started.load(Ordering::SeqCst) {
                    spin_loop();
                }
                (0..delay * 20).for_each(|_| spin_loop());
                child::in_a_child(60, use_first);
            });
        });
    }
}
