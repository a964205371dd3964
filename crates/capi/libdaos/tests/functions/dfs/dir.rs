//! Listing, removing and moving entries.
use super::*;
use daos::abi::{Anchor, DfsPipeline, ObjId, Predicate};
use daos::dfs::attr::dfs_obj2id;
use daos::dfs::entry::*;
use daos::dfs::list::*;
use daos::dfs::pipeline::*;
use std::ffi::{CString, c_char, c_void};

fn name_of(entry: &libc::dirent) -> String {
    let bytes = entry.d_name.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8);
    String::from_utf8(bytes.collect()).unwrap()
}

/// The names of the entries of a directory from an anchor on, listed `at_once` at a time.
fn names(fs: &Fs, dir: Ptr<DfsObj>, anchor: &mut Anchor, at_once: usize) -> Vec<String> {
    let (mut entries, mut found) = (vec![dirent(); at_once], Vec::new());
    while anchor.kind != 3 {
        let mut nr = at_once as u32;
        assert_eq!(dfs_readdir(fs.dfs, dir, at(anchor), at(&mut nr), list(&mut entries)), 0);
        found.extend(entries[..nr as usize].iter().map(name_of));
    }
    found
}

/// A new open directory with `count` files, and their names in order.
fn many(fs: &Fs, count: usize) -> (Ptr<DfsObj>, Vec<String>) {
    let dir = fs.dir(c"many");
    let wanted: Vec<_> = (0..count).map(|n| format!("file-{n:04}")).collect();
    for name in &wanted {
        let name = CString::new(name.as_bytes()).unwrap();
        release(fs.open(dir, &name, FILE | 0o600, RDWR | CREAT).unwrap());
    }
    (dir, wanted)
}

#[test]
fn every_entry_is_listed_once() {
    let fs = Fs::new();
    let (dir, wanted) = many(&fs, 100);
    for at_once in [1, 7, 100, 1000] {
        let mut found = names(&fs, dir, &mut start(), at_once);
        found.sort();
        assert_eq!(found, wanted);
    }
    let (mut anchor, mut nr) = (start(), 0);
    let mut entry = dirent();
    let none = dfs_readdir(fs.dfs, dir, at(&mut anchor), at(&mut nr), at(&mut entry));
    assert_eq!((none, nr, anchor.kind), (0, 0, start().kind));
    release(dir);
    let file = fs.file(c"f", b"");
    nr = 1;
    let wrong = dfs_readdir(fs.dfs, file, at(&mut anchor), at(&mut nr), at(&mut entry));
    assert_eq!(wrong, libc::ENOTDIR);
    release(file);
}

#[test]
fn attributes_are_listed_with_names() {
    let fs = Fs::new();
    let dir = fs.dir(c"d");
    let file = fs.open(dir, c"f", FILE | 0o640, RDWR | CREAT).unwrap();
    assert_eq!(fs.write(file, b"12345", 0), 0);
    release(file);
    let (mut anchor, mut nr) = (start(), 8);
    let (mut entries, mut stats) = ([dirent(); 8], [stat(); 8]);
    let places = (list(&mut entries), list(&mut stats));
    let done = dfs_readdirplus(fs.dfs, dir, at(&mut anchor), at(&mut nr), places.0, places.1);
    assert_eq!((done, nr, name_of(&entries[0])), (0, 1, "f".to_owned()));
    assert_eq!((stats[0].st_mode, stats[0].st_size), (FILE | 0o640, 5));
    release(dir);
}

/// Counts the calls in the number that `arg` points to.
extern "C" fn count(_: *mut Dfs, _: *mut DfsObj, name: *const c_char, arg: *mut c_void) -> c_int {
    assert!(!name.is_null());
    let counted: Ptr<u32> = at_address(arg);
    counted.set(counted.get().unwrap() + 1);
    0
}

extern "C" fn refuse(_: *mut Dfs, _: *mut DfsObj, _: *const c_char, _: *mut c_void) -> c_int {
    libc::ENOMEM
}

