//! Conditions of changes on the entries that they replace or remove.
use crate::entry::FullEntry;
use crate::inode::Inode;
use crate::xattr;
use esker::types::Result;

/// The entry that a change would replace or remove, as the transaction of the change reads it.
#[derive(Clone, Copy)]
pub struct Existing<'a>(&'a FullEntry);

impl<'a> Existing<'a> {
    pub(crate) fn new(entry: &'a FullEntry) -> Self {
        Self(entry)
    }

    /// The inode of the entry.
    #[must_use]
    pub fn inode(&self) -> &'a Inode {
        &self.0.inode
    }

    /// The value of an extended attribute; `None` if the entry lacks it.
    #[must_use]
    pub fn xattr(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.0.value(&xattr::akey(name).ok()?)
    }
}

/// Decides if an existing entry, or `None`, may be replaced or removed. Retries of the transaction call it again.
pub type Check<'a> = &'a dyn Fn(Option<Existing<'_>>) -> Result<()>;
