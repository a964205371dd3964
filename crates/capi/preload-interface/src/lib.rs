//! The interface between the interception library and the library with the file system, which it loads at the first
//! access to the mount point.
//!
//! The values of the file system stay in the library that made them. A [`Handle`] refers to one, and a [`Table`] has a
//! function for each operation. A panic does not leave these functions: the two libraries have separate runtimes, so
//! neither can catch a panic of the other.
//!
//! Other arguments and results are Rust types that both libraries use directly. That requires the same compiler and the
//! same version of these types, which [`fingerprint`] verifies before the first call.
//! docs/decisions/0063-two-interception-libraries.md gives the reasons.
#![allow(unsafe_code)]
use dfs::{
    Attr, Create, DirEntry, Follow, FsSpace, Inode, Kind, Open, RenameMode, Resolved, SetAttr,
    XattrMode,
};
use esker::types::{Error, ObjectId, Result};
use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

/// Name of a marker file in the directory of a run. It exists while no process has passed an open file or a working
/// directory of the mount point to another process. `esker run` creates it, and the interception library removes it.
pub const UNSHARED: &str = "unshared";

/// Beginning of the names, as the kernel shows them, of the anonymous files that represent open files.
pub const SHOWN_PREFIX: &str = "/memfd:esker:";

/// Name of the library with the file system, in the directory of the interception library.
pub const LIBRARY: &str = "libesker_preload_store.so";

/// Name of the function of type [`GetTable`] in that library.
pub const GET_TABLE: &CStr = c"esker_preload_table";

/// Returns a [`Table`] for the caller's [`fingerprint`]; null if its own differs.
pub type GetTable = extern "C" fn(fingerprint: u64) -> *const c_void;

/// A value of the other library, which is dropped there.
pub struct Handle {
    /// The functions of the library that made the value.
    table: &'static Table,
    value: NonNull<c_void>,
    free: fn(NonNull<c_void>),
}

// SAFETY: handles refer to values that threads may share and send (`Handle::new`).
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    /// Moves a value to the heap. When the handle is dropped, calls `free` with the address of the value.
    pub fn new<T: Send + Sync>(table: &'static Table, value: T, free: fn(NonNull<c_void>)) -> Self {
        let value = NonNull::from(Box::leak(Box::new(value))).cast();
        Self { table, value, free }
    }

    /// The address of the value.
    #[must_use]
    pub fn value(&self) -> NonNull<c_void> {
        self.value
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        (self.free)(self.value);
    }
}

/// A mounted file system ([`dfs::Dfs`]).
pub struct Dfs(Handle);

/// A file, directory or symbolic link ([`dfs::Node`]).
pub struct Node {
    handle: Handle,
    inode: Inode,
}

/// An open regular file ([`dfs::File`]).
pub struct File {
    handle: Handle,
    node: Node,
    mode: Open,
}

/// An open listing of a directory ([`dfs::DirStream`]).
pub struct DirStream {
    handle: Handle,
    node: Node,
    /// Position of the next entry.
    next: u64,
}

/// The next entry of a listing, `None` at the end, and the position after it.
pub type NextEntry = (Option<DirEntry>, u64);

/// A node with the name of an entry in it.
pub type Entry = (Node, Vec<u8>);

/// Attributes of a new file, computed from its directory.
pub type Creator<'a> = &'a dyn Fn(&Node) -> Create;

