//! Tests of the calls of the file system, on a pool in memory or on the pool over nodes that the environment names.
#![forbid(unsafe_code)]

use dfs::limits::{DEPTH_MAX, FILE_SIZE_MAX};
use dfs::{
    Check, Create, Dfs, Existing, Follow, Kind, MountOptions, NewDfs, Node, Open, Removal, Rename,
    RenameMode, SetAttr, Time, XattrMode, remove_many, rename_all,
};
use esker::backend::{Capabilities, NewContainer};
use esker::types::info::OpenMode;
use esker::types::{Epoch, ErrorKind, ObjectClass};
use esker::{Access, Wait};
use esker_conformance::place::Place;

const FILE: Create = Create {
    mode: 0o644,
    owner: None,
    exclusive: true,
    chunk_size: None,
    class: None,
    open: false,
};

/// A mount of a new file system.
fn mount_new(name: &str) -> Dfs {
    let place = create_file_system(name);
    Dfs::open(&place.url, &place.label, MountOptions::default()).unwrap()
}

/// A new file system.
fn create_file_system(name: &str) -> Place {
    let place = Place::new(name);
    let label = NewContainer::named(&place.label);
    Dfs::create_container(&place.pool(), &label, &NewDfs::default()).unwrap();
    place
}

/// Capabilities of the pool of the tests.
fn able() -> Capabilities {
    Place::new("able").pool().capabilities()
}

/// Creates a file with this content.
fn write(dir: &Node, name: &[u8], bytes: &[u8]) {
    let file = dir.create(name, &FILE).unwrap().open(Open::BOTH).unwrap();
    assert_eq!(file.write_at(0, bytes).unwrap(), bytes.len());
    file.close().unwrap();
}

