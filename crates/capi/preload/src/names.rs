//! Creating, renaming and removing entries.
use crate::answer::{Answer, Fail, fail, refuse, to_c};
use crate::edge::{In, Out, Text, export};
use crate::limits::PATH_MAX;
use crate::open;
use crate::open::new_entry;
use crate::paths::{self, Last, MountPath};
use crate::raw;
use crate::serve::{at, on, serve};
use crate::{cwd, descriptors};
use dfs::{Follow, Kind, RenameMode};
use esker_preload_interface::Node;
use std::ffi::{CString, c_int, c_uint, c_void};

const HERE: c_int = libc::AT_FDCWD;
const PIPE: u32 = libc::S_IFIFO;

/// Serves `mkdirat`. Paths that end in `.` or `..`, and the mount point, exist already.
fn make_directory(path: &MountPath<'_>, mode: u32) -> Answer<c_int> {
    let last = path.last()?;
    if last.is_special() {
        return refuse(libc::EEXIST);
    }
    let mut new = new_entry(&last.dir, mode, true);
    // A new directory inherits the set-group-ID bit, as in Linux.
    new.mode |= last.dir.inode().mode & libc::S_ISGID;
    last.dir.mkdir(&last.name, &new)?;
    Ok(0)
}

/// Serves `unlink`: removes a file or a link, if possible by a single message.
pub(crate) fn unlink_file(path: &MountPath<'_>) -> Answer<c_int> {
    if path.unlink_by_known_path()? {
        return Ok(0);
    }
    let last = path.last()?;
    if last.is_special() {
        return refuse(libc::EISDIR);
    }
    if last.slash && last.find()?.is_some_and(|node| !is_directory(&node)) {
        return refuse(libc::ENOTDIR);
    }
    Ok(last.dir.unlink(&last.name).map(|()| 0)?)
}

fn is_directory(node: &Node) -> bool {
    node.kind() == Kind::Directory
}

/// Serves `rmdir`.
fn remove_directory(path: &MountPath<'_>) -> Answer<c_int> {
    let last = path.last()?;
    match &*last.name {
        b"" => refuse(libc::EBUSY),
        b"." => refuse(libc::EINVAL),
        b".." => refuse(libc::ENOTEMPTY),
        name => Ok(last.dir.rmdir(name).map(|()| 0)?),
    }
}

/// Serves `remove`: removes a file or an empty directory.
fn remove_any(path: &MountPath<'_>) -> Answer<c_int> {
    match unlink_file(path) {
        Err(Fail::Errno(libc::EISDIR)) => remove_directory(path),
        answer => answer,
    }
}

/// Serves `unlinkat`: removes a file, or a directory with `AT_REMOVEDIR`.
fn unlink_by(path: &MountPath<'_>, flags: c_int) -> Answer<c_int> {
    match flags {
        0 => unlink_file(path),
        libc::AT_REMOVEDIR => remove_directory(path),
        _ => refuse(libc::EINVAL),
    }
}

/// Serves `symlinkat`: creates a symbolic link to `target` at `path`.
fn make_link(path: &MountPath<'_>, target: Text) -> Answer<c_int> {
    let Some(target) = target.bytes() else { return refuse(libc::EFAULT) };
    let last = path.last()?;
    if last.is_special() || last.slash {
        check_free(&last)?;
    }
    let new = dfs::Create { mode: 0o777, ..new_entry(&last.dir, 0, true) };
    last.dir.symlink(&last.name, target, &new)?;
    Ok(0)
}

/// True for a link target that Linux refuses for any path.
fn is_invalid_target(target: Text) -> bool {
    target.bytes().is_none_or(|target| target.is_empty() || target.len() >= PATH_MAX)
}

/// Fails with `EEXIST` unless the name is free, and with `ENOENT` for a free name with a trailing slash.
fn check_free(last: &Last) -> Answer<()> {
    match last.is_special() || last.find()?.is_some() {
        true => refuse(libc::EEXIST),
        false if last.slash => refuse(libc::ENOENT),
        false => Ok(()),
    }
}

fn read_link(path: &MountPath<'_>, buffer: Out<u8>, size: usize) -> Answer<isize> {
    let node = path.node(Follow::AllButLast)?;
    copy_out(&node.read_link()?, buffer, size)
}

