//! The data file of a target: an array of segments.
pub(crate) mod header;
pub(crate) mod redo_log;
pub(crate) mod table;

use self::header::{HEADER_MAX, Header};
use crate::format::superblock::{REDO_LOG_BYTES, Superblock};
use crate::io::folder::{Folder, missing_part_error};
use crate::io::huge::{HUGE, TimeLimit};
use crate::io::map::Map;
use crate::io::page_cache::{self, CachedMap, LazyCachedMap};
use crate::io::pin::{Pin, ReadMap};
use crate::io::{huge, lock, sys};
use esker_types::checksum::Summing;
use esker_types::info::{Durability, Medium};
use esker_types::limits::CHECKSUM_CHUNK;
use esker_types::ops::Source;
use esker_types::{Checksum, Error, ErrorKind, Result};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Bytes that are read and verified at a time. They fit into the cache. A read by system call is longer, since each
/// call has a cost.
const READ_MAPPED: usize = CHECKSUM_CHUNK;
const READ_SYSCALL: usize = 16 * CHECKSUM_CHUNK;

/// Bytes that are written at a time. They are fewer, since source and copy share the cache.
const WRITE_MAPPED: u64 = 8 << 10;
const WRITE_SYSCALL: u64 = 128 << 10;

/// Time limit for allocating huge pages while a writer waits for its segment.
const HUGE_PAGE_TIME_MAX: Duration = Duration::from_millis(2);

/// File name in the directory of a target.
pub(crate) const NAME: &str = "data";

/// An open data file. It is mapped if the medium is memory.
pub(crate) struct Data {
    file: File,
    map: Option<Map>,
    /// Mapping of a file on a disk, which is used where its pages are in memory.
    cached: LazyCachedMap,
    /// True if commits sync the file.
    is_synced: bool,
    /// A sync has failed.
    lost_writes: AtomicBool,
    /// The next sync fails, for tests.
    #[cfg(test)]
    pub(crate) fail_next_sync: AtomicBool,
    /// Bytes of all segments. The redo log follows them.
    bytes: u64,
    /// Read-only mapping for zero-copy views. The first view creates it.
    read_map: Mutex<Option<Arc<ReadMap>>>,
}

impl Data {
    /// Opens the file in the directory of a target.
    pub(crate) fn open(target: &Folder, superblock: &Superblock) -> Result<Self> {
        let (bytes, log_bytes) = (superblock.data_file_bytes(), superblock.redo_log_bytes());
        let path = target.path().join(NAME);
        let failed = |error| Error::io(format_args!("opening {}", path.display()), &error);
        let file = target.file(NAME, target.most(), superblock.file_permissions());
        let file = file.map_err(missing_part_error)?;
        if file.metadata().map_err(failed)?.len() < bytes + log_bytes {
            let message = format!("{} is truncated: run `esker pool check`", path.display());
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        let mapped = superblock.medium == Medium::Memory && !target.is_read_only();
        let map = mapped.then(|| Map::new(&file, 0, bytes as usize)).transpose().map_err(failed)?;
        let can_write = !target.is_read_only() && can_write_to_mapping(&file, superblock);
        let cached = LazyCachedMap::new(bytes, can_write);
        let is_synced = superblock.durability == Durability::Commit;
        Ok(Self {
            file,
            map,
            cached,
            is_synced,
            lost_writes: AtomicBool::new(false),
            #[cfg(test)]
            fail_next_sync: AtomicBool::new(false),
            bytes,
            read_map: Mutex::default(),
        })
    }

    /// True if the medium is memory, so that the file is mapped.
    pub(crate) fn is_mapped(&self) -> bool {
        self.map.is_some()
    }

    /// A reader of `len` bytes at `offset`.
    pub(crate) fn reader(&self, offset: u64, len: u64) -> Reader<'_> {
        let cached = || self.cached.get(&self.file, len)?.to_read(offset, len);
        Reader { map: self.map.as_ref().or_else(cached), file: &self.file }
    }

