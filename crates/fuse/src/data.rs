//! Requests on the content of files.
use crate::answer::{Answer, of_number};
use crate::attributes::SET_IDS;
use crate::inodes::Inode;
use crate::limits::{COPY_BYTES_MAX, FRESH, REQUEST_BYTES_MAX};
use crate::options::Cache;
use crate::passing::Passage;
use crate::served::{Caller, Opened, Served};
use dfs::File;
use fuser::{Errno, FopenFlags, WriteFlags};
use rustix::fs::{FallocateFlags, OFlags};
use std::cell::RefCell;
use std::sync::Arc;

/// Linux: `SEEK_DATA`.
const SEEK_DATA: i32 = 3;
/// Linux: `SEEK_HOLE`.
const SEEK_HOLE: i32 = 4;

thread_local! {
    /// Buffer of each thread for reads and copies; reused, because fresh memory is slow.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A write request: of a program, or of the kernel on behalf of programs that wrote to its cache.
pub(crate) struct Written<'a> {
    pub(crate) offset: u64,
    pub(crate) data: &'a [u8],
    /// Flags of the request.
    pub(crate) how: WriteFlags,
    /// Flags of the open file, such as `O_APPEND`.
    pub(crate) flags: i32,
    /// The write bypasses the kernel's pages.
    pub(crate) passes: bool,
}

impl Written<'_> {
    /// Writes back data that programs stored in pages, outside the ranges of bypassing writes.
    fn around_passing(&self, inode: &Inode, file: &File) -> Answer<()> {
        let range = self.offset..self.offset + self.data.len() as u64;
        inode.passing.around(range, |part| {
            let data = (part.start - self.offset) as usize..(part.end - self.offset) as usize;
            Ok(file.write_at(part.start, &self.data[data]).map(drop)?)
        })
    }

    /// Writes data of a program that appends, or whose writes bypass the kernel's pages. If the kernel may have read
    /// pages of this range meanwhile, returns the passage: the caller drops these pages.
    fn past_pages(&self, inode: &Arc<Inode>, file: &File) -> Answer<Option<Passage>> {
        let len = self.data.len() as u64;
        if has(self.flags, OFlags::APPEND) {
            if !self.passes {
                // `O_APPEND` was set after the open. The kernel holds the pages of the write until it has the reply.
                return Ok(file.append(self.data).map(|_| None)?);
            }
            let append = || Ok(file.append(self.data).map(|start| start..start + len)?);
            return Ok(Passage::append(inode, append)?.if_filled());
        }
        let passage = Passage::begin(inode, self.offset..self.offset + len);
        file.write_at(self.offset, self.data)?;
        Ok(passage.if_filled())
    }
}

/// A range to copy: inode number and offset of both ends, and the length in bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    pub(crate) from: (u64, u64),
    pub(crate) to: (u64, u64),
    pub(crate) len: u64,
}

/// A change by `fallocate`.
enum Change {
    Allocate,
    Punch,
    Zero,
}

impl Served {
    /// Serves `open`: returns a handle, and how the kernel treats the pages of the file.
    pub(crate) fn open(&self, number: u64, flags: i32, caller: Caller) -> Answer<Opened> {
        let inode = self.inode(number)?;
        let file = self.open_inode(&inode, flags, caller.is_user())?;
        let (handle, treatment) = self.handle(&inode, &file, flags);
        // A file whose pages are kept has not changed. For any other file, the kernel may have cached an earlier size.
        if !treatment.contains(FopenFlags::FOPEN_KEEP_CACHE) {
            self.dropper.drop_attributes(number);
        }
        Ok((handle, treatment))
    }

    /// Opens a file, for the first or another time, and truncates it if `flags` say so. `by_user` is false for root,
    /// who may keep set-id bits.
    pub(crate) fn open_inode(&self, inode: &Inode, flags: i32, by_user: bool) -> Answer<Arc<File>> {
        let file = inode.open()?;
        if has(flags, OFlags::TRUNC) {
            let dropped = if by_user { self.drop_set_ids(inode) } else { Ok(()) };
            let truncated = dropped.and_then(|()| of_number(file.set_len(0)));
            truncated.inspect_err(|_| inode.unopen())?;
        }
        Ok(file)
    }

    /// Closes a handle of a file.
    pub(crate) fn close(&self, number: u64, handle: u64) -> Answer<()> {
        self.inode(number).map(|inode| inode.close(handle))
    }

    /// Serves `read`: fills `buffer` and returns the number of bytes, which is less at the end of the file.
    /// `into_pages` is true if the kernel reads into its cache.
    pub(crate) fn read(
        &self,
        (number, handle): (u64, u64),
        offset: u64,
        into_pages: bool,
        buffer: &mut [u8],
    ) -> Answer<usize> {
        let inode = self.inode(number)?;
        let file = inode.read_by(handle, buffer.len() as u64, into_pages).ok_or(Errno::EBADF)?;
        Ok(file.read_at(offset, buffer)?)
    }

