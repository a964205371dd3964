//! Redo log of a target: which of its puts a commit includes, and how the write buffer is loaded from it.
use super::Target;
use crate::data::redo_log::Log;
use crate::format::keys::{Key, Table};
use crate::format::record::{Body, Location, Record};
use crate::index::txn::WriteTxn;
use crate::shared::control::LeftInBuffer;
use crate::shared::write_buffer::{BUFFER_LEN, WriteBuffer};
use crate::sync::AtomicU64;
use esker_types::{Error, ErrorKind, Result};
use std::ops::RangeInclusive;

/// Key with the base of the last write buffer that a commit includes.
pub(crate) fn flushed_key() -> Key {
    Key::table(Table::Flushed)
}

/// Bases of write buffers that no commit includes, in an index whose last commit has an id. `flushed` is the value of
/// [`flushed_key`].
fn open_bases(flushed: Option<&[u8]>, last: u64) -> Result<RangeInclusive<u64>> {
    let Some(flushed) = flushed else { return Ok(0..=last) };
    let flushed = flushed.try_into().map(u64::from_le_bytes);
    let damaged = |_| Error::new(ErrorKind::Corrupt, "the index names no write buffer");
    Ok(flushed.map_err(damaged)?.saturating_add(1)..=last)
}

/// Parses the puts of a redo log that no commit includes. `flushed` and `last` are those of [`open_bases`]. `is_stored`
/// is false for a location of a key whose data does not match its checksums, so that it was never stored.
fn parse<'l>(
    log: &'l [u8],
    (flushed, last): (Option<&[u8]>, u64),
    is_stored: impl Fn(&[u8], &Location<'_>) -> bool,
) -> Result<Log<'l>> {
    let mut log = Log::parse(log, &open_bases(flushed, last)?);
    log.cut(|put| match Record::decode(&put.key[1..], put.record).map(|record| record.body) {
        Ok(Body::Segment(place)) => is_stored(put.key, &place),
        body => body.is_ok(),
    });
    Ok(log)
}

/// Replaces the content of a write buffer by the puts of a log. `last` is the last commit of the index.
fn fill(buffer: WriteBuffer<'_>, log: &Log<'_>, last: u64) -> Result<()> {
    match log.is_empty() && !log.is_damaged {
        true => buffer.clear(),
        false => buffer.load((log.base, last), log.puts(), log.is_damaged)?,
    }
    Ok(())
}

/// Puts of a redo log that the index does not include, in a pool that no process has open. The parameters have the same
/// meaning as those of [`parse`]. If the last commit is lost, `last` may be any later id.
pub(crate) fn left_in_log(
    log: &[u8],
    (flushed, last): (Option<&[u8]>, u64),
    is_stored: impl Fn(&[u8], &Location<'_>) -> bool,
) -> Result<LeftInBuffer> {
    let log = parse(log, (flushed, last), is_stored)?;
    if log.is_empty() && !log.is_damaged {
        return Ok(LeftInBuffer::default());
    }
    let words: Vec<_> = (0..BUFFER_LEN).map(|_| AtomicU64::new(0)).collect();
    let buffer = WriteBuffer::from_atomics(&words);
    fill(buffer, &log, log.base)?;
    Ok(LeftInBuffer::from_buffer(buffer, log.base))
}

impl Target {
    /// Notes in a transaction that it includes the puts on top of state `base`, so that their redo log is not loaded
    /// any more. Does nothing if the pool is not durable.
    pub(super) fn note_flushed(&self, txn: &mut WriteTxn, base: u64) -> Result<()> {
        match self.is_durable() {
            true => txn.put(&flushed_key(), &base.to_le_bytes()),
            false => Ok(()),
        }
    }

    /// Loads the write buffer from the redo log, after a restart of the machine. Erases entries that were not
    /// acknowledged: behind the next puts, they would look like entries of these. The caller holds the setup lock.
    ///
    /// # Errors
    /// `Io` if the log cannot be read or written.
    pub(crate) fn load_redo_log(&self) -> Result<()> {
        let (Some(buffer), true) = (self.write_buffer(), self.is_durable()) else { return Ok(()) };
        let txn = self.index.read()?;
        let bytes = self.data.redo_log()?;
        let flushed = txn.get(&flushed_key())?;
        let log = parse(&bytes, (flushed, txn.id()), |key, place| self.is_stored(key, place))?;
        if log.has_dropped && !log.is_damaged && !self.control.read_only {
            self.data.erase_redo_log(log.end())?;
        }
        fill(buffer, &log, txn.id())
    }

    /// False if the data at a location does not match its checksums. Other errors do not show that the data is missing.
    fn is_stored(&self, key: &[u8], place: &Location<'_>) -> bool {
        let mut bytes = vec![0; place.covered as usize];
        let read = self.read_verified(key, place, 0, &mut bytes);
        !read.is_err_and(|error| error.kind() == ErrorKind::Checksum)
    }
}
