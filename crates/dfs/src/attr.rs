//! Attributes: what `stat` shows and `chmod`, `chown`, `utimens` and `truncate` change.
use crate::entry::EntryLocation;
use crate::inode::{Inode, Kind, Time};
use crate::mount::{Dfs, Mounted};
use esker::types::{ObjectId, Result};
use esker::{Array, ArrayAttributes, Wait};

/// Bytes that `stat` shows as the size of a directory, however many entries it has (DAOS: the size of
/// its handle, 104).
const DIRECTORY_BYTES: u64 = 104;
/// Bytes per block in `st_blocks` (POSIX leaves it open; 512 is usual).
const STAT_BLOCK: u64 = 512;

/// Attributes of a file, directory or link (POSIX: `struct stat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// The object that holds the content.
    pub oid: ObjectId,
    /// File, directory or symbolic link.
    pub kind: Kind,
    /// Permission bits with set-id and sticky bits; see [`Attr::full_mode`].
    pub mode: u32,
    /// Link count: 1, or 0 once it is removed.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes of a file's content, or of a link's target.
    pub size: u64,
    /// Bytes per chunk of a file, best for reading and writing.
    pub block_size: u64,
    /// Time of the last change of the content.
    pub mtime: Time,
    /// Time of the last change of its content or its attributes (POSIX: `st_ctime`).
    pub ctime: Time,
}

/// Changes to attributes; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size of a file in bytes.
    pub size: Option<u64>,
    /// Time of the last change of the content.
    pub mtime: Option<Time>,
    /// Chunk size in bytes of new files in a directory; 0 for the default of the container.
    pub chunk_size: Option<u64>,
    /// Object class of new files in a directory; 0 for the default of the container.
    pub class: Option<u32>,
}

/// Permission to read, write and execute: the bits of `access(2)`.
pub const READ: u32 = 4;
/// See [`READ`].
pub const WRITE: u32 = 2;
/// See [`READ`].
pub const EXECUTE: u32 = 1;

impl Attr {
    /// The attributes of an inode; fetches the size of a file.
    pub(crate) fn fetch(fs: &Dfs, inode: &Inode) -> Result<Self> {
        let size = match inode.kind {
            Kind::File => content(fs.mounted(), inode)?.size(fs.view()).wait()?,
            Kind::Directory => DIRECTORY_BYTES,
            Kind::Symlink => inode.link_len,
        };
        Ok(Self::with_size(fs, inode, size))
    }

    /// Attributes as `stat` reports them, from an inode and the size of the content. Times that this process has not
    /// stored yet take the place of the stored ones.
    pub(crate) fn with_size(fs: &Dfs, inode: &Inode, size: u64) -> Self {
        let pending = fs.mounted().pending_time(inode);
        Self {
            oid: inode.oid,
            kind: inode.kind,
            mode: inode.mode,
            nlink: 1,
            uid: inode.uid,
            gid: inode.gid,
            size,
            block_size: chunk_size(fs.mounted(), inode),
            mtime: pending.unwrap_or(inode.mtime),
            ctime: pending.map_or(inode.ctime, |time| inode.ctime.max(time)),
        }
    }

    /// These attributes with the link count of the entry at `location`: 0 for an orphan, which has lost its name, else
    /// 1.
    pub(crate) fn at(self, location: &EntryLocation) -> Self {
        Self { nlink: u32::from(!location.is_orphans()), ..self }
    }

    /// The inode number (POSIX: `st_ino`), unique in the container.
    #[must_use]
    pub fn number(&self) -> u64 {
        crate::inode::number_of(self.oid)
    }

    /// Blocks of 512 bytes (POSIX: `st_blocks`). Holes are counted, as in DFS.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.size.div_ceil(STAT_BLOCK)
    }

    /// The mode with the bits of the kind (POSIX: `st_mode`).
    #[must_use]
    pub fn full_mode(&self) -> u32 {
        self.kind.bits() | self.mode
    }

    /// True if the mode bits allow all of `mask` ([`READ`], [`WRITE`], [`EXECUTE`]) to a user with
    /// these groups (POSIX: `access`). The superuser may do everything except execute files without execute permission.
    #[must_use]
    pub fn allows(&self, uid: u32, gids: &[u32], mask: u32) -> bool {
        if uid == 0 {
            let runs = self.kind == Kind::Directory || self.mode & 0o111 != 0;
            return mask & EXECUTE == 0 || runs;
        }
        let shift = match () {
            () if uid == self.uid => 6,
            () if gids.contains(&self.gid) => 3,
            () => 0,
        };
        self.mode >> shift & mask == mask
    }
}

/// The array that holds the content of a file.
pub(crate) fn content(fs: &Mounted, inode: &Inode) -> Result<Array> {
    let attributes = ArrayAttributes { cell_size: 1, chunk_size: chunk_size(fs, inode) };
    let content = fs.container().open_array_with_attributes(inode.oid, attributes)?;
    // With reliable marks, the size of a file with one chunk costs one request, to one node.
    Ok(if fs.rules.has_stripe_marks { content.with_reliable_marks() } else { content })
}

/// Chunk size in bytes of a file: its own or, if the inode has 0, that of the file system.
fn chunk_size(fs: &Mounted, inode: &Inode) -> u64 {
    match inode.chunk_size {
        0 => fs.superblock().chunk_size,
        own => own,
    }
}

impl Dfs {
    /// Attributes for an inode that was just read; fetches the size of a file.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn attr_of(&self, inode: &Inode) -> Result<Attr> {
        Attr::fetch(self, inode)
    }
}