/// The content of a file. The buffer is longer, so that a read past the end would show.
fn read(node: &Node) -> Vec<u8> {
    let file = node.open(Open::READ).unwrap();
    let mut bytes = vec![0; file.size().unwrap() as usize + 10];
    let len = file.read_at(0, &mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

fn kind<T>(result: esker::types::Result<T>) -> ErrorKind {
    result.err().expect("an error").kind()
}

/// The names in a directory, sorted.
fn names(dir: &Node) -> Vec<String> {
    let mut stream = dir.entries().unwrap();
    let entries = std::iter::from_fn(|| stream.read().unwrap());
    let mut names: Vec<_> = entries.map(|e| String::from_utf8(e.name).unwrap()).collect();
    names.sort();
    names
}

/// Files and directories are created and removed, and wrong uses fail with the errors of POSIX.
#[test]
fn files_and_directories_come_and_go() {
    let fs = mount_new("come-and-go");
    let root = fs.root();
    let dir = root.mkdir(b"dir", &Create::with_mode(0o750)).unwrap();
    write(&dir, b"file", b"hello");
    assert_eq!(read(&dir.lookup(b"file").unwrap()), b"hello");
    assert_eq!(kind(dir.create(b"file", &FILE)), ErrorKind::Exists);
    assert_eq!(kind(root.mkdir(b"dir", &FILE)), ErrorKind::Exists);
    assert_eq!(kind(root.rmdir(b"dir")), ErrorKind::NotEmpty);
    assert_eq!(kind(root.unlink(b"dir")), ErrorKind::IsDirectory);
    assert_eq!(kind(dir.rmdir(b"file")), ErrorKind::NotDirectory);
    assert_eq!(kind(dir.lookup(b"file").unwrap().lookup(b"x")), ErrorKind::NotDirectory);
    dir.unlink(b"file").unwrap();
    assert_eq!(kind(dir.unlink(b"file")), ErrorKind::NotFound);
    root.rmdir(b"dir").unwrap();
    assert_eq!(kind(dir.create(b"late", &FILE)), ErrorKind::NotFound);
    assert_eq!(names(&root), [""; 0]);
}

#[test]
fn special_names_are_refused_as_by_linux() {
    let fs = mount_new("special");
    let dir = fs.root().mkdir(b"dir", &FILE).unwrap();
    for name in [&b"."[..], b"..", b""] {
        assert_eq!(kind(dir.mkdir(name, &FILE)), ErrorKind::Exists);
        assert_eq!(kind(dir.create(name, &FILE)), ErrorKind::IsDirectory);
        assert_eq!(kind(dir.unlink(name)), ErrorKind::IsDirectory);
        assert_eq!(kind(dir.rename(name, &dir, b"x", RenameMode::Replace)), ErrorKind::Busy);
    }
    let rmdir =
        [(&b"."[..], ErrorKind::Invalid), (b"..", ErrorKind::NotEmpty), (b"", ErrorKind::Busy)];
    rmdir.into_iter().for_each(|(name, expected)| assert_eq!(kind(dir.rmdir(name)), expected));
    assert_eq!(kind(dir.mkdir(b"a/b", &FILE)), ErrorKind::Invalid);
    assert_eq!(kind(dir.mkdir(&[b'a'; 256], &FILE)), ErrorKind::NameTooLong);
    dir.mkdir(&[b'a'; 255], &FILE).unwrap();
}

/// Nothing could look up or remove an entry that is too deep.
#[test]
fn failed_creation_below_the_deepest_directory_leaves_no_entry() {
    let fs = mount_new("deepest");
    fs.root().create(b"file", &FILE).unwrap();
    let mut dir = fs.root();
    for _ in 0..DEPTH_MAX {
        dir = dir.mkdir(b"dir", &FILE).unwrap();
    }
    let too_long = ErrorKind::NameTooLong;
    assert_eq!(kind(dir.create(b"a", &FILE)), too_long);
    assert_eq!(kind(dir.mkdir(b"b", &FILE)), too_long);
    assert_eq!(kind(dir.symlink(b"c", b"target", &FILE)), too_long);
    assert_eq!(kind(fs.root().rename(b"file", &dir, b"d", RenameMode::Replace)), too_long);
    assert!(dir.is_empty().unwrap());
}

/// Attributes and extended attributes have the values that were set, also after a rename.
#[test]
fn attributes_are_kept() {
    let fs = mount_new("attributes");
    write(&fs.root(), b"f", &[1; 3000]);
    let node = fs.root().lookup(b"f").unwrap();
    let before = node.attr().unwrap();
    assert_eq!((before.size, before.nlink, before.full_mode()), (3000, 1, 0o100_644));
    let mtime = Time { seconds: -5, nanos: 7 };
    let set = SetAttr {
        mode: Some(0o4711),
        uid: Some(3),
        gid: Some(4),
        size: Some(10),
        mtime: Some(mtime),
        ..SetAttr::default()
    };
    node.set_attr(&set).unwrap();
    let after = node.attr().unwrap();
    assert_eq!((after.size, after.mode, after.uid, after.gid), (10, 0o4711, 3, 4));
    assert_eq!(after.mtime, mtime);
    assert!(after.ctime > before.ctime);
    node.change_xattrs(&[(b"user.b", b"2"), (b"user.c", b"3")], &[b"user.a"]).unwrap();
    node.change_xattrs(&[], &[b"user.b"]).unwrap();
    assert_eq!(node.list_xattrs().unwrap(), [b"user.c"]);
    node.change_xattrs(&[], &[b"user.c"]).unwrap();
    node.set_xattr(b"user.a", b"1", XattrMode::Create).unwrap();
    assert_eq!(kind(node.set_xattr(b"user.a", b"1", XattrMode::Create)), ErrorKind::Exists);
    assert_eq!(node.list_xattrs().unwrap(), [b"user.a".to_vec()]);
    fs.root().rename(b"f", &fs.root(), b"g", RenameMode::Replace).unwrap();
    let node = fs.root().lookup(b"g").unwrap();
    assert_eq!(node.get_xattr(b"user.a").unwrap(), b"1");
    node.remove_xattr(b"user.a").unwrap();
    assert_eq!(kind(node.get_xattr(b"user.a")), ErrorKind::NoAttribute);
}

#[test]
fn time_of_a_write_is_kept_if_another_process_changes_the_mode() {
    let fs = mount_new("times-and-modes");
    let other = Dfs::mount(fs.container().clone(), MountOptions::default()).unwrap();
    write(&fs.root(), b"f", b"1");
    let file = fs.root().lookup(b"f").unwrap().open(Open::BOTH).unwrap();
    let before = file.attr().unwrap().mtime;
    let write_later = || {
        // Nearer times count as equal.
        let start = std::time::Instant::now();
        while start.elapsed() < std::time::Duration::from_millis(20) {
            std::thread::yield_now();
        }
        file.write_at(0, b"2").unwrap();
        file.attr().unwrap().mtime
    };
    let written = write_later();
    assert!(written > before);
    let change = |set| other.root().lookup(b"f").unwrap().set_attr(&set).unwrap();
    change(SetAttr { mode: Some(0o600), ..SetAttr::default() });
    assert_eq!(file.attr().unwrap().mtime, written);
    file.sync().unwrap();
    let after = other.root().lookup(b"f").unwrap().attr().unwrap();
    assert_eq!((after.mtime, after.mode), (written, 0o600));
    assert!(after.ctime > written);
    // A time that another process sets is later than the write.
    write_later();
    let mtime = Time { seconds: -5, nanos: 7 };
    change(SetAttr { mtime: Some(mtime), ..SetAttr::default() });
    file.close().unwrap();
    assert_eq!(other.root().lookup(b"f").unwrap().attr().unwrap().mtime, mtime);
}

#[test]
fn moved_file_and_directory_are_found_while_in_use() {
    let fs = mount_new("moved");
    let root = fs.root();
    let dir = root.mkdir(b"dir", &FILE).unwrap();
    write(&root, b"f", b"1");
    let node = root.lookup(b"f").unwrap();
    let file = node.open(Open::BOTH).unwrap();
    root.rename(b"f", &dir, b"g", RenameMode::Replace).unwrap();
    root.rename(b"dir", &root, b"moved", RenameMode::Replace).unwrap();
    let mode = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    assert_eq!(file.set_attr(&mode).unwrap().mode, 0o600);
    assert_eq!(file.attr().unwrap().nlink, 1);
    node.set_xattr(b"user.a", b"1", XattrMode::Create).unwrap();
    assert_eq!(dir.lookup(b"g").unwrap().get_xattr(b"user.a").unwrap(), b"1");
    assert_eq!(dir.set_attr(&mode).unwrap().mode, 0o600);
    dir.set_xattr(b"user.b", b"2", XattrMode::Create).unwrap();
    assert_eq!(root.lookup(b"moved").unwrap().get_xattr(b"user.b").unwrap(), b"2");
}

#[test]
fn rename_replaces_exchanges_or_fails_by_its_mode() {
    let fs = mount_new("renames");
    let root = fs.root();
    let (a, b) = (root.mkdir(b"a", &FILE).unwrap(), root.mkdir(b"b", &FILE).unwrap());
    write(&a, b"x", b"from a");
    write(&b, b"y", b"from b");
    a.rename(b"x", &b, b"y", RenameMode::Exchange).unwrap();
    assert_eq!(read(&a.lookup(b"x").unwrap()), b"from b");
    assert_eq!(kind(a.rename(b"x", &b, b"y", RenameMode::NoReplace)), ErrorKind::Exists);
    a.rename(b"x", &b, b"y", RenameMode::Replace).unwrap();
    assert_eq!(read(&b.lookup(b"y").unwrap()), b"from b");
    assert_eq!(kind(root.rename(b"a", &a, b"z", RenameMode::Replace)), ErrorKind::Invalid);
    assert_eq!(kind(root.rename(b"a", &root, b"b", RenameMode::Replace)), ErrorKind::NotEmpty);
    root.rename(b"b", &root, b"a", RenameMode::Replace).unwrap();
    assert_eq!(names(&root), ["a"]);
    assert_eq!(names(&root.lookup(b"a").unwrap()), ["y"]);
}

#[test]
fn several_files_are_renamed_together_or_not_at_all() {
    let fs = mount_new("together");
    let root = fs.root();
    let dir = root.mkdir(b"dir", &FILE).unwrap();
    for name in [b"a", b"b", b"c"] {
        write(&root, name, name);
    }
    let rename = |name, to, new_name, mode| Rename { from: &root, name, to, new_name, mode };
    let to_new = |name, new_name| rename(name, &dir, new_name, RenameMode::NoReplace);
    rename_all(&[to_new(b"a", b"b"), to_new(b"b", b"a")]).unwrap();
    assert_eq!(names(&root), ["c", "dir"]);
    assert_eq!(names(&dir), ["a", "b"]);
    assert_eq!(read(&dir.lookup(b"b").unwrap()), b"a");
    write(&root, b"d", b"d");
    for (last, expected) in [
        (to_new(b"d", b"a"), ErrorKind::Exists),
        (to_new(b"gone", b"e"), ErrorKind::NotFound),
        (to_new(b"d", b"c"), ErrorKind::Invalid),
        (rename(b"dir", &root, b"e", RenameMode::NoReplace), ErrorKind::IsDirectory),
    ] {
        assert_eq!(kind(rename_all(&[to_new(b"c", b"c"), last])), expected);
        assert_eq!((names(&root).len(), names(&dir).len()), (3, 2));
    }
    let over = |name, new_name| rename(name, &dir, new_name, RenameMode::Replace);
    rename_all(&[over(b"c", b"a"), over(b"d", b"b")]).unwrap();
    assert_eq!(read(&dir.lookup(b"a").unwrap()), b"c");
    rename_all(&[]).unwrap();
}

#[test]
fn paths_are_resolved_through_symbolic_links() {
    let fs = mount_new("paths");
    let root = fs.root();
    let dir = root.mkdir(b"dir", &FILE).unwrap();
    write(&dir, b"f", b"found");
    root.symlink(b"link", b"dir/./f", &FILE).unwrap();
    dir.symlink(b"up", b"../link", &FILE).unwrap();
    dir.symlink(b"out", b"/etc/hosts", &FILE).unwrap();
    root.symlink(b"loop", b"loop", &FILE).unwrap();
    let find = |path: &[u8]| fs.resolve(&root, path, Follow::All);
    assert_eq!(read(&find(b"/dir/up").unwrap()), b"found");
    assert_eq!(read(&fs.resolve(&dir, b"../dir/../dir/f", Follow::All).unwrap()), b"found");
    assert_eq!(fs.resolve(&root, b"link", Follow::AllButLast).unwrap().kind(), Kind::Symlink);
    assert_eq!(kind(find(b"loop")), ErrorKind::Loop);
    assert_eq!(kind(find(b"link/")), ErrorKind::NotDirectory);
    fs.set_mount_point(b"/esker");
    let step = fs.resolve_step(&dir, b"out", Follow::All).unwrap();
    assert!(matches!(step, dfs::Resolved::Outside(path) if path == b"/etc/hosts"));
}

#[test]
fn attributes_by_path_are_current() {
    let fs = mount_new("by-path");
    let root = fs.root();
    let dir = root.mkdir(b"dir", &FILE).unwrap();
    root.symlink(b"link", b".", &FILE).unwrap();
    let mode = SetAttr { mode: Some(0o511), ..SetAttr::default() };
    root.lookup(b"dir").unwrap().set_attr(&mode).unwrap();
    for path in [&b"/dir"[..], b".", b"./", b"../dir/.", b"../link/../dir", b"/link/dir/"] {
        let dfs::Resolved::Node(attr) = fs.attr_step(&dir, path, Follow::All).unwrap() else {
            panic!("{path:?} leads out")
        };
        assert_eq!((attr.mode, attr.number()), (0o511, dir.inode().number()), "{path:?}");
    }
}

/// A path leads where it leads at that moment, however often it was followed before.
#[test]
fn path_leads_to_the_directory_that_another_mount_moved_there() {
    let place = create_file_system("moved-by-others");
    let mount = || Dfs::open(&place.url, &place.label, MountOptions::default()).unwrap();
    let (one, other) = (mount(), mount());
    let (root, replace) = (other.root(), RenameMode::Replace);
    for name in [&b"first"[..], b"second"] {
        let dir = root.mkdir(name, &FILE).unwrap().mkdir(b"below", &FILE).unwrap();
        write(&dir, b"f", name);
    }
    let find = |path: &[u8]| one.resolve(&one.root(), path, Follow::All);
    for name in [&b"first"[..], b"second"].iter().cycle().take(20) {
        root.rename(name, &root, b"now", replace).unwrap();
        for _ in 0..3 {
            assert_eq!(read(&find(b"/now/below/f").unwrap()), *name);
        }
        let mode = SetAttr { mode: Some(0o500), ..SetAttr::default() };
        let below = root.lookup(b"now").unwrap().lookup(b"below").unwrap();
        for mode in [mode, SetAttr { mode: Some(0o700), ..mode }] {
            below.set_attr(&mode).unwrap();
            assert_eq!(Some(find(b"/now/below/").unwrap().inode().mode), mode.mode);
        }
        root.rename(b"now", &root, name, replace).unwrap();
        assert_eq!(kind(find(b"/now/below/f")), ErrorKind::NotFound);
        root.symlink(b"now", name, &FILE).unwrap();
        assert_eq!(read(&find(b"/now/below/f").unwrap()), *name);
        root.unlink(b"now").unwrap();
    }
    for dir in [&b"first"[..], b"second"] {
        root.lookup(dir).unwrap().remove_tree(b"below").unwrap();
        assert_eq!(kind(find(&[b"/", dir, b"/below/f"].concat())), ErrorKind::NotFound);
    }
}

/// An open file that loses its name stays readable, and is freed by its close.
#[test]
fn a_removed_file_lives_until_it_is_closed() {
    let fs = mount_new("removed");
    write(&fs.root(), b"f", b"still here");
    let node = fs.root().lookup(b"f").unwrap();
    let file = node.open(Open::BOTH).unwrap();
    fs.root().unlink(b"f").unwrap();
    let mut bytes = [0; 10];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), 10);
    assert_eq!(&bytes, b"still here");
    assert_eq!(file.attr().unwrap().nlink, 0);
    let private = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    assert_eq!(file.set_attr(&private).unwrap(), file.attr().unwrap());
    assert_eq!((file.attr().unwrap().mode, file.attr().unwrap().nlink), (0o600, 0));
    file.close().unwrap();
    assert_eq!(kind(node.open(Open::READ)), ErrorKind::NotFound);
    let content = fs.container().object(node.oid());
    assert_eq!(content.epoch(Access::Latest).wait().unwrap(), Epoch(0));
}

