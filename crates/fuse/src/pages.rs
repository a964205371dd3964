//! What the kernel's page cache has of a file, and which opens go past it.
use crate::limits::{LARGE_FILE_MIN, LARGE_REQUEST_MIN, SMALL_READS_MAX, SMALL_REQUEST_MAX};
use dfs::Version;

/// What the server knows of the pages of a file in the kernel's cache.
///
/// The kernel may keep them at an open if the content is still what it was when the kernel last dropped them: all that it
/// has read since is of that content or a later one. An open that drops them counts once the kernel has carried it out,
/// which a request through its handle shows. Until then, pages from before may be left, so another open drops them as well.
pub(crate) struct Pages<V = Version> {
    /// The content when they were last dropped; `None` if that is unknown.
    version: Option<V>,
    /// The handle whose open drops them, as long as it may not have yet.
    dropping: Option<u64>,
    /// Handles that write past the pages.
    writers: Vec<u64>,
    /// The kernel has read some since a first handle began to write past them.
    filled: bool,
    written: Traffic,
    /// Since it was last written.
    read: Traffic,
}

/// Requests for bytes of a file.
#[derive(Clone, Copy, Default)]
struct Traffic {
    requests: u64,
    bytes: u64,
}

impl Traffic {
    fn count(&mut self, bytes: u64) {
        self.requests += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn mean(&self) -> u64 {
        self.bytes.checked_div(self.requests).unwrap_or(0)
    }
}

impl<V> Default for Pages<V> {
    fn default() -> Self {
        let (version, dropping, writers, filled) = (None, None, Vec::new(), false);
        let (written, read) = (Traffic::default(), Traffic::default());
        Self { version, dropping, writers, filled, written, read }
    }
}

impl<V> Pages<V> {
    /// True if the pages may be kept at an open through `handle`; otherwise the open has to drop them. `holds` tells whether
    /// the content still is what it was, `now` what it is.
    pub(crate) fn keep(
        &mut self,
        handle: u64,
        holds: impl FnOnce(&V) -> bool,
        now: impl FnOnce() -> Option<V>,
    ) -> bool {
        if self.dropping.is_none() && self.version.as_ref().is_some_and(holds) {
            return true;
        }
        // Asked for before the pages are dropped, so what is read into them later is at least as new.
        self.version = now();
        self.dropping = Some(handle);
        false
    }

    /// An open drops the pages. If others write past them, a read that it does not wait for may fill some again.
    pub(crate) fn open_drops(&mut self) {
        self.filled &= self.are_passed();
    }

    /// The kernel reads bytes into pages.
    pub(crate) fn fill(&mut self) {
        self.filled = true;
    }

    /// True if the kernel may have read pages while something wrote past them.
    pub(crate) fn are_filled(&self) -> bool {
        self.filled
    }

    /// A handle writes past the pages until it is closed.
    pub(crate) fn write_past(&mut self, handle: u64) {
        self.writers.push(handle);
    }

    /// True if something writes past the pages: what is read into them at the same time could be from before.
    pub(crate) fn are_passed(&self) -> bool {
        !self.writers.is_empty()
    }

    pub(crate) fn closed(&mut self, handle: u64) {
        self.used(handle);
        self.writers.retain(|writer| *writer != handle);
    }

    /// A request came through this handle, so its open is done.
    pub(crate) fn used(&mut self, handle: u64) {
        if self.dropping == Some(handle) {
            self.dropping = None;
        }
    }

    pub(crate) fn note_read(&mut self, bytes: u64) {
        self.read.count(bytes);
    }

    pub(crate) fn note_write(&mut self, bytes: u64) {
        self.written.count(bytes);
        self.read = Traffic::default();
    }

    /// True if a file of this size was written in large requests, and has not been read as a whole since: it will likely be
    /// read in large requests too, and filling pages would only cost a copy. What is read again is worth its pages.
    pub(crate) fn are_no_use(&self, size: u64) -> bool {
        let is_large = size >= LARGE_FILE_MIN && self.written.bytes >= size / 2;
        let in_small_parts =
            self.read.requests > SMALL_READS_MAX && self.read.mean() < SMALL_REQUEST_MAX;
        is_large
            && self.written.mean() >= LARGE_REQUEST_MIN
            && self.read.bytes < size
            && !in_small_parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_kept_once_they_were_dropped_and_nothing_has_changed() {
        let mut pages = Pages::<u32>::default();
        let open = |pages: &mut Pages<u32>, handle, content| {
            pages.keep(handle, |version| *version == content, || Some(content))
        };
        assert!(!open(&mut pages, 1, 7));
        // The first may not have dropped them yet. Then both do, and the last one counts.
        assert!(!open(&mut pages, 2, 7));
        pages.used(1);
        assert!(!open(&mut pages, 3, 7));
        pages.used(3);
        assert!(open(&mut pages, 4, 7) && open(&mut pages, 5, 7));
        assert!(!open(&mut pages, 6, 8));
        pages.closed(6);
        assert!(open(&mut pages, 7, 8));
        // A backend that tells no versions.
        assert!(!pages.keep(8, |_| false, || None));
        pages.closed(8);
        assert!(!pages.keep(9, |_| true, || None));
    }

    #[test]
    fn what_writes_past_the_pages_is_known_until_it_is_closed() {
        let mut pages = Pages::<u32>::default();
        pages.write_past(1);
        pages.write_past(2);
        pages.closed(1);
        assert!(pages.are_passed());
        pages.closed(3);
        pages.closed(2);
        assert!(!pages.are_passed());
    }

    fn written(size: u64, request: u64) -> Pages {
        let mut pages = Pages::default();
        (0..size / request).for_each(|_| pages.note_write(request));
        pages
    }

    #[test]
    fn what_was_written_in_large_requests_is_read_without_pages_once() {
        let size = LARGE_FILE_MIN;
        let mut pages = written(size, LARGE_REQUEST_MIN);
        assert!(pages.are_no_use(size));
        (0..size / LARGE_REQUEST_MIN).for_each(|_| pages.note_read(LARGE_REQUEST_MIN));
        assert!(!pages.are_no_use(size));
        pages.note_write(size);
        assert!(pages.are_no_use(size));
    }

    #[test]
    fn small_files_and_small_requests_have_pages() {
        let size = LARGE_FILE_MIN;
        assert!(!written(size, SMALL_REQUEST_MAX).are_no_use(size));
        assert!(!written(size / 4, LARGE_REQUEST_MIN).are_no_use(size / 4));
        assert!(!written(size / 4, LARGE_REQUEST_MIN).are_no_use(size));
        let mut pages = written(size, LARGE_REQUEST_MIN);
        (0..SMALL_READS_MAX).for_each(|_| pages.note_read(8));
        assert!(pages.are_no_use(size));
        pages.note_read(8);
        assert!(!pages.are_no_use(size));
    }
}
