//! Fences against processes that were stopped in a commit which another process takes over.
//!
//! A step on an Array changes a file in place. Its process may be stopped in the middle of the step, or be cut off from
//! the server of the file system. It continues after another process has completed the commit, and after others have
//! changed the Array again. So the process that takes over a commit first replaces the files of its Arrays by copies.
//! Then the file that the former process has open no longer belongs to the Array. A step opens its file before it
//! checks that its commit has not been taken over ([`CommitStep::is_current`]).
//!
//! Writes outside transactions change files without a lock. Those that began before the commit have [`QUIET`] to end
//! before the files are copied. A write that takes longer verifies that the Array has its data.
use super::{Entry, Journal, Record};
use crate::array::CommitStep;
use crate::array_plan::ArrayStep;
use crate::chunk::reserve;
use crate::files::{self, damaged, io_error, none_if_missing};
use crate::lock::{LEASE, Locks};
use crate::owner;
use esker_os::{copy_sparse, open_plain};
use esker_types::{ErrorKind, ObjectId, Result};
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time for writes outside transactions to end before the files of an Array are copied.
pub(crate) const QUIET: Duration =
    if cfg!(test) { Duration::from_millis(20) } else { Duration::from_secs(LEASE.as_secs() / 2) };
/// Beginning of the name of a file in the directory of a commit, with the line of a process that has taken it over.
const TAKER: &str = "taker-";
/// The unfinished copy of a file.
const COPY: &str = "copy";
/// Bytes that are copied before the lock is renewed.
const COPY_BYTES: u64 = 64 << 20;

impl Journal<'_> {
    /// Prevents all processes that have applied this commit so far from changing its Arrays later. The caller has just
    /// taken it over.
    pub(super) fn fence(&self, taken: &Path, record: &Record, lock: &Locks<'_>) -> Result<()> {
        let is_fenced = former_owners(taken, record)?.iter().all(|line| owner::has_ended(line));
        self.note_taker(taken)?;
        let arrays: Vec<_> = array_steps(record).collect();
        if is_fenced || arrays.is_empty() {
            return Ok(());
        }
        std::thread::sleep(QUIET);
        for (number, oid, step) in arrays {
            let staged = CommitStep { entered: taken, number }.staged();
            self.replace_files(taken, oid, step, staged, lock)?;
        }
        Ok(())
    }

    /// Records this process in the directory of a commit that it has taken over.
    fn note_taker(&self, taken: &Path) -> Result<()> {
        let path = taken.join(format!("{TAKER}{}", esker_os::random_uuid()?));
        self.files().write_new(&path, owner::own().as_bytes())?;
        let file = File::open(&path).map_err(|error| io_error("opening", &path, &error))?;
        self.permissions()?.give_to_file(&file, &path)
    }

    /// Replaces the files that a step changes by copies. `staged` is the file that was reserved for the step.
    fn replace_files(
        &self,
        taken: &Path,
        oid: ObjectId,
        step: &ArrayStep,
        staged: PathBuf,
        lock: &Locks<'_>,
    ) -> Result<()> {
        let Some(dkey) = step.dkey() else { return Ok(()) };
        // The staged file may be a second name of the first one.
        for path in [self.array(oid).path_of(dkey), staged] {
            match self.replace_by_copy(&path, taken, step, lock) {
                // The files are changed as they are: otherwise, nobody could complete the commit.
                Err(error) if error.kind() == ErrorKind::NoSpace => {
                    files::discard(&taken.join(COPY));
                }
                replaced => replaced?,
            }
        }
        Ok(())
    }

    /// Replaces a file by a copy, for which the space that the step needs is reserved. Does nothing if the file is
    /// missing.
    fn replace_by_copy(
        &self,
        path: &Path,
        taken: &Path,
        step: &ArrayStep,
        lock: &Locks<'_>,
    ) -> Result<()> {
        let copy = taken.join(COPY);
        let copied = none_if_missing(copy_file(path, &copy, || lock.renew()));
        let copied = copied.map_err(|error| io_error("copying", path, &error))?;
        let Some(file) = copied else { return Ok(()) };
        if let ArrayStep::Write { record_size, extents, .. } = step {
            reserve(&copy, *record_size, extents)?;
        }
        self.files().finish(file).map_err(|error| io_error("writing", &copy, &error))?;
        // If yet another process has taken the commit over, the copy is not there any more.
        self.files().move_to(&copy, path).map(drop)
    }
}

