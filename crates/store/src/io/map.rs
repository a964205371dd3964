//! Files mapped into memory and shared with other processes. Access is by copies and atomics only: this module returns
//! no plain reference to mapped bytes.
use super::huge::HUGE_LEN;
use super::sys;
use crate::sync::AtomicU64;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::time::Duration;

/// A shared, writable mapping of the first `len` bytes of a file.
pub(crate) struct Map {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is accessed by bounds-checked copies and atomics only. Copies may race with those of other
// processes, since the memory is shared. Segment ownership decides which process may write which bytes, and readers
// verify checksums.
unsafe impl Send for Map {}
// SAFETY: as for Send.
unsafe impl Sync for Map {}

/// Maps `len` bytes of `file` from `offset` on, shared. If huge pages fit into the mapping, it begins at an address at
/// which the processor can use them.
pub(super) fn map(
    file: &File,
    offset: u64,
    len: usize,
    protection: libc::c_int,
) -> io::Result<NonNull<u8>> {
    let (flags, file) = (libc::MAP_SHARED, file.as_raw_fd());
    if len < HUGE_LEN {
        return map_any(None, len, protection, flags, (file, offset));
    }
    let room = AddressRange::new(len + HUGE_LEN)?;
    let at = room.0.start.next_multiple_of(HUGE_LEN);
    map_any(Some(at), len, protection, flags | libc::MAP_FIXED, (file, offset))
        .inspect(|_| room.release_all_but(at..at + len))
}

/// Calls mmap, at address `at` if it is given, which must be within reserved addresses.
fn map_any(
    at: Option<usize>,
    len: usize,
    protection: libc::c_int,
    flags: libc::c_int,
    (file, offset): (libc::c_int, u64),
) -> io::Result<NonNull<u8>> {
    let at = std::ptr::without_provenance_mut(at.unwrap_or(0));
    // SAFETY: a new mapping, either at an address that the kernel chooses or in place of addresses that this process
    // reserved and does not use.
    let base = unsafe { libc::mmap(at, len, protection, flags, file, offset as libc::off_t) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap returned a null address"))
}

/// Reserved addresses, which other mappings do not get.
struct AddressRange(Range<usize>);

impl AddressRange {
    /// Reserves `len` bytes of addresses.
    fn new(len: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let base = map_any(None, len, libc::PROT_NONE, flags, (-1, 0))?.as_ptr().addr();
        Ok(Self(base..base + len))
    }

    /// Releases all addresses but `used`, which must be inside.
    fn release_all_but(mut self, used: Range<usize>) {
        let end = std::mem::replace(&mut self.0.end, used.start);
        // The rest begins at a page boundary.
        drop(Self(used.end.next_multiple_of(sys::page_bytes() as usize)..end));
    }
}

impl Drop for AddressRange {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            let base = std::ptr::without_provenance_mut(self.0.start);
            // SAFETY: `new` reserved the addresses, and only ranges that were removed from them have been mapped since.
            unsafe { libc::munmap(base, self.0.len()) };
        }
    }
}

impl Map {
    /// Maps `len` bytes of `file` from `offset` on, which must exist.
    pub(crate) fn new(file: &File, offset: u64, len: usize) -> io::Result<Self> {
        let base = map(file, offset, len, libc::PROT_READ | libc::PROT_WRITE)?;
        Ok(Self { base, len })
    }

    /// Maps the first `len` bytes read-only, for a file that was opened for reading. A write to the mapping would kill
    /// the process.
    pub(super) fn to_read(file: &File, len: usize) -> io::Result<Self> {
        Ok(Self { base: map(file, 0, len, libc::PROT_READ)?, len })
    }

    /// Asks the kernel to move the bytes at `offset` into huge pages; returns false if it cannot.
    pub(super) fn collapse(&self, offset: u64, len: usize) -> bool {
        /// `MADV_COLLAPSE` of Linux 6.1.
        const COLLAPSE: libc::c_int = 25;
        self.address(offset, len).is_some_and(|address| {
            // SAFETY: the range is inside the mapping; the call changes no content.
            unsafe { libc::madvise(address.cast(), len, COLLAPSE) == 0 }
        })
    }

