//! Atomic replacement of files: a program writes a file under another name, and one transaction renames it.
use crate::entry::FullEntry;
use crate::inode::Inode;
use crate::rename::Rename;
use crate::xattr;
use esker::types::Result;

/// The entry that a change would replace or remove, as the transaction of the change reads it.
#[derive(Clone, Copy)]
pub struct Existing<'a>(&'a FullEntry);

impl<'a> Existing<'a> {
    pub(crate) fn new(entry: &'a FullEntry) -> Self {
        Self(entry)
    }

    /// Its inode.
    #[must_use]
    pub fn inode(&self) -> &'a Inode {
        &self.0.inode
    }

    /// The value of an extended attribute, if it has it.
    #[must_use]
    pub fn xattr(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.0.value(&xattr::akey(name).ok()?)
    }
}

/// Decides if an existing entry, or `None`, may be replaced or removed. Retries of the transaction call it again.
pub type Check<'a> = &'a dyn Fn(Option<Existing<'_>>) -> Result<()>;

/// The names and values of the extended attributes that a file gets.
pub type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

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
        self.rename.publish(self)
    }

    pub(crate) fn add_xattrs(&self, to: &mut FullEntry) -> Result<()> {
        for (name, value) in (self.xattrs)(&to.inode) {
            xattr::check_value(&value)?;
            to.set(xattr::akey(&name)?, value);
        }
        Ok(())
    }
}
