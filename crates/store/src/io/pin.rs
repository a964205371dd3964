//! Segments that are kept as they are, for bytes that are used where they lie.
use super::{lock, map, own};
use esker_types::limits::VIEWS_MAX;
use esker_types::{Error, ErrorKind, Result};
use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A data file mapped for reading only.
pub(crate) struct ReadMap {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is only ever read, and `Pin::bytes` says which of it may be.
unsafe impl Send for ReadMap {}
// SAFETY: as for Send.
unsafe impl Sync for ReadMap {}

impl ReadMap {
    /// Maps the first `len` bytes of `file`, which must have them.
    pub(crate) fn new(file: &File, len: usize) -> io::Result<Self> {
        Ok(Self { base: map::map(file, 0, len, libc::PROT_READ)?, len })
    }
}

impl Drop for ReadMap {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, and no borrow of it outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// A segment that is kept: as long as this lives, here or in a child made by fork, nobody uses it for
/// other data.
///
/// The lock that says so belongs to the file as it was opened here. A child made by fork inherits both,
/// so what one of them drops the other still has; the death of the last ends it.
pub(crate) struct Pin {
    map: Arc<ReadMap>,
    /// Where the segment is in the file.
    segment: Range<usize>,
    /// Has the lock.
    _file: File,
}

impl Pin {
    /// Keeps the bytes `segment` of the data file `data`, which is mapped.
    pub(crate) fn new(data: &File, map: Arc<ReadMap>, segment: Range<usize>) -> io::Result<Self> {
        let file = own::open_again(data, false)?;
        lock::share(&file, segment.start as u64)?;
        Ok(Self { map, segment, _file: file })
    }

    /// Bytes of the segment, or `None` where they are not all inside. They must be an extent that was
    /// committed, which nobody writes to again before the segment is let go.
    pub(crate) fn bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        let start = self.segment.start.checked_add(range.start)?;
        let end = self.segment.start.checked_add(range.end)?;
        let inside = start <= end && end <= self.segment.end.min(self.map.len);
        // SAFETY: the range is inside the mapping, which lives as long as `self`. A segment is only
        // appended to until it is used again, and the lock keeps that from happening.
        inside.then(|| unsafe {
            std::slice::from_raw_parts(self.map.base.as_ptr().add(start), range.len())
        })
    }
}

/// Views of this process.
static VIEWS: AtomicUsize = AtomicUsize::new(0);

/// One of the views a process may have.
struct Counted;

impl Counted {
    fn new() -> Result<Self> {
        if VIEWS.fetch_add(1, Ordering::Relaxed) < VIEWS_MAX {
            return Ok(Self);
        }
        drop(Self);
        Err(Error::new(
            ErrorKind::Overflow,
            format!(
                "this process has {VIEWS_MAX} views (VIEWS_MAX), each of which keeps a segment from \
                 being used again: drop some, or read copies"
            ),
        ))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        VIEWS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Bytes of a value where they lie in a segment. They stay what they were when this was made, whatever
/// happens to the value, the container and the pool, as long as this lives; also in children made by
/// fork.
pub struct Mapped {
    pin: Arc<Pin>,
    range: Range<usize>,
    _one: Counted,
}

impl Mapped {
    /// The bytes `range` of a pinned segment, which must be inside.
    ///
    /// # Errors
    /// `Overflow` where this process has [`VIEWS_MAX`] of them.
    pub(crate) fn new(pin: Arc<Pin>, range: Range<usize>) -> Result<Self> {
        Ok(Self { pin, range, _one: Counted::new()? })
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.pin.bytes(self.range.clone()).unwrap_or_default()
    }
}
