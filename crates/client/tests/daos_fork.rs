//! Forks of a process that uses a pool of DAOS: libdaos does not work in a child, so that gets an error and does not
//! hang. A test program of its own, so that no other test holds a lock while it forks.
#![cfg(feature = "daos")]
#![allow(unsafe_code)]
use esker::types::ErrorKind;
use esker::types::info::OpenMode;
use esker::{Pool, Wait};

/// Seconds after which a child that hangs is ended.
const CHILD_SECONDS: u32 = 60;

/// The kind of the error; `None` for a success.
fn kind_of<T>(result: esker::types::Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

#[test]
fn a_forked_child_is_refused() {
    let Ok(url) = std::env::var("ESKER_TEST_DAOS") else {
        esker_testing::skip("ESKER_TEST_DAOS names no DAOS pool (scripts/daos.sh)");
        return;
    };
    let pool = Pool::connect(&url, OpenMode::ReadOnly).expect("the pool");
    pool.containers().wait().expect("a listing");
    // SAFETY: the child calls into this program only, and leaves by _exit.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "cannot fork");
    if child == 0 {
        // SAFETY: as above.
        unsafe { libc::alarm(CHILD_SECONDS) };
        let inherited = kind_of(pool.containers().wait());
        let anew = kind_of(Pool::connect(&url, OpenMode::ReadOnly));
        let refused = [inherited, anew] == [Some(ErrorKind::NotSupported); 2];
        drop(pool);
        // SAFETY: as above.
        unsafe { libc::_exit(if refused { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: the child is ours.
    let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert!(ended == child && status == 0, "the child ended with {status:#x}");
    pool.containers().wait().expect("the parent goes on");
}
