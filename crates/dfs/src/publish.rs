//! Atomic replacement of files: a program writes a file under another name, and one transaction renames it; or one
//! transaction creates a small file with its content.
use crate::attr;
use crate::create::Create;
use crate::entry::FullEntry;
use crate::existing::{Check, Existing};
use crate::inode::{Inode, Kind};
use crate::node::Node;
use crate::rename::{Conditions, Rename};
use crate::xattr::{self, Xattrs};
use esker::types::ops::Source;
use esker::types::{Extent, Result};
use esker::{Access, Wait};

/// A rename that gives the file extended attributes, and happens only on a condition: all in one transaction.
///
/// A program writes a file under another name and then publishes it. Readers see the entry before, or the complete
/// new file with its attributes.
#[derive(Clone, Copy)]
pub struct Publish<'a> {
    /// The rename, from the temporary name to the final one.
    pub rename: Rename<'a>,
    /// The extended attributes that the file gets, from the inode that is stored with them. They replace those of the
    /// same names.
    pub xattrs: &'a dyn Fn(&Inode) -> Xattrs,
    /// The condition on the existing entry of the new name.
    pub check: Check<'a>,
}

impl Publish<'_> {
    /// Publishes the file.
    ///
    /// # Errors
    /// The errors of [`crate::Node::rename`] and [`crate::Node::set_xattr`], and the error that the condition returns.
    pub fn run(&self) -> Result<()> {
        self.rename.run_if(Conditions { xattrs: self.xattrs, check: self.check })
    }
}

/// A small file that is created with its content and extended attributes, or replaces another file, in one transaction.
#[derive(Clone, Copy)]
pub struct PublishNew<'a> {
    /// The directory.
    pub dir: &'a Node,
    /// The name in it.
    pub name: &'a [u8],
    /// Attributes of the file. It is not opened.
    pub new: &'a Create,
    /// The content, which the transaction holds in memory until its commit.
    pub content: &'a [&'a [u8]],
    /// The extended attributes that the file gets, from the inode that is stored with them.
    pub xattrs: &'a dyn Fn(&Inode) -> Xattrs,
    /// The condition on the existing entry of the name.
    pub check: Check<'a>,
}

impl PublishNew<'_> {
    /// Publishes the file.
    ///
    /// # Errors
    /// The errors of [`Node::create`] and [`Node::set_xattr`], except for `Exists`, and the error that the condition
    /// returns; [`ErrorKind::IsDirectory`] if a directory has the name.
    pub fn run(&self) -> Result<()> {
        let (dir, kind) = (self.dir, Kind::File);
        dir.directory()?;
        dir.check_new(self.name, kind, self.new)?;
        let oid = dir.new_oid(kind, dir.class_of_new(kind, self.new))?;
        let inode = dir.new_inode((kind, oid), self.new, &[]);
        let replaced = dir.fs().transact(|access| self.attempt(&inode, access))?;
        dir.note_entries_changed();
        replaced.map_or(Ok(()), |(replaced, is_orphan)| dir.free_content(&replaced, is_orphan))
    }

    /// Publishes the file within a transaction. Returns the inode of the file that it replaces, and whether that is
    /// stored as an orphan, because a process has it open.
    fn attempt(&self, inode: &Inode, access: Access<'_>) -> Result<Option<(Inode, bool)>> {
        let dir = self.dir.directory()?;
        self.dir.check_not_removed(access)?;
        let existing = FullEntry::read(&dir, self.name, access)?;
        (self.check)(existing.as_ref().map(Existing::new))?;
        let replaced = existing.map(|existing| existing.inode);
        let is_orphan = match &replaced {
            Some(replaced) => {
                self.dir.check_kind(self.name, replaced, false)?;
                self.dir.remove_checked(self.name, replaced, access)?
            }
            None => false,
        };
        let mut entry = FullEntry::new(*inode);
        xattr::set_all(&mut entry, (self.xattrs)(inode))?;
        entry.write(&dir, self.name, access)?;
        self.write_content(inode, access)?;
        Ok(replaced.map(|replaced| (replaced, is_orphan)))
    }

    /// Writes the content of the file in the transaction; an empty file needs no write.
    fn write_content(&self, inode: &Inode, access: Access<'_>) -> Result<()> {
        let content = Source::Many(self.content);
        if content.is_empty() {
            return Ok(());
        }
        let range = [Extent::new(0, content.len())];
        attr::content(self.dir.fs().mounted(), inode)?.write(&range, content, access).wait()
    }
}
