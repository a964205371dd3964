//! Listing directories.
use crate::entry::{self, EntryLocation};
use crate::inode::{Inode, Kind};
use crate::limits::{LIST_BATCH, NAME_MAX};
use crate::node::Node;
use esker::Wait;
use esker::types::ops::{Anchor, ListLimit};
use esker::types::{KeyBatch, KeyKind, Result, encode_key};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hasher};

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name.
    pub name: Vec<u8>,
    /// Its inode.
    pub inode: Inode,
}

impl DirEntry {
    /// File, directory or symbolic link.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.inode.kind
    }

    /// The number of the entry (POSIX: `d_ino`).
    #[must_use]
    pub fn number(&self) -> u64 {
        self.inode.number()
    }
}

impl Node {
    /// At most `entries` entries after `anchor`, which advances (DAOS: `dfs_readdirplus`), without `.` and `..`. An
    /// entry that exists throughout is returned exactly once, whatever is added or removed meanwhile. Names that no
    /// entry can have are left out: programs would take `../x` for a path that leads out of the directory.
    ///
    /// # Errors
    /// [`esker::types::ErrorKind::NotDirectory`]; errors of the backend.
    pub fn read_dir(&self, anchor: &mut Anchor, entries: usize) -> Result<Vec<DirEntry>> {
        self.read_entries(anchor, entries, entry::is_name)
    }

    /// Entries as [`Node::read_dir`], but only those for which `is_shown` returns true.
    pub(crate) fn read_entries(
        &self,
        anchor: &mut Anchor,
        entries: usize,
        is_shown: fn(&[u8]) -> bool,
    ) -> Result<Vec<DirEntry>> {
        let dir = self.directory()?;
        let mut found = Vec::new();
        while found.is_empty() && !anchor.is_end() {
            let names = self.list_names(anchor, entries, is_shown)?;
            let names: Vec<_> = names.iter().collect();
            for names in names.chunks(LIST_BATCH) {
                let inodes = entry::fetch_all(&dir, names, self.fs().view()).wait()?;
                // An entry that was removed after the names were listed has no inode.
                let entry = |(name, inode): (&&[u8], Option<_>)| {
                    Some(DirEntry { name: name.to_vec(), inode: inode? })
                };
                found.extend(std::iter::zip(names, inodes).filter_map(entry));
            }
        }
        self.record_hints(&found);
        Ok(found)
    }

    /// Over the network, records entries of this directory for later lookups.
    fn record_hints(&self, entries: &[DirEntry]) {
        let mounted = self.fs().mounted();
        if !mounted.is_slow() {
            return;
        }
        for DirEntry { name, inode } in entries {
            let location = EntryLocation { dir: self.oid(), name: name.as_slice().into() };
            mounted.entry_hints.record(location, *inode);
        }
    }

    /// At most `entries` names after `anchor`, which advances (DAOS: `dfs_readdir`). May be empty before the end. Leaves
    /// out the same names as [`Node::read_dir`].
    ///
    /// # Errors
    /// The errors of [`Node::read_dir`].
    pub fn read_names(&self, anchor: &mut Anchor, entries: usize) -> Result<KeyBatch> {
        self.list_names(anchor, entries, entry::is_name)
    }

    /// Names as [`Node::read_names`], also those that no entry can have.
    ///
    /// # Errors
    /// The errors of [`Node::read_dir`].
    pub fn read_stored_names(&self, anchor: &mut Anchor, entries: usize) -> Result<KeyBatch> {
        self.list_names(anchor, entries, entry::is_stored_name)
    }

    fn list_names(
        &self,
        anchor: &mut Anchor,
        entries: usize,
        is_shown: fn(&[u8]) -> bool,
    ) -> Result<KeyBatch> {
        let limit = ListLimit::entries(entries.max(1));
        let found = self.directory()?.list_dkeys(anchor, limit, self.fs().view()).wait()?;
        let mut names = KeyBatch::default();
        found.iter().filter(|name| is_shown(name)).for_each(|name| names.push(name));
        Ok(names)
    }

