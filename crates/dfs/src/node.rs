//! Nodes: files, directories and symbolic links of the tree, each found by its parent and its name.
use crate::entry::{self, EntryLocation};
use crate::inode::{Inode, Kind};
use crate::limits::{DEPTH_MAX, NAME_MAX};
use crate::mount::Dfs;
use crate::open::OpenFile;
use crate::superblock::ROOT_NAME;
use esker::types::{Error, ErrorKind, ObjectId, Result};
use esker::{Access, Lease, Object, Wait};
use esker_os::ForkLock;
use std::sync::Arc;

/// Extended attribute of every entry of a mount that identifies the entry: [`Node::identity`].
pub const IDENTITY_ATTRIBUTE: &str = "esker.identity";

/// A file, directory or symbolic link: the location of its entry, and its inode at the lookup (DAOS: `dfs_obj_t`).
/// Clones share it. After a move or removal a node still names its object, but no longer finds its entry.
#[derive(Clone)]
pub struct Node(Arc<Inner>);

/// State that the clones of a node share.
pub(crate) struct Inner {
    pub(crate) fs: Dfs,
    parent: Option<Node>,
    name: Box<[u8]>,
    depth: u32,
    pub(crate) inode: Inode,
    /// Lease of a file that was created to be opened, until the caller opens it.
    pub(crate) lease: ForkLock<Option<Lease>>,
}

impl Dfs {
    /// The root directory, with the inode that this process last read; [`Node::refresh`] reads it again.
    #[must_use]
    pub fn root(&self) -> Node {
        Node::root(self, self.mounted().root_inode())
    }
}

impl Node {
    pub(crate) fn root(fs: &Dfs, inode: Inode) -> Self {
        let (fs, lease) = (fs.clone(), ForkLock::default());
        Self(Arc::new(Inner { fs, parent: None, name: ROOT_NAME.into(), depth: 0, inode, lease }))
    }

    /// The node of an entry of this directory, without a lease.
    pub(crate) fn child(&self, name: &[u8], inode: Inode) -> Result<Self> {
        self.child_with(name, inode, None)
    }

    /// The node of an entry of this directory. `lease` is the lease on its object, if this process has taken one. Fails
    /// beyond [`DEPTH_MAX`].
    pub(crate) fn child_with(
        &self,
        name: &[u8],
        inode: Inode,
        lease: Option<Lease>,
    ) -> Result<Self> {
        let depth = self.child_depth()?;
        let (fs, parent) = (self.0.fs.clone(), Some(self.clone()));
        let held = ForkLock::default();
        *held.lock() = lease;
        Ok(Self(Arc::new(Inner { fs, parent, name: name.into(), depth, inode, lease: held })))
    }

    /// The depth of entries of this directory.
    ///
    /// # Errors
    /// `NameTooLong` beyond [`DEPTH_MAX`].
    pub(crate) fn child_depth(&self) -> Result<u32> {
        match self.0.depth + 1 {
            depth @ ..=DEPTH_MAX => Ok(depth),
            _ => Err(Error::new(
                ErrorKind::NameTooLong,
                format!("directories are nested at most {DEPTH_MAX} deep (DEPTH_MAX)"),
            )),
        }
    }

    /// True if the file was created to be opened and is not open yet: it is empty, and cannot lose its content.
    pub(crate) fn has_lease(&self) -> bool {
        self.0.lease.lock().is_some()
    }

    /// Takes the lease that was acquired before the entry was created; `None` if there was none, or it was taken
    /// already.
    pub(crate) fn take_lease(&self) -> Option<Lease> {
        self.0.lease.lock().take()
    }

    /// The file system it is in.
    #[must_use]
    pub fn fs(&self) -> &Dfs {
        &self.0.fs
    }

    /// The inode of the node at the lookup.
    #[must_use]
    pub fn inode(&self) -> &Inode {
        &self.0.inode
    }

