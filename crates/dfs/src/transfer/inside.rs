//! A mounted file system as a side of a copy.
use super::tree::{Child, Meta, Tree};
use crate::{Create, File, Kind, Node, Open, SetAttr, Time, XattrMode};
use esker::types::{ErrorKind, Result};

/// Files below this size are copied as a whole: searching for holes costs more than copying them.
const HOLES_BYTES_MIN: u64 = 64 << 10;

/// Mounted file systems of Esker.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inside;

impl Tree for Inside {
    type Node = Node;
    type File = File;

    fn path(&self, node: &Node) -> Vec<u8> {
        node.path()
    }

    /// The metadata of a node.
    fn meta(&self, node: &Node) -> Result<Meta> {
        let attr = node.attr()?;
        Ok(Meta {
            kind: Some(attr.kind),
            mode: attr.mode,
            uid: attr.uid,
            gid: attr.gid,
            size: attr.size,
            // The stored bytes are not known. Zero makes the copy look for holes.
            stored: if attr.size < HOLES_BYTES_MIN { attr.size } else { 0 },
            names: attr.nlink.into(),
            mtime: attr.mtime,
        })
    }

    fn identity(&self, node: &Node) -> Option<String> {
        node.identity()
    }

    /// Lists a directory until `each` returns false.
    fn entries(&self, dir: &Node, each: &mut dyn FnMut(Child<Node>) -> bool) -> Result<()> {
        // The copy reports entries with names that no entry can have.
        let mut entries = dir.stored_entries()?;
        while let Some(entry) = entries.read()? {
            let node = dir.child(&entry.name, entry.inode)?;
            if !each(Child { kind: Some(entry.kind()), name: entry.name, node }) {
                break;
            }
        }
        Ok(())
    }

    /// The entry of this name with its metadata; `None` if it does not exist.
    fn find(&self, dir: &Node, name: &[u8]) -> Result<Option<(Node, Meta)>> {
        match dir.lookup(name) {
            Ok(node) => self.meta(&node).map(|meta| Some((node, meta))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn target(&self, link: &Node) -> Result<Vec<u8>> {
        link.read_link()
    }

    /// Names and values of the extended attributes.
    fn xattrs(&self, node: &Node) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let value = |name: Vec<u8>| node.get_xattr(&name).map(|value| (name, value));
        node.list_xattrs()?.into_iter().map(value).collect()
    }

    fn open(&self, file: &Node) -> Result<File> {
        file.open(Open::READ)
    }

    fn read(&self, file: &File, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        file.read_at(offset, buffer)
    }

    /// Start and end of the next data; `None` if only a hole follows.
    fn data(&self, file: &File, offset: u64) -> Result<Option<(u64, u64)>> {
        match file.seek_data(offset) {
            Err(error) if error.kind() == ErrorKind::PastEnd => Ok(None),
            start => start.and_then(|start| Ok(Some((start, file.seek_hole(start)?)))),
        }
    }

    fn mkdir(&self, dir: &Node, name: &[u8], meta: &Meta) -> Result<Node> {
        dir.mkdir(name, &new(meta))
    }

    fn symlink(&self, dir: &Node, name: &[u8], target: &[u8], meta: &Meta) -> Result<Node> {
        dir.symlink(name, target, &new(meta))
    }

    /// Creates a file, or truncates an existing one, and opens it. The file has its name at once.
    fn create(&self, dir: &Node, name: &[u8], meta: &Meta) -> Result<(Node, File)> {
        let exclusive = Create { exclusive: true, ..new(meta) };
        let (node, open) = match dir.create(name, &exclusive) {
            Err(error) if error.kind() == ErrorKind::Exists => {
                let node = dir.lookup(name)?;
                // Until it is complete it must not look complete.
                node.set_attr(&SetAttr { mtime: Some(Time::now()), ..SetAttr::default() })?;
                (node, Open { truncate: true, ..Open::BOTH })
            }
            made => (made?, Open::BOTH),
        };
        let file = node.open(open)?;
        Ok((node, file))
    }

    fn write(&self, file: &File, offset: u64, data: &[u8]) -> Result<()> {
        file.write_at(offset, data).map(drop)
    }

    fn set_len(&self, file: &File, size: u64) -> Result<()> {
        file.set_len(size)
    }

    /// Closes the file, then sets owner, mode and time: the close may store a later time.
    fn finish(&self, node: &Node, file: File, keep: Option<&Meta>) -> Result<()> {
        file.close()?;
        keep.map_or(Ok(()), |meta| self.set_meta(node, meta))
    }

    /// Removes the unfinished file `made`, if `name` still leads to it.
    fn abandon(&self, dir: &Node, name: &[u8], made: &Node) -> Result<()> {
        match dir.lookup(name) {
            Ok(there) if there.oid() == made.oid() => dir.unlink(name),
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            // It is gone, or another process has replaced it.
            _ => Ok(()),
        }
    }

    fn remove(&self, dir: &Node, name: &[u8]) -> Result<()> {
        dir.unlink(name)
    }

    /// Sets an extended attribute, whether or not it exists.
    fn set_xattr(&self, node: &Node, name: &[u8], value: &[u8]) -> Result<()> {
        node.set_xattr(name, value, XattrMode::Any)
    }

    /// Sets owner, mode and time. A symbolic link has no mode to set.
    fn set_meta(&self, node: &Node, meta: &Meta) -> Result<()> {
        let mode = (meta.kind != Some(Kind::Symlink)).then_some(meta.mode);
        let (uid, gid, mtime) = (Some(meta.uid), Some(meta.gid), Some(meta.mtime));
        node.set_attr(&SetAttr { mode, uid, gid, mtime, ..SetAttr::default() }).map(drop)
    }
}

/// Attributes of a new entry that is a copy of one with this metadata.
fn new(meta: &Meta) -> Create {
    Create { owner: Some((meta.uid, meta.gid)), ..Create::with_mode(meta.mode) }
}
