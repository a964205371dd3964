//! Open files, directories and symlinks.
use crate::abi::{Dfs, DfsObj, Handle, Ptr, Str};
use crate::array;
use crate::errno::{self, Errno, Result};
use crate::handles::{self, Entry, Held, OpenArray, kind};
use crate::list::StoredPositions;
use ::dfs::{File, Kind, Node, Open, find_and};
use std::ffi::c_int;
use std::sync::{OnceLock, PoisonError, RwLock};

/// An open file, directory or symlink.
pub(crate) struct OpenFile {
    /// Its node, which `dfs_update_parent` replaces.
    node: RwLock<Node>,
    /// `O_RDONLY`, `O_WRONLY` or `O_RDWR`.
    pub(crate) flags: c_int,
    /// The open file, if it is a regular file.
    pub(crate) file: Option<File>,
    /// The handle on the file's array, once a program has requested it.
    array: OnceLock<Handle>,
    /// Positions of listings, if it is a directory.
    pub(crate) positions: StoredPositions,
}

impl OpenFile {
    /// Opens a node for C with these flags (`O_*`). Directories and symbolic links have no content to open.
    pub(crate) fn new(node: Node, flags: c_int) -> Result<Self> {
        let file = match node.kind() {
            Kind::File => Some(node.open(how(&node, flags))?),
            Kind::Directory | Kind::Symlink => None,
        };
        let flags = flags & libc::O_ACCMODE;
        let (array, positions) = (OnceLock::new(), StoredPositions::default());
        Ok(Self { node: RwLock::new(node), flags, file, array, positions })
    }

    /// Returns a copy of the node that this handle refers to.
    pub(crate) fn node(&self) -> Node {
        self.node.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The node of the file, if it is a directory.
    pub(crate) fn directory(&self) -> Result<Node> {
        let node = self.node();
        if node.kind() == Kind::Directory { Ok(node) } else { Err(Errno::NOTDIR) }
    }

    /// Returns the open file. `INVAL` if this is a directory or a symbolic link.
    pub(crate) fn file(&self) -> Result<&File> {
        self.file.as_ref().ok_or(Errno::INVAL)
    }

    /// Returns the open file. `PERM` if it is not open for reading, `INVAL` if this is not a file.
    pub(crate) fn readable(&self) -> Result<&File> {
        let file = self.file()?;
        if file.mode().read { Ok(file) } else { Err(Errno::PERM) }
    }

    /// Returns the open file. `PERM` if it is not open for writing, `INVAL` if this is not a file.
    pub(crate) fn writable(&self) -> Result<&File> {
        let file = self.file()?;
        if file.mode().write { Ok(file) } else { Err(Errno::PERM) }
    }

    /// Closes the file. Dropping it does the same, but loses errors.
    fn close(mut self) -> Result<()> {
        Ok(self.file.take().map_or(Ok(()), File::close)?)
    }

    /// A handle on the file's array, which is closed with the file.
    fn array(&self) -> Result<Handle> {
        const READ: u32 = 0x2;
        const READ_WRITE: u32 = 0x4;
        let file = self.file()?;
        if let Some(known) = self.array.get() {
            return Ok(*known);
        }
        let mode = if file.mode().write { READ_WRITE } else { READ };
        let array = array::with_mode(file.array().clone(), mode);
        let made = handles::open(Entry::Array(OpenArray::new(array, mode)))?;
        let kept = *self.array.get_or_init(|| made);
        // Another thread was faster.
        if kept != made {
            drop(handles::close(made.cookie, &[kind::ARRAY]));
        }
        Ok(kept)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if let Some(array) = self.array.get() {
            drop(handles::close(array.cookie, &[kind::ARRAY]));
        }
    }
}

/// How the flags open a file. A read-only mount opens all files read-only.
fn how(node: &Node, flags: c_int) -> Open {
    let mode = flags & libc::O_ACCMODE;
    let write = mode != libc::O_RDONLY && !node.fs().is_read_only();
    let truncate = write && flags & libc::O_TRUNC != 0;
    Open { read: mode != libc::O_WRONLY, write, truncate }
}

/// Returns the open object `obj`. Fails if `dfs` is not a mount; which mount opened the object does not matter.
pub(crate) fn opened(dfs: Ptr<Dfs>, obj: Ptr<DfsObj>) -> Result<Held<OpenFile>> {
    handles::mount(dfs)?;
    Ok(handles::file(obj)?)
}

/// Returns the open object `obj`, to change it. `PERM` if the mount `dfs` is read-only, even if another mount opened
/// the object.
pub(crate) fn opened_to_change(dfs: Ptr<Dfs>, obj: Ptr<DfsObj>) -> Result<Held<OpenFile>> {
    let (mount, open) = (handles::mount(dfs)?, handles::file(obj)?);
    if mount.fs.is_read_only() { Err(Errno::PERM) } else { Ok(open) }
}

/// Opens a node and stores its new handle in the caller's `obj`.
pub(crate) fn give(node: Node, flags: c_int, obj: Ptr<Ptr<DfsObj>>) -> Result<()> {
    let file = OpenFile::new(node, flags)?;
    obj.set(handles::as_pointer(handles::open(Entry::File(file))?));
    Ok(())
}

/// Finds a node, and stores a new handle of it in `obj`. If the node was moved or removed between the two steps, it is
/// looked up again.
pub(crate) fn find_and_give(
    find: impl Fn() -> Result<Node>,
    flags: c_int,
    obj: Ptr<Ptr<DfsObj>>,
) -> Result<()> {
    find_and(find, |node| give(node, flags, obj), Errno::is_missing)
}

/// Closes an object. After an error of storing its time or freeing its content, the handle is closed nevertheless.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_release(obj: Ptr<DfsObj>) -> c_int {
    errno::now(|| {
        let closed = handles::close(handles::behind(obj).cookie, &[kind::FILE])?;
        // A call with an event that still uses the object closes it at its end.
        match closed.into_entry() {
            Some(Entry::File(file)) => file.close(),
            _ => Ok(()),
        }
    })
}