#[test]
fn iterations_stop_at_the_first_limit() {
    let fs = Fs::new();
    let (dir, _) = many(&fs, 20);
    let mut counted = 0u32;
    let counter = at(&mut counted).cast::<c_void>();
    let (mut anchor, mut nr) = (start(), 1000);
    // Names have 9 bytes and a NUL.
    let iterate = |nr: &mut u32, anchor: &mut Anchor, size, op| {
        dfs_iterate(fs.dfs, dir, at(anchor), at(nr), size, op, counter)
    };
    assert_eq!(iterate(&mut nr, &mut anchor, 59, Some(count)), 0);
    assert_eq!(nr, 5);
    nr = 7;
    assert_eq!(iterate(&mut nr, &mut anchor, 1 << 20, Some(count)), 0);
    assert_eq!(nr, 7);
    assert_eq!(iterate(&mut nr, &mut anchor, 9, Some(count)), libc::E2BIG);
    nr = 1000;
    assert_eq!(iterate(&mut nr, &mut anchor, 1 << 20, Some(count)), 0);
    assert_eq!((nr, anchor.kind), (8, 3));
    nr = 1000;
    assert_eq!(iterate(&mut nr, &mut start(), 1 << 20, Some(refuse)), libc::ENOMEM);
    nr = 1000;
    assert_eq!(iterate(&mut nr, &mut start(), 1 << 20, None), 0);
    assert_eq!((nr, counted), (20, 20));
    anchor = start();
    while anchor.kind != 3 {
        nr = 1000;
        assert_eq!(iterate(&mut nr, &mut anchor, 35, Some(count)), 0);
        assert!(nr == 3 || nr == 2);
    }
    assert_eq!(counter.cast::<u32>().get().unwrap(), 40, "each name once");
    release(dir);
}

#[test]
fn anchors_are_set_without_listing() {
    let fs = Fs::new();
    let (dir, wanted) = many(&fs, 50);
    let (mut anchor, mut nr) = (start(), 0);
    assert_eq!(dfs_obj_anchor_split(dir, at(&mut nr), at(&mut anchor)), 0);
    assert_eq!(nr, 1);
    assert_eq!(dfs_obj_anchor_set(dir, 1, at(&mut anchor)), libc::EINVAL);
    assert_eq!(dfs_obj_anchor_set(dir, 0, at(&mut anchor)), 0);
    assert_eq!(names(&fs, dir, &mut anchor, 9).len(), 50);
    let name = CString::new(wanted[20].as_bytes()).unwrap();
    assert_eq!(dfs_dir_anchor_set(dir, text(&name), at(&mut anchor)), 0);
    assert_eq!(names(&fs, dir, &mut anchor, 9)[0], wanted[20]);
    assert_eq!(dfs_dir_anchor_set(dir, text(c"none"), at(&mut anchor)), libc::ENOENT);
    release(dir);
}

#[test]
fn entries_are_removed() {
    let fs = Fs::new();
    let dir = fs.dir(c"d");
    let file = fs.open(dir, c"f", FILE, RDWR | CREAT).unwrap();
    let (mut wanted, mut removed) = (ObjId::default(), ObjId::default());
    assert_eq!(dfs_obj2id(file, at(&mut wanted)), 0);
    release(file);
    let remove = |name: &CStr, force, oid| dfs_remove(fs.dfs, ROOT, text(name), force, oid);
    assert_eq!(remove(c"d", 0, Ptr::null()), libc::ENOTEMPTY);
    assert_eq!(dfs_remove(fs.dfs, dir, text(c"f"), 0, at(&mut removed)), 0);
    assert_eq!(removed, wanted);
    assert_eq!(dfs_remove(fs.dfs, dir, text(c"f"), 0, Ptr::null()), libc::ENOENT);
    release(fs.open(dir, c"g", FILE, RDWR | CREAT).unwrap());
    assert_eq!(remove(c"d", 1, Ptr::null()), 0);
    assert_eq!(
        fs.open(dir, c"h", FILE, RDWR | CREAT).map(drop),
        Err(libc::ENOENT),
        "the directory is gone"
    );
    assert_eq!(remove(c"d", 1, Ptr::null()), libc::ENOENT);
    release(dir);
}

#[test]
fn entries_are_moved_and_exchanged() {
    let fs = Fs::new();
    let (a, b, dir) = (fs.file(c"a", b"a"), fs.file(c"b", b"b"), fs.dir(c"d"));
    let (mut oid, mut replaced) = (ObjId::default(), ObjId::default());
    assert_eq!(dfs_obj2id(b, at(&mut oid)), 0);
    assert_eq!(dfs_exchange(fs.dfs, ROOT, text(c"a"), ROOT, text(c"b")), 0);
    assert_eq!(fs.read(fs.lookup(c"/a", RDONLY).unwrap(), 0), Ok(b"b".to_vec()));
    assert_eq!(dfs_exchange(fs.dfs, ROOT, text(c"a"), ROOT, text(c"none")), libc::ENOENT);
    let moved = dfs_move(fs.dfs, ROOT, text(c"b"), ROOT, text(c"a"), at(&mut replaced));
    assert_eq!((moved, replaced), (0, oid));
    let itself = dfs_move(fs.dfs, ROOT, text(c"a"), ROOT, text(c"a"), at(&mut replaced));
    assert_eq!((itself, replaced), (0, ObjId::default()));
    replaced = oid;
    assert_eq!(dfs_move(fs.dfs, ROOT, text(c"a"), dir, text(c"c"), at(&mut replaced)), 0);
    assert_eq!(replaced, ObjId::default());
    assert_eq!(fs.read(fs.lookup(c"/d/c", RDONLY).unwrap(), 0), Ok(b"a".to_vec()));
    assert_eq!(dfs_move(fs.dfs, ROOT, text(c"a"), dir, text(c"c"), Ptr::null()), libc::ENOENT);
    let below = dfs_move(fs.dfs, ROOT, text(c"d"), dir, text(c"d"), Ptr::null());
    assert_eq!(below, libc::EINVAL);
    [a, b, dir].into_iter().for_each(release);
}

