//! A file of array records: one page with a header, then the records from index 0 on, without gaps.
//!
//! Records are written in place. The length of the file determines how many there are.
use super::files::{Files, damaged, io_error, none_if_missing, read_at, read_through, retry};
use esker_backend::encoding::{Parts, begin, finish, put_bytes, put_u64};
use esker_os::{close, open_plain};
use esker_types::ops::Source;
use esker_types::{Error, ErrorKind, Extent, Result};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"ESKRCHNK";
/// Offset of the first record. Records keep the alignment that they have in memory.
pub(super) const HEADER_BYTES: u64 = 4096;
/// Attempts to read a header that another process is writing.
const TORN_TRIES: u32 = 100;
/// Number of zeros written at a time.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The header in front of the records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    /// Record size in bytes; 0 before the first record.
    pub(super) record_size: u64,
    /// The single value of dkey 0.
    pub(super) value: Option<Vec<u8>>,
}

impl Header {
    /// The header as the first page of a file, which ends with a checksum.
    fn to_page(&self) -> Vec<u8> {
        let mut out = begin(MAGIC);
        put_u64(&mut out, self.record_size);
        put_u64(&mut out, u64::from(self.value.is_some()));
        put_bytes(&mut out, self.value.as_deref().unwrap_or_default());
        out.resize(HEADER_BYTES as usize - 4, 0);
        finish(out)
    }

    /// Decodes the first page of a file; `None` if it is damaged.
    fn from_page(page: &[u8]) -> Option<Self> {
        let mut parts = Parts::open(MAGIC, page)?;
        let (record_size, has_value) = (parts.u64()?, parts.u64()? == 1);
        let value = parts.bytes()?.to_vec();
        Some(Self { record_size, value: has_value.then_some(value) })
    }
}

/// An existing chunk.
pub(super) struct Chunk {
    file: File,
    path: PathBuf,
    pub(super) header: Header,
}

impl Chunk {
    /// Opens the chunk at `path`, to change it if `write` is set; `None` if it does not exist.
    pub(super) fn open(path: &Path, write: bool) -> Result<Option<Self>> {
        let opened = retry(path, || open_plain(path, write));
        let opened = none_if_missing(opened).map_err(|error| io_error("opening", path, &error))?;
        let Some(file) = opened else { return Ok(None) };
        let header = read_header(&file, path)?;
        Ok(Some(Self { file, path: path.to_owned(), header }))
    }

    /// Creates a chunk with this header and the records of `extents`, whose bytes are `data`. False if the directory is
    /// missing.
    ///
    /// # Errors
    /// `Exists`.
    pub(super) fn create(
        files: &Files,
        path: &Path,
        header: &Header,
        extents: &[Extent],
        data: Source<'_>,
    ) -> Result<bool> {
        let byte_ranges = byte_ranges(header.record_size, extents)?;
        let page = header.to_page();
        let temporary = files.temporary(|file| {
            file.write_all_at(&page, 0)?;
            write_at(file, &byte_ranges, data)
        })?;
        files.insert(&temporary, path)
    }

    /// Creates the file of a chunk without records, and reserves the space that the records of `extents` will take.
    pub(super) fn create_reserved(
        files: &Files,
        path: &Path,
        header: &Header,
        extents: &[Extent],
    ) -> Result<()> {
        files.write_new(path, &header.to_page())?;
        reserve(path, header.record_size, extents)
    }

    /// Bytes of all records.
    fn record_bytes(&self) -> Result<u64> {
        let info =
            self.file.metadata().map_err(|error| io_error("looking at", &self.path, &error))?;
        Ok(info.len().saturating_sub(HEADER_BYTES))
    }

    /// Returns the number of complete records in the file, from its size.
    pub(super) fn records(&self) -> Result<u64> {
        Ok(self.record_bytes()?.checked_div(self.header.record_size).unwrap_or(0))
    }

    /// True if the file ends with a part of a record, which a write has left that failed or was interrupted.
    pub(super) fn has_rest(&self) -> Result<bool> {
        let rest = self.record_bytes()?.checked_rem(self.header.record_size);
        Ok(rest.is_some_and(|rest| rest > 0))
    }

