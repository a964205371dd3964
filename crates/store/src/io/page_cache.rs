//! Access to a file on a disk through a mapping, as far as its pages are in the page cache of the kernel.
//!
//! A copy to or from a mapping takes no system call, and it computes the checksum in the same pass. But if a page is
//! not in memory, a page fault reads it from the disk, and if that fails, a signal kills the process. So the mapping is
//! used only for chunks whose pages were found in memory, and entered into the page table, at most [`FRESH_MS`] ago.
//! Everything else is read and written by system calls, which report errors.
use super::huge::HUGE;
use super::map::Map;
use super::sys;
use crate::sync::AtomicU64;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// Bytes that are checked together. A page of the page cache is at most that long, and does not cross their ends.
const CHUNK: u64 = HUGE;

/// Time for which pages that were found in memory are expected to stay there, in milliseconds. The kernel reclaims
/// pages that were used recently only when it has no others. Unit tests may stop for any time between two steps.
const FRESH_MS: u64 = if cfg!(test) { 3_600_000 } else { 1000 };

/// Bytes after whose transfer by system calls a check is worth its time. A check takes up to 25 us, as long as it takes
/// to read a fraction of these bytes.
const WORTH_BYTES: u64 = 256 << 10;

/// A chunk passes the check if at most 1 / `MISSING_SHARE` of its pages are missing in memory. The check then reads
/// them. Otherwise a chunk with a gap between extents would never pass, since nothing else reads the pages of the gap.
const MISSING_SHARE: usize = 4;

/// Bytes that a process writes in [`FRESH_MS`] before it writes to the mapping. The kernel stores a chunk as a whole,
/// some times a minute. At this rate, it takes about as long to fill one.
const BURST_BYTES: u64 = 64 << 10;

/// A [`CachedMap`] that is created when a process has transferred [`BURST_BYTES`], so that a short program has no cost.
pub(crate) struct LazyCachedMap {
    bytes: u64,
    is_writable: bool,
    transferred: AtomicU64,
    map: OnceLock<Option<CachedMap>>,
}

impl LazyCachedMap {
    /// Prepares a mapping of the first `bytes` of a file.
    pub(crate) fn new(bytes: u64, is_writable: bool) -> Self {
        let transferred = AtomicU64::new(0);
        Self { bytes, is_writable, transferred, map: OnceLock::new() }
    }

    /// The mapping of `file`, of which `len` bytes are about to be transferred. `None` if a mapping is not worth it or
    /// not possible.
    pub(crate) fn get(&self, file: &File, len: u64) -> Option<&CachedMap> {
        if let Some(known) = self.map.get() {
            return known.as_ref();
        }
        if self.transferred.fetch_add(len, Ordering::Relaxed).saturating_add(len) < BURST_BYTES {
            return None;
        }
        let map = || CachedMap::new(file, self.bytes, self.is_writable).ok();
        self.map.get_or_init(map).as_ref()
    }
}

/// A mapped file, and the chunks of it that are in memory.
pub(crate) struct CachedMap {
    map: Map,
    bytes: u64,
    is_writable: bool,
    chunks: Box<[Traffic]>,
    /// Bytes that this process has written recently.
    written: Traffic,
}

impl CachedMap {
    /// Maps the first `bytes` of a file, which must exist.
    pub(crate) fn new(file: &File, bytes: u64, is_writable: bool) -> io::Result<Self> {
        let map = match is_writable {
            true => Map::new(file, 0, bytes as usize),
            false => Map::to_read(file, bytes as usize),
        }?;
        map.want_huge_pages();
        let chunks = (0..bytes.div_ceil(CHUNK)).map(|_| Traffic::default()).collect();
        Ok(Self { map, bytes, is_writable, chunks, written: Traffic::default() })
    }

    /// True if mapped writes to allocated parts of `file` need no new space: its file system overwrites blocks in
    /// place.
    pub(crate) fn can_write(file: &File) -> bool {
        sys::page_bytes() == 4096 && sys::overwrites_in_place(file).unwrap_or(false)
    }

    /// The mapping, if `len` bytes at `offset` are expected to be in memory.
    pub(crate) fn to_read(&self, offset: u64, len: u64) -> Option<&Map> {
        let now = sys::coarse_time_ms();
        let is_cached = |number: u64| {
            let Some(chunk) = self.chunks.get(number as usize) else { return false };
            chunk.is_cached(now)
                || chunk.add(now, len) >= WORTH_BYTES
                    && chunk.checked(now, self.enter(&self.range_of(number)))
        };
        chunks_in(offset, len).all(is_cached).then_some(&self.map)
    }

