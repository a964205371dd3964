//! Values used where they lie.
use bytes::Bytes;
use esker_types::{Error, ErrorKind};
use std::fmt;
use std::ops::Deref;

/// The bytes of a value as it was when this was made. They never change: not where the value is
/// overwritten or removed, nor where the container or the pool is closed.
///
/// Where the value lies in one piece in a pool in memory, they are the stored bytes themselves, compared with
/// their checksums once. Their segment is not used again as long as this lives, in this process or in a
/// child made by fork; so views are for a while, and a process has at most
/// [`esker_types::limits::VIEWS_MAX`]. Else they are a copy.
pub struct View(Kept);

enum Kept {
    InPlace(Bytes),
    Copied(Vec<u8>),
}

impl View {
    pub(crate) fn in_place(bytes: Bytes) -> Self {
        Self(Kept::InPlace(bytes))
    }

    /// A view of bytes that are its own.
    #[must_use]
    pub fn of(bytes: Vec<u8>) -> Self {
        Self(Kept::Copied(bytes))
    }

    /// The answer to who wants no copy, where nothing else can be had.
    #[must_use]
    pub fn refused() -> Error {
        Error::new(
            ErrorKind::NotSupported,
            "it cannot be used where it lies: for that it must be in a pool in memory, longer than 1024 \
             bytes, and written in one piece of at most 4 MiB; allow a copy",
        )
    }

    /// True where the bytes are a copy, and keep nothing in the pool from being used again.
    #[must_use]
    pub fn is_copy(&self) -> bool {
        matches!(self.0, Kept::Copied(_))
    }
}

impl Deref for View {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Kept::InPlace(bytes) => bytes,
            Kept::Copied(bytes) => bytes,
        }
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("len", &self.len()).field("is_copy", &self.is_copy()).finish()
    }
}
