//! Entries as this process last saw them, where replies take a while: guesses of where paths lead ([`crate::ahead`]).
//!
//! Who looks for many entries of a directory will look for more of them. So after some that were not seen before, the process
//! reads the next ones of the directory at once, and after some that were, it reads these again and keeps them
//! ([`crate::kept`]).
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

/// Entries that are read for each one that was looked for and had not been seen: together they take about half as long
/// as looking for one.
const ENTRIES_PER_MISS: usize = 16;

/// Lookups until the directory is read: at first, and once it was read often.
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
    unseen: Patience,
    seen: Patience,
    /// Entries that had been seen and were looked for since they were read.
    names: Vec<Box<[u8]>>,
}

/// What is to be read of a directory.
enum Due {
    /// So many entries from there on.
    Next(Anchor, usize),
    /// These entries.
    Again(Vec<Box<[u8]>>),
}

impl Default for Directory {
    fn default() -> Self {
        let (unseen, seen) = (Patience::default(), Patience::default());
        Self { next: Anchor::Start, unseen, seen, names: Vec::new() }
    }
}

impl Directory {
    /// Counts an unseen entry that was looked for.
    fn miss(&mut self) -> Option<Due> {
        let misses = self.unseen.ends()?;
        Some(Due::Next(self.next.clone(), misses * ENTRIES_PER_MISS))
    }

    /// Counts an entry that was looked for and had been seen.
    fn miss_again(&mut self, name: &[u8]) -> Option<Due> {
        if !self.names.iter().any(|known| **known == *name) {
            self.names.push(name.into());
        }
        self.seen.ends()?;
        Some(Due::Again(std::mem::take(&mut self.names)))
    }
}

/// Counts lookups until it is worth reading what is next.
struct Patience {
    misses: usize,
    most: usize,
}

impl Default for Patience {
    fn default() -> Self {
        Self { misses: 0, most: FIRST_MISSES }
    }
}

impl Patience {
    /// Counts a lookup. The number of them since the last time, if it ends.
    fn ends(&mut self) -> Option<usize> {
        self.misses += 1;
        if self.misses < self.most {
            return None;
        }
        self.most = MOST_MISSES.min(2 * self.most);
        Some(std::mem::take(&mut self.misses))
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

    /// Counts a lookup.
    fn missed(&self, dir: ObjectId, name: &[u8], is_new: bool) -> Option<Due> {
        let mut directories = self.directories.lock();
        if directories.len() >= READ_AHEAD_MAX {
            directories.clear();
        }
        let directory = directories.entry(dir).or_default();
        if is_new { directory.miss() } else { directory.miss_again(name) }
    }

    fn read(&self, dir: &Node, due: Due) -> Result<()> {
        match due {
            Due::Again(names) => {
                let names: Vec<&[u8]> = names.iter().map(|name| &**name).collect();
                self.read_entries(dir, &names)
            }
            Due::Next(mut next, entries) => {
                let names = dir.read_names(&mut next, entries)?;
                if let Some(directory) = self.directories.lock().get_mut(&dir.oid()) {
                    directory.next = if next.is_end() { Anchor::Start } else { next };
                }
                self.read_entries(dir, &names.iter().collect::<Vec<_>>())
            }
        }
    }

    fn read_entries(&self, dir: &Node, names: &[&[u8]]) -> Result<()> {
        for (place, inode) in kept::read(dir, names)?.inodes {
            self.note(place, inode);
        }
        Ok(())
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
            read += match directory.miss() {
                Some(Due::Next(_, entries)) => entries,
                _ => 0,
            };
            assert!(read <= misses * ENTRIES_PER_MISS);
        }
        assert!(read >= (misses - MOST_MISSES) * ENTRIES_PER_MISS);
        assert_eq!(directory.unseen.most, MOST_MISSES);
    }

    #[test]
    fn one_batch_is_read_at_a_time() {
        assert_eq!(MOST_MISSES * ENTRIES_PER_MISS, LIST_BATCH);
    }
}
