//! Making, moving and removing names.
use crate::answer::{Answer, Fail, fail, no};
use crate::edge::{Out, Text, export};
use crate::open::new_entry;
use crate::paths::{self, Spot};
use crate::serve::{at, serve, settle};
use crate::special;
use dfs::{Follow, Kind, Node, RenameMode};
use std::ffi::{c_int, c_uint};

const HERE: c_int = libc::AT_FDCWD;

fn make_directory(spot: &Spot<'_>, mode: u32) -> Answer<c_int> {
    let (dir, name) = match spot.parent() {
        Err(Fail::Errno(libc::EBUSY)) => return no(libc::EEXIST),
        found => found?,
    };
    if matches!(&*name, b"." | b"..") {
        return no(libc::EEXIST);
    }
    let mut new = new_entry(&dir, mode, true);
    new.mode |= dir.inode().mode & libc::S_ISGID;
    dir.mkdir(&name, &new)?;
    Ok(0)
}

pub(crate) fn unlink_file(spot: &Spot<'_>) -> Answer<c_int> {
    let (dir, name) = spot.parent()?;
    if spot.must_be_directory() {
        return match spot.node(Follow::All)?.kind() {
            Kind::Directory => no(libc::EISDIR),
            _ => no(libc::ENOTDIR),
        };
    }
    match &*name {
        b"." | b".." => no(libc::EISDIR),
        _ => Ok(dir.unlink(&name).map(|()| 0)?),
    }
}

fn remove_directory(spot: &Spot<'_>) -> Answer<c_int> {
    let (dir, name) = spot.parent()?;
    match &*name {
        b"." => no(libc::EINVAL),
        b".." => no(libc::ENOTEMPTY),
        _ => Ok(dir.rmdir(&name).map(|()| 0)?),
    }
}

fn remove_any(spot: &Spot<'_>) -> Answer<c_int> {
    match unlink_file(spot) {
        Err(Fail::Errno(libc::EISDIR)) => remove_directory(spot),
        answer => answer,
    }
}

fn unlink_by(spot: &Spot<'_>, flags: c_int) -> Answer<c_int> {
    match flags {
        0 => unlink_file(spot),
        libc::AT_REMOVEDIR => remove_directory(spot),
        _ => no(libc::EINVAL),
    }
}

fn make_link(spot: &Spot<'_>, target: Text) -> Answer<c_int> {
    let Some(target) = target.bytes() else { return no(libc::EFAULT) };
    let (dir, name) = match spot.parent() {
        Err(Fail::Errno(libc::EBUSY)) => return no(libc::EEXIST),
        found => found?,
    };
    if spot.must_be_directory() {
        return no(libc::ENOENT);
    }
    let new = dfs::Create { mode: 0o777, ..new_entry(&dir, 0, true) };
    dir.symlink(&name, target, &new)?;
    Ok(0)
}

fn read_link(spot: &Spot<'_>, buffer: Out<u8>, size: usize) -> Answer<isize> {
    let node = spot.node(Follow::AllButLast)?;
    copy_out(&node.read_link()?, buffer, size)
}

fn copy_out(text: &[u8], buffer: Out<u8>, size: usize) -> Answer<isize> {
    if size == 0 {
        return no(libc::EINVAL);
    }
    let length = text.len().min(size);
    buffer.values(length).copy_from_slice(&text[..length]);
    Ok(length as isize)
}

fn read_link_at(
    dir: c_int,
    path: Text,
    buffer: Out<u8>,
    size: usize,
    theirs: impl Fn(c_int, Text) -> isize,
) -> isize {
    match special::descriptor(path) {
        Some(fd) => crate::answer::tell(serve(|| copy_out(&special::target(fd)?, buffer, size))),
        None => at(dir, path, |spot| read_link(&spot, buffer, size), theirs),
    }
}

fn move_entry(from: &Spot<'_>, to: &Spot<'_>, flags: c_uint) -> Answer<c_int> {
    let mode = match flags {
        0 => RenameMode::Replace,
        libc::RENAME_NOREPLACE => RenameMode::NoReplace,
        libc::RENAME_EXCHANGE => RenameMode::Exchange,
        _ => return no(libc::EINVAL),
    };
    let ((dir, name), (new_dir, new_name)) = (from.parent()?, to.parent()?);
    if [&name, &new_name].iter().any(|name| matches!(&***name, b"." | b"..")) {
        return no(libc::EBUSY);
    }
    if from.must_be_directory() || to.must_be_directory() {
        check_directory(&dir, &name)?;
    }
    dir.rename(&name, &new_dir, &new_name, mode)?;
    Ok(0)
}

fn check_directory(dir: &Node, name: &[u8]) -> Answer<()> {
    match dir.lookup(name)?.kind() {
        Kind::Directory => Ok(()),
        _ => no(libc::ENOTDIR),
    }
}

