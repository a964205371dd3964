//! Data types of Esker: ids, object classes, keys, epochs, extents, errors, checksums and the operations of every
//! backend. Pure functions and plain data; nothing here does I/O.
#![forbid(unsafe_code)]

mod array;
pub mod checksum;
pub mod epoch;
mod error;
mod extent;
mod hash;
pub mod info;
mod key;
mod label;
pub mod limits;
pub mod memory;
pub mod metrics;
mod oclass;
mod oid;
pub mod ops;
mod size;
mod uuid;

pub use array::ArrayAttributes;
pub use checksum::Checksum;
pub use epoch::Epoch;
pub use error::{Error, ErrorKind, Result};
pub use extent::Extent;
pub use hash::{StableHash, StableHasher};
pub use key::{
    KeyBatch, KeyBuffer, KeyKind, check_key_length, decode_key, encode_key, encoded_len, key_to_u64,
};
pub use label::{check_label, check_pool_label};
pub use oclass::{ClassError, ObjectClass, Redundancy};
pub use oid::{FLAT_AKEY, ObjectId, ObjectType};
pub use size::ByteSize;
pub use uuid::Uuid;
