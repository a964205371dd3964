//! Reading and writing.
use crate::answer::{Answer, refuse};
use crate::edge::{In, Out, buffers, export};
use crate::open_file::OpenFile;
use crate::serve::on;
use std::ffi::c_int;

/// The buffers of a transfer.
pub(crate) type Vector = In<libc::iovec>;

fn read_all(file: &OpenFile, fd: c_int, buffer: Out<u8>, length: usize) -> Answer<isize> {
    file.read(fd, buffer.buffer(length)?)
}

fn write_all(file: &OpenFile, fd: c_int, data: In<u8>, length: usize) -> Answer<isize> {
    file.write(fd, &[data.data(length)?])
}

fn read_at(file: &OpenFile, buffer: Out<u8>, length: usize, offset: i64) -> Answer<isize> {
    file.read_at(buffer.buffer(length)?, offset)
}

fn write_at(file: &OpenFile, fd: c_int, data: In<u8>, length: usize, offset: i64) -> Answer<isize> {
    file.write_at(fd, &[data.data(length)?], offset)
}

/// Reads at the position into several buffers (`readv`).
fn read_vector(file: &OpenFile, fd: c_int, vector: Vector, count: c_int) -> Answer<isize> {
    file.read_vector(fd, buffers(vector, count)?)
}

/// Writes at the position from several buffers (`writev`).
fn write_vector(file: &OpenFile, fd: c_int, vector: Vector, count: c_int) -> Answer<isize> {
    file.write(fd, &shared(&buffers(vector, count)?))
}

/// Reads at `offset` into several buffers (`preadv`).
fn read_vector_at(file: &OpenFile, vector: Vector, count: c_int, offset: i64) -> Answer<isize> {
    file.read_vector_at(buffers(vector, count)?, offset)
}

/// Writes at `offset` from several buffers (`pwritev`).
fn write_vector_at(
    file: &OpenFile,
    fd: c_int,
    vector: Vector,
    count: c_int,
    offset: i64,
) -> Answer<isize> {
    file.write_at(fd, &shared(&buffers(vector, count)?), offset)
}

/// Appends several buffers (`RWF_APPEND`).
fn append_vector(
    file: &OpenFile,
    fd: c_int,
    vector: Vector,
    count: c_int,
    offset: i64,
) -> Answer<isize> {
    file.write_at_end(fd, &shared(&buffers(vector, count)?), offset)
}

/// The same buffers, as data to write.
fn shared<'a>(parts: &'a [&mut [u8]]) -> Vec<&'a [u8]> {
    parts.iter().map(|part| &**part).collect()
}

/// Checks the flags of `preadv2` and `pwritev2`: accepts the ones that ask for nothing beyond what the store does
/// anyway.
fn check_flags(flags: c_int) -> Answer<()> {
    const KNOWN: c_int = libc::RWF_HIPRI | libc::RWF_DSYNC | libc::RWF_SYNC | libc::RWF_NOWAIT;
    if flags & !KNOWN == 0 { Ok(()) } else { refuse(libc::EOPNOTSUPP) }
}

/// Serves `preadv2`, in which an offset of -1 means the position.
pub(crate) fn read_vector2(
    (file, fd): (&OpenFile, c_int),
    vector: Vector,
    count: c_int,
    offset: i64,
    flags: c_int,
) -> Answer<isize> {
    check_flags(flags)?;
    match offset {
        -1 => read_vector(file, fd, vector, count),
        _ => read_vector_at(file, vector, count, offset),
    }
}

/// Serves `pwritev2`, in which an offset of -1 means the position.
pub(crate) fn write_vector2(
    (file, fd): (&OpenFile, c_int),
    vector: Vector,
    count: c_int,
    offset: i64,
    flags: c_int,
) -> Answer<isize> {
    check_flags(flags & !libc::RWF_APPEND)?;
    match offset {
        _ if flags & libc::RWF_APPEND != 0 => append_vector(file, fd, vector, count, offset),
        -1 => write_vector(file, fd, vector, count),
        _ => write_vector_at(file, fd, vector, count, offset),
    }
}