/// True if a process that creates a file to open it has a lease that other processes see.
fn leases_new_files() -> bool {
    able().asynchronous || able().shared_leases
}

/// If the creator has a lease, it can open the file that another mount has removed. No content is left at the end.
#[test]
fn a_file_made_to_be_opened_may_be_removed_before_that() {
    let place = create_file_system("opened");
    let mount = || Dfs::open(&place.url, &place.label, MountOptions::default()).unwrap();
    let (one, other) = (mount(), mount());
    let new = Create { open: true, ..FILE };
    for number in 0..40 {
        let name = format!("f{number}").into_bytes();
        let node = one.root().create(&name, &new).unwrap();
        assert_eq!(kind(one.root().create(&name, &new)), ErrorKind::Exists);
        other.root().unlink(&name).unwrap();
        let opened = node.open(Open::BOTH);
        // The creator has a lease on the file before the file has a name.
        assert_eq!(opened.is_ok(), leases_new_files());
        if let Ok(file) = opened {
            file.write_at(0, b"still here").unwrap();
            assert_eq!(file.attr().unwrap().nlink, 0);
            file.close().unwrap();
        }
        let content = one.container().object(node.oid());
        assert_eq!(content.epoch(Access::Latest).wait().unwrap(), Epoch(0), "file {number}");
    }
}

