//! Looking up, opening and creating entries.
use super::*;
use daos::abi::Str;
use daos::dfs::entry::{dfs_move, dfs_remove};
use daos::dfs::file::{dfs_get_file_oh, dfs_update_parent};
use daos::dfs::open::{dfs_dup, dfs_lookup_rel};

/// Opens or creates a symlink in the root. Returns the errno on failure.
fn symlink(fs: &Fs, name: &CStr, target: Str, flags: c_int) -> Result<Ptr<DfsObj>, c_int> {
    let mut obj = Ptr::null();
    match dfs_open(fs.dfs, ROOT, text(name), LINK | 0o777, flags, 0, 0, target, at(&mut obj)) {
        0 => Ok(obj),
        errno => Err(errno),
    }
}

#[test]
fn files_are_created_according_to_flags() {
    let fs = Fs::new();
    assert_eq!(fs.open(ROOT, c"a", FILE, RDWR).map(drop), Err(libc::ENOENT));
    release(fs.open(ROOT, c"a", FILE | 0o640, RDWR | CREAT).unwrap());
    release(fs.open(ROOT, c"a", FILE, RDWR | CREAT).unwrap());
    let exclusive = RDWR | CREAT | libc::O_EXCL;
    assert_eq!(fs.open(ROOT, c"a", FILE, exclusive).map(drop), Err(libc::EEXIST));
    let file = fs.file(c"a", b"content");
    release(file);
    let file = fs.open(ROOT, c"a", FILE, RDWR | libc::O_TRUNC).unwrap();
    assert_eq!(fs.read(file, 0), Ok(vec![]));
    release(file);
    assert_eq!(fs.open(ROOT, c"a", FILE, RDWR | libc::O_APPEND).map(drop), Err(libc::ENOTSUP));
    assert_eq!(fs.open(ROOT, c"a", DIR, RDWR).map(drop), Err(libc::ENOTDIR));
    assert_eq!(fs.open(ROOT, c"a", LINK, RDWR).map(drop), Err(libc::EINVAL));
    assert_eq!(fs.open(ROOT, c"a", 0, RDWR).map(drop), Err(libc::EINVAL));
    assert_eq!(fs.open(ROOT, c"p", libc::S_IFIFO, RDWR | CREAT).map(drop), Err(libc::EINVAL));
}

#[test]
fn names_must_be_one_component() {
    let fs = Fs::new();
    let long = std::ffi::CString::new(vec![b'n'; 256]).unwrap();
    for (name, errno) in
        [(c"a/b", libc::EINVAL), (c"", libc::EINVAL), (c".", libc::ENOTSUP), (&*long, libc::EINVAL)]
    {
        assert_eq!(fs.open(ROOT, name, FILE, RDWR | CREAT).map(drop), Err(errno), "{name:?}");
        assert_eq!(dfs_mkdir(fs.dfs, ROOT, text(name), 0o755, 0), errno, "{name:?}");
        assert_eq!(dfs_remove(fs.dfs, ROOT, text(name), 0, Ptr::null()), errno, "{name:?}");
    }
    let longest = std::ffi::CString::new(vec![b'n'; 255]).unwrap();
    release(fs.open(ROOT, &longest, FILE, RDWR | CREAT).unwrap());
}

#[test]
fn directories_and_symlinks_are_created_by_type() {
    let fs = Fs::new();
    let dir = fs.open(ROOT, c"d", DIR | 0o755, RDWR | CREAT).unwrap();
    release(fs.open(ROOT, c"d", DIR, RDWR | CREAT).unwrap());
    assert_eq!(fs.open(ROOT, c"d", DIR, RDWR | CREAT | libc::O_EXCL).map(drop), Err(libc::EEXIST));
    assert_eq!(fs.open(ROOT, c"d", FILE, RDWR).map(drop), Err(libc::EINVAL));
    release(fs.open(dir, c"f", FILE | 0o600, RDWR | CREAT).unwrap());
    release(dir);
    assert_eq!(symlink(&fs, c"l", Ptr::null(), RDWR | CREAT).map(drop), Err(libc::EINVAL));
    release(symlink(&fs, c"l", text(c"d/f"), RDWR | CREAT).unwrap());
    release(fs.lookup(c"/l", RDONLY).unwrap());
    release(symlink(&fs, c"loop", text(c"loop"), RDWR | CREAT).unwrap());
    assert_eq!(fs.lookup(c"/loop", RDONLY).map(drop), Err(libc::ELOOP));
    release(fs.lookup(c"/loop", RDONLY | libc::O_NOFOLLOW).unwrap());
    assert_eq!(fs.lookup(c"/d/none/x", RDONLY).map(drop), Err(libc::ENOENT));
    assert_eq!(fs.lookup(c"/d/f/x", RDONLY).map(drop), Err(libc::ENOTDIR));
    assert_eq!(fs.lookup(c"d/f", RDONLY).map(drop), Err(libc::EINVAL), "not absolute");
    assert_eq!(fs.lookup(c"", RDONLY).map(drop), Err(libc::EINVAL));
}

