//! The calls by path.
use super::*;
use daos::abi::{DfsSys, Iov, Str};
use daos::dfs_sys::{attr::*, dir::*, entry::*, file::*, mount::*, xattr::*};
use std::ffi::{CString, c_void};

/// A file system used by path.
struct Paths {
    sys: Ptr<DfsSys>,
    fs: Fs,
}

impl Paths {
    fn new() -> Self {
        let (fs, mut sys) = (Fs::new(), Ptr::null());
        assert_eq!(dfs_sys_mount(fs.store.poh, fs.coh, RDWR, 0, at(&mut sys)), 0);
        Self { sys, fs }
    }

    fn open(&self, path: &CStr, mode: u32, flags: c_int) -> Result<Ptr<DfsObj>, c_int> {
        let mut obj = Ptr::null();
        match dfs_sys_open(self.sys, text(path), mode, flags, 0, 0, Ptr::null(), at(&mut obj)) {
            0 => Ok(obj),
            errno => Err(errno),
        }
    }

    fn mkdir(&self, path: &CStr) -> c_int {
        dfs_sys_mkdir(self.sys, text(path), 0o755, 0)
    }

    fn write(&self, path: &CStr, data: &[u8]) {
        let obj = self.open(path, FILE | 0o644, RDWR | CREAT).unwrap();
        let mut size = data.len() as u64;
        assert_eq!(dfs_sys_write(self.sys, obj, bytes(data), 0, at(&mut size), WAIT), 0);
        assert_eq!(size, data.len() as u64);
        assert_eq!(dfs_sys_close(obj), 0);
    }

    fn stat(&self, path: &CStr, flags: c_int) -> Result<libc::stat, c_int> {
        let mut found = stat();
        match dfs_sys_stat(self.sys, text(path), flags, at(&mut found)) {
            0 => Ok(found),
            errno => Err(errno),
        }
    }

    fn symlink(&self, target: &CStr, path: &CStr) -> c_int {
        dfs_sys_symlink(self.sys, text(target), text(path))
    }
}

impl Drop for Paths {
    fn drop(&mut self) {
        dfs_sys_umount(self.sys);
    }
}

#[test]
fn files_are_opened_by_path() {
    let paths = Paths::new();
    assert_eq!(paths.open(c"/a", FILE, RDWR).map(drop), Err(libc::ENOENT));
    assert_eq!(paths.open(c"a", FILE, RDWR).map(drop), Err(libc::EINVAL), "not absolute");
    paths.write(c"/a", b"content");
    assert_eq!(paths.open(c"/a", FILE, CREAT | libc::O_EXCL).map(drop), Err(libc::EEXIST));
    assert_eq!(paths.open(c"/a/b", FILE, RDWR | CREAT).map(drop), Err(libc::ENOTDIR));
    let file = paths.open(c"/a", 0, RDONLY).unwrap();
    let (mut place, mut size) = ([0; 16], 16);
    assert_eq!(dfs_sys_read(paths.sys, file, room(&mut place), 3, at(&mut size), WAIT), 0);
    assert_eq!((size, &place[..4]), (4, &b"tent"[..]));
    assert_eq!(dfs_sys_close(file), 0);
    assert_eq!(dfs_sys_punch(paths.sys, text(c"/a"), 2, u64::MAX), 0);
    assert_eq!(paths.stat(c"/a", 0).unwrap().st_size, 2);
    assert_eq!(dfs_sys_punch(paths.sys, text(c"/"), 0, 1), libc::EINVAL);
}

#[test]
fn symlinks_are_followed_unless_the_caller_forbids_it() {
    let paths = Paths::new();
    paths.write(c"/f", b"12345");
    assert_eq!(paths.symlink(c"f", c"/l"), 0);
    assert_eq!(paths.symlink(c"f", c"/l"), libc::EEXIST);
    assert_eq!(paths.stat(c"/l", 0).unwrap().st_size, 5);
    assert_eq!(paths.stat(c"/l", libc::O_NOFOLLOW).unwrap().st_mode & libc::S_IFMT, LINK);
    assert_eq!(dfs_sys_close(paths.open(c"/l", FILE, RDONLY).unwrap()), 0);
    assert_eq!(dfs_sys_close(paths.open(c"/l", LINK, RDONLY).unwrap()), 0);
    assert_eq!(paths.open(c"/l", FILE, RDONLY | libc::O_NOFOLLOW).map(drop), Err(libc::EINVAL));
    let (mut place, mut size) = ([0u8; 8], 8);
    let read = |path, place: &mut [u8], size: &mut u64| {
        dfs_sys_readlink(paths.sys, path, room(place).cast(), at(size))
    };
    assert_eq!(read(text(c"/l"), &mut place, &mut size), 0);
    assert_eq!((size, &place[..2]), (2, &b"f\0"[..]));
    assert_eq!(read(text(c"/f"), &mut place, &mut size), libc::EINVAL);
}

