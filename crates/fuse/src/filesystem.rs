//! Requests of the kernel through its device, one method each, passed on to the methods of [`Served`].
use crate::answer::{Answer, Refusal};
use crate::attributes::{Wanted, wanted_time};
use crate::data::{Copy, Written, with_buffer};
use crate::limits::{BACKGROUND_MAX, REQUEST_BYTES_MAX};
use crate::names::New;
use crate::options::Cache;
use crate::served::{Caller, Opened, Served, Space};
use crate::xattr::XattrReply;
use dfs::SetAttr;
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileAttr, FileHandle, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// Inode numbers are never reused.
const GENERATION: Generation = Generation(0);

/// The file system, as it answers requests that come through the device.
pub(crate) struct Device {
    pub(crate) served: Arc<Served>,
    /// Largest payload of a request over io_uring, if that is wanted.
    pub(crate) ring_payload: Option<u32>,
    /// Set if the kernel will send requests over io_uring.
    pub(crate) uses_ring: Arc<AtomicBool>,
}

impl Filesystem for Device {
    /// Negotiates the features of the mount with the kernel, and notes whether it has the optional ones.
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let mut wanted = InitFlags::FUSE_ATOMIC_O_TRUNC
            | InitFlags::FUSE_AUTO_INVAL_DATA
            | InitFlags::FUSE_ASYNC_DIO
            | InitFlags::FUSE_CACHE_SYMLINKS
            | InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP
            | InitFlags::FUSE_DO_READDIRPLUS
            | InitFlags::FUSE_HANDLE_KILLPRIV_V2
            // A file is found by its path only, so a handle could not be opened once the kernel has forgotten the
            // inode.
            | InitFlags::FUSE_NO_EXPORT_SUPPORT
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_READDIRPLUS_AUTO;
        wanted.set(InitFlags::FUSE_WRITEBACK_CACHE, self.served.cache == Cache::Writeback);
        wanted.set(InitFlags::FUSE_OVER_IO_URING, self.ring_payload.is_some());
        // Without the capabilities that this kernel lacks, the mount still works.
        let known = wanted & config.capabilities();
        let _ = config.add_capabilities(known);
        let maps_direct = known.contains(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);
        self.served.maps_direct.store(maps_direct, Ordering::Relaxed);
        let uses_ring = known.contains(InitFlags::FUSE_OVER_IO_URING);
        self.uses_ring.store(uses_ring, Ordering::Relaxed);
        // `fuser` refuses only values beyond its limits, which these are within.
        let ring_payload = self.ring_payload.filter(|_| uses_ring);
        let _ = config.set_max_write(ring_payload.unwrap_or(REQUEST_BYTES_MAX));
        let _ = config.set_max_background(BACKGROUND_MAX);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(reply, self.served.look_up(parent.0, name.as_bytes()));
    }

    fn forget(&self, _: &Request, ino: INodeNo, nlookup: u64) {
        self.served.inodes.forget(ino.0, nlookup);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.attr(reply, self.served.attributes(ino.0));
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mtime = mtime.map(wanted_time);
        let set = SetAttr { mode, uid, gid, size, mtime, ..SetAttr::default() };
        let wanted =
            Wanted { set, by_user: caller(request).is_user(), sets_atime: atime.is_some() };
        self.attr(reply, self.served.set_attributes(ino.0, wanted));
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.served.read_link(ino.0) {
            Ok(target) => reply.data(&target),
            Err(Refusal(errno)) => reply.error(errno),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        self.entry(
            reply,
            self.served.make_file(parent.0, name.as_bytes(), New::by(caller(request), mode)),
        );
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        self.entry(
            reply,
            self.served.make_directory(parent.0, name.as_bytes(), New::by(caller(request), mode)),
        );
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(reply, self.served.unlink(parent.0, name.as_bytes()));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(reply, self.served.remove_directory(parent.0, name.as_bytes()));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let (target, new) = (target.as_os_str().as_bytes(), New::link_by(caller(request)));
        self.entry(reply, self.served.make_link(parent.0, name.as_bytes(), target, new));
    }

    fn link(&self, _: &Request, _: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(reply, self.served.refuse_name(parent.0, name.as_bytes()));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = ((parent.0, name.as_bytes()), (newparent.0, newname.as_bytes()));
        reply_empty(reply, self.served.rename(from, to, flags));
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        reply_opened(reply, self.served.open(ino.0, flags.0, caller(request)));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let new = New::by(caller(request), mode);
        match self.served.create(parent.0, name.as_bytes(), new, flags) {
            Ok((attr, (handle, treatment))) => {
                reply.created(&self.served.fresh, &attr, GENERATION, FileHandle(handle), treatment);
            }
            Err(Refusal(errno)) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        // The kernel names a lock owner for a program whose read bypasses the pages.
        let into_pages = owner.is_none();
        with_buffer(size as usize, |buffer| {
            match self.served.read((ino.0, fh.0), offset, into_pages, buffer) {
                Ok(len) => reply.data(&buffer[..len]),
                Err(Refusal(errno)) => reply.error(errno),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        how: WriteFlags,
        flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let len = data.len() as u32;
        let request = Written { offset, data, how, flags: flags.0, passes: owner.is_some() };
        match self.served.write((ino.0, fh.0), &request) {
            Ok(None) => reply.written(len),
            Ok(Some(passage)) => self.served.dropper.end(passage, move || reply.written(len)),
            Err(Refusal(errno)) => reply.error(errno),
        }
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        fh: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        reply_empty(reply, self.served.close(ino.0, fh.0));
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply_empty(reply, self.served.sync(ino.0));
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let opened = self.served.open_directory(ino.0);
        reply_opened(reply, opened.map(|handle| (handle, FopenFlags::empty())));
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.served.list(fh.0, offset, |entry| {
            let (number, name) = (INodeNo(entry.number), OsStr::from_bytes(entry.name));
            reply.add(number, entry.next, entry.kind, name)
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(Refusal(errno)) => reply.error(errno),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let listed = self.served.list_with_attributes(fh.0, offset, |entry, attr| {
            let (number, name) = (INodeNo(entry.number), OsStr::from_bytes(entry.name));
            reply.add(number, entry.next, name, &self.served.fresh, attr, GENERATION)
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(Refusal(errno)) => reply.error(errno),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.served.listings.close(fh.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply_empty(reply, self.served.flush());
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.served.space() {
            Ok(Space { blocks, free, files, files_free, block_size, name_max }) => reply
                .statfs(blocks, free, free, files, files_free, block_size, name_max, block_size),
            Err(Refusal(errno)) => reply.error(errno),
        }
    }

    fn setxattr(
        &self,
        _: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        reply_empty(reply, self.served.set_attribute(ino.0, name.as_bytes(), value, flags));
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        sized(reply, size, self.served.attribute(ino.0, name.as_bytes()));
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        sized(reply, size, self.served.attribute_names(ino.0));
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(reply, self.served.remove_attribute(ino.0, name.as_bytes()));
    }

    fn fallocate(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        reply_empty(reply, self.served.allocate(ino.0, (offset, length), mode, caller(request)));
    }

    fn lseek(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        match self.served.seek(ino.0, offset, whence) {
            Ok(found) => reply.offset(found),
            Err(Refusal(errno)) => reply.error(errno),
        }
    }

    fn copy_file_range(
        &self,
        request: &Request,
        ino_in: INodeNo,
        _: FileHandle,
        offset_in: u64,
        ino_out: INodeNo,
        _: FileHandle,
        offset_out: u64,
        len: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let copy = Copy { from: (ino_in.0, offset_in), to: (ino_out.0, offset_out), len };
        match self.served.copy(&copy, caller(request)) {
            Ok(len) => reply.written(len),
            Err(Refusal(errno)) => reply.error(errno),
        }
    }
}

impl Device {
    /// Replies with an entry, which the kernel may cache for a while, or with the error.
    fn entry(&self, reply: ReplyEntry, answer: Answer<FileAttr>) {
        match answer {
            Ok(attr) => reply.entry(&self.served.fresh, &attr, GENERATION),
            Err(Refusal(errno)) => reply.error(errno),
        }
    }

    /// Replies with attributes, which the kernel may cache for a while, or with the error.
    fn attr(&self, reply: ReplyAttr, answer: Answer<FileAttr>) {
        match answer {
            Ok(attr) => reply.attr(&self.served.fresh, &attr),
            Err(Refusal(errno)) => reply.error(errno),
        }
    }
}

fn caller(request: &Request) -> Caller {
    Caller { uid: request.uid(), gid: request.gid() }
}

/// Replies without data, or with the error.
fn reply_empty(reply: ReplyEmpty, answer: Answer<()>) {
    match answer {
        Ok(()) => reply.ok(),
        Err(Refusal(errno)) => reply.error(errno),
    }
}

/// Replies with a handle, or with the error.
fn reply_opened(reply: ReplyOpen, answer: Answer<Opened>) {
    match answer {
        Ok((handle, treatment)) => reply.opened(FileHandle(handle), treatment),
        Err(Refusal(errno)) => reply.error(errno),
    }
}

/// Replies with the value, or with its size if the buffer of the program has no `room`.
fn sized(reply: ReplyXattr, room: u32, answer: Answer<Vec<u8>>) {
    match answer.and_then(|value| XattrReply::for_room(value, room)) {
        Ok(XattrReply::Size(size)) => reply.size(size),
        Ok(XattrReply::Value(value)) => reply.data(&value),
        Err(Refusal(errno)) => reply.error(errno),
    }
}