    /// File, directory or symbolic link.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.0.inode.kind
    }

    /// The object that holds its content.
    #[must_use]
    pub fn oid(&self) -> ObjectId {
        self.0.inode.oid
    }

    /// The UUID of the container and the object ID, which are the same for every path to this file or directory. `None`
    /// in a snapshot, whose files differ from the current ones.
    #[must_use]
    pub fn identity(&self) -> Option<String> {
        let uuid = self.fs().container().info().uuid;
        matches!(self.fs().view(), Access::Latest).then(|| format!("{uuid}/{}", self.oid()))
    }

    /// The directory it was found in; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<&Self> {
        self.0.parent.as_ref()
    }

    /// The name it was found under; `/` for the root.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.0.name
    }

    /// The path it was found under, from the root of the file system.
    #[must_use]
    pub fn path(&self) -> Vec<u8> {
        let mut names = Vec::new();
        let mut node = self;
        while let Some(parent) = node.parent() {
            names.push(node.name());
            node = parent;
        }
        match names.is_empty() {
            true => ROOT_NAME.to_vec(),
            false => names.iter().rev().flat_map(|name| [b"/", *name].concat()).collect(),
        }
    }

    /// The path of an entry of this directory.
    pub(crate) fn path_of(&self, name: &[u8]) -> Vec<u8> {
        let path = if self.parent().is_some() { self.path() } else { Vec::new() };
        [&path, &b"/"[..], name].concat()
    }

    /// The entry of this name in this directory.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::NotDirectory`], [`ErrorKind::NameTooLong`].
    pub fn lookup(&self, name: &[u8]) -> Result<Self> {
        let inode = self.find(name, self.0.fs.view())?.ok_or_else(|| self.no_entry_error(name))?;
        self.child(name, inode)
    }
}

/// Methods for other modules.
impl Node {
    /// Location of its entry, as of the lookup.
    pub(crate) fn location(&self) -> EntryLocation {
        let mounted = self.0.fs.mounted();
        let dir = self.parent().map_or(mounted.roots().superblock, Self::oid);
        EntryLocation { dir, name: self.0.name.clone() }
    }

    /// The object of this directory.
    ///
    /// # Errors
    /// [`ErrorKind::NotDirectory`].
    pub(crate) fn directory(&self) -> Result<Object> {
        match self.kind() {
            Kind::Directory => Ok(self.object()),
            _ => Err(Error::new(
                ErrorKind::NotDirectory,
                format!("{} is not a directory", String::from_utf8_lossy(&self.path())),
            )),
        }
    }

    pub(crate) fn object(&self) -> Object {
        self.0.fs.container().object(self.oid())
    }

    /// The inode under a name of this directory; `None` if the name does not exist.
    pub(crate) fn find(&self, name: &[u8], access: Access<'_>) -> Result<Option<Inode>> {
        let dir = self.directory()?;
        if name.len() > NAME_MAX {
            entry::check_name(name)?;
        }
        match name {
            // No entry has these names: `/` is the mark of the directory.
            b"" | entry::MARK => Ok(None),
            _ => entry::fetch(&dir, name, access).wait(),
        }
    }

    /// The root, with its inode as stored.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if its entry is gone.
    pub(crate) fn refresh_root(&self) -> Result<Self> {
        let (fs, location) = (self.fs(), self.location());
        let inode = self.inode_at(&location, fs.view())?.ok_or_else(|| self.gone_error())?;
        fs.mounted().set_root(&inode);
        Ok(Self::root(fs, inode))
    }

    /// A record of the file for the table of open files, with a lease on its object: the lease of its creation, that of
    /// a deferred close, or a new one.
    pub(crate) async fn new_open_file(&self) -> Result<OpenFile> {
        let deferred = || self.fs().mounted().deferred_closes.take(self.oid());
        let lease = match self.take_lease().or_else(deferred) {
            Some(lease) => lease,
            None => self.object().lease().await?,
        };
        Ok(OpenFile::new(lease, self.location(), self.inode().mtime))
    }

    /// Records that an entry of this directory was added or removed, which changes its modification time. The change is
    /// complete by then, so an error of the time must not look like one of the change: see [`DirectoryTimes::touch`].
    ///
    /// [`DirectoryTimes::touch`]: crate::lazy::DirectoryTimes::touch
    pub(crate) fn note_entries_changed(&self) {
        let (times, container) = (&self.fs().mounted().times, self.fs().container());
        times.touch(container, (self.oid(), self.inode().mtime), || self.location());
    }

    /// The inode of its entry at this location; `None` if the location names something else.
    pub(crate) fn inode_at(
        &self,
        location: &EntryLocation,
        access: Access<'_>,
    ) -> Result<Option<Inode>> {
        let found = location.inode(self.0.fs.container(), access).wait()?;
        Ok(found.filter(|inode| inode.oid == self.oid()))
    }

    #[cold]
    pub(crate) fn no_entry_error(&self, name: &[u8]) -> Error {
        self.refusal(name, ErrorKind::NotFound, "does not exist")
    }

    #[cold]
    pub(crate) fn gone_error(&self) -> Error {
        let path = self.path();
        let path = String::from_utf8_lossy(&path);
        Error::new(ErrorKind::NotFound, format!("{path} was moved or removed"))
    }
}