/// Declares the functions of one type: a table of them, and a method for each.
macro_rules! functions {
    ($(#[$about:meta])* $table:ident of $type:ident in $field:ident {
        $($(#[$doc:meta])* fn $name:ident($($arg:ident: $kind:ty),*) -> $result:ty;)*
    }) => {
        $(#[$about])*
        pub struct $table {
            $($(#[$doc])* pub $name: fn(&$type $(, $kind)*) -> $result,)*
        }

        impl $type {
            $($(#[$doc])*
            ///
            /// # Errors
            /// The errors of the method of this name in `esker-dfs`.
            pub fn $name(&self $(, $arg: $kind)*) -> $result {
                (self.handle().table.$field.$name)(self $(, $arg)*)
            })*
        }
    };
}

functions! {
    /// Functions of [`Dfs`].
    DfsFunctions of Dfs in dfs {
        /// The root directory.
        fn root() -> Result<Node>;
        /// The node that a path names, relative to `base`.
        fn resolve(base: &Node, path: &[u8], follow: Follow) -> Result<Node>;
        /// The node that a path names, or the host path to which it leaves the file system.
        fn resolve_step(base: &Node, path: &[u8], follow: Follow) -> Result<Resolved<Node>>;
        /// The attributes of the node that a path names.
        fn attr_step(base: &Node, path: &[u8], follow: Follow) -> Result<Resolved<Attr>>;
        /// The directory of the last name of a path, and the name.
        fn resolve_parent_step(base: &Node, path: &[u8]) -> Result<Resolved<Entry>>;
        /// Creates a file by its path in a single message, if that is possible.
        fn create_by_known_path(base: &Node, path: &[u8], new: Creator<'_>) -> Result<Option<Node>>;
        /// Removes a file by its path in a single message; false if that is not possible.
        fn unlink_by_known_path(base: &Node, path: &[u8]) -> Result<bool>;
        /// The file with this object, which a process has open. It may have been removed.
        fn file_in_use(oid: ObjectId) -> Result<Node>;
        /// Frees the object of a removed file that no process has open any more.
        fn bury(oid: ObjectId) -> Result<()>;
        /// Stores pending changes of all files.
        fn flush() -> Result<()>;
        /// Space of the file system.
        fn space() -> Result<FsSpace>;
        /// True if an engine on another node needs leases to know which files are in use.
        fn is_asynchronous() -> Result<bool>;
        /// Tells the store that the lock file of an object will be created, or has been removed.
        fn note_lock_file(oid: ObjectId, made: bool) -> Result<()>;
    }
}

functions! {
    /// Functions of [`Node`].
    NodeFunctions of Node in node {
        /// The directory it was found in; `None` for the root.
        fn parent() -> Result<Option<Node>>;
        /// The path it was found under, from the root of the file system.
        fn path() -> Result<Vec<u8>>;
        /// The name it was found under; `/` for the root.
        fn name() -> Result<Vec<u8>>;
        /// Looks up the entry of this name in this directory.
        fn lookup(name: &[u8]) -> Result<Node>;
        /// The node with its current inode.
        fn refresh() -> Result<Node>;
        /// Its attributes.
        fn attr() -> Result<Attr>;
        /// Changes attributes.
        fn set_attr(change: &SetAttr) -> Result<Attr>;
        /// Opens this regular file.
        fn open(mode: Open) -> Result<File>;
        /// Creates a file in this directory.
        fn create(name: &[u8], new: &Create) -> Result<Node>;
        /// Creates a directory in this directory.
        fn mkdir(name: &[u8], new: &Create) -> Result<Node>;
        /// Creates a symbolic link in this directory.
        fn symlink(name: &[u8], target: &[u8], new: &Create) -> Result<Node>;
        /// Removes a file or link.
        fn unlink(name: &[u8]) -> Result<()>;
        /// Removes an empty directory.
        fn rmdir(name: &[u8]) -> Result<()>;
        /// Moves an entry of this directory.
        fn rename(name: &[u8], to: &Node, new_name: &[u8], mode: RenameMode) -> Result<()>;
        /// The target of this symbolic link.
        fn read_link() -> Result<Vec<u8>>;
        /// The value of an extended attribute.
        fn get_xattr(name: &[u8]) -> Result<Vec<u8>>;
        /// Sets an extended attribute.
        fn set_xattr(name: &[u8], value: &[u8], mode: XattrMode) -> Result<()>;
        /// Removes an extended attribute.
        fn remove_xattr(name: &[u8]) -> Result<()>;
        /// The names of the extended attributes.
        fn list_xattrs() -> Result<Vec<Vec<u8>>>;
        /// A stream of the entries of this directory.
        fn entries() -> Result<DirStream>;
    }
}

functions! {
    /// Functions of [`File`].
    FileFunctions of File in file {
        /// Reads from `offset` on.
        fn read_at(offset: u64, buffer: &mut [u8]) -> Result<usize>;
        /// Reads from `offset` on into several buffers.
        fn read_vectored_at(offset: u64, buffers: Vec<&mut [u8]>) -> Result<usize>;
        /// Writes at `offset`.
        fn write_at(offset: u64, data: &[u8]) -> Result<usize>;
        /// Writes several buffers at `offset`. Returns the number of bytes written before an error.
        fn write_some_at(offset: u64, data: &[&[u8]]) -> Result<usize>;
        /// Appends the data. Returns the offset at which it was written, and the number of bytes appended.
        fn append_some(data: &[u8]) -> Result<(u64, usize)>;
        /// The size in bytes.
        fn size() -> Result<u64>;
        /// Its attributes.
        fn attr() -> Result<Attr>;
        /// Changes attributes.
        fn set_attr(change: &SetAttr) -> Result<Attr>;
        /// Stores pending changes of this file.
        fn sync() -> Result<()>;
        /// Takes a lease on the file for this process, which is a forked child.
        fn inherit() -> Result<()>;
        /// Sets the size.
        fn set_len(size: u64) -> Result<()>;
        /// Makes a range zeros and frees its space. The size stays.
        fn punch(offset: u64, len: u64) -> Result<()>;
        /// Makes a range zeros. With `keep_size`, a range past the end does not grow the file.
        fn zero(offset: u64, len: u64, keep_size: bool) -> Result<()>;
        /// Serves `fallocate`: the file grows to the end of the range, unless `keep_size` is set.
        fn allocate(offset: u64, len: u64, keep_size: bool) -> Result<()>;
        /// Offset of the next data at or after `offset` (`SEEK_DATA`).
        fn seek_data(offset: u64) -> Result<u64>;
        /// Offset of the next hole at or after `offset` (`SEEK_HOLE`).
        fn seek_hole(offset: u64) -> Result<u64>;
    }
}

/// The functions of the library with the file system.
pub struct Table {
    /// Opens a pool and a container, and mounts the file system or the tensors in it.
    pub mount: fn(&Mount<'_>) -> Result<Dfs>,
    /// Records that the process ends properly (`esker::record_clean_exit`).
    pub record_clean_exit: fn() -> Result<()>,
    /// Another handle of the same node.
    pub clone: fn(&Node) -> Handle,
    /// The next entry of a listing.
    pub read: fn(&mut DirStream) -> Result<NextEntry>,
    /// Moves a listing to a position from [`DirStream::tell`].
    pub seek: fn(&mut DirStream, u64) -> Result<()>,
    /// Functions of file systems.
    pub dfs: DfsFunctions,
    /// Functions of nodes.
    pub node: NodeFunctions,
    /// Functions of files.
    pub file: FileFunctions,
}

/// The file system to mount.
pub struct Mount<'a> {
    /// Label, UUID or URL of the pool.
    pub pool: &'a str,
    /// Label or UUID of the container.
    pub container: &'a str,
    /// The mount point.
    pub path: &'a [u8],
    /// True to refuse changes.
    pub read_only: bool,
}

impl Dfs {
    /// Wraps a [`dfs::Dfs`].
    #[must_use]
    pub fn new(handle: Handle) -> Self {
        Self(handle)
    }

    /// The handle.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.0
    }
}

impl Node {
    /// Wraps a [`dfs::Node`].
    #[must_use]
    pub fn new(handle: Handle, inode: Inode) -> Self {
        Self { handle, inode }
    }

    /// The handle.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The inode of the node at the lookup.
    #[must_use]
    pub fn inode(&self) -> &Inode {
        &self.inode
    }

    /// File, directory or symbolic link.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.inode.kind
    }

    /// The object that holds its content.
    #[must_use]
    pub fn oid(&self) -> ObjectId {
        self.inode.oid
    }
}

impl Clone for Node {
    fn clone(&self) -> Self {
        Self { handle: (self.handle.table.clone)(self), inode: self.inode }
    }
}

impl File {
    /// Wraps a [`dfs::File`].
    #[must_use]
    pub fn new(handle: Handle, node: Node, mode: Open) -> Self {
        Self { handle, node, mode }
    }

    /// The handle.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The node it was opened from.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The modes in which it was opened.
    #[must_use]
    pub fn mode(&self) -> Open {
        self.mode
    }
}

impl DirStream {
    /// Wraps a [`dfs::DirStream`] at its beginning.
    #[must_use]
    pub fn new(handle: Handle, node: Node) -> Self {
        Self { handle, node, next: 0 }
    }

    /// The handle.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The directory.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The next entry, `None` at the end.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn read(&mut self) -> Result<Option<DirEntry>> {
        let (entry, next) = (self.handle.table.read)(self)?;
        self.next = next;
        Ok(entry)
    }

    /// The position of the next entry (POSIX: `telldir`).
    #[must_use]
    pub fn tell(&self) -> u64 {
        self.next
    }

    /// Seeks to a position from [`DirStream::tell`]; 0 starts over (POSIX: `seekdir`, `rewinddir`). Like
    /// `seekdir`, it reports no error: after one, the position is unchanged.
    pub fn seek(&mut self, position: u64) {
        if (self.handle.table.seek)(self, position).is_ok() {
            self.next = position;
        }
    }
}

/// A hash of the compiler, and of the sources and the sizes of all types that the libraries share.
#[must_use]
pub const fn fingerprint() -> u64 {
    let sizes = [
        size_of::<Table>(),
        size_of::<Handle>(),
        size_of::<Dfs>(),
        size_of::<Node>(),
        size_of::<File>(),
        size_of::<DirStream>(),
        size_of::<DirEntry>(),
        size_of::<Attr>(),
        size_of::<SetAttr>(),
        size_of::<Create>(),
        size_of::<FsSpace>(),
        size_of::<Inode>(),
        size_of::<Resolved<Attr>>(),
        size_of::<Error>(),
    ];
    let mut hash = hash(0xcbf2_9ce4_8422_2325, env!("SHARED_SOURCES").as_bytes());
    let mut at = 0;
    while at < sizes.len() {
        hash = self::hash(hash, &(sizes[at] as u64).to_le_bytes());
        at += 1;
    }
    hash
}

/// Continues the FNV-1a hash `hash` with `bytes`.
const fn hash(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}
