//! Programs that close descriptors they did not open: those of pool files they have read, or all descriptors that refer
//! to the pool. While such a program runs, the pool must know it. When it is dead, the pool must know that too, even if
//! the program has left children.
use crate::common::{self, Folder, PoolKind, Shape, Watchdog, Worker};
use crate::simple;
use esker::{Access, Wait};
use esker_testing::wait_for;
use esker_types::ErrorKind;
use std::fs;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

const KEYS: u64 = 40;
const LEN: usize = 50_000;

/// Reads all files of a pool, like a backup program, and closes them.
fn read_all_files(folder: &Path) {
    for entry in fs::read_dir(folder).expect("listing a pool") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => read_all_files(&path),
            false => drop(fs::read(&path).expect("reading a file of a pool")),
        }
    }
}

/// Closes all descriptors that refer to a pool, like a daemon that closes all descriptors.
fn close_all(pool: &Path) {
    let known = fs::read_dir("/proc/self/fd").expect("listing descriptors");
    let into_pool = known
        .flatten()
        .map(|entry| entry.path())
        .filter(|link| fs::read_link(link).is_ok_and(|file| file.starts_with(pool)));
    for link in into_pool.collect::<Vec<_>>() {
        let number = link.file_name().and_then(|name| name.to_str()?.parse().ok());
        // SAFETY: touches no memory; the effect on users of the descriptor is what this test examines.
        unsafe { libc::close(number.expect("a number")) };
    }
}

/// Body of a process that closes descriptors it did not open, and then continues to use the pool. Arguments: pool,
/// descriptors to close, file to create afterwards, file to wait for.
pub(crate) fn close() {
    let arguments = common::arguments();
    let [path, what, done, go] = &arguments[..] else { panic!("four arguments") };
    let (path, go) = (Path::new(path), Path::new(go));
    let pool = common::open(path);
    let (_container, kv) = simple::kv(&pool, "c").expect("opening");
    (0..KEYS).for_each(|number| simple::put(&kv, number, LEN).expect("writing"));
    let key = 0_u64.to_be_bytes();
    let view = kv.view(&key, true, Access::Latest).wait().expect("reading").expect("a value");
    match what.as_str() {
        "files" => read_all_files(path),
        _ => close_all(path),
    }
    fs::write(done, b"").expect("signalling");
    wait_for("the test has done its checks", || go.exists());
    let expect_there = |number| {
        let there = simple::is_there(&kv, number, LEN);
        assert!(there.unwrap_or_else(|error| panic!("reading {number}: {error}")));
    };
    // A view has its own descriptor.
    assert!(what == "descriptors" || view[..] == simple::value(0, LEN), "a view has changed");
    (1..KEYS).for_each(expect_there);
    for number in 1..KEYS {
        match simple::put(&kv, number, LEN) {
            // Operations that need a descriptor report that it is closed.
            Err(error) if what == "descriptors" => {
                assert_eq!(error.kind(), ErrorKind::Io, "{error}")
            }
            result => result.unwrap_or_else(|error| panic!("writing {number}: {error}")),
        }
        expect_there(number);
    }
    // SAFETY: ends the process without exit handlers, which would close the same descriptors again.
    unsafe { libc::_exit(0) };
}

/// Starts a process that closes descriptors, of pool `files` that it has read or of the pool itself (`descriptors`).
/// The pool must still count it as a user, and must not reuse what it has in use.
fn lives_on(pool_kind: PoolKind, closes: &str) {
    let folder = Folder::new(pool_kind);
    let _watchdog = Watchdog::new(format!("closing {closes} on {pool_kind:?}"));
    let path = common::make(&folder, "pool", pool_kind, Shape::SMALL);
    let (done, go) = (folder.path().join("done"), folder.path().join("go"));
    let arguments = [&path, Path::new(closes), &done, &go].map(|path| path.display().to_string());
    let mut worker = Worker::start("closing", &arguments.join(" "));
    worker.wait_until("it has closed the descriptors", || done.exists());
    common::expect_sound(&path, true);
    let pool = common::open(&path);
    let (_container, kv) = simple::kv(&pool, "c").expect("opening");
    for _ in 0..5 {
        // The viewed value is removed, and others are written until segments are reused.
        let _ = simple::remove(&kv, 0);
        (KEYS..3 * KEYS).for_each(|number| simple::put(&kv, number, LEN).expect("writing"));
    }
    drop((_container, kv, pool));
    common::expect_sound(&path, true);
    let destroyed = esker_store::Pool::destroy(&path, false).map_err(|error| error.kind());
    assert_eq!(destroyed, Err(ErrorKind::Busy), "the process that uses it runs");
    fs::write(&go, b"").expect("signalling");
    worker.finish_soon();
    common::expect_sound(&path, false);
    common::expect_clean(&path);
}

