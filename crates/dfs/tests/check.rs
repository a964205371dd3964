//! The check finds and repairs deliberate damage, and reports no damage in a consistent file system.
use dfs::check::{CheckOptions, CheckReport, Trouble, Unnamed, check, treat_unnamed};
use dfs::{Create, Dfs, MountOptions, NewDfs, Node, Open};
use esker::backend::NewContainer;
use esker::types::info::OpenMode;
use esker::types::ops::{Anchor, Cond, Source, Update, Value};
use esker::types::{ErrorKind, Extent, ObjectType};
use esker::{Access, Container, Pool, Wait};

const INODE: &[u8] = b"DFS_INODE";

/// A file system in memory, or in the pool over nodes that the environment names.
struct Place {
    pool: Pool,
    label: String,
    container: Container,
}

impl Place {
    /// A file system with a symbolic link and two nested directories. The outer one has a file of 19 bytes.
    fn new(name: &str) -> Self {
        let place = esker_conformance::place::Place::new(name);
        let (pool, label) = (place.pool(), place.label);
        Dfs::create_container(&pool, &NewContainer::named(&label), &NewDfs::default()).unwrap();
        let container = pool.open_container(&label, OpenMode::ReadWrite).wait().unwrap();
        let place = Self { pool, label, container };
        let root = place.root();
        let dir = root.mkdir(b"dir", &Create::with_mode(0o755)).unwrap();
        root.symlink(b"link", b"dir/file", &Create::with_mode(0o777)).unwrap();
        dir.mkdir(b"below", &Create::with_mode(0o755)).unwrap();
        write(&dir, b"file", b"what the file holds");
        place
    }

    fn root(&self) -> Node {
        Dfs::mount(self.container.clone(), MountOptions::default()).unwrap().root()
    }

    fn node(&self, path: &[u8]) -> Node {
        let root = self.root();
        root.fs().resolve(&root, path, dfs::Follow::AllButLast).unwrap()
    }

    fn check(&self) -> CheckReport {
        check(&self.container, CheckOptions { data: true, ..CheckOptions::default() }, &mut |_| {})
            .unwrap()
    }

    /// Repairs, and checks that no damage is left. Returns the report of the repair, and the place with its container
    /// open.
    fn repair(self) -> (CheckReport, Self) {
        self.repair_with(CheckOptions { data: true, repair: true, remove_leftovers: false })
    }

    fn repair_with(mut self, options: CheckOptions) -> (CheckReport, Self) {
        self.container.close().wait().unwrap();
        let alone = self.pool.open_container(&self.label, OpenMode::Exclusive).wait().unwrap();
        let report = check(&alone, options, &mut |_| {}).unwrap();
        let after = check(&alone, options, &mut |_| {}).unwrap();
        assert_eq!((after.damaged, after.leftovers.count()), (0, 0), "{after:?}");
        alone.close().wait().unwrap();
        self.container = self.pool.open_container(&self.label, OpenMode::ReadWrite).wait().unwrap();
        (report, self)
    }

    /// The only finding.
    fn only(&self) -> (String, Trouble) {
        let report = self.check();
        assert_eq!(report.damaged, 1, "{report:?}");
        let finding = report.findings[0].clone();
        (String::from_utf8(finding.path).unwrap(), finding.trouble)
    }

    /// Removes the entry `name` of a directory, without its object.
    fn punch(&self, dir: &Node, name: &[u8]) {
        let object = self.container.object(dir.oid());
        object.punch_dkey(name, Cond::NONE, Access::Latest).wait().unwrap();
    }

    /// Stores `bytes` as the inode of the entry `name` of a directory.
    fn put_inode(&self, dir: &Node, name: &[u8], bytes: &[u8]) {
        let extents = [Extent::new(0, bytes.len() as u64)];
        let data = Source::One(bytes);
        let value = Value::Array { record_size: 1, extents: &extents, data };
        let update = [Update { akey: INODE, value, cond: Cond::NONE }];
        let object = self.container.object(dir.oid());
        object.update(name, Cond::NONE, &update, Access::Latest).wait().unwrap();
    }
}

