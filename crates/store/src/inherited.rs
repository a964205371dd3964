//! Objects that processes inherited open, by fork or exec, and have not come to use: they hold nothing yet
//! ([`State::hold`]), but the kernel knows of them.
//!
//! Who hands an object on opens a file in the pool's folder for locks, named after the object, and takes a shared
//! lock on its last byte; before, it is counted beside the holds. Children and programs inherit the opening, and with it the lock. Whoever closes the
//! file as the last one removes it, and removes the object where the file says so: where it is not empty.
use crate::holds::LOCK_FILE;
use crate::io::lock::{self, Kind};
use crate::pool::State;
use crate::superblock::LOCKS;
use esker_types::info::{ContainerId, ContainerInfo};
use esker_types::{Error, ObjectId, Result};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering;

/// The byte of a file for locks on which whoever has it open has a shared lock: the last one a file can have.
pub const PRESENCE: u64 = i64::MAX as u64;

/// Bytes of a file for locks whose object the last one removes who has the file open.
const DOOMED: u64 = 1;

/// Name of the file for locks on an object.
#[must_use]
pub fn lock_file(container: &str, oid: ObjectId) -> String {
    format!("{container}.{:x}.{:x}", oid.hi, oid.lo)
}

impl State {
    /// Notes that a file for locks on an object is about to be made, or has been removed.
    pub fn note_lock_file(&self, container: ContainerId, oid: ObjectId, made: bool) {
        let counts = self.hold_counts(container, oid);
        let changed = |found: u64| match made {
            true => found.checked_add(LOCK_FILE),
            false => found.checked_sub(LOCK_FILE),
        };
        let _ = counts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, changed);
    }

    /// False where no file for locks on an object can be there. To be asked after [`State::doom`]: who hands an
    /// object on makes the file before letting go of it.
    fn may_have_lock_file(&self, container: ContainerId, oid: ObjectId) -> bool {
        let counts = self.hold_counts(container, oid);
        counts.load(Ordering::SeqCst) >= LOCK_FILE
    }

    /// Leaves the removal of an object to the last who inherited it; false where nobody did. What
    /// [`State::doom`] is for those who hold it.
    ///
    /// # Errors
    /// Where the file for its locks can be neither opened nor locked.
    pub fn is_inherited(&self, container: &ContainerInfo, oid: ObjectId) -> Result<bool> {
        if !self.may_have_lock_file(container.id, oid) {
            return Ok(false);
        }
        let path = self.path().join(LOCKS).join(lock_file(&container.uuid.to_string(), oid));
        let (is_left, was_removed) =
            leave(&path).map_err(|error| Error::io(path.display(), &error))?;
        if was_removed {
            self.note_lock_file(container.id, oid, false);
        }
        Ok(is_left)
    }
}

/// Marks the file, or removes it where nobody has it open: which of the two.
fn leave(path: &Path) -> io::Result<(bool, bool)> {
    loop {
        let file = match esker_os::open_plain(path, true) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((false, false)),
            file => file?,
        };
        file.set_len(DOOMED)?;
        // Who has just found that nobody else has it open is about to remove it.
        lock::wait_shared(&file, PRESENCE)?;
        lock::set(&file, Kind::None, PRESENCE)?;
        let is_alone = lock::set(&file, Kind::Exclusive, PRESENCE)?;
        if is_removed(&file)? {
            continue;
        }
        if is_alone {
            std::fs::remove_file(path)?;
        }
        return Ok((!is_alone, is_alone));
    }
}

fn is_removed(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.nlink() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;
    use esker_types::{Checksum, Epoch, Uuid};

    fn container() -> ContainerInfo {
        ContainerInfo {
            id: ContainerId(7),
            uuid: Uuid([7; 16]),
            label: String::new(),
            checksum: Checksum::Crc32c,
            created: Epoch(0),
            handles: 0,
        }
    }

    const OID: ObjectId = ObjectId { hi: 3 << 56, lo: 5 };

    fn path(pool: &Scratch) -> std::path::PathBuf {
        pool.path().join(LOCKS).join(lock_file(&container().uuid.to_string(), OID))
    }

    #[test]
    fn what_is_inherited_is_left_to_the_last_who_has_it() {
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(1));
        let state = pool.state();
        let is_inherited = || state.is_inherited(&container(), OID).unwrap();
        assert!(!is_inherited(), "nobody locked it");
        state.note_lock_file(container().id, OID, true);
        assert!(!is_inherited(), "it is not there yet");
        let file = File::create_new(path(&pool))
            .and_then(|_| esker_os::open_plain(&path(&pool), true))
            .unwrap();
        lock::share(&file, PRESENCE).unwrap();
        let child = file.try_clone().unwrap();
        assert!(is_inherited());
        drop(file);
        assert!(is_inherited(), "as long as anybody has it open");
        assert_eq!(child.metadata().unwrap().len(), DOOMED, "and is told");
        drop(child);
        assert!(!is_inherited());
        assert!(!path(&pool).exists(), "and nothing stays");
        assert!(!state.may_have_lock_file(container().id, OID), "not even a count");
    }
}
