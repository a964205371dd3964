//! Path walks with prefetch, as on pools over nodes: one process caches path components, and another changes them.
use dfs::{Attr, Create, Dfs, Follow, MountOptions, NewDfs, Node, Open, Resolved};
use esker::backend::{NewContainer, OpenContainer, Reply};
use esker::types::info::OpenMode;
use esker::types::ops::{ReadLease, ReadTokens};
use esker::types::{ErrorKind, Result, Uuid};
use esker::{Native, Pool};
use esker_conformance::between::{Interceptor, PoolBetween};
use esker_nodes::{MAP_VERSION, Map, ShardedPool};
use esker_store::PoolSpec;
use esker_testing::wait_for;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A directory that is removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("esker-ahead-{}-{number}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Two mounts of a file system in a pool over one node, which is this one: its engine is not needed.
fn two_mounts(folder: &Folder) -> [Dfs; 2] {
    mounts(folder, |pool| pool)
}

/// Like [`two_mounts`], with a wrapper around the pool.
fn mounts(
    folder: &Folder,
    before: impl FnOnce(Arc<dyn esker::backend::Pool>) -> Arc<dyn esker::backend::Pool>,
) -> [Dfs; 2] {
    let mut spec = PoolSpec::new("part", 100 << 20);
    (spec.targets, spec.segment_bytes) = (Some(2), Some(8 << 20));
    let part = esker_store::Pool::create(&folder.0, &spec, &mut |_, _| {}).unwrap();
    let directory = folder.0.join("part");
    let native = Native::open(&directory, OpenMode::ReadWrite).unwrap();
    let node =
        json!({"name": "n0", "address": "127.0.0.1:1", "uuid": part.uuid, "directory": directory});
    let uuid = Uuid::from_random([1; 16]);
    let map = json!({"version": MAP_VERSION, "label": "pool", "uuid": uuid, "secret": "03".repeat(32),
                     "targets": 2, "nodes": [node]});
    let map = Map::parse(&map.to_string()).unwrap();
    let path = Map::path(&folder.0, "pool");
    let nodes = ShardedPool::open(&map, &path, vec![(0, Arc::new(native))]).unwrap();
    let pool = Pool::from_backend(before(Arc::new(nodes)), OpenMode::ReadWrite);
    assert!(pool.backend().capabilities().asynchronous);
    Dfs::create_container(&pool, &NewContainer::named("c"), &NewDfs::default()).unwrap();
    [(), ()].map(|()| {
        let container = esker::Wait::wait(pool.open_container("c", OpenMode::ReadWrite)).unwrap();
        Dfs::mount(container, MountOptions::default()).unwrap()
    })
}

fn attr(fs: &Dfs, path: &str) -> Result<Attr> {
    match fs.attr_step(&fs.root(), path.as_bytes(), Follow::All)? {
        Resolved::Node(attr) => Ok(attr),
        Resolved::Outside(_) => panic!("{path} leads out"),
    }
}

fn dir(parent: &Node, name: &str) -> Node {
    parent.mkdir(name.as_bytes(), &Create::with_mode(0o755)).unwrap()
}

/// A file with this many bytes.
fn file(parent: &Node, name: &str, len: usize) -> Node {
    let node = parent.create(name.as_bytes(), &Create::with_mode(0o644)).unwrap();
    node.open(Open::WRITE).unwrap().write_at(0, &vec![7; len]).unwrap();
    node
}

#[test]
fn cached_path_components_are_validated() {
    let folder = Folder::new();
    let [one, other] = two_mounts(&folder);
    let a = dir(&one.root(), "a");
    let b = dir(&a, "b");
    file(&b, "f", 3);
    for _ in 0..2 {
        assert_eq!(attr(&other, "/a/b/f").unwrap().size, 3);
    }

    let f = one.resolve(&one.root(), b"/a/b/f", Follow::All).unwrap();
    f.open(Open::WRITE).unwrap().write_at(0, &[1; 10]).unwrap();
    assert_eq!(attr(&other, "/a/b/f").unwrap().size, 10);

    b.unlink(b"f").unwrap();
    assert_eq!(attr(&other, "/a/b/f").unwrap_err().kind(), ErrorKind::NotFound);
    let new = file(&b, "f", 20);
    let found = attr(&other, "/a/b/f").unwrap();
    assert_eq!((found.size, found.oid), (20, new.oid()));
}

#[test]
fn directories_that_others_moved_are_not_followed() {
    let folder = Folder::new();
    let [one, other] = two_mounts(&folder);
    let a = dir(&one.root(), "a");
    file(&dir(&a, "b"), "f", 3);
    assert_eq!(attr(&other, "/a/b/f").unwrap().size, 3);

    a.rename(b"b", &a, b"old", Default::default()).unwrap();
    assert_eq!(attr(&other, "/a/b/f").unwrap_err().kind(), ErrorKind::NotFound);
    file(&dir(&a, "b"), "f", 4);
    assert_eq!(attr(&other, "/a/b/f").unwrap().size, 4);
    assert_eq!(attr(&other, "/a/old/f").unwrap().size, 3);

    one.root().rename(b"a", &one.root(), b"z", Default::default()).unwrap();
    assert_eq!(attr(&other, "/a/b/f").unwrap_err().kind(), ErrorKind::NotFound);
    one.root().symlink(b"a", b"z/old/..", &Create::with_mode(0o777)).unwrap();
    assert_eq!(attr(&other, "/a/b/f").unwrap().size, 4);
    assert_eq!(attr(&other, "/a/b/../old/f").unwrap().size, 3);
}

#[test]
fn directory_replaced_by_a_file_is_not_followed() {
    let folder = Folder::new();
    let [one, other] = two_mounts(&folder);
    file(&dir(&one.root(), "d"), "f", 3);
    assert_eq!(attr(&other, "/d/f").unwrap().size, 3);
    let d = one.root().lookup(b"d").unwrap();
    d.unlink(b"f").unwrap();
    one.root().rmdir(b"d").unwrap();
    file(&one.root(), "d", 5);
    assert_eq!(attr(&other, "/d/f").unwrap_err().kind(), ErrorKind::NotDirectory);
    assert_eq!(attr(&other, "/d").unwrap().size, 5);
    assert_eq!(attr(&other, "/d/").unwrap_err().kind(), ErrorKind::NotDirectory);
}

fn create(fs: &Dfs, path: &str) -> Result<Option<Node>> {
    fs.create_by_known_path(&fs.root(), path.as_bytes(), |_| Create::with_mode(0o644))
}

/// A mount sees many files correctly while another mount creates, changes and removes them.
#[test]
fn mount_sees_changes_to_many_files_by_another_mount() {
    let folder = Folder::new();
    let [one, other] = two_mounts(&folder);
    let d = dir(&one.root(), "d");
    let name = |number: usize| format!("f{number}");
    for number in 0..300 {
        file(&d, &name(number), number % 7);
    }
    for number in 0..300 {
        let path = format!("/d/{}", name(number));
        assert_eq!(attr(&other, &path).unwrap().size, number as u64 % 7);
        let changed = (number + 150) % 300;
        match number % 3 {
            0 => d
                .lookup(name(changed).as_bytes())
                .unwrap()
                .open(Open::WRITE)
                .unwrap()
                .set_len(9)
                .unwrap(),
            1 => d.unlink(name(changed).as_bytes()).unwrap(),
            _ => continue,
        }
        let found = attr(&other, &format!("/d/{}", name(changed)));
        match number % 3 {
            0 => assert_eq!(found.unwrap().size, 9),
            _ => assert_eq!(found.unwrap_err().kind(), ErrorKind::NotFound),
        }
        if changed > number {
            d.unlink(name(changed).as_bytes()).ok();
            file(&d, &name(changed), changed % 7);
        }
    }
}

#[test]
fn a_file_is_created_where_its_path_leads_by_then() {
    let folder = Folder::new();
    let [one, other] = two_mounts(&folder);
    let a = dir(&one.root(), "a");
    let b = dir(&a, "b");
    // The path is not in the cache yet, so the file is not created ahead.
    assert!(create(&other, "/a/b/first").unwrap().is_none());
    other.resolve(&other.root(), b"/a/b", Follow::All).unwrap();
    for name in ["first", "second"] {
        let made = create(&other, &format!("/a/b/{name}")).unwrap().expect(name);
        assert_eq!(b.lookup(name.as_bytes()).unwrap().oid(), made.oid());
    }
    // An existing file is not opened ahead: the caller resolves the path.
    assert!(create(&other, "/a/b/first").unwrap().is_none());
    file(&b, "theirs", 5);
    assert!(create(&other, "/a/b/theirs").unwrap().is_none());

    // The mode of `a` has changed: its inode is read again.
    a.set_attr(&dfs::SetAttr { mode: Some(0o2755), ..Default::default() }).unwrap();
    let made = create(&other, "/a/b/third").unwrap().unwrap();
    assert_eq!(made.parent().unwrap().parent().unwrap().inode().mode, 0o2755);

    // `b` was moved away: the file must not be made in it.
    a.rename(b"b", &one.root(), b"moved", Default::default()).unwrap();
    assert!(create(&other, "/a/b/fourth").unwrap().is_none());
    let new = dir(&a, "b");
    let made = create(&other, "/a/b/fourth").unwrap().unwrap();
    assert_eq!(new.lookup(b"fourth").unwrap().oid(), made.oid());
    let moved = one.resolve(&one.root(), b"/moved", Follow::All).unwrap();
    assert_eq!(moved.lookup(b"fourth").err().unwrap().kind(), ErrorKind::NotFound);

    // A file or a link in its place is none of the directories that were seen, nor is a removed one.
    new.unlink(b"fourth").unwrap();
    a.rmdir(b"b").unwrap();
    assert!(create(&other, "/a/b/fifth").unwrap().is_none());
    a.symlink(b"b", b"../moved", &Create::with_mode(0o777)).unwrap();
    assert!(create(&other, "/a/b/fifth").unwrap().is_none());
    assert!(create(&other, "/moved/../a/fifth").unwrap().is_none());
    assert!(create(&other, "/a/fifth/").unwrap().is_none());
}

/// Both mounts create files while the directory moves to and fro: each file is where the path led at some moment.
#[test]
fn files_are_created_while_their_directory_moves() {
    let folder = Folder::new();
    let [one, other] = two_mounts(&folder);
    let root = one.root();
    let here = dir(&root, "here");
    for round in 0..50 {
        other.resolve(&other.root(), b"/here", Follow::All).unwrap();
        assert!(create(&other, &format!("/here/a{round}")).unwrap().is_some());
        root.rename(b"here", &root, b"there", Default::default()).unwrap();
        assert!(create(&other, &format!("/here/b{round}")).unwrap().is_none());
        root.rename(b"there", &root, b"here", Default::default()).unwrap();
        // It is again at the path where it was seen.
        assert!(create(&other, &format!("/here/c{round}")).unwrap().is_some());
    }
    let names = here.read_names(&mut Default::default(), 1000).unwrap();
    assert_eq!(names.iter().count(), 100);
    assert!(names.iter().all(|name| name[0] != b'b'));
}

/// Counts the leases that are granted on what was read.
#[derive(Default)]
struct Leases(AtomicU32);

impl Interceptor for Leases {
    fn lease_reads<'a>(
        &'a self,
        of: &'a dyn OpenContainer,
        reads: &'a ReadTokens,
    ) -> Reply<'a, Option<ReadLease>> {
        Reply::Pending(Box::pin(async move {
            let lease = of.lease_reads(reads).await?;
            self.0.fetch_add(u32::from(lease.is_some()), Ordering::Relaxed);
            Ok(lease)
        }))
    }
}

