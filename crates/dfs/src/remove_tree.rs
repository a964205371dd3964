//! Removal of directories with everything below them.
use crate::entry;
use crate::inode::Kind;
use crate::limits::LIST_BATCH;
use crate::list::DirEntry;
use crate::node::Node;
use crate::remove_many::{Removal, remove_many};
use esker::types::ops::Anchor;
use esker::types::{ErrorKind, Result};

/// Times that a directory may be found without entries and yet not be empty: another process may add an entry between
/// the two, but a name without an inode stays.
const ROUNDS_IN_VAIN_MAX: u32 = 2;

impl Node {
    /// Removes an entry with everything below it (DAOS: `dfs_remove` with `force`); returns the number of removed
    /// entries. A transaction removes many entries of a directory.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::ReadOnly`]; [`ErrorKind::NotEmpty`] if a directory has names that lead to
    /// nothing. Stops at the first error; what was removed stays so.
    pub fn remove_tree(&self, name: &[u8]) -> Result<u64> {
        let node = self.lookup(name)?;
        if node.kind() != Kind::Directory {
            return self.unlink(name).map(|()| 1);
        }
        let (mut removed, mut rounds_in_vain) = (0, 0);
        loop {
            let below = node.remove_entries()?;
            removed += below;
            rounds_in_vain = if below == 0 { rounds_in_vain + 1 } else { 0 };
            match self.rmdir(name) {
                // Another process added an entry meanwhile.
                Err(error) if error.kind() == ErrorKind::NotEmpty => {}
                result => return result.map(|()| removed + 1),
            }
            if rounds_in_vain == ROUNDS_IN_VAIN_MAX {
                let why = "has names without inodes; run `esker fs check --repair`";
                return Err(self.refusal(name, ErrorKind::NotEmpty, why));
            }
        }
    }

    /// Removes all entries of this directory, which is being removed with all below it. Returns how many entries were
    /// removed.
    fn remove_entries(&self) -> Result<u64> {
        let (mut anchor, mut removed) = (Anchor::Start, 0);
        while !anchor.is_end() {
            // A name that no entry can have makes the removal fail: it would not become empty.
            let entries = self.read_entries(&mut anchor, LIST_BATCH, entry::is_stored_name)?;
            for entry in entries.iter().filter(|entry| entry.kind() == Kind::Directory) {
                removed += self.child(&entry.name, entry.inode)?.remove_entries()?;
            }
            removed += self.remove_emptied(&entries)?;
        }
        Ok(removed)
    }

    /// Removes entries of this directory, of which the directories were emptied. Returns how many entries were removed.
    fn remove_emptied(&self, entries: &[DirEntry]) -> Result<u64> {
        let removals = entries.iter().map(|entry| Removal {
            dir: self,
            name: &entry.name,
            is_directory: entry.kind() == Kind::Directory,
            check: None,
        });
        let (removals, mut removed): (Vec<_>, _) = (removals.collect(), 0);
        for (one, result) in removals.iter().zip(remove_many(&removals)) {
            removed += match result {
                Ok(()) => 1,
                Err(error) => self.remove_changed(one.name, error.kind()).unwrap_or(Err(error))?,
            };
        }
        Ok(removed)
    }

    /// Removes an entry that others have changed since it was listed; `None` if that was not the reason of the error.
    fn remove_changed(&self, name: &[u8], why: ErrorKind) -> Option<Result<u64>> {
        match why {
            ErrorKind::NotFound => Some(Ok(0)),
            ErrorKind::NotEmpty | ErrorKind::IsDirectory | ErrorKind::NotDirectory => {
                match self.remove_tree(name) {
                    Err(error) if error.kind() == ErrorKind::NotFound => Some(Ok(0)),
                    result => Some(result),
                }
            }
            _ => None,
        }
    }
}