#[test]
fn lookups_return_the_entry_they_found() {
    let fs = Fs::new();
    release(fs.file(c"f", b"12345"));
    let (mut obj, mut mode) = (Ptr::null(), 0);
    let mut stat = stat();
    let found = dfs_lookup(fs.dfs, text(c"/f"), RDONLY, at(&mut obj), at(&mut mode), at(&mut stat));
    assert_eq!((found, mode, stat.st_size), (0, FILE | 0o644, 5));
    assert_eq!((stat.st_nlink, stat.st_blocks, stat.st_blksize), (1, 1, 1 << 20));
    release(obj);
    let dir = fs.dir(c"d");
    release(fs.open(dir, c"g", FILE | 0o600, RDWR | CREAT).unwrap());
    let name = text(c"g");
    let found = dfs_lookup_rel(fs.dfs, dir, name, RDWR, at(&mut obj), at(&mut mode), Ptr::null());
    assert_eq!((found, mode), (0, FILE | 0o600));
    release(obj);
    release(dir);
    for making in [CREAT, CREAT | libc::O_EXCL, libc::O_APPEND] {
        assert_eq!(fs.lookup(c"/f", RDWR | making).map(drop), Err(libc::ENOTSUP));
    }
}

#[test]
fn an_object_can_be_opened_again_and_is_released_once() {
    let fs = Fs::new();
    let file = fs.file(c"f", b"data");
    let mut other = Ptr::null();
    assert_eq!(dfs_dup(fs.dfs, file, RDONLY, at(&mut other)), 0);
    release(file);
    assert_eq!(dfs_release(file), libc::EINVAL);
    assert_eq!(fs.read(other, 0), Ok(b"data".to_vec()));
    assert_eq!(fs.write(other, b"x", 0), libc::EPERM);
    release(other);
    assert_eq!(dfs_release(ROOT), libc::EINVAL);
}

#[test]
fn the_array_of_a_file_can_be_borrowed() {
    let fs = Fs::new();
    let file = fs.file(c"f", b"data");
    let (mut oh, mut again, mut size) = (NONE, NONE, 0);
    assert_eq!(dfs_get_file_oh(file, at(&mut oh)), 0);
    assert_eq!(dfs_get_file_oh(file, at(&mut again)), 0);
    assert_eq!(oh, again);
    assert_eq!(daos::array::daos_array_get_size(oh, NONE, at(&mut size), WAIT), 0);
    assert_eq!(size, 4);
    release(file);
    assert_eq!(daos::array::daos_array_get_size(oh, NONE, at(&mut size), WAIT), NO_HDL);
}

#[test]
fn an_object_learns_that_it_was_moved() {
    let fs = Fs::new();
    let (file, dir) = (fs.file(c"f", b"data"), fs.dir(c"d"));
    let inside = fs.open(dir, c"other", FILE | 0o600, RDWR | CREAT).unwrap();
    let moved = dfs_move(fs.dfs, ROOT, text(c"f"), dir, text(c"g"), Ptr::null());
    assert_eq!(moved, 0);
    assert_eq!(dfs_update_parent(file, inside, Ptr::null()), libc::ENOENT, "still another name");
    assert_eq!(dfs_update_parent(file, inside, text(c"g")), 0);
    assert_eq!(dfs_update_parent(file, ROOT, text(c"g")), libc::EINVAL);
    [file, dir, inside].into_iter().for_each(release);
}