    /// Writes the header in `scratch`, followed by the `part` of `source`, at `offset`. `sums` gets the checksums of
    /// the chunks. They cover the bytes that were stored, not the source, which another thread or process may change at
    /// any time. `has_hole` tells whether a range of the file contains a segment of the index, which must stay a hole.
    pub(crate) fn write(
        &self,
        has_hole: impl Fn(Range<u64>) -> bool,
        offset: u64,
        scratch: &mut Vec<u8>,
        source: Source<'_>,
        part: Range<u64>,
        (checksum, sums): (Checksum, &mut impl Extend<u8>),
    ) -> Result<()> {
        let len = scratch.len() as u64 + (part.end - part.start);
        let cached = || {
            let cached = self.cached.get(&self.file, len)?;
            let is_whole = !has_hole(page_cache::chunks_around(offset, len));
            is_whole.then(|| cached.to_write(&self.file, offset, len))?
        };
        let map = self.map.as_ref().or_else(cached);
        match map {
            Some(map) if checksum == Checksum::Crc32c && Map::can_sum() => {
                write_summed(map, offset, scratch, source, part, sums)
            }
            _ => self.write_runs(map, offset, scratch, source, part, checksum.summing(sums)),
        }
    }

    /// Writes in steps. The bytes of each step are copied to `scratch`, and the copy is summed. If a commit is going to
    /// sync them, the disk begins to store each step while the next one is copied.
    fn write_runs(
        &self,
        map: Option<&Map>,
        mut offset: u64,
        scratch: &mut Vec<u8>,
        source: Source<'_>,
        mut part: Range<u64>,
        mut summing: Summing<'_, impl Extend<u8>>,
    ) -> Result<()> {
        let step = if map.is_some() { WRITE_MAPPED } else { WRITE_SYSCALL };
        let store_early = self.is_synced && map.is_none() && part.end - part.start > step;
        while !part.is_empty() {
            let (header, len) = (scratch.len(), step.min(part.end - part.start));
            self.write_run(map, offset, scratch, source, (part.start, len))?;
            summing.add(&scratch[header..]);
            if store_early {
                sys::start_write_out(&self.file, offset, scratch.len() as u64);
            }
            part.start += len;
            offset += scratch.len() as u64;
            scratch.clear();
        }
        summing.finish();
        map.into_iter().for_each(Map::fence);
        Ok(())
    }

    /// Writes `scratch` at `offset`, followed by `len` bytes of a source, from its byte `from` on, which are appended
    /// to `scratch`.
    fn write_run(
        &self,
        map: Option<&Map>,
        offset: u64,
        scratch: &mut Vec<u8>,
        source: Source<'_>,
        (from, len): (u64, u64),
    ) -> Result<()> {
        let Some(map) = map else {
            source.visit(from, len, |piece| scratch.extend_from_slice(piece));
            let written = self.file.write_all_at(scratch, offset);
            return written.map_err(|error| Error::io("writing a segment", &error));
        };
        let mut fits = map.write(offset, scratch);
        source.visit(from, len, |piece| {
            fits = fits && map.write_keeping(offset + scratch.len() as u64, piece, scratch);
        });
        fits.then_some(()).ok_or_else(out_of_bounds_error)
    }

