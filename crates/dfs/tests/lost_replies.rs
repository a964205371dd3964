//! A change may fail although it took effect: the reply was lost. It must not fail by an error after the change.
use dfs::check::{CheckOptions, check};
use dfs::{
    Create, Dfs, Follow, INODE_AKEY, MountOptions, NewDfs, Open, Removal, RenameMode, SetAttr,
    Time, remove_many,
};
use esker::backend::memory::Memory;
use esker::backend::{NewContainer, OpenContainer, Reply};
use esker::types::info::OpenMode;
use esker::types::ops::{Change, Write, WriteOp};
use esker::types::{Epoch, ErrorKind, Result};
use esker::{Container, Pool, Wait};
use esker_conformance::between::{Interceptor, PoolBetween};
use esker_conformance::faulty::{Fault, Faulty};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const FILES: usize = 200;

/// A new file system of this backend, and its container.
fn mount(backend: Arc<dyn esker::backend::Pool>) -> (Dfs, Container) {
    let pool = Pool::from_backend(backend, OpenMode::ReadWrite);
    let new = NewContainer::named("files");
    Dfs::create_container(&pool, &new, &NewDfs::default()).unwrap();
    let container = pool.open_container("files", OpenMode::ReadWrite).wait().unwrap();
    (Dfs::mount(container.clone(), MountOptions::default()).unwrap(), container)
}

/// A file system whose pool loses the replies to some changes.
fn mount_losing() -> Dfs {
    mount(Arc::new(Faulty::new(Fault::LostReply))).0
}

#[test]
fn no_two_files_share_an_object() {
    let fs = mount_losing();
    let new = Create { open: true, exclusive: true, ..Create::with_mode(0o600) };
    let (mut objects, mut lost) = (HashSet::new(), 0);
    for number in 0..FILES {
        let name = number.to_string().into_bytes();
        match fs.root().create(&name, &new) {
            Err(error) if error.kind() == ErrorKind::TimedOut => lost += 1,
            created => drop(created.unwrap()),
        }
        objects.insert(fs.root().lookup(&name).unwrap().oid());
    }
    assert!(lost > 0);
    assert_eq!(objects.len(), FILES);
}

/// If the transaction was tried again in smaller ones, they would not find the entries that it has removed.
#[test]
fn removals_whose_reply_is_lost_are_not_reported_as_missing() {
    let fs = mount_losing();
    let root = fs.root();
    let names: Vec<_> = (0..8).map(|number: u32| number.to_string().into_bytes()).collect();
    let mut lost = 0;
    for _ in 0..FILES {
        for name in &names {
            let _ = root.create(name, &Create::with_mode(0o600));
        }
        let removal = |name| Removal { dir: &root, name, is_directory: false, check: None };
        let removals: Vec<_> = names.iter().map(|name| removal(&name[..])).collect();
        let failed = remove_many(&removals).into_iter().filter_map(Result::err);
        let kinds: Vec<_> = failed.map(|error| error.kind()).collect();
        assert!(kinds.iter().all(|kind| *kind == ErrorKind::TimedOut), "{kinds:?}");
        lost += kinds.len();
    }
    assert!(lost > 0);
}

/// True if a change writes the entry of this name, or any entry if the name is empty.
fn changes_entry(change: &Change<'_>, name: &[u8]) -> bool {
    change.writes.iter().any(|write: &Write<'_>| match write.op {
        WriteOp::Update { dkey, updates: [first, ..], .. } => {
            dkey == name || name.is_empty() && first.akey == INODE_AKEY
        }
        _ => false,
    })
}

/// Fails each write to the entry of a name while it is on: as if the node of the entry was lost. An empty name stands
/// for all entries.
struct Lost {
    name: &'static [u8],
    is_on: AtomicBool,
    /// Number of writes that have failed.
    failed: AtomicUsize,
}

impl Lost {
    fn new(name: &'static [u8]) -> Arc<Self> {
        Arc::new(Self { name, is_on: AtomicBool::new(false), failed: AtomicUsize::new(0) })
    }
}

impl Interceptor for Lost {
    fn write<'a>(&'a self, to: &'a dyn OpenContainer, change: Change<'a>) -> Reply<'a, Epoch> {
        match self.is_on.load(Ordering::Relaxed) && changes_entry(&change, self.name) {
            true => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                Reply::Ready(Err(ErrorKind::Io.into()))
            }
            false => to.write(change),
        }
    }
}

