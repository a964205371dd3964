//! Attributes of files: the stat family.
use crate::answer::{Answer, refuse};
use crate::edge::{Out, Text, export};
use crate::limits::BLOCK_SIZE;
use crate::serve::{at, on};
use crate::{config, cwd, descriptors, open};
use dfs::{Attr, Follow, Time};
use std::ffi::{c_int, c_uint};

/// Major device number that no driver has.
const MAJOR: u32 = 0xe5;

/// Minor device number: a hash of the container, so that different containers usually differ.
fn minor() -> u32 {
    let hash = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    config::get().container.bytes().fold(0x811c_9dc5, hash) & 0xf_ffff
}

/// The device number as programs see it.
pub(crate) fn device() -> u64 {
    libc::makedev(MAJOR, minor())
}

/// The attributes in the form of C.
pub(crate) fn c_stat(attr: &Attr) -> libc::stat {
    // SAFETY: a `stat` of C consists of numbers, for which zero is valid.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    stat.st_dev = device();
    stat.st_ino = attr.number();
    stat.st_nlink = attr.nlink.into();
    stat.st_mode = attr.full_mode();
    (stat.st_uid, stat.st_gid) = (attr.uid, attr.gid);
    stat.st_size = attr.size as i64;
    stat.st_blksize = BLOCK_SIZE as _;
    stat.st_blocks = attr.blocks() as i64;
    (stat.st_atime, stat.st_atime_nsec) = (attr.mtime.seconds, attr.mtime.nanos.into());
    (stat.st_mtime, stat.st_mtime_nsec) = (attr.mtime.seconds, attr.mtime.nanos.into());
    (stat.st_ctime, stat.st_ctime_nsec) = (attr.ctime.seconds, attr.ctime.nanos.into());
    stat
}

/// Attributes in the form of `statx`.
fn c_statx(attr: &Attr) -> libc::statx {
    // SAFETY: a `statx` of C consists of numbers, for which zero is valid.
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    stat.stx_mask = libc::STATX_BASIC_STATS;
    stat.stx_blksize = BLOCK_SIZE as u32;
    stat.stx_nlink = attr.nlink;
    (stat.stx_uid, stat.stx_gid) = (attr.uid, attr.gid);
    stat.stx_mode = attr.full_mode() as u16;
    (stat.stx_ino, stat.stx_size, stat.stx_blocks) = (attr.number(), attr.size, attr.blocks());
    let times = [
        (&mut stat.stx_atime, attr.mtime),
        (&mut stat.stx_mtime, attr.mtime),
        (&mut stat.stx_ctime, attr.ctime),
    ];
    for (to, Time { seconds, nanos }) in times {
        (to.tv_sec, to.tv_nsec) = (seconds, nanos);
    }
    (stat.stx_dev_major, stat.stx_dev_minor) = (MAJOR, minor());
    stat
}

type Stat = Out<libc::stat>;

/// Writes attributes to `out` for `stat`, and returns 0.
fn write_stat(attr: &Attr, out: Stat) -> Answer<c_int> {
    out.set(c_stat(attr));
    Ok(0)
}

fn follow(flags: c_int) -> Follow {
    if flags & libc::AT_SYMLINK_NOFOLLOW != 0 { Follow::AllButLast } else { Follow::All }
}

/// Returns `.` in place of an empty path that names the working directory (`AT_EMPTY_PATH`), else the path itself.
pub(crate) fn or_here(dir: c_int, path: Text, flags: c_int) -> Text {
    let is_here = dir == HERE && flags & libc::AT_EMPTY_PATH != 0 && cwd::is_ours();
    if is_here && path.is_empty() { Text::from_c_str(c".") } else { path }
}

/// The descriptor of ours that a path refers to: `dir` for an empty path with `AT_EMPTY_PATH`, or a path such as
/// `/dev/fd/3`. `None` if the path has to be resolved.
fn descriptor_of(dir: c_int, path: Text, flags: c_int) -> Option<c_int> {
    if path.bytes().is_none_or(<[u8]>::is_empty) {
        return (flags & libc::AT_EMPTY_PATH != 0 && descriptors::is_ours(dir)).then_some(dir);
    }
    if flags & libc::AT_SYMLINK_NOFOLLOW == 0 { open::descriptor(path) } else { None }
}

