//! Attributes, extended attributes, and targets of symlinks.
use super::*;
use daos::abi::{DfsObjInfo, Str};
use daos::dfs::attr::*;
use daos::dfs::io::dfs_punch;
use daos::dfs::mount::dfs_umount;
use daos::dfs::xattr::*;
use std::ffi::c_void;

/// Attributes of an entry, or the errno.
fn stat_of(fs: &Fs, parent: Ptr<DfsObj>, name: Str) -> Result<libc::stat, c_int> {
    let mut found = stat();
    match dfs_stat(fs.dfs, parent, name, at(&mut found)) {
        0 => Ok(found),
        errno => Err(errno),
    }
}

#[test]
fn the_root_is_found_without_a_name() {
    let fs = Fs::new();
    for name in [Ptr::null(), text(c"/")] {
        assert_eq!(stat_of(&fs, ROOT, name).unwrap().st_mode & libc::S_IFMT, DIR);
    }
    let dir = fs.dir(c"d");
    assert_eq!(stat_of(&fs, dir, Ptr::null()).map(drop), Err(libc::EINVAL));
    assert_eq!(stat_of(&fs, dir, text(c"none")).map(drop), Err(libc::ENOENT));
    release(dir);
}

/// Attributes of a path in any mount. Checks that all functions that return attributes agree.
fn found(fs: &Fs, dfs: Ptr<Dfs>, path: &CStr) -> libc::stat {
    let mut found = stat();
    let root = lookup_in(dfs, path, RDWR).unwrap();
    assert_eq!(dfs_ostat(dfs, root, at(&mut found)), 0);
    let (mut obj, mut mode, mut stat) = (Ptr::null(), 0, stat());
    let (place, path) = (at(&mut stat), text(path));
    let looked_up =
        daos::dfs::open::dfs_lookup(dfs, path, RDONLY, at(&mut obj), at(&mut mode), place);
    assert_eq!((looked_up, stat.st_mode, mode), (0, found.st_mode, found.st_mode));
    assert_eq!((stat.st_uid, stat.st_mtime), (found.st_uid, found.st_mtime));
    [root, obj].into_iter().for_each(release);
    let mut seen = stat_of(fs, ROOT, Ptr::null()).unwrap();
    assert_eq!(dfs_stat(dfs, ROOT, Ptr::null(), at(&mut seen)), 0);
    assert_eq!((seen.st_mode, seen.st_uid), (found.st_mode, found.st_uid));
    found
}

#[test]
fn attributes_of_the_root_are_current() {
    const MODE_UID_GID_MTIME: c_int = 1 | 4 | 16 | 32;
    let fs = Fs::new();
    let other = fs.mount(RDWR);
    let root = fs.lookup(c"/", RDWR).unwrap();
    let mut set = stat();
    (set.st_mode, set.st_uid, set.st_gid, set.st_mtime) = (DIR | 0o757, 3, 4, 1000);
    assert_eq!(dfs_osetattr(fs.dfs, root, at(&mut set), MODE_UID_GID_MTIME), 0);
    for dfs in [fs.dfs, other] {
        let seen = found(&fs, dfs, c"/");
        assert_eq!((seen.st_mode, seen.st_uid, seen.st_gid), (DIR | 0o757, 3, 4));
        assert_eq!(seen.st_mtime, 1000);
    }
    assert_eq!(dfs_chmod(fs.dfs, ROOT, Ptr::null(), 0o700), 0);
    assert_eq!(dfs_chown(fs.dfs, ROOT, Ptr::null(), 7, 8, 0), 0);
    for dfs in [fs.dfs, other] {
        let seen = found(&fs, dfs, c"/");
        assert_eq!((seen.st_mode, seen.st_uid, seen.st_gid), (DIR | 0o700, 7, 8));
    }
    assert_eq!(dfs_obj_set_chunk_size(fs.dfs, root, 0, 128), 0);
    let (file, mut chunk) = (fs.file(c"f", b""), 0);
    assert_eq!(dfs_get_chunk_size(file, at(&mut chunk)), 0);
    assert_eq!(chunk, 128, "what is made in it goes by what it says now");
    [root, file].into_iter().for_each(release);
    assert_eq!(dfs_umount(other), 0);
}

