//! The interface that a copy needs of a file system, on either side.
use crate::{Kind, Time};
use esker::types::Result;

/// Metadata of a file, directory or symbolic link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// File, directory or symbolic link; `None` for devices, pipes and sockets, which only the host has.
    pub kind: Option<Kind>,
    /// Permission bits, with set-id and sticky bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes of a file.
    pub size: u64,
    /// Bytes allocated; fewer than `size` if a file has holes.
    pub stored: u64,
    /// Link count (POSIX: `st_nlink`).
    pub names: u64,
    /// Time of the last change of its content.
    pub mtime: Time,
}

impl Meta {
    /// True if a file may have holes.
    pub(super) fn may_have_holes(&self) -> bool {
        self.stored < self.size
    }

    /// True if kind, size and modification time are equal, as they are after a complete copy.
    pub(super) fn looks_like(&self, other: &Self) -> bool {
        (self.kind, self.size, self.mtime) == (other.kind, other.size, other.mtime)
    }
}

/// An entry of a directory.
#[derive(Debug)]
pub struct Child<N> {
    /// Its name.
    pub name: Vec<u8>,
    /// Its node.
    pub node: N,
    /// File, directory or symbolic link; `None` for other kinds, which only the host has.
    pub kind: Option<Kind>,
}

/// One side of a copy.
pub trait Tree: Sync {
    /// A file, directory or symbolic link of the tree.
    type Node: Clone + Send + Sync;
    /// An open file.
    type File: Send + Sync;

    /// The path of the node, for messages.
    fn path(&self, node: &Self::Node) -> Vec<u8>;

    /// The metadata of the node; a symbolic link is not followed.
    ///
    /// # Errors
    /// Errors of the file system, here and below.
    fn meta(&self, node: &Self::Node) -> Result<Meta>;

    /// A text that identifies a file or directory. If both sides return the same text, both paths lead to the same one.
    /// `None` if this side does not know.
    fn identity(&self, node: &Self::Node) -> Option<String>;

    /// Passes all entries of a directory to `each`, until it returns false.
    ///
    /// # Errors
    /// Errors of the file system.
    fn entries(
        &self,
        dir: &Self::Node,
        each: &mut dyn FnMut(Child<Self::Node>) -> bool,
    ) -> Result<()>;

    /// The entry of this name in a directory, with its metadata.
    ///
    /// # Errors
    /// Errors of the file system, except for a missing entry.
    fn find(&self, dir: &Self::Node, name: &[u8]) -> Result<Option<(Self::Node, Meta)>>;

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// Errors of the file system.
    fn target(&self, link: &Self::Node) -> Result<Vec<u8>>;

    /// The extended attributes, names and values.
    ///
    /// # Errors
    /// Errors of the file system; one that has none at all has none here.
    fn xattrs(&self, node: &Self::Node) -> Result<Vec<(Vec<u8>, Vec<u8>)>>;

    /// Opens a file for reading.
    ///
    /// # Errors
    /// Errors of the file system.
    fn open(&self, file: &Self::Node) -> Result<Self::File>;

    /// Reads at most `buffer.len()` bytes; fewer than that at the end of the file only.
    ///
    /// # Errors
    /// Errors of the file system.
    fn read(&self, file: &Self::File, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// Start and end of the first range of data at or after `offset`; `None` if there are only holes from there on.
    ///
    /// # Errors
    /// Errors of the file system.
    fn data(&self, file: &Self::File, offset: u64) -> Result<Option<(u64, u64)>>;

    /// Creates a directory. Its owner can write to it even if the mode in `meta` forbids that, so that it can be
    /// filled; [`Self::set_meta`] sets the mode later.
    ///
    /// # Errors
    /// Errors of the file system.
    fn mkdir(&self, dir: &Self::Node, name: &[u8], meta: &Meta) -> Result<Self::Node>;

    /// Creates a symbolic link.
    ///
    /// # Errors
    /// Errors of the file system.
    fn symlink(
        &self,
        dir: &Self::Node,
        name: &[u8],
        target: &[u8],
        meta: &Meta,
    ) -> Result<Self::Node>;

    /// Creates an empty file, or replaces an existing one, and opens it for reading and writing. Some file systems give
    /// it the name at once, others in [`Self::finish`].
    ///
    /// # Errors
    /// Errors of the file system.
    fn create(
        &self,
        dir: &Self::Node,
        name: &[u8],
        meta: &Meta,
    ) -> Result<(Self::Node, Self::File)>;

    /// Writes all of `data`.
    ///
    /// # Errors
    /// Errors of the file system.
    fn write(&self, file: &Self::File, offset: u64, data: &[u8]) -> Result<()>;

    /// Sets the length of a file.
    ///
    /// # Errors
    /// Errors of the file system.
    fn set_len(&self, file: &Self::File, size: u64) -> Result<()>;

    /// Closes a written file. Sets owner, mode and time from `keep`, if given: the time last, because writes change it.
    /// Then names the file, unless [`Self::create`] has done so.
    ///
    /// # Errors
    /// Errors of the file system.
    fn finish(&self, node: &Self::Node, file: Self::File, keep: Option<&Meta>) -> Result<()>;

    /// Removes a file of [`Self::create`] that was not finished, so that no incomplete file has the name.
    ///
    /// # Errors
    /// Errors of the file system.
    fn abandon(&self, dir: &Self::Node, name: &[u8], made: &Self::Node) -> Result<()>;

    /// Removes a file or symbolic link.
    ///
    /// # Errors
    /// Errors of the file system.
    fn remove(&self, dir: &Self::Node, name: &[u8]) -> Result<()>;

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// Errors of the file system.
    fn set_xattr(&self, node: &Self::Node, name: &[u8], value: &[u8]) -> Result<()>;

    /// Sets an extended attribute of a file that [`Self::create`] opened.
    ///
    /// # Errors
    /// Errors of the file system.
    fn set_file_xattr(
        &self,
        node: &Self::Node,
        _file: &Self::File,
        name: &[u8],
        value: &[u8],
    ) -> Result<()> {
        self.set_xattr(node, name, value)
    }

    /// Sets owner, mode and time; a symbolic link is not followed.
    ///
    /// # Errors
    /// Errors of the file system.
    fn set_meta(&self, node: &Self::Node, meta: &Meta) -> Result<()>;
}
