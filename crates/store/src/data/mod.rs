//! The data file of a target: its segments, one after the other.
pub(crate) mod header;
pub(crate) mod table;

use crate::format::superblock::Superblock;
use crate::io::folder::Folder;
use crate::io::huge::{HUGE, Pace};
use crate::io::map::Map;
use crate::io::pin::{Pin, ReadMap};
use crate::io::{huge, lock, sys};
use esker_types::checksum::Summing;
use esker_types::info::Medium;
use esker_types::limits::CHECKSUM_CHUNK;
use esker_types::ops::Source;
use esker_types::{Checksum, Error, ErrorKind, Result};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Bytes read at a time, few enough to be in cache when they are summed. More if each run costs a system call.
const RUN_MAPPED: usize = CHECKSUM_CHUNK;
const RUN_CALLED: usize = 16 * CHECKSUM_CHUNK;

/// Bytes written at a time: fewer, since source and copy share the cache.
const STORED_MAPPED: u64 = 8 << 10;
const STORED_CALLED: u64 = 128 << 10;

/// How much longer a write that waits for a segment may take for huge pages.
const LONGER_MAX: Duration = Duration::from_millis(2);

/// Its name in the directory of a target.
pub(crate) const NAME: &str = "data";

/// An open data file. It is mapped if the medium is memory.
pub(crate) struct Data {
    file: File,
    map: Option<Map>,
    bytes: u64,
    /// For views; mapped by the first one.
    read_map: Mutex<Option<Arc<ReadMap>>>,
}

impl Data {
    /// Opens the file in the directory of a target.
    pub(crate) fn open(target: &Folder, superblock: &Superblock) -> Result<Self> {
        let bytes = superblock.data_file_bytes();
        let path = target.path().join(NAME);
        let failed = |error| Error::io(format_args!("opening {}", path.display()), &error);
        let file = target.file(NAME, target.most(), superblock.file_permissions())?;
        if file.metadata().map_err(failed)?.len() < bytes {
            let message = format!("{} is truncated: run `esker pool check`", path.display());
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        let mapped = superblock.medium == Medium::Memory && !target.is_read_only();
        let map = mapped.then(|| Map::new(&file, 0, bytes as usize)).transpose().map_err(failed)?;
        Ok(Self { file, map, bytes, read_map: Mutex::default() })
    }

    /// True if the medium is memory, so that the file is mapped.
    pub(crate) fn is_mapped(&self) -> bool {
        self.map.is_some()
    }

    /// Bytes to read at a time.
    pub(crate) fn run(&self) -> usize {
        if self.map.is_some() { RUN_MAPPED } else { RUN_CALLED }
    }

    /// Writes the header in `scratch`, and the `part` of `source` behind it. The checksums are over the bytes that were
    /// stored, not over the source, which another thread or process may change at any time.
    pub(crate) fn write(
        &self,
        offset: u64,
        scratch: &mut Vec<u8>,
        source: Source<'_>,
        part: Range<u64>,
        (checksum, sums): (Checksum, &mut impl Extend<u8>),
    ) -> Result<()> {
        match &self.map {
            Some(map) if checksum == Checksum::Crc32c && Map::can_sum() => {
                write_summed(map, offset, scratch, source, part, sums)
            }
            _ => self.write_runs(offset, scratch, source, part, checksum.summing(sums)),
        }
    }

    /// Writes run by run; each is summed in `scratch` after it was written.
    fn write_runs(
        &self,
        mut offset: u64,
        scratch: &mut Vec<u8>,
        source: Source<'_>,
        mut part: Range<u64>,
        mut summing: Summing<'_, impl Extend<u8>>,
    ) -> Result<()> {
        let step = if self.map.is_some() { STORED_MAPPED } else { STORED_CALLED };
        while !part.is_empty() {
            let (header, len) = (scratch.len(), step.min(part.end - part.start));
            self.write_run(offset, scratch, source, (part.start, len))?;
            summing.add(&scratch[header..]);
            part.start += len;
            offset += scratch.len() as u64;
            scratch.clear();
        }
        summing.finish();
        self.map.iter().for_each(Map::fence);
        Ok(())
    }

    /// Writes `scratch` and some bytes of a source, which are appended to `scratch`.
    fn write_run(
        &self,
        offset: u64,
        scratch: &mut Vec<u8>,
        source: Source<'_>,
        (from, len): (u64, u64),
    ) -> Result<()> {
        let Some(map) = &self.map else {
            source.visit(from, len, |piece| scratch.extend_from_slice(piece));
            let written = self.file.write_all_at(scratch, offset);
            return written.map_err(|error| Error::io("writing a segment", &error));
        };
        let mut fits = map.write(offset, scratch);
        source.visit(from, len, |piece| {
            fits = fits && map.write_keeping(offset + scratch.len() as u64, piece, scratch);
        });
        fits.then_some(()).ok_or_else(outside)
    }

    /// Fills `bytes` from `offset` on.
    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        match &self.map {
            Some(map) => map.read(offset, bytes).then_some(()).ok_or_else(outside),
            None => self
                .file
                .read_exact_at(bytes, offset)
                .map_err(|error| Error::io("reading a segment", &error)),
        }
    }

