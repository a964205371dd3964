//! Tensors as files of a file system, on pools of several kinds.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, missing_docs)]

use dfs::{Dfs, File, Follow, Kind, MountOptions, Node, Open};
use esker::types::info::OpenMode;
use esker::types::ops::Sink;
use esker::types::{ErrorKind, Extent};
use esker::{Access, Pool, PosixPool, Wait};
use esker_tensors::hdf5::Image;
use esker_tensors::{DataType, NewTensor, Strided, TensorStore};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A pool of files that is gone with the test.
struct Files(PathBuf);

impl Files {
    fn new() -> (Self, String) {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("esker-tensors-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        PosixPool::create(&path, false).unwrap();
        let url = format!("posix:{}", path.display());
        (Self(path), url)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a test on a store in memory, and on one of files.
fn each_kind(name: &str, test: impl Fn(&Pool, &TensorStore)) {
    let (_files, url) = Files::new();
    for url in [&format!("memory:tensors-{name}"), &url] {
        let pool = Pool::connect(url, OpenMode::ReadWrite).unwrap();
        test(&pool, &TensorStore::create(&pool, "t").unwrap());
    }
}

/// Stores a tensor of 40 x 30 elements. Another `salt` gives other elements.
fn put(store: &TensorStore, name: &str, salt: u8, chunks: Option<Vec<u64>>) {
    let new = NewTensor::new(DataType::parse("<u2").unwrap(), &[40, 30]);
    let elements: Vec<u8> = (0..2400).map(|at: u32| (at ^ at >> 8) as u8 ^ salt).collect();
    let elements = Strided::contiguous(&elements, &[40, 30], 2).unwrap();
    store.put(&NewTensor { chunks, ..new }, &elements, Some(name)).unwrap();
}

/// A tensor of more than one chunk of a file.
fn put_large(store: &TensorStore, name: &str) {
    let new = NewTensor::new(DataType::parse("<u8").unwrap(), &[700, 500]);
    let elements: Vec<u8> = (0..350_000u64).flat_map(|at| (at * at).to_le_bytes()).collect();
    store.put(&new, &Strided::contiguous(&elements, &[700, 500], 8).unwrap(), Some(name)).unwrap();
}

/// The names in a directory; those of directories end with a slash.
fn names(node: &Node) -> BTreeSet<String> {
    let mut entries = node.entries().unwrap();
    let mut names = BTreeSet::new();
    while let Some(entry) = entries.read().unwrap() {
        let name = String::from_utf8(entry.name).unwrap();
        let suffix = if entry.inode.kind == Kind::Directory { "/" } else { "" };
        assert!(names.insert(format!("{name}{suffix}")), "{name} twice");
    }
    names
}

fn find(fs: &Dfs, path: &str) -> Node {
    fs.resolve(&fs.root(), path.as_bytes(), Follow::All).unwrap()
}

/// The bytes that an export of a tensor writes.
fn exported(store: &TensorStore, name: &str) -> Vec<u8> {
    let image = Image::new(&store.open_tensor(name).unwrap()).unwrap();
    let mut bytes = vec![0; image.bytes() as usize];
    image.read(0, &mut bytes).unwrap();
    bytes
}

/// All bytes of a file.
fn whole(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.size().unwrap() as usize];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), bytes.len());
    bytes
}

/// The store `t` of the pool as a file system.
fn mounted(pool: &Pool) -> Dfs {
    esker_tensors::filesystem::mount(pool, "t", MountOptions::default()).unwrap()
}

#[test]
fn names_are_directories_and_files() {
    each_kind("names", |pool, store| {
        let long = "x".repeat(253);
        let shown =
            ["a", "run/1/boxes", "run/1/rows", "run/2", "run.h5/x", "b.h5", "b", "\u{e4} 1"];
        shown.iter().for_each(|name| put(store, name, 1, None));
        // A file system has no such names.
        ["/odd", "odd//x", "./x", "run/", "only/", &long]
            .iter()
            .for_each(|name| put(store, name, 1, None));
        let fs = mounted(pool);
        let expected = ["a.h5", "b.h5", "b.h5.h5", "run/", "run.h5/", "odd/", "\u{e4} 1.h5"];
        assert_eq!(names(&fs.root()), expected.map(str::to_owned).into());
        assert_eq!(names(&find(&fs, "/run")), ["1/", "2.h5"].map(str::to_owned).into());
        assert_eq!(names(&find(&fs, "/run/1")), ["boxes.h5", "rows.h5"].map(str::to_owned).into());
        for path in [
            "/c.h5",
            "/run/1/none",
            "/run/1/boxes",
            "/ru",
            "/run/3",
            "/.h5",
            "/run/.h5",
            "/only",
            "/",
        ] {
            let found = fs.resolve(&fs.root(), path.as_bytes(), Follow::All);
            assert_eq!(found.is_ok(), path == "/", "{path}");
        }
    });
}