/// Functions of one form under several names.
macro_rules! variants {
    ($($form:ident: $($name:ident)*;)*) => {$($(variants! { @$form $name })*)*};
    (@read $name:ident) => { export! {
        fn $name(fd: c_int, buffer: Out<u8>, length: usize) -> isize | next {
            on(fd, |file| read_all(file, fd, buffer, length), || next(fd, buffer, length))
        }
    } };
    (@write $name:ident) => { export! {
        fn $name(fd: c_int, data: In<u8>, length: usize) -> isize | next {
            on(fd, |file| write_all(file, fd, data, length), || next(fd, data, length))
        }
    } };
    (@read_at $name:ident) => { export! {
        fn $name(fd: c_int, buffer: Out<u8>, length: usize, offset: i64) -> isize | next {
            on(fd, |file| read_at(file, buffer, length, offset), || next(fd, buffer, length, offset))
        }
    } };
    (@write_at $name:ident) => { export! {
        fn $name(fd: c_int, data: In<u8>, length: usize, offset: i64) -> isize | next {
            on(fd, |file| write_at(file, fd, data, length, offset), || next(fd, data, length, offset))
        }
    } };
    (@read_vector $name:ident) => { export! {
        fn $name(fd: c_int, vector: Vector, count: c_int) -> isize | next {
            on(fd, |file| read_vector(file, fd, vector, count), || next(fd, vector, count))
        }
    } };
    (@write_vector $name:ident) => { export! {
        fn $name(fd: c_int, vector: Vector, count: c_int) -> isize | next {
            on(fd, |file| write_vector(file, fd, vector, count), || next(fd, vector, count))
        }
    } };
    (@read_vector_at $name:ident) => { export! {
        fn $name(fd: c_int, vector: Vector, count: c_int, offset: i64) -> isize | next {
            let ours = |file: &OpenFile| read_vector_at(file, vector, count, offset);
            on(fd, ours, || next(fd, vector, count, offset))
        }
    } };
    (@write_vector_at $name:ident) => { export! {
        fn $name(fd: c_int, vector: Vector, count: c_int, offset: i64) -> isize | next {
            let ours = |file: &OpenFile| write_vector_at(file, fd, vector, count, offset);
            on(fd, ours, || next(fd, vector, count, offset))
        }
    } };
    (@read_vector2 $name:ident) => { export! {
        fn $name(fd: c_int, vector: Vector, count: c_int, offset: i64, flags: c_int) -> isize | next {
            let ours = |file: &OpenFile| read_vector2((file, fd), vector, count, offset, flags);
            on(fd, ours, || next(fd, vector, count, offset, flags))
        }
    } };
    (@write_vector2 $name:ident) => { export! {
        fn $name(fd: c_int, vector: Vector, count: c_int, offset: i64, flags: c_int) -> isize | next {
            let ours = |file: &OpenFile| write_vector2((file, fd), vector, count, offset, flags);
            on(fd, ours, || next(fd, vector, count, offset, flags))
        }
    } };
}

variants! {
    read: read __read;
    write: write __write;
    read_at: pread pread64 __pread64;
    write_at: pwrite pwrite64 __pwrite64;
    read_vector: readv;
    write_vector: writev;
    read_vector_at: preadv preadv64;
    write_vector_at: pwritev pwritev64;
    read_vector2: preadv2 preadv64v2;
    write_vector2: pwritev2 pwritev64v2;
}

export! {
    fn __read_chk(fd: c_int, buffer: Out<u8>, length: usize, room: usize) -> isize | next {
        let theirs = || next(fd, buffer, length, room);
        if length > room {
            // The C library reports the overflow and ends the program.
            return theirs();
        }
        on(fd, |file| read_all(file, fd, buffer, length), theirs)
    }

    fn __pread_chk(fd: c_int, buffer: Out<u8>, length: usize, offset: i64, room: usize) -> isize
    | next {
        let theirs = || next(fd, buffer, length, offset, room);
        if length > room {
            // The C library reports the overflow and ends the program.
            return theirs();
        }
        on(fd, |file| read_at(file, buffer, length, offset), theirs)
    }

    fn __pread64_chk(fd: c_int, buffer: Out<u8>, length: usize, offset: i64, room: usize) -> isize
    | next {
        let theirs = || next(fd, buffer, length, offset, room);
        if length > room {
            // The C library reports the overflow and ends the program.
            return theirs();
        }
        on(fd, |file| read_at(file, buffer, length, offset), theirs)
    }

    fn lseek(fd: c_int, offset: i64, whence: c_int) -> i64 | next {
        on(fd, |file| file.seek(fd, offset, whence), || next(fd, offset, whence))
    }

    fn lseek64(fd: c_int, offset: i64, whence: c_int) -> i64 | next {
        on(fd, |file| file.seek(fd, offset, whence), || next(fd, offset, whence))
    }

    fn __lseek(fd: c_int, offset: i64, whence: c_int) -> i64 | next {
        on(fd, |file| file.seek(fd, offset, whence), || next(fd, offset, whence))
    }
}
