//! A file mapped into memory and shared with other processes. Only copies and atomics get in and out:
//! no plain reference to mapped bytes ever leaves this module.
use crate::sync::AtomicU64;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

/// A shared, writable mapping of the first `len` bytes of a file.
pub(crate) struct Map {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is reached through bounds-checked copies and atomics only. Copies may race with
// other processes by the nature of shared memory; who may touch which bytes is settled by segment
// ownership, and what is read is verified by its checksum.
unsafe impl Send for Map {}
// SAFETY: as for Send.
unsafe impl Sync for Map {}

/// Maps the first `len` bytes of `file` and shares them.
pub(super) fn map(file: &File, len: usize, protection: libc::c_int) -> io::Result<NonNull<u8>> {
    map_any(len, protection, libc::MAP_SHARED, file.as_raw_fd())
}

fn map_any(
    len: usize,
    protection: libc::c_int,
    flags: libc::c_int,
    file: libc::c_int,
) -> io::Result<NonNull<u8>> {
    // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing of ours.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, file, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap returned a null address"))
}

impl Map {
    /// Maps the first `len` bytes of `file`, which must have them.
    pub(crate) fn new(file: &File, len: usize) -> io::Result<Self> {
        let base = map(file, len, libc::PROT_READ | libc::PROT_WRITE)?;
        Ok(Self { base, len })
    }

    /// Address of `len` bytes at `offset`, or `None` where they are not all inside.
    fn place(&self, offset: u64, len: usize) -> Option<*mut u8> {
        let offset = usize::try_from(offset).ok()?;
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        // SAFETY: offset lies inside the mapping.
        inside.then(|| unsafe { self.base.as_ptr().add(offset) })
    }

    /// Copies `from` to `offset`; false, and nothing done, where it does not fit.
    pub(crate) fn write(&self, offset: u64, from: &[u8]) -> bool {
        let Some(place) = self.place(offset, from.len()) else { return false };
        // SAFETY: `place` has room for all of `from`, which as a Rust slice cannot be the mapping.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), place, from.len()) };
        true
    }

    /// As [`Map::write`]; the very bytes that were stored are added to `kept`, for others may change those
    /// of `from` meanwhile. To be followed by [`Map::fence`].
    pub(crate) fn write_keeping(&self, offset: u64, from: &[u8], kept: &mut Vec<u8>) -> bool {
        let Some(place) = self.place(offset, from.len()) else { return false };
        // SAFETY: `place` has room for all of `from`, which as a Rust slice cannot be the mapping.
        unsafe { super::copy::copy_twice(from, place, kept) };
        true
    }

    /// True where the processor can copy and sum at once.
    pub(crate) fn can_sum() -> bool {
        #[cfg(target_arch = "x86_64")]
        return super::summed::is_available();
        #[cfg(not(target_arch = "x86_64"))]
        return false;
    }

    /// As [`Map::write`]; goes on with a CRC-32C over the very bytes that were stored, whose register it takes and
    /// answers. `None` where they do not fit, or not [`Map::can_sum`]. To be followed by [`Map::fence`].
    pub(crate) fn write_summed(&self, offset: u64, from: &[u8], sum: u32) -> Option<u32> {
        let place = self.place(offset, from.len())?;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `place` has room for all of `from`, which as a Rust slice cannot be the mapping.
        return Self::can_sum().then(|| unsafe { super::summed::copy(from, place, sum) });
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = (place, sum);
            None
        }
    }

    /// Has all that was written be seen before whatever is stored from now on.
    pub(crate) fn fence(&self) {
        super::copy::fence();
    }

    /// Copies the bytes at `offset` to `to`; false, and nothing done, where they are not all inside.
    pub(crate) fn read(&self, offset: u64, to: &mut [u8]) -> bool {
        let Some(place) = self.place(offset, to.len()) else { return false };
        // SAFETY: `place` has as many bytes as `to`, which as a Rust slice cannot be the mapping.
        unsafe { super::copy::fetch(place, to) };
        true
    }

    /// Has the kernel enter the pages at `offset` into the page table in one go, which is several
    /// times cheaper than one fault per page; as if for reading, for then it enters the neighbours of
    /// a page with it (twice as fast), and they can be written all the same. Best effort: it fails on
    /// kernels before 5.14.
    pub(crate) fn populate(&self, offset: u64, len: usize) {
        if let Some(place) = self.place(offset, len) {
            // SAFETY: the range is inside the mapping; the call changes no content.
            unsafe { libc::madvise(place.cast(), len, libc::MADV_POPULATE_READ) };
        }
    }
}

/// A mapped file of 64-bit words shared between processes.
pub(crate) struct Words(Map);

impl Words {
    /// Maps the first `count` words of `file`, which must have them.
    pub(crate) fn new(file: &File, count: usize) -> io::Result<Self> {
        Map::new(file, count * 8).map(Self)
    }

    /// A copy of the first `count` words of `file`, zeros behind its end, that nobody shares.
    pub(crate) fn copy_of(file: &File, count: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let base = map_any(count * 8, libc::PROT_READ | libc::PROT_WRITE, flags, -1)?;
        let map = Map { base, len: count * 8 };
        let mut bytes = Vec::new();
        file.take(count as u64 * 8).read_to_end(&mut bytes)?;
        map.write(0, &bytes);
        Ok(Self(map))
    }
}

impl std::ops::Deref for Words {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned and that long; it outlives the borrow, and all access
        // to it, here and in other processes, goes through atomics.
        unsafe { std::slice::from_raw_parts(self.0.base.as_ptr().cast(), self.0.len / 8) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, and no borrow of it outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
