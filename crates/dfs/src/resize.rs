//! Size, holes and allocation of open files.
use crate::file::File;
use crate::mount::FsSpace;
use esker::types::ops::{Sink, Source};
use esker::types::{ByteSize, Error, ErrorKind, Extent, Result};
use esker::{Access, Wait};

/// Chunks that one transaction removes; a longer file shrinks in several.
const CHUNKS_AT_ONCE_MAX: u64 = 8192;

impl File {
    /// Sets the size of the file to `size` bytes; an extension is a hole (POSIX: `ftruncate`).
    ///
    /// # Errors
    /// [`ErrorKind::NoHandle`] if it is not open for writing, [`ErrorKind::FileTooBig`],
    /// [`ErrorKind::NoSpace`]; [`ErrorKind::NotFound`] as for [`File::read_into`].
    pub fn set_len(&self, size: u64) -> Result<()> {
        self.check_writable()?;
        self.resize(size)
    }

    /// Sets the size of the file to `size` bytes. A file that loses many chunks is cut in several steps.
    pub(crate) fn resize(&self, size: u64) -> Result<()> {
        self.check_end(size, 0)?;
        let current = self.array().size(Access::Latest).wait()?;
        if current == size {
            return self.note_change();
        }
        let chunks = current.saturating_sub(size) / self.array().attributes().chunk_size;
        if chunks > CHUNKS_AT_ONCE_MAX {
            self.array().set_size(size, Access::Latest).wait()?;
            return self.note_change();
        }
        self.node().fs().transact(|access| {
            let current = self.array().size(access).wait()?;
            match size > current {
                true => self.end_at(size, access),
                false => self.array().set_size(size, access).wait(),
            }
        })?;
        self.note_change()
    }

    /// Writes a zero as the last byte, which makes the file `size` bytes long. `size` is at least 1.
    fn end_at(&self, size: u64, access: Access<'_>) -> Result<()> {
        let last = [Extent::new(size - 1, 1)];
        self.array().write(&last, Source::One(&[0]), access).wait()
    }

    /// Punches a hole; the size stays (Linux: `fallocate` with `FALLOC_FL_PUNCH_HOLE`).
    ///
    /// # Errors
    /// The errors of [`File::set_len`]; [`ErrorKind::Invalid`] for no bytes.
    pub fn punch(&self, offset: u64, len: u64) -> Result<()> {
        self.check_range(offset, len)?;
        self.node().fs().transact(|access| self.punch_in(offset, len, access))?;
        self.note_change()
    }

    /// Punches the part of the range that lies in the file, and keeps the size of the file.
    fn punch_in(&self, offset: u64, len: u64, access: Access<'_>) -> Result<()> {
        let size = self.array().size(access).wait()?;
        let end = size.min(offset + len);
        if offset >= end {
            return Ok(());
        }
        self.array().punch(&[Extent::new(offset, end - offset)], access).wait()?;
        // The last byte determines the size.
        if end == size { self.end_at(size, access) } else { Ok(()) }
    }

    /// Zeroes a range; the file grows if the range ends past its end, unless `keep_size` (Linux:
    /// `FALLOC_FL_ZERO_RANGE`).
    ///
    /// # Errors
    /// The errors of [`File::punch`].
    pub fn zero(&self, offset: u64, len: u64, keep_size: bool) -> Result<()> {
        self.check_range(offset, len)?;
        // A zeroing that fails changes nothing.
        self.check_space(offset, len)?;
        self.punch(offset, len)?;
        self.grow(offset, len, keep_size)
    }

    /// Extends the file to hold `len` bytes from `offset` on, unless `keep_size` (POSIX: `posix_fallocate`). Reserves
    /// no space: a later write may still fail with [`ErrorKind::NoSpace`].
    ///
    /// # Errors
    /// The errors of [`File::punch`]; [`ErrorKind::NoSpace`] if the pool now has less free space than the range has bytes
    /// past the end of the file.
    pub fn allocate(&self, offset: u64, len: u64, keep_size: bool) -> Result<()> {
        self.check_range(offset, len)?;
        self.check_space(offset, len)?;
        self.grow(offset, len, keep_size)
    }

    /// Fails with `NoSpace` if the bytes of the range past the end of the file are more than the free space.
    fn check_space(&self, offset: u64, len: u64) -> Result<()> {
        let size = self.array().size(Access::Latest).wait()?;
        let new = (offset + len).saturating_sub(size.max(offset));
        // Backends for tests do not track their space.
        let FsSpace { total, free, .. } = self.node().fs().space()?;
        if new == 0 || total == 0 || new <= free {
            return Ok(());
        }
        let (new, free) = (ByteSize(new), ByteSize(free));
        let text = format!("{new} are more than the {free} that the pool has left");
        Err(Error::new(ErrorKind::NoSpace, text))
    }

    /// Extends the file to the end of the range, unless `keep_size`.
    fn grow(&self, offset: u64, len: u64, keep_size: bool) -> Result<()> {
        if !keep_size {
            self.node().fs().transact(|access| {
                let size = self.array().size(access).wait()?;
                if offset + len > size { self.end_at(offset + len, access) } else { Ok(()) }
            })?;
        }
        self.note_change()
    }

    /// Fails if the file is not open for writing, or the range is empty or ends after the largest size.
    fn check_range(&self, offset: u64, len: u64) -> Result<()> {
        self.check_writable()?;
        match len {
            0 => Err(Error::new(ErrorKind::Invalid, "a range of no bytes")),
            _ => self.check_end(offset, len),
        }
    }

    /// The offset of the first data at or after `offset` (POSIX: `SEEK_DATA`). The last byte of a file that was
    /// extended is part of its hole.
    ///
    /// # Errors
    /// [`ErrorKind::PastEnd`] if there is none.
    pub fn seek_data(&self, offset: u64) -> Result<u64> {
        match self.next_data(offset)? {
            Some(at) if !self.is_end_of_hole(at)? => Ok(at),
            _ => Err(past_end(offset)),
        }
    }

    /// The offset of the first stored byte at or after `offset`; `None` if only a hole follows.
    fn next_data(&self, offset: u64) -> Result<Option<u64>> {
        let found = self.array().next_data(offset, self.node().fs().view()).wait()?;
        self.check_lease()?;
        Ok(found)
    }

    /// True for the byte that [`File::set_len`] writes, and for one that a program wrote alike: zero, the last one,
    /// after a hole.
    fn is_end_of_hole(&self, offset: u64) -> Result<bool> {
        let (mut last, range) = ([1; 2], [Extent::new(offset, 2)]);
        let sink = Sink::One(&mut last);
        let read = self.array().read(&range, sink, self.node().fs().view()).wait()?;
        let is_last = read.bytes == 1 && last[0] == 0;
        Ok(is_last && self.next_data(offset.saturating_sub(1))? == Some(offset))
    }

    /// The offset of the first hole at or after `offset`; the end of the file counts as a hole
    /// (POSIX: `SEEK_HOLE`).
    ///
    /// # Errors
    /// [`ErrorKind::PastEnd`] if `offset` is not below the size.
    pub fn seek_hole(&self, offset: u64) -> Result<u64> {
        match offset < self.size()? {
            true => self.array().next_hole(offset, self.node().fs().view()).wait(),
            false => Err(past_end(offset)),
        }
    }
}

#[cold]
fn past_end(offset: u64) -> Error {
    Error::new(ErrorKind::PastEnd, format!("there is nothing from byte {offset} on"))
}