/// Fails with `EINVAL` for flags that a call does not have.
pub(crate) fn check_flags(flags: c_int, known: c_int) -> Answer<()> {
    if flags & !known == 0 { Ok(()) } else { refuse(libc::EINVAL) }
}

/// Flags of `fstatat` and `statx`.
const STAT_FLAGS: c_int = libc::AT_EMPTY_PATH
    | libc::AT_NO_AUTOMOUNT
    | libc::AT_SYMLINK_NOFOLLOW
    | libc::AT_STATX_SYNC_TYPE;

/// Flags of `faccessat`.
const ACCESS_FLAGS: c_int = libc::AT_EMPTY_PATH | libc::AT_EACCESS | libc::AT_SYMLINK_NOFOLLOW;

/// Serves `fstatat`, also for descriptors and their links in `/proc/self/fd`.
fn stat_at(
    dir: c_int,
    path: Text,
    out: Stat,
    flags: c_int,
    theirs: impl Fn(c_int, Text) -> c_int,
) -> c_int {
    let path = or_here(dir, path, flags);
    let write = |attr: Attr| {
        check_flags(flags, STAT_FLAGS)?;
        write_stat(&attr, out)
    };
    match descriptor_of(dir, path, flags) {
        Some(fd) => on(fd, |file| write(file.attr()?), || theirs(dir, path)),
        None => at(dir, path, |path| write(path.attr(follow(flags))?), theirs),
    }
}

const HERE: c_int = libc::AT_FDCWD;
const LINK: c_int = libc::AT_SYMLINK_NOFOLLOW;

/// Functions of one form under several names; the old ones begin with a version of the structure.
macro_rules! variants {
    ($($form:ident: $($name:ident)*;)*) => {$($(variants! { @$form $name })*)*};
    (@stat $name:ident) => { export! {
        fn $name(path: Text, out: Stat) -> c_int | next {
            stat_at(HERE, path, out, 0, |_, path| next(path, out))
        }
    } };
    (@lstat $name:ident) => { export! {
        fn $name(path: Text, out: Stat) -> c_int | next {
            stat_at(HERE, path, out, LINK, |_, path| next(path, out))
        }
    } };
    (@fstat $name:ident) => { export! {
        fn $name(fd: c_int, out: Stat) -> c_int | next {
            on(fd, |file| write_stat(&file.attr()?, out), || next(fd, out))
        }
    } };
    (@fstatat $name:ident) => { export! {
        fn $name(dir: c_int, path: Text, out: Stat, flags: c_int) -> c_int | next {
            stat_at(dir, path, out, flags, |dir, path| next(dir, path, out, flags))
        }
    } };
    (@old_stat $name:ident) => { export! {
        fn $name(version: c_int, path: Text, out: Stat) -> c_int | next {
            stat_at(HERE, path, out, 0, |_, path| next(version, path, out))
        }
    } };
    (@old_lstat $name:ident) => { export! {
        fn $name(version: c_int, path: Text, out: Stat) -> c_int | next {
            stat_at(HERE, path, out, LINK, |_, path| next(version, path, out))
        }
    } };
    (@old_fstat $name:ident) => { export! {
        fn $name(version: c_int, fd: c_int, out: Stat) -> c_int | next {
            on(fd, |file| write_stat(&file.attr()?, out), || next(version, fd, out))
        }
    } };
    (@old_fstatat $name:ident) => { export! {
        fn $name(version: c_int, dir: c_int, path: Text, out: Stat, flags: c_int) -> c_int | next {
            stat_at(dir, path, out, flags, |dir, path| next(version, dir, path, out, flags))
        }
    } };
}

variants! {
    stat: stat stat64;
    lstat: lstat lstat64;
    fstat: fstat fstat64;
    fstatat: fstatat fstatat64;
    old_stat: __xstat __xstat64;
    old_lstat: __lxstat __lxstat64;
    old_fstat: __fxstat __fxstat64;
    old_fstatat: __fxstatat __fxstatat64;
}

