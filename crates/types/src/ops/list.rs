//! Listings and queries of keys.
use crate::{Epoch, Error, ErrorKind, Extent, KeyKind, Result, encode_key};

/// What a listing of keys goes over.
#[derive(Clone, Copy, Debug)]
pub enum KeyScope<'a> {
    /// The dkeys of the object.
    Dkeys,
    /// The akeys of a dkey.
    Akeys(&'a [u8]),
}

/// An akey with the dkey it stands under.
#[derive(Clone, Copy, Debug)]
pub struct AkeyRef<'a> {
    /// The dkey.
    pub dkey: &'a [u8],
    /// The akey.
    pub akey: &'a [u8],
}

/// Where a listing goes on. It names the last key handed out, so it survives concurrent change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Anchor {
    /// At the beginning.
    #[default]
    Start,
    /// Behind a position of a shard; the bytes are the backend's own, but for extents: those of a dkey are on one
    /// shard, and the bytes are the next record ([`Anchor::at_record`]).
    After {
        /// Index of the shard.
        shard: u32,
        /// Position in it.
        position: Vec<u8>,
    },
    /// Nothing is left.
    End,
}

impl Anchor {
    /// True where nothing is left.
    #[must_use]
    pub fn is_end(&self) -> bool {
        matches!(self, Self::End)
    }

    /// Where a listing of extents goes on with `record`.
    #[must_use]
    pub fn at_record(record: u64) -> Self {
        Self::After { shard: 0, position: record.to_be_bytes().to_vec() }
    }

    /// The record a listing of extents goes on with, `None` where it is over.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] where it is of another listing.
    pub fn record(&self) -> Result<Option<u64>> {
        match self {
            Self::Start => Ok(Some(0)),
            Self::End => Ok(None),
            Self::After { position, .. } => {
                let bytes = position.as_slice().try_into();
                bytes.map(|bytes| Some(u64::from_be_bytes(bytes))).map_err(|_| foreign())
            }
        }
    }
}

#[cold]
fn foreign() -> Error {
    let message = "the anchor does not belong to this listing: zero it and start again";
    Error::new(ErrorKind::Invalid, message)
}

/// How much a listing may return at once.
#[derive(Clone, Copy, Debug)]
pub struct ListLimit {
    /// Most entries.
    pub entries: usize,
    /// Most bytes of keys. The first key is returned even where it alone exceeds this.
    pub bytes: usize,
}

impl ListLimit {
    /// So many entries, of any size.
    #[must_use]
    pub const fn entries(entries: usize) -> Self {
        Self { entries, bytes: usize::MAX }
    }
}

/// One run of records of an array, as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredExtent {
    /// Which records.
    pub extent: Extent,
    /// Bytes per record.
    pub record_size: u64,
    /// When they were written.
    pub epoch: Epoch,
}

/// The end of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// The smallest.
    Min,
    /// The largest.
    Max,
}

/// Asks for the smallest or largest dkey, akey or extent (DAOS: `daos_obj_query_key`). What is not
/// asked for must be given: an akey query needs the dkey, an extent query the akey.
#[derive(Clone, Copy, Debug)]
pub struct KeyQuery<'a> {
    /// Which end.
    pub edge: Edge,
    /// The dkey; `None` asks for it.
    pub dkey: Option<&'a [u8]>,
    /// Where it asks for the dkey: only those greater than this one count.
    pub after: Option<&'a [u8]>,
    /// The akey; `None` asks for it (if `want_akey`).
    pub akey: Option<&'a [u8]>,
    /// Asks for the akey.
    pub want_akey: bool,
    /// Asks for the first or last extent of the akey.
    pub want_extent: bool,
}

impl KeyQuery<'_> {
    /// The dkey that others must be greater than, encoded; empty where all count.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] where it is no dkey of this kind.
    pub fn bound(&self, kind: KeyKind) -> Result<Vec<u8>> {
        let mut encoded = Vec::new();
        match self.after.filter(|_| self.dkey.is_none()) {
            Some(after) => encode_key(kind, after, &mut encoded).map(|()| encoded),
            None => Ok(encoded),
        }
    }
}

/// Answer to a [`KeyQuery`]: of several dkeys, the outermost that has what else was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFound {
    /// The dkey, as found or as given.
    pub dkey: Vec<u8>,
    /// The akey, as found or as given.
    pub akey: Vec<u8>,
    /// The extent, where asked for.
    pub extent: Option<Extent>,
}
