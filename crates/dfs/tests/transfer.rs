//! Copies of trees, from the host to the host: what is copied, kept, left alone and refused.
use dfs::limits::FILE_SIZE_MAX;
use dfs::transfer::{self, Host, Inside, Options, Progress, Summary, Target};
use dfs::{Create, Dfs, INODE_AKEY, MountOptions, NewDfs, Open, SetAttr};
use esker::backend::NewContainer;
use esker::types::Extent;
use esker::types::ops::{Anchor, Cond, Fetch, Sink, Source, Update, Value};
use esker::{Access, Wait};
use rustix::fs::{self, CWD, Mode, Timespec, Timestamps, XattrFlags};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory that is gone with the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let dir = dir.join(format!("transfer-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(dir.join("from")).unwrap();
        Self(dir)
    }

    /// The path of an entry of the original.
    fn from(&self, name: &str) -> PathBuf {
        self.0.join("from").join(name)
    }

    /// The path of an entry of the copy.
    fn to(&self, name: &str) -> PathBuf {
        self.0.join("to").join(name)
    }

    /// Copies the directory `from` to `to`.
    fn copy(&self, options: &Options) -> Summary {
        let progress = Progress::default();
        let source: Arc<Path> = self.0.join("from").into();
        let dir: Arc<Path> = self.0.clone().into();
        let to = (&Host, Target::Name(&dir, b"to"));
        transfer::copy((&Host, &source), to, options, &progress).unwrap();
        progress.summary()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Sets the times of a file, not through a symbolic link.
fn set_mtime(path: &Path, tv_sec: i64, tv_nsec: i64) {
    let time = Timespec { tv_sec, tv_nsec };
    let times = Timestamps { last_access: time, last_modification: time };
    fs::utimensat(CWD, path, &times, fs::AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

#[test]
fn tree_is_copied_with_all_metadata() {
    let place = Place::new("tree");
    let deep = place.from(&"d/".repeat(50));
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("leaf"), b"deep").unwrap();
    let odd = std::ffi::OsStr::from_bytes(b"new\nline \xff");
    std::fs::write(place.0.join("from").join(odd), b"odd").unwrap();
    std::fs::write(place.from("empty"), b"").unwrap();
    set_mtime(&place.from("empty"), -1_000_000, 123_456_789);
    std::fs::set_permissions(place.from("empty"), PermissionsExt::from_mode(0o4701)).unwrap();
    symlink("/no/where", place.from("dangling")).unwrap();
    set_mtime(&place.from("dangling"), 5, 6);
    let _ = fs::lsetxattr(place.from("d"), "user.colour", b"blue", XattrFlags::empty());
    set_mtime(&place.from("d"), 7, 8);
    let summary = place.copy(&Options { verify: true, ..Options::default() });
    assert_eq!((summary.failed, summary.files, summary.directories), (0, 3, 51), "{summary:?}");
    assert_eq!((summary.links, summary.bytes, summary.bytes_verified), (1, 7, 7));
    let copied = std::fs::read(place.to(&"d/".repeat(50)).join("leaf")).unwrap();
    assert_eq!(copied, b"deep");
    assert_eq!(std::fs::read(place.0.join("to").join(odd)).unwrap(), b"odd");
    let empty = place.to("empty").metadata().unwrap();
    let seen = (empty.mtime(), empty.mtime_nsec(), empty.mode() & 0o7777);
    assert_eq!(seen, (-1_000_000, 123_456_789, 0o4701));
    let link = place.to("dangling").symlink_metadata().unwrap();
    assert_eq!((link.mtime(), link.mtime_nsec()), (5, 6));
    assert_eq!(std::fs::read_link(place.to("dangling")).unwrap(), Path::new("/no/where"));
    let dir = place.to("d").metadata().unwrap();
    assert_eq!((dir.mtime(), dir.mtime_nsec()), (7, 8));
    let mut value = [0; 8];
    if fs::lgetxattr(place.from("d"), "user.colour", &mut value).is_ok() {
        assert_eq!(fs::lgetxattr(place.to("d"), "user.colour", &mut value).unwrap(), 4);
    }
}

#[test]
fn complete_files_are_skipped_and_incomplete_ones_copied_again() {
    let place = Place::new("again");
    for name in ["same", "cut", "stale", "changed"] {
        std::fs::write(place.from(name), format!("what {name} holds")).unwrap();
        set_mtime(&place.from(name), 1_000, 0);
    }
    assert_eq!(place.copy(&Options::default()).files, 4);
    let resumed = place.copy(&Options::default());
    assert_eq!((resumed.files, resumed.skipped, resumed.failed), (0, 4, 0));
    std::fs::write(place.to("cut"), b"what").unwrap();
    set_mtime(&place.to("cut"), 1_000, 0);
    set_mtime(&place.to("stale"), 2_000, 0);
    // Only a comparison sees this one.
    std::fs::write(place.to("changed"), b"WHAT changed holds").unwrap();
    set_mtime(&place.to("changed"), 1_000, 0);
    let resumed = place.copy(&Options::default());
    assert_eq!((resumed.files, resumed.skipped, resumed.failed), (2, 2, 0));
    assert_eq!(std::fs::read(place.to("changed")).unwrap(), b"WHAT changed holds");
    let resumed = place.copy(&Options { verify: true, ..Options::default() });
    assert_eq!((resumed.files, resumed.skipped, resumed.failed), (1, 3, 0));
    for name in ["same", "cut", "stale", "changed"] {
        assert_eq!(
            std::fs::read(place.to(name)).unwrap(),
            std::fs::read(place.from(name)).unwrap()
        );
    }
}

/// A part for each hole of this size would take years.
#[test]
fn holes_of_any_size_are_passed_over() {
    let place = esker_conformance::place::Place::new("sparse");
    let label = NewContainer::named(&place.label);
    Dfs::create_container(&place.pool(), &label, &NewDfs::default()).unwrap();
    let fs = Dfs::open(&place.url, &place.label, MountOptions::default()).unwrap();
    let root = fs.root();
    let node = root.create(b"sparse", &Create::with_mode(0o644)).unwrap();
    let file = node.open(Open::BOTH).unwrap();
    let islands = [5, 1 << 40, (1 << 62) + 77];
    for at in islands {
        file.write_at(at, b"island").unwrap();
    }
    file.set_len(FILE_SIZE_MAX).unwrap();
    file.close().unwrap();
    let copy = |options: &Options| {
        let progress = Progress::default();
        let to = (&Inside, Target::Name(&root, &b"copy"[..]));
        transfer::copy((&Inside, &node), to, options, &progress).unwrap();
        progress.summary()
    };
    let verify = Options { verify: true, ..Options::default() };
    let summary = copy(&verify);
    assert_eq!((summary.failed, summary.files), (0, 1), "{summary:?}");
    assert_eq!(summary.bytes_passed, FILE_SIZE_MAX);
    let target = root.lookup(b"copy").unwrap().open(Open::BOTH).unwrap();
    assert_eq!(target.size().unwrap(), FILE_SIZE_MAX);
    for at in islands {
        let mut bytes = [0; 6];
        target.read_at(at, &mut bytes).unwrap();
        assert_eq!(&bytes, b"island", "at {at}");
    }
    let again = Options { resume: true, ..verify };
    assert_eq!(copy(&again).skipped, 1, "what is there is compared");
    let kept = node.attr().unwrap().mtime;
    target.write_at(1 << 50, b"else").unwrap();
    target.close().unwrap();
    let change = SetAttr { mtime: Some(kept), ..SetAttr::default() };
    root.lookup(b"copy").unwrap().set_attr(&change).unwrap();
    assert_eq!(copy(&again).skipped, 0, "data in a hole is seen");
}

#[test]
fn large_files_are_copied_in_parts_and_holes_stay_holes() {
    let place = Place::new("large");
    let len = 3 * transfer::PART_BYTES + 12_345;
    let file = std::fs::File::create(place.from("large")).unwrap();
    file.set_len(len).unwrap();
    for at in [0, 4096 * 777 + 1, transfer::PART_BYTES - 3, 2 * transfer::PART_BYTES, len - 6] {
        file.write_all_at(b"island", at).unwrap();
    }
    let options = Options { workers: 3, verify: true, ..Options::default() };
    let summary = place.copy(&options);
    assert_eq!((summary.failed, summary.files), (0, 1), "{summary:?}");
    assert_eq!(summary.bytes_passed, len);
    assert!(summary.bytes < 16 << 20, "holes were copied: {summary:?}");
    let (from, to) =
        (place.from("large").metadata().unwrap(), place.to("large").metadata().unwrap());
    assert_eq!((from.len(), from.mtime_nsec()), (to.len(), to.mtime_nsec()));
    assert!(to.blocks() <= from.blocks() + 64, "{} {}", from.blocks(), to.blocks());
    let same = |at: u64| {
        let read = |path| {
            let mut bytes = vec![0; 1 << 20];
            let file: std::fs::File = std::fs::File::open(path).unwrap();
            let count = file.read_at(&mut bytes, at).unwrap();
            bytes.truncate(count);
            bytes
        };
        read(place.from("large")) == read(place.to("large"))
    };
    assert!((0..len).step_by(1 << 20).all(same));
}

#[test]
fn entries_that_fail_are_listed_and_the_rest_is_copied() {
    let place = Place::new("refused");
    std::fs::write(place.from("fine"), b"fine").unwrap();
    std::fs::create_dir(place.from("blocked")).unwrap();
    std::fs::write(place.from("swapped"), b"file").unwrap();
    let fifo = Mode::from_raw_mode(0o600);
    fs::mknodat(CWD, place.from("pipe"), fs::FileType::Fifo, fifo, 0).unwrap();
    std::fs::create_dir_all(place.to("swapped")).unwrap();
    std::fs::write(place.to("blocked"), b"in the way").unwrap();
    let summary = place.copy(&Options::default());
    assert_eq!((summary.files, summary.failed, summary.stopped), (1, 3, false));
    let mut names: Vec<_> = summary
        .failures
        .iter()
        .map(|failure| {
            String::from_utf8_lossy(&failure.path).rsplit('/').next().unwrap().to_owned()
        })
        .collect();
    names.sort();
    assert_eq!(names, ["blocked", "pipe", "swapped"]);
    assert_eq!(std::fs::read(place.to("blocked")).unwrap(), b"in the way");
}

/// The owner may write to a copy only until it is complete.
#[test]
fn copies_without_attributes_have_the_modes_of_the_originals() {
    let place = Place::new("modes");
    let set = |path: PathBuf, mode| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };
    std::fs::create_dir_all(place.from("dir")).unwrap();
    std::fs::write(place.from("dir/read-only"), b"content").unwrap();
    set(place.from("dir/read-only"), 0o444);
    std::fs::create_dir_all(place.to("dir")).unwrap();
    std::fs::write(place.to("dir/there"), b"content").unwrap();
    set(place.to("dir/there"), 0o604);
    std::fs::write(place.from("dir/there"), b"other content").unwrap();
    set(place.from("dir/there"), 0o444);
    set(place.to("dir"), 0o500);
    let summary = place.copy(&Options { keep: false, mask: 0o022, ..Options::default() });
    assert_eq!((summary.files, summary.failed), (2, 0), "{summary:?}");
    let mode = |name| place.to(name).metadata().unwrap().mode() & 0o7777;
    // A file or directory that was there keeps its mode.
    let modes = [mode("dir"), mode("dir/read-only"), mode("dir/there")];
    assert_eq!(modes, [0o500, 0o444, 0o604]);
}

/// A new file system that has, beside the file `kept`, entries whose names the object API stored.
fn with_any_names(pool: &str, names: &[&[u8]]) -> Dfs {
    let place = esker_conformance::place::Place::new(pool);
    let label = NewContainer::named(&place.label);
    Dfs::create_container(&place.pool(), &label, &NewDfs::default()).unwrap();
    let fs = Dfs::open(&place.url, &place.label, MountOptions::default()).unwrap();
    let root = fs.root();
    root.create(b"kept", &Create::with_mode(0o644)).unwrap();
    let (object, mut inode, extents) =
        (fs.container().object(root.oid()), [0; 88], [Extent::new(0, 88)]);
    let mut fetch = Fetch::array(INODE_AKEY, 1, &extents, Sink::One(&mut inode));
    let fetches = std::slice::from_mut(&mut fetch);
    object.fetch(b"kept", Cond::NONE, fetches, Access::Latest).wait().unwrap();
    for name in names {
        let value = Value::Array { record_size: 1, extents: &extents, data: Source::One(&inode) };
        let updates = [Update { akey: INODE_AKEY, value, cond: Cond::NONE }];
        object.update(name, Cond::NONE, &updates, Access::Latest).wait().unwrap();
    }
    fs
}

#[test]
fn name_that_leads_out_of_the_target_is_not_copied() {
    let host = Place::new("names");
    let outside = host.0.join("outside");
    let fs = with_any_names("names", &[b"../outside", outside.as_os_str().as_bytes(), b".."]);
    let (progress, dir): (_, Arc<Path>) = (Progress::default(), host.0.clone().into());
    let to = (&Host, Target::Name(&dir, &b"to"[..]));
    transfer::copy((&Inside, &fs.root()), to, &Options::default(), &progress).unwrap();
    let summary = progress.summary();
    assert_eq!((summary.files, summary.failed), (1, 3), "{summary:?}");
    assert!(host.to("kept").exists() && !outside.exists());
}

#[test]
fn name_that_no_entry_can_have_is_not_listed() {
    let fs = with_any_names("listed-names", &[b"../x", b"/etc/x", b"..", b"a/b", &[b'x'; 256]]);
    let (root, mut anchor) = (fs.root(), Anchor::Start);
    let (mut names, mut stored) = (Vec::new(), 0);
    while !anchor.is_end() {
        let found = root.read_dir(&mut anchor, 1).unwrap();
        names.extend(found.into_iter().map(|entry| entry.name));
    }
    let mut entries = root.entries().unwrap();
    while let Some(entry) = entries.read().unwrap() {
        names.push(entry.name);
    }
    assert_eq!(names, [b"kept", b"kept"]);
    let mut anchor = Anchor::Start;
    while !anchor.is_end() {
        stored += root.read_stored_names(&mut anchor, 9).unwrap().len();
    }
    assert_eq!(stored, 6);
    assert!(!root.is_empty().unwrap());
}