    /// Number of bytes that are mapped by huge pages, among those that this process has accessed so far.
    pub(super) fn huge_bytes(&self) -> io::Result<u64> {
        let begin = format!("{:x}-", self.base.as_ptr().addr());
        let maps = std::fs::read_to_string("/proc/self/smaps")?;
        let about_map = maps.lines().skip_while(|line| !line.starts_with(&begin)).skip(1);
        // The next mapping begins with addresses, not with a name.
        let facts = about_map.map_while(|line| line.split_once(": "));
        let huge = facts.filter(|(name, _)| ["ShmemPmdMapped", "FilePmdMapped"].contains(name));
        let kib = huge.filter_map(|(_, size)| size.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        Ok(kib.sum::<u64>() << 10)
    }

    /// Address of `len` bytes at `offset`; `None` if some are outside the mapping.
    fn address(&self, offset: u64, len: usize) -> Option<*mut u8> {
        let offset = usize::try_from(offset).ok()?;
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        // SAFETY: the offset is inside the mapping.
        inside.then(|| unsafe { self.base.as_ptr().add(offset) })
    }

    /// Copies `from` to `offset`; returns false, without any change, if it does not fit.
    pub(crate) fn write(&self, offset: u64, from: &[u8]) -> bool {
        let Some(place) = self.address(offset, from.len()) else { return false };
        // SAFETY: there are enough bytes at `place`, and `from` is a Rust slice, so it is not in the mapping.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), place, from.len()) };
        true
    }

    /// Variant of [`Map::write`], with the same result, that appends the stored bytes to `kept`, since `from` may
    /// change meanwhile. Call [`Map::fence`] afterwards.
    pub(crate) fn write_keeping(&self, offset: u64, from: &[u8], kept: &mut Vec<u8>) -> bool {
        let Some(place) = self.address(offset, from.len()) else { return false };
        // SAFETY: there are enough bytes at `place`, and `from` is a Rust slice, so it is not in the mapping.
        unsafe { super::copy::copy_twice(from, place, kept) };
        true
    }

    /// True if the processor can copy and sum in one pass.
    pub(crate) fn can_sum() -> bool {
        #[cfg(target_arch = "x86_64")]
        return super::summed::is_available();
        #[cfg(not(target_arch = "x86_64"))]
        return false;
    }

    /// Variant of [`Map::write`] that continues a CRC-32C over the stored bytes: takes its register and returns the new
    /// one. Returns `None` if the bytes do not fit, or if [`Map::can_sum`] is false. Call [`Map::fence`] afterwards.
    pub(crate) fn write_summed(&self, offset: u64, from: &[u8], sum: u32) -> Option<u32> {
        let place = self.address(offset, from.len())?;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: there are enough bytes at `place`, and `from` is a Rust slice, so it is not in the mapping.
        return Self::can_sum().then(|| unsafe { super::summed::copy(from, place, sum) });
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = (place, sum);
            None
        }
    }

    /// Orders all earlier writes before all later stores.
    pub(crate) fn fence(&self) {
        super::copy::fence();
    }

    /// Copies the bytes at `offset` to `to`; returns false, without any change, if some are outside the mapping.
    pub(crate) fn read(&self, offset: u64, to: &mut [u8]) -> bool {
        let Some(place) = self.address(offset, to.len()) else { return false };
        // SAFETY: there are enough bytes at `place`, and `to` is a Rust slice, so it is not in the mapping.
        unsafe { super::copy::fetch(place, to) };
        true
    }

