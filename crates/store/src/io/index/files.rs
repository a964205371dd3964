//! The files of an index: what they are, and the locks by which others know that this process reads it.
use crate::io::folder::{Folder, Use};
use crate::io::lock;
use crate::io::own::Own;
use esker_types::{Error, ErrorKind, Result};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// The index, as LMDB names it.
pub(crate) const DATA: &str = "data.mdb";
const LOCKS: &str = "lock.mdb";

/// Device and number of a file.
pub(super) type FileId = (u64, u64);

/// What the files are: that of the data, and that of the locks, which is made where it is missing.
pub(super) fn files_of(folder: &Folder, permissions: u32) -> Result<[FileId; 2]> {
    let id = |info: Metadata| (info.dev(), info.ino());
    let data = folder.info(DATA, permissions)?;
    let locks = folder.info(LOCKS, permissions)?;
    match (data, locks) {
        (Some(data), Some(locks)) => Ok([id(data), id(locks)]),
        (Some(data), None) if folder.is_read_only() => Ok([id(data), FileId::default()]),
        (Some(_), None) => {
            folder.create(LOCKS, permissions)?;
            files_of(folder, permissions)
        }
        (None, _) => Err(Error::new(
            ErrorKind::NotFound,
            format!("{} is missing: restore it", folder.path().join(DATA).display()),
        )),
    }
}

/// LMDB locks a byte of its table of readers while that is in use, and one by the number of the process. Its locks belong to
/// the process, which loses them as soon as it closes any descriptor of the file: others would take its readers for gone
/// and the table for nobody's. Locks of an open file on the same bytes say the same to every LMDB. Nobody reads yet, so
/// that there is nothing to lose between the one and the other.
///
/// The descriptor is kept for the end, which drops them by name: a child that another thread is about to start has a copy of
/// each descriptor until it becomes another program, and while it has this one the locks would stand in our own way.
pub(super) fn keep_locks(folder: &Folder, permissions: u32) -> Result<Own> {
    let process = u64::from(std::process::id());
    let file = folder.file(LOCKS, Use::Read, permissions)?;
    let kept = Own::new(&file, false).and_then(|own| {
        lock::drop_of_process(own.get()?, process)?;
        lock::share(own.get()?, 0)?;
        lock::share(own.get()?, process)?;
        Ok(own)
    });
    kept.map_err(|error| {
        Error::io(format_args!("locking {}", folder.path().join(LOCKS).display()), &error)
    })
}
