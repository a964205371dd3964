//! Writes that pass the kernel's pages of a file which programs have mapped.
//!
//! The kernel drops the pages of a range before it sends such a write, and sends none of their content later. But a program
//! may touch its mapping meanwhile: a page that is read before the write is served lacks it, and once the program has
//! stored something in that page, the kernel writes back the whole of it, over the write. So the server drops the pages of
//! the range again once it has served the write, and the write is not done before. What the kernel writes back until then
//! leaves out the range: stores to it are concurrent with the write, which comes after them.
use crate::answer::Answer;
use crate::inodes::Inode;
use fuser::{INodeNo, Notifier};
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

/// The ranges of a file to which writes that pass the pages are under way.
#[derive(Default)]
pub(crate) struct Passing(Mutex<Vec<Range<u64>>>);

impl Passing {
    /// Calls `write` for each part of `range` that no other write passes. None begins meanwhile.
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

/// A write that passes the pages, until this is dropped.
pub(crate) struct Passage {
    inode: Arc<Inode>,
    range: Range<u64>,
}

impl Passage {
    pub(crate) fn begin(inode: &Arc<Inode>, range: Range<u64>) -> Self {
        inode.passing.lock().push(range.clone());
        Self { inode: Arc::clone(inode), range }
    }

    /// After the write. Returns itself if the kernel may have read pages meanwhile.
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

/// What is to be done once the pages of a passage are dropped.
type Done = Box<dyn FnOnce() + Send>;

/// Drops what the kernel caches: pages in a thread of its own, because the kernel may wait for requests meanwhile, which the
/// other threads serve.
pub(crate) struct Dropper {
    passages: Sender<(Passage, Done)>,
    notifier: Arc<OnceLock<Notifier>>,
}

/// The pages to be dropped.
pub(crate) struct ToDrop {
    passages: Receiver<(Passage, Done)>,
    notifier: Arc<OnceLock<Notifier>>,
}

impl Dropper {
    pub(crate) fn new() -> (Self, ToDrop) {
        let ((sender, receiver), notifier) = (channel(), Arc::default());
        let to_drop = ToDrop { passages: receiver, notifier: Arc::clone(&notifier) };
        (Self { passages: sender, notifier }, to_drop)
    }

    /// Ends a passage after the pages of its range were dropped, then calls `done`.
    pub(crate) fn end(&self, passage: Passage, done: impl FnOnce() + Send + 'static) {
        // It fails only after the thread has ended, with the mount.
        let _ = self.passages.send((passage, Box::new(done)));
    }

    /// Drops the attributes of an inode.
    pub(crate) fn drop_attributes(&self, number: u64) {
        // A negative offset leaves the pages.
        let dropped = |notifier: &Notifier| notifier.inval_inode(INodeNo(number), -1, 0);
        // Fails if the kernel has forgotten the file, or is being unmounted.
        let _ = self.notifier.get().map(dropped);
    }
}

impl ToDrop {
    /// Drops pages until the file system is no longer served.
    pub(crate) fn start(self, notifier: Notifier) {
        let _ = self.notifier.set(notifier.clone());
        thread::spawn(move || {
            for (passage, done) in self.passages {
                let Range { start, end } = passage.range;
                let number = INodeNo(passage.inode.number());
                // As above.
                let _ = notifier.inval_inode(number, start as i64, (end - start) as i64);
                drop(passage);
                done();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_writes_pass_are_left_out() {
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