#[test]
fn entries_are_created_and_removed() {
    let paths = Paths::new();
    let oid = Ptr::null();
    let path = text(c"/d/e/f");
    assert_eq!(paths.mkdir(c"/d/e"), libc::ENOENT);
    assert_eq!(dfs_sys_mkdir_p(paths.sys, text(c"/d/e//"), 0o755, 0), 0);
    assert_eq!(dfs_sys_mkdir_p(paths.sys, text(c"/d/e"), 0o755, 0), 0);
    assert_eq!(paths.mkdir(c"/d/e"), libc::EEXIST);
    assert_eq!(paths.mkdir(c"/"), libc::EEXIST);
    assert_eq!(dfs_sys_mknod(paths.sys, path, FILE | 0o600, 0, 0), 0);
    assert_eq!(dfs_sys_mknod(paths.sys, path, FILE | 0o600, 0, 0), libc::EEXIST);
    assert_eq!(dfs_sys_mknod(paths.sys, path, libc::S_IFIFO, 0, 0), libc::EINVAL);
    assert_eq!(dfs_sys_mkdir_p(paths.sys, path, 0o755, 0), libc::EEXIST);
    assert_eq!(dfs_sys_mkdir_p(paths.sys, text(c"/d/e/f/g"), 0o755, 0), libc::ENOTDIR);
    assert_eq!(dfs_sys_remove_type(paths.sys, path, 0, DIR, oid), libc::ENOTDIR);
    assert_eq!(dfs_sys_remove_type(paths.sys, path, 0, LINK, oid), libc::EINVAL);
    assert_eq!(dfs_sys_remove_type(paths.sys, text(c"/d"), 0, FILE, oid), libc::EISDIR);
    assert_eq!(dfs_sys_remove_type(paths.sys, path, 0, FILE, oid), 0);
    assert_eq!(dfs_sys_remove(paths.sys, text(c"/d"), 0, oid), libc::ENOTEMPTY);
    assert_eq!(dfs_sys_remove(paths.sys, text(c"/d"), 1, oid), 0);
    assert_eq!(dfs_sys_remove(paths.sys, text(c"/"), 1, oid), libc::EBUSY);
}

#[test]
fn attributes_are_changed_by_path() {
    const MODE: c_int = 1;
    let paths = Paths::new();
    paths.write(c"/f", b"");
    let path = text(c"/f");
    assert_eq!(dfs_sys_chmod(paths.sys, path, 0o604), 0);
    assert_eq!(dfs_sys_chown(paths.sys, path, 12, u32::MAX, 0), 0);
    let stamp = |tv_sec, tv_nsec| libc::timespec { tv_sec, tv_nsec };
    let mut times = [stamp(1, 2), stamp(3, 4)];
    assert_eq!(dfs_sys_utimens(paths.sys, path, list(&mut times), 0), 0);
    let seen = paths.stat(c"/f", 0).unwrap();
    assert_eq!((seen.st_mode, seen.st_uid), (FILE | 0o604, 12));
    assert_eq!((seen.st_mtime, seen.st_mtime_nsec), (3, 4));
    times[1] = stamp(9, libc::UTIME_OMIT);
    assert_eq!(dfs_sys_utimens(paths.sys, path, list(&mut times), 0), 0);
    assert_eq!(paths.stat(c"/f", 0).unwrap().st_mtime, 3);
    times[1] = stamp(9, -7);
    assert_eq!(dfs_sys_utimens(paths.sys, path, list(&mut times), 0), libc::EINVAL);
    assert_eq!(dfs_sys_access(paths.sys, path, libc::F_OK, 0), 0);
    let effective = dfs_sys_access(paths.sys, path, libc::F_OK, libc::AT_EACCESS);
    assert_eq!(effective, libc::ENOTSUP);
    let mut set = stat();
    set.st_mode = 0o777;
    assert_eq!(dfs_sys_setattr(paths.sys, path, at(&mut set), MODE, 0), 0);
    assert_eq!((set.st_mode, set.st_mtime), (FILE | 0o777, 3));
}

