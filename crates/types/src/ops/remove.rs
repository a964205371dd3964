//! Removals that take one request: of a dkey whose content is returned, and of an array of bytes that nobody uses.
use super::{Edge, KeyQuery};
use crate::{Extent, ObjectId};

/// The removal of a dkey, on condition that an array of bytes under it has a certain content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Take<'a> {
    /// The object.
    pub oid: ObjectId,
    /// The dkey.
    pub dkey: &'a [u8],
    /// The akey of the array. All other akeys of the dkey are single values.
    pub akey: &'a [u8],
    /// All bytes of the array.
    pub extent: Extent,
    /// Position of the expected bytes among them.
    pub at: u64,
    /// The expected bytes.
    pub expected: &'a [u8],
}

/// Content of a dkey that was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Taken {
    /// Bytes of the array.
    pub bytes: Vec<u8>,
    /// The other akeys, with their values.
    pub others: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Result of the removal of a dkey together with an array.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TakenWithArray {
    /// Content of the dkey.
    pub taken: Taken,
    /// Result of the removal of the array; `None` if that is left to the caller.
    pub removal: Option<Removal>,
}

/// The dkey of the first chunk of an array.
pub const FIRST_CHUNK: [u8; 8] = 1u64.to_ne_bytes();

/// The akey of the stripe mark, under [`FIRST_CHUNK`]: the array may have more chunks. It sorts after that of the
/// cells, so that a query for the last akey finds it.
pub const STRIPE_MARK: &[u8] = b"striped";

/// Finds the stripe mark, or the last extent of the first chunk.
pub const LAST_OF_FIRST: KeyQuery<'_> = KeyQuery {
    edge: Edge::Max,
    dkey: Some(&FIRST_CHUNK),
    after: None,
    akey: None,
    want_akey: true,
    want_extent: true,
};

/// Result of the removal of an array that nobody uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Removal {
    /// A process has a lease on it: the last one removes it.
    InUse,
    /// It was removed, or did not exist.
    Removed,
    /// It has a stripe mark: the caller removes it from all nodes.
    Striped,
}
