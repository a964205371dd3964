//! Moving bytes between descriptors: sendfile, copy_file_range, splice.
use crate::answer::{Answer, Fail, refuse, to_c};
use crate::descriptors;
use crate::edge::{In, Out, export, real};
use crate::limits::TRANSFER_MAX;
use crate::open_file::OpenFile;
use crate::serve::{on, serve};
use crate::{maps, mounted, raw};
use esker_preload_interface::Dfs;
use std::ffi::{c_int, c_uint};

/// Bytes moved at a time.
const CHUNK: usize = 1 << 20;

/// One end of a transfer: a descriptor, at an offset of the caller, which advances. A null `offset` means the position
/// of the descriptor itself.
#[derive(Clone, Copy)]
struct End {
    fd: c_int,
    offset: Out<i64>,
}

mod c {
    use super::{In, Out, c_int, real};

    real! {
        fn read(fd: c_int, buffer: Out<u8>, length: usize) -> isize;
        fn write(fd: c_int, data: In<u8>, length: usize) -> isize;
        fn pread64(fd: c_int, buffer: Out<u8>, length: usize, offset: i64) -> isize;
        fn pwrite64(fd: c_int, data: In<u8>, length: usize, offset: i64) -> isize;
    }
}

/// Converts the result of a C function: a negative one is an error, with its errno set.
fn checked(result: isize) -> Answer<usize> {
    usize::try_from(result).map_err(|_| Fail::Errno(crate::threads::errno()))
}

impl End {
    fn is_ours(self) -> bool {
        descriptors::is_ours(self.fd)
    }

    /// True for a directory.
    ///
    /// # Errors
    /// `EBADF` if it is not open, or was opened with `O_PATH`.
    fn is_directory(self) -> Answer<bool> {
        match self.is_ours() {
            true => Ok(descriptors::get(self.fd)?.open()?.is_directory()),
            false => Ok(raw::status(self.fd)?.st_mode & libc::S_IFMT == libc::S_IFDIR),
        }
    }

    /// Reads from this end, and advances its offset by the number of bytes read.
    fn read(self, room: &mut [u8]) -> Answer<usize> {
        let result = match (self.is_ours(), self.offset.get()) {
            (true, None) => serve(|| descriptors::get(self.fd)?.read(self.fd, room))?,
            (true, Some(at)) => serve(|| descriptors::get(self.fd)?.read_at(room, at))?,
            (false, None) => c::read(self.fd, Out::from_slice(room), room.len()),
            (false, Some(at)) => c::pread64(self.fd, Out::from_slice(room), room.len(), at),
        };
        checked(result).inspect(|done| self.move_on(*done as i64))
    }

    /// Writes to this end, and advances its offset by the number of bytes written.
    fn write(self, data: &[u8]) -> Answer<usize> {
        let result = match (self.is_ours(), self.offset.get()) {
            (true, None) => serve(|| descriptors::get(self.fd)?.write(self.fd, &[data]))?,
            (true, Some(at)) => {
                serve(|| descriptors::get(self.fd)?.write_at(self.fd, &[data], at))?
            }
            (false, None) => c::write(self.fd, In::from_slice(data), data.len()),
            (false, Some(at)) => c::pwrite64(self.fd, In::from_slice(data), data.len(), at),
        };
        checked(result).inspect(|done| self.move_on(*done as i64))
    }

    /// The offset of the next read or write.
    fn place(self) -> Answer<i64> {
        let own = || descriptors::get(self.fd)?.position.seek(self.fd, 0, libc::SEEK_CUR);
        self.offset.get().map_or_else(own, Ok)
    }

    /// Moves the offset of the caller on, if the call has one.
    fn move_on(self, by: i64) {
        if let Some(at) = self.offset.get() {
            self.offset.set(at + by);
        }
    }

    /// Undoes the read of bytes that the target did not accept.
    fn move_back(self, by: usize) {
        match self.offset.get() {
            Some(_) => self.move_on(-(by as i64)),
            None => drop(self.seek_back(by as i64)),
        }
    }

    /// Moves the position back by bytes that were read but not written.
    fn seek_back(self, by: i64) -> Answer<i64> {
        match self.is_ours() {
            true => {
                serve(|| descriptors::get(self.fd)?.position.seek(self.fd, -by, libc::SEEK_CUR))
            }
            false => raw::seek(self.fd, -by, libc::SEEK_CUR),
        }
    }
}

