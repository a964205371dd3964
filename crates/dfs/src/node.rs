//! Nodes: files, directories and symbolic links of the tree, each found by its parent and its name.
use crate::attr::Attr;
use crate::entry;
use crate::entry::EntryLocation;
use crate::inode::{Inode, Kind};
use crate::limits::{DEPTH_MAX, NAME_MAX, SAME_MAX};
use crate::mount::Dfs;
use crate::orphans;
use crate::prefetch::Prefetch;
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

struct Inner {
    fs: Dfs,
    parent: Option<Node>,
    name: Box<[u8]>,
    depth: u32,
    inode: Inode,
    /// Lease of a file that was created to be opened, until the caller opens it.
    lease: ForkLock<Option<Lease>>,
}

impl Drop for Inner {
    /// Releases the lease of a file that was created to be opened, and was not. Frees the content if another process
    /// has removed the file, and this was the last lease.
    fn drop(&mut self) {
        let Some(lease) = self.lease.lock().take() else { return };
        if lease.release().wait().is_ok_and(|is_last| is_last) {
            // After an error, the next mount frees it.
            let _ = orphans::bury(self.fs.mounted(), &self.inode);
        }
    }
}

impl Node {
    pub(crate) fn root(fs: &Dfs, inode: Inode) -> Self {
        let (fs, lease) = (fs.clone(), ForkLock::default());
        Self(Arc::new(Inner { fs, parent: None, name: ROOT_NAME.into(), depth: 0, inode, lease }))
    }

    /// The node of an entry of this directory.
    pub(crate) fn child(&self, name: &[u8], inode: Inode) -> Result<Self> {
        self.child_with(name, inode, None)
    }

    /// The node of an entry that this process created, with the lease that it acquired on the object before.
    pub(crate) fn child_with(
        &self,
        name: &[u8],
        inode: Inode,
        lease: Option<Lease>,
    ) -> Result<Self> {
        let depth = self.0.depth + 1;
        if depth > DEPTH_MAX {
            return Err(Error::new(
                ErrorKind::NameTooLong,
                format!("directories are nested at most {DEPTH_MAX} deep (DEPTH_MAX)"),
            ));
        }
        let (fs, parent) = (self.0.fs.clone(), Some(self.clone()));
        let held = ForkLock::default();
        *held.lock() = lease;
        Ok(Self(Arc::new(Inner { fs, parent, name: name.into(), depth, inode, lease: held })))
    }

    /// True if the file was created to be opened and is not open yet: it is empty, and cannot lose its content.
    pub(crate) fn has_lease(&self) -> bool {
        self.0.lease.lock().is_some()
    }

    /// Takes the lease that was acquired before the entry was created.
    pub(crate) fn take_lease(&self) -> Option<Lease> {
        self.0.lease.lock().take()
    }

    /// The file system it is in.
    #[must_use]
    pub fn fs(&self) -> &Dfs {
        &self.0.fs
    }

    /// Its inode at the lookup.
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

    /// The entry of this name in this directory, and its attributes. Over the network this is often as fast as
    /// [`Node::lookup`] alone.
    ///
    /// # Errors
    /// The errors of [`Node::lookup`]; errors of the backend.
    pub fn lookup_with_attr(&self, name: &[u8]) -> Result<(Self, Attr)> {
        let mut times = 1;
        loop {
            let mut prefetch = Prefetch::fetch(self, std::iter::once(name), true);
            let found = prefetch.lookup(self, name)?;
            match prefetch.attr_of(&found) {
                Ok(attr) => return Ok((found, attr)),
                // Another process may have replaced the entry between the lookup and the read of the size.
                Err(error) if error.kind() == ErrorKind::NotFound && times < SAME_MAX => times += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// The same node with its current inode.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the entry is gone or names something else.
    pub fn refresh(&self) -> Result<Self> {
        let inode = self.stored(self.0.fs.view())?;
        match &self.0.parent {
            Some(parent) => parent.child(&self.0.name, inode),
            None => {
                self.0.fs.mounted().set_root(&inode);
                Ok(Self::root(&self.0.fs, inode))
            }
        }
    }

    /// Its current attributes (DAOS: `dfs_ostat`). If the entry was moved or removed, those of the lookup with the
    /// current size, and link count 0 if it was removed.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn attr(&self) -> Result<Attr> {
        match self.located(self.0.fs.view()) {
            Ok((location, inode)) => Ok(Attr::fetch(&self.0.fs, &inode)?.at(&location)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let attr = Attr::fetch(&self.0.fs, &self.0.inode)?;
                Ok(Attr { nlink: 0, ..attr })
            }
            Err(error) => Err(error),
        }
    }

    /// Its attributes at the lookup with the current size: one read less than [`Node::attr`], right after a lookup.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn attr_as_found(&self) -> Result<Attr> {
        self.0.fs.attr_of(&self.0.inode)
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
            b"" | entry::MARK => Ok(None),
            _ => entry::fetch(&dir, name, access).wait(),
        }
    }

    /// Its inode as currently stored.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the entry is gone or names something else.
    pub(crate) fn stored(&self, access: Access<'_>) -> Result<Inode> {
        Ok(self.located(access)?.1)
    }

    /// The current location of its entry, and its inode: even if this process moved it, or if it is an open file that
    /// was moved or removed.
    ///
    /// # Errors
    /// The errors of [`Node::stored`].
    pub(crate) fn located(&self, access: Access<'_>) -> Result<(EntryLocation, Inode)> {
        let moved = || self.0.fs.mounted().moved_to(self.oid());
        for location in
            std::iter::once(self.location()).chain(std::iter::once_with(moved).flatten())
        {
            if let Some(inode) = self.inode_at(&location, access)? {
                return Ok((location, inode));
            }
        }
        let found = match self.kind() {
            Kind::File => orphans::find_used(&self.0.fs, self.oid(), access)?,
            Kind::Directory => orphans::find_directory(&self.0.fs, self.oid(), access)?,
            Kind::Symlink => None,
        };
        found.ok_or_else(|| self.gone_error())
    }

    /// Fails if this directory, which has no mark, was removed. The transaction reads the entry of the directory, so it
    /// conflicts with a removal.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub(crate) fn check_exists(&self, access: Access<'_>) -> Result<()> {
        let (fs, oid) = (&self.0.fs, self.oid());
        if self.parent().is_none() || self.location().oid(fs.container(), access)? == Some(oid) {
            return Ok(());
        }
        match self.located(access) {
            // Another program moved it: only an empty directory can be removed.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let is_empty = entry::is_empty(&self.object(), access)?;
                if is_empty { Err(error) } else { Ok(()) }
            }
            located => located.map(drop),
        }
    }

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
        let (dir, name) = (self.path(), String::from_utf8_lossy(name));
        let dir = String::from_utf8_lossy(&dir);
        Error::new(ErrorKind::NotFound, format!("{name:?} does not exist in {dir}"))
    }

    #[cold]
    pub(crate) fn gone_error(&self) -> Error {
        let path = self.path();
        let path = String::from_utf8_lossy(&path);
        Error::new(ErrorKind::NotFound, format!("{path} was moved or removed"))
    }
}