    /// The mapping, if `len` bytes at `offset` are in memory and can be written there. [`chunks_around`] them, the file
    /// must not have holes. A process that writes little does not use the mapping, since the kernel later stores whole
    /// pages of it.
    pub(crate) fn to_write(&self, file: &File, offset: u64, len: u64) -> Option<&Map> {
        if !self.is_writable {
            return None;
        }
        let now = sys::coarse_time_ms();
        let writes_much = self.written.add(now, len) >= BURST_BYTES;
        let is_cached = |number: u64| {
            let Some(chunk) = self.chunks.get(number as usize) else { return false };
            let part = self.range_of(number);
            let can_enter = || self.enter(&part) || self.fill(file, &part);
            chunk.is_cached(now)
                || writes_much && chunk.is_due(now, len) && chunk.checked(now, can_enter())
        };
        // The last step reports errors and finds pages that are not in memory any more.
        let is_cached = chunks_in(offset, len).all(is_cached);
        (is_cached && self.map.populate_to_write(offset, len as usize)).then_some(&self.map)
    }

    /// True if any chunk is marked as cached, for tests.
    #[cfg(test)]
    pub(crate) fn has_cached_chunks(&self) -> bool {
        self.chunks.iter().any(|chunk| chunk.0.load(Ordering::Relaxed) & 0xffff == CACHED)
    }

    /// Enters the pages of a chunk into the page table of this process. Returns false if too few of the pages are in
    /// memory, or if the kernel fails.
    fn enter(&self, part: &Range<u64>) -> bool {
        let (begin, len) = (part.start, (part.end - part.start) as usize);
        let is_cached = self.map.missing_bytes(begin, len) <= len / MISSING_SHARE;
        is_cached && self.map.populate(begin, len)
    }

    /// Byte range of chunk `number`, cut off at the end of the mapping.
    fn range_of(&self, number: u64) -> Range<u64> {
        number * CHUNK..((number + 1) * CHUNK).min(self.bytes)
    }

    /// Fills a chunk to which nothing was ever written with zeros in memory, in a huge page if the kernel has one. True
    /// if the chunk is in memory afterwards, false if something was written to it or the kernel refuses.
    fn fill(&self, file: &File, part: &Range<u64>) -> bool {
        let is_unwritten = sys::is_unwritten(file, part).unwrap_or(false);
        is_unwritten && self.map.populate_to_write(part.start, (part.end - part.start) as usize)
    }
}

/// Numbers of the chunks of `len` bytes at `offset`.
fn chunks_in(offset: u64, len: u64) -> Range<u64> {
    offset / CHUNK..offset.saturating_add(len).div_ceil(CHUNK)
}

/// Byte range of all chunks that `len` bytes at `offset` touch. A write to the mapping may store all bytes of this
/// range.
pub(crate) fn chunks_around(offset: u64, len: u64) -> Range<u64> {
    let chunks = chunks_in(offset, len);
    chunks.start * CHUNK..chunks.end.saturating_mul(CHUNK)
}

/// State of a chunk: a time in milliseconds `<< 16 |` the KiB that were transferred by system calls since, or
/// [`CACHED`] if all pages were in memory at that time. Zero: never used.
#[derive(Default)]
struct Traffic(AtomicU64);

/// All pages were found in memory.
const CACHED: u64 = 0xffff;

impl Traffic {
    /// Time, in milliseconds, and value of the state. `None` if the state was never set, or is older than [`FRESH_MS`].
    fn fresh(&self, now: u64) -> Option<(u64, u64)> {
        let word = self.0.load(Ordering::Relaxed);
        let (time, value) = (word >> 16, word & 0xffff);
        (word != 0 && now.wrapping_sub(time) < FRESH_MS).then_some((time, value))
    }

    fn store(&self, time: u64, value: u64) {
        self.0.store(time << 16 | value, Ordering::Relaxed);
    }

    /// True if all pages were found in memory recently.
    fn is_cached(&self, now: u64) -> bool {
        matches!(self.fresh(now), Some((_, CACHED)))
    }

    /// Counts `len` bytes, and returns how many were counted recently.
    fn add(&self, now: u64, len: u64) -> u64 {
        let (time, before) = self.fresh(now).unwrap_or((now, 0));
        let sum = before.saturating_add(len.div_ceil(1024)).min(CACHED - 1);
        self.store(time, sum);
        sum * 1024
    }

    /// True if nothing was counted recently, or so much that another check is worth its time.
    fn is_due(&self, now: u64, len: u64) -> bool {
        self.fresh(now).is_none() || self.add(now, len) >= WORTH_BYTES
    }