    /// The first `most` names after `after`, sorted. The cost depends on `most`, not on the size of the directory,
    /// except on a backend that reads all names (`daos:`).
    ///
    /// # Errors
    /// The errors of [`Node::read_dir`].
    pub fn names_after(&self, after: &[u8], most: usize) -> Result<BTreeSet<Vec<u8>>> {
        let mut first = First { after, most: most.max(1), names: BTreeSet::new() };
        let mut anchor = Anchor::Start;
        // Reading one name moves the anchor into the first shard.
        first.add(&self.read_names(&mut anchor, 1)?);
        while let Anchor::After { shard, .. } = anchor {
            anchor = self.add_shard(&mut first, shard)?;
        }
        Ok(first.names)
    }

    /// Adds the first names of a shard. Returns an anchor in the next shard, or the end.
    fn add_shard(&self, first: &mut First<'_>, shard: u32) -> Result<Anchor> {
        let is_in =
            |anchor: &Anchor| matches!(anchor, Anchor::After { shard: at, .. } if *at == shard);
        let mut anchor = Anchor::After { shard, position: position(first.after)? };
        let mut count = 0;
        while count < first.most && is_in(&anchor) {
            let names = self.read_names(&mut anchor, first.most)?;
            count += names.len();
            first.add(&names);
        }
        if is_in(&anchor) {
            // No name follows this position, so that a read from there continues in the next shard.
            anchor = Anchor::After { shard, position: vec![0xff; NAME_MAX + 1] };
            first.add(&self.read_names(&mut anchor, 1)?);
        }
        Ok(anchor)
    }

    /// True if this directory is empty.
    ///
    /// # Errors
    /// The errors of [`Node::read_dir`].
    pub fn is_empty(&self) -> Result<bool> {
        entry::is_empty(&self.directory()?, self.fs().view())
    }

    /// A stream of the entries, which can seek (POSIX: `opendir`).
    ///
    /// # Errors
    /// [`esker::types::ErrorKind::NotDirectory`].
    pub fn entries(&self) -> Result<DirStream> {
        self.directory()?;
        Ok(DirStream::new(self.clone(), entry::is_name))
    }

    /// A stream as [`Node::entries`], also of entries with names that no entry can have.
    pub(crate) fn stored_entries(&self) -> Result<DirStream> {
        self.directory()?;
        Ok(DirStream::new(self.clone(), entry::is_stored_name))
    }
}

/// The first names after `after`.
struct First<'a> {
    after: &'a [u8],
    most: usize,
    names: BTreeSet<Vec<u8>>,
}

impl First<'_> {
    /// Adds the names of a batch that are after the start, and drops the last ones beyond `most`.
    fn add(&mut self, found: &KeyBatch) {
        let later = found.iter().filter(|name| *name > self.after);
        self.names.extend(later.map(<[u8]>::to_vec));
        while self.names.len() > self.most {
            self.names.pop_last();
        }
    }
}

/// The position of a name in a listing; the beginning for an empty one.
fn position(name: &[u8]) -> Result<Vec<u8>> {
    let mut position = Vec::new();
    if !name.is_empty() {
        encode_key(KeyKind::Bytes, name, &mut position)?;
    }
    Ok(position)
}

/// An open listing (POSIX: `DIR`). It buffers one batch of entries ([`LIST_BATCH`]), and keeps two anchors for each batch
/// and 4 bytes for each entry so far, so memory stays small for any directory.
pub struct DirStream {
    node: Node,
    is_shown: fn(&[u8]) -> bool,
    /// The batches so far, in the order of their numbers. A batch that has changed since is there once more.
    batches: Vec<Batch>,
    /// Hashes of the names so far, by the number of the entry.
    names: Vec<u32>,
    /// Entries of the current batch.
    entries: Vec<DirEntry>,
    /// Position of the current batch in `batches`.
    current: usize,
    /// Number of the next entry.
    next: u64,
}

/// A batch of entries that a stream has read.
#[derive(Clone)]
struct Batch {
    /// Number of its first entry.
    first: u64,
    start: Anchor,
    end: Anchor,
}

/// Hash of the name of an entry.
fn hash(entry: &DirEntry) -> u32 {
    let mut hasher = DefaultHasher::new();
    hasher.write(&entry.name);
    hasher.finish() as u32
}