/// Creates a file with this content.
fn write(dir: &Node, name: &[u8], bytes: &[u8]) {
    let node = dir.create(name, &Create::with_mode(0o644)).unwrap();
    let file = node.open(Open::BOTH).unwrap();
    file.write_at(0, bytes).unwrap();
    file.close().unwrap();
}

/// The content of a file of at most 100 bytes.
fn read(node: &Node) -> Vec<u8> {
    let mut bytes = vec![0; 100];
    let len = node.open(Open::READ).unwrap().read_at(0, &mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

#[test]
fn consistent_tree_has_no_findings() {
    let place = Place::new("whole");
    let report = place.check();
    assert!(report.is_whole(), "{report:?}");
    let counts = (report.files, report.directories, report.links, report.bytes);
    assert_eq!((counts, report.leftovers.count()), ((1, 3, 1, 19), 0));
}

#[test]
fn sizes_of_sparse_files_add_up_to_at_most_the_largest_number() {
    let place = Place::new("sparse");
    let dir = place.node(b"/dir");
    for name in [b"a", b"b", b"c"] {
        let node = dir.create(name, &Create::with_mode(0o644)).unwrap();
        node.open(Open::BOTH).unwrap().set_len(dfs::limits::FILE_SIZE_MAX).unwrap();
    }
    let report = place.check();
    assert!(report.is_whole(), "{report:?}");
    assert_eq!((report.files, report.bytes), (4, u64::MAX));
    [b"a", b"b", b"c"].iter().for_each(|name| place.punch(&dir, *name));
    let report = place.check();
    assert_eq!((report.damaged, report.leftovers.files), (0, 3));
    assert_eq!((report.bytes, report.leftovers.bytes), (19, u64::MAX));
}

#[test]
fn files_that_lost_their_entry_are_leftovers() {
    let place = Place::new("leftover");
    let dir = place.node(b"/dir");
    let oid = dir.lookup(b"file").unwrap().oid();
    place.punch(&dir, b"file");
    let report = place.check();
    assert_eq!((report.damaged, report.leftovers.files, report.leftovers.bytes), (0, 1, 19));
    let (report, place) = place.repair();
    let left = report.leftovers;
    assert_eq!((left.removed, left.linked, report.damaged), (0, 1, 0));
    let found = place.node(format!("/lost+found/{oid}").as_bytes());
    assert_eq!(read(&found), b"what the file holds");
}

#[test]
fn leftovers_are_removed_on_request() {
    let place = Place::new("leftover-removed");
    place.punch(&place.node(b"/dir"), b"file");
    let options = CheckOptions { data: true, repair: true, remove_leftovers: true };
    let (report, place) = place.repair_with(options);
    let left = report.leftovers;
    assert_eq!((left.removed, left.linked, report.damaged), (1, 0, 0));
    assert_eq!(place.root().lookup(b"lost+found").err().unwrap().kind(), ErrorKind::NotFound);
}

/// A node that is replaced takes names with it, and the mark of their directory.
#[test]
fn files_that_lost_their_entry_with_the_mark_are_restored() {
    let place = Place::new("mark-and-entry");
    let dir = place.node(b"/dir");
    let oid = dir.lookup(b"file").unwrap().oid();
    [&b"/"[..], b"file"].iter().for_each(|name| place.punch(&dir, name));
    let options = CheckOptions { data: true, repair: true, remove_leftovers: true };
    let (report, place) = place.repair_with(options);
    assert_eq!((report.repaired, report.leftovers.removed), (2, 0), "{report:?}");
    let found = place.node(format!("/lost+found/{oid}").as_bytes());
    assert_eq!(read(&found), b"what the file holds");
}

/// A process that dies between the creation of a directory and that of its entry leaves such an object.
#[test]
fn half_created_directories_are_leftovers() {
    let place = Place::new("half-made");
    place.punch(&place.node(b"/dir"), b"below");
    assert_eq!(place.check().leftovers.directories, 1);
    assert_eq!(place.repair().0.leftovers.removed, 1);
}

#[test]
fn removed_open_file_is_a_leftover_until_close() {
    let place = Place::new("open");
    let dir = place.node(b"/dir");
    let file = dir.lookup(b"file").unwrap().open(Open::BOTH).unwrap();
    dir.unlink(b"file").unwrap();
    assert_eq!(place.check().leftovers.files, 1);
    file.close().unwrap();
    assert_eq!(place.check().leftovers.count(), 0);
}

#[test]
fn repair_removes_unreadable_entries_and_restores_their_files() {
    let place = Place::new("entry");
    let dir = place.node(b"/dir");
    let oid = dir.lookup(b"file").unwrap().oid();
    // Zeros are not an inode.
    place.put_inode(&dir, b"file", &[0; 88]);
    let report = place.check();
    assert_eq!(report.damaged, 2, "{report:?}");
    assert!(matches!(&report.findings[0].trouble, Trouble::Entry(_)));
    assert_eq!(report.findings[0].path, b"/dir/file");
    assert_eq!(report.findings[1].trouble, Trouble::LostFile(oid));
    let (report, place) = place.repair();
    assert_eq!(report.repaired, 2);
    let found = place.node(format!("/lost+found/{oid}").as_bytes());
    assert_eq!(read(&found), b"what the file holds");
}

/// A repair that fails at that name must leave the damage, by which the next repair knows that names are lost.
#[test]
fn repair_is_refused_if_lost_and_found_is_a_file() {
    let mut place = Place::new("lost-and-found");
    let dir = place.node(b"/dir");
    let oid = dir.lookup(b"file").unwrap().oid();
    place.put_inode(&dir, b"file", &[0; 88]);
    write(&place.root(), b"lost+found", b"file");
    let options = CheckOptions { data: true, repair: true, remove_leftovers: true };
    place.container.close().wait().unwrap();
    place.container = place.pool.open_container(&place.label, OpenMode::Exclusive).wait().unwrap();
    let refused = check(&place.container, options, &mut |_| {}).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotDirectory);
    assert!(refused.to_string().contains("rename it"), "{refused}");
    place.root().unlink(b"lost+found").unwrap();
    let (_, place) = place.repair_with(options);
    let found = place.node(format!("/lost+found/{oid}").as_bytes());
    assert_eq!(read(&found), b"what the file holds");
}

#[test]
fn repair_replaces_damaged_entry_of_lost_and_found() {
    let place = Place::new("damaged-lost-and-found");
    let dir = place.node(b"/dir");
    let oid = dir.lookup(b"file").unwrap().oid();
    place.put_inode(&dir, b"file", &[0; 88]);
    place.put_inode(&place.root(), b"lost+found", &[0; 88]);
    let (_, place) = place.repair();
    let found = place.node(format!("/lost+found/{oid}").as_bytes());
    assert_eq!(read(&found), b"what the file holds");
}

/// The repair links the object under the name that it was to remove.
#[test]
fn damaged_entry_in_lost_and_found_is_replaced() {
    let place = Place::new("damaged-in-lost-and-found");
    let dir = place.node(b"/dir");
    let oid = dir.lookup(b"file").unwrap().oid();
    place.put_inode(&dir, b"file", &[0; 88]);
    let (_, place) = place.repair();
    let path = format!("/lost+found/{oid}");
    place.put_inode(&place.node(b"/lost+found"), oid.to_string().as_bytes(), &[0; 88]);
    let (report, place) = place.repair();
    assert_eq!(report.repaired, 2, "{report:?}");
    assert_eq!(read(&place.node(path.as_bytes())), b"what the file holds");
}

/// The entry had the chunk size. With another one, the content would be read from the wrong offsets.
#[test]
fn restored_files_of_any_chunk_size_have_their_content() {
    let place = Place::new("chunk-sizes");
    let root = place.root();
    let usual = root.fs().superblock().chunk_size;
    // Name, chunk size, length of the data at the start, and offset of the text.
    let files = [
        ("small", 4096, 8192, 8192),
        ("large", 2 * usual, 1, usual + 5),
        ("sparse", usual, 1, usual + 5),
        ("records", usual, 4096, usual),
    ];
    let files = files.map(|(name, chunk_size, start, at)| {
        let new = Create { chunk_size: Some(chunk_size), ..Create::with_mode(0o644) };
        let node = root.create(name.as_bytes(), &new).unwrap();
        let file = node.open(Open::BOTH).unwrap();
        file.write_at(0, &vec![b'x'; start]).unwrap();
        file.write_at(at, b"what the file holds").unwrap();
        file.close().unwrap();
        place.put_inode(&root, name.as_bytes(), &[0; 88]);
        (name, node.oid(), at)
    });
    let (report, place) = place.repair();
    assert_eq!(report.repaired, 8, "{report:?}");
    for (name, oid, at) in files {
        let found = place.node(format!("/lost+found/{oid}").as_bytes());
        let (file, mut bytes) = (found.open(Open::READ).unwrap(), [0; 19]);
        assert_eq!(file.size().unwrap(), at + 19, "{name}");
        file.read_at(at, &mut bytes).unwrap();
        assert_eq!(&bytes, b"what the file holds", "{name}");
    }
}

/// Other software, or damage, may leave a name without an inode. Listings do not show it.
#[test]
fn removal_of_a_tree_ends_at_a_name_without_an_inode() {
    let place = Place::new("no-inode");
    let root = place.root();
    let below = place.node(b"/dir/below");
    let (extents, data) = ([Extent::new(0, 1)], Source::One(b"x"));
    let value = Value::Array { record_size: 1, extents: &extents, data };
    let update = [Update { akey: b"other", value, cond: Cond::NONE }];
    let object = place.container.object(below.oid());
    object.update(b"name", Cond::NONE, &update, Access::Latest).wait().unwrap();
    let error = root.remove_tree(b"dir").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotEmpty);
    assert!(error.to_string().contains("`esker fs check --repair`"), "{error}");
    let (_, place) = place.repair();
    assert_eq!(place.root().remove_tree(b"dir").unwrap(), 2);
}

