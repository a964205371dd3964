//! Current entries of nodes: where an entry is now, and what it stores, even after a move or removal.
use crate::attr::Attr;
use crate::entry::{self, EntryLocation};
use crate::inode::{Inode, Kind};
use crate::node::Node;
use crate::orphans;
use esker::Access;
use esker::types::{ErrorKind, Result};

impl Node {
    /// The same node with its current inode.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the entry is gone or names something else.
    pub fn refresh(&self) -> Result<Self> {
        match self.parent() {
            Some(parent) => {
                let (location, inode) = self.located(self.fs().view())?;
                let is_below = location.dir == parent.oid();
                parent.child(if is_below { &location.name } else { self.name() }, inode)
            }
            None => self.refresh_root(),
        }
    }

    /// The current attributes of the node (DAOS: `dfs_ostat`). If the entry was moved or removed, those of the lookup
    /// with the current size, and link count 0 if it was removed.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn attr(&self) -> Result<Attr> {
        match self.located(self.fs().view()) {
            Ok((location, inode)) => Ok(Attr::fetch(self.fs(), &inode)?.at(&location)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let attr = Attr::fetch(self.fs(), self.inode())?;
                Ok(Attr { nlink: u32::from(self.is_moved_directory()?), ..attr })
            }
            Err(error) => Err(error),
        }
    }

    /// True if this is a directory that exists, although its entry is not found: another process moved it. A removed
    /// directory has no mark and no entries.
    fn is_moved_directory(&self) -> Result<bool> {
        if self.kind() != Kind::Directory {
            return Ok(false);
        }
        let (dir, view) = (self.object(), self.fs().view());
        let is_marked = entry::has_marks(self.fs().container()) && entry::is_marked(&dir, view)?;
        Ok(is_marked || !entry::is_empty(&dir, view)?)
    }

    /// The attributes of the node at the lookup with the current size: one read less than [`Node::attr`], right after a
    /// lookup.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn attr_as_found(&self) -> Result<Attr> {
        self.fs().attr_of(self.inode())
    }

    /// The inode of the node as currently stored.
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
        let moved = || self.fs().mounted().moved_to(self.oid());
        for location in
            std::iter::once(self.location()).chain(std::iter::once_with(moved).flatten())
        {
            if let Some(inode) = self.inode_at(&location, access)? {
                return Ok((location, inode));
            }
        }
        let found = match self.kind() {
            Kind::File => orphans::find_used(self.fs(), self.oid(), access)?,
            Kind::Directory => orphans::find_directory(self.fs(), self.oid(), access)?,
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
        let container = self.fs().container();
        if self.parent().is_none() || self.location().oid(container, access)? == Some(self.oid()) {
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
}
