//! Trees of the host with everything odd in them, and their comparison.
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, XattrFlags};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

fn set_mtime(path: &Path, tv_sec: i64, tv_nsec: i64) {
    let time = Timespec { tv_sec, tv_nsec };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// Makes a tree with odd names, sizes, modes, times, links, holes and attributes.
pub(crate) fn make_odd_tree(top: &Path) {
    std::fs::create_dir_all(top.join("empty dir")).unwrap();
    let long = "n".repeat(255);
    let names =
        [&b"with space"[..], b"new\nline", b"not utf-8 \xff\xfe", long.as_bytes(), b"-rf", b"*"];
    for (number, name) in names.iter().enumerate() {
        std::fs::write(top.join(OsStr::from_bytes(name)), super::support::noise(number * 1000))
            .unwrap();
    }
    let deep = top.join("d/".repeat(100));
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("leaf"), b"deep down").unwrap();
    let sparse = std::fs::File::create(top.join("sparse")).unwrap();
    sparse.set_len(30 << 20).unwrap();
    sparse.write_all_at(&super::support::noise(100_000), 12_345_678).unwrap();
    sparse.write_all_at(b"start", 0).unwrap();
    symlink("nowhere", top.join("dangling")).unwrap();
    symlink("/etc/passwd", top.join("absolute")).unwrap();
    symlink("d/d", top.join("to a directory")).unwrap();
    set_mtime(&top.join("dangling"), 1_000_000, 7);
    for (number, mode) in [0, 0o400, 0o777, 0o4755, 0o1644].into_iter().enumerate() {
        let path = top.join(format!("mode {mode:o}"));
        std::fs::write(&path, b"mode").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        set_mtime(&path, -(number as i64) * 1_000_000_000, 123_456_789);
    }
    let closed = top.join("closed dir");
    std::fs::create_dir(&closed).unwrap();
    std::fs::write(closed.join("inside"), b"inside").unwrap();
    for (path, name) in [(top.join("with space"), "user.one"), (closed.clone(), "user.two")] {
        // Not every file system has attributes of users.
        let _ = rustix::fs::lsetxattr(&path, name, b"value \xff", XattrFlags::empty());
        let _ = rustix::fs::lsetxattr(&path, "user.empty", b"", XattrFlags::empty());
    }
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o500)).unwrap();
    set_mtime(&closed, -5, 5);
    set_mtime(top, 77, 77);
}

/// Attributes and content of a file, directory or symbolic link.
#[derive(Debug, PartialEq, Eq)]
struct Attributes {
    mode: u32,
    owner: (u32, u32),
    size: u64,
    mtime: (i64, i64),
    target: Option<PathBuf>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    content: Option<Vec<u8>>,
}

fn xattrs(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0u8; 4096];
    let len = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
    let value = |name: &[u8]| {
        let mut value = vec![0u8; 4096];
        let len = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
        value.truncate(len);
        (name.to_vec(), value)
    };
    let names = names[..len].split(|byte| *byte == 0).filter(|name| name.starts_with(b"user."));
    names.map(value).collect()
}

fn read_attributes(path: &Path) -> Attributes {
    let meta = path.symlink_metadata().unwrap();
    Attributes {
        mode: meta.mode(),
        owner: (meta.uid(), meta.gid()),
        size: if meta.is_dir() { 0 } else { meta.len() },
        mtime: (meta.mtime(), meta.mtime_nsec()),
        target: std::fs::read_link(path).ok(),
        xattrs: xattrs(path),
        content: meta.is_file().then(|| std::fs::read(path).ok()).flatten(),
    }
}

/// Everything in a tree by its path.
fn all(top: &Path) -> BTreeMap<PathBuf, Attributes> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![top.to_path_buf()];
    while let Some(path) = waiting.pop() {
        if path.symlink_metadata().unwrap().is_dir() {
            waiting.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.insert(path.strip_prefix(top).unwrap().to_path_buf(), read_attributes(&path));
    }
    found
}

/// Compares the names, contents and attributes of all entries.
pub(crate) fn same_trees(one: &Path, other: &Path) {
    let (one, other) = (all(one), all(other));
    let names = |tree: &BTreeMap<PathBuf, Attributes>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&one), names(&other));
    for (path, attributes) in &one {
        assert!(
            *attributes == other[path],
            "{path:?}\n{:?}",
            (attributes.mode, attributes.mtime, &attributes.xattrs)
        );
    }
}
