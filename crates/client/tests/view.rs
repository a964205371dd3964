//! Views: they do not change, whatever happens to the pool.
use esker::types::info::OpenMode;
use esker::types::limits::VIEWS_MAX;
use esker::types::ops::{Cond, Source};
use esker::types::{ErrorKind, Extent, ObjectClass, ObjectType};
use esker::{Access, Array, ArrayAttributes, Container, Kv, Pool, PosixPool, Wait};
use esker_backend::NewContainer;
use esker_store::PoolSpec;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

const VALUE: usize = 200_000;

/// The limit applies to the process, so the test that reaches it runs alone.
static VIEWS: RwLock<()> = RwLock::new(());

/// A pool of few small segments, which are reused soon; removed when the test ends.
struct Scratch {
    folder: PathBuf,
    pool: Option<Pool>,
    among_others: Option<RwLockReadGuard<'static, ()>>,
}

impl Scratch {
    fn new(parent: &Path) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("esker-view-{}-{number}", std::process::id()));
        let mut spec = PoolSpec::new("pool", 16 << 20);
        spec.targets = Some(1);
        spec.segment_bytes = Some(1 << 20);
        esker_store::Pool::create(&folder, &spec, &mut |_, _| {}).unwrap();
        let mut scratch = Self { folder, pool: None, among_others: None };
        scratch.open();
        scratch.pool().create_container(&new().with_label(Some("c"))).wait().unwrap();
        scratch
    }

    /// A pool in memory, beside those of other tests.
    fn in_memory() -> Self {
        let mut scratch = Self::new(Path::new("/dev/shm"));
        scratch.among_others = Some(VIEWS.read().unwrap_or_else(PoisonError::into_inner));
        scratch
    }

    /// Opens the pool again, as a process does after a restart.
    fn open(&mut self) {
        let path = self.folder.join("pool");
        self.pool =
            Some(Pool::connect(&format!("esker:{}", path.display()), OpenMode::ReadWrite).unwrap());
    }

    fn pool(&self) -> &Pool {
        self.pool.as_ref().unwrap()
    }

    fn container(&self) -> Container {
        self.pool().open_container("c", OpenMode::ReadWrite).wait().unwrap()
    }

    /// Free bytes for data.
    fn free(&self) -> u64 {
        self.pool().info().wait().unwrap().targets.iter().map(|space| space.data_free).sum()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.pool = None;
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn new() -> NewContainer<'static> {
    NewContainer::default()
}

fn kv(container: &Container) -> Kv {
    let class = Some(ObjectClass::S1);
    container.kv(container.generate_oid(0, 1, ObjectType::KvHashed, class, 0).unwrap()).unwrap()
}

/// An array of cells of 2 bytes.
fn array(container: &Container, chunk_size: u64) -> Array {
    let oid = container.generate_oid(0, 2, ObjectType::Array, None, 0).unwrap();
    let shape = ArrayAttributes { cell_size: 2, chunk_size };
    container.create_array(oid, shape, Access::Latest).wait().unwrap()
}

/// Sets a key to a value of [`VALUE`] bytes, all equal to `fill`.
fn put(kv: &Kv, key: &str, fill: u8) -> esker::types::Result<()> {
    kv.put(key.as_bytes(), &vec![fill; VALUE], Cond::NONE, Access::Latest).wait()
}

/// Writes and overwrites several times the capacity of the pool.
fn churn(kv: &Kv, fill: u8) {
    for round in 0..400 {
        put(kv, &format!("churn {}", round % 7), fill).unwrap();
    }
}

/// True for a value of `put`.
fn is_all(bytes: &[u8], fill: u8) -> bool {
    bytes.len() == VALUE && bytes.iter().all(|&byte| byte == fill)
}

#[test]
fn a_view_does_not_change_while_the_pool_is_overwritten() {
    let scratch = Scratch::in_memory();
    let container = scratch.container();
    let kv = kv(&container);
    put(&kv, "a", 1).unwrap();
    let first = kv.view(b"a", false, Access::Latest).wait().unwrap().unwrap();
    assert!(!first.is_copy() && is_all(&first, 1));
    put(&kv, "a", 2).unwrap();
    let second = kv.view(b"a", false, Access::Latest).wait().unwrap().unwrap();
    kv.remove(b"a", Cond::NONE, Access::Latest).wait().unwrap();
    churn(&kv, 3);
    assert!(is_all(&first, 1) && is_all(&second, 2));
    assert!(kv.view(b"a", false, Access::Latest).wait().unwrap().is_none());
    kv.destroy(Access::Latest).wait().unwrap();
    drop(first);
    churn(&kv, 4);
    assert!(is_all(&second, 2));
}

