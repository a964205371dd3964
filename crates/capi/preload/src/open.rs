//! Opening files, by their path or by the path of a descriptor, and the umask that applies to new ones.
use crate::answer::{Answer, refuse, to_c};
use crate::edge::{Text, export};
use crate::open_file::OpenFile;
use crate::paths::{MountPath, find_and, shown};
use crate::serve::{NamesFile, at, refuse_interrupting_call, serve};
use crate::threads::is_inside;
use crate::{descriptors, internal, raw};
use dfs::{Create, Follow, Kind};
use esker_preload_interface::Node;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

/// `O_TMPFILE` without `O_DIRECTORY`, which is part of it.
const UNNAMED: c_int = libc::O_TMPFILE & !libc::O_DIRECTORY;

/// Opens a path with a new descriptor (POSIX: `open`).
pub(crate) fn open_path(path: &MountPath<'_>, flags: c_int, mode: u32) -> Answer<c_int> {
    let fd = descriptors::reserve(flags & libc::O_CLOEXEC != 0)?;
    let open = |node: Node| check(&node, flags).and_then(|()| OpenFile::new(node, flags));
    Ok(fd.put(find_and(|| find(path, flags, mode, 0), open)?))
}

/// Finds the file to open, or creates it with `O_CREAT`. `links` counts the symbolic links that led to `path`.
fn find(path: &MountPath<'_>, flags: c_int, mode: u32, links: usize) -> Answer<Node> {
    if flags & UNNAMED != 0 {
        return refuse(libc::EOPNOTSUPP);
    }
    if flags & libc::O_CREAT == 0 || flags & libc::O_PATH != 0 {
        return path.node(follow(flags));
    }
    let exclusive = flags & libc::O_EXCL != 0;
    let attributes = |dir: &Node| Create { open: true, ..new_entry(dir, mode, exclusive) };
    if let Some(made) = path.create_by_known_path(attributes)? {
        return Ok(made);
    }
    let last = path.last()?;
    if last.is_special() {
        return refuse(if exclusive { libc::EEXIST } else { libc::EISDIR });
    }
    if last.slash {
        return refuse(libc::EISDIR);
    }
    let found = last.dir.create(&last.name, &attributes(&last.dir))?;
    if found.kind() != Kind::Symlink {
        return Ok(found);
    }
    if flags & libc::O_NOFOLLOW != 0 {
        return refuse(libc::ELOOP);
    }
    find(&path.behind(&found, links)?, flags, mode, links + 1)
}

fn follow(flags: c_int) -> Follow {
    if flags & libc::O_NOFOLLOW != 0 { Follow::AllButLast } else { Follow::All }
}

/// Attributes of a new entry in `dir`: `mode` with the umask applied, and the group of a set-group-id directory. With
/// `exclusive`, creating it fails if the name exists.
pub(crate) fn new_entry(dir: &Node, mode: u32, exclusive: bool) -> Create {
    let inode = dir.inode();
    let owner = (inode.mode & libc::S_ISGID != 0).then(|| (crate::raw::user().0, inode.gid));
    Create { owner, exclusive, ..Create::with_mode(mode & 0o7777 & !current_umask()) }
}

/// Checks that a file can be opened with these flags.
fn check(node: &Node, flags: c_int) -> Answer<()> {
    let is_path = flags & libc::O_PATH != 0;
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0;
    match node.kind() {
        Kind::Directory if writes && !is_path => refuse(libc::EISDIR),
        Kind::File | Kind::Symlink if flags & libc::O_DIRECTORY != 0 => refuse(libc::ENOTDIR),
        Kind::Symlink if !is_path => refuse(libc::ELOOP),
        _ => Ok(()),
    }
}

/// Answers an open call; `theirs` calls the C library. Descriptors that the store itself opens get high numbers.
fn answer(
    dir: c_int,
    path: Text,
    flags: c_int,
    mode: u32,
    theirs: impl Fn(c_int, Text) -> c_int,
) -> c_int {
    if is_inside() {
        if dir.is_ours() || path.is_ours() {
            return refuse_interrupting_call();
        }
        return internal::keep(theirs(dir, path));
    }
    if let Some(fd) = descriptor(path) {
        return to_c(serve(|| reopen(fd, flags)));
    }
    at(dir, path, |path| open_path(&path, flags, mode), theirs)
}

/// The flags of `creat`.
const CREATING: c_int = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;