#[test]
fn a_file_hides_a_directory_of_its_name() {
    each_kind("hidden", |pool, store| {
        ["x", "x.h5/inner", "y.h5/inner"].iter().for_each(|name| put(store, name, 1, None));
        let fs = mounted(pool);
        assert_eq!(names(&fs.root()), ["x.h5", "y.h5/"].map(str::to_owned).into());
        assert_eq!(find(&fs, "/x.h5").kind(), Kind::File);
    });
}

#[test]
fn files_have_the_bytes_of_an_export() {
    each_kind("bytes", |pool, store| {
        put(store, "rows", 1, None);
        put(store, "in/boxes", 2, Some(vec![16, 7]));
        put_large(store, "large");
        let fs = mounted(pool);
        for name in ["rows", "in/boxes", "large"] {
            let (node, bytes) = (find(&fs, &format!("/{name}.h5")), exported(store, name));
            let attr = node.attr().unwrap();
            assert_eq!((attr.size, attr.mode), (bytes.len() as u64, 0o444));
            let file = node.open(Open::READ).unwrap();
            let mut read = vec![7; bytes.len() + 100];
            assert_eq!(file.read_at(0, &mut read).unwrap(), bytes.len());
            assert!(read[..bytes.len()] == bytes && read[bytes.len()..] == [7; 100], "{name}");
            for (at, length) in [(1, 1), (4000, 200), (bytes.len() / 2, 500), ((1 << 20) - 9, 20)] {
                let end = bytes.len().min(at + length);
                let part = bytes.get(at..end).unwrap_or_default();
                let mut read = vec![0; length];
                assert_eq!(file.read_at(at as u64, &mut read).unwrap(), part.len());
                assert_eq!(&read[..part.len()], part, "{name} at {at}");
            }
            let (first, second) = (&mut [0; 3][..], &mut [0; 5][..]);
            assert_eq!(file.read_vectored_at(4094, vec![first, second]).unwrap(), 8);
            assert_eq!([&*first, second].concat(), bytes[4094..4102]);
        }
    });
}

#[test]
fn changes_are_refused() {
    each_kind("changed", |pool, store| {
        put(store, "a", 1, None);
        let (fs, new) = (mounted(pool), dfs::Create::with_mode(0o644));
        let kinds = [
            fs.root().create(b"new", &new).map(drop),
            fs.root().mkdir(b"new", &new).map(drop),
            fs.root().unlink(b"a.h5"),
            find(&fs, "/a.h5").open(Open::WRITE).map(drop),
            fs.root().rename(b"a.h5", &fs.root(), b"b.h5", Default::default()).map(drop),
            find(&fs, "/a.h5").set_xattr(b"user.a", b"b", dfs::XattrMode::Any),
        ];
        for outcome in kinds {
            assert_eq!(outcome.unwrap_err().kind(), ErrorKind::ReadOnly);
        }
        assert!(find(&fs, "/a.h5").list_xattrs().unwrap().is_empty());
    });
}

#[test]
fn an_open_file_keeps_its_bytes_when_the_tensor_is_replaced() {
    each_kind("open", |pool, store| {
        put(store, "a", 1, None);
        let (fs, old) = (mounted(pool), exported(store, "a"));
        let file = find(&fs, "/a.h5").open(Open::READ).unwrap();
        put(store, "a", 2, None);
        let new = exported(store, "a");
        let read = |file: &dfs::File| {
            let mut bytes = vec![0; old.len()];
            file.read_at(0, &mut bytes).unwrap();
            bytes
        };
        assert!(old != new && read(&file) == old);
        assert!(read(&find(&fs, "/a.h5").open(Open::READ).unwrap()) == new);
        let data = store.container().object(file.node().oid());
        let epoch = || data.epoch(esker::Access::Latest).wait().unwrap().0;
        assert_ne!(epoch(), 0, "the space is kept");
        file.close().unwrap();
        // Pools of files do not see the leases of others: there a collection frees the space.
        assert!(epoch() == 0 || !pool.capabilities().shared_leases);
    });
}

#[test]
fn a_store_is_shown_as_it_was_at_a_snapshot() {
    let pool = Pool::connect("memory:tensors-snapshot", OpenMode::ReadWrite).unwrap();
    let store = TensorStore::create(&pool, "t").unwrap();
    put(&store, "a", 1, None);
    let old = exported(&store, "a");
    let epoch = store.container().create_snapshot("before").wait().unwrap();
    put(&store, "a", 2, None);
    put(&store, "b", 2, None);
    let options = MountOptions { read_only: false, snapshot: Some(epoch) };
    let fs = esker_tensors::filesystem::mount(&pool, "t", options).unwrap();
    assert_eq!(names(&fs.root()), ["a.h5".to_owned()].into());
    let mut read = vec![0; old.len()];
    find(&fs, "/a.h5").open(Open::READ).unwrap().read_at(0, &mut read).unwrap();
    assert!(read == old);
}

