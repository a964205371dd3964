//! The file system calls.
mod attr;
mod check;
mod dir;
pub(crate) mod duns;
mod global;
mod io;
mod mount;
mod open;
mod sys;

use crate::common::*;
use daos::abi::{Dfs, DfsObj, Handle, Ptr, Sgl};
use daos::container::daos_cont_close;
use daos::dfs::create::dfs_cont_create;
use daos::dfs::file::dfs_release;
use daos::dfs::io::{dfs_read, dfs_write};
use daos::dfs::mount::{dfs_mount, dfs_umount};
use daos::dfs::open::{dfs_lookup, dfs_mkdir, dfs_open};
use std::ffi::{CStr, c_int};

pub(crate) const DIR: u32 = libc::S_IFDIR;
pub(crate) const FILE: u32 = libc::S_IFREG;
pub(crate) const LINK: u32 = libc::S_IFLNK;
pub(crate) const RDONLY: c_int = libc::O_RDONLY;
pub(crate) const WRONLY: c_int = libc::O_WRONLY;
pub(crate) const RDWR: c_int = libc::O_RDWR;
pub(crate) const CREAT: c_int = libc::O_CREAT;

/// The root directory, as a parent.
pub(crate) const ROOT: Ptr<DfsObj> = Ptr::null();

/// A file system in a pool in memory.
pub(crate) struct Fs {
    pub(crate) dfs: Ptr<Dfs>,
    pub(crate) coh: Handle,
    pub(crate) store: Store,
}

impl Fs {
    pub(crate) fn new() -> Self {
        let store = Store::new();
        let (mut uuid, mut coh, mut dfs) = ([0; 16], NONE, Ptr::null());
        let made =
            dfs_cont_create(store.poh, at(&mut uuid), Ptr::null(), at(&mut coh), at(&mut dfs));
        assert_eq!(made, 0);
        Self { dfs, coh, store }
    }

    /// Mounts it again.
    pub(crate) fn mount(&self, flags: c_int) -> Ptr<Dfs> {
        let mut dfs = Ptr::null();
        assert_eq!(dfs_mount(self.store.poh, self.coh, flags, at(&mut dfs)), 0);
        dfs
    }

    pub(crate) fn open(
        &self,
        parent: Ptr<DfsObj>,
        name: &CStr,
        mode: u32,
        flags: c_int,
    ) -> Result<Ptr<DfsObj>, c_int> {
        open_in(self.dfs, parent, name, mode, flags)
    }

    /// A new open file that contains data.
    pub(crate) fn file(&self, name: &CStr, data: &[u8]) -> Ptr<DfsObj> {
        let obj = self.open(ROOT, name, FILE | 0o644, RDWR | CREAT).unwrap();
        assert_eq!(self.write(obj, data, 0), 0);
        obj
    }

    /// A new open directory.
    pub(crate) fn dir(&self, name: &CStr) -> Ptr<DfsObj> {
        assert_eq!(dfs_mkdir(self.dfs, ROOT, text(name), 0o755, 0), 0);
        self.open(ROOT, name, DIR, RDWR).unwrap()
    }

    pub(crate) fn lookup(&self, path: &CStr, flags: c_int) -> Result<Ptr<DfsObj>, c_int> {
        lookup_in(self.dfs, path, flags)
    }

    pub(crate) fn write(&self, obj: Ptr<DfsObj>, data: &[u8], offset: u64) -> c_int {
        dfs_write(self.dfs, obj, at(&mut sgl(&mut [iov(data)])), offset, WAIT)
    }

    /// Reads up to 64 bytes from an offset.
    pub(crate) fn read(&self, obj: Ptr<DfsObj>, offset: u64) -> Result<Vec<u8>, c_int> {
        let (mut place, mut read) = ([0xee; 64], u64::MAX);
        let mut iovs = [iov_room(&mut place)];
        let mut sgl: Sgl = sgl(&mut iovs);
        match dfs_read(self.dfs, obj, at(&mut sgl), offset, at(&mut read), WAIT) {
            0 => Ok(place[..read as usize].to_vec()),
            errno => Err(errno),
        }
    }
}

impl Drop for Fs {
    fn drop(&mut self) {
        dfs_umount(self.dfs);
        daos_cont_close(self.coh, WAIT);
    }
}

/// Opens or creates the entry `name` of a directory in a mount. Returns the errno on failure.
pub(crate) fn open_in(
    dfs: Ptr<Dfs>,
    parent: Ptr<DfsObj>,
    name: &CStr,
    mode: u32,
    flags: c_int,
) -> Result<Ptr<DfsObj>, c_int> {
    let mut obj = Ptr::null();
    match dfs_open(dfs, parent, text(name), mode, flags, 0, 0, Ptr::null(), at(&mut obj)) {
        0 => Ok(obj),
        errno => Err(errno),
    }
}

/// Opens the object at a path in a mount. Returns the errno on failure.
pub(crate) fn lookup_in(dfs: Ptr<Dfs>, path: &CStr, flags: c_int) -> Result<Ptr<DfsObj>, c_int> {
    let mut obj = Ptr::null();
    match dfs_lookup(dfs, text(path), flags, at(&mut obj), Ptr::null(), Ptr::null()) {
        0 => Ok(obj),
        errno => Err(errno),
    }
}

pub(crate) fn release(obj: Ptr<DfsObj>) {
    assert_eq!(dfs_release(obj), 0);
}