/// Copies the target of a link to the program's buffer, cut off as POSIX requires.
fn copy_out(text: &[u8], buffer: Out<u8>, size: usize) -> Answer<isize> {
    if size == 0 {
        return refuse(libc::EINVAL);
    }
    let length = text.len().min(size);
    buffer.buffer(length)?.copy_from_slice(&text[..length]);
    Ok(length as isize)
}

/// Reads the link that a descriptor of `O_PATH` refers to. `ENOENT` for any other descriptor, as in Linux.
fn read_open_link(fd: c_int, buffer: Out<u8>, size: usize) -> Answer<isize> {
    let node = descriptors::get(fd)?.node()?;
    match node.kind() {
        Kind::Symlink => copy_out(&node.read_link()?, buffer, size),
        _ => refuse(libc::ENOENT),
    }
}

/// Serves `readlinkat`, also for the links in `/proc/self/fd` to open files of ours.
fn read_link_at(
    dir: c_int,
    path: Text,
    buffer: Out<u8>,
    size: usize,
    theirs: impl Fn(c_int, Text) -> isize,
) -> isize {
    let names_itself = path.bytes().is_some_and(<[u8]>::is_empty) && descriptors::is_ours(dir);
    match open::descriptor(path) {
        Some(fd) => to_c(serve(|| copy_out(&open::target(fd)?, buffer, size))),
        None if names_itself => to_c(serve(|| read_open_link(dir, buffer, size))),
        None => at(dir, path, |path| read_link(&path, buffer, size), theirs),
    }
}

/// Serves `renameat2`: renames an entry, as `flags` tell.
fn move_entry(from: &Last, to: &Last, flags: c_uint) -> Answer<c_int> {
    let mode = match flags {
        0 => RenameMode::Replace,
        libc::RENAME_NOREPLACE => RenameMode::NoReplace,
        libc::RENAME_EXCHANGE => RenameMode::Exchange,
        _ => return refuse(libc::EINVAL),
    };
    if from.is_special() {
        return refuse(libc::EBUSY);
    }
    if to.is_special() {
        return refuse(if mode == RenameMode::NoReplace { libc::EEXIST } else { libc::EBUSY });
    }
    if from.slash || to.slash {
        check_slashes(from, to, mode)?;
    }
    from.dir.rename(&from.name, &to.dir, &to.name, mode)?;
    Ok(0)
}

/// Checks that paths with a trailing slash name directories, and returns the same error as Linux if several apply.
fn check_slashes(from: &Last, to: &Last, mode: RenameMode) -> Answer<()> {
    let Some(source) = from.find()? else { return refuse(libc::ENOENT) };
    let must_be_directory = match (mode, to.find()?) {
        (RenameMode::NoReplace, Some(_)) => return refuse(libc::EEXIST),
        (RenameMode::Exchange, None) => return refuse(libc::ENOENT),
        (RenameMode::Exchange, Some(target)) if to.slash && !is_directory(&target) => {
            return refuse(libc::ENOTDIR);
        }
        (RenameMode::Exchange, Some(_)) => from.slash,
        _ => true,
    };
    if must_be_directory && !is_directory(&source) { refuse(libc::ENOTDIR) } else { Ok(()) }
}

/// One of the two paths of a call, without its last component resolved: in the mount point, or outside.
enum End {
    Ours(Last),
    Theirs(c_int, CString),
}

impl End {
    /// Resolves a path, relative to the descriptor of a directory, except for its last component. A path that is not
    /// below the mount point may lead there through symbolic links.
    fn find(dir: c_int, path: &[u8]) -> Answer<Self> {
        if !paths::is_ours(dir, path) {
            return Self::outside(dir, path);
        }
        match MountPath::new(dir, path).and_then(|path| path.last()) {
            Err(Fail::Outside(host)) => Self::outside(HERE, &host),
            last => last.map(Self::Ours),
        }
    }

