//! Atomic replacement of files: a program writes a file under another name, and one transaction renames it.
use crate::existing::Check;
use crate::inode::Inode;
use crate::rename::{Conditions, Rename};
use crate::xattr::Xattrs;
use esker::types::Result;

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