/// Copies until the source ends, `length` bytes are done or the target accepts no more. Returns the bytes copied, or
/// the error of the first step.
fn copy(from: End, to: End, length: usize) -> Answer<isize> {
    let length = length.min(TRANSFER_MAX);
    let mut room = vec![0; length.clamp(1, CHUNK)];
    let mut done = 0;
    while done < length {
        let wanted = (length - done).min(room.len());
        let result = step(from, to, &mut room[..wanted]);
        match result {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
        // Another thread has closed the descriptor of ours meanwhile.
        if !from.is_ours() && !to.is_ours() {
            break;
        }
    }
    Ok(done as isize)
}

/// Copies up to one buffer `room`, and returns the bytes written. If not all is written, the source is moved back.
fn step(from: End, to: End, room: &mut [u8]) -> Answer<usize> {
    let count = from.read(room)?;
    let mut done = 0;
    while done < count {
        match to.write(&room[done..count]) {
            Ok(0) => break,
            Ok(more) => done += more,
            Err(error) if done == 0 => {
                from.move_back(count);
                return Err(error);
            }
            Err(_) => break,
        }
    }
    if done < count {
        from.move_back(count - done);
    }
    Ok(done)
}

/// Checks the arguments of `copy_file_range`, and returns the number of bytes to copy. Within one file, that number
/// ends at the end of the file, and the two ranges must not overlap.
fn check_range(from: End, to: End, length: usize, flags: c_uint) -> Answer<usize> {
    // Errors have the order in which Linux checks: descriptors, flags, directories, modes.
    let are_directories = (from.is_directory()?, to.is_directory()?);
    if flags != 0 {
        return refuse(libc::EINVAL);
    }
    if are_directories != (false, false) {
        return refuse(libc::EISDIR);
    }
    let has_mode = |end: End, mode: c_int| {
        descriptors::get(end.fd).is_ok_and(|file| file.identity().flags & libc::O_ACCMODE == mode)
    };
    let appends = descriptors::get(to.fd).is_ok_and(|file| file.position.appends(to.fd));
    if appends || has_mode(from, libc::O_WRONLY) || has_mode(to, libc::O_RDONLY) {
        return refuse(libc::EBADF);
    }
    if same(from.fd, to.fd) {
        let size = descriptors::get(from.fd)?.attr()?.size;
        let (at, to) = (from.place()? as u64, to.place()? as u64);
        let there = (length as u64).min(size.saturating_sub(at));
        return if at.abs_diff(to) < there { refuse(libc::EINVAL) } else { Ok(there as usize) };
    }
    Ok(length)
}

/// True if both descriptors are of the same file in the mount point.
fn same(one: c_int, other: c_int) -> bool {
    match (descriptors::get(one), descriptors::get(other)) {
        (Ok(one), Ok(other)) => one.identity().oid == other.identity().oid,
        _ => false,
    }
}

/// True if one of two descriptors is of a file in the mount point.
fn touches_ours(one: c_int, other: c_int) -> bool {
    descriptors::is_ours(one) || descriptors::is_ours(other)
}

/// True for an end that `splice` takes as its pipe: a pipe without an offset.
fn is_pipe(end: End) -> bool {
    let mode = raw::status(end.fd).map_or(0, |status| status.st_mode);
    !end.is_ours() && mode & libc::S_IFMT == libc::S_IFIFO && end.offset.is_null()
}

/// Flags of `splice`. Only `SPLICE_F_NONBLOCK` has an effect.
const SPLICE_FLAGS: c_uint =
    libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MORE | libc::SPLICE_F_GIFT;

/// Serves `splice` between a pipe and a file of ours. As in Linux, one call moves what the pipe has or accepts, and
/// waits only if that is nothing. The bytes pass through a pipe of this library.
fn splice_ours(from: End, to: End, length: usize, flags: c_uint) -> Answer<isize> {
    if flags & !SPLICE_FLAGS != 0 || !(is_pipe(from) || is_pipe(to)) {
        return refuse(libc::EINVAL);
    }
    let between = raw::pipe()?;
    let moved = match is_pipe(from) {
        true => splice_from_pipe(from, to, between, (length, flags)),
        false => splice_to_pipe(from, to, between, (length, flags)),
    };
    raw::close(between.0);
    raw::close(between.1);
    moved.map(|count| count as isize)
}

/// Moves bytes from a pipe to a file. The pipe keeps the bytes that the file does not accept.
fn splice_from_pipe(
    from: End,
    to: End,
    (read, write): (c_int, c_int),
    (length, flags): (usize, c_uint),
) -> Answer<usize> {
    let mut room = vec![0; raw::copy_pipe(from.fd, write, length, flags)?];
    let count = raw::read(read, &mut room)?;
    let done = if count == 0 { 0 } else { to.write(&room[..count])? };
    let mut left = done;
    // The pipe has these bytes, unless another thread reads from it, too.
    while left > 0
        && let Ok(count @ 1..) = raw::read(from.fd, &mut room[..left])
    {
        left -= count;
    }
    Ok(done)
}

/// Moves bytes from a file to a pipe. The position in the file advances by the bytes that the pipe accepts.
fn splice_to_pipe(
    from: End,
    to: End,
    (read, write): (c_int, c_int),
    (length, flags): (usize, c_uint),
) -> Answer<usize> {
    let capacity = raw::control(write, libc::F_GETPIPE_SZ, 0)? as usize;
    let mut room = vec![0; length.min(capacity)];
    let count = from.read(&mut room)?;
    if count == 0 {
        return Ok(0);
    }
    let done =
        raw::write(write, &room[..count]).and_then(|count| raw::splice(read, to.fd, count, flags));
    let left = count - done.as_ref().copied().unwrap_or(0);
    if left > 0 {
        from.move_back(left);
    }
    done
}

/// Serves `sendfile`.
fn send(to: c_int, from: c_int, offset: Out<i64>, length: usize) -> isize {
    to_c(copy(End { fd: from, offset }, End { fd: to, offset: Out::null() }, length))
}

export! {
    fn sendfile(to: c_int, from: c_int, offset: Out<i64>, length: usize) -> isize | next {
        match touches_ours(to, from) {
            true => send(to, from, offset, length),
            false => next(to, from, offset, length),
        }
    }

    fn sendfile64(to: c_int, from: c_int, offset: Out<i64>, length: usize) -> isize | next {
        match touches_ours(to, from) {
            true => send(to, from, offset, length),
            false => next(to, from, offset, length),
        }
    }

    fn copy_file_range(
        from: c_int, from_offset: Out<i64>, to: c_int, to_offset: Out<i64>, length: usize,
        flags: c_uint,
    ) -> isize | next {
        if !touches_ours(from, to) {
            return next(from, from_offset, to, to_offset, length, flags);
        }
        let ends = (End { fd: from, offset: from_offset }, End { fd: to, offset: to_offset });
        let checked = serve(|| check_range(ends.0, ends.1, length, flags));
        to_c(checked.and_then(|length| copy(ends.0, ends.1, length)))
    }

    fn splice(
        from: c_int, from_offset: Out<i64>, to: c_int, to_offset: Out<i64>, length: usize,
        flags: c_uint,
    ) -> isize | next {
        if !touches_ours(from, to) {
            return next(from, from_offset, to, to_offset, length, flags);
        }
        let ends = (End { fd: from, offset: from_offset }, End { fd: to, offset: to_offset });
        if length == 0 { 0 } else { to_c(splice_ours(ends.0, ends.1, length, flags)) }
    }
}

/// Stores the pending changes of this process to all files (`syncfs`).
///
/// # Errors
/// `EBADF` if `file` was opened with `O_PATH`.
fn sync_all(file: &OpenFile) -> Answer<c_int> {
    file.open()?;
    store_pending(&*mounted::get()?).map(|()| 0)
}

/// Stores the pending changes of this process to all files.
fn store_pending(fs: &Dfs) -> Answer<()> {
    let written = maps::write_back_all();
    fs.flush()?;
    written
}

// Functions that store data or give advice about the use of a file.
export! {
    fn fsync(fd: c_int) -> c_int | next {
        on(fd, |file| file.sync(), || next(fd))
    }

    fn fdatasync(fd: c_int) -> c_int | next {
        on(fd, |file| file.sync(), || next(fd))
    }

    fn syncfs(fd: c_int) -> c_int | next {
        on(fd, sync_all, || next(fd))
    }

    fn sync() -> () | next {
        // A process that has not opened the file system has no changes.
        if let Some(fs) = mounted::if_open() {
            // This call has no result that could report an error.
            let _ = serve(|| store_pending(&fs));
        }
        next();
    }

    fn sync_file_range(fd: c_int, offset: i64, length: i64, flags: c_uint) -> c_int | next {
        on(fd, |file| file.sync(), || next(fd, offset, length, flags))
    }

    fn posix_fadvise(fd: c_int, offset: i64, length: i64, advice: c_int) -> c_int | next {
        // Advice does not change how the store reads.
        on(fd, |_| Ok(0), || next(fd, offset, length, advice))
    }

    fn posix_fadvise64(fd: c_int, offset: i64, length: i64, advice: c_int) -> c_int | next {
        // Advice does not change how the store reads.
        on(fd, |_| Ok(0), || next(fd, offset, length, advice))
    }

    fn readahead(fd: c_int, offset: i64, length: usize) -> isize | next {
        // The store does not read ahead on request.
        on(fd, |_| Ok(0), || next(fd, offset, length))
    }
}
