//! Layout of a container of fields (docs/format.md, "The fields of a container").
use esker::{Array, ArrayAttributes, Container, Kv, Object};
use esker_types::{ObjectClass, ObjectId, ObjectType, Result};

/// Upper words of object ids, by the use of the object.
const CATALOGUE: u64 = 1;
const INDEX: u64 = 2;
const FIELD: u64 = 3;
const MARKER: u64 = 4;
const BEGINNING: u64 = 5;

/// Its keys for the schema and for the number of stripes.
pub(crate) const BEGUN: &[u8] = b"schema";
pub(crate) const BEGUN_STRIPES: &[u8] = b"stripes";

/// Dkeys of the catalogue.
pub(crate) const DATABASES: &[u8] = b"databases";
pub(crate) const WRITERS: &[u8] = b"writers";
pub(crate) const REMOVALS: &[u8] = b"removals";

/// Prefix of the names of a container's properties.
pub(crate) const PROPERTY: &str = "prop:";
/// Property with the version of the layout.
pub(crate) const VERSION: &str = "prop:fields_layout";
/// Property with the text of the schema.
pub(crate) const SCHEMA: &str = "prop:fields_schema";
/// Property with the number of stripes of new indexes. Stores of version 3 have it.
pub(crate) const STRIPES: &str = "prop:fields_stripes";

/// Version of the layout of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// The objects with the names of fields have the type of a Key-Value, with many akeys under a dkey. DAOS expects
    /// one akey in objects of that type.
    One,
    /// The objects with the names of fields have hashed dkeys and akeys.
    Two,
    /// Like version 2. An index may have several stripes, each an object.
    Three,
}

impl Version {
    /// The version of a new store whose indexes have this many stripes. Earlier releases read stores with one.
    pub(crate) fn for_stripes(stripes: u32) -> Self {
        if stripes == 1 { Self::Two } else { Self::Three }
    }

    /// The version that a property names, if this release knows it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::One, Self::Two, Self::Three].into_iter().find(|version| version.text() == text)
    }

    /// The value of the property.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::One => "1",
            Self::Two => "2",
            Self::Three => "3",
        }
    }

    /// Type of the objects of an index.
    fn otype(self) -> ObjectType {
        match self {
            Self::One => ObjectType::KvHashed,
            Self::Two | Self::Three => ObjectType::MultiHashed,
        }
    }

    /// The object that lists all databases.
    pub(crate) fn catalogue(self, container: &Container) -> Result<Object> {
        on_one_target(container, self.otype(), CATALOGUE, 0)
    }

    /// Id of the index, or of the stripe of an index, with a number.
    pub(crate) fn index_oid(self, container: &Container, number: u64) -> Result<ObjectId> {
        Ok(on_one_target(container, self.otype(), INDEX, number)?.oid())
    }

    /// The marker of the batch of fields that begins with `first`. The writer of the batch keeps a lease on it while it
    /// runs.
    pub(crate) fn marker(self, container: &Container, first: u64) -> Result<Object> {
        on_one_target(container, self.otype(), MARKER, first)
    }
}

/// First byte of a dkey of an index: the kind of its akeys.
const CURRENT: u8 = b'i';
const MASKED: u8 = b'm';

/// Dkey of an index that says how many entries each of its logs of flushes has had.
pub(crate) const FLUSHES: &[u8] = b"flushes";

/// Number of logs of flushes of an index. If it has more writers, they share logs.
pub(crate) const LOGS: u32 = 64;

/// Entries of a log: each new one replaces the oldest.
pub(crate) const LOG_ENTRIES: u64 = 256;

/// Longest entry of a log in bytes.
pub(crate) const LOG_ENTRY_BYTES: usize = 64 << 10;

/// Dkey of a log of flushes.
pub(crate) fn log(number: u8) -> [u8; 4] {
    [b'l', b'o', b'g', number]
}

/// Numbers of fields that a writer reserves at a time.
pub(crate) const NUMBERS: u64 = 256;

/// Bytes of a chunk of a field. A field up to this length is stored on one target and written by one commit.
pub(crate) const CHUNK: u64 = 4 << 20;

/// The Key-Value by which processes that turn an empty container into a store agree on its schema. Containers that were
/// made as a store do not have it.
pub(crate) fn beginning(container: &Container) -> Result<Kv> {
    container.kv(on_one_target(container, ObjectType::KvHashed, BEGINNING, 0)?.oid())
}

/// An object on one target, so that a flush to one database is one commit.
fn on_one_target(container: &Container, otype: ObjectType, hi: u64, lo: u64) -> Result<Object> {
    let oid = container.generate_oid(hi, lo, otype, Some(ObjectClass::S1), 0)?;
    Ok(container.object(oid))
}

/// Id of the array that holds a field.
pub(crate) fn field_oid(container: &Container, number: u64) -> Result<ObjectId> {
    container.generate_oid(FIELD, number, ObjectType::ArrayByte, None, 0)
}

/// The Array with the bytes of a field: cells of 1 byte, in chunks of [`CHUNK`].
pub(crate) fn field(container: &Container, oid: ObjectId) -> Result<Array> {
    container.open_array_with_attributes(oid, ArrayAttributes { cell_size: 1, chunk_size: CHUNK })
}

/// Dkey of the fields of an index that are current.
pub(crate) fn current(index: &str) -> Vec<u8> {
    prefixed(CURRENT, index)
}

/// Dkey of the masked fields of an index.
pub(crate) fn masked(index: &str) -> Vec<u8> {
    prefixed(MASKED, index)
}

/// Dkey of an index.
fn prefixed(prefix: u8, index: &str) -> Vec<u8> {
    let mut dkey = Vec::with_capacity(1 + index.len());
    dkey.push(prefix);
    dkey.extend_from_slice(index.as_bytes());
    dkey
}

/// A parsed dkey of an index.
pub(crate) enum Dkey<'a> {
    Current(&'a str),
    Masked(&'a str),
    /// A log of flushes, or the sequence numbers of the logs.
    Log,
}

impl<'a> Dkey<'a> {
    /// Parses a dkey; `None` for keys that no release with this layout writes. The dkey of the sequence numbers counts
    /// as a log, because a listing of fields skips both.
    pub(crate) fn parse(dkey: &'a [u8]) -> Option<Self> {
        if dkey == FLUSHES || (dkey.len() == log(0).len() && dkey.starts_with(b"log")) {
            return Some(Self::Log);
        }
        let (tag, rest) = dkey.split_first()?;
        match (*tag, std::str::from_utf8(rest).ok()?) {
            (CURRENT, index) => Some(Self::Current(index)),
            (MASKED, index) => Some(Self::Masked(index)),
            _ => None,
        }
    }
}

/// Akey of a masked field. A datum may have many, each at a location of its own.
pub(crate) fn masked_akey(datum: &str, serial: u64) -> Vec<u8> {
    let mut akey = datum.as_bytes().to_vec();
    akey.push(0);
    akey.extend_from_slice(&serial.to_be_bytes());
    akey
}

/// The datum of the akey of a masked field.
pub(crate) fn masked_datum(akey: &[u8]) -> Option<&str> {
    let datum = akey.len().checked_sub(9)?;
    std::str::from_utf8(&akey[..datum]).ok()
}
