//! Entries as this process last saw them, where replies take a while: guesses of where paths lead ([`crate::ahead`]).
//!
//! For an entry that was not seen there is no guess. Who looks for many entries of a directory will look for more of them,
//! so after some the process reads the next ones of the directory at once.
use crate::entry::EntryLocation;
use crate::inode::Inode;
use crate::limits::{LIST_BATCH, READ_AHEAD_MAX, SEEN_MAX};
use crate::list::DirEntry;
use crate::node::Node;
use esker::types::ObjectId;
use esker::types::ops::Anchor;
use esker_os::ForkLock;
use std::collections::HashMap;

/// Entries that are read for each one that was looked for and had not been seen: together they take about half as long
/// as looking for one.
const ENTRIES_PER_MISS: usize = 16;

/// Unseen entries that are looked for before the directory is read: at first, and once it was read often.
const FIRST_MISSES: usize = 4;
const MOST_MISSES: usize = LIST_BATCH / ENTRIES_PER_MISS;

/// Entries as this process last saw them.
#[derive(Default)]
pub(crate) struct Seen {
    inodes: ForkLock<HashMap<EntryLocation, Inode>>,
    directories: ForkLock<HashMap<ObjectId, Directory>>,
}

/// How far a directory was read ahead.
struct Directory {
    next: Anchor,
    /// Unseen entries that were looked for since it was read.
    misses: usize,
    /// How many of them it takes until it is read again.
    patience: usize,
}

impl Default for Directory {
    fn default() -> Self {
        Self { next: Anchor::Start, misses: 0, patience: FIRST_MISSES }
    }
}

impl Directory {
    /// Counts an unseen entry. Where to read on and how many entries, if that is due.
    fn miss(&mut self) -> Option<(Anchor, usize)> {
        self.misses += 1;
        if self.misses < self.patience {
            return None;
        }
        let entries = self.misses * ENTRIES_PER_MISS;
        (self.misses, self.patience) = (0, MOST_MISSES.min(2 * self.patience));
        Some((self.next.clone(), entries))
    }
}

impl Seen {
    /// The inode of an entry when it was last seen.
    pub(crate) fn inode(&self, place: &EntryLocation) -> Option<Inode> {
        self.inodes.lock().get(place).copied()
    }

    /// Remembers the entry of a node that this process made.
    pub(crate) fn made(&self, node: &Node) {
        if node.fs().mounted().is_slow() {
            self.note(node.place(), *node.inode());
        }
    }

    /// Remembers the entry of a node that was looked for.
    pub(crate) fn found(&self, node: &Node) {
        if !node.fs().mounted().is_slow() || !self.note(node.place(), *node.inode()) {
            return;
        }
        if let Some(dir) = node.parent() {
            self.read_ahead(dir);
        }
    }

    /// Remembers entries of a listing.
    pub(crate) fn listed(&self, dir: &Node, entries: &[DirEntry]) {
        if !dir.fs().mounted().is_slow() {
            return;
        }
        for DirEntry { name, inode } in entries {
            let place = EntryLocation { dir: dir.oid(), name: name.as_slice().into() };
            self.note(place, *inode);
        }
    }

    /// True if the entry had not been seen.
    fn note(&self, place: EntryLocation, inode: Inode) -> bool {
        let mut inodes = self.inodes.lock();
        if inodes.len() >= SEEN_MAX {
            inodes.clear();
        }
        inodes.insert(place, inode).is_none()
    }

    /// Counts an unseen entry of a directory, and reads some more if there were many.
    fn read_ahead(&self, dir: &Node) {
        let Some((mut next, entries)) = self.miss(dir.oid()) else { return };
        // Without guesses all goes on, only slower.
        if dir.read_dir(&mut next, entries).is_ok()
            && let Some(directory) = self.directories.lock().get_mut(&dir.oid())
        {
            directory.next = if next.is_end() { Anchor::Start } else { next };
        }
    }

    fn miss(&self, dir: ObjectId) -> Option<(Anchor, usize)> {
        let mut directories = self.directories.lock();
        if directories.len() >= READ_AHEAD_MAX {
            directories.clear();
        }
        directories.entry(dir).or_default().miss()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_read_in_proportion_to_what_is_looked_for() {
        let mut directory = Directory::default();
        let (mut misses, mut read) = (0, 0);
        for _ in 0..1000 {
            misses += 1;
            read += directory.miss().map_or(0, |(_, entries)| entries);
            assert!(read <= misses * ENTRIES_PER_MISS);
        }
        assert!(read >= (misses - MOST_MISSES) * ENTRIES_PER_MISS);
        assert_eq!(directory.patience, MOST_MISSES);
    }

    #[test]
    fn one_batch_is_read_at_a_time() {
        assert_eq!(MOST_MISSES * ENTRIES_PER_MISS, LIST_BATCH);
    }
}