impl DirStream {
    /// A stream at the beginning of the directory.
    fn new(node: Node, is_shown: fn(&[u8]) -> bool) -> Self {
        let (batches, names, entries) = (Vec::new(), Vec::new(), Vec::new());
        Self { node, is_shown, batches, names, entries, current: 0, next: 0 }
    }

    /// The directory.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The next entry, `None` at the end.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn read(&mut self) -> Result<Option<DirEntry>> {
        if !self.is_buffered() && !self.load()? {
            return Ok(None);
        }
        let entry = self.entries.get((self.next - self.first()) as usize).cloned();
        self.next += u64::from(entry.is_some());
        Ok(entry)
    }

    /// The position of the next entry (POSIX: `telldir`).
    #[must_use]
    pub fn tell(&self) -> u64 {
        self.next
    }

    /// Seeks to a position from [`DirStream::tell`]; 0 starts over and sees new entries (POSIX: `seekdir`,
    /// `rewinddir`). Entries that were added or removed meanwhile do not move the position.
    pub fn seek(&mut self, position: u64) {
        if position == 0 {
            *self = Self::new(self.node.clone(), self.is_shown);
        }
        self.next = position;
    }

    /// Number of the first entry of the current batch.
    fn first(&self) -> u64 {
        self.batches.get(self.current).map_or(0, |batch| batch.first)
    }

    /// True if the current batch has the next entry.
    fn is_buffered(&self) -> bool {
        let first = self.first();
        (first..first + self.entries.len() as u64).contains(&self.next)
    }

    /// Fetches the batch with the next entry; false at the end.
    fn load(&mut self) -> Result<bool> {
        if self.next < self.names.len() as u64 {
            match self.end_before_other_batch() {
                Some(end) if end.is_end() => return Ok(false),
                Some(end) => {
                    self.next = self.names.len() as u64;
                    self.add(end)?;
                }
                None => self.reload()?,
            }
        }
        while !self.is_buffered() {
            let start = self.batches.last().map_or(Anchor::Start, |last| last.end.clone());
            if start.is_end() {
                return Ok(false);
            }
            self.add(start)?;
        }
        Ok(true)
    }

    /// The end of the current batch, if the stream continues there, and the next numbers are those of another part of the
    /// directory.
    fn end_before_other_batch(&self) -> Option<Anchor> {
        let (batch, other) = (self.batches.get(self.current)?, self.batches.get(self.current + 1)?);
        let continues = self.next == other.first && !self.entries.is_empty();
        (continues && other.start != batch.end).then(|| batch.end.clone())
    }

    /// Fetches the batch at an anchor. Its entries get new numbers.
    fn add(&mut self, start: Anchor) -> Result<()> {
        let (first, mut end) = (self.names.len() as u64, start.clone());
        self.entries = self.node.read_entries(&mut end, LIST_BATCH, self.is_shown)?;
        self.names.extend(self.entries.iter().map(hash));
        self.current = self.batches.len();
        self.batches.push(Batch { first, start, end });
        Ok(())
    }

    /// Fetches an earlier batch again, which has the next entry. If its entries have changed, they get new numbers, and
    /// the stream continues after the last entry before its position that still exists.
    fn reload(&mut self) -> Result<()> {
        let index =
            self.batches.partition_point(|batch| batch.first <= self.next).saturating_sub(1);
        let Some(Batch { first, start, .. }) = self.batches.get(index).cloned() else {
            return Ok(());
        };
        let end = self.batches.get(index + 1).map_or(self.names.len(), |next| next.first as usize);
        let known = self.names[first as usize..end].to_vec();
        self.add(start)?;
        let added = self.first() as usize;
        let names = &self.names[added..];
        if names == known {
            self.names.truncate(added);
            self.batches.pop();
            self.current = index;
            return Ok(());
        }
        let mut before = known[..(self.next - first) as usize].iter().rev();
        let last = before.find_map(|name| names.iter().position(|found| found == name));
        self.next = (added + last.map_or(0, |at| at + 1)) as u64;
        Ok(())
    }
}