/// Writes attributes to `out` for `statx`, and returns 0.
fn statx_of(attr: &Attr, out: Out<libc::statx>) -> Answer<c_int> {
    out.set(c_statx(attr));
    Ok(0)
}

export! {
    fn statx(dir: c_int, path: Text, flags: c_int, mask: c_uint, out: Out<libc::statx>) -> c_int
    | next {
        let theirs = |dir, path| next(dir, path, flags, mask, out);
        let path = or_here(dir, path, flags);
        let write = |attr: Attr| {
            check_flags(flags, STAT_FLAGS)?;
            statx_of(&attr, out)
        };
        match descriptor_of(dir, path, flags) {
            Some(fd) => on(fd, |file| write(file.attr()?), || theirs(dir, path)),
            None => at(dir, path, |path| write(path.attr(follow(flags))?), theirs),
        }
    }
}

/// The key of a file for System V IPC, made from its attributes as in the C library.
fn key_of(attr: &Attr, id: c_int) -> c_int {
    let (number, device) = (attr.number() as u32 & 0xffff, device() as u32 & 0xff);
    ((id as u32 & 0xff) << 24 | device << 16 | number) as c_int
}

export! {
    fn ftok(path: Text, id: c_int) -> c_int | next {
        at(HERE, path, |path| Ok(key_of(&path.attr(Follow::All)?, id)), |_, path| next(path, id))
    }
}

/// Checks that a user and group may access a file in the way that `mode` of `access` asks for.
fn check_access(attr: &Attr, mode: c_int, user: (u32, u32)) -> Answer<c_int> {
    let groups = [&[user.1][..], &groups()].concat();
    match mode {
        0 => Ok(0),
        1..=7 if mode & libc::W_OK != 0 && config::get().read_only => refuse(libc::EROFS),
        1..=7 if attr.allows(user.0, &groups, mode as u32) => Ok(0),
        1..=7 => refuse(libc::EACCES),
        _ => refuse(libc::EINVAL),
    }
}

/// Returns the supplementary groups of the process. Does not keep them: a program may change them by a system call that
/// this library does not see.
fn groups() -> Vec<u32> {
    // SAFETY: without a buffer, only the number of groups is returned.
    let count = unsafe { libc::getgroups(0, std::ptr::null_mut()) };
    let mut groups = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: the buffer has this length.
    let count = unsafe { libc::getgroups(groups.len() as c_int, groups.as_mut_ptr()) };
    groups.truncate(usize::try_from(count).unwrap_or(0));
    groups
}

/// Serves `faccessat`: for the effective user with `AT_EACCESS`, else for the real one.
fn access_at(
    dir: c_int,
    path: Text,
    mode: c_int,
    flags: c_int,
    theirs: impl Fn(c_int, Text) -> c_int,
) -> c_int {
    let effective = flags & libc::AT_EACCESS != 0;
    let user = if effective { crate::raw::user() } else { crate::raw::real_user() };
    let path = or_here(dir, path, flags);
    let check = |attr: Attr| {
        check_flags(flags, ACCESS_FLAGS)?;
        check_access(&attr, mode, user)
    };
    match descriptor_of(dir, path, flags) {
        Some(fd) => on(fd, |file| check(file.attr()?), || theirs(dir, path)),
        None => at(dir, path, |path| check(path.attr(follow(flags))?), theirs),
    }
}

export! {
    fn access(path: Text, mode: c_int) -> c_int | next {
        access_at(HERE, path, mode, 0, |_, path| next(path, mode))
    }

    fn eaccess(path: Text, mode: c_int) -> c_int | next {
        access_at(HERE, path, mode, libc::AT_EACCESS, |_, path| next(path, mode))
    }

    fn euidaccess(path: Text, mode: c_int) -> c_int | next {
        access_at(HERE, path, mode, libc::AT_EACCESS, |_, path| next(path, mode))
    }

    fn faccessat(dir: c_int, path: Text, mode: c_int, flags: c_int) -> c_int | next {
        access_at(dir, path, mode, flags, |dir, path| next(dir, path, mode, flags))
    }
}
