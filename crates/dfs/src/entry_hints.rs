//! Entry hints, used over the network: the last inodes that this process saw, which predict paths
//! ([`crate::prefetch`]).
//!
//! A process that looks up many entries of a directory will look up more of them, and the same ones again. So after
//! some cache misses the process reads ahead: it fetches the missed entries again together with the next ones of the
//! directory, and caches them all ([`crate::read_ahead`]). Without read leases it only fetches the next entries, after
//! some that it had never seen.
use crate::entry::EntryLocation;
use crate::inode::Inode;
use crate::limits::{ENTRY_HINTS_MAX, LIST_BATCH, READ_AHEAD_MAX};
use esker::types::ObjectId;
use esker::types::ops::Anchor;
use esker_os::ForkLock;
use std::collections::HashMap;

/// Entries that a read-ahead fetches per cache miss: all of them take about as long as one lookup.
const ENTRIES_PER_MISS: usize = 16;

/// Cache misses before a read-ahead of the directory: the first one, and later ones.
const FIRST_MISSES: usize = 4;
const MOST_MISSES: usize = LIST_BATCH / ENTRIES_PER_MISS;
/// Most cache misses before a read-ahead while its entries cannot be cached, because they change.
const MOST_MISSES_IN_VAIN: usize = 64 * MOST_MISSES;

/// Inodes of entries when this process last saw them, and the state of read-ahead per directory.
#[derive(Default)]
pub(crate) struct EntryHints {
    inodes: ForkLock<HashMap<EntryLocation, Inode>>,
    directories: ForkLock<HashMap<ObjectId, Directory>>,
}

/// Read-ahead state of a directory.
struct Directory {
    next: Anchor,
    /// Cache misses since the last read-ahead.
    misses: usize,
    /// Cache misses that start the next read-ahead.
    misses_max: usize,
    /// Missed names that this process had seen before.
    again: Vec<Box<[u8]>>,
}

/// A read-ahead of a directory.
pub(crate) struct ReadAhead {
    /// Missed names that this process had seen before.
    pub(crate) again: Vec<Box<[u8]>>,
    /// The next entries in the listing: start and number.
    pub(crate) next: Anchor,
    pub(crate) entries: usize,
}

impl Default for Directory {
    fn default() -> Self {
        Self { next: Anchor::Start, misses: 0, misses_max: FIRST_MISSES, again: Vec::new() }
    }
}

impl Directory {
    /// Counts a cache miss of `name`; `is_new` if this process had never seen the entry. Returns a read-ahead if it is
    /// due: of the next entries in the listing, and of the missed names that are not new, because the listing may have
    /// passed them.
    fn count_miss(&mut self, name: &[u8], is_new: bool) -> Option<ReadAhead> {
        self.misses += 1;
        let is_noted = is_new || self.again.iter().any(|other| **other == *name);
        if !is_noted && self.again.len() < MOST_MISSES {
            self.again.push(name.into());
        }
        if self.misses < self.misses_max {
            return None;
        }
        let entries = self.misses.min(MOST_MISSES) * ENTRIES_PER_MISS;
        self.misses = 0;
        Some(ReadAhead { again: std::mem::take(&mut self.again), next: self.next.clone(), entries })
    }

    /// Records a read-ahead that ended at `next`; `in_vain` if none of its entries could be cached. The next read-ahead
    /// is due after more misses than this one, up to a maximum.
    fn record_read(&mut self, next: Anchor, in_vain: bool) {
        self.next = if next.is_end() { Anchor::Start } else { next };
        self.misses_max = match in_vain {
            true => (4 * self.misses_max).min(MOST_MISSES_IN_VAIN),
            false => (2 * self.misses_max).min(MOST_MISSES),
        };
    }
}

impl EntryHints {
    /// The inode of an entry when it was last seen.
    pub(crate) fn inode(&self, location: &EntryLocation) -> Option<Inode> {
        self.inodes.lock().get(location).copied()
    }

    /// Records an entry; returns true if it is new to this process.
    pub(crate) fn record(&self, location: EntryLocation, inode: Inode) -> bool {
        let mut inodes = self.inodes.lock();
        if inodes.len() >= ENTRY_HINTS_MAX {
            inodes.clear();
        }
        inodes.insert(location, inode).is_none()
    }

    /// Forgets an entry that this process removed.
    pub(crate) fn forget(&self, location: &EntryLocation) {
        self.inodes.lock().remove(location);
    }

    /// Counts a cache miss in a directory; `is_new` if this process had never seen the entry. Returns a read-ahead if
    /// it is due.
    pub(crate) fn count_miss(&self, dir: ObjectId, name: &[u8], is_new: bool) -> Option<ReadAhead> {
        let mut directories = self.directories.lock();
        if directories.len() >= READ_AHEAD_MAX {
            directories.clear();
        }
        directories.entry(dir).or_default().count_miss(name, is_new)
    }

    /// Records a read-ahead of a directory that ended at `next`; `in_vain` if none of its entries could be cached.
    pub(crate) fn record_read(&self, dir: ObjectId, next: Anchor, in_vain: bool) {
        if let Some(directory) = self.directories.lock().get_mut(&dir) {
            directory.record_read(next, in_vain);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_ahead_is_proportional_to_cache_misses() {
        let mut directory = Directory::default();
        let (mut misses, mut read) = (0, 0);
        for _ in 0..1000 {
            misses += 1;
            if let Some(due) = directory.count_miss(b"name", true) {
                read += due.entries;
                directory.record_read(due.next, false);
            }
            assert!(read <= misses * ENTRIES_PER_MISS);
        }
        assert!(read >= (misses - MOST_MISSES) * ENTRIES_PER_MISS);
        assert_eq!(directory.misses_max, MOST_MISSES);
    }

    #[test]
    fn read_ahead_is_rare_while_entries_cannot_be_cached() {
        let mut directory = Directory::default();
        let mut reads = 0;
        for number in 0..100_000_u32 {
            if let Some(due) = directory.count_miss(&number.to_le_bytes(), false) {
                assert!(due.again.len() <= MOST_MISSES && due.entries <= LIST_BATCH);
                directory.record_read(due.next, true);
                reads += 1;
            }
        }
        assert!((20..40).contains(&reads), "{reads}");
    }

    #[test]
    fn read_ahead_fetches_at_most_one_batch() {
        assert_eq!(MOST_MISSES * ENTRIES_PER_MISS, LIST_BATCH);
    }
}
