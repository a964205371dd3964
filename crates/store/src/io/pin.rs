//! Pinned segments, whose bytes are read in place.
use super::{lock, map, private_file};
use esker_types::limits::VIEWS_MAX;
use esker_types::{Error, ErrorKind, Result};
use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A data file that is mapped read-only.
pub(crate) struct ReadMap {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is only read, and `Pin::bytes` limits the range.
unsafe impl Send for ReadMap {}
// SAFETY: as for Send.
unsafe impl Sync for ReadMap {}

impl ReadMap {
    /// Maps the first `len` bytes of `file`, which must exist.
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

/// A pinned segment. As long as this value exists, here or in a forked child, the segment is not reused for other data.
///
/// The lock that pins the segment belongs to the open file. A forked child inherits both. So the segment remains pinned
/// until both processes have dropped the value or died.
pub(crate) struct Pin {
    map: Arc<ReadMap>,
    /// Byte range of the segment in the file.
    segment: Range<usize>,
    /// The open file that has the lock.
    _file: File,
}

impl Pin {
    /// Pins the bytes `segment` of the data file `data`.
    pub(crate) fn new(data: &File, map: Arc<ReadMap>, segment: Range<usize>) -> io::Result<Self> {
        let file = private_file::open_again(data, false)?;
        lock::share(&file, segment.start as u64)?;
        Ok(Self { map, segment, _file: file })
    }

    /// Bytes of the segment; `None` if some are outside. They must be a committed extent, to which no process writes
    /// before the segment is reused.
    pub(crate) fn bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        let start = self.segment.start.checked_add(range.start)?;
        let end = self.segment.start.checked_add(range.end)?;
        let inside = start <= end && end <= self.segment.end.min(self.map.len);
        // SAFETY: the range is inside the mapping, which lives as long as `self`. Until a segment is reused, bytes are
        // only appended to it, and the lock prevents the reuse.
        inside.then(|| unsafe {
            std::slice::from_raw_parts(self.map.base.as_ptr().add(start), range.len())
        })
    }
}

/// Number of views in this process.
static VIEWS: AtomicUsize = AtomicUsize::new(0);

/// Guard that counts one view of this process.
struct ViewCount;

impl ViewCount {
    /// Counts a view. Fails with `Overflow` if the process has [`VIEWS_MAX`] views.
    fn new() -> Result<Self> {
        if VIEWS.fetch_add(1, Ordering::Relaxed) < VIEWS_MAX {
            return Ok(Self);
        }
        // Undoes the count.
        drop(Self);
        Err(Error::new(
            ErrorKind::Overflow,
            format!(
                "this process has {VIEWS_MAX} views (VIEWS_MAX), each of which prevents the reuse of a \
                 segment: drop some, or read copies"
            ),
        ))
    }
}

impl Drop for ViewCount {
    fn drop(&mut self) {
        VIEWS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Bytes of a value, in place in a segment. They do not change while this value exists, also in forked children.
/// Replacing the stored value or destroying its container or pool has no effect on them.
pub struct Mapped {
    pin: Arc<Pin>,
    range: Range<usize>,
    crc32c: Option<u32>,
    _one: ViewCount,
}

impl Mapped {
    /// The bytes `range` of a pinned segment, which must be inside it, and their CRC-32C if it is known.
    ///
    /// # Errors
    /// `Overflow` if this process has [`VIEWS_MAX`] views.
    pub(crate) fn new(pin: Arc<Pin>, range: Range<usize>, crc32c: Option<u32>) -> Result<Self> {
        Ok(Self { pin, range, crc32c, _one: ViewCount::new()? })
    }

    /// CRC-32C of the bytes, if it follows from the stored checksums, which the bytes matched.
    #[must_use]
    pub fn crc32c(&self) -> Option<u32> {
        self.crc32c
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.pin.bytes(self.range.clone()).unwrap_or_default()
    }
}