#[test]
fn entries_of_unknown_kind_are_damage() {
    let place = Place::new("kind");
    let mut inode = [0; 88];
    // The mode of a block device, a kind that DFS does not have.
    inode[..4].copy_from_slice(&0o060_644u32.to_le_bytes());
    place.put_inode(&place.root(), b"device", &inode);
    let (path, trouble) = place.only();
    assert!(path == "/device" && matches!(trouble, Trouble::Entry(_)), "{path} {trouble}");
    place.repair();
}

#[test]
fn repair_restores_missing_marks_of_directories() {
    let place = Place::new("mark");
    let dir = place.node(b"/dir");
    place.punch(&dir, b"/");
    assert_eq!(place.only(), ("/dir".to_owned(), Trouble::Unmarked));
    let below = place.container.object(dir.lookup(b"below").unwrap().oid());
    below.punch(Cond::NONE, Access::Latest).wait().unwrap();
    assert_eq!(place.check().damaged, 2);
    let (_, place) = place.repair();
    assert_eq!(read(&place.node(b"/dir/file")), b"what the file holds");
    place.node(b"/dir/below").mkdir(b"new", &Create::with_mode(0o755)).unwrap();
}

#[test]
fn repair_removes_links_without_target() {
    let place = Place::new("link");
    let object = place.container.object(place.root().oid());
    object.punch_akeys(b"link", &[b"DFS_SLINK"], Cond::NONE, Access::Latest).wait().unwrap();
    assert_eq!(place.only(), ("/link".to_owned(), Trouble::NoTarget));
    let (_, place) = place.repair();
    assert_eq!(place.root().lookup(b"link").err().unwrap().kind(), ErrorKind::NotFound);
}