#[test]
fn a_type_cannot_be_changed() {
    const MODE: c_int = 1;
    let fs = Fs::new();
    let file = fs.file(c"f", b"");
    assert_eq!(dfs_chmod(fs.dfs, ROOT, text(c"f"), DIR | 0o600), libc::EINVAL);
    assert_eq!(dfs_chmod(fs.dfs, ROOT, text(c"f"), FILE | 0o640), 0);
    let mut set = stat();
    set.st_mode = LINK | 0o600;
    assert_eq!(dfs_osetattr(fs.dfs, file, at(&mut set), MODE), libc::EINVAL);
    assert_eq!(stat_of(&fs, ROOT, text(c"f")).unwrap().st_mode, FILE | 0o640);
    release(file);
}

#[test]
fn attributes_of_a_removed_entry_are_refused() {
    let fs = Fs::new();
    let (file, dir) = (fs.file(c"f", b"data"), fs.dir(c"d"));
    for (obj, name) in [(file, c"f"), (dir, c"d")] {
        let mut seen = stat();
        assert_eq!(dfs_ostat(fs.dfs, obj, at(&mut seen)), 0);
        assert_eq!(daos::dfs::entry::dfs_remove(fs.dfs, ROOT, text(name), 0, Ptr::null()), 0);
        assert_eq!(dfs_ostat(fs.dfs, obj, at(&mut seen)), libc::ENOENT);
    }
    assert_eq!(fs.read(file, 0), Ok(b"data".to_vec()), "it stays until it is closed");
    [file, dir].into_iter().for_each(release);
}

#[test]
fn attributes_are_set() {
    const MODE: c_int = 1;
    const MTIME: c_int = 4;
    const SIZE: c_int = 8;
    let fs = Fs::new();
    let file = fs.file(c"f", b"0123456789");
    let mut set = stat();
    (set.st_mode, set.st_size) = (0o600, 4);
    (set.st_mtime, set.st_mtime_nsec) = (1234, 567);
    assert_eq!(dfs_osetattr(fs.dfs, file, at(&mut set), MODE | MTIME | SIZE), 0);
    assert_eq!((set.st_mode, set.st_size), (FILE | 0o600, 4));
    assert_eq!((set.st_mtime, set.st_mtime_nsec), (1234, 567));
    let mut seen = stat();
    assert_eq!(dfs_ostat(fs.dfs, file, at(&mut seen)), 0);
    assert_eq!((seen.st_mode, seen.st_size, seen.st_mtime), (FILE | 0o600, 4, 1234));
    assert_eq!(dfs_osetattr(fs.dfs, file, at(&mut set), 1 << 9), libc::EINVAL);
    set.st_mtime_nsec = 1_000_000_000;
    assert_eq!(dfs_osetattr(fs.dfs, file, at(&mut set), MTIME), libc::EINVAL);
    set.st_size = -1;
    assert_eq!(dfs_osetattr(fs.dfs, file, at(&mut set), SIZE), libc::EINVAL);
    release(file);
}

#[test]
fn objects_opened_for_reading_refuse_attributes() {
    const MODE: c_int = 1;
    const SIZE: c_int = 8;
    let fs = Fs::new();
    release(fs.file(c"f", b"data"));
    release(fs.dir(c"d"));
    for (path, name) in [(c"/f", c"f"), (c"/d", c"d")] {
        let before = stat_of(&fs, ROOT, text(name)).unwrap();
        let (obj, mut set) = (fs.lookup(path, RDONLY).unwrap(), stat());
        set.st_mode = 0o600;
        for flags in [MODE, SIZE] {
            assert_eq!(dfs_osetattr(fs.dfs, obj, at(&mut set), flags), libc::EPERM);
        }
        assert_eq!(stat_of(&fs, ROOT, text(name)).unwrap().st_mode, before.st_mode);
        release(obj);
    }
}