    /// Prepares pages that are about to be written.
    pub(crate) fn prepare(&self, offset: u64, len: usize) {
        if let Some(map) = &self.map {
            map.populate(offset, len);
        }
    }

    /// Pins the `len` bytes at `begin`: they keep their content. `None` if they cannot be used in place. They cannot on
    /// a disk: the kernel may read them again after they were verified, and a failing medium would kill the process.
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

    fn read_map(&self) -> io::Result<Arc<ReadMap>> {
        let mut known = self.read_map.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(map) = &*known {
            return Ok(Arc::clone(map));
        }
        let map = Arc::new(ReadMap::new(&self.file, self.bytes as usize)?);
        Ok(Arc::clone(known.insert(map)))
    }

    /// True if some process has pinned the bytes at `begin`, or that is unknown.
    pub(crate) fn is_pinned(&self, begin: u64) -> bool {
        self.is_mapped() && lock::held_by_other(&self.file, begin).unwrap_or(true)
    }

    /// Reserves space for a part of the file; false if the file system has no room.
    pub(crate) fn reserve(&self, part: &Range<u64>) -> Result<bool> {
        let reserved = match self.map {
            Some(_) => huge::reserve(&self.file, part, &Pace::of(LONGER_MAX)),
            None => sys::reserve(&self.file, part.start, part.end - part.start),
        };
        sys::has_room(reserved).map_err(|error| Error::io("reserving a segment", &error))
    }

    /// Moves the bytes at `place`, which must not be a hole, into a huge page. If `urgent`, it takes no longer than
    /// [`Data::reserve`].
    pub(crate) fn gather(&self, place: u64, urgent: bool) {
        let pace = if urgent { Pace::of(LONGER_MAX) } else { Pace::ANY };
        huge::gather(&self.file, &(place..place + HUGE), &pace);
    }

    /// Bytes in huge pages, of those that begin at `places`, none of which may be a hole.
    pub(crate) fn huge_bytes(&self, places: &[u64]) -> Result<u64> {
        let counted = huge::count(&self.file, places.iter().copied());
        counted.map_err(|error| Error::io("looking for huge pages", &error))
    }

    /// Releases the space of a part of the file.
    pub(crate) fn give_up(&self, part: &Range<u64>) -> Result<()> {
        sys::punch(&self.file, part.start, part.end - part.start)
            .map_err(|error| Error::io("giving up a segment", &error))
    }

    /// Waits until all that was written is on the medium.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| Error::io("syncing a segment", &error))
    }
}

/// As [`Data::write`], chunk by chunk. Each byte is read once, into a register that is stored and summed.
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
    fits.then_some(()).ok_or_else(outside)
}

fn outside() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "the index refers to bytes outside the data file: run `esker pool check`",
    )
}