#[test]
fn two_names_of_one_object_are_reported() {
    let place = Place::new("twice");
    let dir = place.node(b"/dir");
    let file = dir.lookup(b"file").unwrap();
    let object = place.container.object(dir.oid());
    let mut inode = [0; 88];
    let extents = [Extent::new(0, 88)];
    let sink = esker::types::ops::Sink::One(&mut inode);
    let mut fetch = esker::types::ops::Fetch::array(INODE, 1, &extents, sink);
    let fetches = std::slice::from_mut(&mut fetch);
    object.fetch(b"file", Cond::NONE, fetches, Access::Latest).wait().unwrap();
    place.put_inode(&place.root(), b"other", &inode);
    let (_, trouble) = place.only();
    assert_eq!(trouble, Trouble::NamedTwice(file.oid()));
}

#[test]
fn lost_directories_are_restored_with_their_content() {
    let place = Place::new("lost");
    let dir = place.node(b"/dir");
    write(&dir.lookup(b"below").unwrap(), b"deep", b"deep");
    place.punch(&place.root(), b"dir");
    let (path, trouble) = place.only();
    assert_eq!(trouble, Trouble::Lost(dir.oid()));
    assert_eq!(path, format!("/lost+found/{}", dir.oid()));
    let (report, place) = place.repair();
    assert_eq!((report.files, report.directories, report.leftovers.count()), (2, 3, 0));
    let found = place.node(format!("/lost+found/{}/below/deep", dir.oid()).as_bytes());
    assert_eq!(read(&found), b"deep");
}

