//! Writers are killed in the middle of PUTs while readers read. Readers see the old tensor or the new one, never a mix,
//! and all space is freed. `ESKER_SEED` replays a run, `ESKER_TORTURE_ROUNDS` makes it longer. A round kills three
//! writers.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, missing_docs)]

mod support;

use esker::{PosixPool, Wait};
use esker_conformance::place::nodes;
use esker_tensors::{DataType, NewTensor, Slab, Strided, Tensor, TensorStore};
use esker_testing::{Random, pause, wait_for};
use esker_types::ErrorKind;
use esker_types::info::{OpenMode, Space};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::{Directory, daos, make_room, pool};

const CHILD: &str = "ESKER_TENSORS_CHILD";
const WRITERS: u64 = 3;
const NAMES: u64 = 2;
const SHAPE: [u64; 2] = [30, 500];
/// Rows of a part. Parts and chunks do not align.
const ROWS: u64 = 5;
const POOL_BYTES: u64 = 192 << 20;
/// Bytes of index pages that remain after their entries were removed.
const ENTRIES_SLACK: u64 = 192 << 10;

/// The description of the tensors that all writers put.
fn new() -> NewTensor {
    let new = NewTensor::new(DataType::parse("<u8").unwrap(), &SHAPE);
    NewTensor { chunks: Some(vec![8, 300]), ..new }
}

fn open(url: &str) -> TensorStore {
    TensorStore::open(&pool(url), "tensors", OpenMode::ReadWrite).unwrap()
}

/// The bytes of `count` elements. All elements of one tensor are the same number, so that a reader notices a mix.
fn elements(number: u64, count: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(count as usize)
}

/// Puts tensors until it is killed: complete or in parts, under names that other writers use too.
#[test]
fn child() {
    let Ok(arguments) = std::env::var(CHILD) else { return };
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let mut random = Random::new(arguments[1].parse().unwrap(), 0);
    let mut done = std::fs::File::options().append(true).open(arguments[2]).unwrap();
    let store = open(arguments[0]);
    loop {
        let (number, name) = (random.draw(), format!("name-{}", random.below(NAMES)));
        if random.one_in(2) {
            let data = elements(number, SHAPE[0] * SHAPE[1]);
            store
                .put(&new(), &Strided::contiguous(&data, &SHAPE, 8).unwrap(), Some(&name))
                .unwrap();
        } else {
            let put = store.begin(&new()).unwrap();
            let data = elements(number, ROWS * SHAPE[1]);
            for row in (0..SHAPE[0]).step_by(ROWS as usize) {
                let part = Strided::contiguous(&data, &[ROWS, SHAPE[1]], 8).unwrap();
                put.write(&[row, 0], &part).unwrap();
            }
            put.commit(Some(&name)).unwrap();
        }
        std::io::Write::write_all(&mut done, b".").unwrap();
    }
}

/// Starts a process that runs the test `child`. It appends a byte to the file `done` for each tensor it has committed.
fn start(url: &str, seed: u64, done: &Path) -> Child {
    std::fs::write(done, b"").unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture"]).stdout(Stdio::null());
    command.env(CHILD, format!("{url} {seed} {}", done.display())).spawn().unwrap()
}

/// True if the tensor was read; false if it was freed first, which is allowed if the pool does not show leases.
fn expect_one_number(tensor: &Tensor, shared_leases: bool) -> bool {
    let read = match tensor.read_to_vec(&Slab::whole(&SHAPE)) {
        Err(error) if !shared_leases && error.kind() == ErrorKind::NotFound => return false,
        read => read.unwrap(),
    };
    assert!(read.chunks(8).all(|one| one == &read[..8]), "a mix of two tensors");
    true
}

/// Stops the readers, also after a failure.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads the named tensors, and a tensor that stays open while it is replaced, until `stop` is set.
fn read_until_stopped(url: &str, shared_leases: bool, stop: &AtomicBool) {
    let (store, mut kept) = (open(url), None);
    while !stop.load(Ordering::Relaxed) {
        for name in 0..NAMES {
            match store.open_tensor(&format!("name-{name}")) {
                Ok(tensor) => {
                    expect_one_number(&tensor, shared_leases);
                    kept.get_or_insert(tensor);
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
            }
        }
        if kept.as_ref().is_some_and(|kept| !expect_one_number(kept, shared_leases)) {
            kept = None;
        }
    }
}

/// Starts writers, and kills each at a random moment while a reader reads.
fn round(url: &str, directory: &Path, random: &mut Random, shared_leases: bool) {
    let stop = AtomicBool::new(false);
    let done = |writer: u64| directory.join(format!("done-{writer}"));
    let mut children: Vec<Child> =
        (0..WRITERS).map(|writer| start(url, random.draw(), &done(writer))).collect();
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| read_until_stopped(url, shared_leases, &stop));
        for (writer, child) in children.iter_mut().enumerate() {
            let enough = 1 + random.below(4);
            wait_for("a writer commits", || {
                let ended = child.try_wait().unwrap().is_some();
                ended || std::fs::metadata(done(writer as u64)).unwrap().len() >= enough
            });
            pause(random.below(3000));
            assert!(child.try_wait().unwrap().is_none(), "a writer ended by itself");
            child.kill().unwrap();
            child.wait().unwrap();
        }
    });
}

