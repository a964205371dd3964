//! Numbers in a file that several processes map: they survive the death of any process.
use std::fs::File;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Bytes of a word.
const WORD: usize = size_of::<AtomicU64>();

/// A mapped file of 64-bit atomics.
pub(crate) struct Words {
    start: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: the words are atomics, and the mapping lives until the value is dropped.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// Creates a file of `count` zeros and maps it.
    pub(crate) fn create(path: &Path, count: usize) -> Self {
        let file = File::options().read(true).write(true).create_new(true).open(path);
        let file = file.expect("creating a file of words");
        file.set_len((count * WORD) as u64).expect("sizing a file of words");
        Self::map(&file, count)
    }

    /// Maps a file that [`Words::create`] has made.
    pub(crate) fn open(path: &Path) -> Self {
        let file = File::options().read(true).write(true).open(path);
        let file = file.expect("opening a file of words");
        let len = file.metadata().expect("the length of a file of words").len();
        Self::map(&file, len as usize / WORD)
    }

    /// Maps `count` words of a file.
    fn map(file: &File, count: usize) -> Self {
        let (null, len) = (std::ptr::null_mut(), count * WORD);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: maps new memory; the file has at least this length and is never shortened.
        let start = unsafe { libc::mmap(null, len, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        assert!(start != libc::MAP_FAILED, "mapping: {}", std::io::Error::last_os_error());
        Self { start: NonNull::new(start.cast()).expect("an address"), count }
    }
}

impl Deref for Words {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: `start` points to `count` mapped words, aligned to a page, until `self` is dropped.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly the memory that `map` has mapped; no reference outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.count * WORD) };
    }
}
