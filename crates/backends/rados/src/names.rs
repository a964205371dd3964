//! Names of RADOS objects, and keys of their omaps (docs/format.md, "The rados layout").
use esker_backend::object::list::hash;
use esker_backend::object::tree::AkeyPath;
use esker_types::{ObjectId, encoded_len, key_to_u64};

/// The object that marks a namespace as a pool.
pub(super) const POOL: &str = "pool";
/// The object that marks a namespace as a container.
pub(super) const CONTAINER: &str = "container";

/// Omap key of the format and version.
pub(super) const SUPERBLOCK: &[u8] = b"v";
/// Omap key of the transaction that has locked the object.
pub(super) const LOCK: &[u8] = b"t";
/// Omap key that marks an object which its lock has created. It begins as [`LOCK`], and no other key follows both.
pub(super) const CREATED: &[u8] = b"tc";
/// Omap key of the state of a transaction.
pub(super) const STATE: &[u8] = b"s";
/// Prefix of the keys of akeys.
pub(super) const ENTRY: &[u8] = b"k";
/// Prefix of the keys of chunks in the first object of an array.
pub(super) const CHUNK: &[u8] = b"c";

/// The last dkey stored in the first object of an array: dkey 0 has the attributes, dkey 1 is the first chunk.
const FIRST_CHUNK: u64 = 1;

/// True for objects whose dkeys are chunks, each in its own RADOS object.
pub(super) fn is_array(oid: ObjectId) -> bool {
    oid.object_type().is_some_and(|otype| otype.is_array())
}

/// The RADOS object that holds a dkey (in encoded form) of an object, in a pool with `targets` targets.
pub(super) fn table(oid: ObjectId, dkey: &[u8], targets: u32) -> String {
    match is_array(oid) {
        true => chunk(oid, dkey.try_into().map_or(0, u64::from_be_bytes)),
        false => shard(oid, hash(dkey) % oid.class().groups_on(targets)),
    }
}

/// Returns the name of the RADOS object that stores a chunk. The first chunk is in the first object of the Array.
pub(super) fn chunk(oid: ObjectId, dkey: u64) -> String {
    match dkey <= FIRST_CHUNK {
        true => shard(oid, 0),
        false => format!("c.{:016x}{:016x}.{dkey:016x}", oid.hi, oid.lo),
    }
}

/// The RADOS object of a shard; for arrays, the first object.
pub(super) fn shard(oid: ObjectId, index: u32) -> String {
    format!("o.{:016x}{:016x}.{index:x}", oid.hi, oid.lo)
}

/// Returns the names of all RADOS objects over which the dkeys of an object are spread. An Array has one, and others
/// for its chunks.
pub(super) fn shards(oid: ObjectId, targets: u32) -> Vec<String> {
    let count = if is_array(oid) { 1 } else { oid.class().groups_on(targets) };
    (0..count).map(|index| shard(oid, index)).collect()
}

/// True if the bytes of a dkey (in encoded form) may be in the data of the RADOS object that has its records: it is a
/// chunk of an array. Dkey 0 has its records in the object of the first chunk, whose data belongs to that chunk alone.
pub(super) fn has_data(oid: ObjectId, dkey: &[u8]) -> bool {
    is_array(oid) && dkey.try_into().map_or(0, u64::from_be_bytes) >= FIRST_CHUNK
}

/// True for the RADOS object of a chunk that is not in the first object of its Array.
pub(super) fn is_chunk(name: &str) -> bool {
    name.starts_with("c.")
}

/// The object whose shard or chunk has this name; `None` for other RADOS objects.
pub(super) fn object_of(name: &str) -> Option<ObjectId> {
    let digits = name.strip_prefix("o.").or_else(|| name.strip_prefix("c."))?.get(..32)?;
    let number = u128::from_str_radix(digits, 16).ok()?;
    Some(ObjectId::from_bytes(number.to_be_bytes()))
}

/// The RADOS object of a blob: a long value stored separately.
pub(super) fn blob(id: [u8; 16]) -> String {
    format!("b.{:032x}", u128::from_be_bytes(id))
}

/// Returns the name of the RADOS object that records the state of a transaction.
pub(super) fn transaction(id: &[u8]) -> String {
    let number = id.iter().fold(0u128, |number, byte| number << 8 | u128::from(*byte));
    format!("t.{number:032x}")
}

/// Appends `bytes` without zero bytes and in an order-preserving encoding: librados passes the start of a listing as
/// a C string.
fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        match byte {
            0 | 1 => out.extend([1, byte + 1]),
            _ => out.push(byte),
        }
    }
}