/// Makes each write to the entry of this name, and loses its reply.
struct LostReply(&'static [u8]);

impl Interceptor for LostReply {
    fn write<'a>(&'a self, to: &'a dyn OpenContainer, change: Change<'a>) -> Reply<'a, Epoch> {
        let is_lost = changes_entry(&change, self.0);
        let written = to.write(change);
        match is_lost {
            true => Reply::Ready(written.wait().and(Err(ErrorKind::TimedOut.into()))),
            false => written,
        }
    }
}

/// Other processes may have created files in the directory meanwhile.
#[test]
fn directory_stays_if_the_reply_to_its_creation_is_lost() {
    let lost = Arc::new(LostReply(b"dir"));
    let (fs, container) = mount(Arc::new(PoolBetween::before(Arc::new(Memory::new(2)), &lost)));
    let made = fs.root().mkdir(b"dir", &Create::with_mode(0o700));
    assert_eq!(made.err().unwrap().kind(), ErrorKind::TimedOut);
    let report = check(&container, CheckOptions::default(), &mut |_| {}).unwrap();
    assert!(report.is_whole(), "{report:?}");
    assert_eq!(report.directories, 2);
}

/// The time of a directory is stored after the change of its entries, so the change is complete.
#[test]
fn changes_of_entries_succeed_if_the_time_of_their_directory_cannot_be_stored() {
    let lost = Lost::new(b"dir");
    let (fs, container) = mount(Arc::new(PoolBetween::before(Arc::new(Memory::new(2)), &lost)));
    let dir = fs.root().mkdir(b"dir", &Create::with_mode(0o700)).unwrap();
    let new = Create { exclusive: true, ..Create::with_mode(0o600) };
    let write = |name| dir.create(name, &new)?.open(Open::BOTH)?.write_at(0, b"content");
    // Its time is so old that each of the changes would store a new one.
    let make_old = || {
        lost.is_on.store(false, Ordering::Relaxed);
        let old = SetAttr { mtime: Some(Time::default()), ..SetAttr::default() };
        dir.set_attr(&old).unwrap();
        lost.is_on.store(true, Ordering::Relaxed);
    };
    let change: [&dyn Fn() -> Result<()>; 5] = [
        &|| write(b"a").and(write(b"b")).and(write(b"c")).and(write(b"d")).map(drop),
        &|| dir.rename(b"a", &dir, b"b", RenameMode::Replace),
        &|| dir.unlink(b"b"),
        &|| dir.unlink_if(b"c", &|_| Ok(())),
        &|| {
            remove_many(&[Removal { dir: &dir, name: b"d", is_directory: false, check: None }])
                .remove(0)
        },
    ];
    for change in change {
        make_old();
        change().unwrap();
    }
    assert_eq!(fs.flush().unwrap_err().kind(), ErrorKind::Io);
    let stored = || {
        let other = Dfs::mount(container.clone(), MountOptions::default()).unwrap();
        other.root().lookup(b"dir").unwrap().inode().mtime
    };
    assert_eq!(stored(), Time::default());
    lost.is_on.store(false, Ordering::Relaxed);
    fs.flush().unwrap();
    assert!(stored() > Time::default(), "the time was pending");
    let report = check(&container, CheckOptions::default(), &mut |_| {}).unwrap();
    assert_eq!((report.files, report.leftovers.files), (0, 0));
}

/// The time of a file is stored after its data, so the write is complete. The time stays pending until it is stored.
#[test]
fn write_succeeds_if_the_time_of_its_file_cannot_be_stored() {
    let lost = Lost::new(b"file");
    let (fs, container) = mount(Arc::new(PoolBetween::before(Arc::new(Memory::new(2)), &lost)));
    let node = fs.root().create(b"file", &Create::with_mode(0o600)).unwrap();
    let file = node.open(Open::BOTH).unwrap();
    // The time is so old that a write stores a new one.
    file.set_attr(&SetAttr { mtime: Some(Time::default()), ..SetAttr::default() }).unwrap();
    lost.is_on.store(true, Ordering::Relaxed);
    assert_eq!(file.write_at(0, b"content").unwrap(), 7);
    for _ in 0..2 {
        assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::Io);
    }
    assert_eq!(fs.flush().unwrap_err().kind(), ErrorKind::Io);
    let stored = || {
        let other = Dfs::mount(container.clone(), MountOptions::default()).unwrap();
        other.root().lookup(b"file").unwrap().inode().mtime
    };
    assert_eq!(stored(), Time::default());
    lost.is_on.store(false, Ordering::Relaxed);
    file.sync().unwrap();
    assert!(stored() > Time::default(), "the time was pending");
}