#[test]
fn repair_restores_missing_entry_of_root() {
    let place = Place::new("root");
    // The object of the superblock has the entry of the root.
    let superblock = place.container.generate_oid(
        0,
        0,
        ObjectType::MultiHashed,
        esker::types::ObjectClass::from_name("S1"),
        0,
    );
    let object = place.container.object(superblock.unwrap());
    object.punch_dkey(b"/", Cond::NONE, Access::Latest).wait().unwrap();
    assert_eq!(place.only(), ("/".to_owned(), Trouble::NoRoot));
    let (_, place) = place.repair();
    assert_eq!(read(&place.node(b"/dir/file")), b"what the file holds");
}

#[test]
fn repair_needs_exclusive_access() {
    let place = Place::new("alone");
    let options = CheckOptions { repair: true, ..CheckOptions::default() };
    let refused = check(&place.container, options, &mut |_| {}).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    let busy = place.pool.open_container(&place.label, OpenMode::Exclusive).wait();
    assert_eq!(busy.err().unwrap().kind(), ErrorKind::Busy);
}

#[test]
fn objects_of_other_software_are_counted_and_kept() {
    let place = Place::new("others");
    let container = &place.container;
    let oid = container.generate_oid(7, 7, ObjectType::KvHashed, None, 0).unwrap();
    let kv = container.kv(oid).unwrap();
    kv.put(b"key", b"value", Cond::NONE, Access::Latest).wait().unwrap();
    assert_eq!(place.check().leftovers.others, 1);
    let mut anchor = Anchor::Start;
    assert!(
        container.list_objects(&mut anchor, 100, Access::Latest).wait().unwrap().contains(&oid)
    );
}

#[test]
fn no_object_is_removed_while_names_may_be_lost() {
    let mut place = Place::new("damaged-names");
    place.punch(&place.node(b"/dir"), b"file");
    place.put_inode(&place.root(), b"link", b"short");
    place.container.close().wait().unwrap();
    place.container = place.pool.open_container(&place.label, OpenMode::Exclusive).wait().unwrap();
    let fs = Dfs::mount(place.container.clone(), MountOptions::default()).unwrap();
    let mut found = Vec::new();
    let mut treat = |unnamed| treat_unnamed(&fs, false, unnamed, &mut |oid| found.push(oid));
    assert_eq!(treat(Unnamed::Remove).unwrap_err().kind(), ErrorKind::Corrupt);
    let report = treat(Unnamed::Link(b"here")).unwrap();
    assert_eq!((report.damaged, report.leftovers.files), (1, 1));
    let path = format!("/lost+found/here/{}", found[0]);
    assert_eq!(read(&place.node(path.as_bytes())), b"what the file holds");
}

#[test]
fn treating_unnamed_objects_needs_the_container_exclusively() {
    let place = Place::new("not-alone");
    let fs = Dfs::mount(place.container.clone(), MountOptions::default()).unwrap();
    for unnamed in [Unnamed::Remove, Unnamed::Link(b"here")] {
        let treated = treat_unnamed(&fs, false, unnamed, &mut |_| {});
        assert_eq!(treated.unwrap_err().kind(), ErrorKind::Invalid);
    }
    assert!(treat_unnamed(&fs, true, Unnamed::Keep, &mut |_| {}).unwrap().is_whole());
}