    /// Variant of [`Map::read`] that continues a CRC-32C over the bytes that were read: takes its register and returns the
    /// new one. Returns `None` if some bytes are outside the mapping, or if [`Map::can_sum`] is false.
    pub(crate) fn read_summed(&self, offset: u64, to: &mut [u8], sum: u32) -> Option<u32> {
        let place = self.address(offset, to.len())?;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: there are enough bytes at `place`, and `to` is a Rust slice, so it is not in the mapping.
        return Self::can_sum().then(|| unsafe { super::summed::fetch(place, to, sum) });
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = (place, sum);
            None
        }
    }

    /// Asks the kernel to enter the pages at `offset` into the page table at once, which is several times cheaper than
    /// one fault per page. The request is for reading, since then the kernel also enters neighbouring pages, which is
    /// twice as fast. The pages can still be written. Returns false on errors and on kernels before 5.14.
    pub(crate) fn populate(&self, offset: u64, len: usize) -> bool {
        self.advise(offset, len, libc::MADV_POPULATE_READ)
    }

    /// Variant of [`Map::populate`] for bytes that are about to be written. Afterwards, writing to them causes no
    /// fault. Pages that are not in memory are read. The range may begin and end inside a page. Returns false on
    /// errors.
    pub(super) fn populate_to_write(&self, offset: u64, len: usize) -> bool {
        let skipped = (offset % sys::page_bytes()) as usize;
        self.advise(offset - skipped as u64, len + skipped, libc::MADV_POPULATE_WRITE)
    }

    /// Asks for huge pages where the mapping brings pages of the file into memory, and for no pages behind them. Best
    /// effort.
    pub(super) fn want_huge_pages(&self) {
        self.advise(0, self.len, libc::MADV_HUGEPAGE);
        self.advise(0, self.len, libc::MADV_RANDOM);
    }

    /// Calls `madvise` for a range. Returns false on errors, and if some bytes are outside the mapping.
    fn advise(&self, offset: u64, len: usize, advice: libc::c_int) -> bool {
        self.address(offset, len).is_some_and(|place| {
            // SAFETY: the range is inside the mapping; the call changes no content.
            unsafe { libc::madvise(place.cast(), len, advice) == 0 }
        })
    }

    /// Bytes of pages that are not in memory, among up to [`HUGE_LEN`] bytes at `offset`, where a page begins. If that
    /// is unknown, all count as missing.
    pub(super) fn missing_bytes(&self, offset: u64, len: usize) -> usize {
        let page = sys::page_bytes() as usize;
        let mut pages = [0; HUGE_LEN / 4096];
        let pages = &mut pages[..len.div_ceil(page)];
        let Some(place) = self.address(offset, len) else { return len };
        // SAFETY: the range is inside the mapping, and the kernel stores one byte for each of its pages.
        match unsafe { libc::mincore(place.cast(), len, pages.as_mut_ptr()) } {
            0 => pages.iter().filter(|&page| page & 1 == 0).count() * page,
            _ => len,
        }
    }
}

/// A mapped file of 64-bit atomics that processes share.
pub(crate) struct SharedAtomics(Map);

impl SharedAtomics {
    /// Maps the first `count` atomics of `file`, which must be long enough.
    pub(crate) fn new(file: &File, count: usize) -> io::Result<Self> {
        Map::new(file, 0, count * 8).map(Self)
    }

    /// A private copy of the first `count` atomics of `file`, padded with zeros.
    pub(crate) fn copy_of(file: &File, count: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let base = map_any(None, count * 8, protection, flags, (-1, 0))?;
        let map = Map { base, len: count * 8 };
        let mut bytes = Vec::new();
        file.take(count as u64 * 8).read_to_end(&mut bytes)?;
        map.write(0, &bytes);
        Ok(Self(map))
    }

    /// The lower half of an atomic, which the kernel uses as a futex.
    fn half(&self, at: usize) -> *const u32 {
        std::ptr::from_ref(&self[at]).cast()
    }

    /// Sleeps until another thread or process calls [`SharedAtomics::wake_one`], or for `time`. Returns at once if the
    /// lower half of the atomic is not `expected`. True if the time has passed.
    pub(crate) fn sleep_on(&self, at: usize, expected: u32, time: Duration) -> bool {
        let time = libc::timespec {
            tv_sec: time.as_secs() as libc::time_t,
            tv_nsec: time.subsec_nanos().into(),
        };
        // SAFETY: the word is inside the mapping, `time` is live, and the kernel only reads both.
        let slept = unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.half(at),
                libc::FUTEX_WAIT,
                expected,
                &raw const time,
            )
        };
        slept != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ETIMEDOUT)
    }

    /// Wakes one thread or process that sleeps on an atomic.
    pub(crate) fn wake_one(&self, at: usize) {
        // SAFETY: the word is inside the mapping, and the kernel does not access it.
        unsafe { libc::syscall(libc::SYS_futex, self.half(at), libc::FUTEX_WAKE, 1) };
    }
}

impl std::ops::Deref for SharedAtomics {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, long enough, and outlives the borrow. All access to it, here and in
        // other processes, is atomic.
        unsafe { std::slice::from_raw_parts(self.0.base.as_ptr().cast(), self.0.len / 8) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, and no borrow of it outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