#[test]
fn a_view_survives_compaction_of_its_segment() {
    let scratch = Scratch::in_memory();
    let container = scratch.container();
    let kv = kv(&container);
    put(&kv, "stays", 1).unwrap();
    let view = kv.view(b"stays", false, Access::Latest).wait().unwrap().unwrap();
    for round in 0..400 {
        // Part of each segment stays live, so that only compaction frees space.
        put(&kv, &format!("{}", round % 30), 2).unwrap();
    }
    assert!(is_all(&view, 1));
    let again = kv.view(b"stays", true, Access::Latest).wait().unwrap().unwrap();
    assert!(is_all(&again, 1));
}

#[test]
fn an_error_names_the_views_that_keep_a_pool_full() {
    let scratch = Scratch::in_memory();
    let container = scratch.container();
    let kv = kv(&container);
    let before = scratch.free();
    let mut views = Vec::new();
    let error = (0..1000).find_map(|number| {
        let key = format!("{number}");
        put(&kv, &key, 5).err().or_else(|| {
            views.extend(kv.view(key.as_bytes(), false, Access::Latest).wait().unwrap());
            kv.remove(key.as_bytes(), Cond::NONE, Access::Latest).wait().err()
        })
    });
    let error = error.expect("the pool is full of values with views");
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert!(error.message().contains("views prevent"), "{error}");
    assert!(views.iter().all(|view| is_all(view, 5)));
    drop(views);
    put(&kv, "room", 6).unwrap();
    kv.destroy(Access::Latest).wait().unwrap();
    assert_eq!(scratch.free(), before);
}

#[test]
fn a_view_outlives_its_handles_and_the_last_process_with_the_pool_open() {
    let mut scratch = Scratch::in_memory();
    let view = {
        let container = scratch.container();
        let kv = kv(&container);
        put(&kv, "a", 7).unwrap();
        let view = kv.view(b"a", false, Access::Latest).wait().unwrap().unwrap();
        kv.remove(b"a", Cond::NONE, Access::Latest).wait().unwrap();
        view
    };
    scratch.pool = None;
    // This is the state after a restart of the machine: the segments in use are determined again.
    let control = scratch.folder.join("pool/control");
    File::options().write(true).open(control).unwrap().write_all_at(&[0; 8], 8).unwrap();
    let checked = esker_store::Pool::check(&scratch.folder.join("pool"), true, &mut |_, _| {});
    checked.unwrap();
    scratch.open();
    churn(&kv(&scratch.container()), 8);
    assert!(is_all(&view, 7));
    let folder = scratch.folder.clone();
    drop(scratch);
    assert!(!folder.exists() && is_all(&view, 7));
}

#[test]
fn views_in_snapshots_stay_and_in_transactions_count_as_reads() {
    let scratch = Scratch::in_memory();
    let container = scratch.container();
    let kv = kv(&container);
    put(&kv, "a", 1).unwrap();
    let then = container.create_snapshot("then").wait().unwrap();
    put(&kv, "a", 2).unwrap();
    let old = kv.view(b"a", false, Access::Snapshot(then)).wait().unwrap().unwrap();
    container.destroy_snapshot(then).wait().unwrap();
    churn(&kv, 3);
    assert!(is_all(&old, 1));
    let gone = kv.view(b"a", true, Access::Snapshot(then)).wait();
    assert_eq!(gone.unwrap_err().kind(), ErrorKind::NotFound);
    let transaction = container.transaction().unwrap();
    let seen = kv.view(b"a", false, Access::Tx(&transaction)).wait().unwrap().unwrap();
    put(&kv, "a", 4).unwrap();
    assert!(is_all(&seen, 2));
    assert_eq!(transaction.commit().wait().unwrap_err().kind(), ErrorKind::TxRestart);
}

