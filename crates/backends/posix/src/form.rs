//! The three representations of objects in the file system, behind one trait.
use super::array::ArrayFiles;
use super::container::{Container, PoolDirectory};
use super::general::General;
use super::kv::KvDirectory;
use super::proof::{Digest, Watched};
use esker_types::ops::{
    AkeyRef, Anchor, Cond, Edge, Fetch, KeyFound, KeyQuery, KeyScope, ListLimit, StoredExtent,
};
use esker_types::{
    Epoch, Error, ErrorKind, FLAT_AKEY, KeyBatch, KeyKind, ObjectId, ObjectType, Result, encode_key,
};
use std::collections::BTreeSet;
use std::fs::Metadata;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

/// An object and its path.
pub(super) struct Object<'a> {
    pub(super) directory: &'a PoolDirectory,
    pub(super) container: &'a Container,
    pub(super) oid: ObjectId,
    /// Its file or directory.
    pub(super) path: PathBuf,
}

impl<'a> Object<'a> {
    pub(super) fn new(
        directory: &'a PoolDirectory,
        container: &'a Container,
        oid: ObjectId,
    ) -> Self {
        Self { directory, container, oid, path: container.object(oid) }
    }
}

/// The representation of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A directory with a file per key.
    Kv,
    /// A file, and others for the chunks after the first.
    Array,
    /// A directory with a file per dkey.
    General,
}

impl Kind {
    /// The representation that the type of an object determines.
    pub(super) fn from_oid(oid: ObjectId) -> Self {
        match oid.object_type() {
            Some(otype) if otype.is_kv() => Self::Kv,
            Some(otype) if otype.is_array() => Self::Array,
            _ => Self::General,
        }
    }
}

/// The reads of an object.
pub(super) trait Form {
    /// Digest of the data that a read depends on.
    fn digest(&self, watched: &Watched) -> Result<Digest>;
    /// Reads akeys of a dkey, as `OpenContainer::fetch` does.
    fn fetch(&self, dkey: &[u8], cond: Cond, fetches: &mut [Fetch<'_>]) -> Result<()>;
    /// Lists keys, as `OpenContainer::list_keys` does.
    fn list_keys(
        &self,
        scope: KeyScope<'_>,
        anchor: &mut Anchor,
        limit: ListLimit,
    ) -> Result<KeyBatch>;
    /// Lists extents, as `OpenContainer::list_extents` does.
    fn list_extents(
        &self,
        key: AkeyRef<'_>,
        anchor: &mut Anchor,
        entries: usize,
    ) -> Result<Vec<StoredExtent>>;
    /// Finds the smallest or largest key or extent, as `OpenContainer::query_key` does.
    fn query(&self, query: KeyQuery<'_>) -> Result<Option<KeyFound>>;
    /// The last change of the object or of a dkey, as `OpenContainer::last_epoch` returns it.
    fn epoch(&self, dkey: Option<&[u8]>) -> Result<Epoch>;
}

/// Returns the implementation of the reads of an object, which depends on its type.
pub(super) fn form<'a>(
    directory: &'a PoolDirectory,
    container: &'a Container,
    oid: ObjectId,
) -> Box<dyn Form + 'a> {
    let object = Object::new(directory, container, oid);
    match Kind::from_oid(oid) {
        Kind::Kv => Box::new(KvDirectory(object)),
        Kind::Array => Box::new(ArrayFiles(object)),
        Kind::General => Box::new(General(object)),
    }
}

/// Sorts keys in the order in which listings return them. Each is encoded, and has shard 0.
pub(super) fn sorted(
    kind: KeyKind,
    keys: impl IntoIterator<Item = Vec<u8>>,
) -> Result<BTreeSet<(u32, Vec<u8>)>> {
    let position = |key: Vec<u8>| {
        let mut encoded = Vec::new();
        encode_key(kind, &key, &mut encoded).map(|()| (0, encoded))
    };
    keys.into_iter().map(position).collect()
}

/// Time of the last modification of a file. Zero stands for a missing object, so files dated before 2021 get a later
/// time.
pub(super) fn epoch_of(info: &Metadata) -> Epoch {
    let since = info.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Epoch::at(since.unwrap_or_default()).max(Epoch(1))
}

/// The answer to a query: a dkey, its only akey if the query names or wants one, and possibly an extent.
pub(super) fn found(
    query: &KeyQuery<'_>,
    dkey: Vec<u8>,
    extent: Option<esker_types::Extent>,
) -> KeyFound {
    let wanted = query.want_akey || query.akey.is_some();
    KeyFound { dkey, akey: if wanted { FLAT_AKEY.to_vec() } else { Vec::new() }, extent }
}

/// Checks a query on an object that only has the akey [`FLAT_AKEY`]; false if the query is for another akey.
pub(super) fn asks_for_the_akey(query: &KeyQuery<'_>) -> Result<bool> {
    if query.want_extent && query.akey.is_none() && !query.want_akey {
        return Err(Error::new(ErrorKind::Invalid, "a query for extents needs an akey"));
    }
    Ok(query.akey.is_none_or(|akey| akey == FLAT_AKEY))
}

/// The smallest or largest of `keys`, in their order.
pub(super) fn outermost<T>(edge: Edge, mut keys: impl DoubleEndedIterator<Item = T>) -> Option<T> {
    match edge {
        Edge::Min => keys.next(),
        Edge::Max => keys.next_back(),
    }
}

/// The error for content that only objects of general types can hold on this backend.
#[cold]
pub(super) fn unsupported_error(otype: Option<ObjectType>, what: &str) -> Error {
    let otype = otype.map_or_else(String::new, |otype| format!(" of type {otype:?}"));
    let message = format!(
        "a posix pool does not support {what} in an object{otype}: use a general type such as \
         MultiHashed or MultiInteger"
    );
    Error::new(ErrorKind::NotSupported, message)
}

#[cold]
pub(super) fn missing_key_error(what: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("{what} does not exist"))
}

#[cold]
pub(super) fn exists(what: &str) -> Error {
    Error::new(ErrorKind::Exists, format!("{what} already exists"))
}
