//! Where an entry stands.
use crate::entry;
use crate::inode::Inode;
use esker::types::{Error, ErrorKind, ObjectId, Result};
use esker::{Access, Container};

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The directory's object.
    pub(crate) dir: ObjectId,
    /// The name.
    pub(crate) name: Box<[u8]>,
}

impl Place {
    /// The inode that stands there.
    pub(crate) fn inode(&self, in_: &Container, access: Access<'_>) -> Result<Option<Inode>> {
        entry::fetch(&in_.object(self.dir), &self.name, access)
    }

    #[cold]
    pub(crate) fn gone(&self) -> Error {
        let name = String::from_utf8_lossy(&self.name);
        Error::new(ErrorKind::NotFound, format!("{name:?} was moved or removed"))
    }

    /// Replaces the inode that stands there.
    pub(crate) fn store(&self, in_: &Container, inode: &Inode, access: Access<'_>) -> Result<()> {
        entry::store(&in_.object(self.dir), &self.name, inode, access)
    }
}