/// Answers a call on two paths: both in the mount point, both outside, or one of each, which is as
/// between two file systems.
fn both(
    (dir, path): (c_int, Text),
    (new_dir, new_path): (c_int, Text),
    ours: impl FnOnce(Spot<'_>, Spot<'_>) -> Answer<c_int>,
    theirs: impl FnOnce() -> c_int,
) -> c_int {
    let (Some(old), Some(new)) = (path.bytes(), new_path.bytes()) else { return theirs() };
    match (paths::is_ours(dir, old), paths::is_ours(new_dir, new)) {
        (false, false) => theirs(),
        (true, true) => {
            let answer = serve(|| ours(Spot::new(dir, old)?, Spot::new(new_dir, new)?));
            settle(answer, |_, _| fail(libc::EXDEV))
        }
        _ if old.is_empty() || new.is_empty() => fail(libc::ENOENT),
        _ => fail(libc::EXDEV),
    }
}

/// Hard links: there are none, as `link(2)` says of such file systems.
fn no_link<T>() -> Answer<T> {
    no(libc::EPERM)
}

export! {
    fn mkdir(path: Text, mode: u32) -> c_int | next {
        at(HERE, path, |spot| make_directory(&spot, mode), |_, path| next(path, mode))
    }

    fn mkdirat(dir: c_int, path: Text, mode: u32) -> c_int | next {
        at(dir, path, |spot| make_directory(&spot, mode), |dir, path| next(dir, path, mode))
    }

    fn unlink(path: Text) -> c_int | next {
        at(HERE, path, |spot| unlink_file(&spot), |_, path| next(path))
    }

    fn unlinkat(dir: c_int, path: Text, flags: c_int) -> c_int | next {
        at(dir, path, |spot| unlink_by(&spot, flags), |dir, path| next(dir, path, flags))
    }

    fn rmdir(path: Text) -> c_int | next {
        at(HERE, path, |spot| remove_directory(&spot), |_, path| next(path))
    }

    fn remove(path: Text) -> c_int | next {
        at(HERE, path, |spot| remove_any(&spot), |_, path| next(path))
    }

    fn symlink(target: Text, path: Text) -> c_int | next {
        at(HERE, path, |spot| make_link(&spot, target), |_, path| next(target, path))
    }

    fn symlinkat(target: Text, dir: c_int, path: Text) -> c_int | next {
        at(dir, path, |spot| make_link(&spot, target), |dir, path| next(target, dir, path))
    }

    fn readlink(path: Text, buffer: Out<u8>, size: usize) -> isize | next {
        read_link_at(HERE, path, buffer, size, |_, path| next(path, buffer, size))
    }

    fn readlinkat(dir: c_int, path: Text, buffer: Out<u8>, size: usize) -> isize | next {
        read_link_at(dir, path, buffer, size, |dir, path| next(dir, path, buffer, size))
    }

    fn __readlink_chk(path: Text, buffer: Out<u8>, size: usize, room: usize) -> isize | next {
        let size = size.min(room);
        read_link_at(HERE, path, buffer, size, |_, path| next(path, buffer, size, room))
    }

    fn __readlinkat_chk(dir: c_int, path: Text, buffer: Out<u8>, size: usize, room: usize) -> isize
    | next {
        let size = size.min(room);
        read_link_at(dir, path, buffer, size, |dir, path| next(dir, path, buffer, size, room))
    }

    fn rename(path: Text, new_path: Text) -> c_int | next {
        let ours = |from: Spot<'_>, to: Spot<'_>| move_entry(&from, &to, 0);
        both((HERE, path), (HERE, new_path), ours, || next(path, new_path))
    }

    fn renameat(dir: c_int, path: Text, new_dir: c_int, new_path: Text) -> c_int | next {
        let ours = |from: Spot<'_>, to: Spot<'_>| move_entry(&from, &to, 0);
        both((dir, path), (new_dir, new_path), ours, || next(dir, path, new_dir, new_path))
    }

    fn renameat2(dir: c_int, path: Text, new_dir: c_int, new_path: Text, flags: c_uint) -> c_int
    | next {
        let ours = |from: Spot<'_>, to: Spot<'_>| move_entry(&from, &to, flags);
        both((dir, path), (new_dir, new_path), ours, || next(dir, path, new_dir, new_path, flags))
    }

    fn link(path: Text, new_path: Text) -> c_int | next {
        both((HERE, path), (HERE, new_path), |_, _| no_link(), || next(path, new_path))
    }

    fn linkat(dir: c_int, path: Text, new_dir: c_int, new_path: Text, flags: c_int) -> c_int | next {
        let theirs = || next(dir, path, new_dir, new_path, flags);
        both((dir, path), (new_dir, new_path), |_, _| no_link(), theirs)
    }

    fn mkfifo(path: Text, mode: u32) -> c_int | next {
        at(HERE, path, |_| no(libc::EPERM), |_, path| next(path, mode))
    }

    fn mkfifoat(dir: c_int, path: Text, mode: u32) -> c_int | next {
        at(dir, path, |_| no(libc::EPERM), |dir, path| next(dir, path, mode))
    }

    fn mknod(path: Text, mode: u32, device: u64) -> c_int | next {
        at(HERE, path, |_| no(libc::EPERM), |_, path| next(path, mode, device))
    }

    fn mknodat(dir: c_int, path: Text, mode: u32, device: u64) -> c_int | next {
        at(dir, path, |_| no(libc::EPERM), |dir, path| next(dir, path, mode, device))
    }
}