#[test]
fn modes_and_owners_of_entries_can_be_changed() {
    let fs = Fs::new();
    release(fs.file(c"f", b""));
    let (name, link, mut obj) = (text(c"f"), text(c"l"), Ptr::null());
    let made = dfs_open(fs.dfs, ROOT, link, LINK | 0o777, CREAT, 0, 0, name, at(&mut obj));
    assert_eq!(made, 0);
    release(obj);
    assert_eq!(dfs_chmod(fs.dfs, ROOT, link, 0o604), 0);
    assert_eq!(stat_of(&fs, ROOT, name).unwrap().st_mode, FILE | 0o604, "followed");
    assert_eq!(dfs_chown(fs.dfs, ROOT, name, 12, u32::MAX, 0), 0);
    assert_eq!(dfs_chown(fs.dfs, ROOT, link, u32::MAX, 34, 0), 0);
    let seen = stat_of(&fs, ROOT, name).unwrap();
    assert_eq!((seen.st_uid, seen.st_gid), (12, 34));
    assert_eq!(dfs_chown(fs.dfs, ROOT, link, 56, u32::MAX, libc::O_NOFOLLOW), 0);
    assert_eq!(stat_of(&fs, ROOT, link).unwrap().st_uid, 56);
    assert_eq!(stat_of(&fs, ROOT, name).unwrap().st_uid, 12);
    assert_eq!(dfs_access(fs.dfs, ROOT, link, libc::F_OK), 0);
    assert_eq!(dfs_access(fs.dfs, ROOT, name, 8), libc::EINVAL);
    assert_eq!(dfs_access(fs.dfs, ROOT, text(c"none"), libc::R_OK), libc::ENOENT);
    let dfs = fs.mount(RDONLY);
    assert_eq!(dfs_access(dfs, ROOT, Ptr::null(), libc::W_OK), libc::EPERM);
    assert_eq!(dfs_access(dfs, ROOT, Ptr::null(), libc::R_OK), 0);
    dfs_umount(dfs);
}

#[test]
fn superuser_has_the_permissions_of_other_users() {
    let fs = Fs::new();
    release(fs.file(c"f", b""));
    let (name, (uid, gid)) = (text(c"f"), real_owner());
    let access = |owner, group, mode, mask| {
        assert_eq!(dfs_chown(fs.dfs, ROOT, name, owner, group, 0), 0);
        assert_eq!(dfs_chmod(fs.dfs, ROOT, name, mode), 0);
        dfs_access(fs.dfs, ROOT, name, mask)
    };
    assert_eq!(access(uid + 1, gid + 1, 0o770, libc::R_OK), libc::EACCES);
    assert_eq!(access(uid + 1, gid + 1, 0o004, libc::R_OK), 0);
    assert_eq!(access(uid + 1, gid, 0o020, libc::W_OK), 0);
    assert_eq!(access(uid + 1, gid, 0o200, libc::W_OK), libc::EACCES);
    assert_eq!(access(uid, gid + 1, 0o300, libc::W_OK | libc::X_OK), 0);
    assert_eq!(access(uid, gid + 1, 0o300, libc::R_OK), libc::EACCES);
    assert_eq!(access(uid, gid + 1, 0o204, libc::R_OK | libc::W_OK), 0, "bits add up");
    assert_eq!(access(uid, gid, 0, libc::F_OK), 0);
}

#[test]
fn a_directory_sets_defaults_for_new_entries() {
    let fs = Fs::new();
    let (dir, file) = (fs.dir(c"d"), fs.file(c"f", b""));
    assert_eq!(dfs_obj_set_chunk_size(fs.dfs, dir, 0, 65536), 0);
    assert_eq!(dfs_obj_set_oclass(fs.dfs, dir, 0, S1), 0);
    assert_eq!(dfs_obj_set_chunk_size(fs.dfs, dir, 0, (1 << 30) + 1), libc::EINVAL);
    assert_eq!(dfs_obj_set_chunk_size(fs.dfs, file, 0, 65536), libc::ENOTDIR);
    assert_eq!(dfs_obj_set_oclass(fs.dfs, file, 0, S1), libc::ENOTDIR);
    release(dir);
    let dir = fs.lookup(c"/d", RDWR).unwrap();
    let (mut info, mut chunk) = (DfsObjInfo::default(), 0);
    assert_eq!(dfs_obj_get_info(fs.dfs, dir, at(&mut info)), 0);
    assert_eq!((info.chunk_size, info.file_oclass), (65536, S1));
    let inside = fs.open(dir, c"g", FILE, RDWR | CREAT).unwrap();
    assert_eq!(dfs_obj_get_info(fs.dfs, inside, at(&mut info)), 0);
    assert_eq!((info.chunk_size, info.oclass), (65536, S1));
    assert_eq!(dfs_get_chunk_size(inside, at(&mut chunk)), 0);
    assert_eq!(chunk, 65536);
    assert_eq!(dfs_get_chunk_size(dir, at(&mut chunk)), libc::EINVAL);
    let mut mode = 0;
    assert_eq!(dfs_get_mode(dir, at(&mut mode)), 0);
    assert_eq!(mode, DIR | 0o755);
    [dir, file, inside].into_iter().for_each(release);
}

