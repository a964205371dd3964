//! Writes that bypass the kernel's page cache of a file, while programs have the file mapped.
//!
//! The kernel drops the cached pages of a range before it sends such a write. But a program may access its mapping
//! before the write is stored, so the kernel reads a page with the old data. If the program then changes that page, the
//! kernel writes back the complete page and overwrites the new data. So the server stores the write, drops the pages of
//! the range again, and only then replies. Until then it ignores write-backs to the range. That is correct because
//! the program's stores are concurrent with the write, which may therefore come after them.
use crate::answer::Answer;
use crate::inodes::Inode;
use fuser::{INodeNo, Notifier};
use std::io;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

/// The ranges of a file to which bypassing writes are in progress.
#[derive(Default)]
pub(crate) struct Passing(Mutex<Vec<Range<u64>>>);

impl Passing {
    /// Calls `write` for each part of `range` outside all bypassing writes. No bypassing write starts meanwhile.
    pub(crate) fn around(
        &self,
        range: Range<u64>,
        mut write: impl FnMut(Range<u64>) -> Answer<()>,
    ) -> Answer<()> {
        let mut passing = self.lock();
        passing.sort_unstable_by_key(|passed| passed.start);
        let mut from = range.start;
        for passed in passing.iter().filter(|passed| passed.start < range.end) {
            if from < passed.start {
                write(from..passed.start)?;
            }
            from = from.max(passed.end);
        }
        if from < range.end { write(from..range.end) } else { Ok(()) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Range<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A bypassing write in progress. Dropping this ends it.
pub(crate) struct Passage {
    inode: Arc<Inode>,
    range: Range<u64>,
}

impl Passage {
    /// Records a bypassing write to `range`, before its data is stored.
    pub(crate) fn begin(inode: &Arc<Inode>, range: Range<u64>) -> Self {
        inode.passing.lock().push(range.clone());
        Self { inode: Arc::clone(inode), range }
    }

    /// Appends by `append`, which returns the range: it is known only then. Write-backs wait meanwhile, and then leave
    /// out that range.
    pub(crate) fn append(
        inode: &Arc<Inode>,
        append: impl FnOnce() -> Answer<Range<u64>>,
    ) -> Answer<Self> {
        let mut passing = inode.passing.lock();
        let range = append()?;
        passing.push(range.clone());
        Ok(Self { inode: Arc::clone(inode), range })
    }

    /// Returns the write if the kernel may have read pages during it, so that the caller must drop them. Otherwise the
    /// write ends here.
    pub(crate) fn if_filled(self) -> Option<Self> {
        self.inode.with_pages(|pages| pages.are_filled()).then_some(self)
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        let mut passing = self.inode.passing.lock();
        if let Some(at) = passing.iter().position(|range| *range == self.range) {
            passing.swap_remove(at);
        }
    }
}

/// Callback that runs after the pages of a bypassing write are dropped.
type OnDropped = Box<dyn FnOnce() + Send>;

/// Drops data and attributes from the kernel's cache. Pages are dropped in a separate thread, because the kernel may
/// wait for requests meanwhile, which the other threads serve.
pub(crate) struct Dropper {
    passages: Sender<(Passage, OnDropped)>,
    notifier: Arc<OnceLock<Notifier>>,
}

/// Receiving end of [`Dropper`]: bypassing writes whose pages are to be dropped.
pub(crate) struct ToDrop {
    passages: Receiver<(Passage, OnDropped)>,
    notifier: Arc<OnceLock<Notifier>>,
}

impl Dropper {
    /// Creates the queue of bypassing writes whose pages are to be dropped. Returns its two ends.
    pub(crate) fn new() -> (Self, ToDrop) {
        let ((sender, receiver), notifier) = (channel(), Arc::default());
        let to_drop = ToDrop { passages: receiver, notifier: Arc::clone(&notifier) };
        (Self { passages: sender, notifier }, to_drop)
    }

    /// Drops the pages of a bypassing write, ends it, and then calls `on_dropped`.
    pub(crate) fn end(&self, passage: Passage, on_dropped: impl FnOnce() + Send + 'static) {
        // This fails only after the thread has ended with the mount.
        let _ = self.passages.send((passage, Box::new(on_dropped)));
    }

    /// Drops the attributes of an inode.
    pub(crate) fn drop_attributes(&self, number: u64) {
        // A negative offset makes the kernel drop only the attributes.
        let dropped = |notifier: &Notifier| notifier.inval_inode(INodeNo(number), -1, 0);
        // This fails if the kernel has forgotten the file, or is being unmounted.
        let _ = self.notifier.get().map(dropped);
    }
}

impl ToDrop {
    /// Starts the thread that drops pages until the file system is no longer served.
    pub(crate) fn start(self, notifier: Notifier) -> io::Result<()> {
        let _ = self.notifier.set(notifier.clone());
        let drop_all = move || {
            for (passage, on_dropped) in self.passages {
                let Range { start, end } = passage.range;
                let number = INodeNo(passage.inode.number());
                // This fails if the kernel has forgotten the file, or is being unmounted.
                let _ = notifier.inval_inode(number, start as i64, (end - start) as i64);
                drop(passage);
                on_dropped();
            }
        };
        thread::Builder::new().name("drop-pages".to_owned()).spawn(drop_all).map(drop)
    }

    /// Ends the next bypassing write, of which the kernel has no pages.
    #[cfg(test)]
    pub(crate) fn drop_next(&self) {
        let (passage, on_dropped) = self.passages.recv().unwrap();
        drop(passage);
        on_dropped();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inodes::ROOT;
    use crate::names::tests::served;
    use crate::options::Cache;

    /// A write-back during the append would store zeros where the appended bytes are.
    #[test]
    fn write_backs_wait_for_the_range_of_an_append() {
        let served = served(Cache::Auto);
        let inode = served.inode(ROOT).unwrap();
        let append = || {
            assert!(inode.passing.0.try_lock().is_err());
            Ok(10..20)
        };
        let passage = Passage::append(&inode, append).unwrap();
        let mut parts = Vec::new();
        let note = |part: Range<u64>| {
            parts.push((part.start, part.end));
            Ok(())
        };
        inode.passing.around(0..30, note).unwrap();
        assert_eq!(parts, [(0, 10), (20, 30)]);
        drop(passage);
    }

    #[test]
    fn ranges_of_bypassing_writes_are_left_out() {
        let passing = Passing::default();
        let around = |range: Range<u64>| {
            let mut parts = Vec::new();
            let note = |part: Range<u64>| {
                parts.push((part.start, part.end));
                Ok(())
            };
            passing.around(range, note).unwrap();
            parts
        };
        assert_eq!(around(0..10), [(0, 10)]);
        passing.lock().extend([20..30, 5..8, 7..9, 25..26]);
        assert_eq!(around(0..10), [(0, 5), (9, 10)]);
        assert_eq!(around(8..22), [(9, 20)]);
        assert_eq!(around(20..30), []);
        assert_eq!(around(28..40), [(30, 40)]);
        assert_eq!(around(0..40), [(0, 5), (9, 20), (30, 40)]);
    }
}