#[test]
fn program_that_closes_pool_files_stays_a_user() {
    for pool_kind in [PoolKind::Memory, PoolKind::Guarded, PoolKind::Durable] {
        lives_on(pool_kind, "files");
    }
}

#[test]
fn program_that_closes_pool_descriptors_stays_a_user() {
    lives_on(PoolKind::Memory, "descriptors");
}

/// Body of a process that forks a child and is then killed. Arguments: pool, file for the process id of the child, and
/// a file until whose creation the child runs.
pub(crate) fn leave_child() {
    let arguments = common::arguments();
    let [path, child, end] = &arguments[..] else { panic!("three arguments") };
    let pool = common::open(Path::new(path));
    let (_container, kv) = simple::kv(&pool, "c").expect("opening");
    (0..KEYS).for_each(|number| simple::put(&kv, number, LEN).expect("writing"));
    // SAFETY: the child waits for a file, and leaves by _exit.
    let forked = unsafe { libc::fork() };
    assert!(forked >= 0, "cannot fork");
    if forked == 0 {
        let end = Path::new(end);
        wait_for("the test is over", || !end.parent().is_some_and(Path::exists) || end.exists());
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(0) };
    }
    let draft = PathBuf::from(child).with_extension("new");
    fs::write(&draft, forked.to_string()).expect("signalling");
    fs::rename(&draft, child).expect("signalling");
    loop {
        std::thread::park();
    }
}

#[test]
fn dead_parent_of_running_child_is_not_a_user() {
    let folder = Folder::new(PoolKind::Memory);
    let _watchdog = Watchdog::new("a child that outlives its parent".to_owned());
    let path = common::make(&folder, "pool", PoolKind::Memory, Shape::SMALL);
    let (child, end) = (folder.path().join("child"), folder.path().join("end"));
    let arguments = [&path, &child, &end].map(|path| path.display().to_string());
    let mut parent = Worker::start("closing-child", &arguments.join(" "));
    parent.wait_until("its child runs", || child.exists());
    let refused = esker_store::Pool::destroy(&path, false).map_err(|error| error.kind());
    assert_eq!(refused, Err(ErrorKind::Busy), "the parent runs");
    parent.kill();
    let number = fs::read_to_string(&child).expect("the process id of the child");
    assert!(Path::new("/proc").join(&number).exists(), "the child still runs");
    // Counting space requires that no other process uses the pool.
    let report = common::expect_sound(&path, true);
    assert!(report.records >= KEYS, "{report:?}");
    esker_store::Pool::destroy(&path, false).expect("no process uses it");
    fs::write(&end, b"").expect("signalling");
}

/// A child started by another thread has a copy of each descriptor until it executes another program. This test holds
/// a copy for longer, and closes and reopens the pool meanwhile.
#[test]
fn copied_descriptor_does_not_block_other_users() {
    let folder = Folder::new(PoolKind::Memory);
    let path = common::make(&folder, "pool", PoolKind::Memory, Shape::SMALL);
    let pool = common::open(&path);
    let known = fs::read_dir("/proc/self/fd").expect("listing descriptors").flatten();
    let copies: Vec<_> = known
        .filter_map(|entry| {
            let leads_into = fs::read_link(entry.path()).is_ok_and(|file| file.starts_with(&path));
            let number = entry.file_name().to_str()?.parse().ok().filter(|_| leads_into)?;
            // SAFETY: the pool keeps its descriptors open; the copy is ours.
            Some(unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned().expect("a copy"))
        })
        .collect();
    assert!(copies.len() >= 2, "{copies:?}");
    drop(pool);
    let (_container, kv) = simple::kv(&common::open(&path), "c").expect("opening");
    simple::put(&kv, 0, LEN).expect("writing");
}