/// Frees the tensors that killed writers have left. No process has a lease any more; the second collection frees those
/// that the first one only marked. Over nodes, an engine takes a moment to notice that a client has died.
fn expect_all_freed(store: &TensorStore) {
    let collect = || store.collect(Duration::ZERO, true).unwrap();
    collect();
    if nodes().is_some() {
        wait_for("the leases of killed writers end", || collect() == Default::default());
    }
    assert_eq!(collect(), Default::default());
}

/// Kills writers in each round. Then only the named tensors are left. In the end all tensors are removed, and `used`
/// must return no more bytes than in the beginning.
fn torture(url: &str, directory: &Path, used: impl Fn() -> [u64; 2]) {
    let store = TensorStore::create(&pool(url), "tensors").unwrap();
    let before = used();
    let shared_leases = store.container().capabilities().shared_leases;
    let rounds = std::env::var("ESKER_TORTURE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let rounds = rounds.unwrap_or(3u64);
    let mut random = Random::new(esker_testing::seed(), 5);
    for _ in 0..rounds {
        round(url, directory, &mut random, shared_leases);
        let listed = store.list().unwrap();
        assert!(listed.len() as u64 <= NAMES && listed.iter().all(|one| one.name.is_some()));
        expect_all_freed(&store);
        let checked = store.check(true).unwrap();
        assert_eq!((checked.hidden, &checked.problems[..]), (0, &[][..]));
        assert_eq!(store.list().unwrap(), listed);
        for one in &listed {
            assert!(expect_one_number(
                &store.open_tensor(one.name.as_ref().unwrap()).unwrap(),
                true
            ));
        }
        used();
    }
    store.list().unwrap().iter().for_each(|one| drop(store.remove(one.name.as_ref().unwrap())));
    expect_all_freed(&store);
    let left = used();
    assert!(
        left[0] <= before[0],
        "{left:?} bytes are used after all was removed, {before:?} before"
    );
    assert!(left[1] <= before[1] + ENTRIES_SLACK, "{left:?} bytes are used, {before:?} before");
    println!("{} writers killed", WRITERS * rounds);
}

/// Bytes of data and of entries that a native pool uses, after a check of it. Blocks of the index do not count as data.
fn used_by_native(url: &str, path: &Path) -> [u64; 2] {
    let report = esker_store::Pool::check(path, false, &mut |_, _| {}).unwrap();
    assert!(report.problems.is_empty() && report.lost_bytes == 0, "{report:?}");
    let targets = pool(url).info().wait().unwrap().targets;
    let data = |space: &Space| POOL_BYTES - space.data_free - space.index_total;
    let entries = |space: &Space| POOL_BYTES - space.entries_free();
    [targets.iter().map(data).sum(), targets.iter().map(entries).sum()]
}

/// Bytes of the objects in a pool of files, after a check of it. Temporary files of killed writers are removed after a
/// day.
fn used_by_files(path: &Path) -> [u64; 2] {
    let report = PosixPool::check(path).unwrap();
    assert!(report.problems.is_empty(), "{report:?}");
    [report.bytes, 0]
}

/// Runs in the pool over nodes that the environment names, or in a native one.
#[test]
fn killed_writers_leave_the_old_or_the_new_tensor() {
    let directory = Directory::new();
    if let Some(url) = nodes() {
        return torture(url, &directory.0, || [0, 0]);
    }
    let url = directory.native(POOL_BYTES);
    torture(&url, &directory.0, || used_by_native(&url, &directory.0.join("tank")));
}

#[test]
fn killed_writers_on_files_leave_the_old_or_the_new_tensor() {
    let directory = Directory::new();
    torture(&directory.posix(), &directory.0, || used_by_files(&directory.0.join("files")));
}

#[test]
fn killed_writers_on_daos_leave_the_old_or_the_new() {
    let Some(url) = daos() else { return };
    let directory = Directory::new();
    make_room(&pool(&url), "tensors");
    torture(&url, &directory.0, || [0, 0]);
    make_room(&pool(&url), "tensors");
}

/// The space of replaced tensors and aborted PUTs is used again: the test writes far more than the pool's size.
#[test]
fn space_of_replaced_tensors_and_aborted_puts_is_reused() {
    let directory = Directory::new();
    let store = TensorStore::create(&pool(&directory.native(64 << 20)), "tensors").unwrap();
    let data = vec![7; 4 << 20];
    let new = NewTensor::new(DataType::parse("|u1").unwrap(), &[4 << 20]);
    for round in 0..40 {
        let whole = Strided::contiguous(&data, &[4 << 20], 1).unwrap();
        store.put(&new, &whole, Some("a")).unwrap();
        if round % 4 == 0 {
            store.begin(&new).unwrap().write(&[0], &whole).unwrap();
            store.collect(Duration::ZERO, true).unwrap();
        }
    }
    let checked = store.check(true).unwrap();
    assert_eq!((checked.tensors, checked.hidden), (1, 0));
}
