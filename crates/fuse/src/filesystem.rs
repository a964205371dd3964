//! The requests of the kernel, one method each, passed on to the modules that answer them.
use crate::answer::Refusal;
use crate::attributes::{Wanted, wanted_time};
use crate::data::{Copy, Written};
use crate::limits::{BACKGROUND_MAX, REQUEST_BYTES_MAX};
use crate::names::New;
use crate::options::Cache;
use crate::served::{GENERATION, Served, reply_empty, sized, written};
use dfs::SetAttr;
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, FopenFlags, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

impl Filesystem for Served {
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
        wanted.set(InitFlags::FUSE_WRITEBACK_CACHE, self.cache == Cache::Writeback);
        // Without the capabilities that this kernel lacks, the mount still works.
        let known = wanted & config.capabilities();
        let _ = config.add_capabilities(known);
        self.maps_direct = known.contains(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        let _ = config.set_max_background(BACKGROUND_MAX);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(reply, self.look_up(parent.0, name.as_bytes()));
    }

    fn forget(&self, _: &Request, ino: INodeNo, nlookup: u64) {
        self.inodes.forget(ino.0, nlookup);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.attr(reply, self.attributes(ino.0));
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
        let mode = mode.map(|mode| mode & dfs::MODE_MASK);
        let mtime = mtime.map(wanted_time);
        let set = SetAttr { mode, uid, gid, size, mtime, ..SetAttr::default() };
        let wanted = Wanted { set, by_user: by_user(request), sets_atime: atime.is_some() };
        self.attr(reply, self.set_attributes(ino.0, wanted));
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.read_link(ino.0) {
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
        self.entry(reply, self.make_file(parent.0, name.as_bytes(), New::by(request, mode)));
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
        self.entry(reply, self.make_directory(parent.0, name.as_bytes(), New::by(request, mode)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(reply, Served::unlink(self, parent.0, name.as_bytes()));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(reply, self.remove_directory(parent.0, name.as_bytes()));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let (target, new) = (target.as_os_str().as_bytes(), New::by(request, 0o777));
        self.entry(reply, self.make_link(parent.0, name.as_bytes(), target, new));
    }

    fn link(&self, _: &Request, _: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(reply, self.refuse_name(parent.0, name.as_bytes()));
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
        reply_empty(reply, Served::rename(self, from, to, flags));
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let opened = self.inode(ino.0).and_then(|inode| {
            let file = Served::open(self, &inode, flags.0, by_user(request))?;
            Ok(self.handle(&inode, &file, flags.0))
        });
        match opened {
            Ok((handle, treatment)) => {
                // A file whose pages are kept has not changed. Of another one, the kernel may have an earlier size.
                if !treatment.contains(FopenFlags::FOPEN_KEEP_CACHE) {
                    self.dropper.drop_attributes(ino.0);
                }
                reply.opened(FileHandle(handle), treatment);
            }
            Err(Refusal(errno)) => reply.error(errno),
        }
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
        let new = New::by(request, mode);
        match Served::create(self, parent.0, name.as_bytes(), new, flags) {
            Ok((attr, (handle, treatment))) => {
                reply.created(&self.fresh, &attr, GENERATION, FileHandle(handle), treatment);
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
        Served::read(self, (ino.0, fh.0), (offset, size), into_pages, |read| match read {
            Ok(bytes) => reply.data(bytes),
            Err(Refusal(errno)) => reply.error(errno),
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
        match Served::write(self, (ino.0, fh.0), &request) {
            Ok(None) => reply.written(len),
            Ok(Some(passage)) => self.dropper.end(passage, move || reply.written(len)),
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
        reply_empty(reply, self.inode(ino.0).map(|inode| inode.close(fh.0)));
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply_empty(reply, self.sync(ino.0));
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.open_directory(ino.0) {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
            Err(Refusal(errno)) => reply.error(errno),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        match self.list(fh.0, offset, &mut reply) {
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
        match self.list_with_attributes(fh.0, offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(Refusal(errno)) => reply.error(errno),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.listings.close(fh.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply_empty(reply, self.dfs.flush().map_err(Refusal::from));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let space = match self.dfs.space() {
            Ok(space) => space,
            Err(error) => return reply.error(Refusal::from(error).0),
        };
        let (block, blocks) = (space.block_size, |bytes: u64| bytes / space.block_size);
        let (total, free) = (blocks(space.total), blocks(space.free));
        let (files, name) = ((space.files, space.files_free), dfs::limits::NAME_MAX as u32);
        reply.statfs(total, free, free, files.0, files.1, block as u32, name, block as u32);
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
        reply_empty(reply, self.set_attribute(ino.0, name.as_bytes(), value, flags));
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        sized(reply, size, self.attribute(ino.0, name.as_bytes()));
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        sized(reply, size, self.attribute_names(ino.0));
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(reply, self.remove_attribute(ino.0, name.as_bytes()));
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
        let allocated = self.allocate(ino.0, offset, length, mode);
        reply_empty(reply, allocated.and_then(|()| self.changed(ino.0, by_user(request))));
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
        match self.seek(ino.0, offset, whence) {
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
        let changed = |count| self.changed(ino_out.0, by_user(request)).map(|()| count);
        written(reply, self.copy(&copy).and_then(changed));
    }
}

/// Root may keep set-id bits. The kernel reports for writes whether the process may keep them, but not for opens.
fn by_user(request: &Request) -> bool {
    request.uid() != 0
}