    /// Reads bytes at `offset` until `bytes` is full.
    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        Reader { map: self.map.as_ref(), file: &self.file }.read(offset, bytes)
    }

    /// The header at `offset`, of which at most `len` bytes are read. `None` if there is none.
    pub(crate) fn header(&self, offset: u64, len: u64) -> Result<Option<Header>> {
        let mut bytes = vec![0; HEADER_MAX.min(len as usize)];
        self.read(offset, &mut bytes)?;
        Ok(Header::decode(&bytes))
    }

    /// Populates the page table for `len` bytes at `offset` that are about to be written.
    pub(crate) fn prepare(&self, offset: u64, len: usize) {
        if let Some(map) = &self.map {
            map.populate(offset, len);
        }
    }

    /// Writes zeros to a part of the file that is about to be written in small pieces, if commits sync the file and
    /// nothing was ever written there. A sync of such space takes twice as long, since the block map of the file
    /// changes. Here it changes once for the whole part. An error only means that later syncs take longer.
    pub(crate) fn write_ahead(&self, part: &Range<u64>) {
        let is_new = || {
            sys::is_unwritten(&self.file, part).unwrap_or(false)
                && sys::overwrites_in_place(&self.file).unwrap_or(false)
        };
        if self.is_synced && self.map.is_none() && !part.is_empty() && is_new() {
            let zeros = vec![0; (part.end - part.start) as usize];
            let _ = self.file.write_all_at(&zeros, part.start);
        }
    }

    /// Pins the `len` bytes at `begin`, so that their content does not change. Returns `None` if they are on a disk.
    /// There the kernel may read them again after they were verified, and an error of the medium would kill the
    /// process.
    pub(crate) fn pin(&self, begin: u64, len: u64) -> Result<Option<Pin>> {
        if !self.is_mapped() {
            return Ok(None);
        }
        let segment = begin as usize..(begin + len) as usize;
        match self.read_map().and_then(|map| Pin::new(&self.file, map, segment)) {
            Ok(pin) => Ok(Some(pin)),
            Err(error) => Err(Error::io("mapping a segment for reading", &error)),
        }
    }

    /// The mapping for views, which is made at the first use.
    fn read_map(&self) -> io::Result<Arc<ReadMap>> {
        let mut known = self.read_map.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(map) = &*known {
            return Ok(Arc::clone(map));
        }
        let map = Arc::new(ReadMap::new(&self.file, self.bytes as usize)?);
        Ok(Arc::clone(known.insert(map)))
    }

    /// True if some process has pinned the bytes at `begin`. True also if that cannot be determined.
    pub(crate) fn is_pinned(&self, begin: u64) -> bool {
        self.is_mapped() && lock::held_by_other(&self.file, begin).unwrap_or(true)
    }

    /// Allocates space for a range of the file that is a hole. Returns false if the file system is full. Then nothing
    /// is allocated.
    pub(crate) fn reserve(&self, part: &Range<u64>) -> Result<bool> {
        let reserved = match self.map {
            Some(_) => {
                huge::reserve(&self.file, part, &TimeLimit::from_duration(HUGE_PAGE_TIME_MAX))
            }
            // ext4 and XFS keep what they allocated before an error.
            None => sys::reserve(&self.file, part.start, part.end - part.start)
                .inspect_err(|_| drop(self.punch(part))),
        };
        sys::has_room(reserved).map_err(|error| Error::io("reserving a segment", &error))
    }

    /// Moves the bytes at `offset`, which must not be a hole, into a huge page. If `urgent`, the time limit of
    /// [`Data::reserve`] applies.
    pub(crate) fn collapse(&self, offset: u64, urgent: bool) {
        let limit =
            if urgent { TimeLimit::from_duration(HUGE_PAGE_TIME_MAX) } else { TimeLimit::NONE };
        huge::collapse(&self.file, &(offset..offset + HUGE), &limit);
    }

    /// Counts the bytes in huge pages among those that begin at `offsets`. None of these may be a hole.
    pub(crate) fn huge_bytes(&self, offsets: &[u64]) -> Result<u64> {
        let counted = huge::count(&self.file, offsets.iter().copied());
        counted.map_err(|error| Error::io("counting huge pages", &error))
    }

    /// Punches a hole: releases the space of a range of the file.
    pub(crate) fn punch(&self, part: &Range<u64>) -> Result<()> {
        sys::punch(&self.file, part.start, part.end - part.start)
            .map_err(|error| Error::io("releasing a segment", &error))
    }

    /// True if this process has found a part of a file on a disk in memory.
    #[cfg(test)]
    pub(crate) fn has_cached_chunks(&self) -> bool {
        self.cached.get(&self.file, 0).is_some_and(CachedMap::has_cached_chunks)
    }

    /// Writes entries to the redo log, which is behind the segments, and waits until all written bytes are on the medium.
    pub(crate) fn log(&self, batch: redo_log::Batch) -> Result<()> {
        let (at, entries) = batch.into_part();
        self.write_log(at, &entries)
    }

    /// Overwrites the redo log from position `from` on with zeros, and waits until they are on the medium. Entries there
    /// were not acknowledged, and must not be found after the next restart either.
    pub(crate) fn erase_redo_log(&self, from: usize) -> Result<()> {
        let zeros = vec![0; (REDO_LOG_BYTES as usize).saturating_sub(from)];
        self.write_log(from as u64, &zeros)
    }

    /// Writes to the redo log at position `at`, and waits until all written bytes are on the medium.
    fn write_log(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_all_at(bytes, self.bytes + at);
        written.map_err(|error| Error::io("writing a redo log", &error))?;
        self.sync()
    }

    /// The bytes of the redo log.
    pub(crate) fn redo_log(&self) -> Result<Vec<u8>> {
        read_redo_log(&self.file, self.bytes)
    }

    /// Waits until all written bytes are on the medium.
    ///
    /// The kernel reports an error of the medium only once, to any thread of this process, and may drop what it could not
    /// store. So after an error no later sync of this process succeeds. `Io` also if the medium is full: its space is
    /// reserved, so freeing space in the pool would not help.
    pub(crate) fn sync(&self) -> Result<()> {
        let result = self.sync_once();
        if result.is_err() {
            self.lost_writes.store(true, Ordering::Release);
        }
        if self.lost_writes.load(Ordering::Acquire) {
            let cause = result.err().map_or_else(String::new, |error| format!(": {error}"));
            let message = format!(
                "the medium of the data file did not store all that was written{cause}; close the pool, and check it \
                 (`esker pool check`) once the medium is sound"
            );
            return Err(Error::new(ErrorKind::Io, message));
        }
        Ok(())
    }

    fn sync_once(&self) -> io::Result<()> {
        #[cfg(test)]
        if self.fail_next_sync.swap(false, Ordering::AcqRel) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.sync_data()
    }
}