/// A handle on the array that holds the content of a file.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_get_file_oh(obj: Ptr<DfsObj>, oh: Ptr<Handle>) -> c_int {
    errno::now(|| {
        oh.needed()?.set(handles::file(obj)?.array()?);
        Ok(())
    })
}

/// Gives an open object a new place: the directory that contains `src_obj`, and `name`, or its old name if that is
/// null. `NOENT` if the entry there is another object.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_update_parent(obj: Ptr<DfsObj>, src_obj: Ptr<DfsObj>, name: Str) -> c_int {
    errno::now(|| {
        let (open, other) = (handles::file(obj)?, handles::file(src_obj)?);
        let node = open.node();
        let dir = other.node().parent().cloned().ok_or(Errno::INVAL)?;
        let name = if name.is_null() { node.name() } else { super::Name::read(name)?.0 };
        let found = dir.lookup(name)?;
        if found.oid() != node.oid() {
            return Err(Errno::NOENT);
        }
        *open.node.write().unwrap_or_else(PoisonError::into_inner) = found;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::super::entry::dfs_remove;
    use super::super::intercepted::{Mounted, at, iov, sgl, text};
    use super::super::io::dfs_write;
    use super::*;

    #[test]
    fn an_error_of_closing_a_file_is_returned() {
        let fs = Mounted::new("failing-release");
        let file = fs.create(c"f", libc::S_IFREG | 0o600);
        let mut data = *b"data";
        let mut iov = iov(&mut data);
        assert_eq!(dfs_write(fs.dfs, file, at(&mut sgl(&mut iov)), 0, Ptr::null()), 0);
        assert_eq!(dfs_remove(fs.dfs, Ptr::null(), text(c"f"), 0, Ptr::null()), 0);
        fs.calls.fail(true);
        assert_eq!(dfs_release(file), libc::ENOSPC, "its content is not freed");
        fs.calls.fail(false);
        assert_eq!(dfs_release(file), libc::EINVAL, "it is closed");
    }
}
