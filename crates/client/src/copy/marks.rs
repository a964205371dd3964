//! Marks of directories and files in copies of file systems (docs/format.md, "The file system in a container").
//!
//! A copy leaves out the stripe marks of files. They are valid only in a container with the property
//! [`STRIPE_MARKS`](crate::array::STRIPE_MARKS). A copy does not have that property, because files without stripe marks
//! may be copied to it later.
//!
//! A directory has a mark, except on pools where programs of DAOS would list it as a file. A copy to such a pool leaves
//! the marks out. A copy from there to another pool adds them: an empty directory has no object there, so the mark
//! follows from the entry that names the directory.
use super::batch::{Batch, Kind, Piece};
use crate::attributes::FILES_LAYOUT;
use crate::container::Container;
use esker_os::executor::Wait;
use esker_types::ops::{Cond, STRIPE_MARK, Source, Update, Value, Write, WriteOp};
use esker_types::{KeyBatch, ObjectId, ObjectType, Result};

/// The dkey and the akey of a mark.
const DKEY: &[u8] = b"/";
const AKEY: &[u8] = b"DFS_DIRECTORY";
const UPDATES: &[Update<'_>] =
    &[Update { akey: AKEY, value: Value::Single(Source::One(&[])), cond: Cond::NONE }];

/// The akey of an inode, and the bytes of it that are needed: the mode, and the object ID.
const INODE_AKEY: &[u8] = b"DFS_INODE";
const HEAD_BYTES: usize = 20;
/// Bits of the mode for the kind, and their value for a directory.
const KIND_MASK: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
/// The object of orphans: the lower half of `hi`, and `lo`. Its entries name no directories of the tree.
const ORPHANS: (u32, u64) = (2, 0);

/// How a copy treats the marks of directories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Marks {
    /// Marks are copied as they are.
    #[default]
    Copy,
    /// The destination has no marks: those of the source are left out.
    LeaveOut,
    /// The source has no marks: each directory that an entry names gets one.
    Add,
}

impl Marks {
    /// The rule for a copy from one container to another.
    pub(super) fn between(from: &Container, to: &Container) -> Result<Self> {
        let lacks_marks = |container: &Container| container.capabilities().fixed_layouts;
        let rule = match (lacks_marks(from), lacks_marks(to)) {
            (_, true) => Self::LeaveOut,
            (true, false) => Self::Add,
            (false, false) => return Ok(Self::Copy),
        };
        let has_files = from.properties().get(FILES_LAYOUT).wait()?.is_some();
        Ok(if has_files { rule } else { Self::Copy })
    }

    /// Returns the akeys of a dkey that are to be copied: all but the stripe mark of a file, and the mark of a
    /// directory if this copy leaves marks out.
    pub(super) fn copied(self, oid: ObjectId, dkey: &[u8], akeys: KeyBatch) -> KeyBatch {
        let mark = match () {
            // The object is a file: its stripe mark is never copied.
            () if is_stripe_mark(oid, STRIPE_MARK) => STRIPE_MARK,
            () if self == Self::LeaveOut && dkey == DKEY && is_directory(oid) => AKEY,
            () => return akeys,
        };
        let mut others = KeyBatch::default();
        akeys.iter().filter(|akey| *akey != mark).for_each(|akey| others.push(akey));
        others
    }

    /// The marks to write with a batch of an object: those of the directories that its entries name.
    pub(super) fn for_batch(self, oid: ObjectId, batch: &Batch) -> Vec<Write<'static>> {
        if self != Self::Add || !is_directory(oid) || (oid.hi as u32, oid.lo) == ORPHANS {
            return Vec::new();
        }
        let pieces = batch.dkeys.iter().flat_map(|(_, pieces)| pieces);
        let directories = pieces.filter_map(|piece| named_directory(piece, &batch.bytes));
        let op = WriteOp::Update { dkey: DKEY, cond: Cond::NONE, updates: UPDATES };
        directories.map(|oid| Write { oid, op }).collect()
    }
}

/// True for the stripe mark of a file.
pub(super) fn is_stripe_mark(oid: ObjectId, akey: &[u8]) -> bool {
    oid.object_type() == Some(ObjectType::ArrayByte) && akey == STRIPE_MARK
}

/// True for the type of directories, and of the superblock, which has the entry of the root.
fn is_directory(oid: ObjectId) -> bool {
    oid.object_type() == Some(ObjectType::MultiHashed)
}

