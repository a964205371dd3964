//! Entries as this process last saw them, where replies take a while: guesses of where paths lead ([`crate::ahead`]).
//!
//! Who looks for many entries of a directory will look for more of them, and for the same ones again. So after some that
//! had to be asked for, the process reads them again with the next ones of the directory, and keeps all of them
//! ([`crate::kept`]). Where nothing can be kept, it only reads the next ones after some that it had not seen.
use crate::entry::EntryLocation;
use crate::inode::Inode;
use crate::kept;
use crate::limits::{LIST_BATCH, READ_AHEAD_MAX, SEEN_MAX};
use crate::list::DirEntry;
use crate::node::Node;
use esker::types::ops::Anchor;
use esker::types::{ObjectId, Result};
use esker_os::ForkLock;
use std::collections::HashMap;

/// Entries that are read for each one that was asked for: together they take about as long as asking for one.
const ENTRIES_PER_MISS: usize = 16;

/// Entries that are asked for until the directory is read: at first, and once it was read often.
const FIRST_MISSES: usize = 4;
const MOST_MISSES: usize = LIST_BATCH / ENTRIES_PER_MISS;
/// As long as what is read cannot be kept, because it changes.
const MOST_MISSES_IN_VAIN: usize = 64 * MOST_MISSES;

/// Entries as this process last saw them.
#[derive(Default)]
pub(crate) struct Seen {
    inodes: ForkLock<HashMap<EntryLocation, Inode>>,
    directories: ForkLock<HashMap<ObjectId, Directory>>,
}

/// How far a directory was read ahead.
struct Directory {
    next: Anchor,
    /// Entries that were asked for since it was read.
    misses: usize,
    /// How many of them it takes until it is read again.
    patience: usize,
    /// Those of them that had been seen before.
    again: Vec<Box<[u8]>>,
}

/// What is to be read of a directory.
struct Due {
    again: Vec<Box<[u8]>>,
    /// The next entries: from where on, and how many.
    next: Anchor,
    entries: usize,
}

impl Default for Directory {
    fn default() -> Self {
        Self { next: Anchor::Start, misses: 0, patience: FIRST_MISSES, again: Vec::new() }
    }
}

impl Directory {
    /// Counts an entry that was asked for. What is to be read, if that is due.
    fn miss(&mut self, name: &[u8], is_new: bool) -> Option<Due> {
        self.misses += 1;
        let known = is_new || self.again.iter().any(|known| **known == *name);
        if !known && self.again.len() < MOST_MISSES {
            self.again.push(name.into());
        }
        if self.misses < self.patience {
            return None;
        }
        let entries = self.misses.min(MOST_MISSES) * ENTRIES_PER_MISS;
        self.misses = 0;
        Some(Due { again: std::mem::take(&mut self.again), next: self.next.clone(), entries })
    }

    /// It was read up to there; `in_vain` if nothing of it could be kept.
    fn was_read(&mut self, next: Anchor, in_vain: bool) {
        self.next = if next.is_end() { Anchor::Start } else { next };
        self.patience = match in_vain {
            true => (4 * self.patience).min(MOST_MISSES_IN_VAIN),
            false => (2 * self.patience).min(MOST_MISSES),
        };
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
        if !node.fs().mounted().is_slow() {
            return;
        }
        let is_new = self.note(node.place(), *node.inode());
        if let Some(dir) = node.parent()
            && (is_new || node.fs().mounted().grants_leases())
            && let Some(due) = self.missed(dir.oid(), node.name(), is_new)
        {
            // Without it all goes on, only slower.
            let _ = self.read(dir, due);
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

    /// Counts an entry that was asked for.
    fn missed(&self, dir: ObjectId, name: &[u8], is_new: bool) -> Option<Due> {
        let mut directories = self.directories.lock();
        if directories.len() >= READ_AHEAD_MAX {
            directories.clear();
        }
        directories.entry(dir).or_default().miss(name, is_new)
    }

    fn read(&self, dir: &Node, due: Due) -> Result<()> {
        let Due { again, mut next, entries } = due;
        let names = dir.read_names(&mut next, entries)?;
        let names: Vec<&[u8]> = again.iter().map(|name| &**name).chain(names.iter()).collect();
        let read = kept::read(dir, &names)?;
        let in_vain = dir.fs().mounted().grants_leases() && !read.is_kept;
        if let Some(directory) = self.directories.lock().get_mut(&dir.oid()) {
            directory.was_read(next, in_vain);
        }
        for (place, inode) in read.inodes {
            self.note(place, inode);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_read_in_proportion_to_what_is_asked_for() {
        let mut directory = Directory::default();
        let (mut misses, mut read) = (0, 0);
        for _ in 0..1000 {
            misses += 1;
            if let Some(due) = directory.miss(b"name", true) {
                read += due.entries;
                directory.was_read(due.next, false);
            }
            assert!(read <= misses * ENTRIES_PER_MISS);
        }
        assert!(read >= (misses - MOST_MISSES) * ENTRIES_PER_MISS);
        assert_eq!(directory.patience, MOST_MISSES);
    }

    #[test]
    fn what_cannot_be_kept_is_read_seldom() {
        let mut directory = Directory::default();
        let mut reads = 0;
        for number in 0..100_000_u32 {
            if let Some(due) = directory.miss(&number.to_le_bytes(), false) {
                assert!(due.again.len() <= MOST_MISSES && due.entries <= LIST_BATCH);
                directory.was_read(due.next, true);
                reads += 1;
            }
        }
        assert!((20..40).contains(&reads), "{reads}");
    }

    #[test]
    fn one_batch_is_read_at_a_time() {
        assert_eq!(MOST_MISSES * ENTRIES_PER_MISS, LIST_BATCH);
    }
}