/// The times of other files are stored although that of one cannot be.
#[test]
fn flush_goes_on_after_an_error() {
    let (all, one) = (Lost::new(b""), Lost::new(b"file"));
    let between = PoolBetween::before(Arc::new(Memory::new(2)), &all);
    let (fs, container) = mount(Arc::new(PoolBetween::before(Arc::new(between), &one)));
    let names: Vec<_> = (0..16).map(|number: u32| number.to_string().into_bytes()).collect();
    let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).chain([&b"file"[..]]).collect();
    let create = |name: &&[u8]| {
        let file = fs.root().create(name, &Create::with_mode(0o600))?.open(Open::BOTH)?;
        file.set_attr(&SetAttr { mtime: Some(Time::default()), ..SetAttr::default() })?;
        Ok(file)
    };
    let files = names.iter().map(create).collect::<Result<Vec<_>>>().unwrap();
    all.is_on.store(true, Ordering::Relaxed);
    for file in &files {
        file.write_at(0, b"content").unwrap();
    }
    all.is_on.store(false, Ordering::Relaxed);
    one.is_on.store(true, Ordering::Relaxed);
    assert_eq!(fs.flush().unwrap_err().kind(), ErrorKind::Io);
    let other = Dfs::mount(container, MountOptions::default()).unwrap();
    for name in names {
        let stored = other.root().lookup(name).unwrap().inode().mtime;
        assert_eq!(stored > Time::default(), name != b"file", "{name:?}");
    }
}

/// A node that does not answer lets each request wait for long. It has the entries `dir` of many directories and files.
#[test]
fn flush_ends_after_some_failures_and_stores_all_times_in_turn() {
    let (all, away) = (Lost::new(b""), Lost::new(b"dir"));
    let between = PoolBetween::before(Arc::new(Memory::new(2)), &all);
    let (fs, container) = mount(Arc::new(PoolBetween::before(Arc::new(between), &away)));
    let old = SetAttr { mtime: Some(Time::default()), ..SetAttr::default() };
    let create = |path: &[u8], name: &[u8]| {
        let parent = fs.root().mkdir(path, &Create::with_mode(0o700))?;
        let file = parent.create(name, &Create::with_mode(0o600))?.open(Open::BOTH)?;
        file.set_attr(&old).map(|_| file)
    };
    let path = |number: u32| number.to_string().into_bytes();
    let files = (0..20).map(|number| create(&path(number), b"dir"));
    let files = files.chain([create(b"here", b"file")]).collect::<Result<Vec<_>>>().unwrap();
    all.is_on.store(true, Ordering::Relaxed);
    files.iter().for_each(|file| assert_eq!(file.write_at(0, b"content"), Ok(7)));
    all.is_on.store(false, Ordering::Relaxed);
    let parents = (20..40).map(|number| fs.root().mkdir(&path(number), &Create::with_mode(0o700)));
    let dirs = parents.map(|parent| parent?.mkdir(b"dir", &Create::with_mode(0o700)));
    let dirs = dirs.collect::<Result<Vec<_>>>().unwrap();
    for dir in &dirs {
        away.is_on.store(false, Ordering::Relaxed);
        dir.set_attr(&old).unwrap();
        away.is_on.store(true, Ordering::Relaxed);
        dir.create(b"file", &Create::with_mode(0o600)).unwrap();
    }
    let is_stored = |path: &[u8]| {
        let other = Dfs::mount(container.clone(), MountOptions::default()).unwrap();
        let node = other.resolve(&other.root(), path, Follow::AllButLast).unwrap();
        node.inode().mtime > Time::default()
    };
    for _ in 0..4 {
        away.failed.store(0, Ordering::Relaxed);
        assert_eq!(fs.flush().unwrap_err().kind(), ErrorKind::Io);
        assert!((1..20).contains(&away.failed.load(Ordering::Relaxed)));
    }
    assert!(is_stored(b"here/file"));
    away.is_on.store(false, Ordering::Relaxed);
    fs.flush().unwrap();
    assert!((0..40).all(|number| is_stored(format!("{number}/dir").as_bytes())));
}