/// The bytes of the redo log behind the segments of a data file, which end at `at`.
pub(crate) fn read_redo_log(file: &File, at: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; REDO_LOG_BYTES as usize];
    let read = file.read_exact_at(&mut bytes, at);
    read.map(|()| bytes).map_err(|error| Error::io("reading a redo log", &error))
}

/// True if segments on a disk may be written through a mapping: without syncs, and if stray pointers of the host
/// program may reach mapped pages of the pool.
fn can_write_to_mapping(file: &File, superblock: &Superblock) -> bool {
    superblock.medium == Medium::Block
        && superblock.durability == Durability::Process
        && !superblock.guarded
        && CachedMap::can_write(file)
}

/// A reader of a part of a data file.
pub(crate) struct Reader<'d> {
    map: Option<&'d Map>,
    file: &'d File,
}

impl Reader<'_> {
    /// Number of bytes to read at a time.
    pub(crate) fn step(&self) -> usize {
        if self.map.is_some() { READ_MAPPED } else { READ_SYSCALL }
    }

    /// Reads bytes at `offset` until `bytes` is full.
    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        match self.map {
            Some(map) => map.read(offset, bytes).then_some(()).ok_or_else(out_of_bounds_error),
            None => self
                .file
                .read_exact_at(bytes, offset)
                .map_err(|error| Error::io("reading a segment", &error)),
        }
    }
}

impl Reader<'_> {
    /// Reads one chunk at `offset`, or the end of one, and returns its CRC-32C, which is that of the bytes that were read
    /// even if another thread changes `bytes` meanwhile. Returns `None`, without any change, if that takes two passes.
    pub(crate) fn read_summed(&self, offset: u64, bytes: &mut [u8]) -> Result<Option<u32>> {
        match self.map {
            Some(map) if Map::can_sum() => {
                // A CRC-32C starts with all bits set and is inverted at the end.
                let sum = map.read_summed(offset, bytes, !0).ok_or_else(out_of_bounds_error)?;
                Ok(Some(!sum))
            }
            _ => Ok(None),
        }
    }
}

/// Variant of [`Data::write`] that reads each byte once, into a register that is both stored and summed.
fn write_summed(
    map: &Map,
    offset: u64,
    scratch: &[u8],
    source: Source<'_>,
    part: Range<u64>,
    sums: &mut impl Extend<u8>,
) -> Result<()> {
    let mut fits = map.write(offset, scratch);
    let mut offset = offset + scratch.len() as u64;
    for begin in part.clone().step_by(CHECKSUM_CHUNK) {
        let (mut sum, len) = (!0, (part.end - begin).min(CHECKSUM_CHUNK as u64));
        source.visit(begin, len, |piece| {
            let next = map.write_summed(offset, piece, sum);
            fits = fits && next.is_some();
            sum = next.unwrap_or_default();
            offset += piece.len() as u64;
        });
        sums.extend((!sum).to_le_bytes());
    }
    map.fence();
    fits.then_some(()).ok_or_else(out_of_bounds_error)
}

fn out_of_bounds_error() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "the index refers to bytes outside the data file: run `esker pool check`",
    )
}