/// The bytes that an escaped key stands for; `None` if it is damaged.
fn unescape(escaped: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(escaped.len());
    let mut rest = escaped.iter();
    while let Some(&byte) = rest.next() {
        match byte {
            0 => return None,
            1 => bytes.push(rest.next()?.checked_sub(1).filter(|byte| *byte <= 1)?),
            _ => bytes.push(byte),
        }
    }
    Some(bytes)
}

/// Omap key of an akey; both keys are encoded. Without an akey, the common prefix of all akeys of the dkey.
pub(super) fn entry(dkey: &[u8], akey: &[u8]) -> Vec<u8> {
    let mut key = ENTRY.to_vec();
    escape(dkey, &mut key);
    escape(akey, &mut key);
    key
}

/// The dkey and akey of an omap entry; `None` for an entry of another kind.
pub(super) fn akey_path(oid: ObjectId, key: &[u8]) -> Option<AkeyPath> {
    let mut dkey = unescape(key.strip_prefix(ENTRY)?)?;
    let akey = dkey.split_off(encoded_len(oid.dkey_kind(), &dkey)?);
    (encoded_len(oid.akey_kind(), &akey)? == akey.len()).then_some(AkeyPath { oid, dkey, akey })
}

/// Returns an omap key that is greater than the keys of all akeys of the dkey, which is encoded. A listing continues
/// there with the next dkey.
pub(super) fn behind(dkey: &[u8]) -> Vec<u8> {
    let mut key = entry(dkey, &[]);
    while key.last() == Some(&0xff) {
        key.pop();
    }
    if let Some(last) = key.last_mut() {
        *last += 1;
    }
    key
}

/// Omap key of a chunk in the first object of an array. Keys are in descending order of chunks.
pub(super) fn chunk_key(dkey: u64) -> Vec<u8> {
    let mut key = CHUNK.to_vec();
    escape(&(!dkey).to_be_bytes(), &mut key);
    key
}

/// Decodes the dkey of a chunk from its omap key. None for the key of another entry.
pub(super) fn chunk_of(key: &[u8]) -> Option<u64> {
    let number = unescape(key.strip_prefix(CHUNK)?)?;
    Some(!u64::from_be_bytes(number.try_into().ok()?))
}

/// Returns the number of the chunk with this dkey, which is not encoded. None if the chunk is not stored in a separate
/// object, as the first one, or the object is not an Array.
pub(super) fn own_chunk(oid: ObjectId, dkey: &[u8]) -> Option<u64> {
    let number = is_array(oid).then(|| key_to_u64(dkey).ok()).flatten();
    number.filter(|number| *number > FIRST_CHUNK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_types::{ObjectClass, ObjectType};

    #[test]
    fn keys_round_trip_in_order_and_without_zero_bytes() {
        let oid = ObjectId::default();
        let keys: [&[u8]; 6] =
            [b"\0\0\0", b"\x01\0\0", b"a\0\0", b"a\0\xffb\0\0", b"ab\0\0", b"b\0\0"];
        let entries: Vec<_> = keys.iter().map(|dkey| entry(dkey, b"x\0\0")).collect();
        assert!(entries[1..].is_sorted() && entries.iter().all(|key| !key.contains(&0)));
        for (dkey, key) in keys.iter().zip(&entries).skip(1) {
            let found = akey_path(oid, key).unwrap();
            assert_eq!((found.dkey.as_slice(), found.akey.as_slice()), (*dkey, &b"x\0\0"[..]));
            assert!(*key < behind(dkey) && entry(dkey, b"\xff\xff\xff\0\0") < behind(dkey));
        }
        assert!(akey_path(oid, b"k").is_none() && akey_path(oid, b"kab").is_none());
    }

    #[test]
    fn the_last_chunk_comes_first() {
        let all = [2u64, 3, 255, 256, u64::MAX].map(chunk_key);
        assert!(all.iter().rev().is_sorted());
        assert_eq!(chunk_of(&all[3]), Some(256));
    }

    #[test]
    fn only_chunks_of_arrays_have_their_bytes_in_an_object() {
        let oid = |otype| ObjectId::generate(0, 1, otype, ObjectClass::S1);
        let (array, kv) = (oid(ObjectType::ArrayByte), oid(ObjectType::KvHashed));
        let has_data = |oid, dkey: u64| has_data(oid, &dkey.to_be_bytes());
        assert_eq!([0, 1, 2].map(|dkey| has_data(array, dkey)), [false, true, true]);
        assert!(!has_data(kv, 1));
    }

    #[test]
    fn names_of_shards_and_chunks_identify_their_object() {
        let oid = ObjectId { hi: 7, lo: 9 };
        for name in [shard(oid, 3), chunk(oid, 1), chunk(oid, 17)] {
            assert_eq!(object_of(&name), Some(oid));
        }
        assert_eq!(object_of(&blob([7; 16])), None);
    }
}