/// A file whose size grows. A size that is seen is at least that of the finished writes, and at most that of the
/// started writes.
#[derive(Default)]
struct Growing {
    begun: AtomicU64,
    done: AtomicU64,
}

impl Growing {
    fn grow(&self, node: &Node) {
        let size = 1 + self.begun.fetch_add(1, Ordering::SeqCst);
        node.open(Open::WRITE).unwrap().set_len(size).unwrap();
        self.done.store(size, Ordering::SeqCst);
    }

    /// Reads the size by the path, and asserts that it is in the range of these writes.
    fn look(&self, fs: &Dfs, path: &str) {
        let done = self.done.load(Ordering::SeqCst);
        let size = attr(fs, path).unwrap().size;
        let begun = self.begun.load(Ordering::SeqCst);
        assert!((done..=begun).contains(&size), "{path}: {size}, not in {done}..={begun}");
    }
}

/// Entries that this process caches under leases are never older than the last change by others.
#[test]
fn cached_entries_reflect_the_latest_change_of_others() {
    const FILES: usize = 200;
    const ROUNDS: u32 = 12;
    let folder = Folder::new();
    let leases = Arc::new(Leases::default());
    let [one, other] = mounts(&folder, |pool| Arc::new(PoolBetween::before(pool, &leases)));
    let d = dir(&one.root(), "d");
    let files: Vec<Growing> = (0..FILES).map(|_| Growing::default()).collect();
    let path = |number: usize| format!("/d/f{number}");
    let nodes: Vec<Node> = (0..FILES).map(|number| file(&d, &format!("f{number}"), 0)).collect();
    let (rounds, looks) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let look = |first: usize| {
            let mut number = first;
            while rounds.load(Ordering::SeqCst) < ROUNDS {
                number = (number + 7) % FILES;
                files[number].look(&other, &path(number));
                looks.fetch_add(1, Ordering::SeqCst);
            }
        };
        scope.spawn(move || look(0));
        scope.spawn(move || look(100));
        // In between, only the others work, so that they get leases.
        for round in 0..ROUNDS {
            let until = looks.load(Ordering::SeqCst) + 2000;
            wait_for("the others", || looks.load(Ordering::SeqCst) >= until);
            for number in (0..FILES).filter(|number| number % 9 == round as usize % 9) {
                files[number].grow(&nodes[number]);
            }
            rounds.fetch_add(1, Ordering::SeqCst);
        }
    });
    assert!(leases.0.load(Ordering::Relaxed) > 0, "nothing was kept");
}