    /// Stores the result of a check at time `now`, and returns `is_cached`.
    fn checked(&self, now: u64, is_cached: bool) -> bool {
        self.store(now, if is_cached { CACHED } else { 0 });
        is_cached
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;
    use std::path::PathBuf;

    const BYTES: u64 = 4 * CHUNK;

    /// A file on a disk, as far as the directory for temporary files is on one. All of its space is allocated.
    struct DiskFile {
        file: File,
        path: PathBuf,
    }

    impl DiskFile {
        fn new(name: &str) -> Self {
            let name = format!("esker-page-cache-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let mut options = File::options();
            let file =
                options.read(true).write(true).create(true).truncate(true).open(&path).unwrap();
            sys::reserve(&file, 0, BYTES).unwrap();
            Self { file, path }
        }

        fn fill(&self, byte: u8) {
            self.file.write_all_at(&vec![byte; BYTES as usize], 0).unwrap();
        }

        fn map(&self) -> CachedMap {
            CachedMap::new(&self.file, BYTES, true).unwrap()
        }

        /// Removes the pages from memory. The file must not be mapped.
        fn evict(&self) {
            self.file.sync_all().unwrap();
            // SAFETY: a call on an open descriptor that accesses no memory.
            let code = unsafe {
                libc::posix_fadvise(self.file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED)
            };
            assert_eq!(code, 0);
        }

        fn is_on_disk(&self) -> bool {
            let is_on_disk = CachedMap::can_write(&self.file);
            if !is_on_disk {
                esker_testing::skip("the directory for temporary files is not on ext4 or XFS");
            }
            is_on_disk
        }
    }

    impl Drop for DiskFile {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.path);
        }
    }

    #[test]
    fn traffic_counts_and_expires() {
        let (traffic, now) = (Traffic::default(), 5000);
        assert!(!traffic.is_cached(now) && traffic.is_due(now, 1));
        assert_eq!(traffic.add(now, WORTH_BYTES - 2048), WORTH_BYTES - 2048);
        assert!(!traffic.is_due(now, 1) && traffic.is_due(now, 1));
        assert!(!traffic.checked(now, false) && traffic.add(now, 1) == 1024);
        assert!(traffic.checked(now, true) && traffic.is_cached(now + FRESH_MS - 1));
        assert!(!traffic.is_cached(now + FRESH_MS) && traffic.is_due(now + FRESH_MS, 1));
        // The largest sum is not mistaken for the mark of cached chunks.
        assert!(traffic.add(now + FRESH_MS, u64::MAX) >= WORTH_BYTES);
        assert!(!traffic.is_cached(now + FRESH_MS));
    }

    #[test]
    fn mapping_is_used_for_pages_in_memory_only() {
        let disk = DiskFile::new("read");
        disk.fill(7);
        let map = disk.map();
        let mut bytes = [0; 100];
        assert!(map.to_read(0, 100).is_none(), "few bytes are not worth a check");
        assert!(map.to_read(CHUNK - 8, WORTH_BYTES).unwrap().read(CHUNK - 8, &mut bytes));
        assert_eq!(bytes, [7; 100]);
        assert!(map.to_read(8, WORTH_BYTES).is_some());
        assert!(map.to_read(BYTES - 8, WORTH_BYTES).is_none(), "behind the end");
        assert!(map.to_read(u64::MAX - 8, WORTH_BYTES).is_none(), "behind any end");
        drop(map);
        if disk.is_on_disk() {
            disk.evict();
            assert!(disk.map().to_read(0, WORTH_BYTES).is_none());
        }
    }

    #[test]
    fn writes_reach_the_file_and_no_other_chunk() {
        let disk = DiskFile::new("write");
        if !disk.is_on_disk() {
            return;
        }
        let map = disk.map();
        assert!(map.to_write(&disk.file, CHUNK, 100).is_none(), "the process has written little");
        assert!(
            map.to_write(&disk.file, CHUNK + 64, WORTH_BYTES).unwrap().write(CHUNK + 64, b"new")
        );
        let mut bytes = [1; 5];
        disk.file.read_exact_at(&mut bytes, CHUNK + 63).unwrap();
        assert_eq!(&bytes, b"\0new\0");
        for number in [0, 2, 3] {
            assert!(
                sys::is_unwritten(&disk.file, &map.range_of(number)).unwrap(),
                "chunk {number}"
            );
        }
        assert!(!sys::is_unwritten(&disk.file, &map.range_of(1)).unwrap());
        let read_only = CachedMap::new(&disk.file, BYTES, false).unwrap();
        assert!(read_only.to_write(&disk.file, CHUNK, WORTH_BYTES).is_none());
    }

    #[test]
    fn stored_pages_are_not_read_in_order_to_be_overwritten() {
        let disk = DiskFile::new("cold");
        if !disk.is_on_disk() {
            return;
        }
        disk.fill(7);
        disk.evict();
        let map = disk.map();
        assert!(map.to_write(&disk.file, 0, WORTH_BYTES).is_none());
        assert_ne!(map.map.missing_bytes(0, CHUNK as usize), 0, "the chunk was read");
        disk.fill(8);
        // The chunk is checked again after as many bytes.
        assert!(map.to_write(&disk.file, 0, WORTH_BYTES).unwrap().write(1, &[9]));
        let mut bytes = [0; 3];
        disk.file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [8, 9, 8]);
    }

    #[test]
    fn file_is_mapped_after_some_transfers() {
        let disk = DiskFile::new("lazy");
        let lazy = LazyCachedMap::new(BYTES, false);
        assert!(lazy.get(&disk.file, BURST_BYTES - 1).is_none());
        assert!(lazy.get(&disk.file, 1).is_some() && lazy.get(&disk.file, 0).is_some());
    }
}
