//! Redo log of a target: which of its puts a commit includes, and how the write buffer is loaded from it.
use super::Target;
use crate::data::redo_log::Log;
use crate::format::keys::{Key, Table};
use crate::format::record::{Body, Record};
use crate::index::txn::WriteTxn;
use crate::shared::write_buffer::Put;
use esker_types::{Error, ErrorKind, Result};
use std::ops::RangeInclusive;

/// Key with the base of the last write buffer that a commit includes.
pub(crate) fn flushed_key() -> Key {
    Key::table(Table::Flushed)
}

/// Bases of write buffers that no commit includes, in an index whose last commit has an id. `flushed` is the value of
/// [`flushed_key`].
pub(crate) fn open_bases(flushed: Option<&[u8]>, last: u64) -> Result<RangeInclusive<u64>> {
    let Some(flushed) = flushed else { return Ok(0..=last) };
    let flushed = flushed.try_into().map(u64::from_le_bytes);
    let damaged = |_| Error::new(ErrorKind::Corrupt, "the index names no write buffer");
    Ok(flushed.map_err(damaged)? + 1..=last)
}

impl Target {
    /// Notes in a transaction that it includes the write buffer on top of state `base`, so that its redo log is not
    /// loaded any more.
    pub(super) fn note_flushed(&self, txn: &mut WriteTxn, base: u64) -> Result<()> {
        match self.is_durable() {
            true => txn.put(&flushed_key(), &base.to_le_bytes()),
            false => Ok(()),
        }
    }

    /// Loads the write buffer from the redo log, after a restart of the machine. The caller holds the setup lock.
    ///
    /// # Errors
    /// `Io` if the log cannot be read.
    pub(crate) fn load_redo_log(&self) -> Result<()> {
        let (Some(buffer), true) = (self.write_buffer(), self.is_durable()) else { return Ok(()) };
        let txn = self.index.read()?;
        let bytes = self.data.redo_log()?;
        let mut log = Log::parse(&bytes, &open_bases(txn.get(&flushed_key())?, txn.id())?);
        log.cut(|put| self.has_data_of(put));
        // A flush before the control file is rebuilt must retain what snapshots need.
        self.shared().note_snapshots(true);
        match log.is_empty() {
            true => buffer.clear(),
            false => buffer.load((log.base, txn.id()), log.puts(), log.is_damaged)?,
        }
        Ok(())
    }

    /// False if the data of a put does not match its checksums, so that it was never stored.
    fn has_data_of(&self, put: &Put<'_>) -> bool {
        let Ok(record) = Record::decode(&put.key[1..], put.record) else { return false };
        let Body::Segment(place) = record.body else { return true };
        let mut bytes = vec![0; place.covered as usize];
        let read = self.read_verified(put.key, &place, 0, &mut bytes);
        !read.is_err_and(|error| error.kind() == ErrorKind::Checksum)
    }
}
