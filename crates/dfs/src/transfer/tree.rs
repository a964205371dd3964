//! What a copy needs of a file system, on either side.
use crate::{Kind, Time};
use esker::types::Result;

/// What is known of a thing without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// What it is; `None` for what only the host has (devices, pipes, sockets).
    pub kind: Option<Kind>,
    /// Permission bits, with set-id and sticky bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes of a file.
    pub size: u64,
    /// Bytes that it takes up; fewer than `size` where a file has holes.
    pub stored: u64,
    /// Names that it has (POSIX: `st_nlink`).
    pub names: u64,
    /// When its content changed last.
    pub mtime: Time,
}

impl Meta {
    /// True where a file may have holes.
    pub(super) fn may_have_holes(&self) -> bool {
        self.stored < self.size
    }

    /// True where a file that has been copied would look so.
    pub(super) fn looks_like(&self, other: &Self) -> bool {
        (self.kind, self.size, self.mtime) == (other.kind, other.size, other.mtime)
    }
}

/// Something in a directory.
#[derive(Debug)]
pub struct Child<N> {
    /// Its name.
    pub name: Vec<u8>,
    /// Itself.
    pub node: N,
    /// What it is; `None` for what only the host has.
    pub kind: Option<Kind>,
}

/// One side of a copy.
pub trait Tree: Sync {
    /// Something in the tree, which need not be open.
    type Node: Clone + Send + Sync;
    /// An open file.
    type File: Send + Sync;

    /// Where it is, for people.
    fn path(&self, node: &Self::Node) -> Vec<u8>;

    /// What it is; a symbolic link is not followed.
    ///
    /// # Errors
    /// What the file system meets, here and below.
    fn meta(&self, node: &Self::Node) -> Result<Meta>;

    /// Hands all that is in a directory to `each`, until it returns false.
    ///
    /// # Errors
    /// What the file system meets.
    fn entries(
        &self,
        dir: &Self::Node,
        each: &mut dyn FnMut(Child<Self::Node>) -> bool,
    ) -> Result<()>;

    /// What has this name in a directory, and what is known of it.
    ///
    /// # Errors
    /// What the file system meets; that there is nothing is no error.
    fn find(&self, dir: &Self::Node, name: &[u8]) -> Result<Option<(Self::Node, Meta)>>;

    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// What the file system meets.
    fn target(&self, link: &Self::Node) -> Result<Vec<u8>>;

    /// The extended attributes, names and values.
    ///
    /// # Errors
    /// What the file system meets; one that has none at all has none here.
    fn xattrs(&self, node: &Self::Node) -> Result<Vec<(Vec<u8>, Vec<u8>)>>;

    /// Opens a file for reading.
    ///
    /// # Errors
    /// What the file system meets.
    fn open(&self, file: &Self::Node) -> Result<Self::File>;

    /// Reads at most `buffer.len()` bytes; fewer than that at the end of the file only.
    ///
    /// # Errors
    /// What the file system meets.
    fn read(&self, file: &Self::File, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// First range of data at or behind `offset`; `None` where there are only holes from there on.
    ///
    /// # Errors
    /// What the file system meets.
    fn data(&self, file: &Self::File, offset: u64) -> Result<Option<(u64, u64)>>;

    /// Makes a directory that its owner may change.
    ///
    /// # Errors
    /// What the file system meets.
    fn mkdir(&self, dir: &Self::Node, name: &[u8], meta: &Meta) -> Result<Self::Node>;

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// What the file system meets.
    fn symlink(
        &self,
        dir: &Self::Node,
        name: &[u8],
        target: &[u8],
        meta: &Meta,
    ) -> Result<Self::Node>;

    /// Makes an empty file, or empties the one that is there, and opens it for reading and writing.
    ///
    /// # Errors
    /// What the file system meets.
    fn create(
        &self,
        dir: &Self::Node,
        name: &[u8],
        meta: &Meta,
    ) -> Result<(Self::Node, Self::File)>;

    /// Writes all of `data`.
    ///
    /// # Errors
    /// What the file system meets.
    fn write(&self, file: &Self::File, offset: u64, data: &[u8]) -> Result<()>;

    /// Sets the length of a file.
    ///
    /// # Errors
    /// What the file system meets.
    fn set_len(&self, file: &Self::File, size: u64) -> Result<()>;

    /// Closes a file that was written. With `keep` it gets owner, mode and, last, time.
    ///
    /// # Errors
    /// What the file system meets.
    fn seal(&self, node: &Self::Node, file: Self::File, keep: Option<&Meta>) -> Result<()>;

    /// Removes a file or symbolic link.
    ///
    /// # Errors
    /// What the file system meets.
    fn remove(&self, dir: &Self::Node, name: &[u8]) -> Result<()>;

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// What the file system meets.
    fn set_xattr(&self, node: &Self::Node, name: &[u8], value: &[u8]) -> Result<()>;

    /// Gives a thing its owner, mode and time; a symbolic link is not followed.
    ///
    /// # Errors
    /// What the file system meets.
    fn set_meta(&self, node: &Self::Node, meta: &Meta) -> Result<()>;
}
