//! The cell and chunk size of an array, and their stored form.
use crate::limits::RECORD_SIZE_MAX;
use crate::{Error, ErrorKind, Result};

/// First word of stored attributes.
const MAGIC: u64 = 0xdaca_55a9_daca_55a9;

/// The cell and chunk size of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayAttributes {
    /// Bytes per cell, 1 to [`RECORD_SIZE_MAX`].
    pub cell_size: u64,
    /// Cells per chunk, at least 1. A chunk is stored on one target.
    pub chunk_size: u64,
}

impl ArrayAttributes {
    /// Bytes of stored attributes: the magic, the cell size and the chunk size.
    pub const STORED_BYTES: usize = 24;

    /// Encodes the attributes as they are stored: three little-endian words.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::STORED_BYTES] {
        let mut bytes = [0; Self::STORED_BYTES];
        let words = [MAGIC, self.cell_size, self.chunk_size];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Reads the attributes as they are stored, or `None` if the bytes are not attributes of an array.
    fn from_bytes(bytes: [u8; Self::STORED_BYTES]) -> Option<Self> {
        let mut words = bytes.chunks_exact(8).map(|word| word.try_into().map(u64::from_le_bytes));
        let mut word = || words.next()?.ok();
        let (magic, cell_size, chunk_size) = (word()?, word()?, word()?);
        let attributes = Self { cell_size, chunk_size };
        (magic == MAGIC && attributes.check().is_ok()).then_some(attributes)
    }

    /// Decodes stored attributes; `None` if `bytes` are not attributes.
    #[must_use]
    pub fn in_bytes(bytes: &[u8]) -> Option<Self> {
        Self::from_bytes(bytes.try_into().ok()?)
    }

    /// Checks that both sizes are allowed.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if one of them is not.
    pub fn check(self) -> Result<()> {
        match (1..=RECORD_SIZE_MAX).contains(&self.cell_size) && self.chunk_size > 0 {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "cells of {} bytes in chunks of {}: cells have 1 to {RECORD_SIZE_MAX} bytes \
                     (RECORD_SIZE_MAX), chunks at least one cell",
                    self.cell_size, self.chunk_size
                ),
            )),
        }
    }
}