    /// Serves `write`. Returns a passage if the write bypassed the kernel's pages and the kernel may have read some
    /// meanwhile. The caller then drops these pages, which ends the passage.
    pub(crate) fn write(
        &self,
        (number, handle): (u64, u64),
        written: &Written<'_>,
    ) -> Answer<Option<Passage>> {
        let inode = self.inode(number)?;
        let len = written.data.len() as u64;
        let file = inode.written_by(handle, len).ok_or(Errno::EBADF)?;
        let takes_set_ids = written.how.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        if takes_set_ids && inode.recent_mode(FRESH) & SET_IDS != 0 {
            self.drop_set_ids(&inode)?;
        }
        let from_pages = written.how.contains(WriteFlags::FUSE_WRITE_CACHE);
        match from_pages {
            // A memory mapping was written back. Its pages may be older than the data of a bypassing write.
            true if self.cache != Cache::Writeback => {
                written.around_passing(&inode, &file).map(|()| None)
            }
            // Writes from the kernel's cache already have their offset, so only these may be appends.
            false if has(written.flags, OFlags::APPEND) || written.passes => {
                written.past_pages(&inode, &file)
            }
            _ => Ok(file.write_at(written.offset, written.data).map(|_| None)?),
        }
    }

    /// Serves `lseek` with `SEEK_DATA` and `SEEK_HOLE`: the offset at which data or a hole begins. With write-back, the
    /// kernel has data that is not stored yet, so it must take the whole file for data: it does after `ENOSYS`.
    pub(crate) fn seek(&self, number: u64, offset: i64, whence: i32) -> Answer<i64> {
        if self.cache == Cache::Writeback {
            return Err(Errno::ENOSYS.into());
        }
        let file = self.open_file(number)?;
        let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
        let found = match whence {
            SEEK_DATA => file.seek_data(offset)?,
            SEEK_HOLE => file.seek_hole(offset)?,
            _ => return Err(Errno::EINVAL.into()),
        };
        i64::try_from(found).map_err(|_| Errno::EOVERFLOW.into())
    }

    /// Serves `fallocate`: allocates, punches or zeroes a range.
    pub(crate) fn allocate(
        &self,
        number: u64,
        (offset, len): (u64, u64),
        mode: i32,
        caller: Caller,
    ) -> Answer<()> {
        let file = self.open_file(number)?;
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        let keep = FallocateFlags::KEEP_SIZE;
        let keeps = mode.contains(keep);
        let change = match mode.difference(keep) {
            FallocateFlags::PUNCH_HOLE if keeps => Change::Punch,
            FallocateFlags::ZERO_RANGE => Change::Zero,
            none if none.is_empty() => Change::Allocate,
            _ => return Err(Errno::EOPNOTSUPP.into()),
        };
        self.before_change(number, caller.is_user())?;
        match change {
            Change::Punch => file.punch(offset, len)?,
            Change::Zero => file.zero(offset, len, keeps)?,
            Change::Allocate => file.allocate(offset, len, keeps)?,
        }
        Ok(())
    }

    /// Serves `copy_file_range`: returns the number of bytes copied. If it is less than `len`, the source ended or the
    /// next call copies the rest.
    pub(crate) fn copy(&self, copy: &Copy, caller: Caller) -> Answer<u32> {
        let files = (self.open_file(copy.from.0)?, self.open_file(copy.to.0)?);
        self.before_change(copy.to.0, caller.is_user())?;
        copy_bytes(copy, &files.0, &files.1)
    }

    /// Serves `fsync` for an open file.
    pub(crate) fn sync(&self, number: u64) -> Answer<()> {
        of_number(self.open_file(number)?.sync())
    }

    /// The open file of this inode number; `EBADF` if it is not open.
    fn open_file(&self, number: u64) -> Answer<Arc<File>> {
        self.inode(number)?.file().ok_or(Errno::EBADF.into())
    }
}

/// Copies up to [`COPY_BYTES_MAX`] through a buffer, and returns the number of bytes: the program repeats the call for the
/// rest. After an error it returns the number of bytes before it, if there are any, and the next call has the error.
fn copy_bytes(copy: &Copy, from: &File, to: &File) -> Answer<u32> {
    let len = copy.len.min(COPY_BYTES_MAX);
    let mut done = 0;
    with_buffer(REQUEST_BYTES_MAX as usize, |buffer| {
        while done < len {
            let want = (len - done).min(buffer.len() as u64) as usize;
            let copied = from
                .read_at(copy.from.1 + done, &mut buffer[..want])
                .and_then(|read| to.write_at(copy.to.1 + done, &buffer[..read]).map(|_| read));
            match copied {
                Ok(0) => break,
                Ok(read) => done += read as u64,
                Err(error) if done == 0 => return Err(error.into()),
                Err(_) => break,
            }
        }
        Ok(done as u32)
    })
}

/// True if the flags of `open` contain `wanted`.
pub(crate) fn has(flags: i32, wanted: OFlags) -> bool {
    OFlags::from_bits_retain(flags as u32).contains(wanted)
}

/// Gives `work` a buffer of `len` bytes, which the thread keeps for the next call.
pub(crate) fn with_buffer<T>(len: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        work(&mut buffer[..len])
    })
}
