//! Blocks of an index: their positions, and the parts of them that are allocated.
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

pub(super) fn allocation_error(error: std::io::Error) -> Error {
    Error::io("allocating space of an index", &error)
}

/// State of a target for moving space between its index and its data.
pub(crate) struct IndexSpace {
    /// The file of the index.
    pub(super) file: File,
    /// True if the pool is on a read-only file system.
    pub(super) read_only: bool,
    pub(super) blocks: u32,
    pub(super) block_bytes: u64,
    /// Number of segments of the target.
    pub(super) segments: u32,
    /// Number of blocks with the total size of a segment.
    pub(super) per_segment: u32,
    /// Held by the thread that moves space. It excludes other threads, which file locks do not.
    pub(super) turn: Mutex<()>,
    /// The last failed attempts to create blocks: without moving entries, and with it.
    pub(super) tried: [FailedAttempt; 2],
    /// Transaction id from which on the index may grow before it is full.
    pub(super) growth_pause: AtomicU64,
    /// Transaction id from which on the index may grow before it uses the end of its file.
    pub(super) early_pause: AtomicU64,
}

/// A failed attempt to create blocks, because free pages were not adjacent.
#[derive(Default)]
pub(super) struct FailedAttempt {
    /// Number of free pages at the time of the attempt.
    free: AtomicU64,
    /// Transaction id from which on another attempt is made with the same number of free pages.
    pause: AtomicU64,
}

impl FailedAttempt {
    /// True if another attempt may succeed: since the failed one, more than `pages` pages have become free, or its
    /// pause has ended by transaction id `now`.
    pub(super) fn may_retry(&self, free: u64, pages: u64, now: u64) -> bool {
        free > self.free.load(Ordering::Relaxed) + pages
            || now >= self.pause.load(Ordering::Relaxed)
    }

    /// Records a failed attempt with `free` free pages. `pause` is the transaction id at which its pause ends.
    pub(super) fn record(&self, free: u64, pause: u64) {
        self.free.store(free, Ordering::Relaxed);
        self.pause.store(pause, Ordering::Relaxed);
    }
}

pub(super) fn block_key(number: u32) -> Key {
    Key::table(Table::Block).push(&number.to_be_bytes())
}

/// Length of the value of a block of `block_bytes` bytes, whose first page begins with a header of LMDB.
pub(super) fn value_len(block_bytes: u64) -> usize {
    block_bytes as usize - PAGE_HEADER
}

/// Puts all blocks into a new index, in which LMDB uses pages in order. Its file has only the first page of each block
/// allocated, and the space of the index itself.
pub(crate) fn make_blocks(index: &Arc<Index>, file: &File, superblock: &Superblock) -> Result<()> {
    /// Number of blocks per commit.
    const BATCH: usize = 1024;
    /// Number of pages that LMDB may need for its tree between two blocks.
    const BETWEEN: u64 = 16;
    let (page, bytes) = (PAGE as u64, superblock.block_bytes);
    let mut end = 0;
    let numbers: Vec<u32> = (0..superblock.blocks).collect();
    for batch in numbers.chunks(BATCH) {
        let mut txn = index.write_alone()?;
        for number in batch {
            sys::reserve(file, end, BETWEEN * page).map_err(allocation_error)?;
            let first = txn.reserve(&block_key(*number), value_len(bytes))?;
            end = first * page + bytes;
        }
        sys::reserve(file, end, BETWEEN * page).map_err(allocation_error)?;
        txn.commit()?;
        end += BETWEEN * page;
    }
    sys::reserve(file, end, superblock.index_file_bytes().saturating_sub(end))
        .map_err(allocation_error)?;
    let txn = index.read()?;
    for number in 0..superblock.blocks {
        if let Some(hole) = inside(&txn, number, bytes)? {
            sys::punch(file, hole.start, hole.end - hole.start).map_err(allocation_error)?;
        }
    }
    Ok(())
}

/// Range of a block of `bytes` bytes in the file of the index, without its first page; `None` if the block does not
/// exist.
pub(super) fn inside(txn: &Txn, number: u32, bytes: u64) -> Result<Option<Range<u64>>> {
    let Some(page) = txn.page_of(&block_key(number))? else { return Ok(None) };
    let begin = page * PAGE as u64;
    Ok(Some(begin + PAGE as u64..begin + bytes))
}

impl IndexSpace {
    /// Opens the state; `None` if index and data have fixed sizes.
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

    /// Allocates the pages of a block; returns false if the file system is full.
    pub(super) fn allocate_block(&self, txn: &Txn, number: u32) -> Result<bool> {
        let Some(hole) = inside(txn, number, self.block_bytes)? else { return Ok(false) };
        let done = sys::try_reserve(&self.file, &hole).map_err(allocation_error)?;
        if !done {
            self.punch_block(txn, number)?;
        }
        Ok(done)
    }

    /// Releases the space of a block.
    pub(super) fn punch_block(&self, txn: &Txn, number: u32) -> Result<()> {
        let Some(hole) = inside(txn, number, self.block_bytes)? else { return Ok(()) };
        sys::punch(&self.file, hole.start, hole.end - hole.start)
            .map_err(|error| Error::io("releasing a block of the index", &error))
    }
}