/// The object id in an inode, if the piece is the inode of a directory.
fn named_directory(piece: &Piece, bytes: &[u8]) -> Option<ObjectId> {
    let Kind::Array { record_size: 1, extents } = &piece.kind else { return None };
    if piece.akey != INODE_AKEY {
        return None;
    }
    let mut head = [0; HEAD_BYTES];
    let offsets = extents.iter().flat_map(|extent| extent.start..extent.end());
    for (offset, byte) in offsets.zip(bytes.get(piece.range.clone())?) {
        if let Some(slot) = usize::try_from(offset).ok().and_then(|at| head.get_mut(at)) {
            *slot = *byte;
        }
    }
    // An inode begins with the mode and the two words of the object id.
    let (mode, words) = head.split_first_chunk::<4>()?;
    let (lo, hi) = (words.first_chunk()?, words.last_chunk()?);
    let is_directory = u32::from_le_bytes(*mode) & KIND_MASK == DIRECTORY;
    is_directory.then(|| ObjectId { hi: u64::from_le_bytes(*hi), lo: u64::from_le_bytes(*lo) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_types::{Extent, ObjectClass};

    const NAMED: ObjectId = ObjectId { hi: 7 << 40 | 5, lo: 9 };

    /// The inode of a directory, stored in extents that end at these offsets.
    fn batch(akey: &[u8], mode: u32, ends: &[u64]) -> Batch {
        let mut batch = Batch::default();
        let range = batch.room(88);
        batch.bytes[..4].copy_from_slice(&mode.to_le_bytes());
        batch.bytes[4..12].copy_from_slice(&NAMED.lo.to_le_bytes());
        batch.bytes[12..20].copy_from_slice(&NAMED.hi.to_le_bytes());
        let starts = std::iter::once(&0).chain(ends);
        let extents = starts.zip(ends).map(|(start, end)| Extent::new(*start, end - start));
        let kind = Kind::Array { record_size: 1, extents: extents.collect() };
        batch.add(b"name", Piece { akey: akey.to_vec(), kind, range });
        batch
    }

    /// The directories that get a mark when a copy writes an inode of this mode under the akey, in extents with these
    /// ends.
    fn marked(akey: &[u8], mode: u32, ends: &[u64]) -> Vec<ObjectId> {
        let oid = ObjectId::generate(16, 1, ObjectType::MultiHashed, ObjectClass::S1);
        let writes = Marks::Add.for_batch(oid, &batch(akey, mode, ends));
        writes.iter().map(|write| write.oid).collect()
    }

    #[test]
    fn directories_that_entries_name_are_marked() {
        assert_eq!(marked(INODE_AKEY, DIRECTORY | 0o755, &[88]), [NAMED]);
        assert_eq!(marked(INODE_AKEY, DIRECTORY, &[6, 20, 28, 88]), [NAMED]);
        for (akey, mode) in [(INODE_AKEY, 0o100_644), (&b"x:user.a"[..], DIRECTORY)] {
            assert_eq!(marked(akey, mode, &[88]), []);
        }
        let oid = ObjectId::generate(2, 0, ObjectType::MultiHashed, ObjectClass::S1);
        assert!(Marks::Add.for_batch(oid, &batch(INODE_AKEY, DIRECTORY, &[88])).is_empty());
    }

    #[test]
    fn only_marks_are_left_out() {
        let mut all = KeyBatch::default();
        [AKEY, INODE_AKEY, STRIPE_MARK].iter().for_each(|akey| all.push(akey));
        let count = |rule: Marks, otype, dkey: &[u8]| {
            let oid = ObjectId::generate(16, 1, otype, ObjectClass::S1);
            rule.copied(oid, dkey, all.clone()).len()
        };
        use ObjectType::{ArrayByte, KvHashed, MultiHashed};
        assert_eq!(count(Marks::LeaveOut, MultiHashed, DKEY), 2);
        assert_eq!(count(Marks::LeaveOut, MultiHashed, b"name"), 3);
        assert_eq!(count(Marks::LeaveOut, KvHashed, DKEY), 3);
        assert_eq!(count(Marks::Copy, MultiHashed, DKEY), 3);
        for rule in [Marks::Copy, Marks::LeaveOut, Marks::Add] {
            assert_eq!(count(rule, ArrayByte, &1u64.to_ne_bytes()), 2, "without the stripe mark");
        }
    }
}