#[test]
fn extended_attributes_are_read_back() {
    let fs = Fs::new();
    let file = fs.file(c"f", b"");
    let name = text(c"user.colour");
    let set = |value: &[u8], flags| {
        dfs_setxattr(fs.dfs, file, name, bytes(value), value.len() as u64, flags)
    };
    let mut place = [0; 8];
    let mut get = |size: &mut u64| dfs_getxattr(fs.dfs, file, name, room(&mut place), at(size));
    assert_eq!(get(&mut 8), libc::ENODATA);
    assert_eq!(set(b"red", libc::XATTR_REPLACE), libc::ENODATA);
    assert_eq!(set(b"red", libc::XATTR_CREATE), 0);
    assert_eq!(set(b"blue", libc::XATTR_CREATE), libc::EEXIST);
    assert_eq!(set(b"green", 0), 0);
    assert_eq!(set(b"green", 8), libc::EINVAL);
    let mut size = 3;
    assert_eq!((get(&mut size), size), (libc::E2BIG, 5));
    size = 0;
    assert_eq!((get(&mut size), size), (0, 5));
    size = 8;
    assert_eq!((get(&mut size), size, &place[..5]), (0, 5, &b"green"[..]));
    let mut names = [0; 32];
    size = 32;
    let listed = dfs_listxattr(fs.dfs, file, room(&mut names).cast(), at(&mut size));
    assert_eq!((listed, &names[..size as usize]), (0, &b"user.colour\0"[..]));
    assert_eq!(dfs_setxattr(fs.dfs, file, text(c"user.z"), bytes(b"1"), 1, 0), 0);
    size = 15;
    let listed = dfs_listxattr(fs.dfs, file, room(&mut names).cast(), at(&mut size));
    assert_eq!((listed, size, &names[..13]), (0, 19, &b"user.colour\0\0"[..]), "what fits");
    assert_eq!(dfs_removexattr(fs.dfs, file, name), 0);
    assert_eq!(dfs_removexattr(fs.dfs, file, name), libc::ENODATA);
    assert_eq!(dfs_removexattr(fs.dfs, file, text(c"")), libc::EINVAL);
    let huge = vec![0; 65537];
    assert_eq!(set(&huge, 0), libc::EINVAL);
    assert_eq!(set(&huge[..65536], 0), 0);
    release(file);
}

#[test]
fn the_target_of_a_symlink_is_returned() {
    let fs = Fs::new();
    let (mut link, value) = (Ptr::null(), text(c"over/there"));
    let name = text(c"l");
    assert_eq!(dfs_open(fs.dfs, ROOT, name, LINK, CREAT, 0, 0, value, at(&mut link)), 0);
    let mut place = [7u8; 16];
    let read = |size: &mut u64, buf: Ptr<c_void>| dfs_get_symlink_value(link, buf.cast(), at(size));
    let mut size = 0;
    assert_eq!((read(&mut size, Ptr::null()), size), (0, 11));
    size = 4;
    assert_eq!((read(&mut size, room(&mut place)), size, &place[..5]), (0, 11, &b"over\x07"[..]));
    size = 16;
    assert_eq!((read(&mut size, room(&mut place)), &place[..11]), (0, &b"over/there\0"[..]));
    release(link);
    let file = fs.file(c"f", b"");
    assert_eq!(dfs_get_symlink_value(file, Ptr::null(), at(&mut size)), libc::EINVAL);
    release(file);
}

#[test]
fn a_read_only_mount_refuses_changes_of_objects_of_other_mounts() {
    let fs = Fs::new();
    let (dfs, file) = (fs.mount(RDONLY), fs.file(c"f", b"data"));
    let name = text(c"user.k");
    assert_eq!(dfs_setxattr(fs.dfs, file, name, bytes(b"v"), 1, 0), 0);
    assert_eq!(dfs_setxattr(dfs, file, name, bytes(b"w"), 1, 0), libc::EPERM);
    assert_eq!(dfs_removexattr(dfs, file, name), libc::EPERM);
    assert_eq!(dfs_punch(dfs, file, 0, 2), libc::EPERM);
    let mut stat = stat();
    assert_eq!(dfs_ostat(dfs, file, at(&mut stat)), 0);
    assert_eq!(dfs_osetattr(dfs, file, at(&mut stat), 1), libc::EPERM);
    assert_eq!(fs.read(file, 0), Ok(b"data".to_vec()));
    release(file);
    assert_eq!(dfs_umount(dfs), 0);
}