/// Over the network, a process releases a lease a moment after it closed the file.
#[test]
fn file_removed_by_another_mount_right_after_close_is_freed() {
    let place = create_file_system("closed");
    let mount = || Dfs::open(&place.url, &place.label, MountOptions::default()).unwrap();
    let (one, other) = (mount(), mount());
    let is_freed = |oid| {
        let content = other.container().object(oid);
        content.epoch(Access::Latest).wait().unwrap() == Epoch(0)
    };
    let remove = |name: &str| {
        let oid = other.root().lookup(name.as_bytes()).unwrap().oid();
        other.root().unlink(name.as_bytes()).unwrap();
        oid
    };
    let names: Vec<_> = (0..100).map(|number| format!("f{number}")).collect();
    names.iter().for_each(|name| write(&one.root(), name.as_bytes(), b"content"));
    for oid in names.iter().map(|name| remove(name)) {
        while !is_freed(oid) {
            std::thread::yield_now();
        }
    }
    write(&one.root(), b"flushed", b"content");
    let oid = remove("flushed");
    one.flush().unwrap();
    assert!(is_freed(oid));

    if !able().shared_leases {
        return;
    }
    write(&one.root(), b"open again", b"content");
    let file = one.root().lookup(b"open again").unwrap().open(Open::READ).unwrap();
    let oid = remove("open again");
    let mut bytes = [0; 7];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), 7);
    assert_eq!(&bytes, b"content");
    file.close().unwrap();
    one.flush().unwrap();
    assert!(is_freed(oid));

    write(&one.root(), b"removed", b"content");
    let oid = one.root().lookup(b"removed").unwrap().oid();
    one.root().unlink(b"removed").unwrap();
    assert!(is_freed(oid), "its own lease does not keep it");

    write(&one.root(), b"unmounted", b"content");
    let removed_before = remove("unmounted");
    write(&one.root(), b"unmounted", b"content");
    one.flush().unwrap();
    drop(one);
    assert!(is_freed(removed_before));
    assert!(is_freed(remove("unmounted")), "no lease outlives the mount");
}