#[test]
fn filtered_listing_selects_names_and_times() {
    const NAME: u64 = 2;
    const NEWER: u64 = 4;
    const INCLUDE_DIRS: u64 = 8;
    let fs = Fs::new();
    let dir = fs.dir(c"d");
    for name in [c"a.1", c"a.2", c"b.1"] {
        release(open_in(fs.dfs, dir, name, FILE | 0o644, RDWR | CREAT).unwrap());
    }
    assert_eq!(dfs_mkdir(fs.dfs, dir, text(c"below"), 0o755, 0), 0);
    let create = |pattern: &[u8], newer, flags| {
        let mut predicate = Predicate { name: [0; 255], newer, size: 0 };
        for (place, byte) in predicate.name.iter_mut().zip(pattern) {
            *place = byte.cast_signed();
        }
        let mut filter: Ptr<DfsPipeline> = Ptr::null();
        match dfs_pipeline_create(fs.dfs, predicate, flags, at(&mut filter)) {
            0 => Ok(filter),
            errno => Err(errno),
        }
    };
    let found = |filter, step: usize| {
        let (mut anchor, mut names, mut all) = (start(), Vec::new(), 0);
        while anchor.kind != 3 {
            let (mut nr, mut scanned) = (step as u32, 77);
            let mut dirs = vec![dirent(); step];
            let (mut oids, mut sizes) = (vec![ObjId::default(); step], vec![9; step]);
            let listed = dfs_readdir_with_filter(
                fs.dfs,
                dir,
                filter,
                at(&mut anchor),
                at(&mut nr),
                list(&mut dirs),
                list(&mut oids),
                list(&mut sizes),
                at(&mut scanned),
            );
            assert_eq!(listed, 0);
            all += scanned;
            assert!(oids[..nr as usize].iter().all(|oid| oid.hi != 0));
            names.extend(dirs[..nr as usize].iter().map(|entry| {
                let name = entry.d_name.iter().take_while(|byte| **byte != 0);
                let name = name.map(|byte| char::from(byte.cast_unsigned())).collect::<String>();
                (name, entry.d_type)
            }));
        }
        names.sort();
        assert_eq!((all, dfs_pipeline_destroy(filter)), (4, 0));
        names
    };
    let (below, file) = (("below".to_owned(), libc::DT_DIR), libc::DT_REG);
    let a = |number: u8| (format!("a.{number}"), file);
    let expected = [a(1), a(2), below.clone()];
    assert_eq!(found(create(b"a%", 0, NAME).ok().unwrap(), 64), expected);
    assert_eq!(found(create(b"a%", 0, NAME | NEWER).ok().unwrap(), 1), expected);
    assert_eq!(found(create(b"a.1", 0, NAME | INCLUDE_DIRS).ok().unwrap(), 64), [a(1)]);
    // Without `NAME`, the pattern is ignored, valid or not.
    for pattern in [&b""[..], b"a\\"] {
        let newer = found(create(pattern, i64::MAX, NEWER).ok().unwrap(), 64);
        assert_eq!(newer, std::slice::from_ref(&below));
    }
    assert!(
        found(create(b"%", i64::MAX, NAME | NEWER | INCLUDE_DIRS).ok().unwrap(), 64).is_empty()
    );
    for (pattern, flags) in [(&b"a"[..], 0), (b"a", INCLUDE_DIRS), (b"a", 1 << 9), (b"a\\", NAME)] {
        assert_eq!(create(pattern, 0, flags).err(), Some(libc::EINVAL));
    }
    assert_eq!(dfs_pipeline_destroy(Ptr::null()), 0);
    assert_eq!(dfs_pipeline_destroy(wild(64)), libc::EINVAL);
    release(dir);
}
