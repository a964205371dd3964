//! Open objects that processes inherited by fork or exec and have not used yet. Such a process has no lease
//! ([`OpenPool::lease`]), but a file lock shows that it exists.
//!
//! To pass on an open object, a process opens a lock file, which is in the pool's directory `locks` and named after the
//! object. It takes a shared lock on the last byte of the file. Before that, it counts the file in the lease table.
//! Children and executed programs inherit the open file and its lock. The process that closes the file last removes it.
//! If the file is not empty, that process also removes the object.
use crate::format::superblock::LOCKS;
use crate::io::lock::{self, LockKind};
use crate::shard::open_pool::OpenPool;
use crate::shared::leases::{self, LOCK_FILE};
use esker_types::info::{ContainerId, ContainerInfo};
use esker_types::{Error, ObjectId, Result};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Offset of the byte of a lock file on which every process that has the file open has a shared lock. It is the largest
/// offset in a file.
pub const PRESENCE: u64 = i64::MAX as u64;

/// Length of a lock file whose object must be unlinked on last close.
const UNLINKED: u64 = 1;

/// Name of the lock file of an object, in the directory [`LOCKS`].
#[must_use]
pub fn lock_file(container: &str, oid: ObjectId) -> String {
    format!("{container}.{:x}.{:x}", oid.hi, oid.lo)
}

impl OpenPool {
    /// Records that the lock file of an object is about to be created (`made`), or has been removed.
    pub fn note_lock_file(&self, container: ContainerId, oid: ObjectId, made: bool) {
        let counts = leases::counts(&self.control, (container, oid));
        let changed = |found: u64| match made {
            true => found.checked_add(LOCK_FILE),
            false => found.checked_sub(LOCK_FILE),
        };
        // A count that would overflow is damaged, and remains.
        let _ = counts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, changed);
    }

    /// False if an object has no lock file. Call it after [`OpenPool::unlink_on_last_close`]: a process that passes on
    /// an object creates the file before it ends its lease.
    fn may_have_lock_file(&self, container: ContainerId, oid: ObjectId) -> bool {
        let counts = leases::counts(&self.control, (container, oid));
        counts.load(Ordering::SeqCst) >= LOCK_FILE
    }

    /// Flags an object that processes have inherited, so that the last of them removes it. Returns false if none did.
    /// [`OpenPool::unlink_on_last_close`] does this for an object on which processes have leases.
    ///
    /// # Errors
    /// `Io` or `NoPermission` if the lock file can be neither opened nor locked.
    pub fn leave_to_inheritors(&self, container: &ContainerInfo, oid: ObjectId) -> Result<bool> {
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

/// Flags the lock file, or removes it if no process has it open. Returns whether it was flagged, and whether it was
/// removed.
fn leave(path: &Path) -> io::Result<(bool, bool)> {
    loop {
        let file = match esker_os::open_plain(path, true) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((false, false)),
            file => file?,
        };
        file.set_len(UNLINKED)?;
        // A process with an exclusive lock has just found that no other one has the file open, and is about to remove
        // it.
        lock::wait_shared(&file, PRESENCE)?;
        lock::set(&file, LockKind::None, PRESENCE)?;
        let is_alone = lock::set(&file, LockKind::Exclusive, PRESENCE)?;
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

    /// A second descriptor of the open lock file takes the part of a child.
    #[test]
    fn inherited_object_is_left_to_last_process() {
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(1));
        let state = pool.opened();
        let is_inherited = || state.leave_to_inheritors(&container(), OID).unwrap();
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
        assert_eq!(child.metadata().unwrap().len(), UNLINKED, "and is told");
        drop(child);
        assert!(!is_inherited());
        assert!(!path(&pool).exists(), "and nothing stays");
        assert!(!state.may_have_lock_file(container().id, OID), "not even a count");
    }
}
