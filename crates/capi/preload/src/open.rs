//! Opening files.
use crate::answer::{Answer, Fail, no, tell};
use crate::edge::{Text, export};
use crate::open_file::OpenFile;
use crate::paths::Spot;
use crate::serve::{at, serve};
use crate::thread::is_inside;
use crate::{descriptors, internal, special, umask};
use dfs::{Create, Follow, Kind, Node, find_and};
use std::ffi::c_int;

/// `O_TMPFILE` without `O_DIRECTORY`, which is part of it.
const UNNAMED: c_int = libc::O_TMPFILE & !libc::O_DIRECTORY;

/// Opens what a path names, with a new descriptor (POSIX: `open`).
pub(crate) fn open_path(spot: &Spot<'_>, flags: c_int, mode: u32) -> Answer<c_int> {
    let open = |node: Node| check(&node, flags).and_then(|()| OpenFile::new(node, flags));
    let file = find_and(|| find(spot, flags, mode, 0), open, Fail::is_missing)?;
    descriptors::allot(file, flags & libc::O_CLOEXEC != 0)
}

fn find(spot: &Spot<'_>, flags: c_int, mode: u32, links: usize) -> Answer<Node> {
    if flags & UNNAMED != 0 {
        return no(libc::EOPNOTSUPP);
    }
    if flags & libc::O_CREAT == 0 || flags & libc::O_PATH != 0 {
        return spot.node(follow(flags));
    }
    let exclusive = flags & libc::O_EXCL != 0;
    let last = spot.last()?;
    if last.is_special() {
        return no(if exclusive { libc::EEXIST } else { libc::EISDIR });
    }
    if last.slash {
        return no(libc::EISDIR);
    }
    let found = last.dir.create(&last.name, &new_entry(&last.dir, mode, exclusive))?;
    if found.kind() != Kind::Symlink {
        return Ok(found);
    }
    if flags & libc::O_NOFOLLOW != 0 {
        return no(libc::ELOOP);
    }
    find(&spot.behind(&found, links)?, flags, mode, links + 1)
}

fn follow(flags: c_int) -> Follow {
    if flags & libc::O_NOFOLLOW != 0 { Follow::AllButLast } else { Follow::All }
}

/// Attributes of a new entry in `dir`: with the umask applied, and the group of a set-group-id directory.
pub(crate) fn new_entry(dir: &Node, mode: u32, exclusive: bool) -> Create {
    let inode = dir.inode();
    let owner = (inode.mode & libc::S_ISGID != 0).then(|| (crate::raw::user().0, inode.gid));
    Create { owner, exclusive, ..Create::with_mode(mode & 0o7777 & !umask::get()) }
}

fn check(node: &Node, flags: c_int) -> Answer<()> {
    let is_path = flags & libc::O_PATH != 0;
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0;
    match node.kind() {
        Kind::Directory if writes && !is_path => no(libc::EISDIR),
        Kind::File | Kind::Symlink if flags & libc::O_DIRECTORY != 0 => no(libc::ENOTDIR),
        Kind::Symlink if !is_path => no(libc::ELOOP),
        _ => Ok(()),
    }
}

/// Answers an open call. Descriptors that the store itself opens are moved to high numbers.
fn answer(
    dir: c_int,
    path: Text,
    flags: c_int,
    mode: u32,
    theirs: impl Fn(c_int, Text) -> c_int,
) -> c_int {
    if is_inside() {
        return internal::keep(theirs(dir, path));
    }
    if let Some(fd) = special::descriptor(path) {
        return tell(serve(|| special::reopen(fd, flags)));
    }
    at(dir, path, |spot| open_path(&spot, flags, mode), theirs)
}

const CREATING: c_int = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;

/// Functions of one form under several names. They decide themselves what to do inside.
macro_rules! alike {
    ($($form:ident: $($name:ident)*;)*) => {$($(alike! { @$form $name })*)*};
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

alike! {
    open: open open64 __open __open64;
    open_below: openat openat64;
    checked_open: __open_2 __open64_2;
    checked_open_below: __openat_2 __openat64_2;
    create: creat creat64;
}