#[test]
fn contiguous_parts_of_arrays_are_viewed_in_place() {
    let scratch = Scratch::in_memory();
    let array = array(&scratch.container(), 200_000);
    let cells: Vec<u8> = (0..600_000_u32).map(|n| (n * 7 / 3) as u8).collect();
    array.write(&[Extent::new(10, 300_000)], Source::One(&cells), Access::Latest).wait().unwrap();
    let view = |start: u64, count: u64, may_copy| {
        array.view(Extent::new(start, count), may_copy, Access::Latest).wait()
    };
    for (start, count) in
        [(10, 1), (11, 100_000), (16_394, 16_384), (199_999, 1), (200_000, 99_000)]
    {
        let seen = view(start, count, false).unwrap();
        let from = (start - 10) as usize * 2;
        assert_eq!(*seen, cells[from..from + count as usize * 2], "{start} {count}");
        assert!(!seen.is_copy());
    }
    for (start, count) in [(0, 20), (199_990, 20), (300_000, 11), (500_000, 3), (7, 0)] {
        assert_eq!(view(start, count, false).unwrap_err().kind(), ErrorKind::NotSupported);
        let seen = view(start, count, true).unwrap();
        assert!(seen.is_copy() && seen.len() == count as usize * 2, "{start} {count}");
    }
    assert_eq!(view(0, 1 << 62, true).unwrap_err().kind(), ErrorKind::Overflow);
    // Overwriting one cell splits the range around it into three extents.
    let whole = view(10, 100_000, false).unwrap();
    array.write(&[Extent::new(50_000, 1)], Source::One(b"xy"), Access::Latest).wait().unwrap();
    assert_eq!(*whole, cells[..200_000]);
    let now = view(10, 100_000, true).unwrap();
    assert!(now.is_copy() && now[99_980..99_982] == *b"xy" && now[99_982..] == whole[99_982..]);
    assert_eq!(*view(50_001, 1000, false).unwrap(), cells[99_982..101_982]);
}

#[test]
fn view_on_other_backends_or_a_disk_is_a_copy() {
    let files = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("esker-view-files-{}", std::process::id()));
    PosixPool::create(&files, false).unwrap();
    let disk = Scratch::new(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let posix = Pool::connect(&format!("posix:{}", files.display()), OpenMode::ReadWrite).unwrap();
    let memory = Pool::connect("memory:views", OpenMode::ReadWrite).unwrap();
    for pool in [disk.pool(), &posix, &memory] {
        pool.create_container(&new().with_label(Some("d"))).wait().unwrap();
        let container = pool.open_container("d", OpenMode::ReadWrite).wait().unwrap();
        let kv = kv(&container);
        put(&kv, "a", 1).unwrap();
        let refused = kv.view(b"a", false, Access::Latest).wait().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotSupported);
        let view = kv.view(b"a", true, Access::Latest).wait().unwrap().unwrap();
        put(&kv, "a", 2).unwrap();
        assert!(view.is_copy() && is_all(&view, 1));
        assert!(kv.view(b"b", false, Access::Latest).wait().unwrap().is_none());
        kv.put(b"empty", b"", Cond::NONE, Access::Latest).wait().unwrap();
        let empty = kv.view(b"empty", true, Access::Latest).wait().unwrap().unwrap();
        assert!(empty.is_empty());
    }
    std::fs::remove_dir_all(files).unwrap();
}

#[test]
fn making_a_view_detects_damage() {
    let scratch = Scratch::in_memory();
    let container = scratch.container();
    let kv = kv(&container);
    kv.put(b"a", b"once".repeat(50_000).as_slice(), Cond::NONE, Access::Latest).wait().unwrap();
    let data = scratch.folder.join("pool/target-0/data");
    let bytes = std::fs::read(&data).unwrap();
    let at = bytes.windows(8).position(|part| part == b"onceonce").unwrap() as u64 + 150_000;
    let data = File::options().write(true).open(data).unwrap();
    data.write_all_at(b"X", at).unwrap();
    for may_copy in [true, false] {
        let error = kv.view(b"a", may_copy, Access::Latest).wait().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Checksum);
    }
}

#[test]
fn views_are_limited_and_share_a_file_per_segment() {
    let _alone = VIEWS.write().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new(Path::new("/dev/shm"));
    let container = scratch.container();
    let kv = kv(&container);
    put(&kv, "a", 1).unwrap();
    let files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = files();
    let one = || kv.view(b"a", true, Access::Latest).wait();
    let mut views = Vec::new();
    let error = loop {
        match one() {
            Ok(view) => views.extend(view),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Overflow);
    assert!(error.message().contains("VIEWS_MAX"), "{error}");
    assert!(views.len() == VIEWS_MAX);
    assert!(files() < before + 50);
    views.pop();
    views.extend(one().unwrap());
    drop(views);
    assert!(is_all(&one().unwrap().unwrap(), 1));
}
