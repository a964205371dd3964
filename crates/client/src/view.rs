//! Views of values, without a copy if possible.
use bytes::Bytes;
use esker_types::{Error, ErrorKind};
use std::fmt;
use std::ops::Deref;

/// The bytes of a value at the time the view was made. They never change, even if the value is overwritten or
/// removed, or the container or pool is closed.
///
/// If the value is contiguous and in a pool in memory, these are the stored bytes themselves, verified against their
/// checksums once. Their segment is not reused while the view exists, in this process or in a child made by fork; so
/// views should be short-lived, and a process has at most [`esker_types::limits::VIEWS_MAX`] of them. Otherwise they
/// are a copy.
pub struct View(Content);

enum Content {
    InPlace(Bytes),
    Copied(Vec<u8>),
}

impl View {
    /// A view of bytes that are stored in the pool.
    pub(crate) fn in_place(bytes: Bytes) -> Self {
        Self(Content::InPlace(bytes))
    }

    /// A view that owns its bytes.
    #[must_use]
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        Self(Content::Copied(bytes))
    }

    /// The error for callers that accept no copy, if the value cannot be used in place.
    #[must_use]
    pub fn refused() -> Error {
        Error::new(
            ErrorKind::NotSupported,
            "the value cannot be used in place: for that it must be in a pool in memory, longer than 1024 \
             bytes, and written in one piece of at most 4 MiB; allow a copy",
        )
    }

    /// Converts the view to shared bytes, without a copy.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        match self.0 {
            Content::InPlace(bytes) => bytes,
            Content::Copied(bytes) => bytes.into(),
        }
    }

    /// True if the bytes are a copy, which keeps no segment of the pool in use.
    #[must_use]
    pub fn is_copy(&self) -> bool {
        matches!(self.0, Content::Copied(_))
    }
}

impl Deref for View {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Content::InPlace(bytes) => bytes,
            Content::Copied(bytes) => bytes,
        }
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("len", &self.len()).field("is_copy", &self.is_copy()).finish()
    }
}