#[test]
fn a_file_that_is_removed_and_never_opened_is_freed() {
    let place = create_file_system("unopened");
    let mount = || Dfs::open(&place.url, &place.label, MountOptions::default()).unwrap();
    let (one, other) = (mount(), mount());
    let node = one.root().create(b"f", &Create { open: true, ..FILE }).unwrap();
    let file = other.root().lookup(b"f").unwrap().open(Open::BOTH).unwrap();
    file.write_at(0, b"for a while").unwrap();
    file.close().unwrap();
    other.root().unlink(b"f").unwrap();
    let content = one.container().object(node.oid());
    // The creator holds a lease as long as it may open the file.
    let is_there = content.epoch(Access::Latest).wait().unwrap() > Epoch(0);
    assert_eq!(is_there, leases_new_files());
    drop(node);
    assert_eq!(content.epoch(Access::Latest).wait().unwrap(), Epoch(0));
    assert!(one.file_in_use(content.oid()).is_err());
}

/// Holes read as zeros, count in the size, and are found by `SEEK_DATA` and `SEEK_HOLE`.
#[test]
fn files_have_holes() {
    let fs = mount_new("holes");
    let node = fs.root().create(b"f", &FILE).unwrap();
    let file = node.open(Open::BOTH).unwrap();
    file.write_at(3 << 20, b"end").unwrap();
    assert_eq!(file.size().unwrap(), (3 << 20) + 3);
    assert_eq!(file.attr().unwrap().blocks(), (3 << 11) + 1, "holes are counted");
    assert_eq!(file.seek_data(0).unwrap(), 3 << 20);
    assert_eq!(file.seek_hole(3 << 20).unwrap(), (3 << 20) + 3);
    assert_eq!(kind(file.seek_data(4 << 20)), ErrorKind::PastEnd);
    file.write_at(0, &[7; 100]).unwrap();
    file.punch(10, 4 << 20).unwrap();
    assert_eq!(file.size().unwrap(), (3 << 20) + 3);
    let mut bytes = [9; 20];
    assert_eq!(file.read_at((3 << 20) - 10, &mut bytes).unwrap(), 13);
    assert_eq!(bytes[..13], [0; 13]);
    file.set_len(5).unwrap();
    file.set_len(20).unwrap();
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), 20);
    assert_eq!(bytes, [7, 7, 7, 7, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_file_that_was_extended_ends_with_a_hole() {
    let fs = mount_new("extended");
    let file = fs.root().create(b"f", &FILE).unwrap().open(Open::BOTH).unwrap();
    file.write_at(0, b"data").unwrap();
    file.set_len(1 << 20).unwrap();
    assert_eq!(file.seek_data(3).unwrap(), 3);
    if !able().holes {
        return;
    }
    for past in [4, (1 << 20) - 1] {
        assert_eq!(kind(file.seek_data(past)), ErrorKind::PastEnd);
    }
    assert_eq!(file.seek_hole(0).unwrap(), 4);
    file.write_at((1 << 20) - 2, &[0; 2]).unwrap();
    assert_eq!(file.seek_data((1 << 20) - 1).unwrap(), (1 << 20) - 1);
    file.write_at((1 << 20) - 1, b"x").unwrap();
    assert_eq!(file.seek_data(4).unwrap(), (1 << 20) - 2);
}

/// Punching and seeking over petabytes takes no longer than the stored data demands.
#[test]
fn holes_may_be_much_longer_than_what_is_stored() {
    let fs = mount_new("long-holes");
    let file = fs.root().create(b"f", &FILE).unwrap().open(Open::BOTH).unwrap();
    file.write_at(5, b"start").unwrap();
    file.set_len(1 << 60).unwrap();
    file.write_at((1 << 50) + 5, b"kept").unwrap();
    file.punch(0, 1 << 50).unwrap();
    assert_eq!(file.size().unwrap(), 1 << 60);
    if able().holes {
        assert_eq!(file.seek_data(0).unwrap(), (1 << 50) + 5);
    }
    file.punch(1 << 50, (1 << 60) - (1 << 50)).unwrap();
    if able().holes {
        assert_eq!(kind(file.seek_data(0)), ErrorKind::PastEnd);
    }
    assert_eq!(file.size().unwrap(), 1 << 60);
}

/// Writes and appends over several chunks are read back.
#[test]
fn large_writes_cross_chunks() {
    let fs = mount_new("chunks");
    let new = Create { chunk_size: Some(4096), ..FILE };
    let file = fs.root().create(b"f", &new).unwrap().open(Open::BOTH).unwrap();
    let bytes: Vec<u8> = (0..20_000u32).map(|at| at as u8).collect();
    file.write_vectored_at(1000, &[&bytes[..7], &bytes[7..]]).unwrap();
    assert_eq!(file.append(&bytes).unwrap(), 21_000);
    let mut back = vec![1; 50_000];
    assert_eq!(file.read_at(0, &mut back).unwrap(), 41_000);
    assert_eq!((&back[..1000], &back[1000..21_000]), (&[0; 1000][..], &bytes[..]));
    assert_eq!(&back[21_000..41_000], &bytes);
}

/// An append that fails after its first 64 MiB returns a short count.
#[test]
fn failed_append_returns_the_bytes_that_it_appended() {
    let fs = mount_new("appended-partly");
    let file = fs.root().create(b"f", &FILE).unwrap().open(Open::BOTH).unwrap();
    let (piece, begin) = (64 << 20, FILE_SIZE_MAX - (64 << 20) - 10);
    file.set_len(begin).unwrap();
    let data = vec![1; piece + 11];
    assert_eq!(file.append_some(&data).unwrap(), (begin, piece));
    assert_eq!(file.size().unwrap(), begin + piece as u64);
    assert_eq!(kind(file.append_some(&data)), ErrorKind::FileTooBig);
    assert_eq!(kind(file.append(&data)), ErrorKind::FileTooBig);
}

#[test]
fn names_after_a_name_are_the_next_in_order() {
    // The names are in one shard, or spread over all.
    for class in [ObjectClass::S1, ObjectClass::SX] {
        let place = Place::new("names-after");
        let label = NewContainer::named(&place.label);
        let new = NewDfs { dir_class: Some(class), ..NewDfs::default() };
        Dfs::create_container(&place.pool(), &label, &new).unwrap();
        let fs = Dfs::open(&place.url, &place.label, MountOptions::default()).unwrap();
        let dir = fs.root().mkdir(b"d", &Create::with_mode(0o755)).unwrap();
        assert!(dir.names_after(b"", 3).unwrap().is_empty());
        let mut all = std::collections::BTreeSet::new();
        for number in 0..60u32 {
            let mut name = format!("{:02}", number * 37 % 60).into_bytes();
            name.extend(if number % 7 == 0 { &b"\xff\xff"[..] } else { b"" });
            dir.create(&name, &FILE).unwrap();
            all.insert(name);
            // With one name, two, and many.
            for after in [&b""[..], b"0", b"30", b"30\xff", b"\xff", &[0xff; 255]] {
                for most in [1, 2, 7, 100] {
                    let expected = all.iter().filter(|name| &name[..] > after).take(most);
                    let expected: std::collections::BTreeSet<_> = expected.cloned().collect();
                    let found = dir.names_after(after, most).unwrap();
                    assert_eq!(found, expected, "{class:?} {number} {after:?} {most}");
                }
            }
        }
    }
}

#[test]
fn listing_continues_at_the_position_it_seeks_to() {
    let fs = mount_new("listings");
    let dir = fs.root().mkdir(b"many", &FILE).unwrap();
    for number in 0..3000 {
        dir.create(format!("{number:05}").as_bytes(), &FILE).unwrap();
    }
    assert_eq!(names(&dir).len(), 3000);
    let mut stream = dir.entries().unwrap();
    let mut seen = Vec::new();
    while stream.tell() < 2500 {
        seen.push(stream.read().unwrap().unwrap().name);
    }
    stream.seek(1500);
    assert_eq!(stream.read().unwrap().unwrap().name, seen[1500]);
    stream.seek(2499);
    assert_eq!(stream.read().unwrap().unwrap().name, seen[2499]);
    assert_eq!(std::iter::from_fn(|| stream.read().unwrap()).count(), 500);
    stream.seek(0);
    assert_eq!(stream.read().unwrap().unwrap().name, seen[0]);
}

#[test]
fn removed_entries_do_not_move_positions_of_a_listing() {
    let fs = mount_new("positions");
    let dir = fs.root().mkdir(b"many", &FILE).unwrap();
    for number in 0..3000 {
        dir.create(format!("{number:05}").as_bytes(), &FILE).unwrap();
    }
    let mut stream = dir.entries().unwrap();
    let seen: Vec<_> =
        std::iter::from_fn(|| stream.read().unwrap()).map(|entry| entry.name).collect();
    for name in seen[..100].iter().chain(&seen[1100..1200]) {
        dir.unlink(name).unwrap();
    }
    for position in [1000, 2000, 1200, 1150, 50, 2999, 2000] {
        stream.seek(position as u64);
        let rest = std::iter::from_fn(|| stream.read().unwrap()).map(|entry| entry.name);
        let is_left = |at: &usize| !matches!(at, 0..100 | 1100..1200);
        let expected = (position..3000).filter(is_left).map(|at| seen[at].clone());
        assert!(rest.eq(expected), "the rest from {position} on");
    }
}

#[test]
fn remove_tree_removes_all_entries() {
    let fs = mount_new("trees");
    let mut dir = fs.root().mkdir(b"top", &FILE).unwrap();
    for _ in 0..20 {
        write(&dir, b"file", b"x");
        dir.symlink(b"link", b"nowhere", &FILE).unwrap();
        dir = dir.mkdir(b"below", &FILE).unwrap();
    }
    assert_eq!(fs.root().remove_tree(b"top").unwrap(), 61);
    assert!(fs.root().is_empty().unwrap());
}

/// The removal of a file or directory without a condition.
fn removal<'a>(dir: &'a Node, name: &'a [u8], is_directory: bool) -> Removal<'a> {
    Removal { dir, name, is_directory, check: None }
}

#[test]
fn many_removals_have_a_result_each() {
    let fs = mount_new("many-removals");
    let (root, dir) = (fs.root(), fs.root().mkdir(b"dir", &FILE).unwrap());
    for (dir, name) in [(&root, b"a"), (&root, b"kept"), (&dir, b"b")] as [(&Node, &[u8]); 3] {
        write(dir, name, b"content");
    }
    root.mkdir(b"empty", &FILE).unwrap();
    root.symlink(b"link", b"dir", &FILE).unwrap();
    let refuse: Check<'_> = &|existing: Option<Existing<'_>>| match existing {
        Some(_) => Err(esker::types::Error::new(ErrorKind::Canceled, "kept")),
        None => Ok(()),
    };
    let kept = Removal { check: Some(refuse), ..removal(&root, b"kept", false) };
    let wanted = [
        (removal(&root, b"a", false), None),
        (removal(&root, b"none", false), Some(ErrorKind::NotFound)),
        (removal(&root, b"dir", false), Some(ErrorKind::IsDirectory)),
        (removal(&root, b"dir", true), Some(ErrorKind::NotEmpty)),
        (removal(&root, b"link", true), Some(ErrorKind::NotDirectory)),
        (kept, Some(ErrorKind::Canceled)),
        (removal(&dir, b"b", false), None),
        (removal(&root, b"empty", true), None),
        // A second removal of the same name comes after the first.
        (removal(&root, b"a", false), Some(ErrorKind::NotFound)),
        (removal(&root, b"link", false), None),
        (removal(&root, b"..", false), Some(ErrorKind::IsDirectory)),
        (removal(&root, &[b'n'; 300], false), Some(ErrorKind::NameTooLong)),
        (removal(&root, b"dir", true), None),
    ];
    let removals: Vec<_> = wanted.iter().map(|(removal, _)| *removal).collect();
    let results = remove_many(&removals);
    let results: Vec<_> =
        results.iter().map(|result| result.as_ref().err().map(|e| e.kind())).collect();
    let kinds: Vec<_> = wanted.iter().map(|(_, kind)| *kind).collect();
    assert_eq!(results, kinds);
    assert_eq!(names(&root), ["kept"]);
}

#[test]
fn open_file_removed_with_others_is_readable_until_close() {
    let fs = mount_new("many-open");
    let root = fs.root();
    for name in [b"a", b"b", b"c"] {
        write(&root, name, b"content");
    }
    let nodes = [b"a", b"b", b"c"].map(|name| root.lookup(name).unwrap());
    let is_freed = |node: &Node| {
        fs.container().object(node.oid()).epoch(Access::Latest).wait().unwrap() == Epoch(0)
    };
    let open = nodes[1].open(Open::READ).unwrap();
    let removals = nodes.each_ref().map(|node| removal(&root, node.name(), false));
    assert!(remove_many(&removals).iter().all(Result::is_ok));
    assert_eq!(names(&root), [""; 0]);
    assert_eq!(nodes.each_ref().map(is_freed), [true, false, true]);
    let mut bytes = [0; 7];
    assert_eq!((open.read_at(0, &mut bytes).unwrap(), &bytes), (7, b"content"));
    open.close().unwrap();
    fs.flush().unwrap();
    assert!(is_freed(&nodes[1]));
}

#[test]
fn read_only_mount_refuses_changes() {
    let place = create_file_system("read-only");
    let fs = Dfs::open(&place.url, &place.label, MountOptions::default()).unwrap();
    write(&fs.root(), b"f", b"1");
    let options = MountOptions { read_only: true, ..Default::default() };
    let fs = Dfs::open(&place.url, &place.label, options).unwrap();
    assert_eq!(read(&fs.root().lookup(b"f").unwrap()), b"1");
    assert_eq!(kind(fs.root().create(b"g", &FILE)), ErrorKind::ReadOnly);
    assert_eq!(kind(fs.root().unlink(b"f")), ErrorKind::ReadOnly);
    assert_eq!(kind(fs.root().lookup(b"f").unwrap().open(Open::BOTH)), ErrorKind::ReadOnly);
}

/// A node that moved since its lookup has outdated ancestors. A rename through it must not move a directory below
/// itself.
#[test]
fn directory_cannot_move_below_itself_through_a_moved_node() {
    let fs = mount_new("below-itself");
    let root = fs.root();
    let mkdir = |dir: &Node, name: &[u8]| dir.mkdir(name, &Create::with_mode(0o755)).unwrap();
    let (a, c) = (mkdir(&root, b"a"), mkdir(&root, b"c"));
    let moving = mkdir(&c, b"x");
    c.rename(b"x", &a, b"x", RenameMode::Replace).unwrap();
    assert_eq!(kind(root.rename(b"a", &moving, b"a", RenameMode::Replace)), ErrorKind::NotFound);
    assert_eq!(names(&root), ["a", "c"]);
    assert_eq!(names(&a), ["x"]);
}

/// A condition that accepts any existing entry.
const ANYTHING: dfs::Check<'static> = &|_| Ok(());

/// Renames `from` to `to`, if `check` accepts the existing entry `to`, and sets the attribute `user.made`.
fn publish(root: &Node, from: &[u8], to: &[u8], check: dfs::Check<'_>) -> esker::types::Result<()> {
    let rename =
        Rename { from: root, name: from, to: root, new_name: to, mode: RenameMode::Replace };
    let xattrs = |inode: &dfs::Inode| {
        vec![(b"user.made".to_vec(), inode.mtime.seconds.to_string().into_bytes())]
    };
    dfs::Publish { rename, xattrs: &xattrs, check }.run()
}

#[test]
fn published_files_appear_with_their_attributes_or_not_at_all() {
    let fs = mount_new("namespace-publish");
    let root = fs.root();
    write(&root, b"part", b"new");
    write(&root, b"file", b"old");
    root.lookup(b"part").unwrap().set_xattr(b"user.made", b"by hand", XattrMode::Any).unwrap();
    root.lookup(b"file").unwrap().set_xattr(b"user.tag", b"7", XattrMode::Any).unwrap();

    let refuse = |found: Option<dfs::Existing<'_>>| {
        let found = found.expect("a file");
        assert_eq!(found.xattr(b"user.tag"), Some(&b"7"[..]));
        assert_eq!((found.xattr(b"user.none"), found.inode().kind), (None, Kind::File));
        Err(esker::types::Error::new(ErrorKind::Canceled, "refused"))
    };
    assert_eq!(kind(publish(&root, b"part", b"file", &refuse)), ErrorKind::Canceled);
    assert_eq!(names(&root), ["file", "part"]);
    assert_eq!(read(&root.lookup(b"file").unwrap()), b"old");
    assert_eq!(kind(root.unlink_if(b"file", &refuse)), ErrorKind::Canceled);

    publish(&root, b"part", b"file", ANYTHING).unwrap();
    assert_eq!(names(&root), ["file"]);
    let file = root.lookup(b"file").unwrap();
    assert_eq!(read(&file), b"new");
    assert_eq!(file.list_xattrs().unwrap(), [b"user.made"]);
    let made = file.get_xattr(b"user.made").unwrap();
    assert_eq!(made, file.inode().mtime.seconds.to_string().into_bytes());

    let missing = |found: Option<dfs::Existing<'_>>| {
        assert!(found.is_none());
        Ok(())
    };
    write(&root, b"part", b"");
    publish(&root, b"part", b"other", &missing).unwrap();
    root.unlink_if(b"other", ANYTHING).unwrap();
    assert_eq!(kind(root.unlink_if(b"other", ANYTHING)), ErrorKind::NotFound);
    root.mkdir(b"dir", &Create::with_mode(0o755)).unwrap();
    assert_eq!(kind(root.unlink_if(b"dir", ANYTHING)), ErrorKind::IsDirectory);
}

