//! Blocks of an index: where they are, and which parts of them exist.
use crate::format::keys::{Key, Table};
use crate::format::superblock::{PAGE, Superblock};
use crate::index::lmdb::{DATA, Index};
use crate::index::txn::{PAGE_HEADER, Txn};
use crate::io::folder::Folder;
use crate::io::sys;
use esker_types::{Error, Result};
use std::fs::File;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub(super) fn not_reserved(error: std::io::Error) -> Error {
    Error::io("reserving space of an index", &error)
}

/// State of a target for moving space between its index and its data.
pub(crate) struct Lending {
    /// The file of the index.
    pub(super) file: File,
    /// The pool is on a read-only file system.
    pub(super) read_only: bool,
    pub(super) blocks: u32,
    pub(super) block_bytes: u64,
    /// Number of segments of the target.
    pub(super) segments: u32,
    /// Number of blocks that take the space of a segment.
    pub(super) per_segment: u32,
    /// Held by the thread that moves space: file locks do not exclude threads of one process.
    pub(super) turn: Mutex<()>,
    /// The last failed attempts to make blocks: without moving pages, and with moving them.
    pub(super) tried: [Tried; 2],
    /// Number of the first transaction that may let the index grow before it is full.
    pub(super) growth_pause: AtomicU64,
    /// Number of the first transaction that may let it grow before it uses the end of its file.
    pub(super) early_pause: AtomicU64,
}

/// A failed attempt to make blocks: free pages were not adjacent.
#[derive(Default)]
pub(super) struct Tried {
    /// Number of free pages at that time.
    free: AtomicU64,
    /// Number of the first transaction that may try again with as many.
    pause: AtomicU64,
}

impl Tried {
    /// True if another attempt may succeed: more pages are free, or it was long ago.
    pub(super) fn is_new(&self, free: u64, pages: u64, now: u64) -> bool {
        free > self.free.load(Ordering::Relaxed) + pages
            || now >= self.pause.load(Ordering::Relaxed)
    }

    pub(super) fn failed(&self, free: u64, pause: u64) {
        self.free.store(free, Ordering::Relaxed);
        self.pause.store(pause, Ordering::Relaxed);
    }
}

pub(super) fn block_key(number: u32) -> Key {
    Key::table(Table::Block).push(&number.to_be_bytes())
}

/// Length of the value of a block, whose first page has a header of LMDB.
pub(super) fn value_len(block_bytes: u64) -> usize {
    block_bytes as usize - PAGE_HEADER
}

/// Puts all blocks into a new index, where LMDB uses pages in order. In its file, only the first page of each block
/// is reserved, and what the index needs for itself.
pub(crate) fn make_blocks(index: &Arc<Index>, file: &File, superblock: &Superblock) -> Result<()> {
    /// Blocks per commit.
    const BATCH: usize = 1024;
    /// Pages that LMDB may need for its tree between two blocks.
    const BETWEEN: u64 = 16;
    let (page, bytes) = (PAGE as u64, superblock.block_bytes);
    let mut end = 0;
    let numbers: Vec<u32> = (0..superblock.blocks).collect();
    for batch in numbers.chunks(BATCH) {
        let mut txn = index.write_alone()?;
        for number in batch {
            sys::reserve(file, end, BETWEEN * page).map_err(not_reserved)?;
            let first = txn.reserve(&block_key(*number), value_len(bytes))?;
            end = first * page + bytes;
        }
        sys::reserve(file, end, BETWEEN * page).map_err(not_reserved)?;
        txn.commit()?;
        end += BETWEEN * page;
    }
    sys::reserve(file, end, superblock.index_file_bytes().saturating_sub(end))
        .map_err(not_reserved)?;
    let txn = index.read()?;
    for number in 0..superblock.blocks {
        if let Some(hole) = inside(&txn, number, bytes)? {
            sys::punch(file, hole.start, hole.end - hole.start).map_err(not_reserved)?;
        }
    }
    Ok(())
}

/// Position of a block in the file of the index, without its first page; `None` if it does not exist.
pub(super) fn inside(txn: &Txn, number: u32, bytes: u64) -> Result<Option<Range<u64>>> {
    let Some(page) = txn.page_of(&block_key(number))? else { return Ok(None) };
    let begin = page * PAGE as u64;
    Ok(Some(begin + PAGE as u64..begin + bytes))
}

impl Lending {
    /// `None` if index and data have fixed shares.
    pub(crate) fn open(index: &Folder, superblock: &Superblock) -> Result<Option<Self>> {
        if superblock.blocks == 0 {
            return Ok(None);
        }
        let file = index.file(DATA, index.most(), superblock.file_permissions())?;
        Ok(Some(Self {
            file,
            read_only: index.is_read_only(),
            blocks: superblock.blocks,
            block_bytes: superblock.block_bytes,
            segments: superblock.segments,
            per_segment: (superblock.segment_bytes / superblock.block_bytes) as u32,
            turn: Mutex::default(),
            tried: Default::default(),
            growth_pause: AtomicU64::new(0),
            early_pause: AtomicU64::new(0),
        }))
    }

    pub(super) fn pages(&self) -> u64 {
        self.block_bytes / PAGE as u64
    }

    /// Number of pages of an index file of `bytes` bytes that are not in blocks.
    pub(super) fn initial_pages(&self, bytes: u64) -> u64 {
        (bytes / PAGE as u64).saturating_sub(u64::from(self.blocks) * self.pages())
    }

    /// Reserves the pages of a block; false if the file system has no room.
    pub(super) fn back(&self, txn: &Txn, number: u32) -> Result<bool> {
        let Some(hole) = inside(txn, number, self.block_bytes)? else { return Ok(false) };
        let done = sys::try_reserve(&self.file, &hole).map_err(not_reserved)?;
        if !done {
            self.give_up(txn, number)?;
        }
        Ok(done)
    }

    /// Releases the space of a block.
    pub(super) fn give_up(&self, txn: &Txn, number: u32) -> Result<()> {
        let Some(hole) = inside(txn, number, self.block_bytes)? else { return Ok(()) };
        sys::punch(&self.file, hole.start, hole.end - hole.start)
            .map_err(|error| Error::io("giving up a part of the index", &error))
    }
}