    /// A path of the system. Fails as the kernel does if its directory does not exist.
    fn outside(dir: c_int, path: &[u8]) -> Answer<Self> {
        let text = |bytes: &[u8]| CString::new(bytes).or_else(|_| refuse(libc::EINVAL));
        let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
        let start = path[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        match path {
            [] => return refuse(libc::ENOENT),
            _ if path.len() >= PATH_MAX => return refuse(libc::ENAMETOOLONG),
            [b'/', ..] => raw::find(dir, &text(&[&path[..start], b"/."].concat())?)?,
            _ => raw::find(dir, &text(&[&path[..start], b"."].concat())?)?,
        }
        Ok(Self::Theirs(dir, text(path)?))
    }
}

/// Answers a call on two paths, each relative to the descriptor of a directory: `ours` if both lead into the mount
/// point, else `theirs`. If only one does, the call fails as between two file systems (`EXDEV`). If both paths are
/// wrong, it returns the error of the first one.
fn both(
    (dir, path): (c_int, Text),
    (new_dir, new_path): (c_int, Text),
    ours: impl FnOnce(&Last, &Last) -> Answer<c_int>,
    theirs: impl FnOnce(c_int, Text, c_int, Text) -> c_int,
) -> c_int {
    let paths = path.bytes().zip(new_path.bytes());
    let is_ours = |(old, new)| paths::is_ours(dir, old) || paths::is_ours(new_dir, new);
    let Some((old, new)) = paths.filter(|paths| is_ours(*paths)) else {
        return theirs(dir, path, new_dir, new_path);
    };
    let served = serve(|| match (End::find(dir, old)?, End::find(new_dir, new)?) {
        (End::Ours(from), End::Ours(to)) => ours(&from, &to).map(Ok),
        // The inner `Err` has the arguments for `theirs`, which is called outside the store.
        (End::Theirs(dir, old), End::Theirs(new_dir, new)) => Ok(Err((dir, old, new_dir, new))),
        _ => refuse(libc::EXDEV),
    });
    match served {
        Ok(Err((dir, old, new_dir, new))) => {
            theirs(dir, Text::from_c_str(&old), new_dir, Text::from_c_str(&new))
        }
        Ok(Ok(done)) => done,
        Err(error) => to_c(Err(error)),
    }
}

/// Refuses to make a hard link, with the errors of `link(2)` for file systems that do not support them.
fn refuse_link(from: &Last, to: &Last) -> Answer<c_int> {
    if !from.is_special() && from.find()?.is_none() {
        return refuse(libc::ENOENT);
    }
    check_free(to)?;
    refuse(libc::EPERM)
}

/// Serves `mknod`: makes an empty regular file. Devices, sockets and pipes fail with `EPERM`, as on file systems that
/// do not support them.
fn make_node(path: &MountPath<'_>, mode: u32) -> Answer<c_int> {
    let kind = mode & libc::S_IFMT;
    match kind {
        0 | libc::S_IFREG | libc::S_IFIFO | libc::S_IFSOCK | libc::S_IFCHR | libc::S_IFBLK => {}
        libc::S_IFDIR => return refuse(libc::EPERM),
        _ => return refuse(libc::EINVAL),
    }
    let last = path.last()?;
    check_free(&last)?;
    if !matches!(kind, 0 | libc::S_IFREG) {
        return refuse(libc::EPERM);
    }
    last.dir.create(&last.name, &new_entry(&last.dir, mode, true))?;
    Ok(0)
}

export! {
    fn mkdir(path: Text, mode: u32) -> c_int | next {
        at(HERE, path, |path| make_directory(&path, mode), |_, path| next(path, mode))
    }

    fn mkdirat(dir: c_int, path: Text, mode: u32) -> c_int | next {
        at(dir, path, |path| make_directory(&path, mode), |dir, path| next(dir, path, mode))
    }

    fn unlink(path: Text) -> c_int | next {
        at(HERE, path, |path| unlink_file(&path), |_, path| next(path))
    }

    fn unlinkat(dir: c_int, path: Text, flags: c_int) -> c_int | next {
        at(dir, path, |path| unlink_by(&path, flags), |dir, path| next(dir, path, flags))
    }

    fn rmdir(path: Text) -> c_int | next {
        at(HERE, path, |path| remove_directory(&path), |_, path| next(path))
    }

    fn remove(path: Text) -> c_int | next {
        at(HERE, path, |path| remove_any(&path), |_, path| next(path))
    }

    fn symlink(target: Text, path: Text) -> c_int | next {
        if is_invalid_target(target) {
            return next(target, path);
        }
        at(HERE, path, |path| make_link(&path, target), |_, path| next(target, path))
    }

    fn symlinkat(target: Text, dir: c_int, path: Text) -> c_int | next {
        if is_invalid_target(target) {
            return next(target, dir, path);
        }
        at(dir, path, |path| make_link(&path, target), |dir, path| next(target, dir, path))
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
        let theirs = |_, path, _, new_path| next(path, new_path);
        both((HERE, path), (HERE, new_path), |from, to| move_entry(from, to, 0), theirs)
    }

    fn renameat(dir: c_int, path: Text, new_dir: c_int, new_path: Text) -> c_int | next {
        let theirs = |dir, path, new_dir, new_path| next(dir, path, new_dir, new_path);
        both((dir, path), (new_dir, new_path), |from, to| move_entry(from, to, 0), theirs)
    }

    fn renameat2(dir: c_int, path: Text, new_dir: c_int, new_path: Text, flags: c_uint) -> c_int
    | next {
        let theirs = |dir, path, new_dir, new_path| next(dir, path, new_dir, new_path, flags);
        both((dir, path), (new_dir, new_path), |from, to| move_entry(from, to, flags), theirs)
    }

    fn link(path: Text, new_path: Text) -> c_int | next {
        both((HERE, path), (HERE, new_path), refuse_link, |_, path, _, new_path| next(path, new_path))
    }

    fn linkat(dir: c_int, path: Text, new_dir: c_int, new_path: Text, flags: c_int) -> c_int | next {
        let theirs = |dir, path, new_dir, new_path| next(dir, path, new_dir, new_path, flags);
        both((dir, path), (new_dir, new_path), refuse_link, theirs)
    }

    fn mkfifo(path: Text, mode: u32) -> c_int | next {
        at(HERE, path, |path| make_node(&path, PIPE | mode), |_, path| next(path, mode))
    }

    fn mkfifoat(dir: c_int, path: Text, mode: u32) -> c_int | next {
        at(dir, path, |path| make_node(&path, PIPE | mode), |dir, path| next(dir, path, mode))
    }

    fn mknod(path: Text, mode: u32, device: u64) -> c_int | next {
        at(HERE, path, |path| make_node(&path, mode), |_, path| next(path, mode, device))
    }

    fn mknodat(dir: c_int, path: Text, mode: u32, device: u64) -> c_int | next {
        at(dir, path, |path| make_node(&path, mode), |dir, path| next(dir, path, mode, device))
    }

    fn __xmknod(version: c_int, path: Text, mode: u32, device: In<u64>) -> c_int | next {
        at(HERE, path, |path| make_node(&path, mode), |_, path| next(version, path, mode, device))
    }

    fn __xmknodat(version: c_int, dir: c_int, path: Text, mode: u32, device: In<u64>) -> c_int | next {
        let theirs = |dir, path| next(version, dir, path, mode, device);
        at(dir, path, |path| make_node(&path, mode), theirs)
    }
}

/// Serves `name_to_handle_at`: refuses a handle, which would have to identify the file without its path. Errors of the
/// path come first.
fn refuse_handle(path: &MountPath<'_>, flags: c_int) -> Answer<c_int> {
    let links = if flags & libc::AT_SYMLINK_FOLLOW != 0 { Follow::All } else { Follow::AllButLast };
    path.node(links)?;
    refuse(libc::EOPNOTSUPP)
}

export! {
    fn inotify_add_watch(fd: c_int, path: Text, mask: u32) -> c_int | next {
        // Fails as if too many watches were in use, because changes of files are not reported here.
        at(HERE, path, |_| refuse(libc::ENOSPC), |_, path| next(fd, path, mask))
    }

    fn name_to_handle_at(
        dir: c_int, path: Text, handle: *mut c_void, mount: *mut c_int, flags: c_int,
    ) -> c_int | next {
        let named = if path.is_empty() { Some(dir) } else { open::descriptor(path) };
        let theirs = |dir, path| next(dir, path, handle, mount, flags);
        match named.filter(|fd| descriptors::is_ours(*fd)) {
            Some(fd) => on(fd, |_| refuse(libc::EOPNOTSUPP), || theirs(dir, path)),
            None => at(dir, path, |path| refuse_handle(&path, flags), theirs),
        }
    }

    fn open_by_handle_at(fd: c_int, handle: *mut c_void, flags: c_int) -> c_int | next {
        match fd == HERE && cwd::is_ours() {
            true => fail(libc::ESTALE),
            false => on(fd, |_| refuse(libc::ESTALE), || next(fd, handle, flags)),
        }
    }

    fn chroot(path: Text) -> c_int | next {
        // The kernel cannot make a directory of the mount point the root.
        at(HERE, path, |_| refuse(libc::EPERM), |_, path| next(path))
    }
}
