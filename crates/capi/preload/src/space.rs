//! Space and limits of the file system: statfs, statvfs, pathconf.
use crate::answer::{Answer, refuse};
use crate::edge::{Out, Text, export};
use crate::limits::PATH_MAX;
use crate::serve::{at, at_node, on};
use crate::{config, mounted, stat};
use dfs::FsSpace;
use std::ffi::{c_int, c_long};

/// Type of the file system in `statfs`: "eskr".
const TYPE: i64 = 0x6573_6b72;

/// Longest name (DFS, POSIX: `NAME_MAX`).
const NAME_MAX: u64 = 255;

/// Space in the form of `statfs`.
fn c_statfs(space: &FsSpace) -> libc::statfs {
    // SAFETY: a `statfs` of C consists of numbers, for which zero is valid.
    let mut out: libc::statfs = unsafe { std::mem::zeroed() };
    out.f_type = TYPE as _;
    out.f_bsize = space.block_size as _;
    out.f_frsize = space.block_size as _;
    out.f_blocks = space.total / space.block_size;
    (out.f_bfree, out.f_bavail) = (space.free / space.block_size, space.free / space.block_size);
    (out.f_files, out.f_ffree) = (space.files, space.files_free);
    out.f_namelen = NAME_MAX as _;
    out
}

/// Space in the form of `statvfs`.
fn c_statvfs(space: &FsSpace) -> libc::statvfs {
    // SAFETY: a `statvfs` of C consists of numbers, for which zero is valid.
    let mut out: libc::statvfs = unsafe { std::mem::zeroed() };
    (out.f_bsize, out.f_frsize) = (space.block_size, space.block_size);
    out.f_blocks = space.total / space.block_size;
    (out.f_bfree, out.f_bavail) = (space.free / space.block_size, space.free / space.block_size);
    (out.f_files, out.f_ffree, out.f_favail) = (space.files, space.files_free, space.files_free);
    (out.f_fsid, out.f_namemax) = (stat::device(), NAME_MAX);
    out.f_flag = if config::get().read_only { libc::ST_RDONLY } else { 0 } | libc::ST_NOSUID;
    out
}

/// Writes the space of the file system to `out`, in the structure that `form` makes.
fn write_space<T>(out: Out<T>, form: fn(&FsSpace) -> T) -> Answer<c_int> {
    out.set(form(&mounted::get()?.space()?));
    Ok(0)
}

/// The limits that `pathconf` returns for files of a container.
fn limit(name: c_int) -> Answer<c_long> {
    match name {
        libc::_PC_NAME_MAX => Ok(NAME_MAX as c_long),
        libc::_PC_PATH_MAX => Ok(PATH_MAX as c_long),
        libc::_PC_LINK_MAX | libc::_PC_CHOWN_RESTRICTED | libc::_PC_NO_TRUNC => Ok(1),
        libc::_PC_PIPE_BUF => Ok(libc::PIPE_BUF as c_long),
        libc::_PC_FILESIZEBITS => Ok(64),
        libc::_PC_SYMLINK_MAX => Ok(PATH_MAX as c_long - 1),
        libc::_PC_2_SYMLINKS => Ok(1),
        libc::_PC_ALLOC_SIZE_MIN | libc::_PC_REC_XFER_ALIGN | libc::_PC_REC_MIN_XFER_SIZE => {
            Ok(4096)
        }
        _ => refuse(libc::EINVAL),
    }
}

/// Functions of one form under several names.
macro_rules! variants {
    ($($form:ident: $($name:ident)*;)*) => {$($(variants! { @$form $name })*)*};
    (@statfs $name:ident) => { export! {
        fn $name(path: Text, out: Out<libc::statfs>) -> c_int | next {
            at_node(path, |_| write_space(out, c_statfs), |path| next(path, out))
        }
    } };
    (@fstatfs $name:ident) => { export! {
        fn $name(fd: c_int, out: Out<libc::statfs>) -> c_int | next {
            on(fd, |_| write_space(out, c_statfs), || next(fd, out))
        }
    } };
    (@statvfs $name:ident) => { export! {
        fn $name(path: Text, out: Out<libc::statvfs>) -> c_int | next {
            at_node(path, |_| write_space(out, c_statvfs), |path| next(path, out))
        }
    } };
    (@fstatvfs $name:ident) => { export! {
        fn $name(fd: c_int, out: Out<libc::statvfs>) -> c_int | next {
            on(fd, |_| write_space(out, c_statvfs), || next(fd, out))
        }
    } };
}

variants! {
    statfs: statfs statfs64 __statfs;
    fstatfs: fstatfs fstatfs64 __fstatfs;
    statvfs: statvfs statvfs64;
    fstatvfs: fstatvfs fstatvfs64;
}

export! {
    fn pathconf(path: Text, name: c_int) -> c_long | next {
        at(libc::AT_FDCWD, path, |_| limit(name), |_, path| next(path, name))
    }

    fn fpathconf(fd: c_int, name: c_int) -> c_long | next {
        on(fd, |_| limit(name), || next(fd, name))
    }
}
