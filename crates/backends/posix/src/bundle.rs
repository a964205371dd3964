//! The content of a dkey's file: its akeys, each with a single value or the records of an array.
use super::files;
use super::general::spot;
use esker_backend::encoding::{Parts, begin, finish, put_bytes, put_extent, put_u32, put_u64};
use esker_backend::object::history::Snapshots;
use esker_backend::object::records::{Records, Stored};
use esker_backend::object::tree::Tree;
use esker_types::ops::Source;
use esker_types::{Epoch, ObjectId, Result};
use std::path::Path;
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"ESKRDKEY";
const SINGLE: u32 = 0;
const ARRAY: u32 = 1;

/// A dkey, encoded, with its akeys.
pub(super) struct Bundle {
    pub(super) dkey: Vec<u8>,
    pub(super) tree: Tree,
}

/// Encodes the file of a dkey, which `tree` may hold among others.
pub(super) fn to_bytes(tree: &Tree, oid: ObjectId, dkey: &[u8]) -> Vec<u8> {
    let mut out = begin(MAGIC);
    put_bytes(&mut out, dkey);
    put_u32(&mut out, tree.dkey(oid, dkey, Epoch::MAX).count() as u32);
    for seen in tree.dkey(oid, dkey, Epoch::MAX) {
        put_bytes(&mut out, &seen.path.akey);
        put_u64(&mut out, seen.epoch.0);
        match seen.value {
            Stored::Single(value) => {
                put_u32(&mut out, SINGLE);
                put_bytes(&mut out, value);
            }
            Stored::Array(records) => put_records(&mut out, records),
        }
    }
    finish(out)
}

/// Appends the records of an array, with their extents and epochs.
fn put_records(out: &mut Vec<u8>, records: &Records) {
    put_u32(out, ARRAY);
    put_u64(out, records.record_size);
    put_u32(out, records.stored().count() as u32);
    for run in records.stored() {
        put_extent(out, run.extent);
        put_u64(out, run.epoch.0);
        out.extend_from_slice(records.bytes(run.extent, run.extent));
    }
}

/// Decodes the file of a dkey.
///
/// # Errors
/// `Corrupt`.
pub(super) fn read(bytes: &[u8], oid: ObjectId, path: &Path) -> Result<Bundle> {
    parse(bytes, oid).ok_or_else(|| files::damaged(path, "the file of a dkey is damaged"))
}

/// Parses a file with all akeys of a dkey; `None` if it is damaged.
fn parse(bytes: &[u8], oid: ObjectId) -> Option<Bundle> {
    let mut parts = Parts::open(MAGIC, bytes)?;
    let dkey = parts.bytes()?.to_vec();
    let mut tree = Tree::default();
    for _ in 0..parts.u32()? {
        let path = spot(oid, &dkey, parts.bytes()?);
        let epoch = Epoch(parts.u64()?);
        let value = match parts.u32()? {
            SINGLE => Stored::Single(Arc::from(parts.bytes()?)),
            ARRAY => Stored::Array(take_records(&mut parts)?),
            _ => return None,
        };
        tree.put(path, epoch, Some(value), &Snapshots::new());
    }
    Some(Bundle { dkey, tree })
}

/// Decodes the records of an array; `None` if bytes are missing.
fn take_records(parts: &mut Parts<'_>) -> Option<Records> {
    let mut records = Records::new(parts.u64()?);
    for _ in 0..parts.u32()? {
        let extent = parts.extent()?;
        let epoch = Epoch(parts.u64()?);
        let len = extent.count.checked_mul(records.record_size)?;
        let bytes = parts.take(usize::try_from(len).ok()?)?;
        records.write(extent, Source::One(bytes), 0, epoch);
    }
    Some(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_types::Extent;

    #[test]
    fn a_dkey_round_trips() {
        let oid = ObjectId { hi: 1, lo: 2 };
        let mut records = Records::new(2);
        records.write(Extent::new(5, 2), Source::One(b"abcd"), 0, Epoch(7));
        records.write(Extent::new(1 << 60, 1), Source::One(b"ef"), 0, Epoch(8));
        let mut tree = Tree::default();
        let values = [Stored::Single(Arc::from(&b"value"[..])), Stored::Array(records)];
        for (akey, value) in [b"a", b"b"].iter().zip(values) {
            tree.put(spot(oid, b"d\0\0", *akey), Epoch(9), Some(value), &Snapshots::new());
        }
        let bytes = to_bytes(&tree, oid, b"d\0\0");
        let read = parse(&bytes, oid).unwrap();
        assert_eq!(read.dkey, b"d\0\0");
        assert_eq!(to_bytes(&read.tree, oid, &read.dkey), bytes);
        assert!(parse(&bytes[1..], oid).is_none());
    }

    #[test]
    fn fuzz_dkeys() {
        let oid = ObjectId { hi: 1, lo: 2 };
        let mut records = Records::new(2);
        records.write(Extent::new(5, 2), Source::One(b"abcd"), 0, Epoch(7));
        let mut tree = Tree::default();
        tree.put(spot(oid, b"d", b"b"), Epoch(9), Some(Stored::Array(records)), &Snapshots::new());
        let mut bytes = to_bytes(&tree, oid, b"d");
        bytes.truncate(bytes.len() - 4);
        esker_testing::fuzz("dkeys", &[bytes], |body| {
            if let Some(read) = parse(&finish(body.to_vec()), oid) {
                to_bytes(&read.tree, oid, &read.dkey);
            }
        });
    }
}