/// Defines functions of one form under several names. They also handle calls inside the store.
macro_rules! variants {
    ($($form:ident: $($name:ident)*;)*) => {$($(variants! { @$form $name })*)*};
    (@open $name:ident) => { export! { @inside_too
        fn $name(path: Text, flags: c_int, mode: u32) -> c_int | next {
            answer(libc::AT_FDCWD, path, flags, mode, |_, path| next(path, flags, mode))
        }
    } };
    (@open_below $name:ident) => { export! { @inside_too
        fn $name(dir: c_int, path: Text, flags: c_int, mode: u32) -> c_int | next {
            answer(dir, path, flags, mode, |dir, path| next(dir, path, flags, mode))
        }
    } };
    (@checked_open $name:ident) => { export! { @inside_too
        fn $name(path: Text, flags: c_int) -> c_int | next {
            answer(libc::AT_FDCWD, path, flags, 0, |_, path| next(path, flags))
        }
    } };
    (@checked_open_below $name:ident) => { export! { @inside_too
        fn $name(dir: c_int, path: Text, flags: c_int) -> c_int | next {
            answer(dir, path, flags, 0, |dir, path| next(dir, path, flags))
        }
    } };
    (@create $name:ident) => { export! { @inside_too
        fn $name(path: Text, mode: u32) -> c_int | next {
            answer(libc::AT_FDCWD, path, CREATING, mode, |_, path| next(path, mode))
        }
    } };
}

variants! {
    open: open open64 __open __open64;
    open_below: openat openat64;
    checked_open: __open_2 __open64_2;
    checked_open_below: __openat_2 __openat64_2;
    create: creat creat64;
}

/// The descriptor that a path such as `/dev/fd/N`, `/proc/self/fd/N` or `/dev/stdin` names, if it is ours.
#[inline]
pub(crate) fn descriptor(path: Text) -> Option<c_int> {
    let path =
        path.bytes().filter(|path| path.starts_with(b"/dev/") || path.starts_with(b"/proc/"))?;
    parse(path).filter(|fd| descriptors::is_ours(*fd))
}

/// The descriptor that a path such as `/dev/fd/3` of this process names; `None` for all other paths.
fn parse(path: &[u8]) -> Option<c_int> {
    match path {
        b"/dev/stdin" => return Some(libc::STDIN_FILENO),
        b"/dev/stdout" => return Some(libc::STDOUT_FILENO),
        b"/dev/stderr" => return Some(libc::STDERR_FILENO),
        _ => {}
    }
    let digits = path.strip_prefix(b"/dev/fd/").or_else(|| {
        let rest = path.strip_prefix(b"/proc/")?;
        let after_self = rest.strip_prefix(b"self").or_else(|| {
            let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
            (number(&rest[..digits])? == raw::pid()).then(|| &rest[digits..])
        })?;
        after_self.strip_prefix(b"/fd/")
    })?;
    number(digits)
}

/// Parses a number as Linux parses names in `/proc`: digits without a sign or a leading zero.
fn number(digits: &[u8]) -> Option<c_int> {
    let is_number = digits == b"0" || !matches!(digits, [b'+' | b'-' | b'0', ..]);
    std::str::from_utf8(digits).ok()?.parse().ok().filter(|_| is_number)
}

/// Opens the file of a descriptor of ours again, as Linux does for paths such as `/proc/self/fd/N`.
pub(crate) fn reopen(fd: c_int, flags: c_int) -> Answer<c_int> {
    let node = descriptors::get(fd)?.node()?;
    let flags = flags & !(libc::O_CREAT | libc::O_EXCL);
    check(&node, flags)?;
    let fd = descriptors::reserve(flags & libc::O_CLOEXEC != 0)?;
    Ok(fd.put(OpenFile::new(node, flags)?))
}

/// The path of a descriptor as programs see it.
pub(crate) fn target(fd: c_int) -> Answer<Vec<u8>> {
    let file = descriptors::get(fd)?;
    Ok(shown(&file.node()?.path()?))
}

static UMASK: AtomicU32 = AtomicU32::new(0o022);

/// Reads the umask, which the kernel returns only when it is set. Called while the process has one thread.
pub(crate) fn learn_umask() {
    let mask = raw::set_umask(0o077);
    raw::set_umask(mask);
    UMASK.store(mask, Ordering::Relaxed);
}

fn current_umask() -> u32 {
    UMASK.load(Ordering::Relaxed)
}

export! {
    fn umask(mask: u32) -> u32 | next {
        UMASK.store(mask & 0o777, Ordering::Relaxed);
        next(mask)
    }
}
