//! The limit of a store that grows: a file of the same values.
use crate::buffer::Buffer;
use crate::limit::nameless_file;
use crate::measure::{Measured, Until, measure};
use esker_types::{Error, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A file without a name, which disappears with this process.
pub struct Medium {
    file: File,
    buffer: Buffer,
    durable: bool,
}

impl Medium {
    /// An empty file in `folder` for values of `value_bytes`. If it is `durable`, each write waits for the medium.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn new(folder: &Path, value_bytes: u64, durable: bool) -> Result<Self> {
        Ok(Self { file: nameless_file(folder)?, buffer: Buffer::new(value_bytes)?, durable })
    }

    /// Writes values `from` to `to`, each by one pwrite.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn append(&self, from: u64, to: u64) -> Result<Measured> {
        measure(Until::Ops(to - from), self.value_bytes(), |op| self.write(from + op))
    }

    /// Reads the values that `choose` names, each by one pread.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn pread(&mut self, ops: u64, mut choose: impl FnMut() -> u64) -> Result<Measured> {
        let value_bytes = self.value_bytes();
        measure(Until::Ops(ops), value_bytes, |_| {
            let read = self.file.read_exact_at(&mut self.buffer, choose() * value_bytes);
            read.map_err(|error| {
                Error::io("pread of the file that measures the medium's limit", &error)
            })
        })
    }

    fn write(&self, index: u64) -> Result<()> {
        let written = self.file.write_all_at(&self.buffer, index * self.value_bytes());
        let synced =
            written.and_then(|()| if self.durable { self.file.sync_data() } else { Ok(()) });
        synced.map_err(|error| {
            Error::io("pwrite of the file that measures the medium's limit", &error)
        })
    }

    fn value_bytes(&self) -> u64 {
        self.buffer.len() as u64
    }
}
