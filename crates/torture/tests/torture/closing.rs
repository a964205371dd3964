//! Programs that close what they did not open: files of a pool they looked at, or all descriptors that lead into it. They
//! live, and the pool is to know it; and once they are dead, whatever children they leave, it is to know that too.
use crate::common::{self, Folder, Shape, Sort, Watchdog, Worker};
use crate::simple;
use esker::{Access, Wait};
use esker_torture::wait_for;
use esker_types::ErrorKind;
use std::fs;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

const KEYS: u64 = 40;
const LEN: usize = 50_000;

/// Reads all files of a pool, as a backup does, and closes them.
fn look_at_all(folder: &Path) {
    for entry in fs::read_dir(folder).expect("listing a pool") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => look_at_all(&path),
            false => drop(fs::read(&path).expect("reading a file of a pool")),
        }
    }
}

/// Closes all descriptors that lead into a pool, as a daemon does that closes all there are.
fn close_all(pool: &Path) {
    let known = fs::read_dir("/proc/self/fd").expect("listing descriptors");
    let into_pool = known
        .flatten()
        .map(|entry| entry.path())
        .filter(|link| fs::read_link(link).is_ok_and(|file| file.starts_with(pool)));
    for link in into_pool.collect::<Vec<_>>() {
        let number = link.file_name().and_then(|name| name.to_str()?.parse().ok());
        // SAFETY: no memory is touched; what used the descriptor is what is tried here.
        unsafe { libc::close(number.expect("a number")) };
    }
}

/// Arguments: pool, what to close, file to make then, file to wait for.
pub(crate) fn close() {
    let arguments = common::arguments();
    let [path, sort, done, go] = &arguments[..] else { panic!("four arguments") };
    let (path, go) = (Path::new(path), Path::new(go));
    let pool = common::open(path);
    let (_container, kv) = simple::kv(&pool, "c").expect("opening");
    (0..KEYS).for_each(|number| simple::put(&kv, number, LEN).expect("writing"));
    let key = 0_u64.to_be_bytes();
    let view = kv.view(&key, true, Access::Latest).wait().expect("reading").expect("a value");
    match sort.as_str() {
        "files" => look_at_all(path),
        _ => close_all(path),
    }
    fs::write(done, b"").expect("signalling");
    wait_for("the others have done their work", || go.exists());
    let expect_there = |number| {
        let there = simple::is_there(&kv, number, LEN);
        assert!(there.unwrap_or_else(|error| panic!("reading {number}: {error}")));
    };
    // A view is kept by a descriptor of its own.
    assert!(sort == "descriptors" || view[..] == simple::value(0, LEN), "a view has changed");
    (1..KEYS).for_each(expect_there);
    for number in 1..KEYS {
        match simple::put(&kv, number, LEN) {
            // What needs a descriptor says that it is not there.
            Err(error) if sort == "descriptors" => {
                assert_eq!(error.kind(), ErrorKind::Io, "{error}")
            }
            result => result.unwrap_or_else(|error| panic!("writing {number}: {error}")),
        }
        expect_there(number);
    }
    // SAFETY: ends the process without closing once more what it closed behind the library's back.
    unsafe { libc::_exit(0) };
}

fn lives_on(sort: Sort, closes: &str) {
    let folder = Folder::new(sort);
    let _watchdog = Watchdog::new(format!("closing {closes} on {sort:?}"));
    let path = common::make(&folder, "pool", sort, Shape::SMALL);
    let (done, go) = (folder.path().join("done"), folder.path().join("go"));
    let arguments = [&path, Path::new(closes), &done, &go].map(|path| path.display().to_string());
    let mut worker = Worker::start("closing", &arguments.join(" "));
    worker.wait_until("it has closed what it did not open", || done.exists());
    common::expect_sound(&path, true);
    let pool = common::open(&path);
    let (_container, kv) = simple::kv(&pool, "c").expect("opening");
    for _ in 0..5 {
        // The value that is viewed goes, and others are written until segments go round.
        let _ = simple::remove(&kv, 0);
        (KEYS..3 * KEYS).for_each(|number| simple::put(&kv, number, LEN).expect("writing"));
    }
    drop((_container, kv, pool));
    common::expect_sound(&path, true);
    let destroyed = esker_store::Pool::destroy(&path, false).map_err(|error| error.kind());
    assert_eq!(destroyed, Err(ErrorKind::Busy), "its user lives");
    fs::write(&go, b"").expect("signalling");
    worker.finish_soon();
    common::expect_sound(&path, false);
    common::expect_clean(&path);
}

#[test]
fn a_program_that_closes_files_of_its_pool_lives_on() {
    for sort in [Sort::Memory, Sort::Guarded, Sort::Durable] {
        lives_on(sort, "files");
    }
}

#[test]
fn a_program_that_closes_descriptors_of_its_pool_lives_on() {
    lives_on(Sort::Memory, "descriptors");
}

/// Arguments: pool, file for the number of a child made by fork, which stays as long as the third is not there.
pub(crate) fn leave_child() {
    let arguments = common::arguments();
    let [path, child, end] = &arguments[..] else { panic!("three arguments") };
    let pool = common::open(Path::new(path));
    let (_container, kv) = simple::kv(&pool, "c").expect("opening");
    (0..KEYS).for_each(|number| simple::put(&kv, number, LEN).expect("writing"));
    // SAFETY: the child looks for a file, and leaves by _exit.
    let forked = unsafe { libc::fork() };
    assert!(forked >= 0, "cannot fork");
    if forked == 0 {
        let end = Path::new(end);
        wait_for("the test is over", || !end.parent().is_some_and(Path::exists) || end.exists());
        // SAFETY: ends the child without running what belongs to the parent.
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
fn a_child_does_not_keep_its_dead_parent_alive() {
    let folder = Folder::new(Sort::Memory);
    let _watchdog = Watchdog::new("a child that stays".to_owned());
    let path = common::make(&folder, "pool", Sort::Memory, Shape::SMALL);
    let (child, end) = (folder.path().join("child"), folder.path().join("end"));
    let arguments = [&path, &child, &end].map(|path| path.display().to_string());
    let mut parent = Worker::start("closing-child", &arguments.join(" "));
    parent.wait_until("its child is there", || child.exists());
    let refused = esker_store::Pool::destroy(&path, false).map_err(|error| error.kind());
    assert_eq!(refused, Err(ErrorKind::Busy), "the parent lives");
    parent.kill();
    let number = fs::read_to_string(&child).expect("the number of the child");
    assert!(Path::new("/proc").join(&number).exists(), "the child is still there");
    // Counting space is only for who is alone.
    let report = common::expect_sound(&path, true);
    assert!(report.records >= KEYS, "{report:?}");
    esker_store::Pool::destroy(&path, false).expect("nobody uses it");
    fs::write(&end, b"").expect("signalling");
}

/// A child that another thread starts has a copy of each descriptor until it becomes another program. Here a copy is held
/// for longer, to see what it does to those who close the pool and open it again.
#[test]
fn a_copy_of_a_descriptor_is_in_nobodys_way() {
    let folder = Folder::new(Sort::Memory);
    let path = common::make(&folder, "pool", Sort::Memory, Shape::SMALL);
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