    /// Epoch of the last change: the time of the file.
    pub(super) fn epoch(&self) -> Result<esker_types::Epoch> {
        let info =
            self.file.metadata().map_err(|error| io_error("looking at", &self.path, &error))?;
        Ok(super::form::epoch_of(&info))
    }

    /// Writes records in place. The first write determines the record size.
    pub(super) fn write(
        mut self,
        files: &Files,
        record_size: u64,
        extents: &[Extent],
        data: Source<'_>,
    ) -> Result<()> {
        let byte_ranges = byte_ranges(record_size, extents)?;
        if self.header.record_size == 0 || self.header.record_size != record_size {
            self.adopt(record_size)?;
        }
        let written = write_at(&self.file, &byte_ranges, data);
        written.map_err(|error| io_error("writing", &self.path, &error))?;
        self.finish(files)
    }

    /// Sets the record size of a chunk without records.
    fn adopt(&mut self, record_size: u64) -> Result<()> {
        if self.records()? > 0 {
            return Err(size_differs(record_size, self.header.record_size));
        }
        self.remove(Extent::new(0, u64::MAX))?;
        self.header.record_size = record_size;
        self.write_header()
    }

    fn write_header(&self) -> Result<()> {
        let written = self.file.write_all_at(&self.header.to_page(), 0);
        written.map_err(|error| io_error("writing", &self.path, &error))
    }

    /// Sets or removes the value of dkey 0.
    pub(super) fn set_value(mut self, files: &Files, value: Option<Vec<u8>>) -> Result<()> {
        self.header.value = value;
        self.write_header()?;
        self.finish(files)
    }

    /// Removes the records of `extent`: at the end of the file by truncating it, elsewhere by writing zeros. An
    /// incomplete record after the last one is removed with it, or if `extent` contains it.
    pub(super) fn remove(&self, extent: Extent) -> Result<()> {
        let (records, size) = (self.records()?, self.header.record_size);
        let at = |record: u64| HEADER_BYTES + record * size;
        let removed = match extent.intersect(Extent::new(0, records)) {
            Some(part) if part.end() < records => {
                write_zeros(&self.file, at(part.start), part.count * size)
            }
            Some(part) => self.file.set_len(at(part.start)),
            None if contains(extent, records) && self.has_rest()? => self.file.set_len(at(records)),
            None => Ok(()),
        };
        removed.map_err(|error| io_error("cutting", &self.path, &error))
    }

    /// Removes all records if their size is not `record_size`.
    pub(super) fn remove_unless_of_size(&self, record_size: u64) -> Result<()> {
        match self.header.record_size == record_size {
            true => Ok(()),
            false => self.remove(Extent::new(0, u64::MAX)),
        }
    }

    /// Overwrites the records of `extent` with zeros.
    pub(super) fn clear(self, files: &Files, extent: Extent) -> Result<()> {
        let size = self.header.record_size;
        let zeroed =
            write_zeros(&self.file, HEADER_BYTES + extent.start * size, extent.count * size);
        zeroed.map_err(|error| io_error("clearing", &self.path, &error))?;
        self.finish(files)
    }

    /// Reads into `buffer`, from byte `skip` after the start of record `first` on. `Again` if the records are not there
    /// any more.
    pub(super) fn read(&self, first: u64, skip: u64, buffer: &mut [u8]) -> Result<()> {
        let from = HEADER_BYTES + first * self.header.record_size + skip;
        match read_at(&self.file, &self.path, buffer, from) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(Error::new(
                ErrorKind::Again,
                format!("{} was truncated during the read: read again", self.path.display()),
            )),
            outcome => outcome.map_err(|error| io_error("reading", &self.path, &error)),
        }
    }

    /// Reads the file to its end, which finds errors of the medium.
    pub(super) fn check(&self) -> Result<()> {
        read_through(&self.file, &self.path)
    }

    /// Syncs the changes, if the pool is configured so, and closes the file, which may report that they could not be
    /// written.
    pub(super) fn finish(self, files: &Files) -> Result<()> {
        let synced = if files.fsync { self.file.sync_data() } else { Ok(()) };
        let finished = synced.and_then(|()| close(self.file));
        finished.map_err(|error| io_error("writing", &self.path, &error))
    }
}

