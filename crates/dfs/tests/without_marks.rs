//! File systems on pools whose layouts programs of DAOS read: directories have no marks there. The pools are one in
//! memory, and that of a DAOS system that the environment names (`scripts/daos.sh`).
#![forbid(unsafe_code)]

use dfs::check::{CheckOptions, check};
use dfs::{Create, Dfs, Kind, MountOptions, NewDfs, Node, Open, RenameMode, SetAttr};
use esker::backend::{Capabilities, NewContainer};
use esker::copy::{Options, Progress, copy};
use esker::types::info::OpenMode;
use esker::types::ops::{Cond, Fetch, ListLimit, Sink, Source, Update, Value};
use esker::types::{ErrorKind, Extent, ObjectClass, ObjectId, ObjectType, Result};
use esker::{Access, Container, Pool, Wait};
use esker_conformance::{declaring, place};
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of races in a test.
const ROUNDS: usize = 60;

const DIR: Create = Create {
    mode: 0o755,
    owner: None,
    exclusive: true,
    chunk_size: None,
    class: None,
    open: false,
};

/// A new file system on a pool.
struct Place {
    pool: Pool,
    label: String,
}

impl Place {
    /// Creates the file system.
    fn new(pool: Pool) -> Self {
        let label = new_label();
        Dfs::create_container(&pool, &NewContainer::named(&label), &NewDfs::default()).unwrap();
        Self { pool, label }
    }

    fn container(&self) -> Container {
        self.pool.open_container(&self.label, OpenMode::ReadWrite).wait().unwrap()
    }

    /// Mounts it, as another process does.
    fn mount(&self) -> Dfs {
        Dfs::mount(self.container(), MountOptions::default()).unwrap()
    }

    /// A copy of the container in a pool.
    fn copied_to(&self, pool: &Pool) -> Self {
        let (label, options) = (new_label(), Options::default());
        copy(&self.container(), pool, &label, &options, &Progress::default()).unwrap();
        Self { pool: pool.clone(), label }
    }

    /// Checks that there is no damage and no leftover.
    fn expect_whole(&self) {
        let options = CheckOptions { data: true, ..CheckOptions::default() };
        let report = check(&self.container(), options, &mut |_| {}).unwrap();
        assert!(report.is_whole() && report.leftovers.count() == 0, "{report:?}");
    }

    /// Objects with a dkey `/`, except the superblock.
    fn marks(&self) -> usize {
        let (container, mut anchor, mut marks) = (self.container(), dfs::Anchor::Start, 0);
        while !anchor.is_end() {
            let objects = container.list_objects(&mut anchor, 100, Access::Latest).wait().unwrap();
            let is_superblock = |oid: &ObjectId| (oid.hi as u32, oid.lo) == (0, 0);
            let has_mark = |oid: &ObjectId| keys(&container, *oid).contains(&b"/".to_vec());
            marks += objects.iter().filter(|oid| !is_superblock(oid) && has_mark(oid)).count();
        }
        marks
    }
}

