//! Address ranges of private mappings of files in the mount point. Their memory is anonymous, so some calls have other
//! effects than on a mapping of a file: `madvise` would replace the content by zeros.
//!
//! The table has no lock and allocates no memory. Memory allocators call `madvise` and `munmap` while they hold their
//! locks, so an allocation or a lock here could deadlock.
use crate::limits::PRIVATE_MAPS_MAX;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Start of an entry that is not in use.
const FREE: usize = 0;
/// Start of an entry that a thread is filling.
const RESERVED: usize = 1;

/// Address range of a mapping.
struct Entry {
    start: AtomicUsize,
    end: AtomicUsize,
}

impl Entry {
    const fn new() -> Self {
        Self { start: AtomicUsize::new(FREE), end: AtomicUsize::new(0) }
    }

    /// The range; `None` if the entry is not in use.
    fn range(&self) -> Option<Range<usize>> {
        let start = self.start.load(Ordering::Acquire);
        (start > RESERVED).then(|| start..self.end.load(Ordering::Relaxed))
    }
}

static ENTRIES: [Entry; PRIVATE_MAPS_MAX] = [const { Entry::new() }; PRIVATE_MAPS_MAX];
/// Upper bound (exclusive) of the entries that were ever in use.
static TOP: AtomicUsize = AtomicUsize::new(0);

/// Entries that overlap `range`, with their own ranges.
fn overlapping(range: &Range<usize>) -> impl Iterator<Item = (&'static Entry, Range<usize>)> {
    let range = range.clone();
    let used = &ENTRIES[..TOP.load(Ordering::Acquire)];
    let used = used.iter().filter_map(|entry| Some((entry, entry.range()?)));
    used.filter(move |(_, found)| found.start < range.end && range.start < found.end)
}

/// Adds a mapping. False if the table is full.
pub(crate) fn add(range: Range<usize>) -> bool {
    let reserve = |entry: &Entry| {
        entry.start.compare_exchange(FREE, RESERVED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    let Some(index) = ENTRIES.iter().position(reserve) else { return false };
    ENTRIES[index].end.store(range.end, Ordering::Relaxed);
    ENTRIES[index].start.store(range.start, Ordering::Release);
    TOP.fetch_max(index + 1, Ordering::AcqRel);
    true
}

/// Removes an address range from the mappings, because it is unmapped or other memory replaces it.
pub(crate) fn remove(range: &Range<usize>) {
    for (entry, found) in overlapping(range) {
        let (before, after) = (found.start..range.start, range.end..found.end);
        match (before.is_empty(), after.is_empty()) {
            (true, true) => entry.start.store(FREE, Ordering::Release),
            (true, false) => entry.start.store(after.start, Ordering::Release),
            (false, _) => entry.end.store(before.end, Ordering::Relaxed),
        }
        if !before.is_empty() && !after.is_empty() {
            // In a full table, the kernel treats the second part as anonymous memory.
            add(after);
        }
    }
}

/// True if any part of `range` is in a private mapping.
pub(crate) fn overlaps(range: &Range<usize>) -> bool {
    overlapping(range).next().is_some()
}

/// Calls `work` with each part of `range` outside of the private mappings. Stops at the first negative result and
/// returns it, else 0.
pub(crate) fn outside(range: &Range<usize>, work: impl Fn(&Range<usize>) -> isize) -> isize {
    let mut rest = range.clone();
    while !rest.is_empty() {
        let next = overlapping(&rest).map(|(_, found)| found).min_by_key(|found| found.start);
        let next = next.unwrap_or(rest.end..rest.end);
        let part = rest.start..next.start;
        let result = if part.is_empty() { 0 } else { work(&part) };
        if result < 0 {
            return result;
        }
        rest.start = next.end;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn parts_outside(range: Range<usize>) -> Vec<Range<usize>> {
        let parts = RefCell::new(Vec::new());
        outside(&range, |part| {
            parts.borrow_mut().push(part.clone());
            0
        });
        parts.into_inner()
    }

    #[test]
    fn parts_of_removed_ranges_stay() {
        assert!(add(100..200) && add(300..400));
        assert_eq!(parts_outside(50..450), [50..100, 200..300, 400..450]);
        remove(&(120..150));
        assert_eq!(parts_outside(100..200), [120..150]);
        remove(&(180..320));
        assert_eq!(parts_outside(150..400), [180..320]);
        assert!(!overlaps(&(120..150)) && overlaps(&(150..151)) && !overlaps(&(180..320)));
        remove(&(0..1000));
        assert_eq!(parts_outside(0..1000), [0..1000]);
    }
}
