//! Paths whose steps are asked for at once, as on pools over nodes: what one process has seen of them, another changes.
use dfs::{Attr, Create, Dfs, Follow, MountOptions, NewDfs, Node, Open, Resolved};
use esker::backend::NewContainer;
use esker::types::info::OpenMode;
use esker::types::{ErrorKind, Result, Uuid};
use esker::{Native, Pool};
use esker_nodes::{MAP_VERSION, Map, Nodes};
use esker_store::PoolSpec;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

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
    let nodes = Nodes::open(&map, &path, vec![(0, Arc::new(native))]).unwrap();
    let pool = Pool::from_backend(Arc::new(nodes), OpenMode::ReadWrite);
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
fn what_was_seen_on_a_path_is_no_answer() {
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
fn a_directory_that_became_a_file_is_none() {
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