#[test]
fn entries_are_found_with_an_extended_attribute() {
    let fs = mount_new("namespace-entries-with-xattr");
    let root = fs.root();
    for name in [&b"short"[..], b"long", b"plain"] {
        write(&root, name, name);
    }
    let set = |name: &[u8], value: &[u8]| {
        root.lookup(name).unwrap().set_xattr(b"user.x", value, XattrMode::Any).unwrap();
    };
    let wanted = [&b"plain"[..], b"short", b"none"];
    set(b"short", b"1");
    let of = |names: &[&[u8]]| -> Vec<_> {
        let found = root.entries_with_xattr(names, b"user.x").unwrap();
        found.into_iter().map(|entry| entry.map(|(_, value)| value)).collect()
    };
    assert_eq!(of(&wanted), [Some(None), Some(Some(b"1".to_vec())), None]);
    let long = vec![7; 5000];
    set(b"long", &long);
    assert_eq!(of(&[b"short", b"long"]), [Some(Some(b"1".to_vec())), Some(Some(long.clone()))]);
    let (node, value) = root.lookup_with_xattr(b"long", b"user.x").unwrap();
    assert_eq!((node.oid(), value), (root.lookup(b"long").unwrap().oid(), Some(long)));
    assert_eq!(kind(root.lookup_with_xattr(b"none", b"user.x")), ErrorKind::NotFound);
}

