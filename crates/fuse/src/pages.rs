//! State of a file in the kernel's page cache, and the decision which opens bypass that cache.
use crate::limits::{LARGE_FILE_MIN, LARGE_REQUEST_MIN, SMALL_READS_MAX, SMALL_REQUEST_MAX};
use dfs::Version;
use std::sync::Arc;

/// The server's record of the pages of a file in the kernel's cache.
///
/// An open may keep the pages if the content has not changed since the kernel last dropped them. All pages read since
/// then have that content. The kernel has carried out an open that drops pages once a request comes through its handle.
/// Until then, older pages may remain, so another open drops them as well.
pub(crate) struct Pages<V = Version> {
    /// Version of the content when the kernel last dropped the pages; `None` if unknown.
    version: Option<Arc<V>>,
    /// Handle whose open drops the pages, until a request shows that it did.
    dropping: Option<u64>,
    /// Handles whose writes bypass the pages.
    writers: Vec<u64>,
    /// The kernel has read pages since the first of these handles was opened.
    filled: bool,
    written: Traffic,
    /// Reads since the last write.
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

    /// Mean number of bytes of a request; 0 without requests.
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
    /// Version of the content in the pages: an open may keep them if it is still current. `None` if it has to drop them.
    pub(crate) fn version(&self) -> Option<Arc<V>> {
        self.version.clone().filter(|_| self.dropping.is_none())
    }

    /// Records that an open through `handle` drops the pages. `now` is the version of the content before, or `None` if
    /// the backend has none.
    pub(crate) fn begin_drop(&mut self, handle: u64, now: Option<V>) {
        self.version = now.map(Arc::new);
        self.dropping = Some(handle);
    }

    /// Records that an open makes the kernel drop the pages. If writers bypass them, they still count as filled,
    /// because a concurrent read may fill some again.
    pub(crate) fn note_drop(&mut self) {
        self.filled &= self.are_bypassed();
    }

    /// Records that the kernel reads bytes into pages.
    pub(crate) fn note_fill(&mut self) {
        self.filled = true;
    }

    /// True if the kernel may have read pages while a writer bypassed them.
    pub(crate) fn are_filled(&self) -> bool {
        self.filled
    }

    /// Records a handle whose writes bypass the pages until it is closed.
    pub(crate) fn add_bypassing_writer(&mut self, handle: u64) {
        self.writers.push(handle);
    }

    /// True if a writer bypasses the pages: a concurrent read could fill them with old data.
    pub(crate) fn are_bypassed(&self) -> bool {
        !self.writers.is_empty()
    }

    /// Records that a handle was closed.
    pub(crate) fn note_close(&mut self, handle: u64) {
        self.note_use(handle);
        self.writers.retain(|writer| *writer != handle);
    }

    /// Records a request through a handle. If the open of this handle drops the pages, the kernel has now done so.
    pub(crate) fn note_use(&mut self, handle: u64) {
        if self.dropping == Some(handle) {
            self.dropping = None;
        }
    }

    pub(crate) fn note_read(&mut self, bytes: u64) {
        self.read.count(bytes);
    }

    /// Counts a write, and starts to count the reads after it.
    pub(crate) fn note_write(&mut self, bytes: u64) {
        self.written.count(bytes);
        self.read = Traffic::default();
    }

    /// False if [`Self::are_useless`] is false for any size.
    pub(crate) fn may_be_useless(&self) -> bool {
        self.written.bytes >= LARGE_FILE_MIN / 2 && self.written.mean() >= LARGE_REQUEST_MIN
    }

    /// True if a program wrote a file of this size in large requests, and none has read it completely since. Its reads
    /// will likely be large too, and filling pages would only cost a copy. A second read profits from pages.
    pub(crate) fn are_useless(&self, size: u64) -> bool {
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

    /// Decides as an open does whether to keep the pages. `holds` tells if a version is still current, `now` is the
    /// current one.
    fn keep(
        pages: &mut Pages<u32>,
        handle: u64,
        holds: impl FnOnce(&u32) -> bool,
        now: Option<u32>,
    ) -> bool {
        let is_kept = pages.version().is_some_and(|version| holds(&version));
        if !is_kept {
            pages.begin_drop(handle, now);
        }
        is_kept
    }

    #[test]
    fn open_keeps_pages_if_content_has_not_changed_since_the_drop() {
        let mut pages = Pages::<u32>::default();
        let open = |pages: &mut Pages<u32>, handle, content| {
            keep(pages, handle, |version| *version == content, Some(content))
        };
        assert!(!open(&mut pages, 1, 7));
        // The first open may not have dropped them yet. Then both drop them, and the last one counts.
        assert!(!open(&mut pages, 2, 7));
        pages.note_use(1);
        assert!(!open(&mut pages, 3, 7));
        pages.note_use(3);
        assert!(open(&mut pages, 4, 7) && open(&mut pages, 5, 7));
        assert!(!open(&mut pages, 6, 8));
        pages.note_close(6);
        assert!(open(&mut pages, 7, 8));
        // This backend has no versions.
        assert!(!keep(&mut pages, 8, |_| false, None));
        pages.note_close(8);
        assert!(!keep(&mut pages, 9, |_| true, None));
    }

    #[test]
    fn bypassing_writer_is_recorded_until_it_is_closed() {
        let mut pages = Pages::<u32>::default();
        pages.add_bypassing_writer(1);
        pages.add_bypassing_writer(2);
        pages.note_close(1);
        assert!(pages.are_bypassed());
        pages.note_close(3);
        pages.note_close(2);
        assert!(!pages.are_bypassed());
    }

    /// Pages of a file of `size` bytes that was written in requests of `request` bytes.
    fn written(size: u64, request: u64) -> Pages {
        let mut pages = Pages::default();
        (0..size / request).for_each(|_| pages.note_write(request));
        pages
    }

    #[test]
    fn first_read_after_large_writes_bypasses_the_pages() {
        let size = LARGE_FILE_MIN;
        let mut pages = written(size, LARGE_REQUEST_MIN);
        assert!(pages.are_useless(size));
        (0..size / LARGE_REQUEST_MIN).for_each(|_| pages.note_read(LARGE_REQUEST_MIN));
        assert!(!pages.are_useless(size));
        pages.note_write(size);
        assert!(pages.are_useless(size));
    }

    #[test]
    fn small_files_and_small_requests_have_pages() {
        let size = LARGE_FILE_MIN;
        assert!(!written(size, SMALL_REQUEST_MAX).are_useless(size));
        assert!(!written(size / 4, LARGE_REQUEST_MIN).are_useless(size / 4));
        assert!(!written(size / 4, LARGE_REQUEST_MIN).are_useless(size));
        let mut pages = written(size, LARGE_REQUEST_MIN);
        // Small reads count only if there are more than `SMALL_READS_MAX`.
        (0..SMALL_READS_MAX).for_each(|_| pages.note_read(8));
        assert!(pages.are_useless(size));
        pages.note_read(8);
        assert!(!pages.are_useless(size));
    }
}