#[test]
fn extended_attributes_are_out_of_range_when_too_long() {
    let paths = Paths::new();
    paths.write(c"/f", b"");
    let (path, name) = (text(c"/f"), text(c"user.a"));
    let set = |value: &[u8]| {
        let len = value.len() as u64;
        dfs_sys_setxattr(paths.sys, path, name, bytes(value), len, 0, 0)
    };
    assert_eq!(set(b"value"), 0);
    let (mut place, mut size) = ([0; 8], 3);
    let get = |place: &mut [u8], size: &mut u64, name: Str| {
        dfs_sys_getxattr(paths.sys, path, name, room(place), at(size), 0)
    };
    assert_eq!((get(&mut place, &mut size, name), size), (libc::ERANGE, 5));
    size = 0;
    let asked = dfs_sys_getxattr(paths.sys, path, name, Ptr::null(), at(&mut size), 0);
    assert_eq!((asked, size), (libc::ERANGE, 5), "no room at all is too little as well");
    size = 8;
    assert_eq!((get(&mut place, &mut size, name), &place[..5]), (0, &b"value"[..]));
    assert_eq!(get(&mut place, &mut size, text(c"user.b")), libc::ENODATA);
    size = 2;
    let names: Ptr<c_void> = room(&mut place);
    assert_eq!(dfs_sys_listxattr(paths.sys, path, names.cast(), at(&mut size), 0), libc::ERANGE);
    assert_eq!(size, 7);
    let asked = dfs_sys_listxattr(paths.sys, path, Ptr::null(), at(&mut size), 0);
    assert_eq!((asked, size), (libc::ERANGE, 7));
    assert_eq!(dfs_sys_removexattr(paths.sys, path, name, 0), 0);
    size = 0;
    let asked = dfs_sys_listxattr(paths.sys, path, Ptr::null(), at(&mut size), 0);
    assert_eq!((asked, size), (0, 0), "there is nothing to make room for");
    assert_eq!(dfs_sys_removexattr(paths.sys, path, name, 0), libc::ENODATA);
}

#[test]
fn directories_are_read_entry_by_entry() {
    let paths = Paths::new();
    assert_eq!(paths.mkdir(c"/d"), 0);
    for n in 0..30 {
        paths.write(&CString::new(format!("/d/{n:02}")).unwrap(), b"");
    }
    assert_eq!(paths.symlink(c"x", c"/d/z"), 0);
    let (mut dir, mut entry) = (Ptr::null(), Ptr::null());
    assert_eq!(dfs_sys_opendir(paths.sys, text(c"/d/00"), 0, at(&mut dir)), libc::ENOTDIR);
    assert_eq!(dfs_sys_opendir(paths.sys, text(c"/d"), 0, at(&mut dir)), 0);
    let mut found = Vec::new();
    loop {
        assert_eq!(dfs_sys_readdir(paths.sys, dir, at(&mut entry)), 0);
        if entry.is_null() {
            break;
        }
        let entry: libc::dirent = entry.get().unwrap();
        found.push((entry.d_name[0] as u8, entry.d_name[1] as u8, entry.d_type));
    }
    found.sort();
    assert_eq!(found.len(), 31);
    assert_eq!(found[7], (b'0', b'7', libc::DT_REG));
    assert_eq!(found[30], (b'z', 0, libc::DT_LNK));
    assert_eq!(dfs_sys_closedir(dir), 0);
    assert_eq!(dfs_sys_closedir(dir), libc::EINVAL);
    assert_eq!(dfs_sys_readdir(paths.sys, dir, at(&mut entry)), libc::EINVAL);
}

#[test]
fn mounts_by_path_are_opened_and_closed() {
    let paths = Paths::new();
    paths.write(c"/f", b"data");
    let (mut dfs, mut sys) = (Ptr::null(), Ptr::null());
    assert_eq!(dfs_sys2base(paths.sys, at(&mut dfs)), 0);
    release(lookup_in(dfs, c"/f", RDONLY).unwrap());
    assert_eq!(dfs_sys_set_prefix(paths.sys, text(c"/mnt")), 0);
    assert_eq!(paths.stat(c"/mnt/f", 0).unwrap().st_size, 4);
    let mut blob = [0; 64];
    let mut glob: Iov = iov_room(&mut blob);
    assert_eq!(dfs_sys_local2global(paths.sys, at(&mut glob)), 0);
    let (poh, coh) = (paths.fs.store.poh, paths.fs.coh);
    assert_eq!(dfs_sys_global2local(poh, coh, 0, 0, glob, at(&mut sys)), 0);
    assert_eq!(dfs_sys_umount(sys), 0);
    assert_eq!(dfs_sys_umount(sys), libc::EINVAL);
    assert_eq!(dfs_sys_mount(poh, coh, RDWR, 99, at(&mut sys)), libc::EINVAL);
    let mut blob = [0; 256];
    let mut glob: Iov = iov_room(&mut blob);
    assert_eq!(dfs_sys_local2global_all(paths.sys, at(&mut glob)), 0);
    // Flags of 0 mean the flags of the original mount, which allows writing.
    assert_eq!(dfs_sys_global2local_all(0, 0, glob, at(&mut sys)), 0);
    assert_eq!(dfs_sys_mkdir(sys, text(c"/d"), 0o755, 0), 0);
    assert_eq!(dfs_sys_disconnect(sys), 0);
}