#[test]
fn read_into_several_buffers_at_the_largest_size_is_short() {
    let fs = mount_new("namespace-largest-size");
    let node = fs.root().create(b"file", &FILE).unwrap();
    let file = node.open(Open::BOTH).unwrap();
    let at = FILE_SIZE_MAX - 6;
    file.write_at(at, b"island").unwrap();
    let (mut first, mut second) = ([0; 4], [0; 4]);
    let read = file.read_vectored_at(at, vec![&mut first, &mut second]).unwrap();
    assert_eq!((read, &first, &second[..2]), (6, b"isla", &b"nd"[..]));
    assert_eq!(file.read_vectored_at(FILE_SIZE_MAX, vec![&mut first, &mut second]).unwrap(), 0);
}

/// A pool whose free space is known. Its directory is removed at the end.
struct Native(std::path::PathBuf);

impl Native {
    /// A new pool with an empty file system.
    fn mount(name: &str) -> (Self, Dfs) {
        let name = format!("/dev/shm/esker-dfs-{name}-{}", std::process::id());
        let place = Self(std::path::PathBuf::from(name));
        let spec = esker_store::PoolSpec::new("tank", 96 << 20);
        esker_store::Pool::create(&place.0, &spec, &mut |_, _| {}).unwrap();
        let url = format!("esker:{}", place.0.join("tank").display());
        let pool = esker::Pool::connect(&url, OpenMode::ReadWrite).unwrap();
        Dfs::create_container(&pool, &NewContainer::named("fs"), &NewDfs::default()).unwrap();
        (place, Dfs::open(&url, "fs", MountOptions::default()).unwrap())
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn only_bytes_past_the_end_of_a_file_need_free_space() {
    let (_place, fs) = Native::mount("past-the-end");
    let file = fs.root().create(b"file", &FILE).unwrap().open(Open::BOTH).unwrap();
    let size = 512 << 20;
    file.write_at(0, b"content").unwrap();
    file.set_len(size).unwrap();
    file.allocate(0, size, false).unwrap();
    assert_eq!(kind(file.allocate(0, 2 * size, false)), ErrorKind::NoSpace);
    assert_eq!(kind(file.zero(0, 2 * size, false)), ErrorKind::NoSpace);
    let mut bytes = [0; 7];
    file.read_at(0, &mut bytes).unwrap();
    assert_eq!((&bytes, file.size().unwrap()), (b"content", size), "a failed zeroing");
    file.zero(0, size, false).unwrap();
    file.read_at(0, &mut bytes).unwrap();
    assert_eq!((bytes, file.size().unwrap()), ([0; 7], size));
}

/// A write that fills the pool returns the number of bytes that were written, which the file then has. The error comes
/// with the next write.
#[test]
fn write_that_fills_the_pool_returns_what_was_written() {
    let (_place, fs) = Native::mount("filled");
    let file = fs.root().create(b"file", &FILE).unwrap().open(Open::BOTH).unwrap();
    let piece = vec![7; 16 << 20];
    let parts = vec![&*piece; 12];
    let written = file.write_some_at(100, &parts).unwrap();
    assert!(written > 0 && written < parts.len() * piece.len(), "{written}");
    assert_eq!(file.size().unwrap(), 100 + written as u64);
    let mut last = [0];
    file.read_at(100 + written as u64 - 1, &mut last).unwrap();
    assert_eq!(last, [7]);
    assert_eq!(kind(file.write_some_at(100 + written as u64, &parts)), ErrorKind::NoSpace);
}