/// Lines of the processes that may have applied the commit, as in lock files.
fn former_owners(taken: &Path, record: &Record) -> Result<Vec<String>> {
    let names = files::names_in(taken)?;
    let takers = names.iter().filter(|name| name.starts_with(TAKER)).map(|name| {
        let path = taken.join(name);
        let line = files::read(&path)?.unwrap_or_default();
        String::from_utf8(line).map_err(|_| damaged(&path, "the owner of a commit is damaged"))
    });
    takers.chain([Ok(record.owner.clone())]).collect()
}

/// The steps of a commit that concern Arrays, with their numbers.
fn array_steps(record: &Record) -> impl Iterator<Item = (usize, ObjectId, &ArrayStep)> {
    record.steps.iter().enumerate().filter_map(|(number, step)| match step {
        Entry::Array(oid, step) => Some((number, *oid, step)),
        _ => None,
    })
}

/// Copies a file with its owner, group and mode. Calls `after_each` after each part. Fails if this process may not write
/// the file: by a copy, which belongs to it, it would take the file from its owner.
fn copy_file(from: &Path, to: &Path, after_each: impl Fn()) -> io::Result<File> {
    let (from, copy) = (open_plain(from, true)?, File::create(to)?);
    give_permissions(&copy, &from.metadata()?)?;
    copy_sparse(&from, &copy, COPY_BYTES, after_each)?;
    Ok(copy)
}

/// Gives a copy the owner, the group and the mode of its original. Only a privileged process can set the owner. If this
/// process cannot set the group, the group of the copy gets only the permissions that all users have.
///
/// # Errors
/// `PermissionDenied` if the owner of the original could not write the copy.
fn give_permissions(copy: &File, original: &Metadata) -> io::Result<()> {
    let (owner, group) = (original.uid(), original.gid());
    let given = fchown(copy, Some(owner), Some(group)).or_else(|_| fchown(copy, None, Some(group)));
    let mut mode = original.mode() & 0o777;
    if given.is_err() {
        mode = (mode & !0o070) | ((mode & 0o007) << 3);
    }
    if copy.metadata()?.uid() != owner && mode & 0o022 == 0 {
        let message = "its owner could not write the copy: let the owner complete the commit";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    copy.set_permissions(Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn copies_have_the_content_and_the_permissions() {
        let directory = std::env::temp_dir().join(format!("esker-copy-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let (from, to) = (directory.join("from"), directory.join("to"));
        fs::write(&from, b"content").unwrap();
        fs::set_permissions(&from, fs::Permissions::from_mode(0o660)).unwrap();
        fs::write(&to, b"what another process has left").unwrap();
        copy_file(&from, &to, || ()).unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"content");
        assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o660);
        fs::remove_dir_all(&directory).unwrap();
    }

    /// Otherwise, the owner could not write the Array any more. Root keeps the owner; others may not copy the file.
    #[test]
    fn copies_take_no_file_from_its_owner() {
        let directory = std::env::temp_dir().join(format!("esker-owner-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let (from, to) = (directory.join("from"), directory.join("to"));
        let original = File::create_new(&from).unwrap();
        let is_root = fchown(&original, Some(65534), Some(65534)).is_ok();
        original.set_permissions(Permissions::from_mode(0o444)).unwrap();
        match copy_file(&from, &to, || ()) {
            Ok(copy) => {
                let info = copy.metadata().unwrap();
                assert!(is_root && (info.uid(), info.gid()) == (65534, 65534));
            }
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied),
        }
        fs::remove_dir_all(&directory).unwrap();
    }
}
