//! Counters of the objects that any process of the machine maps. The table is in the directory for lock files, and all
//! processes map it. So a write to a file that no process maps costs one load.
//!
//! Objects share counters. A killed process leaves its counts behind: then a write to such a file searches for mapped
//! memory, finds none, and continues.
use crate::answer::{Answer, refuse};
use crate::limits::MAPPED_COUNTERS;
use crate::{config, locks, raw};
use esker::types::ObjectId;
use std::ffi::CString;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering, fence};

type Table = [AtomicU32; MAPPED_COUNTERS];

/// Name of the table in the directory for lock files.
const NAME: &[u8] = b"/mapped";

/// `None` without a directory for lock files, or without the right to change it.
static TABLE: OnceLock<Option<&'static Table>> = OnceLock::new();

/// The table, mapped at the first call; `None` as in [`TABLE`].
fn table() -> Option<&'static Table> {
    *TABLE.get_or_init(|| open().ok())
}

/// Maps the table of counters that all processes of this mount share.
fn open() -> Answer<&'static Table> {
    let folder = &config::get().locks;
    let name = CString::new([folder, NAME].concat()).or_else(|_| refuse(libc::EINVAL))?;
    if folder.is_empty() {
        return refuse(libc::ENOLCK);
    }
    let fd = locks::open_or_make(&name)?;
    let start = raw::resize(fd, size_of::<Table>() as i64)
        .and_then(|()| raw::map_shared(fd, size_of::<Table>()));
    raw::close(fd);
    // SAFETY: the mapping has the size of the table and stays until the process ends; any bytes are counters.
    Ok(unsafe { &*(start? as *const Table) })
}

/// Counter of an object. Several objects may share one.
fn counter(table: &Table, oid: ObjectId) -> &AtomicU32 {
    // Knuth's multiplicative hash: the high bits depend on all bits.
    let hash = (oid.hi.rotate_left(32) ^ oid.lo).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    &table[(hash >> 32) as usize % MAPPED_COUNTERS]
}

/// True if a process may map the object. A process that maps it later sees all writes of this process before this call.
pub(crate) fn is_mapped(oid: ObjectId) -> bool {
    let Some(table) = table() else { return true };
    // A process that maps the object increments the counter, then reads the object. This process wrote, then reads the
    // counter.
    fence(Ordering::SeqCst);
    counter(table, oid).load(Ordering::SeqCst) != 0
}

/// Counts this process as one that maps the object.
///
/// # Errors
/// `ENODEV` without a table, since processes that write to the object could not detect the mapping.
pub(crate) fn add(oid: ObjectId) -> Answer<()> {
    let Some(table) = table() else { return refuse(libc::ENODEV) };
    counter(table, oid).fetch_add(1, Ordering::SeqCst);
    Ok(())
}

/// Undoes one [`add`]: this process has one mapping less of the object.
pub(crate) fn remove(oid: ObjectId) {
    if let Some(table) = table() {
        let less = |count: u32| count.checked_sub(1);
        let _ = counter(table, oid).fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
    }
}