/// Lists many more entries than one batch has. Changes of the directory do not disturb a listing.
#[test]
fn large_directories_are_listed_in_parts() {
    let pool = Pool::connect("memory:tensors-large", OpenMode::ReadWrite).unwrap();
    let store = TensorStore::create(&pool, "t").unwrap();
    let new = NewTensor::new(DataType::parse("|u1").unwrap(), &[1]);
    let one = |name: &str| {
        store.put(&new, &Strided::contiguous(&[1], &[1], 1).unwrap(), Some(name)).unwrap();
    };
    (0..2500).for_each(|number| one(&format!("{number}")));
    (0..1500).for_each(|number| one(&format!("d{}/x{number}", number % 1200)));
    let fs = mounted(&pool);
    let files = (0..2500).map(|number| format!("{number}.h5"));
    let all: BTreeSet<_> = files.chain((0..1200).map(|number| format!("d{number}/"))).collect();
    assert!(names(&fs.root()) == all);
    let mut entries = fs.root().entries().unwrap();
    let first = entries.read().unwrap().unwrap();
    store.remove("999").unwrap();
    one("0000");
    let mut rest = 0;
    while entries.read().unwrap().is_some() {
        rest += 1;
    }
    assert_eq!((first.name, rest), (b"0.h5".to_vec(), all.len() - 2));
}

#[test]
fn container_without_files_or_tensors_is_refused() {
    let pool = Pool::connect("memory:tensors-neither", OpenMode::ReadWrite).unwrap();
    pool.create_container(&esker::backend::NewContainer::named("t")).wait().unwrap();
    let error =
        esker_tensors::filesystem::mount(&pool, "t", MountOptions::default()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().contains("esker tensor put"), "{error}");
}

/// A name has attributes at any time, also while its tensor is being replaced.
#[test]
fn attributes_of_a_name_exist_while_its_tensor_is_replaced() {
    each_kind("replaced", |pool, store| {
        put(store, "a", 0, None);
        let fs = mounted(pool);
        std::thread::scope(|scope| {
            let replacing =
                scope.spawn(|| (0..200).for_each(|salt| put(store, "a", salt as u8, None)));
            while !replacing.is_finished() {
                let found = fs.attr_step(&fs.root(), b"/a.h5", Follow::All).unwrap();
                assert!(matches!(found, dfs::Resolved::Node(attr) if attr.size > 2400));
                let (_, attr) = fs.root().lookup_with_attr(b"a.h5").unwrap();
                assert!(attr.size > 2400);
            }
        });
    });
}

#[test]
fn a_file_that_was_replaced_is_gone_or_has_no_name() {
    each_kind("gone", |pool, store| {
        put(store, "a", 1, None);
        let fs = mounted(pool);
        let (read, unread) =
            (fs.root().lookup(b"a.h5").unwrap(), fs.root().lookup(b"a.h5").unwrap());
        let open = read.open(Open::READ).unwrap();
        put(store, "a", 2, None);
        assert_eq!(unread.attr().unwrap().nlink, 0);
        drop(open);
        if store.container().capabilities().shared_leases {
            assert_eq!(unread.attr().unwrap_err().kind(), ErrorKind::NotFound);
        }
    });
}

/// A child reads an inherited open file by its object id, and never looked up the name.
#[test]
fn open_file_is_read_by_id_after_it_was_replaced() {
    each_kind("inherited", |pool, store| {
        put(store, "a", 1, None);
        let (parent, child) = (mounted(pool), mounted(pool));
        let open = parent.root().lookup(b"a.h5").unwrap().open(Open::READ).unwrap();
        let old = whole(&open);
        put(store, "a", 2, None);
        let attributes = open.array().attributes();
        let inherited =
            child.container().open_array_with_attributes(open.array().oid(), attributes).unwrap();
        let read = |into: &mut Vec<u8>| {
            let range = [Extent::new(0, into.len() as u64)];
            inherited.read(&range, Sink::One(into), Access::Latest).wait().map(drop)
        };
        let mut bytes = vec![0; old.len()];
        read(&mut bytes).unwrap();
        assert!(bytes == old);
        assert_eq!(inherited.size(Access::Latest).wait().unwrap(), old.len() as u64);
        assert!(whole(&open) == old);
        drop(open);
        if store.container().capabilities().shared_leases {
            let error = read(&mut bytes).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            assert!(error.message().contains("open it again by its name"), "{error}");
        }
    });
}
