//! Names of entries, and the directories they are in.
use super::OpenFile;
use crate::abi::{DfsObj, Ptr, Str};
use crate::errno::{Errno, Result};
use crate::handles::{self, Held};
use ::dfs::limits::NAME_MAX;
use ::dfs::{Attr, Dfs, Node};

/// The name of an entry: one component.
#[derive(Clone, Copy)]
pub(crate) struct Name<'a>(pub(crate) &'a [u8]);

impl Name<'_> {
    /// Reads the name of an entry: 1 to [`NAME_MAX`] bytes without `/`, otherwise `INVAL`. `NOTSUP` for `.`, as in
    /// DAOS.
    pub(crate) fn read(name: Str) -> Result<Self> {
        let name = name.bytes()?;
        match name {
            b"." => Err(Errno::NOTSUP),
            _ if name.is_empty() || name.len() > NAME_MAX || name.contains(&b'/') => {
                Err(Errno::INVAL)
            }
            _ => Ok(Self(name)),
        }
    }
}

/// The parent directory of an entry: an open directory, which stays open for the call, or `None` for the root.
pub(crate) struct Parent(Option<Held<OpenFile>>);

/// The directory behind an open object; a null pointer means the root.
pub(crate) fn parent_of(obj: Ptr<DfsObj>) -> Result<Parent> {
    match obj.is_null() {
        true => Ok(Parent(None)),
        false => Ok(Parent(Some(handles::file(obj)?))),
    }
}

impl Parent {
    /// The node of the directory.
    pub(crate) fn node(&self, fs: &Dfs) -> Node {
        self.0.as_ref().map_or_else(|| fs.root(), |open| open.node())
    }

    /// Looks up an entry of the directory without following a symlink. In the root, a null name or `/` means the root
    /// itself.
    pub(crate) fn find(&self, fs: &Dfs, name: Str) -> Result<Node> {
        self.find_by(fs, name, Node::refresh, Node::lookup)
    }

    /// Looks up an entry like [`Parent::find`], and its attributes.
    pub(crate) fn find_with_attr(&self, fs: &Dfs, name: Str) -> Result<(Node, Attr)> {
        let root = |node: &Node| {
            let root = node.refresh()?;
            let attr = root.attr_as_found()?;
            Ok((root, attr))
        };
        self.find_by(fs, name, root, Node::lookup_with_attr)
    }

    /// Looks up `name` in this directory by `entry`. If this is the root and `name` is null or `/`, looks up the root
    /// by `root`.
    fn find_by<T>(
        &self,
        fs: &Dfs,
        name: Str,
        root: impl FnOnce(&Node) -> esker::types::Result<T>,
        entry: impl FnOnce(&Node, &[u8]) -> esker::types::Result<T>,
    ) -> Result<T> {
        let node = self.node(fs);
        let is_root = node.parent().is_none();
        match name.is_null() || is_root && name.bytes()? == b"/" {
            true if is_root => Ok(root(&node)?),
            true => Err(Errno::INVAL),
            false => Ok(entry(&node, Name::read(name)?.0)?),
        }
    }
}