/// Allocates space for records in a file, without changing it. Fails if the file cannot be written.
///
/// # Errors
/// `NoSpace`, `NoPermission`.
pub(super) fn reserve(path: &Path, record_size: u64, extents: &[Extent]) -> Result<()> {
    let ranges = byte_ranges(record_size, extents)?;
    let reserved = open_plain(path, true).and_then(|file| {
        ranges.iter().try_for_each(|(start, len)| esker_os::reserve(&file, *start, *len))
    });
    reserved.map_err(|error| io_error("reserving space in", path, &error))
}

/// Reads the header of a file, again if another process is rewriting it.
fn read_header(file: &File, path: &Path) -> Result<Header> {
    let mut page = vec![0; HEADER_BYTES as usize];
    for _ in 0..TORN_TRIES {
        let read = read_at(file, path, &mut page, 0);
        match read {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            read => read.map_err(|error| io_error("reading", path, &error))?,
        }
        if let Some(header) = Header::from_page(&page) {
            return Ok(header);
        }
    }
    Err(damaged(path, "the header of an array file is damaged"))
}

/// True if an extent contains a record.
pub(super) fn contains(extent: Extent, record: u64) -> bool {
    extent.intersect(Extent::new(record, 1)).is_some()
}

/// Refuses records that do not fit in a file.
///
/// # Errors
/// `Overflow`.
pub(super) fn check_range(record_size: u64, extents: &[Extent]) -> Result<()> {
    byte_ranges(record_size, extents).map(drop)
}

/// The error for records of another size than the stored ones.
#[cold]
pub(super) fn size_differs(size: u64, stored: u64) -> Error {
    let message = format!("record size {size} differs from the stored size {stored}");
    Error::new(ErrorKind::Invalid, message)
}

/// The byte position and length of each extent in the file.
fn byte_ranges(record_size: u64, extents: &[Extent]) -> Result<Vec<(u64, u64)>> {
    let position = |extent: &Extent| {
        let start = extent.start.checked_mul(record_size)?.checked_add(HEADER_BYTES)?;
        let len = extent.count.checked_mul(record_size)?;
        let end = start.checked_add(len)?;
        (end <= i64::MAX as u64).then_some((start, len))
    };
    extents
        .iter()
        .map(|extent| position(extent).ok_or_else(|| offset_too_large_error(*extent)))
        .collect()
}

#[cold]
fn offset_too_large_error(extent: Extent) -> Error {
    let message = format!(
        "records up to {} exceed the size limit of a file: use smaller chunks",
        extent.end()
    );
    Error::new(ErrorKind::Overflow, message)
}

/// Writes `data` to ranges of a file, one range after another.
fn write_at(file: &File, byte_ranges: &[(u64, u64)], data: Source<'_>) -> io::Result<()> {
    let mut offset = 0;
    for &(start, len) in byte_ranges {
        let (mut at, mut outcome) = (start, Ok(()));
        data.visit(offset, len, |piece| {
            if outcome.is_ok() {
                outcome = file.write_all_at(piece, at);
                at += piece.len() as u64;
            }
        });
        outcome?;
        offset += len;
    }
    Ok(())
}

/// Writes `len` zeros from byte `from` on.
fn write_zeros(file: &File, mut from: u64, mut len: u64) -> io::Result<()> {
    while len > 0 {
        let step = len.min(ZEROS.len() as u64);
        file.write_all_at(&ZEROS[..step as usize], from)?;
        from += step;
        len -= step;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_fills_its_page_and_round_trips() {
        let headers = [
            Header::default(),
            Header { record_size: 8, value: None },
            Header { record_size: 1, value: Some(vec![7; 1024]) },
            Header { record_size: 3, value: Some(Vec::new()) },
        ];
        for header in headers {
            let page = header.to_page();
            assert_eq!(page.len() as u64, HEADER_BYTES);
            assert_eq!(Header::from_page(&page), Some(header));
        }
    }

    #[test]
    fn records_must_fit_in_a_file() {
        assert_eq!(byte_ranges(8, &[Extent::new(2, 3)]).unwrap(), [(4096 + 16, 24)]);
        for far in [Extent::new(u64::MAX - 3, 2), Extent::new(1 << 60, 1)] {
            assert_eq!(byte_ranges(8, &[far]).unwrap_err().kind(), ErrorKind::Overflow);
        }
    }
}