/// A label that no other run uses.
fn new_label() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let nanos = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    format!("without-marks-{}-{nanos}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The dkeys of an object of the type of directories; none for other types.
fn keys(container: &Container, oid: ObjectId) -> Vec<Vec<u8>> {
    let (object, mut anchor, mut all) = (container.object(oid), dfs::Anchor::Start, Vec::new());
    while !anchor.is_end() && oid.object_type() == Some(ObjectType::MultiHashed) {
        let limit = ListLimit::entries(100);
        let keys = object.list_dkeys(&mut anchor, limit, Access::Latest).wait().unwrap();
        all.extend(keys.iter().map(<[u8]>::to_vec));
    }
    all
}

/// A pool in memory whose layouts are fixed.
fn memory() -> Pool {
    declaring::memory(|able| Capabilities { fixed_layouts: true, ..able })
}

/// Runs a test on each pool.
fn on_each(test: impl Fn(Pool)) {
    test(memory());
    match std::env::var("ESKER_TEST_DAOS") {
        Ok(url) => test(Pool::connect(&url, OpenMode::ReadWrite).unwrap()),
        Err(_) => esker_testing::skip("ESKER_TEST_DAOS names no DAOS pool (scripts/daos.sh)"),
    }
}

/// A file of one target, which fits any pool of DAOS.
fn write(dir: &Node, name: &[u8], bytes: &[u8]) {
    let new = Create { class: Some(ObjectClass::S1), ..DIR };
    let file = dir.create(name, &new).unwrap().open(Open::BOTH).unwrap();
    file.write_at(0, bytes).unwrap();
    file.close().unwrap();
}

fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

/// A directory, with directories and a file in it.
fn fill(root: &Node) -> Node {
    let dir = root.mkdir(b"dir", &DIR).unwrap();
    dir.mkdir(b"empty", &DIR).unwrap();
    write(&dir.mkdir(b"below", &DIR).unwrap(), b"file", b"content");
    dir.symlink(b"link", b"below/file", &DIR).unwrap();
    dir
}

/// On such pools, a directory stores its entries and no mark.
#[test]
fn directories_have_names_only() {
    on_each(|pool| {
        let place = Place::new(pool);
        let fs = place.mount();
        let (root, dir) = (fs.root(), fill(&fs.root()));
        dir.rename(b"below", &root, b"moved", RenameMode::Replace).unwrap();
        dir.rmdir(b"empty").unwrap();
        root.mkdir(b"replaced", &DIR).unwrap();
        root.rename(b"moved", &root, b"replaced", RenameMode::Replace).unwrap();
        assert_eq!(place.marks(), 0);
        place.expect_whole();
        assert_eq!(keys(fs.container(), dir.oid()), [b"link".to_vec()]);
    });
}

#[test]
fn nothing_is_created_in_removed_directory() {
    on_each(|pool| {
        let place = Place::new(pool);
        let (fs, other) = (place.mount(), place.mount());
        let root = fs.root();
        write(&root, b"file", b"content");
        let dir = root.mkdir(b"dir", &DIR).unwrap();
        other.root().rmdir(b"dir").unwrap();
        for _ in 0..2 {
            let refused = [
                kind(dir.create(b"new", &DIR)),
                kind(dir.mkdir(b"new", &DIR)),
                kind(dir.symlink(b"new", b"target", &DIR)),
                kind(root.rename(b"file", &dir, b"new", RenameMode::Replace)),
            ];
            assert_eq!(refused, [Some(ErrorKind::NotFound); 4]);
            assert_eq!(keys(fs.container(), dir.oid()), [[0; 0]; 0]);
            // Another directory of the same name is not this one.
            let _ = other.root().mkdir(b"dir", &DIR);
        }
        assert!(kind(root.lookup(b"dir").unwrap().create(b"new", &DIR)).is_none());
    });
}

/// The directory was open when another process renamed it.
#[test]
fn directory_renamed_by_another_process_is_found() {
    on_each(|pool| {
        let place = Place::new(pool);
        let (fs, other) = (place.mount(), place.mount());
        let dir = fs.root().mkdir(b"dir", &DIR).unwrap();
        let target = other.root().mkdir(b"target", &DIR).unwrap();
        other.root().rename(b"dir", &target, b"moved", RenameMode::Replace).unwrap();
        other.root().rename(b"target", &other.root(), b"elsewhere", RenameMode::Replace).unwrap();
        write(&dir, b"file", b"content");
        dir.unlink(b"file").unwrap();
        drop(place.mount());
        dir.mkdir(b"below", &DIR).unwrap();
        fs.root().rename(b"elsewhere", &dir, b"x", RenameMode::Replace).expect_err("below itself");
        write(&fs.root(), b"file", b"content");
        fs.root().rename(b"file", &dir, b"file", RenameMode::Replace).unwrap();
        dir.set_attr(&SetAttr { mode: Some(0o700), ..SetAttr::default() }).unwrap();
        let moved = other.root().lookup(b"elsewhere").unwrap().lookup(b"moved").unwrap();
        assert_eq!((moved.oid(), moved.inode().mode), (dir.oid(), 0o700));
        moved.rmdir(b"below").unwrap();
        moved.unlink(b"file").unwrap();
        other.root().lookup(b"elsewhere").unwrap().rmdir(b"moved").unwrap();
        assert_eq!(kind(dir.create(b"late", &DIR)), Some(ErrorKind::NotFound));
    });
}

/// Programs of DAOS store no new location of a directory that they rename. As long as it has entries, it exists.
#[test]
fn directory_renamed_by_a_program_of_daos_takes_entries_while_it_has_some() {
    on_each(|pool| {
        let place = Place::new(pool);
        let fs = place.mount();
        let (root, dir) = (fs.root(), fs.root().mkdir(b"dir", &DIR).unwrap());
        write(&dir, b"file", b"content");
        let (object, mut inode) = (fs.container().object(root.oid()), [0; dfs::INODE_BYTES]);
        let extents = [Extent::new(0, dfs::INODE_BYTES as u64)];
        let mut fetch = Fetch::array(dfs::INODE_AKEY, 1, &extents, Sink::One(&mut inode));
        let fetches = std::slice::from_mut(&mut fetch);
        object.fetch(b"dir", Cond::NONE, fetches, Access::Latest).wait().unwrap();
        let data = Source::One(&inode);
        let value = Value::Array { record_size: 1, extents: &extents, data };
        let update = Update { akey: dfs::INODE_AKEY, value, cond: Cond::NONE };
        object.update(b"moved", Cond::NONE, &[update], Access::Latest).wait().unwrap();
        object.punch_dkey(b"dir", Cond::NONE, Access::Latest).wait().unwrap();
        dir.mkdir(b"below", &DIR).unwrap();
        assert_eq!(
            root.lookup(b"moved").unwrap().lookup(b"below").unwrap().kind(),
            Kind::Directory
        );
    });
}

/// One process creates an entry in a directory, while another one removes the directory.
#[test]
fn either_creation_or_removal_of_the_directory_succeeds() {
    on_each(|pool| {
        let place = Place::new(pool);
        let (fs, other) = (place.mount(), place.mount());
        let (mut created, mut removed) = (0, 0);
        for round in 0..ROUNDS {
            let name = round.to_string().into_bytes();
            let dir = fs.root().mkdir(&name, &DIR).unwrap();
            write(&fs.root(), b"file", b"content");
            let path = [&name, &b"/new"[..]].concat();
            let create = || match round % 4 {
                0 => dir.create(b"new", &DIR).map(drop),
                1 => dir.mkdir(b"new", &DIR).map(drop),
                2 => fs.root().rename(b"file", &dir, b"new", RenameMode::Replace),
                _ => match fs.create_by_known_path(&fs.root(), &path, |_| DIR) {
                    Ok(None) => dir.create(b"new", &DIR).map(drop),
                    made => made.map(drop),
                },
            };
            let root = other.root();
            let (made, gone) = std::thread::scope(|scope| {
                let gone = scope.spawn(|| root.rmdir(&name));
                (create(), gone.join().unwrap())
            });
            match (kind(made), kind(gone)) {
                (None, Some(ErrorKind::NotEmpty)) => {
                    created += 1;
                    let found = root.lookup(&name).unwrap().lookup(b"new");
                    found.expect("the entry is in a directory that exists");
                }
                (Some(ErrorKind::NotFound), None) => removed += 1,
                outcome => panic!("{outcome:?}"),
            }
            let _ = fs.root().unlink(b"file");
        }
        place.expect_whole();
        println!("{created} entries were created, {removed} directories removed");
    });
}

#[test]
fn copies_have_the_marks_of_their_pools() {
    on_each(|pool| {
        let native = place::Place::new("marked").pool();
        let (original, pools) = (Place::new(native.clone()), [pool, memory(), native]);
        fill(&original.mount().root());
        let mut last = original;
        for (pool, marks) in std::iter::zip(pools, [0, 0, 4]) {
            last = last.copied_to(&pool);
            last.expect_whole();
            assert_eq!(last.marks(), marks);
            let dir = last.mount().root().lookup(b"dir").unwrap();
            dir.lookup(b"empty").unwrap().mkdir(b"new", &DIR).unwrap();
            dir.lookup(b"empty").unwrap().rmdir(b"new").unwrap();
            let file = dir.lookup(b"below").unwrap().lookup(b"file").unwrap();
            let mut bytes = [0; 7];
            file.open(Open::READ).unwrap().read_at(0, &mut bytes).unwrap();
            assert_eq!(&bytes, b"content");
        }
    });
}
