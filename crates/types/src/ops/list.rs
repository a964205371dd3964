//! Listings and queries of keys.
use crate::{Epoch, Error, ErrorKind, Extent, KeyKind, ObjectId, Result, encode_key};

/// Level of the keys that a listing returns.
#[derive(Clone, Copy, Debug)]
pub enum KeyScope<'a> {
    /// The dkeys of the object.
    Dkeys,
    /// The akeys of a dkey.
    Akeys(&'a [u8]),
}

/// An akey and the dkey it belongs to.
#[derive(Clone, Copy, Debug)]
pub struct AkeyRef<'a> {
    /// The dkey.
    pub dkey: &'a [u8],
    /// The akey.
    pub akey: &'a [u8],
}

/// Position at which a listing continues. It names the last key returned, so concurrent changes do not invalidate it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Anchor {
    /// At the start.
    #[default]
    Start,
    /// After a position in a shard. In a listing of keys, the position is a key encoded by [`encode_key`], or empty for
    /// the beginning of the shard. So a listing can begin after any key. In a listing of extents, which are all on one
    /// shard, it is the next record ([`Anchor::at_record`]).
    After {
        /// Index of the shard.
        shard: u32,
        /// Position in it.
        position: Vec<u8>,
    },
    /// The listing has ended.
    End,
}

impl Anchor {
    /// True if the listing has ended.
    #[must_use]
    pub fn is_end(&self) -> bool {
        matches!(self, Self::End)
    }

    /// Anchor of a listing of extents that continues with `record`.
    #[must_use]
    pub fn at_record(record: u64) -> Self {
        Self::After { shard: 0, position: record.to_be_bytes().to_vec() }
    }

    /// The record with which a listing of extents continues; `None` at its end.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the anchor is not one of a listing of extents.
    pub fn record(&self) -> Result<Option<u64>> {
        match self {
            Self::Start => Ok(Some(0)),
            Self::End => Ok(None),
            Self::After { position, .. } => {
                let bytes = position.as_slice().try_into();
                bytes.map(|bytes| Some(u64::from_be_bytes(bytes))).map_err(|_| Self::foreign())
            }
        }
    }

    /// Anchor of a listing of objects that continues with the first id from `first` on.
    #[must_use]
    pub fn at_object(first: ObjectId) -> Self {
        let number = u128::from_be_bytes(first.to_bytes());
        match number.checked_sub(1) {
            Some(last) => Self::After { shard: 0, position: last.to_be_bytes().to_vec() },
            None => Self::Start,
        }
    }

    /// The error of an anchor that belongs to another listing.
    #[cold]
    #[must_use]
    pub fn foreign() -> Error {
        let message = "the anchor does not belong to this listing: zero it and start again";
        Error::new(ErrorKind::Invalid, message)
    }
}

/// Limits of one call of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ListLimit {
    /// Most entries.
    pub entries: usize,
    /// Most bytes of keys. The first key is returned even if it alone exceeds this.
    pub bytes: usize,
}

impl ListLimit {
    /// At most `entries` entries, of any size.
    #[must_use]
    pub const fn entries(entries: usize) -> Self {
        Self { entries, bytes: usize::MAX }
    }
}

/// A range of records of an array, as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StoredExtent {
    /// The records.
    pub extent: Extent,
    /// Bytes per record.
    pub record_size: u64,
    /// Epoch of their write.
    pub epoch: Epoch,
}

/// An end of the order of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Edge {
    /// The smallest.
    Min,
    /// The largest.
    Max,
}

/// Asks for the smallest or largest dkey, akey or extent (DAOS: `daos_obj_query_key`). The levels above must be given:
/// an akey query needs the dkey, an extent query the akey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct KeyQuery<'a> {
    /// The end to search from.
    pub edge: Edge,
    /// The dkey; `None` to find it.
    #[cfg_attr(feature = "serde", serde(borrow))]
    pub dkey: Option<&'a [u8]>,
    /// Lower bound of the dkeys to consider, exclusive, if the dkey is requested.
    #[cfg_attr(feature = "serde", serde(borrow))]
    pub after: Option<&'a [u8]>,
    /// The akey; `None` to find it (if `want_akey`).
    #[cfg_attr(feature = "serde", serde(borrow))]
    pub akey: Option<&'a [u8]>,
    /// Asks for the akey.
    pub want_akey: bool,
    /// Asks for the first or last extent of the akey.
    pub want_extent: bool,
}

impl KeyQuery<'_> {
    /// Asks for the first dkey of an object.
    pub const FIRST_DKEY: KeyQuery<'static> = KeyQuery {
        edge: Edge::Min,
        dkey: None,
        after: None,
        akey: None,
        want_akey: false,
        want_extent: false,
    };

    /// The bound [`KeyQuery::after`], encoded for comparison with stored dkeys; empty if there is none.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] if it is not a dkey of this kind.
    pub fn bound(&self, kind: KeyKind) -> Result<Vec<u8>> {
        let mut encoded = Vec::new();
        // A query that names its dkey has no bound.
        match self.after.filter(|_| self.dkey.is_none()) {
            Some(after) => encode_key(kind, after, &mut encoded).map(|()| encoded),
            None => Ok(encoded),
        }
    }
}

/// Result of a [`KeyQuery`]: the first or last dkey that has the requested akey and extent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct KeyFound {
    /// The dkey, as found or as given.
    pub dkey: Vec<u8>,
    /// The akey, as found or as given.
    pub akey: Vec<u8>,
    /// The extent, if requested.
    pub extent: Option<Extent>,
}
